//! Renders statements for a dialect: replaces macros, numbers the arguments, and removes what only people read.

use std::collections::BTreeMap;

use super::Dialect;
use super::parse::{Argument, File, Macro, Row, Statement, is_name};

/// The macros and rows of all files.
pub struct Library<'f> {
    macros: BTreeMap<&'f str, &'f Macro>,
    rows: BTreeMap<&'f str, &'f Row>,
    /// All SQL as it is written.
    texts: Vec<&'f str>,
}

/// The text of a statement in a dialect.
#[derive(Debug, PartialEq, Eq)]
pub struct Text {
    /// The text for people: `$1` is the test clock, `$2` the first argument that is declared.
    pub numbered: String,
    /// The text for the driver: arguments have numbers by their first use, or `?` on MySQL.
    pub sql: String,
    /// For each placeholder of `sql`, the number of its value among `values`, from 0.
    pub order: Vec<usize>,
    /// The arguments that the text uses, in the order of their first use.
    pub values: Vec<String>,
}

/// The name of the argument with the test clock, which no statement declares.
pub const CLOCK: &str = "clock";
/// Macros within macros within macros: a circle.
const MAX_DEPTH: usize = 30;

impl<'f> Library<'f> {
    pub fn new(files: &'f [File]) -> Result<Self, String> {
        let (mut all, mut names) =
            (Self { macros: BTreeMap::new(), rows: BTreeMap::new(), texts: Vec::new() }, BTreeMap::new());
        for file in files {
            for one in &file.statements {
                all.texts.extend(one.sql.all());
                if let Some(other) = names.insert(&one.name, &one.at) {
                    return Err(format!("{}: the statement {} is already at {other}", one.at, one.name));
                }
            }
            for one in &file.macros {
                all.texts.extend(one.sql.all());
                if let Some(other) = all.macros.insert(&one.name, one) {
                    return Err(format!("{}: the macro {} is already at {}", one.at, one.name, other.at));
                }
            }
            for one in &file.rows {
                all.texts.extend(one.columns.iter().map(|(_, sql)| sql.as_str()));
                if let Some(other) = all.rows.insert(&one.name, one) {
                    return Err(format!("{}: the row {} is already at {}", one.at, one.name, other.at));
                }
            }
        }
        Ok(all)
    }

    /// Returns an error that names a macro, or a row, that nothing uses.
    pub fn all_are_used(&self) -> Result<(), String> {
        let macros = self.macros.values().map(|one| (&one.at, &one.name));
        let rows = self.rows.values().map(|one| (&one.at, &one.name));
        let uses = |name: &str| [format!("{{{name}}}"), format!("{{{name}(")];
        let is_used = |name: &str| self.texts.iter().any(|text| uses(name).iter().any(|use_| text.contains(use_)));
        match macros.chain(rows).find(|(_, name)| !is_used(name)) {
            Some((at, name)) => Err(format!("{at}: nothing uses {{{name}}}")),
            None => Ok(()),
        }
    }

    /// Returns the text of a statement; `None`: the dialect has none.
    pub fn text(&self, of: &Statement, dialect: Dialect) -> Result<Option<Text>, String> {
        let Some(sql) = of.sql.of(dialect) else { return Ok(None) };
        let failed = |problem: String| format!("{}: {} on {}: {problem}", of.at, of.name, dialect.name());
        let expanded = self.expand(sql, dialect, &[], 0).map_err(failed)?;
        numbered(&one_line(&expanded), dialect, &of.arguments).map(Some).map_err(failed)
    }

    /// Replaces `{name}` and `{name(a, b)}`: parameters first, then rows, then macros.
    fn expand(&self, sql: &str, dialect: Dialect, given: &[(&str, String)], depth: usize) -> Result<String, String> {
        if depth > MAX_DEPTH {
            return Err("macros contain each other".to_owned());
        }
        let (mut text, mut rest) = (String::with_capacity(sql.len()), sql);
        while let Some(open) = rest.find('{') {
            let (before, from) = rest.split_at(open);
            text.push_str(before);
            let end = closing(from).ok_or_else(|| format!("`}}` is missing after: {from}"))?;
            let inner = &from[1..end];
            let (name, arguments) = match inner.split_once('(') {
                Some((name, list)) => (name, list.strip_suffix(')').ok_or_else(|| format!("`)` is missing: {inner}"))?),
                None => (inner, ""),
            };
            rest = &from[end + 1..];
            if !is_name(name) {
                // Braces of the database, such as an empty array of Postgres.
                text.push_str(&from[..=end]);
                continue;
            }
            if let Some((_, value)) = given.iter().find(|(known, _)| *known == name) {
                text.push_str(value);
                continue;
            }
            let arguments = split(arguments);
            let arguments: Result<Vec<String>, String> =
                arguments.into_iter().map(|one| self.expand(one, dialect, given, depth + 1)).collect();
            text.push_str(&self.named(name, arguments?, dialect, depth)?);
        }
        text.push_str(rest);
        Ok(text)
    }

