//! Values of a parameter as templates see them. They keep how the parameter writes them: the digits of a number, the order of members.
//!
//! A number that the engine would write in the same way is one of its own numbers. Another one is [`Written`], as are `null`, `true`, `false` and a
//! text with a lone surrogate. How they are calculated with and compared is left to `compared.rs`.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr, Value};
use solid_notify_core::path::{Budget, Decimal, Kind, Tree, Unjudged, decoded};

thread_local! {
    /// What made a text that no receiver may get, because of a value that has no text. The engine asks for texts where no error can be returned.
    static PROBLEM: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Notes that the text that is being made has a gap.
pub(super) fn note_problem(problem: impl fmt::Display) {
    PROBLEM.with_borrow_mut(|known| {
        known.get_or_insert_with(|| problem.to_string());
    });
}

/// Returns the first problem since it was last asked for.
pub(super) fn take_problem() -> Option<String> {
    PROBLEM.take()
}

/// A value of a parameter that the engine has no exact value for.
#[derive(Debug)]
pub(super) enum Written {
    Null,
    True,
    False,
    Number(Number),
    /// A text with a lone surrogate, as JSON. No Rust text can have one.
    Broken(Box<str>),
}

/// A number as the parameter writes it.
#[derive(Debug)]
pub(super) struct Number {
    text: Box<str>,
    exact: OnceLock<Decimal>,
}

impl Number {
    fn new(text: &str) -> Self {
        Self { text: text.into(), exact: OnceLock::new() }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn exact(&self) -> &Decimal {
        self.exact.get_or_init(|| Decimal::read(&self.text))
    }
}

impl Written {
    /// Returns the value as JSON.
    pub(super) fn json(&self) -> &str {
        match self {
            Self::Null => "null",
            Self::True => "true",
            Self::False => "false",
            Self::Number(number) => &number.text,
            Self::Broken(text) => text,
        }
    }

    /// Returns why the value has no text, if it has none.
    pub(super) fn gap(&self) -> Option<&'static str> {
        match self {
            Self::Null => Some("a value is null; `default` gives it a text"),
            Self::Broken(_) => Some("a text has half a surrogate pair"),
            _ => None,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::False => 1,
            Self::True => 2,
            Self::Number(_) => 3,
            Self::Broken(_) => 4,
        }
    }
}

impl Object for Written {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    /// A loop over null makes nothing, as one over an empty list.
    fn enumerate(self: &Arc<Self>) -> Enumerator {
        if matches!(**self, Self::Null) { Enumerator::Empty } else { Enumerator::NonEnumerable }
    }

    fn is_true(self: &Arc<Self>) -> bool {
        match &**self {
            Self::Null | Self::False => false,
            Self::True | Self::Broken(_) => true,
            Self::Number(number) => *number.exact() != Decimal::read("0"),
        }
    }

    fn custom_cmp(self: &Arc<Self>, other: &DynObject) -> Option<Ordering> {
        let other = other.downcast_ref::<Self>()?;
        Some(match (&**self, other) {
            (Self::Number(one), Self::Number(other)) => one.exact().cmp(other.exact()),
            (Self::Broken(one), Self::Broken(other)) => one.cmp(other),
            (one, other) => one.rank().cmp(&other.rank()),
        })
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gap() {
            Some(gap) => {
                note_problem(gap);
                Ok(())
            }
            None => f.write_str(self.json()),
        }
    }
}

/// An array or object of a parameter.
#[derive(Debug)]
pub(super) struct Container {
    param: Arc<str>,
    place: Range<usize>,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Elements(Vec<Value>),
    Members {
        /// In the order of the parameter. Of two members of one name the last one counts.
        pairs: Vec<(Value, Value)>,
        /// Their places, in the order of names.
        by_name: Vec<u32>,
    },
}

impl Values {
    fn members(all: Vec<(Value, Value)>) -> Self {
        let mut by_name: Vec<u32> = (0..).take(all.len()).collect();
        by_name.sort_by(|one, other| all[*one as usize].0.cmp(&all[*other as usize].0).then(one.cmp(other)));
        let is_last = |at: usize| {
            let next = by_name.get(at + 1).map(|next| &all[*next as usize].0);
            next != Some(&all[by_name[at] as usize].0)
        };
        if (0..all.len()).all(is_last) {
            return Self::Members { pairs: all, by_name };
        }
        let mut kept: Vec<u32> = (0..all.len()).filter(|at| is_last(*at)).map(|at| by_name[at]).collect();
        kept.sort_unstable();
        let mut all: Vec<Option<(Value, Value)>> = all.into_iter().map(Some).collect();
        Self::members(kept.into_iter().filter_map(|at| all[at as usize].take()).collect())
    }
}

impl Container {
    /// Returns it as the parameter writes it.
    pub(super) fn json(&self) -> &str {
        &self.param[self.place.clone()]
    }
}

impl Object for Container {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        match self.values {
            Values::Elements(_) => ObjectRepr::Seq,
            Values::Members { .. } => ObjectRepr::Map,
        }
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match &self.values {
            Values::Elements(values) => values.get(key.as_usize()?).cloned(),
            Values::Members { pairs, by_name } => {
                let found = by_name.binary_search_by(|at| pairs[*at as usize].0.cmp(key)).ok()?;
                Some(pairs[by_name[found] as usize].1.clone())
            }
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        match &self.values {
            Values::Elements(values) => Enumerator::Seq(values.len()),
            Values::Members { pairs, .. } => Enumerator::Values(pairs.iter().map(|(name, _)| name.clone()).collect()),
        }
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(match &self.values {
            Values::Elements(values) => values.len(),
            Values::Members { pairs, .. } => pairs.len(),
        })
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.json())
    }
}

