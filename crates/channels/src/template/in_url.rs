//! Values in a URL: each stands between two marks, so that who puts the URL together tells them from the text of the row.

use std::borrow::Cow;

use minijinja::value::Value;
use minijinja::{Error, Output};

use super::json;

/// Begins a value. Neither mark is in a value, because its control characters are encoded.
pub(crate) const BEGIN: char = '\u{1}';
/// Ends a value.
pub(crate) const END: char = '\u{2}';

/// Writes a value between two marks. A text that is made of values already has them.
pub(super) fn write(out: &mut Output<'_>, value: &Value) -> Result<(), Error> {
    let text = json::inserted(value)?;
    let text = if value.is_safe() { text.replace([BEGIN, END], "") } else { text };
    Ok(write!(out, "{BEGIN}{}{END}", encoded(&text))?)
}

/// Returns a value without blanks and control characters, of which the parser of a URL leaves some out.
fn encoded(text: &str) -> Cow<'_, str> {
    let is_encoded = |letter: char| letter <= ' ' || letter == '\u{7f}';
    if !text.contains(is_encoded) {
        return text.into();
    }
    let encode = |letter: char| match is_encoded(letter) {
        true => format!("%{:02X}", u32::from(letter)),
        false => letter.to_string(),
    };
    text.chars().map(encode).collect::<String>().into()
}