    fn named(&self, name: &str, arguments: Vec<String>, dialect: Dialect, depth: usize) -> Result<String, String> {
        if let Some(row) = self.rows.get(name) {
            let given = bound(&row.parameters, arguments, name)?;
            let columns: Result<Vec<String>, String> =
                row.columns.iter().map(|(_, sql)| self.expand(sql, dialect, &given, depth + 1)).collect();
            return Ok(columns?.join(", "));
        }
        let Some(of) = self.macros.get(name) else { return Err(format!("there is no macro {{{name}}}")) };
        let given = bound(&of.parameters, arguments, name)?;
        let sql = of.sql.of(dialect).unwrap_or_default();
        self.expand(sql.trim_end(), dialect, &given, depth + 1)
    }
}

/// Gives each parameter its argument. The last parameter gets all that remain, as a list.
fn bound<'p>(parameters: &'p [String], mut given: Vec<String>, name: &str) -> Result<Vec<(&'p str, String)>, String> {
    if parameters.is_empty() && given.iter().all(String::is_empty) {
        return Ok(Vec::new());
    }
    if given.len() > parameters.len() && !parameters.is_empty() {
        let rest = given.split_off(parameters.len() - 1).join(", ");
        given.push(rest);
    }
    if given.len() != parameters.len() {
        return Err(format!("{{{name}}} has {} parameters and gets {} arguments", parameters.len(), given.len()));
    }
    Ok(parameters.iter().map(String::as_str).zip(given).collect())
}

