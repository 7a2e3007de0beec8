//! Compares values as RFC 9535 says (section 2.3.5.2.2): numbers by their exact value, texts by code points, arrays and objects as a whole.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::budget::{Budget, Unjudged};
use super::number::Decimal;
use super::query::Literal;
use super::text::decoded;
use super::tree::{Kind, Tree};

/// A value that is compared.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Nothing,
    Node(u32),
    Literal(&'a Literal),
    Count(usize),
}

/// A value that is ready to be compared.
#[derive(PartialEq)]
enum Plain<'a> {
    Nothing,
    Null,
    False,
    True,
    Number(Cow<'a, Decimal>),
    Text(Cow<'a, [u8]>),
    Array(u32),
    Object(u32),
}

fn plain<'a>(value: Value<'a>, tree: &Tree<'a>, budget: &mut Budget) -> Result<Plain<'a>, Unjudged> {
    let node = match value {
        Value::Nothing => return Ok(Plain::Nothing),
        Value::Count(count) => return Ok(Plain::Number(Cow::Owned(Decimal::read(&count.to_string())))),
        Value::Literal(Literal::Null) => return Ok(Plain::Null),
        Value::Literal(Literal::False) => return Ok(Plain::False),
        Value::Literal(Literal::True) => return Ok(Plain::True),
        Value::Literal(Literal::Number(number)) => return Ok(Plain::Number(Cow::Borrowed(number))),
        Value::Literal(Literal::Text(text)) => return Ok(Plain::Text(Cow::Borrowed(text.as_bytes()))),
        Value::Node(node) => node,
    };
    let kind = tree.kind(node);
    if matches!(kind, Kind::Number | Kind::Text) {
        budget.spend_bytes(tree.written(node).len())?;
    }
    Ok(match kind {
        Kind::Null => Plain::Null,
        Kind::False => Plain::False,
        Kind::True => Plain::True,
        Kind::Number => Plain::Number(Cow::Owned(Decimal::read(tree.written(node)))),
        Kind::Text => Plain::Text(decoded(tree.raw_text(node))),
        Kind::Array => Plain::Array(node),
        Kind::Object => Plain::Object(node),
    })
}

/// Returns whether two values are equal. What is missing equals only what is missing, too.
pub(super) fn equal(left: Value<'_>, right: Value<'_>, tree: &Tree<'_>, budget: &mut Budget) -> Result<bool, Unjudged> {
    budget.spend(1)?;
    match (plain(left, tree, budget)?, plain(right, tree, budget)?) {
        (Plain::Array(left), Plain::Array(right)) => {
            let (mut lefts, mut rights) = (tree.children(left), tree.children(right));
            loop {
                match (lefts.next(), rights.next()) {
                    (None, None) => return Ok(true),
                    (Some(left), Some(right)) if equal(Value::Node(left), Value::Node(right), tree, budget)? => {}
                    _ => return Ok(false),
                }
            }
        }
        (Plain::Object(left), Plain::Object(right)) => {
            let (left, right) = (members(left, tree, budget)?, members(right, tree, budget)?);
            if left.len() != right.len() {
                return Ok(false);
            }
            for ((name, left), (other, right)) in left.into_iter().zip(right) {
                if name != other || !equal(Value::Node(left), Value::Node(right), tree, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (left, right) => Ok(left == right),
    }
}

/// Returns the members of an object by name. Of two members of one name the last one counts.
fn members<'a>(object: u32, tree: &Tree<'a>, budget: &mut Budget) -> Result<BTreeMap<Cow<'a, [u8]>, u32>, Unjudged> {
    let mut members = BTreeMap::new();
    for child in tree.children(object) {
        let name = tree.raw_name(child).unwrap_or_default();
        budget.spend(8)?;
        budget.spend_bytes(name.len())?;
        members.insert(decoded(name), child);
    }
    Ok(members)
}

/// Returns whether both are numbers, or both are texts, and the first one is less.
pub(super) fn less(left: Value<'_>, right: Value<'_>, tree: &Tree<'_>, budget: &mut Budget) -> Result<bool, Unjudged> {
    Ok(match (plain(left, tree, budget)?, plain(right, tree, budget)?) {
        (Plain::Number(left), Plain::Number(right)) => left < right,
        (Plain::Text(left), Plain::Text(right)) => left < right,
        _ => false,
    })
}
