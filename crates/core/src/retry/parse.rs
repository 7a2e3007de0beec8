//! Parses the text of a retry interval.
//!
//! Each function parses one part of the language and reports the first place that does not follow it. Durations and expressions
//! are parsed in their own files. Computing delays is left to `interval`.

use std::str::FromStr;
use std::time::Duration;

use super::duration;
use super::error::IntervalError;
use super::expression::Expression;
use super::interval::{DEFAULT_INTERVAL, Form, RetryInterval};
use super::piece::Piece;

/// The maximum length of a text in bytes. Every canonical text is shorter, so that a printed text can always be parsed.
const MAX_LENGTH: usize = 1000;

/// The maximum number of entries of a list.
pub(super) const MAX_ENTRIES: usize = 32;

/// The maximum number of characters of a decimal number.
const MAX_DIGITS: usize = 12;

/// The default cap of an exponential interval.
const DEFAULT_MAX: Duration = Duration::from_secs(60);

const FORMS: &str = "a retry interval: `5m`, `[5s,5m,1h]`, `exp(1s, x2, max 1m)`, `= min(60, 2^(n-1))` or \
                     `strategy:name`";

impl FromStr for RetryInterval {
    type Err = IntervalError;

    fn from_str(text: &str) -> Result<Self, IntervalError> {
        interval(text)
    }
}

/// Parses a form and the optional jitter after it.
fn interval(text: &str) -> Result<RetryInterval, IntervalError> {
    if text.len() > MAX_LENGTH {
        return Err(IntervalError::TooLong { length: text.len(), limit: MAX_LENGTH });
    }
    let whole = Piece::new(text);
    // No form contains a tilde, so the first one starts the jitter.
    let (before, behind) = match whole.split_once('~') {
        Some((before, behind)) => (before, Some(behind)),
        None => (whole, None),
    };
    let form = form(before.trim())?;
    let jitter = behind.map(jitter).transpose()?;
    Ok(RetryInterval { form, jitter })
}

/// Returns what to write for an interval without a duration, which may mean two things.
fn instead_of_nothing() -> String {
    format!("leave the interval out for the default `{DEFAULT_INTERVAL}`, and set max_retry_times to 0 for no retry")
}

fn form(piece: Piece<'_>) -> Result<Form, IntervalError> {
    if piece.is_empty() {
        return Err(piece.error(0, format!("{FORMS}; {}", instead_of_nothing())));
    }
    if let Some(expression) = piece.strip("=") {
        return Expression::parse(expression).map(Form::Expression);
    }
    if let Some(behind) = piece.strip("[") {
        return list(behind);
    }
    if piece.as_str().starts_with(|c: char| c.is_ascii_digit()) {
        return fixed(piece);
    }
    let (word, behind) = piece.take_while(|c| c.is_ascii_alphabetic());
    match word.as_str() {
        "exp" => exponential(behind.trim()),
        "strategy" => strategy(behind.trim()),
        _ => Err(piece.error(0, FORMS)),
    }
}

fn fixed(piece: Piece<'_>) -> Result<Form, IntervalError> {
    if let Some((_, behind)) = piece.split_once(',') {
        return Err(behind.error(0, "square brackets around a list, such as `[5s,5m]`"));
    }
    duration::parse(piece).map(Form::Fixed)
}

/// Parses a list after its opening bracket.
fn list(piece: Piece<'_>) -> Result<Form, IntervalError> {
    let inside = closed_by(']', piece)?;
    if inside.trim().is_empty() {
        return Err(inside.error(0, format!("at least one duration in the list; {}", instead_of_nothing())));
    }
    let mut delays = Vec::new();
    for entry in inside.entries() {
        if delays.len() == MAX_ENTRIES {
            return Err(entry.error(0, format!("at most {MAX_ENTRIES} entries (the last one repeats)")));
        }
        delays.push(duration::parse(entry)?);
    }
    Ok(Form::List(delays))
}

/// Parses an exponential interval after the word `exp`.
fn exponential(piece: Piece<'_>) -> Result<Form, IntervalError> {
    let Some(behind) = piece.strip("(") else {
        return Err(piece.error(0, "`(`, as in `exp(1s, x2, max 1m)`"));
    };
    let inside = closed_by(')', behind)?;
    let arguments: Vec<_> = inside.entries().take(4).collect();
    let (base, factor, max) = match arguments[..] {
        [base, factor] => (base, factor, None),
        [base, factor, max] => (base, factor, Some(max)),
        [_, _, _, more, ..] => {
            return Err(more.error(0, "at most three arguments: `exp(1s, x2, max 1m)`"));
        }
        _ => return Err(inside.error_at_end("a base and a factor: `exp(1s, x2)`")),
    };
    let delay = duration::parse(base)?;
    let factor = self::factor(factor)?;
    let max = match max {
        None => DEFAULT_MAX,
        Some(argument) => match argument.strip("max") {
            Some(max) => duration::parse(max)?,
            None => return Err(argument.error(0, "the longest delay, such as `max 1m`")),
        },
    };
    if delay > max {
        return Err(base.error(0, "a base that is not above `max` (1m when it is not given)"));
    }
    Ok(Form::Exponential { base: delay, factor, max })
}

