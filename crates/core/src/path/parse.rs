//! Reads filters and queries of JSONPath (RFC 9535). Each byte is read once, and nesting is bounded, so that no text takes long.

use super::cursor::{Cursor, Result};
use super::pattern::{Pattern, Refused};
use super::query::{Comparable, Comparison, Literal, Logical, Matches, PatternSource, Query, Segment, Selector};

/// The most brackets and parentheses in one another.
pub(crate) const DEEPEST: usize = 16;

/// The sum of the sizes of the patterns of a filter, in bytes.
const PATTERNS: usize = 2 << 20;

/// The functions that RFC 9535 defines.
const FUNCTIONS: &str = "`length`, `count`, `match`, `search` and `value`";

const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

/// Reads a logical expression, such as `@.amount > 100`.
pub(crate) fn filter(text: &str) -> Result<Logical> {
    let mut parser = Parser::new(text);
    parser.cursor.blanks();
    let logical = parser.either()?;
    parser.cursor.blanks();
    if !parser.cursor.rest().is_empty() {
        return parser.cursor.expected("`&&`, `||` or the end");
    }
    Ok(logical)
}

/// Reads a whole query, such as `$.items[0]`.
#[cfg(test)]
pub(super) fn query(text: &str) -> Result<Query> {
    let mut parser = Parser::new(text);
    if !text.starts_with('$') {
        return parser.cursor.expected("`$`");
    }
    let query = parser.query()?;
    if !parser.cursor.rest().is_empty() {
        return parser.cursor.expected("`.`, `[` or the end");
    }
    Ok(query)
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    depth: usize,
    /// How many bytes the patterns that follow may take.
    patterns: usize,
}

