//! How deep a template may nest. The engine parses, compiles and frees it by functions that call themselves, and a thread whose stack ends takes the whole
//! process along. The engine limits brackets and blocks itself, and neither chains of operators nor those of `elif`.

use std::thread;

use super::tokens::{self, Kind, Token};

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
    let mut elifs = 0;
    for tag in tokens::tags(source) {
        let words = tag.tokens.iter().filter(|token| token.kind == Kind::Word);
        elifs += words.filter(|word| source.get(word.start..word.end) == Some("elif")).count();
        let operators = tag.tokens.iter().filter(|token| is_operator(token, source)).count();
        if operators > OPERATORS {
            return Err(format!("a tag has more than {OPERATORS} operators"));
        }
        if elifs > OPERATORS {
            return Err(format!("it has more than {OPERATORS} `elif`"));
        }
    }
    Ok(())
}

/// Returns whether a token lets the engine nest.
fn is_operator(token: &Token, source: &str) -> bool {
    let text = source.get(token.start..token.end).unwrap_or_default();
    match token.kind {
        Kind::Arithmetic | Kind::Comparison | Kind::Join | Kind::Pipe | Kind::Dot => true,
        Kind::Open => text != "{",
        Kind::Word => matches!(text, "and" | "or" | "not" | "in" | "is" | "if" | "else"),
        Kind::Number | Kind::Text | Kind::Close | Kind::Other => false,
    }
}

/// Runs work on a thread whose stack is large enough for any template.
pub(super) fn on_large_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> std::io::Result<T> {
    let thread = thread::Builder::new().name("template".to_owned()).stack_size(STACK).spawn(work)?;
    thread.join().map_err(|_| std::io::Error::other("the rendering of a template panicked"))
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
