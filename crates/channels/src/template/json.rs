//! The text of a value where a template inserts it, and its JSON.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};

use super::param::{Container, Written};

/// How deep lists of a template may nest that are inserted.
const DEEPEST: usize = 100;

/// The most bytes of one JSON text: those of the longest parameter that is read.
const LONGEST: usize = 16 << 20;

/// Returns the text of a value: JSON, but a text without its quotes.
///
/// # Errors
/// The value has no text.
pub(super) fn inserted(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::String | ValueKind::Bytes | ValueKind::Undefined => Ok(value.to_string()),
        ValueKind::None => Err(no_text(Written::Null.gap().unwrap_or_default())),
        ValueKind::Plain => match value.downcast_object_ref::<Written>().and_then(Written::gap) {
            Some(gap) => Err(no_text(gap)),
            None => Ok(value.to_string()),
        },
        _ => json(value),
    }
}

fn no_text(problem: &'static str) -> Error {
    super::param::note_problem(problem);
    Error::new(ErrorKind::InvalidOperation, problem)
}

/// Returns a value as JSON. What is of the parameter is as it is written there.
///
/// # Errors
/// The value does not exist, or JSON has no such value.
pub(super) fn json(value: &Value) -> Result<String, Error> {
    let mut text = String::new();
    write(value, &mut text, 0)?;
    Ok(text)
}

fn write(value: &Value, text: &mut String, depth: usize) -> Result<(), Error> {
    if depth > DEEPEST || text.len() > LONGEST {
        return Err(no_text("a list nests too deep or is too long"));
    }
    if let Some(written) = value.downcast_object_ref::<Written>() {
        text.push_str(written.json());
        return Ok(());
    }
    if let Some(container) = value.downcast_object_ref::<Container>() {
        text.push_str(container.json());
        return Ok(());
    }
    match value.kind() {
        ValueKind::Undefined => return Err(Error::from(ErrorKind::UndefinedError)),
        ValueKind::None => text.push_str("null"),
        ValueKind::Bool => text.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => {
            let number = value.to_string();
            if !number.ends_with(|last: char| last.is_ascii_digit()) {
                return Err(no_text("the result of a calculation is not a number"));
            }
            text.push_str(&number);
        }
        ValueKind::Seq | ValueKind::Iterable => {
            text.push('[');
            for (at, element) in value.try_iter()?.enumerate() {
                text.push_str(if at == 0 { "" } else { ", " });
                write(&element, text, depth + 1)?;
            }
            text.push(']');
        }
        ValueKind::Map => {
            text.push('{');
            for (at, name) in value.try_iter()?.enumerate() {
                text.push_str(if at == 0 { "" } else { ", " });
                match name.downcast_object_ref::<Written>() {
                    Some(Written::Broken(name)) => text.push_str(name),
                    _ => push_quoted(&name.to_string(), text),
                }
                text.push_str(": ");
                write(&value.get_item(&name)?, text, depth + 1)?;
            }
            text.push('}');
        }
        ValueKind::Invalid => return Err(Error::from(ErrorKind::BadSerialization)),
        _ => push_quoted(&value.to_string(), text),
    }
    Ok(())
}

fn push_quoted(plain: &str, text: &mut String) {
    text.push_str(&serde_json::Value::from(plain).to_string());
}

/// Returns JSON with a line for each value.
///
/// # Errors
/// It is too long.
pub(super) fn in_lines(json: &str, indent: usize) -> Result<String, Error> {
    let (mut text, mut depth, mut rest) = (String::with_capacity(json.len() * 2), 0_usize, json.trim_start());
    let indent = indent.min(LONGEST / (DEEPEST * 4));
    let line = |text: &mut String, depth: usize| {
        text.push('\n');
        text.extend(std::iter::repeat_n(' ', depth * indent));
    };
    while let Some(first) = rest.chars().next() {
        if text.len() > LONGEST {
            return Err(no_text("a list nests too deep or is too long"));
        }
        let (token, after) = rest.split_at(length_of_token(rest));
        let after = after.trim_start();
        rest = after;
        match first {
            '{' | '[' => {
                text.push_str(token);
                if let Some(empty) = after.strip_prefix(['}', ']']) {
                    text.push_str(&after[..1]);
                    rest = empty.trim_start();
                } else {
                    depth += 1;
                    line(&mut text, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut text, depth);
                text.push_str(token);
            }
            ',' => {
                text.push_str(token);
                line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            _ => text.push_str(token),
        }
    }
    Ok(text)
}

/// Returns the bytes of the first mark, text, number or word of JSON.
fn length_of_token(json: &str) -> usize {
    let mut escaped = false;
    match json.as_bytes().first() {
        Some(b'"') => {
            let end = json[1..].bytes().position(|byte| {
                let is_end = byte == b'"' && !escaped;
                escaped = byte == b'\\' && !escaped;
                is_end
            });
            end.map_or(json.len(), |end| end + 2)
        }
        Some(b'{' | b'}' | b'[' | b']' | b',' | b':') => 1,
        _ => json.find([',', ']', '}', ' ', '\t', '\n', '\r']).unwrap_or(json.len()).max(1),
    }
}
