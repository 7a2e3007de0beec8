//! The checks that make every database store a parameter unchanged, run before any SQL.
//!
//! The text is already JSON (serde_json wrote it, or checked it as a raw value). Only its size, its depth and NUL are checked
//! here.

use serde::Serialize;

use crate::error::{Error, Result};

/// The default size limit of a parameter in bytes: 1 MiB.
pub const DEFAULT_PARAM_LIMIT: usize = 1 << 20;
/// The largest size limit of a parameter in bytes: 16 MiB.
pub const MOST_PARAM: usize = 16 << 20;
/// The longest stored parameter that is sent, in bytes: an encrypted one of [`MOST_PARAM`] bytes.
pub const MOST_STORED: usize = MOST_PARAM / 3 * 4 + 1024;
/// The deepest nesting of arrays and objects. MariaDB stops reading JSON at 31 levels; some are left for wrapping.
pub const MAX_DEPTH: usize = 24;

/// Returns `value` as JSON text.
pub(crate) fn to_json(name: &str, value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::InvalidNotice {
        name: name.to_owned(),
        problem: format!("its parameter cannot be written as JSON: {error}"),
    })
}

/// Rejects a parameter above `limit` bytes, deeper than [`MAX_DEPTH`], or with NUL in a string.
pub(crate) fn check(name: &str, json: &str, limit: usize) -> Result<()> {
    let refuse = |problem: String| Err(Error::InvalidNotice { name: name.to_owned(), problem });
    if json.len() > limit.min(MOST_PARAM) {
        let (bytes, limit) = (json.len(), limit.min(MOST_PARAM));
        let or = match limit == MOST_PARAM {
            true => "",
            false => ", or raise the limit with `NewNotice::param_limit(bytes)`",
        };
        return refuse(format!(
            "its parameter has {bytes} bytes of JSON, more than the limit of {limit}; store large data elsewhere and pass its key{or}"
        ));
    }
    let mut depth = 0_usize;
    let mut in_string = false;
    let bytes = json.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' if in_string => {
                if bytes.get(at + 1..at + 6) == Some(b"u0000") {
                    return refuse(nul_at(at));
                }
                at += 1;
            }
            0 => return refuse(nul_at(at)),
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return refuse(format!(
                        "its parameter nests deeper than {MAX_DEPTH} levels (at byte {at}); flatten it, or pass the inner part as a string"
                    ));
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

fn nul_at(at: usize) -> String {
    format!(
        "its parameter has a NUL character (U+0000, at byte {at} of its JSON), which not every database can store; remove or replace it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(json: &str) -> String {
        check("n", json, 1000).unwrap_err().to_string()
    }

    #[test]
    fn no_limit_is_above_the_largest() {
        let json = |length: usize| format!("\"{}\"", "x".repeat(length - 2));
        assert!(check("n", &json(MOST_PARAM), usize::MAX).is_ok());
        let error = check("n", &json(MOST_PARAM + 1), usize::MAX).unwrap_err().to_string();
        assert!(error.contains("16777217 bytes of JSON, more than the limit of 16777216"), "{error}");
        assert!(!error.contains("param_limit"), "no limit is larger: {error}");
    }

    #[test]
    fn a_nul_is_found_however_it_is_written() {
        assert!(problem(r#"{"a":"x\u0000y"}"#).contains("byte 7"), "{}", problem(r#"{"a":"x\u0000y"}"#));
        assert!(problem("\"a\0\"").contains("NUL"));
        // An escaped backslash before `u0000` is no NUL.
        check("n", r#""\\u0000""#, 1000).unwrap();
        assert!(problem(r#""\\\u0000""#).contains("NUL"));
    }

    #[test]
    fn depth_counts_only_outside_of_strings() {
        let deep = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        check("n", &deep(MAX_DEPTH), 1000).unwrap();
        assert!(problem(&deep(MAX_DEPTH + 1)).contains("deeper than 24"));
        check("n", &format!("\"{}\"", "[".repeat(100)), 1000).unwrap();
        check("n", &format!("[{}]", vec!["[]"; 100].join(",")), 1000).unwrap();
    }

    #[test]
    fn size_is_bounded_and_the_message_says_what_to_do() {
        let text = problem(&format!("\"{}\"", "x".repeat(1000)));
        assert!(text.contains("1002 bytes") && text.contains("param_limit"), "{text}");
    }
}
