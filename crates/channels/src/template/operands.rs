//! Marks the operands of arithmetic and of comparisons in a template, because the engine asks no value how it is calculated with or compared:
//! `param.a * 2 > 5` becomes `(param.a|__calculated * 2)|__compared > (5)|__compared`.
//!
//! It gets templates that the engine can parse, and adds no line to them.

use std::ops::Range;

use super::tokens::{self, Kind, Token};

/// The filter behind an operand of arithmetic.
pub(super) const CALCULATED: &str = "__calculated";
/// The filter behind an operand of a comparison.
pub(super) const COMPARED: &str = "__compared";
/// The filter behind what a value may be `in`.
pub(super) const SEARCHED: &str = "__searched";

/// Returns a template with marked operands.
pub(super) fn marked(source: &str) -> String {
    let mut marks = Vec::new();
    for tag in tokens::tags(source) {
        let mut marker = Marker { source, tokens: tag.tokens, at: 0, marks };
        if tag.is_statement {
            marker.keyword();
        }
        while marker.at < marker.tokens.len() {
            marker.expressions();
            // A bracket that was never opened.
            marker.at += 1;
        }
        marks = marker.marks;
    }
    marks.sort_by_key(|(at, _)| *at);
    let (mut text, mut from) = (String::with_capacity(source.len() + marks.len() * 16), 0);
    for (at, mark) in marks {
        text.push_str(&source[from..at]);
        text.push_str(&mark);
        from = at;
    }
    text.push_str(&source[from..]);
    text
}

struct Marker<'a> {
    source: &'a str,
    tokens: Vec<Token>,
    at: usize,
    /// What is inserted where. Of two in one place the first one is the inner one.
    marks: Vec<(usize, String)>,
}

/// One side of a comparison: operands with arithmetic between them.
struct Side {
    place: Range<usize>,
    /// Whether it is one text. Nothing is to be done with it.
    is_text: bool,
    /// Whether the last operand is marked.
    is_calculated: bool,
    is_literal: bool,
}

