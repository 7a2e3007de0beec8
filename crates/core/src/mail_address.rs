//! [`MailAddress`]: an address of mail as people write it, and lists of them.
//!
//! Only the form is checked. Whether there is such a mailbox is left to mail servers.

/// An address of mail in its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MailAddress<'a> {
    /// The name before `<`, as it was written: perhaps in quotes.
    name: Option<&'a str>,
    /// The part before the `@`, with the quotes that it may have.
    pub local: &'a str,
    /// The part behind it.
    pub domain: &'a str,
}

/// The longest part before the `@`, in bytes (RFC 5321, 4.5.3.1.1).
const LONGEST_LOCAL: usize = 64;

impl<'a> MailAddress<'a> {
    /// Reads `ops@example.org`, `"ops team"@example.org`, `Ops <ops@example.org>` or `"Doe, Jane" <jane@example.org>`.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub fn parse(text: &'a str) -> Result<Self, &'static str> {
        let text = text.trim();
        // Even in quotes a line end would end the command to a server.
        if text.contains(char::is_control) {
            return Err("it has a control character");
        }
        let (name, address) = match text.strip_suffix('>') {
            Some(named) => named.rsplit_once('<').ok_or("it has a `>` without a `<`")?,
            None => ("", text),
        };
        let name = name.trim();
        check_name(name)?;
        let (local, domain) = address.trim().rsplit_once('@').ok_or("it has no `@`")?;
        check_local(local)?;
        check_domain(domain)?;
        Ok(Self { name: Some(name).filter(|name| !name.is_empty()), local, domain })
    }

    /// Returns the name, without the quotes around it.
    pub fn name(&self) -> Option<String> {
        let name = self.name?;
        let Some(quoted) = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) else {
            return Some(name.to_owned());
        };
        let mut plain = String::with_capacity(quoted.len());
        let mut characters = quoted.chars();
        while let Some(character) = characters.next() {
            plain.extend(if character == '\\' { characters.next() } else { Some(character) });
        }
        Some(plain)
    }
}

fn check_name(name: &str) -> Result<(), &'static str> {
    let mut quotes = Quotes::default();
    for character in name.chars() {
        if !quotes.is_inside(character) && "<>@".contains(character) {
            return Err("its name has a `<`, `>` or `@` that needs quotes around the name");
        }
    }
    if quotes.inside { Err("a quote in its name is not closed") } else { Ok(()) }
}

fn check_local(local: &str) -> Result<(), &'static str> {
    if local.is_empty() || local.len() > LONGEST_LOCAL {
        return Err("it has no part, or more than 64 bytes, before the `@`");
    }
    if local.starts_with('"') {
        // The command to a server has the address between these signs, and not each server reads quotes.
        if local.contains(['<', '>']) {
            return Err("the part before the `@` has a `<` or `>`");
        }
        let mut quotes = Quotes::default();
        let end = local.char_indices().find(|(_, character)| {
            quotes.is_inside(*character);
            !quotes.inside
        });
        let is_closed = end.is_some_and(|(at, _)| at + 1 == local.len());
        return if is_closed { Ok(()) } else { Err("a quote before the `@` is not closed") };
    }
    let is_special = |character: char| character.is_whitespace() || "\"(),:;<>[]\\@".contains(character);
    if local.contains(is_special) {
        return Err("the part before the `@` has a blank, a comma or another sign that needs quotes around the part");
    }
    if local.split('.').any(str::is_empty) {
        return Err("the part before the `@` begins or ends with a dot, or has two together");
    }
    Ok(())
}

fn check_domain(domain: &str) -> Result<(), &'static str> {
    if domain.starts_with('[') && domain.ends_with(']') {
        return Ok(());
    }
    let is_allowed = |character: char| {
        character.is_ascii_alphanumeric()
            || "-.:_".contains(character)
            || !(character.is_ascii() || character.is_whitespace())
    };
    if domain.is_empty() || !domain.chars().all(is_allowed) {
        return Err("the part behind the `@` is no name of a host");
    }
    if domain.split('.').any(str::is_empty) {
        return Err("the part behind the `@` begins or ends with a dot, or has two together");
    }
    Ok(())
}

