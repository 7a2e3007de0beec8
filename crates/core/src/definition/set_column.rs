//! [`NotifyDef::set`]: a column of a definition from text, for command lines and forms.
//!
//! What the values mean is left to [`super::Policy`].

use super::{ColumnValue, NotifyDef};
use crate::add::nearest_name;
use crate::error::{Error, Result};

impl NotifyDef {
    /// Sets the column of this name from text, as a person writes it; `None` sets it to null. Id and times stay. Whether the value can
    /// work is checked when the row is stored.
    ///
    /// ```
    /// use solid_notify_core::NotifyDef;
    ///
    /// let def = NotifyDef::new("sync").set("timeout", Some("10s"))?.set("enabled", Some("false"))?.set("owner", None)?;
    /// assert_eq!((def.timeout.as_str(), def.enabled), ("10s", false));
    /// let error = NotifyDef::new("sync").set("timout", Some("10s")).unwrap_err().to_string();
    /// assert!(error.contains("there is no column \"timout\"; did you mean \"timeout\"?"));
    /// # Ok::<(), solid_notify_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unknown column, for a text that is no number or no flag where the column has one, and for null where the
    /// column must have a value.
    pub fn set(self, column: &str, value: Option<&str>) -> Result<Self> {
        let wrong = |problem: String| Error::Invalid { what: "column", problem };
        let Some(at) = Self::COLUMNS.iter().position(|known| *known == column) else {
            let meant = nearest_name(column, Self::COLUMNS.iter().copied());
            let meant = meant.map(|name| format!("; did you mean {name:?}?")).unwrap_or_default();
            return Err(wrong(format!("there is no column {column:?}{meant}")));
        };
        let no_null = || wrong(format!("{column} has no null: give it a value"));
        let value = match (&Self::KINDS[at], value) {
            (ColumnValue::Text(_), text) => ColumnValue::Text(text.map(str::to_owned)),
            (ColumnValue::Int(_), None) => ColumnValue::Int(None),
            (ColumnValue::Int(_), Some(text)) => {
                let number = text.trim().parse();
                let number = number.map_err(|_| wrong(format!("{column} = {text:?}: expected a whole number")))?;
                ColumnValue::Int(Some(number))
            }
            (ColumnValue::Bool(_), Some(text)) => match text.trim() {
                "true" | "1" => ColumnValue::Bool(true),
                "false" | "0" => ColumnValue::Bool(false),
                _ => return Err(wrong(format!("{column} = {text:?}: expected true or false"))),
            },
            (ColumnValue::Bool(_), None) => return Err(no_null()),
        };
        let mut values = self.values();
        values[at] = value;
        let row = Self::from_values(self.id, values).ok_or_else(no_null)?;
        let (create_time, update_time, delete_time) = (self.create_time, self.update_time, self.delete_time);
        Ok(Self { create_time, update_time, delete_time, ..row })
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    fn problem(column: &str, value: Option<&str>) -> String {
        NotifyDef::new("a").set(column, value).unwrap_err().to_string()
    }

    #[test]
    fn text_becomes_the_type_of_its_column() {
        let mut row = NotifyDef::new("a").owner("ops").max_retry_times(3);
        (row.id, row.create_time) = (7, Some(DateTime::UNIX_EPOCH));
        let set = |row: NotifyDef, column: &str, value: Option<&str>| row.set(column, value).unwrap();
        let new = set(row.clone(), "max_retry_times", Some(" -1 "));
        assert_eq!((new.id, new.create_time, new.max_retry_times), (7, row.create_time, Some(-1)));
        assert_eq!(set(row.clone(), "max_retry_times", None).max_retry_times, None);
        assert_eq!(set(row.clone(), "owner", None).owner, None);
        assert_eq!(set(row.clone(), "owner", Some("")).owner.as_deref(), Some(""));
        assert!(!set(row.clone(), "enabled", Some("0")).enabled);
        assert_eq!(set(row.clone(), "name", Some("b")).name, "b");
        assert_eq!(
            set(row, "alert_trigger_type", Some("2")).alert_trigger_type,
            "never",
            "as a row with a number is read"
        );
    }

    #[test]
    fn text_that_does_not_fit_its_column_is_refused() {
        assert_eq!(problem("enabled", Some("yes")), "column: enabled = \"yes\": expected true or false");
        assert_eq!(
            problem("max_concurrency", Some("many")),
            "column: max_concurrency = \"many\": expected a whole number"
        );
        assert!(problem("max_concurrency", Some("9223372036854775808")).contains("expected a whole number"));
        for column in ["name", "timeout", "enabled", "max_concurrency"] {
            assert_eq!(problem(column, None), format!("column: {column} has no null: give it a value"));
        }
        assert_eq!(problem("id", Some("1")).split(';').next(), Some("column: there is no column \"id\""));
    }
}
