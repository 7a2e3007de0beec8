//! Expressions such as `= min(60, 2^(n-1))`.
//!
//! The `nanoexpr` crate parses and evaluates them: it limits the nesting, never allocates and reports the place of an error.
//! Only this file uses that crate. It restricts the crate's language to the documented one, so that another evaluator could
//! replace it, and it decides which results are delays.

use std::time::Duration;

use nanoexpr::{Context, ErrorKind, Evaluator, Number};

use super::duration::{MAX_DELAY, from_millis};
use super::error::IntervalError;
use super::piece::Piece;

/// The longest expression in bytes. With [`MAX_DEPTH`] it limits the time and the stack of an evaluation.
const MAX_LENGTH: usize = 200;

/// The deepest nesting of parentheses, calls and operators.
const MAX_DEPTH: usize = 32;

/// Retries up to this number are evaluated when the expression is parsed.
const CHECKED_RETRIES: u32 = 100;

const OPERAND: &str = "a number, `n`, a function or `(`";
const PLACE: &str = "an operand, an operator or the end of the expression";
const FUNCTIONS: &str = "one of the functions abs, ceil, exp, floor, ln, log10, log2, max, min, round and sqrt";

/// A checked expression. Its text is evaluated again for every delay, which takes less than a microsecond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expression {
    text: String,
}