/// Splits a list at these characters, except where they are in quotes. A quote that is not closed ends at the end of its line.
pub fn split_list<'a>(list: &'a str, separators: &[char]) -> Vec<&'a str> {
    let (mut parts, mut begin, mut quotes) = (Vec::new(), 0, Quotes::default());
    for (at, character) in list.char_indices() {
        if character == '\n' {
            quotes = Quotes::default();
        }
        if !quotes.is_inside(character) && separators.contains(&character) {
            parts.push(list.get(begin..at).unwrap_or_default());
            begin = at + character.len_utf8();
        }
    }
    parts.push(list.get(begin..).unwrap_or_default());
    parts
}

/// Whether a text is in quotes, character by character.
#[derive(Default)]
struct Quotes {
    inside: bool,
    is_escaped: bool,
}

impl Quotes {
    /// Takes the next character. Returns whether it is in quotes, or one of them.
    fn is_inside(&mut self, character: char) -> bool {
        let was_escaped = std::mem::replace(&mut self.is_escaped, false);
        match character {
            '\\' if self.inside && !was_escaped => self.is_escaped = true,
            '"' if !was_escaped => {
                self.inside = !self.inside;
                return true;
            }
            _ => {}
        }
        self.inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_may_have_quotes_and_a_name() {
        let parts = |text| MailAddress::parse(text).map(|read| (read.name(), read.local, read.domain));
        let named = |name: &str, local, domain| Ok((Some(name.to_owned()), local, domain));
        assert_eq!(parts("ops@example.org"), Ok((None, "ops", "example.org")));
        assert_eq!(parts(" bounce+x=y@d.e "), Ok((None, "bounce+x=y", "d.e")));
        assert_eq!(parts("Ops Team <ops@例子.cn>"), named("Ops Team", "ops", "例子.cn"));
        assert_eq!(parts(r#""Doe, \"J\"" <jane@example.org>"#), named(r#"Doe, "J""#, "jane", "example.org"));
        assert_eq!(parts(r#""a, b@c"@example.org"#), Ok((None, r#""a, b@c""#, "example.org")));
        assert_eq!(parts("<ops@[192.0.2.1]>"), Ok((None, "ops", "[192.0.2.1]")));
    }

    #[test]
    fn text_that_is_no_address_is_refused() {
        let wrong = [
            "ops",
            "ops@",
            "@example.org",
            "a b@example.org",
            "订单",
            "a@x.org, b@x.org",
            "\"Doe",
            "\"a@x.org",
            "a\"b@x.org",
            "\"a\"b\"@x.org",
            "a..b@x.org",
            ".a@x.org",
            "a@x..org",
            "a@x org",
            "Ops ops@x.org>",
            "a@x.org\n",
            "\"a\r\nDATA\"@x.org",
            "\"Doe <a@x.org>",
            "a@x,org",
            "Eve <eve@x.org> <a@x.org>",
            "\"a RCPT TO:<eve@x.org>\"@x.org",
        ];
        for text in wrong.map(|text| text.replace('\n', "\nb")) {
            assert!(MailAddress::parse(&text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn list_is_split_outside_of_quotes() {
        let split = |list| split_list(list, &[',', ';', '\n']);
        assert_eq!(split(r#""Doe, Jane" <j@x>, "a;\",b"@x; c@x"#), [r#""Doe, Jane" <j@x>"#, r#" "a;\",b"@x"#, " c@x"]);
        assert_eq!(split("\"Doe, a@x\nb@x, c@x"), ["\"Doe, a@x", "b@x", " c@x"]);
        assert_eq!(split(""), [""]);
    }
}
