//! The filters and tests of the engine that must see numbers, `true`, `false` and `null` of a parameter as such, and those whose text has another form
//! here.

use minijinja::value::{Kwargs, Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, filters, tests};

use super::compared::{View, calculated, compared, searched};
use super::json;
use super::operands::{CALCULATED, COMPARED, SEARCHED};
use super::param::Written;

/// How many bytes are worth a step.
const BYTES_OF_A_STEP: usize = 64;

/// From here on the engine's filter `int` gives another number.
const TOO_LARGE: f64 = 1.7e38;

/// Adds them to an engine.
pub(super) fn add_to(engine: &mut Environment<'static>) {
    engine.add_filter(CALCULATED, |state: &State<'_, '_>, value: &Value| {
        charge(state, value)?;
        calculated(value)
    });
    engine.add_filter(COMPARED, |state: &State<'_, '_>, value: &Value| {
        charge(state, value)?;
        Ok::<_, Error>(compared(value))
    });
    engine.add_filter(SEARCHED, |value: &Value| searched(value));
    for (name, filter) in [
        ("abs", Value::from_function(filters::abs)),
        ("float", Value::from_function(filters::float)),
        ("int", Value::from_function(filters::int)),
        ("round", Value::from_function(filters::round)),
        ("sum", Value::from_function(filters::sum)),
    ] {
        engine.add_filter(name, move |state: &mut State<'_, '_>, value: &Value, rest: Rest<ValueOrKwargs>| {
            let value = calculated(value)?;
            if name == "int" {
                check_whole(&value)?;
            }
            call(&filter, state, View::Calculated.of(&value), rest)
        });
    }
    for (name, filter) in [
        ("dictsort", Value::from_function(filters::dictsort)),
        ("groupby", Value::from_function(filters::groupby)),
        ("max", Value::from_function(filters::max)),
        ("min", Value::from_function(filters::min)),
        ("sort", Value::from_function(filters::sort)),
        ("unique", Value::from_function(filters::unique)),
    ] {
        engine.add_filter(name, move |state: &mut State<'_, '_>, value: &Value, rest: Rest<ValueOrKwargs>| {
            state.consume_fuel(value.len().and_then(|length| u64::try_from(length).ok()).unwrap_or_default())?;
            Ok::<_, Error>(View::Original.of(&call(&filter, state, compared(value), rest)?))
        });
    }
    for name in ["default", "d"] {
        engine.add_filter(name, |state: &State<'_, '_>, value: &Value, others: Rest<Value>| {
            filters::default(state, if is_null(value) { &Value::UNDEFINED } else { value }, others)
        });
    }
    for name in ["escape", "e"] {
        engine.add_filter(name, escape);
    }
    engine.add_filter("format", format);
    engine.add_filter("tojson", tojson);
    add_tests_to(engine);
}

fn add_tests_to(engine: &mut Environment<'static>) {
    for (names, test) in [
        (&["boolean"][..], Value::from_function(tests::is_boolean)),
        (&["even"], Value::from_function(tests::is_even)),
        (&["false"], Value::from_function(tests::is_false)),
        (&["float"], Value::from_function(tests::is_float)),
        (&["integer", "int"], Value::from_function(tests::is_integer)),
        (&["number"], Value::from_function(tests::is_number)),
        (&["odd"], Value::from_function(tests::is_odd)),
        (&["true"], Value::from_function(tests::is_true)),
    ] {
        for name in names {
            let test = test.clone();
            engine.add_test(*name, move |state: &mut State<'_, '_>, value: &Value| {
                Ok::<_, Error>(test.call(state, &[View::Calculated.of(value)])?.is_true())
            });
        }
    }
    for (names, test) in [
        (&["eq", "equalto", "=="][..], Value::from_function(tests::is_eq)),
        (&["ne", "!="], Value::from_function(tests::is_ne)),
        (&["lt", "lessthan", "<"], Value::from_function(tests::is_lt)),
        (&["le", "<="], Value::from_function(tests::is_le)),
        (&["gt", "greaterthan", ">"], Value::from_function(tests::is_gt)),
        (&["ge", ">="], Value::from_function(tests::is_ge)),
        (&["in"], Value::from_function(tests::is_in)),
    ] {
        for name in names {
            let test = test.clone();
            engine.add_test(*name, move |state: &mut State<'_, '_>, value: &Value, other: &Value| {
                charge(state, value)?;
                charge(state, other)?;
                let other = if *name == "in" { searched(other) } else { compared(other) };
                Ok::<_, Error>(test.call(state, &[compared(value), other])?.is_true())
            });
        }
    }
    engine.add_test("divisibleby", |state: &State<'_, '_>, value: &Value, other: &Value| {
        charge(state, value)?;
        let (value, other) = (calculated(value)?, calculated(other)?);
        if other.is_number() && !other.is_true() {
            return Err(Error::new(ErrorKind::InvalidOperation, "a number is divided by 0"));
        }
        Ok(tests::is_divisibleby(&value, &other))
    });
    engine.add_test("none", |value: &Value| is_null(value));
    engine.add_test("string", |value: &Value| {
        tests::is_string(value) || matches!(value.downcast_object_ref(), Some(Written::Broken(_)))
    });
}