impl Marker<'_> {
    fn kind(&self) -> Option<Kind> {
        self.tokens.get(self.at).map(|token| token.kind)
    }

    fn text(&self) -> &str {
        self.tokens.get(self.at).and_then(|token| self.source.get(token.start..token.end)).unwrap_or_default()
    }

    fn is_word(&self, words: &[&str]) -> bool {
        self.kind() == Some(Kind::Word) && words.contains(&self.text())
    }

    /// Where the last token ends.
    fn end(&self) -> usize {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(0, |token| token.end)
    }

    /// Skips the word that says what a statement is, and the names of a loop, whose `in` compares nothing.
    fn keyword(&mut self) {
        let is_loop = self.text() == "for";
        self.at += 1;
        while is_loop && self.kind().is_some() && !self.is_word(&["in"]) {
            self.at += 1;
        }
        self.at += usize::from(is_loop);
    }

    /// Marks the expressions up to the end of the tag or a closing bracket.
    fn expressions(&mut self) {
        // The side that is read; whether an operator stands before its next operand; the filter for the comparison before it.
        let (mut side, mut after_operator, mut before): (Option<Side>, bool, Option<&str>) = (None, false, None);
        loop {
            let is_complete = side.is_some() && !after_operator;
            let behind = match self.kind() {
                None | Some(Kind::Close) => {
                    self.mark_side(side, before);
                    return;
                }
                Some(Kind::Comparison) => Some(COMPARED),
                Some(Kind::Word) if is_complete => {
                    // `not` stands before `in`.
                    self.at += usize::from(self.text() == "not");
                    (self.text() == "in").then_some(SEARCHED)
                }
                _ => None,
            };
            let joins = matches!(self.kind(), Some(Kind::Arithmetic | Kind::Join)) && is_complete;
            let ends = match self.kind() {
                Some(Kind::Word) => is_complete || self.is_word(&["and", "or", "not", "if", "else"]),
                Some(Kind::Comparison | Kind::Other | Kind::Pipe | Kind::Dot) => true,
                _ => !joins && is_complete,
            };
            if joins {
                if self.kind() == Some(Kind::Arithmetic) {
                    self.mark_last(&mut side);
                }
                after_operator = true;
                self.at += 1;
            } else if ends {
                self.mark_side(side.take(), before.or(behind.map(|_| COMPARED)));
                (after_operator, before) = (false, behind);
                self.at += 1;
            } else if self.kind() == Some(Kind::Arithmetic) && self.text() != "-" {
                // A list or map of arguments.
                self.at += 1;
            } else {
                let calculates = after_operator && self.at > 0 && self.tokens[self.at - 1].kind == Kind::Arithmetic;
                let operand = self.operand_with_filters();
                let mut whole = match side.take() {
                    Some(before) => Side { place: before.place.start..operand.place.end, is_text: false, ..operand },
                    None => operand,
                };
                whole.is_calculated = false;
                side = Some(whole);
                if calculates {
                    self.mark_last(&mut side);
                }
                after_operator = false;
            }
        }
    }

    fn mark_last(&mut self, side: &mut Option<Side>) {
        if let Some(side) = side
            && !side.is_calculated
            && !side.is_literal
        {
            side.is_calculated = true;
            self.marks.push((side.place.end, format!("|{CALCULATED}")));
        }
    }

    fn mark_side(&mut self, side: Option<Side>, filter: Option<&str>) {
        if let (Some(side), Some(filter)) = (side.filter(|side| !side.is_text), filter) {
            self.marks.push((side.place.start, "(".to_owned()));
            self.marks.push((side.place.end, format!(")|{filter}")));
        }
    }

    /// Reads an operand with its filters and tests.
    fn operand_with_filters(&mut self) -> Side {
        let mut side = self.operand();
        loop {
            if self.kind() == Some(Kind::Pipe) {
                self.at += 1;
                self.name();
                if self.text() == "(" {
                    self.brackets();
                }
            } else if self.is_word(&["is"]) {
                self.at += 1;
                self.at += usize::from(self.is_word(&["not"]));
                self.name();
                let is_end = self.is_word(&["and", "or", "else", "is"]);
                match self.kind() {
                    Some(Kind::Word | Kind::Text | Kind::Number) if !is_end => drop(self.operand()),
                    Some(Kind::Open) if self.text() == "(" => self.brackets(),
                    Some(Kind::Open) => drop(self.operand()),
                    Some(Kind::Arithmetic) if self.text() == "-" => drop(self.operand()),
                    _ => {}
                }
            } else {
                return side;
            }
            side =
                Side { place: side.place.start..self.end(), is_text: false, is_calculated: false, is_literal: false };
        }
    }

    /// Reads the name of a filter or test.
    fn name(&mut self) {
        self.at += 1;
        while self.kind() == Some(Kind::Dot) {
            self.at += 2;
        }
    }

    /// Reads an operand with its sign, but without filters. The sign belongs to what stands before the filters.
    fn operand(&mut self) -> Side {
        let start = self.tokens.get(self.at).map_or(0, |token| token.start);
        let signs = self.at;
        while self.kind() == Some(Kind::Arithmetic) {
            self.at += 1;
        }
        let (is_negated, first) = (self.at > signs, self.tokens.get(self.at).copied());
        let (mut is_text, mut is_literal) = (false, false);
        match first.map(|token| token.kind) {
            Some(Kind::Open) => self.brackets(),
            Some(Kind::Text) => {
                (is_text, is_literal) = (true, true);
                while self.kind() == Some(Kind::Text) {
                    self.at += 1;
                }
            }
            kind => {
                is_literal = kind == Some(Kind::Number);
                self.at += 1;
            }
        }
        loop {
            match self.kind() {
                Some(Kind::Dot) => self.at += 2,
                Some(Kind::Open) if self.text() != "{" => self.brackets(),
                _ => break,
            }
            (is_text, is_literal) = (false, false);
        }
        let end = self.end();
        if let Some(first) = first.filter(|_| is_negated && !is_literal) {
            self.marks.push((first.start, "(".to_owned()));
            self.marks.push((end, format!("|{CALCULATED})")));
        }
        Side { place: start..end, is_text: is_text && !is_negated, is_calculated: false, is_literal }
    }

    /// Reads brackets and what is in them.
    fn brackets(&mut self) {
        self.at += 1;
        self.expressions();
        self.at += 1;
    }
}
