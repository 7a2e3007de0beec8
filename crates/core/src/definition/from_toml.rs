//! Definitions as TOML: a table for each definition, a key for each column. Every problem is reported with its line and column.
//!
//! What the values mean is left to [`super::Policy`], comparing with stored rows to [`crate::operate`].

use std::borrow::Cow;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::older::may_be_number;
use super::{ColumnValue, Definitions, FileProblem, NotifyDef};
use crate::add::nearest_name;
use crate::error::{Error, Result};

/// A key with its place in the text.
type Key<'t> = Spanned<Cow<'t, str>>;
/// A value with its place in the text.
type Value<'t> = Spanned<DeValue<'t>>;

/// The key of the tables of a definition's targets.
const TARGETS: &str = "targets";

impl Definitions {
    /// Reads definitions from TOML: a table for each definition, whose keys are columns of `notify_def`. A column that is left out
    /// has the value of [`NotifyDef::new`]. A name with a dot is written in quotes: `["notify.alert"]`. The tables in `targets` of a
    /// definition are its targets: `[payment.targets.erp]` is the definition `payment/erp`.
    ///
    /// ```
    /// use solid_notify_core::definition::Definitions;
    ///
    /// let definitions = Definitions::from_toml(r#"
    ///     [payment]
    ///     timeout = "10s"
    ///     max_concurrency = 5
    ///     retry_rules = '{ "busy": "exp(1m, x2, max 1h)" }'
    ///
    ///     ["notify.alert"]
    ///     max_retry_times = 20
    /// "#)?;
    /// assert_eq!(definitions.rows()[0].timeout, "10s");
    ///
    /// let error = Definitions::from_toml("[payment]\ntimout = \"10s\"\n").unwrap_err().to_string();
    /// assert!(error.contains("line 2, column 1: definition \"payment\": there is no column \"timout\"; did you mean \"timeout\"?"));
    /// # Ok::<(), solid_notify_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidFile`] with the places of all problems: of all mistakes in the syntax, else of all unknown columns, values of
    /// the wrong type and values that cannot work.
    pub fn from_toml(text: &str) -> Result<Self> {
        let mut reader = Reader { text, problems: Vec::new() };
        let rows = reader.document();
        let mut problems = reader.problems;
        if problems.is_empty() {
            return Ok(Self::checked(rows));
        }
        problems.sort_by_key(|problem| (problem.line, problem.column));
        Err(Error::InvalidFile { problems })
    }
}

/// Reads a text and collects its problems.
struct Reader<'t> {
    text: &'t str,
    problems: Vec<FileProblem>,
}

