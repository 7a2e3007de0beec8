//! Reads a TOML file key by key. Every problem is collected with its place, so that one look shows all of them.
//!
//! Which keys there are, and what they mean, is left to [`super::config`].

use std::cell::RefCell;
use std::fmt;
use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::secret::{Secret, read_secret};

/// What is wrong at a place of the file, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(super) line: usize,
    column: usize,
    text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.text)
    }
}

/// Reads a text that parses.
pub(super) struct Reader<'t> {
    text: &'t str,
    problems: RefCell<Vec<Problem>>,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, problems: RefCell::default() }
    }

    /// Returns the root of the document. Mistakes of the syntax are problems, and hide all others.
    pub(super) fn document(&self) -> Spanned<DeTable<'t>> {
        let (document, errors) = DeTable::parse_recoverable(self.text);
        for error in &errors {
            self.wrong(error.span().unwrap_or_default(), error.message().to_owned());
        }
        // The parser continues after a mistake, and may find what follows from it in the same line.
        self.problems.borrow_mut().dedup_by_key(|problem| problem.line);
        document
    }

    pub(super) fn wrong(&self, place: Range<usize>, text: String) {
        let before = self.text.get(..place.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        self.problems.borrow_mut().push(Problem { line, column, text });
    }

    /// Returns all problems in the order of the file.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| (problem.line, problem.column));
        problems
    }

    pub(super) fn is_clean(&self) -> bool {
        self.problems.borrow().is_empty()
    }
}

/// A table of the file. Unknown keys are problems.
pub(super) struct Section<'r, 't> {
    reader: &'r Reader<'t>,
    /// As people write it: `databases.shop`.
    name: String,
    is_root: bool,
    place: Range<usize>,
    table: Option<&'r DeTable<'t>>,
    known: Vec<&'static str>,
}

impl<'r, 't> Section<'r, 't> {
    pub(super) fn root(reader: &'r Reader<'t>, document: &'r Spanned<DeTable<'t>>) -> Self {
        Self {
            reader,
            name: "the file".to_owned(),
            is_root: true,
            place: 0..0,
            table: Some(document.get_ref()),
            known: Vec::new(),
        }
    }

    /// Returns the table of this key; a missing one is empty.
    pub(super) fn section(&mut self, key: &'static str) -> Self {
        let name = self.path(key);
        let found = self.find(key);
        let place = found.map_or(self.place.clone(), |(key, _)| key.span());
        let table = found.and_then(|(place, value)| self.reader.table(&name, place.span(), value));
        Self { reader: self.reader, name, is_root: false, place, table, known: Vec::new() }
    }

    /// Returns the tables in the table of this key, with their names, in the order of the file.
    pub(super) fn sections(&mut self, key: &'static str) -> Vec<(String, Self)> {
        let path = self.path(key);
        let table = self.find(key).and_then(|(place, value)| self.reader.table(&path, place.span(), value));
        let mut entries: Vec<_> = table.into_iter().flatten().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let sections = entries.into_iter().map(|(key, value)| {
            let name = format!("{path}.{}", key.get_ref());
            let table = self.reader.table(&name, key.span(), value);
            (
                key.get_ref().to_string(),
                Self { reader: self.reader, name, is_root: false, place: key.span(), table, known: Vec::new() },
            )
        });
        sections.collect()
    }