/// Returns where the brace that the text begins with is closed.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, letter) in text.bytes().enumerate() {
        match letter {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Splits arguments at commas that are in no parentheses, braces or quotes.
fn split(list: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut depth, mut quoted) = (Vec::new(), 0, 0_i32, false);
    for (at, letter) in list.bytes().enumerate() {
        match letter {
            b'\'' => quoted = !quoted,
            b'(' | b'{' if !quoted => depth += 1,
            b')' | b'}' if !quoted => depth -= 1,
            b',' if !quoted && depth == 0 => {
                parts.push(list[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(list[begin..].trim());
    parts
}

/// Replaces each run of white space by a space, except within quotes.
fn one_line(sql: &str) -> String {
    let (mut text, mut quoted) = (String::with_capacity(sql.len()), false);
    for letter in sql.trim().chars() {
        quoted ^= letter == '\'';
        match letter.is_whitespace() && !quoted {
            true if text.ends_with(' ') => {}
            true => text.push(' '),
            false => text.push(letter),
        }
    }
    text
}

/// Numbers the arguments.
fn numbered(sql: &str, dialect: Dialect, declared: &[Argument]) -> Result<Text, String> {
    let mut text = Text { numbered: String::new(), sql: String::new(), order: Vec::new(), values: Vec::new() };
    let (bytes, mut quoted, mut at, mut copied) = (sql.as_bytes(), false, 0, 0);
    while at < bytes.len() {
        quoted ^= bytes[at] == b'\'';
        let begins = bytes[at] == b':'
            && (at == 0 || bytes[at - 1] != b':')
            && bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
        if !begins {
            at += 1;
            continue;
        }
        let is_word = |letter: &&u8| letter.is_ascii_alphanumeric() || **letter == b'_';
        let end = at + 1 + bytes[at + 1..].iter().take_while(is_word).count();
        let name = &sql[at + 1..end];
        let declared_at = declared.iter().position(|argument| argument.name == name);
        if quoted && declared_at.is_none() {
            at = end;
            continue;
        }
        if name != CLOCK && declared_at.is_none() {
            let known: Vec<&str> = declared.iter().map(|argument| argument.name.as_str()).collect();
            return Err(format!("the argument :{name} is not declared; `-- args:` has {}", known.join(", ")));
        }
        let number = text.values.iter().position(|known| known == name).unwrap_or_else(|| {
            text.values.push(name.to_owned());
            text.values.len() - 1
        });
        for one in [&mut text.numbered, &mut text.sql] {
            one.push_str(&sql[copied..at]);
        }
        text.numbered.push_str(&format!("${}", declared_at.map_or(1, |position| position + 2)));
        match dialect {
            Dialect::MySql => text.sql.push('?'),
            Dialect::Postgres | Dialect::Sqlite => text.sql.push_str(&format!("${}", number + 1)),
        }
        text.order.push(number);
        (at, copied) = (end, end);
    }
    for one in [&mut text.numbered, &mut text.sql] {
        one.push_str(&sql[copied..]);
    }
    if dialect != Dialect::MySql {
        text.order = (0..text.values.len()).collect();
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;

    const MACROS: &str = "-- macro: plus(time, ms)
-- `time` plus `ms` milliseconds.
-- postgres, sqlite:
({time} + {ms})
-- mysql:
ADDTIME({time}, {ms})
-- macro: batch(json, columns)
ROWS({json}, {columns})
-- macro: lock
-- postgres:
 FOR UPDATE
-- row: Line(at)
-- A line.
id = id
due = {plus({at}, 1)}
";

    fn texts(statement: &str) -> Result<[Option<Text>; 3], String> {
        let files = [parse("macros.sql", MACROS)?, parse("test.sql", statement)?];
        let library = Library::new(&files)?;
        let text = |dialect| library.text(&files[1].statements[0], dialect);
        Ok([text(Dialect::Postgres)?, text(Dialect::MySql)?, text(Dialect::Sqlite)?])
    }

    fn sql(statement: &str) -> [Option<String>; 3] {
        texts(statement).unwrap().map(|text| text.map(|text| text.sql))
    }

    #[test]
    fn macros_and_rows_are_rendered_for_each_dialect() {
        let all = sql(
            "-- name: list\n-- args: after int\nSELECT {Line(now)}\n  FROM t WHERE due > {plus({plus(a, 2)}, :after)}{lock}\n",
        );
        let expected = [
            "SELECT id, (now + 1) FROM t WHERE due > ((a + 2) + $1) FOR UPDATE",
            "SELECT id, ADDTIME(now, 1) FROM t WHERE due > ADDTIME(ADDTIME(a, 2), ?)",
            "SELECT id, (now + 1) FROM t WHERE due > ((a + 2) + $1)",
        ];
        assert_eq!(all, expected.map(|text| Some(text.to_owned())));
    }

    #[test]
    fn arguments_are_numbered_by_their_first_use() {
        let statement = "-- name: one\n-- args: a int, b text\nb = :b AND a = :a AND b2 = :b AND c = :clock AND t = 'HH24:mi' AND x::text = '{}'\n";
        let [postgres, mysql, _] = texts(statement).unwrap().map(Option::unwrap);
        assert_eq!(postgres.sql, "b = $1 AND a = $2 AND b2 = $1 AND c = $3 AND t = 'HH24:mi' AND x::text = '{}'");
        assert_eq!((postgres.values.join(" "), postgres.order), ("b a clock".to_owned(), vec![0, 1, 2]));
        assert_eq!(mysql.sql, "b = ? AND a = ? AND b2 = ? AND c = ? AND t = 'HH24:mi' AND x::text = '{}'");
        assert_eq!(mysql.order, [0, 1, 0, 2]);
        assert_eq!(postgres.numbered, "b = $3 AND a = $2 AND b2 = $3 AND c = $1 AND t = 'HH24:mi' AND x::text = '{}'");
    }

    #[test]
    fn last_parameter_takes_the_remaining_arguments() {
        let [postgres, ..] = sql("-- name: one\n-- args: rows text\nFROM {batch(:rows, a int, (b, c), 'd, e')}\n");
        assert_eq!(postgres.as_deref(), Some("FROM ROWS($1, a int, (b, c), 'd, e')"));
    }

    #[test]
    fn statement_of_some_dialects_has_no_text_in_others() {
        let all = sql("-- name: one\n-- mysql, sqlite:\n-- Why it differs.\nSELECT 1\n-- sqlite:\n+ 1\n");
        assert_eq!(all, [None, Some("SELECT 1".to_owned()), Some("SELECT 1 + 1".to_owned())]);
    }

    #[test]
    fn macro_that_nothing_uses_is_named() {
        let unused = |macros: &str| {
            let files = [parse("test.sql", macros).unwrap()];
            Library::new(&files).unwrap().all_are_used().err()
        };
        assert_eq!(unused("-- macro: a(x)\n{x}\n-- name: one\n{a(1)}\n"), None);
        assert_eq!(unused("-- macro: a\n1\n-- name: one\nSELECT 1\n").as_deref(), Some("test.sql:1: nothing uses {a}"));
    }

    #[test]
    fn mistakes_name_the_file_and_the_line() {
        for (statement, problem) in [
            ("-- name: one\nSELECT :a\n", "test.sql:1: one on postgres: the argument :a is not declared"),
            (
                "-- name: one\nSELECT {plus(a)}\n",
                "test.sql:1: one on postgres: {plus} has 2 parameters and gets 1 arguments",
            ),
            ("-- name: one\nSELECT {minus(a)}\n", "there is no macro {minus}"),
            ("-- name: one\nSELECT {plus(a, b)\n", "`}` is missing"),
            ("-- name: one\n-- args: a number\nSELECT :a\n", "test.sql:2: `a number`: expected int, int?, text"),
            ("SELECT 1\n", "test.sql:1: SQL before the first"),
            ("-- name: one\n-- name: two\nSELECT 1\n", "test.sql:1: one has no SQL"),
            ("-- macro: lock\n x\n-- name: one\nSELECT 1\n", "the macro lock is already at macros.sql:"),
            ("-- macro: a\n{a}\n-- name: one\nSELECT {a}\n", "macros contain each other"),
            (
                "-- name: one\nSELECT 1\n-- name: one\nSELECT 2\n",
                "test.sql:3: the statement one is already at test.sql:1",
            ),
        ] {
            let error = texts(statement).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}
