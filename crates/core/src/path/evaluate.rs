//! Evaluates a filter over the tree of a parameter, within a budget.

use std::borrow::Cow;

use super::budget::{Budget, Unjudged};
use super::compare::{Value, equal, less};
use super::pattern::{Pattern, Refused};
use super::query::{Comparable, Comparison, Literal, Logical, Matches, PatternSource, Query, Segment, Selector};
use super::text::{decoded, for_patterns, length};
use super::tree::{Kind, Tree};

/// Returns whether a filter holds for the whole parameter.
pub(crate) fn holds(filter: &Logical, tree: &Tree<'_>, budget: &mut Budget) -> Result<bool, Unjudged> {
    Evaluation { tree, budget }.holds(filter, 0)
}

/// Returns what a query finds, in order.
#[cfg(test)]
pub(super) fn found(query: &Query, tree: &Tree<'_>, budget: &mut Budget) -> Result<Vec<u32>, Unjudged> {
    Evaluation { tree, budget }.nodes(query, 0)
}

struct Evaluation<'a> {
    tree: &'a Tree<'a>,
    budget: &'a mut Budget,
}

impl<'a> Evaluation<'a> {
    fn holds(&mut self, logical: &'a Logical, here: u32) -> Result<bool, Unjudged> {
        match logical {
            Logical::Or(all) => {
                for one in all {
                    if self.holds(one, here)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Logical::And(all) => {
                for one in all {
                    if !self.holds(one, here)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Logical::Not(negated) => Ok(!self.holds(negated, here)?),
            Logical::Exists(query) => Ok(!self.nodes(query, here)?.is_empty()),
            Logical::Compare(left, comparison, right) => {
                let (left, right) = (self.value(left, here)?, self.value(right, here)?);
                self.compare(left, *comparison, right)
            }
            Logical::Matches(call) => self.matches(call, here),
        }
    }

    fn compare(&mut self, left: Value<'a>, comparison: Comparison, right: Value<'a>) -> Result<bool, Unjudged> {
        let (tree, budget) = (self.tree, &mut *self.budget);
        match comparison {
            Comparison::Equal => equal(left, right, tree, budget),
            Comparison::NotEqual => Ok(!equal(left, right, tree, budget)?),
            Comparison::Less => less(left, right, tree, budget),
            Comparison::Greater => less(right, left, tree, budget),
            Comparison::LessOrEqual => Ok(less(left, right, tree, budget)? || equal(left, right, tree, budget)?),
            Comparison::GreaterOrEqual => Ok(less(right, left, tree, budget)? || equal(left, right, tree, budget)?),
        }
    }

    fn value(&mut self, comparable: &'a Comparable, here: u32) -> Result<Value<'a>, Unjudged> {
        self.budget.spend(1)?;
        Ok(match comparable {
            Comparable::Literal(literal) => Value::Literal(literal),
            Comparable::Singular(query) | Comparable::Value(query) => match self.nodes(query, here)?[..] {
                [node] => Value::Node(node),
                _ => Value::Nothing,
            },
            Comparable::Count(query) => Value::Count(self.nodes(query, here)?.len()),
            Comparable::Length(argument) => {
                let value = self.value(argument, here)?;
                if let Some(text) = self.text(value)? {
                    return Ok(Value::Count(length(&text)));
                }
                let Value::Node(node) = value else { return Ok(Value::Nothing) };
                match self.tree.kind(node) {
                    Kind::Array | Kind::Object => Value::Count(self.children(node)?.len()),
                    _ => Value::Nothing,
                }
            }
        })
    }

    /// Returns a value that is a text, without escapes.
    fn text(&mut self, value: Value<'a>) -> Result<Option<Cow<'a, [u8]>>, Unjudged> {
        Ok(match value {
            Value::Literal(Literal::Text(text)) => Some(Cow::Borrowed(text.as_bytes())),
            Value::Node(node) if self.tree.kind(node) == Kind::Text => {
                let raw = self.tree.raw_text(node);
                self.budget.spend_bytes(raw.len())?;
                Some(decoded(raw))
            }
            _ => None,
        })
    }

    fn matches(&mut self, call: &'a Matches, here: u32) -> Result<bool, Unjudged> {
        let text = self.value(&call.text, here)?;
        let Some(text) = self.text(text)? else { return Ok(false) };
        let compiled;
        let pattern = match &call.pattern {
            PatternSource::Literal(pattern) => pattern,
            PatternSource::Parameter(pattern) => {
                let pattern = self.value(pattern, here)?;
                let Some(pattern) = self.text(pattern)? else { return Ok(false) };
                // A lone surrogate is in no regular expression.
                let Ok(pattern) = std::str::from_utf8(&pattern) else { return Ok(false) };
                self.budget.at = call.at;
                match Pattern::compiled(pattern, call.whole, &mut |steps| self.budget.spend(steps)) {
                    Ok(pattern) => compiled = pattern,
                    Err(Refused::NoRegex(_)) => return Ok(false),
                    Err(Refused::Unjudged(unjudged)) => return Err(unjudged.of_expression(call.at)),
                }
                &compiled
            }
        };
        self.budget.at = call.at;
        self.budget.spend((text.len() as u64 + 1).saturating_mul(pattern.per_byte))?;
        Ok(pattern.matches(&for_patterns(text)))
    }

    /// Returns what a query finds, in order. A value that it finds twice is in it twice.
    fn nodes(&mut self, query: &'a Query, here: u32) -> Result<Vec<u32>, Unjudged> {
        let mut nodes = vec![if query.from_root { 0 } else { here }];
        for Segment { descends, selectors } in &query.segments {
            let mut selected = Vec::new();
            for node in nodes {
                let from = if *descends { self.tree.with_all_below(node) } else { node..node + 1 };
                for node in from {
                    self.budget.at = query.at;
                    self.budget.spend(1)?;
                    for selector in selectors {
                        self.select(selector, node, &mut selected)?;
                    }
                }
            }
            nodes = selected;
        }
        Ok(nodes)
    }

    fn children(&mut self, node: u32) -> Result<Vec<u32>, Unjudged> {
        let mut children = Vec::new();
        for child in self.tree.children(node) {
            self.budget.spend(1)?;
            children.push(child);
        }
        Ok(children)
    }

    /// Adds what a selector selects from a value.
    fn select(&mut self, selector: &'a Selector, node: u32, selected: &mut Vec<u32>) -> Result<(), Unjudged> {
        let is_array = match self.tree.kind(node) {
            Kind::Array => true,
            Kind::Object => false,
            _ => return Ok(()),
        };
        match selector {
            Selector::Name(name) if !is_array => {
                let mut found = None;
                for child in self.tree.children(node) {
                    let Some(raw) = self.tree.raw_name(child) else { continue };
                    self.budget.spend_bytes(raw.len())?;
                    // Of two members of one name the last one counts, as for most readers of JSON.
                    if *decoded(raw) == *name.as_bytes() {
                        found = Some(child);
                    }
                }
                selected.extend(found);
            }
            Selector::Index(index) if is_array => {
                let children = self.children(node)?;
                selected.extend(place(*index, children.len()).and_then(|place| children.get(place)));
            }
            Selector::Slice { start, end, step } if is_array => {
                let children = self.children(node)?;
                for place in slice(*start, *end, *step, children.len()) {
                    self.budget.spend(1)?;
                    selected.push(children[place]);
                }
            }
            Selector::Wildcard => {
                for child in self.tree.children(node) {
                    self.budget.spend(1)?;
                    selected.push(child);
                }
            }
            Selector::Filter(filter) => {
                for child in self.tree.children(node) {
                    self.budget.spend(1)?;
                    if self.holds(filter, child)? {
                        selected.push(child);
                    }
                }
            }
            Selector::Name(_) | Selector::Index(_) | Selector::Slice { .. } => {}
        }
        Ok(())
    }
}

/// Returns the place of an index in an array of this length. A negative one counts from the end.
fn place(index: i64, length: usize) -> Option<usize> {
    usize::try_from(if index < 0 { index + length as i64 } else { index }).ok()
}

/// Returns the places of a slice, as RFC 9535 defines them (section 2.3.4.2.2).
fn slice(start: Option<i64>, end: Option<i64>, step: i64, length: usize) -> impl Iterator<Item = usize> {
    let length = length as i64;
    let from_end = |index: i64| if index < 0 { index + length } else { index };
    let (start, end) = match step >= 0 {
        true => (from_end(start.unwrap_or(0)).clamp(0, length), from_end(end.unwrap_or(length)).clamp(0, length)),
        false => {
            let end = end.map_or(-1, |end| from_end(end).clamp(-1, length - 1));
            (from_end(start.unwrap_or(length - 1)).clamp(-1, length - 1), end)
        }
    };
    let is_within = move |place: &i64| if step > 0 { *place < end } else { step < 0 && *place > end };
    std::iter::successors(Some(start).filter(is_within), move |place| Some(place + step).filter(is_within))
        .map(|place| place as usize)
}