impl Expression {
    /// Parses the part after the `=` and evaluates it for the first hundred retries.
    pub fn parse(piece: Piece<'_>) -> Result<Self, IntervalError> {
        let piece = piece.trim();
        if piece.is_empty() {
            return Err(piece.error(0, "an expression such as `min(60, 2^(n-1))`"));
        }
        if piece.as_str().len() > MAX_LENGTH {
            let expected = format!("an expression of at most {MAX_LENGTH} bytes");
            return Err(piece.error(0, expected));
        }
        check_characters(piece)?;
        for n in 1..=CHECKED_RETRIES {
            check_result(piece, n)?;
        }
        Ok(Self { text: piece.as_str().to_owned() })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the delay before retry `n`.
    ///
    /// Parsing checked the results up to retry 100. A later one that is too great becomes [`MAX_DELAY`]. One that is not a
    /// number or below a millisecond is replaced by the delay of retry 100, the last one that is known to be valid.
    pub fn delay(&self, n: u32) -> Duration {
        let at = |n| seconds(&self.text, n).ok().and_then(to_delay);
        // Without a valid delay, waiting is safer than a loop. The check above makes this case impossible.
        at(n).or_else(|| at(CHECKED_RETRIES)).unwrap_or(MAX_DELAY)
    }
}

fn to_delay(seconds: f64) -> Option<Duration> {
    from_millis(seconds * 1000.0)
}

/// Rejects what the evaluator would accept but the language does not have: comparisons, `?:`, `!`, `%` and `**`.
fn check_characters(piece: Piece<'_>) -> Result<(), IntervalError> {
    let text = piece.as_str();
    if let Some(at) = text.find('%') {
        return Err(piece.error(at, "no `%` here (a jitter is written ` ~10%`)"));
    }
    if let Some(at) = text.find("**") {
        return Err(piece.error(at, "`^` for a power"));
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || c.is_ascii_whitespace() || "_.,+-*/^()".contains(c);
    match text.find(|c| !fits(c)) {
        Some(at) => Err(piece.error(at, "only numbers, `n`, functions, parentheses and + - * / ^")),
        None => Ok(()),
    }
}

/// Evaluates the expression for retry `n` and rejects results that are no delay.
fn check_result(piece: Piece<'_>, n: u32) -> Result<(), IntervalError> {
    let value = seconds(piece.as_str(), n).map_err(|error| {
        let expected = match error.kind {
            ErrorKind::UnexpectedEnd => OPERAND.to_owned(),
            ErrorKind::UnclosedParenthesis => "a `)` for this `(`".to_owned(),
            ErrorKind::UnknownVariable => "`n`, the number of the retry and only variable".to_owned(),
            ErrorKind::UnknownFunction => FUNCTIONS.to_owned(),
            ErrorKind::ArgumentCount => "another number of arguments for this function".to_owned(),
            ErrorKind::TooManyArguments => "at most 8 arguments".to_owned(),
            ErrorKind::TooDeep => format!("at most {MAX_DEPTH} levels of nesting"),
            ErrorKind::InvalidNumber => "a smaller number".to_owned(),
            ErrorKind::Unsupported => "one of the operators + - * / ^".to_owned(),
            ErrorKind::Domain => format!("a number, but for n = {n} this is none"),
            _ => PLACE.to_owned(),
        };
        piece.error(error.span.start, expected)
    })?;
    if value == f64::INFINITY {
        let hint = "`min(3600, ...)` would limit it";
        let expected = format!("a finite result, but for n = {n} it is infinite ({hint})");
        return Err(piece.error(0, expected));
    }
    if to_delay(value).is_none() {
        let expected = format!("at least 0.001 seconds, but for n = {n} the result is {value:?}");
        return Err(piece.error(0, expected));
    }
    Ok(())
}

/// Returns the result for retry `n`; infinite if it is too great, never NaN.
fn seconds(text: &str, n: u32) -> Result<f64, nanoexpr::Error> {
    let retry = Retry { n: Real(f64::from(n)) };
    let evaluator = Evaluator::<Retry>::new(&retry).max_depth(MAX_DEPTH);
    evaluator.evaluate(text).map(|Real(value)| value)
}

/// The names an expression can use: the variable `n` and a closed list of functions.
struct Retry {
    n: Real,
}

impl Context<Real> for Retry {
    fn variable(&self, name: &str) -> Option<Real> {
        (name == "n").then_some(self.n)
    }

    fn call(&self, name: &str, arguments: &[Real]) -> Option<Result<Real, ErrorKind>> {
        let value = match (name, arguments) {
            ("abs", [x]) => x.0.abs(),
            ("ceil", [x]) => x.0.ceil(),
            ("exp", [x]) => x.0.exp(),
            ("floor", [x]) => x.0.floor(),
            ("ln", [x]) => x.0.ln(),
            ("log10", [x]) => x.0.log10(),
            ("log2", [x]) => x.0.log2(),
            ("max", [x, rest @ ..]) => rest.iter().fold(x.0, |greatest, x| greatest.max(x.0)),
            ("min", [x, rest @ ..]) => rest.iter().fold(x.0, |least, x| least.min(x.0)),
            ("round", [x]) => x.0.round(),
            ("sqrt", [x]) => x.0.sqrt(),
            ("abs" | "ceil" | "exp" | "floor" | "ln" | "log10" | "log2", _) | ("max" | "min" | "round" | "sqrt", _) => {
                return Some(Err(ErrorKind::ArgumentCount));
            }
            _ => return None,
        };
        Some(Real::checked(value))
    }
}

/// A number that may be infinite but never NaN.
///
/// The evaluator's own `f64` treats an infinite intermediate result as an error, so `min(60, 2^(n-1))` would have no value for
/// retry 1025. Here the intermediate result is infinite, and the final one is 60.
#[derive(Debug, Clone, Copy, Default)]
struct Real(f64);

impl Real {
    fn checked(value: f64) -> Result<Self, ErrorKind> {
        if value.is_nan() { Err(ErrorKind::Domain) } else { Ok(Self(value)) }
    }
}

impl Number for Real {
    fn parse(literal: &str) -> Option<Self> {
        literal.parse().ok().filter(|value: &f64| value.is_finite()).map(Self)
    }

    fn add(self, rhs: Self) -> Result<Self, ErrorKind> {
        Self::checked(self.0 + rhs.0)
    }

    fn subtract(self, rhs: Self) -> Result<Self, ErrorKind> {
        Self::checked(self.0 - rhs.0)
    }

    fn multiply(self, rhs: Self) -> Result<Self, ErrorKind> {
        Self::checked(self.0 * rhs.0)
    }

    fn divide(self, rhs: Self) -> Result<Self, ErrorKind> {
        Self::checked(self.0 / rhs.0)
    }

    /// Not in the language, although the evaluator supports the word `mod`.
    fn remainder(self, _: Self) -> Result<Self, ErrorKind> {
        Err(ErrorKind::Unsupported)
    }

    fn power(self, rhs: Self) -> Result<Self, ErrorKind> {
        Self::checked(self.0.powf(rhs.0))
    }

    fn negate(self) -> Result<Self, ErrorKind> {
        Ok(Self(-self.0))
    }
}

#[cfg(test)]
#[path = "expression_tests.rs"]
mod tests;
