//! What the program prints: text for people, or one JSON document. Errors go to the other stream.

use std::fmt::Display;
use std::io::Write;

use clap::builder::styling::{AnsiColor, Style};
use serde::Serialize;

use crate::exit::{Exit, Failure, Outcome};

/// Prints results, as JSON or for people.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub(crate) json: bool,
}

impl Output {
    /// Prints a result: its JSON, or its text.
    pub(crate) fn show<T: Serialize + ?Sized>(self, value: &T, text: impl FnOnce() -> String) -> Outcome<()> {
        if !self.json {
            return line(&text());
        }
        let json = serde_json::to_string_pretty(value);
        line(&json.map_err(|error| Failure::new(Exit::Failed, format!("cannot write the result as JSON: {error}")))?)
    }
}

/// Prints text and the end of its line. A reader that has closed the pipe, as `head` does, is no error.
pub(crate) fn line(text: &str) -> Outcome<()> {
    let mut stream = anstream::stdout().lock();
    match writeln!(stream, "{}", text.trim_end_matches('\n')).and_then(|()| stream.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Failed, format!("cannot write the result: {error}")))
        }
        _ => Ok(()),
    }
}

const ERROR: Style = AnsiColor::Red.on_default().bold();
const NOTE: Style = AnsiColor::Yellow.on_default().bold();

/// Prints what failed and what to do next.
pub(crate) fn failure(failure: &Failure) {
    labelled("error", ERROR, &failure.message);
    if let Some(next) = &failure.next {
        labelled("next", NOTE, next);
    }
}

/// Prints a warning.
pub(crate) fn warn(text: impl Display) {
    labelled("warning", NOTE, &text.to_string());
}

/// Prints a note about a result: why nothing was changed, for instance.
pub(crate) fn note(text: impl Display) {
    labelled("note", NOTE, &text.to_string());
}

fn labelled(label: &str, style: Style, text: &str) {
    // There is nothing left to tell of an error of this stream.
    let _ = writeln!(anstream::stderr().lock(), "{style}{label}:{style:#} {}", harmless(text));
}

/// Returns text without characters that would control the terminal. Line ends and tabs stay.
pub(crate) fn harmless(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() && !"\n\t".contains(letter) { '\u{FFFD}' } else { letter })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_text_cannot_control_the_terminal() {
        assert_eq!(harmless("a\u{1b}[2Jb\r\u{9b}\nc\td"), "a\u{FFFD}[2Jb\u{FFFD}\u{FFFD}\nc\td");
    }
}