pub(super) fn is_null(value: &Value) -> bool {
    value.is_none() || matches!(value.downcast_object_ref(), Some(Written::Null))
}

/// Checks that a number has not more digits than the engine's whole numbers.
fn check_whole(value: &Value) -> Result<(), Error> {
    let is_float = value.is_number() && !value.is_integer();
    if is_float && f64::try_from(value.clone()).is_ok_and(|float| float.abs() > TOO_LARGE) {
        return Err(Error::new(ErrorKind::InvalidOperation, "a number is too large to calculate with"));
    }
    Ok(())
}

/// Returns a number without its fraction.
fn whole(state: &mut State<'_, '_>, value: Value) -> Result<Value, Error> {
    if !value.is_number() {
        return Ok(value);
    }
    check_whole(&value)?;
    Value::from_function(filters::int).call(state, &[value])
}

/// Takes the steps of reading a long number.
fn charge(state: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    match value.downcast_object_ref::<Written>() {
        Some(written) => charge_bytes(state, written.json().len()),
        None => Ok(()),
    }
}

fn charge_bytes(state: &State<'_, '_>, bytes: usize) -> Result<(), Error> {
    state.consume_fuel(u64::try_from(bytes / BYTES_OF_A_STEP).unwrap_or(u64::MAX))
}

fn call(filter: &Value, state: &mut State<'_, '_>, value: Value, rest: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let arguments: Vec<Value> = std::iter::once(value).chain(rest.into_values()).collect();
    filter.call(state, &arguments)
}

/// Escapes the text of a value, for HTML where the template escapes nothing.
fn escape(state: &mut State<'_, '_>, value: &Value) -> Result<Value, Error> {
    match state.auto_escape() {
        _ if value.is_safe() || value.as_str().is_some() => filters::escape(state, value),
        AutoEscape::Json => json::json(value).map(Value::from_safe_string),
        AutoEscape::Custom(_) => filters::escape(state, value),
        _ => {
            let text = json::inserted(value)?;
            filters::escape(state, &Value::from(text))
        }
    }
}

/// Formats values as `printf` does. `%s` writes a number as the parameter does.
fn format(state: &mut State<'_, '_>, text: &Value, rest: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let conversions = conversions(text.as_str().unwrap_or_default());
    let mut conversions = conversions.chars();
    let arguments = rest.into_values().into_iter().map(|value| {
        let conversion = conversions.next().unwrap_or('s');
        match value.kind() {
            _ if value.is_kwargs() || value.is_safe() => Ok(value),
            ValueKind::String | ValueKind::Undefined => Ok(value),
            _ if matches!(conversion, 's' | 'r' | 'a') => json::inserted(&value).map(Value::from),
            _ => {
                let value = calculated(&value)?;
                let is_whole = matches!(conversion, 'c' | 'd' | 'i' | 'o' | 'u' | 'x' | 'X');
                if is_whole { whole(state, value) } else { Ok(value) }
            }
        }
    });
    let arguments: Vec<Value> = arguments.collect::<Result<_, _>>()?;
    let all: Vec<Value> = std::iter::once(text.clone()).chain(arguments).collect();
    Value::from_function(filters::format).call(state, &all)
}

/// Returns the letters of the conversions in a text for [`format`], and `*` where a width is taken from the values.
fn conversions(text: &str) -> String {
    let mut found = String::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('%') {
        let end = after.find(|sign: char| sign.is_ascii_alphabetic() || sign == '%').unwrap_or(after.len());
        found.extend(after[..end].matches('*').map(|_| '*'));
        found.extend(after[end..].chars().next().filter(|sign| *sign != '%'));
        rest = after.get(end + 1..).unwrap_or_default();
    }
    found
}

/// Returns a value as JSON that is safe in HTML, too.
fn tojson(state: &State<'_, '_>, value: &Value, indent: Option<Value>, others: Kwargs) -> Result<Value, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => others.get("indent")?,
    };
    others.assert_all_used()?;
    let indent = match indent.as_ref().map(calculated).transpose()? {
        Some(indent) if indent.is_none() => None,
        Some(indent) if indent.kind() == ValueKind::Bool => indent.is_true().then_some(2),
        Some(indent) => Some(usize::try_from(indent)?),
        None => None,
    };
    let mut text = json::json(value)?;
    if let Some(indent) = indent {
        text = json::in_lines(&text, indent)?;
    }
    charge_bytes(state, text.len())?;
    for (sign, escaped) in [("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("'", "\\u0027")] {
        if text.contains(sign) {
            text = text.replace(sign, escaped);
        }
    }
    Ok(Value::from_safe_string(text))
}