/// The result of a function, by the types of RFC 9535.
enum Call {
    Logical(Logical),
    Value(Comparable),
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Self { cursor: Cursor::new(text), depth: 0, patterns: PATTERNS }
    }

    /// Reads what stands in brackets or parentheses.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == DEEPEST {
            return Cursor::wrong(self.cursor.at, format!("there are more than {DEEPEST} brackets in one another"));
        }
        self.depth += 1;
        let result = read(self)?;
        self.depth -= 1;
        Ok(result)
    }

    fn either(&mut self) -> Result<Logical> {
        self.joined("||", Self::both, Logical::Or)
    }

    fn both(&mut self) -> Result<Logical> {
        self.joined("&&", Self::single, Logical::And)
    }

    /// Reads expressions between which stands `operator`.
    fn joined(
        &mut self,
        operator: &str,
        read: fn(&mut Self) -> Result<Logical>,
        join: fn(Vec<Logical>) -> Logical,
    ) -> Result<Logical> {
        let first = read(self)?;
        let mut all = vec![first];
        while self.cursor.eat_after_blanks(operator) {
            self.cursor.blanks();
            all.push(read(self)?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { join(all) })
    }

    fn single(&mut self) -> Result<Logical> {
        if self.cursor.eat("!") {
            self.cursor.blanks();
            let negated = if self.cursor.rest().starts_with('(') { self.in_parentheses()? } else { self.test()? };
            return Ok(Logical::Not(Box::new(negated)));
        }
        if self.cursor.rest().starts_with('(') {
            return self.in_parentheses();
        }
        self.comparison_or_test(true)
    }

    fn in_parentheses(&mut self) -> Result<Logical> {
        self.nested(|parser| {
            parser.cursor.eat("(");
            parser.cursor.blanks();
            let logical = parser.either()?;
            if !parser.cursor.eat_after_blanks(")") {
                return parser.cursor.expected("`&&`, `||` or `)`");
            }
            Ok(logical)
        })
    }

    fn test(&mut self) -> Result<Logical> {
        self.comparison_or_test(false)
    }

    /// Reads a comparison, if it may be one, or a query or function that stands alone.
    fn comparison_or_test(&mut self, may_compare: bool) -> Result<Logical> {
        let start = self.cursor.at;
        let (left, comparison) = if matches!(self.cursor.peek(), Some('@' | '$')) {
            let query = self.query()?;
            let Some(comparison) = self.comparison(may_compare) else { return Ok(Logical::Exists(query)) };
            (singular(query, start)?, comparison)
        } else {
            let left = match self.cursor.peek() {
                Some('a'..='z') => match self.call_or_word()? {
                    Call::Logical(logical) => return Ok(logical),
                    Call::Value(value) => value,
                },
                Some('-' | '0'..='9' | '\'' | '"') => Comparable::Literal(self.literal()?),
                _ => return self.cursor.expected("an expression such as `@.amount > 100`"),
            };
            let Some(comparison) = self.comparison(may_compare) else {
                return self.cursor.expected("a comparison such as `> 100`");
            };
            (left, comparison)
        };
        self.cursor.blanks();
        let right = self.comparable()?;
        Ok(Logical::Compare(left, comparison, right))
    }

    fn comparison(&mut self, may_compare: bool) -> Option<Comparison> {
        let found = COMPARISONS.iter().find(|(sign, _)| may_compare && self.cursor.eat_after_blanks(sign));
        found.map(|(_, comparison)| *comparison)
    }

    /// Reads a literal, a query that finds at most one value, or a function that returns a value.
    fn comparable(&mut self) -> Result<Comparable> {
        let start = self.cursor.at;
        match self.cursor.peek() {
            Some('@' | '$') => singular(self.query()?, start),
            Some('a'..='z') => match self.call_or_word()? {
                Call::Value(value) => Ok(value),
                Call::Logical(_) => {
                    Cursor::wrong(start, "`match` and `search` are true or false, and no value to compare")
                }
            },
            Some('-' | '0'..='9' | '\'' | '"') => self.literal().map(Comparable::Literal),
            _ => self.cursor.expected("a value: a literal such as `'DE'`, a query such as `@.amount`, or a function"),
        }
    }

    fn literal(&mut self) -> Result<Literal> {
        match self.cursor.peek() {
            Some('\'' | '"') => self.cursor.quoted().map(Literal::Text),
            _ => self.cursor.number().map(Literal::Number),
        }
    }

    /// Reads `true`, `false`, `null`, or the call of a function.
    fn call_or_word(&mut self) -> Result<Call> {
        let start = self.cursor.at;
        let word = self.cursor.word();
        if !self.cursor.rest().starts_with('(') {
            let literal = match word {
                "null" => Literal::Null,
                "false" => Literal::False,
                "true" => Literal::True,
                _ => {
                    let problem = format!(
                        "{word:?} is unknown: a text is in quotes, a member of the parameter is written `@.{word}`"
                    );
                    return Cursor::wrong(start, problem);
                }
            };
            return Ok(Call::Value(Comparable::Literal(literal)));
        }
        self.nested(|parser| {
            parser.cursor.eat("(");
            parser.cursor.blanks();
            let call = match word {
                "length" => Call::Value(Comparable::Length(Box::new(parser.comparable()?))),
                "count" => Call::Value(Comparable::Count(parser.any_query()?)),
                "value" => Call::Value(Comparable::Value(parser.any_query()?)),
                "match" | "search" => parser.matches(word == "match", start)?,
                _ => return Cursor::wrong(start, format!("the function {word:?} is unknown; there are {FUNCTIONS}")),
            };
            if !parser.cursor.eat_after_blanks(")") {
                return parser.cursor.expected(&format!("`)`, which ends the arguments of `{word}`"));
            }
            Ok(call)
        })
    }

    fn matches(&mut self, whole: bool, at: usize) -> Result<Call> {
        let text = self.comparable()?;
        if !self.cursor.eat_after_blanks(",") {
            return self.cursor.expected("`,` and a pattern");
        }
        self.cursor.blanks();
        let start = self.cursor.at;
        let pattern = match self.comparable()? {
            Comparable::Literal(Literal::Text(pattern)) => match Pattern::compiled(&pattern, whole, &mut |_| Ok(())) {
                Ok(pattern) => {
                    let Some(left) = self.patterns.checked_sub(pattern.size) else {
                        let problem = format!("the patterns of a filter compile to at most {PATTERNS} bytes together");
                        return Cursor::wrong(start, problem);
                    };
                    self.patterns = left;
                    PatternSource::Literal(pattern)
                }
                Err(Refused::NoRegex(problem)) => {
                    return Cursor::wrong(
                        start,
                        format!("the pattern {pattern:?} is no regular expression: {problem}"),
                    );
                }
                Err(Refused::Unjudged(limit)) => return Err(limit.of_expression(start).to_string()),
            },
            other => PatternSource::Parameter(other),
        };
        Ok(Call::Logical(Logical::Matches(Box::new(Matches { whole, text, pattern, at }))))
    }

    fn any_query(&mut self) -> Result<Query> {
        match self.cursor.peek() {
            Some('@' | '$') => self.query(),
            _ => self.cursor.expected("a query such as `@.items[*]`"),
        }
    }

    fn query(&mut self) -> Result<Query> {
        let at = self.cursor.at;
        let from_root = self.cursor.eat("$");
        if !from_root {
            self.cursor.eat("@");
        }
        let mut segments = Vec::new();
        while let Some(segment) = self.segment()? {
            segments.push(segment);
        }
        Ok(Query { from_root, segments, at })
    }

    fn segment(&mut self) -> Result<Option<Segment>> {
        let before = self.cursor.at;
        self.cursor.blanks();
        let (descends, dotted) = match self.cursor.rest() {
            rest if rest.starts_with("..") => (true, true),
            rest if rest.starts_with('.') => (false, true),
            rest if rest.starts_with('[') => (false, false),
            _ => {
                self.cursor.at = before;
                return Ok(None);
            }
        };
        self.cursor.at += usize::from(dotted) + usize::from(descends);
        let selectors = match self.cursor.peek() {
            Some('[') if descends || !dotted => self.selectors()?,
            Some('*') => {
                self.cursor.eat("*");
                vec![Selector::Wildcard]
            }
            _ => vec![Selector::Name(self.cursor.name()?)],
        };
        Ok(Some(Segment { descends, selectors }))
    }

    fn selectors(&mut self) -> Result<Vec<Selector>> {
        self.nested(|parser| {
            parser.cursor.eat("[");
            let mut selectors = Vec::new();
            loop {
                parser.cursor.blanks();
                selectors.push(parser.selector()?);
                if parser.cursor.eat_after_blanks("]") {
                    return Ok(selectors);
                }
                if !parser.cursor.eat_after_blanks(",") {
                    return parser.cursor.expected("`,` or `]`");
                }
            }
        })
    }

    fn selector(&mut self) -> Result<Selector> {
        match self.cursor.peek() {
            Some('\'' | '"') => self.cursor.quoted().map(Selector::Name),
            Some('*') => {
                self.cursor.eat("*");
                Ok(Selector::Wildcard)
            }
            Some('?') => {
                self.cursor.eat("?");
                self.cursor.blanks();
                self.either().map(Selector::Filter)
            }
            Some('-' | ':' | '0'..='9') => self.index_or_slice(),
            _ => self.cursor.expected("a name in quotes, an index, `*` or `?` and a filter"),
        }
    }

    fn index_or_slice(&mut self) -> Result<Selector> {
        let start = self.cursor.whole()?;
        if !self.cursor.eat_after_blanks(":") {
            return start.map_or_else(|| self.cursor.expected("a whole number"), |index| Ok(Selector::Index(index)));
        }
        let end = self.after_blanks()?;
        let step = if self.cursor.eat_after_blanks(":") { self.after_blanks()? } else { None };
        Ok(Selector::Slice { start, end, step: step.unwrap_or(1) })
    }

    fn after_blanks(&mut self) -> Result<Option<i64>> {
        let before = self.cursor.at;
        self.cursor.blanks();
        let whole = self.cursor.whole()?;
        if whole.is_none() {
            self.cursor.at = before;
        }
        Ok(whole)
    }
}

/// Returns a query as a value, if it finds at most one.
fn singular(query: Query, at: usize) -> Result<Comparable> {
    if query.is_singular() {
        return Ok(Comparable::Singular(query));
    }
    Cursor::wrong(
        at,
        "this query can find several values; compare `count(…)` or `value(…)` of it, or test them by `@.items[?@.sku == 'A-1']`",
    )
}