fn factor(piece: Piece<'_>) -> Result<f64, IntervalError> {
    const EXPECTED: &str = "a factor of 1 or more, such as `x2` or `x1.5`";
    let number = piece.strip("x").and_then(|digits| decimal(digits.trim()));
    number.filter(|factor| *factor >= 1.0).ok_or_else(|| piece.error(0, EXPECTED))
}

/// Parses a named strategy after the word `strategy`.
fn strategy(piece: Piece<'_>) -> Result<Form, IntervalError> {
    let Some(behind) = piece.strip(":") else {
        return Err(piece.error(0, "`:` and a name, as in `strategy:working-hours`"));
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let (name, rest) = behind.trim().take_while(fits);
    if name.is_empty() || !rest.is_empty() {
        return Err(rest.error(0, "a name made of letters, digits and `_`, `.`, `-`"));
    }
    Ok(Form::Strategy(name.as_str().to_owned()))
}

/// Parses a jitter after its tilde.
fn jitter(piece: Piece<'_>) -> Result<f64, IntervalError> {
    const EXPECTED: &str = "a jitter above 0 % and up to 100 %, such as `~10%`";
    let piece = piece.trim();
    let Some((number, behind)) = piece.split_once('%') else {
        return Err(piece.error(0, EXPECTED));
    };
    if !behind.is_empty() {
        return Err(behind.trim().error(0, "nothing behind the jitter"));
    }
    let percent = decimal(number.trim()).filter(|percent| *percent > 0.0 && *percent <= 100.0);
    percent.ok_or_else(|| piece.error(0, EXPECTED))
}

/// Returns the part before the closing bracket, after which only white space is allowed.
fn closed_by(bracket: char, piece: Piece<'_>) -> Result<Piece<'_>, IntervalError> {
    let Some((inside, behind)) = piece.split_once(bracket) else {
        return Err(piece.error_at_end(format!("a closing `{bracket}`")));
    };
    let behind = behind.trim();
    if !behind.is_empty() {
        let expected = format!("nothing behind `{bracket}` but a jitter such as ` ~10%`");
        return Err(behind.error(0, expected));
    }
    Ok(inside)
}

/// Parses a number such as `2` or `1.5`. Signs, exponents and words such as `inf` are not part of the language.
fn decimal(piece: Piece<'_>) -> Option<f64> {
    let text = piece.as_str();
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let fits = digits(whole) && digits(fraction) && text.len() <= MAX_DIGITS;
    fits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_free_and_display_is_canonical() {
        for (text, canonical) in [
            ("5m", "5m"),
            (" \t300s\n", "5m"),
            ("90 m", "1h 30m"),
            ("[5s,5m,1h,1d]", "[5s,5m,1h,1d]"),
            (" [ 5 s , 60m ,24h ] ", "[5s,1h,1d]"),
            ("exp(1s, x2, max 1m)", "exp(1s, x2, max 1m)"),
            ("exp(1s,x2)", "exp(1s, x2, max 1m)"),
            (" exp ( 500ms , x 1.50 , max  1h ) ", "exp(500ms, x1.5, max 1h)"),
            ("exp(1m, x1.0)", "exp(1m, x1, max 1m)"),
            ("=n", "= n"),
            (" =  min(60, 2^(n-1)) ", "= min(60, 2^(n-1))"),
            ("strategy:Working_hours-2.0", "strategy:Working_hours-2.0"),
            (" strategy : nightly ", "strategy:nightly"),
            ("5m~10%", "5m ~10%"),
            ("[5s] ~ 12.50 %", "[5s] ~12.5%"),
            ("=n ~100%", "= n ~100%"),
            ("strategy:nightly~0.1%", "strategy:nightly ~0.1%"),
        ] {
            let interval: RetryInterval = text.parse().unwrap();
            assert_eq!(interval.to_string(), canonical, "{text}");
            assert_eq!(canonical.parse(), Ok(interval), "{text}");
        }
    }

    #[test]
    fn every_error_points_at_its_place() {
        const DURATION: &str = "a duration such as `5s` or `1h 30m`";
        const FACTOR: &str = "a factor of 1 or more, such as `x2` or `x1.5`";
        const JITTER: &str = "a jitter above 0 % and up to 100 %, such as `~10%`";
        const NAME: &str = "a name made of letters, digits and `_`, `.`, `-`";
        let or_else = instead_of_nothing();
        let (no_form, no_entry) =
            (format!("{FORMS}; {or_else}"), format!("at least one duration in the list; {or_else}"));
        let (no_form, no_entry) = (no_form.as_str(), no_entry.as_str());
        for (text, offset, expected) in [
            ("", 0, no_form),
            ("  ", 2, no_form),
            (" often", 1, FORMS),
            ("-5s", 0, FORMS),
            ("Exp(1s, x2)", 0, FORMS),
            ("exponential(1s)", 0, FORMS),
            ("~10%", 0, no_form),
            ("ü5s", 0, FORMS),
            ("5x", 0, DURATION),
            ("5", 0, "a unit behind `5`, such as `5s`"),
            ("0s", 0, "a duration of at least 1ms"),
            ("5s,5m]", 3, "square brackets around a list, such as `[5s,5m]`"),
            ("5s]", 2, DURATION),
            ("[5s,5x]", 4, DURATION),
            ("[ 5s, 5é ]", 6, DURATION),
            ("[5s,,5m]", 4, DURATION),
            ("[5s,]", 4, DURATION),
            ("[5s, 0s]", 5, "a duration of at least 1ms"),
            ("[]", 1, no_entry),
            ("[ ]", 1, no_entry),
            ("[", 1, "a closing `]`"),
            ("[5s,5m", 6, "a closing `]`"),
            ("[5s,5m ~10%", 6, "a closing `]`"),
            ("[5s] 10%", 5, "nothing behind `]` but a jitter such as ` ~10%`"),
            ("exp", 3, "`(`, as in `exp(1s, x2, max 1m)`"),
            ("exp 1s", 4, "`(`, as in `exp(1s, x2, max 1m)`"),
            ("exp(1s, x2", 10, "a closing `)`"),
            ("exp(1s, x2))", 11, "nothing behind `)` but a jitter such as ` ~10%`"),
            ("exp()", 4, "a base and a factor: `exp(1s, x2)`"),
            ("exp(1s)", 6, "a base and a factor: `exp(1s, x2)`"),
            ("exp(one, x2)", 4, DURATION),
            ("exp(0s, x2)", 4, "a duration of at least 1ms"),
            ("exp(1s, 2)", 8, FACTOR),
            ("exp(1s, x)", 8, FACTOR),
            ("exp(1s, x0.5)", 8, FACTOR),
            ("exp(1s, x1e3)", 8, FACTOR),
            ("exp(1s, xinf)", 8, FACTOR),
            ("exp(1s, x-2)", 8, FACTOR),
            ("exp(1s, x1.)", 8, FACTOR),
            ("exp(1s, x1234567890123)", 8, FACTOR),
            ("exp(1s, x2, 1m)", 12, "the longest delay, such as `max 1m`"),
            ("exp(1s, x2, max)", 15, DURATION),
            ("exp(1s, x2, max 1m, 3)", 20, "at most three arguments: `exp(1s, x2, max 1m)`"),
            ("exp(5m, x2)", 4, "a base that is not above `max` (1m when it is not given)"),
            ("= 60 - m", 7, "`n`, the number of the retry and only variable"),
            ("=", 1, "an expression such as `min(60, 2^(n-1))`"),
            ("strategy", 8, "`:` and a name, as in `strategy:working-hours`"),
            ("strategy nightly", 9, "`:` and a name, as in `strategy:working-hours`"),
            ("strategy:", 9, NAME),
            ("strategy: ~10%", 9, NAME),
            ("strategy:a b", 10, NAME),
            ("strategy:naïve", 11, NAME),
            ("5m ~", 4, JITTER),
            ("5m ~10", 4, JITTER),
            ("5m ~%", 4, JITTER),
            ("5m ~0%", 4, JITTER),
            ("5m ~101%", 4, JITTER),
            ("5m ~-1%", 4, JITTER),
            ("5m ~ten%", 4, JITTER),
            ("5m ~10% ~5%", 8, "nothing behind the jitter"),
        ] {
            let (text, expected) = (text.to_owned(), expected.to_owned());
            let error = IntervalError::Malformed { text: text.clone(), offset, expected };
            assert_eq!(text.parse::<RetryInterval>(), Err(error));
        }
    }

    #[test]
    fn a_list_has_at_most_32_entries() {
        let list = |entries| format!("[{}]", vec!["1s"; entries].join(","));
        let longest: RetryInterval = list(32).parse().unwrap();
        assert_eq!(longest.default_retries(), 32);
        let expected = "at most 32 entries (the last one repeats)";
        let error = Piece::new(&list(33)).error(97, expected);
        assert_eq!(list(33).parse::<RetryInterval>(), Err(error));
    }

    #[test]
    fn an_endless_text_is_refused_without_repeating_it() {
        let longest = format!("5m{}", " ".repeat(998));
        assert!(longest.parse::<RetryInterval>().is_ok());
        let error = "5".repeat(1001).parse::<RetryInterval>().unwrap_err();
        let message = "retry_interval: expected at most 1000 bytes, but the text has 1001";
        assert_eq!(error.to_string(), message);
    }

    #[test]
    fn the_longest_canonical_text_can_be_read() {
        let text = format!("[{}] ~99.999999999%", vec!["315575999999ms"; 32].join(","));
        let interval: RetryInterval = text.parse().unwrap();
        assert!(interval.to_string().len() < MAX_LENGTH);
        assert_eq!(interval.to_string().parse(), Ok(interval));
    }
}
