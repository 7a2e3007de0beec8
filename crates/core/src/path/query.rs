//! A query of JSONPath (RFC 9535) in parsed form.

use super::number::Decimal;
use super::pattern::Pattern;

/// A query, or one of a filter.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    /// Whether it begins at the whole parameter (`$`) instead of the current value (`@`).
    pub(super) from_root: bool,
    pub(super) segments: Vec<Segment>,
    /// The byte of the expression at which it begins.
    pub(super) at: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Segment {
    /// Whether it also selects from all values below.
    pub(super) descends: bool,
    pub(super) selectors: Vec<Selector>,
}

#[derive(Debug, Clone)]
pub(super) enum Selector {
    Name(String),
    Wildcard,
    Index(i64),
    Slice { start: Option<i64>, end: Option<i64>, step: i64 },
    Filter(Logical),
}

/// A logical expression.
#[derive(Debug, Clone)]
pub(crate) enum Logical {
    Or(Vec<Logical>),
    And(Vec<Logical>),
    Not(Box<Logical>),
    Exists(Query),
    Compare(Comparable, Comparison, Comparable),
    Matches(Box<Matches>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A single value, or none.
#[derive(Debug, Clone)]
pub(crate) enum Comparable {
    Literal(Literal),
    /// A query that finds at most one value.
    Singular(Query),
    Length(Box<Comparable>),
    Count(Query),
    Value(Query),
}

#[derive(Debug, Clone)]
pub(crate) enum Literal {
    Null,
    False,
    True,
    Number(Decimal),
    Text(String),
}

/// A call of `match` (the whole text) or `search` (a part of it).
#[derive(Debug, Clone)]
pub(crate) struct Matches {
    pub(super) whole: bool,
    pub(super) text: Comparable,
    pub(super) pattern: PatternSource,
    pub(super) at: usize,
}

#[derive(Debug, Clone)]
pub(super) enum PatternSource {
    /// A literal, compiled once.
    Literal(Pattern),
    /// A text of the parameter.
    Parameter(Comparable),
}

impl Query {
    /// Returns whether it finds at most one value.
    pub(super) fn is_singular(&self) -> bool {
        let is_singular = |segment: &Segment| {
            !segment.descends && matches!(segment.selectors[..], [Selector::Name(_) | Selector::Index(_)])
        };
        self.segments.iter().all(is_singular)
    }
}