    /// Returns all texts in the value of this key, however deep.
    pub(super) fn texts_below(&self, key: &str) -> Vec<&'r str> {
        fn collect<'r>(value: &'r DeValue<'_>, texts: &mut Vec<&'r str>) {
            match value {
                DeValue::String(text) => texts.push(text),
                DeValue::Array(list) => list.iter().for_each(|value| collect(value.get_ref(), texts)),
                DeValue::Table(table) => table.values().for_each(|value| collect(value.get_ref(), texts)),
                _ => {}
            }
        }
        let mut texts = Vec::new();
        if let Some(value) = self.table.and_then(|table| table.get(key)) {
            collect(value.get_ref(), &mut texts);
        }
        texts
    }

    /// Returns a text that `parse` accepts.
    pub(super) fn text<T>(&mut self, key: &'static str, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let (_, value) = self.find(key)?;
        self.parsed(key, value, parse)
    }

    /// Returns the texts of a list that `parse` accepts.
    pub(super) fn texts<T>(&mut self, key: &'static str, parse: impl Fn(&str) -> Result<T, String>) -> Vec<T> {
        let Some((_, value)) = self.find(key) else { return Vec::new() };
        match value.get_ref() {
            DeValue::Array(list) => list.iter().filter_map(|value| self.parsed(key, value, &parse)).collect(),
            other => {
                self.wrong(value.span(), key, &format!("expected a list of texts, found: {}", other.type_str()));
                Vec::new()
            }
        }
    }

    /// Returns a whole number within these bounds.
    pub(super) fn number(&mut self, key: &'static str, bounds: RangeInclusive<usize>) -> Option<usize> {
        let (_, value) = self.find(key)?;
        let number = match value.get_ref() {
            DeValue::Integer(number) => usize::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        let number = number.filter(|number| bounds.contains(number));
        if number.is_none() {
            let (least, most) = (bounds.start(), bounds.end());
            self.wrong(value.span(), key, &format!("expected a whole number from {least} to {most}"));
        }
        number
    }

    /// Returns true or false.
    pub(super) fn flag(&mut self, key: &'static str) -> Option<bool> {
        let (_, value) = self.find(key)?;
        let DeValue::Boolean(flag) = value.get_ref() else {
            self.wrong(value.span(), key, "expected true or false");
            return None;
        };
        Some(*flag)
    }

    /// Returns the value that a reference to a secret has now.
    pub(super) fn secret(&mut self, key: &'static str) -> Option<Secret> {
        self.text(key, read_secret)
    }

    /// Reports a problem of the whole table.
    pub(super) fn wrong_table(&self, problem: &str) {
        self.reader.wrong(self.place.clone(), format!("{}: {problem}", self.name));
    }

    /// Reports that a key is missing, if it is. One with a wrong value is reported already.
    pub(super) fn require(&self, key: &str, example: &str) {
        if self.table.is_some_and(|table| !table.contains_key(key)) {
            self.wrong_table(&format!("{key} is missing: add {example}"));
        }
    }

    /// Reports a problem of a key.
    pub(super) fn wrong_key(&self, key: &'static str, problem: &str) {
        let place = self.table.and_then(|table| table.get(key)).map_or_else(|| self.place.clone(), Spanned::span);
        self.wrong(place, key, problem);
    }

    /// Whether the file has this table.
    pub(super) fn is_present(&self) -> bool {
        self.table.is_some()
    }

    /// Reports unknown keys.
    pub(super) fn end(self) {
        for (key, _) in self.table.into_iter().flatten() {
            let name = key.get_ref().as_ref();
            if !self.known.contains(&name) {
                let nearest = self.known.iter().max_by(|a, b| strsim::jaro(a, name).total_cmp(&strsim::jaro(b, name)));
                let near = nearest.filter(|nearest| strsim::jaro(nearest, name) > 0.75);
                let hint = match near {
                    Some(nearest) => format!("did you mean {nearest}?"),
                    None => format!("there are {}", self.known.join(", ")),
                };
                self.reader.wrong(key.span(), format!("{}: unknown; {hint}", self.path(name)));
            }
        }
    }

    fn find(&mut self, key: &'static str) -> Option<(&'r Spanned<DeString<'t>>, &'r Spanned<DeValue<'t>>)> {
        self.known.push(key);
        self.table?.get_key_value(key)
    }

    fn parsed<T>(
        &self,
        key: &str,
        value: &Spanned<DeValue<'t>>,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let parsed = match value.get_ref() {
            DeValue::String(text) => parse(text),
            other => Err(format!("expected a text in quotes, found: {}", other.type_str())),
        };
        parsed.map_err(|problem| self.wrong(value.span(), key, &problem)).ok()
    }

    fn wrong(&self, place: Range<usize>, key: &str, problem: &str) {
        self.reader.wrong(place, format!("{}: {problem}", self.path(key)));
    }

    fn path(&self, key: &str) -> String {
        if self.is_root { key.to_owned() } else { format!("{}.{key}", self.name) }
    }
}

impl<'t> Reader<'t> {
    fn table<'v>(&self, name: &str, place: Range<usize>, value: &'v Spanned<DeValue<'t>>) -> Option<&'v DeTable<'t>> {
        match value.get_ref() {
            DeValue::Table(table) => Some(table),
            other => {
                self.wrong(place, format!("{name}: expected a table [{name}], found: {}", other.type_str()));
                None
            }
        }
    }
}

/// Returns an error with its causes.
pub(super) fn whole(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}

/// Accepts a text that has more than blanks.
pub(super) fn not_blank(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("it is empty".to_owned()) } else { Ok(text.to_owned()) }
}