impl Reader<'_> {
    fn document(&mut self) -> Vec<NotifyDef> {
        let (document, errors) = DeTable::parse_recoverable(self.text);
        if !errors.is_empty() {
            for error in errors {
                self.wrong(error.span().unwrap_or_default(), None, error.message().to_owned());
            }
            // The parser goes on after a mistake, and may find what follows from it in the same line.
            self.problems.dedup_by_key(|problem| problem.line);
            return Vec::new();
        }
        let mut tables: Vec<(&Key<'_>, &Value<'_>)> = document.get_ref().iter().collect();
        tables.sort_by_key(|(name, _)| name.span().start);
        tables.into_iter().flat_map(|(name, value)| self.definition(name, value)).collect()
    }

    /// Reads one table: a definition and its targets. Every problem is noted, so the rows are only used if there is none.
    fn definition(&mut self, key: &Key<'_>, value: &Value<'_>) -> Vec<NotifyDef> {
        let name = key.get_ref().as_ref();
        let DeValue::Table(table) = value.get_ref() else {
            let kind = value.get_ref().type_str();
            self.wrong(key.span(), None, format!("a definition is a table: expected [{name}], found: {kind}"));
            return Vec::new();
        };
        let mut rows = Vec::from_iter(self.row(key, NotifyDef::new(name), table));
        match table.get(TARGETS).map(Spanned::get_ref) {
            None => {}
            Some(DeValue::Table(targets)) => {
                let mut targets: Vec<_> = targets.iter().collect();
                targets.sort_by_key(|(key, _)| key.span().start);
                for (key, value) in targets {
                    let target = NotifyDef::target(name, key.get_ref());
                    match value.get_ref() {
                        DeValue::Table(table) => rows.extend(self.row(key, target, table)),
                        other => {
                            let problem = format!("a target is a table, found: {}", other.type_str());
                            self.wrong(key.span(), Some(&target.name), problem);
                        }
                    }
                }
            }
            Some(other) => {
                let problem = format!("targets are tables: expected [{name}.{TARGETS}.…], found: {}", other.type_str());
                self.wrong(key.span(), Some(name), problem);
            }
        }
        rows
    }

    /// Reads the columns of a row, which begins with the given values.
    fn row(&mut self, place: &Key<'_>, row: NotifyDef, table: &DeTable<'_>) -> Option<NotifyDef> {
        let name = row.name.as_str();
        let mut values = row.values();
        let is_target = row.target_of.is_some();
        for (key, value) in table.iter().filter(|(key, _)| is_target || key.get_ref() != TARGETS) {
            let column = NotifyDef::COLUMNS.iter().skip(1).position(|column| *column == key.get_ref().as_ref());
            let Some(slot) = column.and_then(|at| values.get_mut(at + 1)) else {
                self.wrong(key.span(), Some(name), no_column(name, key, value));
                continue;
            };
            match read(key.get_ref(), slot, value.get_ref()) {
                Some(read) => *slot = read,
                None => {
                    let (expected, found) = (expected(slot), value.get_ref().type_str());
                    self.wrong(value.span(), Some(name), format!("{key}: expected {expected}, found: {found}"));
                }
            }
        }
        let row = NotifyDef::from_values(0, values)?;
        for problem in row.policy().err().unwrap_or_default() {
            // A wrong name is at the head of its table.
            let place = table.get(problem.column).map_or_else(|| place.span(), Spanned::span);
            self.wrong(place, Some(&row.name), problem.to_string());
        }
        Some(row)
    }

    fn wrong(&mut self, place: Range<usize>, definition: Option<&str>, problem: String) {
        let (line, column) = place_of(self.text, place.start);
        let definition = definition.map(str::to_owned);
        self.problems.push(FileProblem { line, column, definition, problem });
    }
}

/// Returns the value for a column whose present value is `slot`; `None`: it is of another type. A number of an older convention is
/// read as a row of the table is.
fn read(column: &str, slot: &ColumnValue, value: &DeValue<'_>) -> Option<ColumnValue> {
    let whole = |number: &DeInteger<'_>| i64::from_str_radix(number.as_str(), number.radix()).ok();
    match (slot, value) {
        (ColumnValue::Text(_), DeValue::String(text)) => Some(ColumnValue::Text(Some(text.to_string()))),
        (ColumnValue::Text(_), DeValue::Integer(number)) if may_be_number(column) => {
            whole(number).map(|number| ColumnValue::Text(Some(number.to_string())))
        }
        (ColumnValue::Int(_), DeValue::Integer(number)) => whole(number).map(|number| ColumnValue::Int(Some(number))),
        (ColumnValue::Bool(_), DeValue::Boolean(flag)) => Some(ColumnValue::Bool(*flag)),
        _ => None,
    }
}

fn expected(slot: &ColumnValue) -> String {
    match slot {
        ColumnValue::Text(Some(default)) => format!("a text in quotes, such as {default:?}"),
        ColumnValue::Text(None) => "a text in quotes".to_owned(),
        ColumnValue::Int(_) => "a whole number".to_owned(),
        ColumnValue::Bool(_) => "true or false".to_owned(),
    }
}

fn no_column(name: &str, key: &Key<'_>, value: &Value<'_>) -> String {
    let key = key.get_ref();
    let columns = || NotifyDef::COLUMNS.iter().skip(1).copied();
    match (nearest_name(key, columns()), value.get_ref()) {
        _ if key == "name" => "the name of a definition is the one of its table".to_owned(),
        (_, DeValue::Table(_)) => {
            format!(
                "there is no column {key:?}; a name with a dot is written in quotes: [{:?}]",
                format!("{name}.{key}")
            )
        }
        (Some(nearest), _) => format!("there is no column {key:?}; did you mean {nearest:?}?"),
        (None, _) => format!("there is no column {key:?}"),
    }
}

/// Returns line and column of a byte, both counted from 1; the column in characters.
fn place_of(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

#[cfg(test)]
#[path = "from_toml_tests.rs"]
mod tests;
