//! How deep a template may nest. The engine parses, compiles and frees it by functions that call themselves, and a thread whose stack ends takes the whole
//! process along. The engine limits brackets and blocks itself, and neither chains of operators nor those of `elif`.

use std::thread;

/// The most operators of a tag, and the most `elif` of a template.
const OPERATORS: usize = 200;

/// The stack of a thread that renders with all steps: each step can wrap a value into another one, and to free one takes a few hundred bytes for each of
/// these. It is memory only as far as it is used.
const STACK: usize = if cfg!(target_pointer_width = "64") { 1024 * 1024 * 1024 } else { 64 * 1024 * 1024 };

/// Checks the operators of each tag.
///
/// # Errors
/// A text that says what there is too much of.
pub(super) fn check(source: &str) -> Result<(), String> {
    let (mut rest, mut elifs) = (source, 0);
    while let Some(at) = rest.find('{') {
        let tag = &rest[at + 1..];
        rest = match tag.as_bytes().first() {
            Some(b'#') => tag.split_once("#}").map_or("", |(_, after)| after),
            Some(b'%') if is_raw(&tag[1..]) => after_raw(tag),
            Some(b'{' | b'%') => {
                let (counts, after) = count(&tag[1..]);
                elifs += counts.elifs;
                if counts.operators > OPERATORS {
                    return Err(format!("a tag has more than {OPERATORS} operators"));
                }
                if elifs > OPERATORS {
                    return Err(format!("it has more than {OPERATORS} `elif`"));
                }
                after
            }
            _ => tag,
        };
    }
    Ok(())
}

/// Runs work on a thread whose stack is large enough for any template.
pub(super) fn on_large_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> std::io::Result<T> {
    let thread = thread::Builder::new().name("template".to_owned()).stack_size(STACK).spawn(work)?;
    thread.join().map_err(|_| std::io::Error::other("the rendering of a template panicked"))
}

/// Returns the text behind a word, blanks, and the sign that removes blanks.
fn behind_sign(tag: &str) -> &str {
    tag.strip_prefix(['-', '+']).unwrap_or(tag).trim_start()
}

/// Returns whether a tag begins text that is no template.
fn is_raw(tag: &str) -> bool {
    let after = behind_sign(tag).strip_prefix("raw").map(str::trim_start);
    after.is_some_and(|after| behind_sign(after).starts_with("%}"))
}

fn after_raw(tag: &str) -> &str {
    let mut rest = tag;
    while let Some((_, after)) = rest.split_once("{%") {
        if behind_sign(after).starts_with("endraw") {
            return after;
        }
        rest = after;
    }
    ""
}

#[derive(Default)]
struct Counts {
    operators: usize,
    elifs: usize,
}

/// Counts the operators of a tag, which ends with the first closing mark that is in no bracket and no text. Returns what is behind it.
fn count(tag: &str) -> (Counts, &str) {
    let (mut counts, mut open, bytes, mut at) = (Counts::default(), 0_usize, tag.as_bytes(), 0);
    while let Some(&byte) = bytes.get(at) {
        let begin = at;
        at += 1;
        match byte {
            b'}' | b'%' if open == 0 && bytes.get(at) == Some(&b'}') => {
                return (counts, tag.get(at + 1..).unwrap_or_default());
            }
            b'"' | b'\'' => {
                while let Some(&inner) = bytes.get(at) {
                    at += if inner == b'\\' { 2 } else { 1 };
                    if inner == byte {
                        break;
                    }
                }
            }
            b'(' | b'[' => {
                open += 1;
                counts.operators += 1;
            }
            b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            b'0'..=b'9' => {
                // With the point of a number.
                while bytes.get(at).is_some_and(|next| next.is_ascii_digit())
                    || (bytes.get(at) == Some(&b'.') && bytes.get(at + 1).is_some_and(u8::is_ascii_digit))
                {
                    at += 1;
                }
            }
            b'+' | b'-' | b'*' | b'/' | b'%' | b'~' | b'|' | b'.' | b'<' | b'>' | b'=' | b'!' => counts.operators += 1,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                while bytes.get(at).is_some_and(|next| next.is_ascii_alphanumeric() || *next == b'_') {
                    at += 1;
                }
                match &bytes[begin..at] {
                    b"elif" => counts.elifs += 1,
                    b"and" | b"or" | b"not" | b"in" | b"is" | b"if" | b"else" => counts.operators += 1,
                    _ => {}
                }
            }
            _ => {}
        }
    }
    (counts, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_of_operators_are_limited_in_each_tag() {
        let chain = |link: &str, count: usize| format!("{{{{ 1{} }}}}", link.repeat(count));
        for link in ["+1", "|a", ".a", "[0]", "(0)", " is a", " and 1", "-1", " if 1 else 1", "~'x'", "+{'a': {}}"] {
            assert!(check(&chain(link, 50)).is_ok(), "{link}");
            assert!(check(&chain(link, 300)).is_err(), "{link}");
            // Neither a tag before it nor a text hides it.
            for before in
                ["{% raw %}{{ don't }}{% endraw %}", "{# it's #}", "{{ '}}' ~ \"'\" }}", "{{ {'a': {}} }}", "it's { ' "]
            {
                assert!(check(&format!("{before}{}", chain(link, 300))).is_err(), "{before} {link}");
            }
        }
        assert!(check(&"{{ a.b | c }} 1+1".repeat(3000)).is_ok(), "many tags");
        assert!(check(&format!("{{% set x = [{}] %}}", "'a-b', 1.5, ".repeat(2000))).is_ok(), "a list is flat");
        assert!(check(&"+".repeat(10_000)).is_ok() && check("{{").is_ok() && check("{% raw %}").is_ok());
        let elifs = |count: usize| format!("{{% if a %}}{}{{% endif %}}", "{% elif a %}".repeat(count));
        assert!(check(&elifs(100)).is_ok() && check(&elifs(300)).is_err());
    }
}
