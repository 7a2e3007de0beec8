//! Tables and lists of fields for people.

use chrono::{DateTime, SecondsFormat, Utc};
use comfy_table::{CellAlignment, ContentArrangement, Table};

use crate::output::harmless;

/// The longest text of a cell in characters. `--json` has all of it.
const LONGEST: usize = 60;

/// Rows for people, under a header.
pub(crate) struct Rows {
    table: Table,
    empty: bool,
}

impl Rows {
    /// Begins a table. Columns of numbers begin with `#`.
    pub(crate) fn new(header: &[&str]) -> Self {
        let mut table = Table::new();
        table.load_style(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(header.iter().map(|name| name.trim_start_matches('#').to_uppercase()).collect::<Vec<_>>());
        for (column, name) in table.column_iter_mut().zip(header) {
            column.set_padding((0, 2));
            if name.starts_with('#') {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Self { table, empty: true }
    }

    /// Adds a row. Each cell is one line.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.empty = false;
        self.table.add_row(cells.map(|cell| short(&cell)));
    }

    /// Returns the text, or `otherwise` if there is no row.
    pub(crate) fn text(&self, otherwise: &str) -> String {
        if self.empty {
            return otherwise.to_owned();
        }
        self.table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    }
}

/// Returns text as one short line.
pub(crate) fn short(text: &str) -> String {
    let line = harmless(text).split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

/// Fields of one thing, each in a line: `name:  value`.
#[derive(Default)]
pub(crate) struct Fields {
    fields: Vec<(&'static str, String)>,
}

impl Fields {
    /// Adds a field; one without a value is left out.
    pub(crate) fn add(&mut self, name: &'static str, value: impl IntoText) -> &mut Self {
        if let Some(value) = value.into_text().filter(|value| !value.is_empty()) {
            self.fields.push((name, value));
        }
        self
    }

    /// Returns the text.
    pub(crate) fn text(&self) -> String {
        let width = self.fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0) + 1;
        let indent = format!("\n{:width$} ", "");
        let line = |(name, value): &(&str, String)| {
            format!("{:width$} {}", format!("{name}:"), harmless(value).trim_end().replace('\n', &indent))
        };
        self.fields.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// A value of a field or a cell; `None` where there is none.
pub(crate) trait IntoText {
    fn into_text(self) -> Option<String>;
}

macro_rules! text_of {
    ($($ty:ty),*) => {
        $(impl IntoText for $ty {
            fn into_text(self) -> Option<String> {
                Some(self.to_string())
            }
        })*
    };
}
text_of!(String, &str, &String, i64, u64, u32, usize, bool);

impl IntoText for DateTime<Utc> {
    fn into_text(self) -> Option<String> {
        Some(time(self))
    }
}

impl<T: IntoText> IntoText for Option<T> {
    fn into_text(self) -> Option<String> {
        self.and_then(T::into_text)
    }
}

impl<T> IntoText for &Option<T>
where
    for<'a> &'a T: IntoText,
{
    fn into_text(self) -> Option<String> {
        self.as_ref().and_then(<&T as IntoText>::into_text)
    }
}

impl IntoText for &DateTime<Utc> {
    fn into_text(self) -> Option<String> {
        Some(time(*self))
    }
}

impl IntoText for &i64 {
    fn into_text(self) -> Option<String> {
        Some(self.to_string())
    }
}

/// Returns a time for people: UTC, to the second.
pub(crate) fn time(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Returns the text of a value, or a dash.
pub(crate) fn cell(value: impl IntoText) -> String {
    value.into_text().filter(|text| !text.is_empty()).unwrap_or_else(|| "-".to_owned())
}

/// Returns the name of a definition, or its id where its row is gone.
pub(crate) fn definition(name: &str, id: i64) -> String {
    if name.is_empty() { id.to_string() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_short_lines() {
        assert_eq!(short("a\n b\u{7}"), "a b\u{FFFD}");
        assert_eq!(short(&"ü".repeat(61)).chars().count(), 61);
        assert_eq!(cell(None::<String>), "-");
    }

    #[test]
    fn fields_stand_in_columns() {
        let mut fields = Fields::default();
        fields.add("id", 7_i64).add("end reason", None::<String>).add("param", "a\nb");
        assert_eq!(fields.text(), "id:    7\nparam: a\n       b");
    }
}
