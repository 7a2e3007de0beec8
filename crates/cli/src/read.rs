//! Reading files and the standard input, with a limit.

use std::io::Read;
use std::path::Path;

use crate::exit::{Exit, Failure, Outcome};

/// The largest file or input in bytes.
const MOST: u64 = 16 * 1024 * 1024;

/// What some editors write in front of a text to say that it is UTF-8.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Reads a file as text, without a byte order mark; `-` is the standard input.
pub(crate) fn text(path: &Path) -> Outcome<String> {
    let shown = path.display();
    let failed = |error: std::io::Error| {
        let exit = if error.kind() == std::io::ErrorKind::NotFound { Exit::NotFound } else { Exit::Failed };
        Failure::new(exit, format!("cannot read {shown}: {error}"))
    };
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(MOST + 1).read_to_end(&mut bytes).map_err(failed)?;
    } else {
        std::fs::File::open(path).map_err(failed)?.take(MOST + 1).read_to_end(&mut bytes).map_err(failed)?;
    }
    if bytes.len() as u64 > MOST {
        return Err(Failure::invalid(format!("{shown} has more than {} MiB", MOST / 1024 / 1024)));
    }
    let text = String::from_utf8(bytes).map_err(|_| Failure::invalid(format!("{shown} is no UTF-8 text")))?;
    Ok(text.strip_prefix(BYTE_ORDER_MARK).map(str::to_owned).unwrap_or(text))
}

/// Reads JSON: the text itself, `@FILE`, or `-` for the standard input. Its bytes are kept as they are.
pub(crate) fn json(argument: &str) -> Outcome<Box<serde_json::value::RawValue>> {
    let read;
    let json = match argument.strip_prefix('@') {
        Some(path) => {
            read = text(Path::new(path))?;
            &read
        }
        None if argument == "-" => {
            read = text(Path::new("-"))?;
            &read
        }
        None => argument,
    };
    serde_json::from_str(json).map_err(|error| {
        Failure::invalid(format!("the parameter is no JSON: {error}"))
            .next("a text needs quotes of its own: '\"text\"'; @FILE reads a file, - the standard input")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_order_mark_is_no_part_of_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "\u{feff}{\"a\": 19.90, \"b\": \"\u{feff}\"}").unwrap();
        let param = json(&format!("@{}", file.path().display())).unwrap();
        assert_eq!(param.get(), "{\"a\": 19.90, \"b\": \"\u{feff}\"}");
        std::fs::write(file.path(), "\u{feff}[payment]\ntimeout = \"10s\"\n").unwrap();
        assert_eq!(text(file.path()).unwrap(), "[payment]\ntimeout = \"10s\"\n");
    }
}
