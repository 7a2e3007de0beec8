//! Numbers in expressions: what the operators and filters of the engine get in place of values of the parameter.
//!
//! They *compare* numbers as decimals of any size and scale. They *calculate* with whole numbers of up to 38 digits exactly, and with all others as
//! binary floating-point numbers of 64 bits.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr, Value, ValueKind};
use minijinja::{Error, ErrorKind};
use solid_notify_core::path::Decimal;

use super::param::Written;

/// A number that is compared by its exact value.
#[derive(Debug)]
struct Exact {
    value: Value,
    exact: Decimal,
}

impl Object for Exact {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn custom_cmp(self: &Arc<Self>, other: &DynObject) -> Option<Ordering> {
        Some(self.exact.cmp(&other.downcast_ref::<Self>()?.exact))
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.value, f)
    }
}

/// How the values in a container are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// For comparisons.
    Compared,
    /// For calculations.
    Calculated,
    /// As they were before they were [`View::Compared`].
    Original,
}

/// A container whose values are seen in another way.
#[derive(Debug)]
struct Viewed {
    inner: Value,
    view: View,
}

impl View {
    /// Returns how a value is seen.
    pub(super) fn of(self, value: &Value) -> Value {
        match self {
            Self::Compared => compared(value),
            // An error shows where the value is used.
            Self::Calculated if value.kind() == ValueKind::Plain => calculated(value).unwrap_or_else(Value::from),
            Self::Original => match (value.downcast_object_ref::<Exact>(), value.downcast_object_ref::<Viewed>()) {
                (Some(exact), _) => exact.value.clone(),
                (_, Some(viewed)) if viewed.view == Self::Compared => viewed.inner.clone(),
                _ if value.is_none() => Value::from_object(Written::Null),
                _ => self.container(value),
            },
            Self::Calculated => self.container(value),
        }
    }

    fn container(self, value: &Value) -> Value {
        match value.kind() {
            ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => {
                Value::from_object(Viewed { inner: value.clone(), view: self })
            }
            _ => value.clone(),
        }
    }
}

impl Object for Viewed {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        match self.inner.kind() {
            ValueKind::Map => ObjectRepr::Map,
            ValueKind::Seq => ObjectRepr::Seq,
            _ => ObjectRepr::Iterable,
        }
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let value = self.inner.get_item(&View::Original.of(key)).ok()?;
        (!value.is_undefined()).then(|| self.view.of(&value))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let Ok(values) = self.inner.try_iter() else { return Enumerator::NonEnumerable };
        match (self.inner.kind(), self.inner.len()) {
            (ValueKind::Map, _) => Enumerator::Iter(Box::new(values)),
            (ValueKind::Seq, Some(length)) => Enumerator::Seq(length),
            _ => {
                let view = self.view;
                Enumerator::Iter(Box::new(values.map(move |value| view.of(&value))))
            }
        }
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        self.inner.len()
    }
}

/// Returns a value for a comparison.
pub(super) fn compared(value: &Value) -> Value {
    let exact = |exact: Decimal| Value::from_object(Exact { value: value.clone(), exact });
    match value.downcast_object_ref::<Written>() {
        Some(Written::Null) => Value::from(()),
        // Numbers to the engine, too.
        Some(Written::True) => exact(Decimal::read("1")),
        Some(Written::False) => exact(Decimal::read("0")),
        Some(Written::Number(number)) => exact(number.exact().clone()),
        Some(Written::Broken(_)) => value.clone(),
        None if value.is_number() => {
            let text = value.to_string();
            // Neither infinite nor no number.
            if text.ends_with(|last: char| last.is_ascii_digit()) { exact(Decimal::read(&text)) } else { value.clone() }
        }
        None if value.kind() == ValueKind::Bool => exact(Decimal::read(if value.is_true() { "1" } else { "0" })),
        None => View::Compared.container(value),
    }
}

/// Returns what values are looked for in.
pub(super) fn searched(value: &Value) -> Value {
    match value.kind() {
        ValueKind::Plain => calculated(value).unwrap_or_else(|_| value.clone()),
        _ => View::Compared.container(value),
    }
}

/// Returns a value for a calculation.
pub(super) fn calculated(value: &Value) -> Result<Value, Error> {
    Ok(match value.downcast_object_ref::<Written>() {
        Some(Written::Null) => Value::from(()),
        Some(Written::True) => Value::from(true),
        Some(Written::False) => Value::from(false),
        Some(Written::Number(number)) => match number.text().parse::<f64>() {
            Ok(float) if float.is_finite() => Value::from(float),
            _ => return Err(Error::new(ErrorKind::InvalidOperation, "a number is too large to calculate with")),
        },
        Some(Written::Broken(_)) | None => value.clone(),
    })
}
