//! [`Tree`]: the values of a JSON text as places in it. Nothing is decoded until it is compared.
//!
//! The values stand in the order of the text, each before those in it. So what is below a value follows it without a gap.

use std::ops::Range;

use super::budget::{Budget, DEEPEST_PARAM, LONGEST_PARAM, MOST_VALUES, Unjudged};

/// A JSON text and its values. The first one is the whole.
pub struct Tree<'a> {
    text: &'a str,
    nodes: Vec<Node>,
}

#[derive(Debug, Clone)]
struct Node {
    kind: Kind,
    start: u32,
    end: u32,
    /// The value that follows those in this one.
    next: u32,
    /// The place of the name of a member, without its quotes.
    name: Option<(u32, u32)>,
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `null`.
    Null,
    /// `false`.
    False,
    /// `true`.
    True,
    /// A number.
    Number,
    /// A text.
    Text,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl<'a> Tree<'a> {
    /// Reads a text.
    ///
    /// # Errors
    /// It is not JSON, too long, too deep, or has too many values.
    pub fn read(text: &'a str, budget: &mut Budget) -> Result<Self, Unjudged> {
        if text.len() > LONGEST_PARAM {
            return Err(Unjudged::TooLong { bytes: text.len(), limit: LONGEST_PARAM });
        }
        budget.spend_bytes(text.len())?;
        let mut reader = Reader { bytes: text.as_bytes(), at: 0, nodes: Vec::new(), open: Vec::new(), name: None };
        reader.read(budget)?;
        Ok(Self { text, nodes: reader.nodes })
    }

    /// Returns the type of a value. The values of a text are numbered from 0, which is the whole.
    pub fn kind(&self, node: u32) -> Kind {
        self.nodes[node as usize].kind
    }

    /// Returns the place of a value in the text.
    pub fn place(&self, node: u32) -> Range<usize> {
        let Node { start, end, .. } = self.nodes[node as usize];
        start as usize..end as usize
    }

    /// Returns a value as it is written.
    pub fn written(&self, node: u32) -> &'a str {
        &self.text[self.place(node)]
    }

    /// Returns a text as it is written between its quotes.
    pub fn raw_text(&self, node: u32) -> &'a str {
        let Range { start, end } = self.place(node);
        &self.text[start + 1..end - 1]
    }

    /// Returns the name of a member as it is written between its quotes.
    pub fn raw_name(&self, node: u32) -> Option<&'a str> {
        let (start, end) = self.nodes[node as usize].name?;
        Some(&self.text[start as usize..end as usize])
    }

    /// Returns a value and those in it, at any depth.
    pub fn with_all_below(&self, node: u32) -> Range<u32> {
        node..self.nodes[node as usize].next
    }

    /// Returns the members or elements of a value.
    pub fn children(&self, node: u32) -> impl Iterator<Item = u32> {
        let Range { start, end } = self.with_all_below(node);
        let next = move |child: u32| (child < end).then_some(child);
        std::iter::successors(next(start + 1), move |child| next(self.nodes[*child as usize].next))
    }

    /// Returns the number of values.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    nodes: Vec<Node>,
    /// The arrays and objects around the place.
    open: Vec<u32>,
    /// The name of the member whose value follows.
    name: Option<(u32, u32)>,
}

