//! Definitions as TOML, the inverse of `from_toml.rs`: for exports, which people edit and apply again.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::{ColumnValue, Definitions, NotifyDef};

impl Definitions {
    /// Returns the definitions as TOML that [`Self::from_toml`] reads: a table for each, with the columns that differ from a new
    /// definition. Targets are tables of their definition.
    ///
    /// A number that is null where a new definition has a value (in built-in ones) cannot be written: a comment says so.
    ///
    /// ```
    /// use solid_notify_core::NotifyDef;
    /// use solid_notify_core::definition::Definitions;
    ///
    /// let definitions = Definitions::of([NotifyDef::new("payment").timeout("10s")])?;
    /// assert_eq!(definitions.to_toml(), "[payment]\ntimeout = \"10s\"\n");
    /// # Ok::<(), solid_notify_core::Error>(())
    /// ```
    pub fn to_toml(&self) -> String {
        let names: BTreeSet<&str> = self.rows().iter().map(|row| row.name.as_str()).collect();
        // A target is a table of its definition, so it follows what is written of that one.
        let parent = |row: &NotifyDef| {
            let (parent, target) = row.name.rsplit_once('/').filter(|_| row.target_of.is_some())?;
            names.contains(parent).then(|| (parent.to_owned(), target.to_owned()))
        };
        let mut text = String::new();
        for row in self.rows().iter().filter(|row| parent(row).is_none()) {
            table(&mut text, &key(&row.name), row, NotifyDef::new(&row.name));
            for target in self.rows() {
                let Some((_, name)) = parent(target).filter(|(of, _)| *of == row.name) else { continue };
                let mut new = NotifyDef::target(&row.name, &name);
                new.target_of = target.target_of;
                table(&mut text, &format!("{}.targets.{}", key(&row.name), key(&name)), target, new);
            }
        }
        text
    }
}

/// Writes a table with the columns of `row` that differ from `new`.
fn table(text: &mut String, head: &str, row: &NotifyDef, new: NotifyDef) {
    if !text.is_empty() {
        text.push('\n');
    }
    // Writing to a string does not fail.
    let _ = writeln!(text, "[{head}]");
    for (column, value, _) in row.differences(&new) {
        let _ = match value {
            ColumnValue::Text(value) => writeln!(text, "{column} = {}", quoted(value.as_deref().unwrap_or_default())),
            ColumnValue::Int(Some(number)) => writeln!(text, "{column} = {number}"),
            ColumnValue::Int(None) => writeln!(text, "# {column} is null, which TOML cannot say"),
            ColumnValue::Bool(flag) => writeln!(text, "{column} = {flag}"),
        };
    }
}

/// Returns a key, in quotes where it needs them.
fn key(name: &str) -> String {
    let bare = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { escaped(name) }
}

/// Returns a text in quotes: as it is where that is easier to read, as JSON in a column for instance.
fn quoted(text: &str) -> String {
    let plain = !text.contains('\'') && !text.contains(|letter: char| letter.is_control());
    if plain && text.contains(['"', '\\']) { format!("'{text}'") } else { escaped(text) }
}

fn escaped(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            letter if letter.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_again(rows: Vec<NotifyDef>) -> Vec<NotifyDef> {
        let text = Definitions::of(rows).unwrap().to_toml();
        Definitions::from_toml(&text).unwrap_or_else(|error| panic!("{error}\n{text}")).rows().to_vec()
    }

    #[test]
    fn an_export_has_what_differs_and_targets_below_their_definition() {
        let erp = NotifyDef::target("order", "erp").handler_config(r#"{"url":"https://erp.example"}"#);
        let rows = vec![
            erp.clone(),
            NotifyDef::new("order").enabled(false).max_retry_times(-1),
            NotifyDef::new("notify.alert"),
        ];
        let expected = "[order]\nenabled = false\nmax_retry_times = -1\n\n[order.targets.erp]\n\
                        handler_config = '{\"url\":\"https://erp.example\"}'\n\n[\"notify.alert\"]\n";
        assert_eq!(Definitions::of(rows.clone()).unwrap().to_toml(), expected);
        assert_eq!(read_again(rows.clone()), [rows[1].clone(), erp, rows[2].clone()]);
    }

    #[test]
    fn null_of_a_built_in_row_is_blank_or_a_comment() {
        let mut row = NotifyDef::new("notify.purge").max_retry_times(3);
        row.schedule = None;
        assert_eq!(read_again(vec![row])[0].schedule.as_deref(), Some(""), "blank means none");
        let mut row = NotifyDef::new("notify.bulk");
        row.max_retry_times = None;
        let text = Definitions::of([row]).unwrap().to_toml();
        assert_eq!(text, "[\"notify.bulk\"]\n# max_retry_times is null, which TOML cannot say\n");
    }

    proptest! {
        #[test]
        fn an_export_is_read_as_the_same_rows(name in "[^\0]{1,20}", text in any::<String>(), number in 1..1000_i64) {
            let text = text.replace('\0', "");
            let row = NotifyDef::new(name).description(text.clone()).owner(text).max_concurrency(number);
            prop_assume!(row.policy().is_ok());
            prop_assert_eq!(read_again(vec![row.clone()]), vec![row]);
        }
    }
}