/// Reads a parameter.
pub(super) fn read(text: &str) -> Result<Value, Unjudged> {
    let (tree, param) = (Tree::read(text, &mut Budget::default())?, Arc::<str>::from(text));
    let null = Value::from_object(Written::Null);
    let (yes, no) = (Value::from_object(Written::True), Value::from_object(Written::False));
    // Those in a value stand behind it, so from the end on they are ready before it.
    let mut ready: Vec<Value> = vec![Value::UNDEFINED; tree.with_all_below(0).len()];
    for node in tree.with_all_below(0).rev() {
        let mut taken = |child: u32| std::mem::take(&mut ready[child as usize]);
        let container =
            |values| Value::from_object(Container { param: param.clone(), place: tree.place(node), values });
        let value = match tree.kind(node) {
            Kind::Null => null.clone(),
            Kind::True => yes.clone(),
            Kind::False => no.clone(),
            Kind::Number => number(tree.written(node)),
            Kind::Text => self::text(tree.raw_text(node)),
            Kind::Array => container(Values::Elements(tree.children(node).map(taken).collect())),
            Kind::Object => {
                let name = |child: u32| self::text(tree.raw_name(child).unwrap_or_default());
                container(Values::members(tree.children(node).map(|child| (name(child), taken(child))).collect()))
            }
        };
        ready[node as usize] = value;
    }
    Ok(ready.swap_remove(0))
}

/// Returns a number: one of the engine if it writes it in the same way.
fn number(text: &str) -> Value {
    let one = if let Ok(whole) = text.parse::<i128>() {
        Value::from(whole)
    } else if let Ok(whole) = text.parse::<u128>() {
        Value::from(whole)
    } else {
        // A longer text is never the shortest one.
        let float = if text.len() > 30 { Err(()) } else { text.parse::<f64>().map_err(drop) };
        float.map_or(Value::UNDEFINED, Value::from)
    };
    if one.to_string() == text { one } else { Value::from_object(Written::Number(Number::new(text))) }
}

/// Returns a text, which is given as it stands between its quotes.
fn text(raw: &str) -> Value {
    match String::from_utf8(decoded(raw).into_owned()) {
        Ok(text) => Value::from(text),
        Err(_) => Value::from_object(Written::Broken(format!("\"{raw}\"").into())),
    }
}