impl Reader<'_> {
    fn read(&mut self, budget: &mut Budget) -> Result<(), Unjudged> {
        loop {
            self.value(budget)?;
            // After a value, the text ends, or an array or object ends, or another value follows.
            loop {
                self.blanks();
                let Some(&around) = self.open.last() else {
                    return if self.at == self.bytes.len() { Ok(()) } else { self.wrong() };
                };
                let is_object = self.nodes[around as usize].kind == Kind::Object;
                // An array or object that was just opened may be empty.
                let is_empty = self.nodes.len() == around as usize + 1;
                if self.eat(if is_object { b'}' } else { b']' }) {
                    self.open.pop();
                    self.close(around);
                } else if is_empty || self.eat(b',') {
                    if is_object {
                        self.name()?;
                    }
                    break;
                } else {
                    return self.wrong();
                }
            }
        }
    }

    /// Reads a value, or the beginning of an array or object.
    fn value(&mut self, budget: &mut Budget) -> Result<(), Unjudged> {
        self.blanks();
        let start = self.at;
        if self.nodes.len() == MOST_VALUES {
            return Err(Unjudged::TooManyValues { limit: MOST_VALUES, at: start });
        }
        budget.spend(1)?;
        let kind = match self.bytes.get(start) {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::Text,
            Some(b't') => Kind::True,
            Some(b'f') => Kind::False,
            Some(b'n') => Kind::Null,
            Some(b'-' | b'0'..=b'9') => Kind::Number,
            _ => return self.wrong(),
        };
        let node = self.nodes.len() as u32;
        self.nodes.push(Node { kind, start: start as u32, end: 0, next: 0, name: self.name.take() });
        match kind {
            Kind::Object | Kind::Array => {
                if self.open.len() == DEEPEST_PARAM {
                    return Err(Unjudged::TooDeep { limit: DEEPEST_PARAM, at: start });
                }
                self.open.push(node);
                self.at += 1;
                return Ok(());
            }
            Kind::Text => self.text()?,
            Kind::Number => self.number()?,
            Kind::True => self.word("true")?,
            Kind::False => self.word("false")?,
            Kind::Null => self.word("null")?,
        }
        self.close(node);
        Ok(())
    }

    fn close(&mut self, node: u32) {
        let next = self.nodes.len() as u32;
        let node = &mut self.nodes[node as usize];
        (node.end, node.next) = (self.at as u32, next);
    }

    /// Reads the name of a member and the colon.
    fn name(&mut self) -> Result<(), Unjudged> {
        self.blanks();
        let start = self.at + 1;
        self.text()?;
        self.name = Some((start as u32, self.at as u32 - 1));
        self.blanks();
        if self.eat(b':') { Ok(()) } else { self.wrong() }
    }

    fn text(&mut self) -> Result<(), Unjudged> {
        if !self.eat(b'"') {
            return self.wrong();
        }
        loop {
            match self.bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    self.at += 1;
                    match self.bytes.get(self.at) {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {}
                        Some(b'u') => {
                            let digits = self.bytes.get(self.at + 1..self.at + 5);
                            if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                                return self.wrong();
                            }
                            self.at += 4;
                        }
                        _ => return self.wrong(),
                    }
                }
                None | Some(..b' ') => return self.wrong(),
                Some(_) => {}
            }
            self.at += 1;
        }
        self.at += 1;
        Ok(())
    }

    fn number(&mut self) -> Result<(), Unjudged> {
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _ = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        Ok(())
    }

    /// Reads digits, at least one.
    fn digits(&mut self) -> Result<(), Unjudged> {
        let count = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count == 0 { self.wrong() } else { Ok(()) }
    }

    fn word(&mut self, word: &str) -> Result<(), Unjudged> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return self.wrong();
        }
        self.at += word.len();
        Ok(())
    }

    fn blanks(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let is_there = self.bytes.get(self.at) == Some(&byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn wrong(&self) -> Result<(), Unjudged> {
        Err(Unjudged::NotJson { at: self.at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Tree<'_>, Unjudged> {
        Tree::read(text, &mut Budget::default())
    }

    #[test]
    fn values_are_in_the_order_of_the_text() {
        let tree = read(r#" {"a" : [1, {}, "x\"" ], "é":null,"b":{"c":[ ]}} "#).unwrap();
        let written: Vec<_> = tree.with_all_below(0).skip(1).map(|node| tree.written(node)).collect();
        assert_eq!(written, [r#"[1, {}, "x\"" ]"#, "1", "{}", r#""x\"""#, "null", r#"{"c":[ ]}"#, "[ ]"]);
        assert_eq!(tree.children(0).collect::<Vec<_>>(), [1, 5, 6]);
        let names: Vec<_> = tree.children(0).map(|child| tree.raw_name(child)).collect();
        assert_eq!(names, [Some("a"), Some("é"), Some("b")]);
        assert_eq!((tree.children(1).count(), tree.children(7).count(), tree.raw_text(4)), (3, 0, r#"x\""#));
        assert!(tree.raw_name(2).is_none() && tree.raw_name(0).is_none());
    }

    #[test]
    fn text_that_is_not_json_is_refused_where_it_is_wrong() {
        for (text, at) in [
            ("", 0),
            ("{", 1),
            ("[1,]", 3),
            ("[,1]", 1),
            ("[1 2]", 3),
            ("{\"a\":1,}", 7),
            ("{\"a\" 1}", 5),
            ("{a:1}", 1),
            ("{\"a\":1]", 6),
            ("[1}", 2),
            ("1}", 1),
            ("01", 1),
            ("1.", 2),
            ("-", 1),
            ("1e", 2),
            ("+1", 0),
            ("tru", 0),
            ("\"\n\"", 1),
            ("\"\\x\"", 2),
            ("\"\\u12g4\"", 2),
            ("\"a", 2),
            ("NaN", 0),
            ("[1]]", 3),
        ] {
            assert_eq!(read(text).err(), Some(Unjudged::NotJson { at }), "{text:?}");
        }
    }

    #[test]
    fn depth_length_and_number_of_values_are_bounded() {
        let deep = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(read(&deep(DEEPEST_PARAM)).unwrap().count(), DEEPEST_PARAM + 1);
        let error = read(&deep(DEEPEST_PARAM + 1)).err();
        assert_eq!(error, Some(Unjudged::TooDeep { limit: DEEPEST_PARAM, at: DEEPEST_PARAM }));
        let many = |count: usize| format!("[{}]", vec!["0"; count].join(","));
        assert_eq!(read(&many(MOST_VALUES - 1)).unwrap().count(), MOST_VALUES);
        let error = read(&many(MOST_VALUES)).err();
        assert_eq!(error, Some(Unjudged::TooManyValues { limit: MOST_VALUES, at: 2 * MOST_VALUES - 1 }));
        let long = format!("\"{}\"", "x".repeat(LONGEST_PARAM));
        assert_eq!(read(&long).err(), Some(Unjudged::TooLong { bytes: LONGEST_PARAM + 2, limit: LONGEST_PARAM }));
        assert!(std::mem::size_of::<Node>() <= 32);
    }

    proptest::proptest! {
        #[test]
        fn it_reads_what_serde_json_reads(text in "[\\[\\]{}\",:0-9.eE+\\-tfn \\\\u\"]{0,10}|(\\[|\\{\"a\":)*(1|-0.5e3|true|\"\\\\n\")(,[12]|,\"b\":null)*[\\]}]*") {
            let expected = serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok();
            proptest::prop_assert_eq!(read(&text).is_ok(), expected, "{}", text);
        }
    }
}
