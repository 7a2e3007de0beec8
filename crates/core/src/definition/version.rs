//! Versions of a definition: its row at a time, with the author and the time of the change. This module decides which versions
//! a store must keep and how a version is read again; stores only keep them.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::{ColumnValue, Difference, NotifyDef};
use crate::audit::AuditEntry;
use crate::built_in::is_built_in;

/// The author where no operator is named.
pub(crate) const APPLICATION: &str = "application";
/// The act of a version whose row was created by the library.
pub(crate) const CREATED: &str = "created";
/// The act of a version by which a sweeper paused the definition.
pub(crate) const PAUSED: &str = "paused";
/// The act of a version that was found in the table, because a person edited the row by SQL.
pub const BY_HAND: &str = "by hand";
/// The key beside the columns that marks the row as deleted.
const DELETED: &str = "deleted";
/// The longest name of an author in characters: what the narrowest column holds.
const WHO_LIMIT: usize = 200;

/// A version of a definition, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DefVersion {
    /// Its number, starting at 1.
    pub version: i64,
    /// When it was stored, by the database's clock. An edit by SQL is stored when a node notices it.
    pub time: DateTime<Utc>,
    /// The author.
    pub who: String,
    /// The kind of change: `created`, `edited`, `deleted`, `rolled back to 3`, `paused`, `by hand`.
    pub act: String,
    /// The row at that time. Columns that did not exist have their defaults; `delete_time` is set if it was deleted.
    pub row: NotifyDef,
    /// The differences from the version before; empty for the first.
    #[serde(serialize_with = "super::columns::as_changes")]
    pub differences: Vec<Difference>,
}

/// A row of `notify_def_version`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredVersion {
    /// The definition.
    pub def_id: i64,
    /// Its number, starting at 1.
    pub version: i64,
    /// When it was stored.
    pub time: DateTime<Utc>,
    /// The author, at most 200 characters.
    pub who: String,
    /// The kind of change.
    pub act: String,
    /// The columns that people edit as one JSON object, and `"deleted": true` in that of a deleted row.
    pub definition: String,
}

impl StoredVersion {
    /// Returns the version that follows `last` when the row has become `row`; `None` if `last` already equals it.
    pub fn after(last: Option<&Self>, row: &NotifyDef, act: &str, who: &str, time: DateTime<Utc>) -> Option<Self> {
        if last.is_some_and(|last| last.says(row)) {
            return None;
        }
        Some(Self {
            def_id: row.id,
            // A forged last number must not end the process; the store refuses the number that is there twice.
            version: last.map_or(0, |last| last.version).saturating_add(1),
            time,
            who: who.chars().take(WHO_LIMIT).collect(),
            act: act.to_owned(),
            definition: written(row),
        })
    }

    /// Returns the audit entry of this version. It names the changed columns without their values, because the version has
    /// them. A first version is in the audit only if an operator created the row: those of the application, of sweepers (the built-in
    /// definitions) and of plain SQL change nothing that was there. `reason`: why it was changed, if that is known.
    pub fn audit(&self, last: Option<&Self>, reason: Option<&str>) -> Option<AuditEntry> {
        let row = self.row().ok()?;
        let mut detail = format!("definition {:?}, version {}", row.name, self.version);
        match last {
            Some(last) => {
                let before = last.row().ok()?;
                let columns: Vec<&str> = before.differences(&row).into_iter().map(|(column, ..)| column).collect();
                detail = format!("{detail}: {}", columns.join(", "));
            }
            None if self.act == CREATED && self.who != APPLICATION && !is_built_in(&row.name) => {}
            None => return None,
        }
        if let Some(reason) = reason {
            detail = format!("{detail}; reason: {reason}");
        }
        let mut entry = AuditEntry::new(self.time, self.who.as_str(), self.act.as_str());
        (entry.def_id, entry.detail) = (Some(self.def_id), Some(detail));
        Some(entry)
    }

    /// Returns the row at that time, with the defaults of columns that did not exist.
    ///
    /// # Errors
    /// A description of the part that cannot be read, if a person edited the stored text.
    pub fn row(&self) -> Result<NotifyDef, String> {
        let columns = self.columns()?;
        let mut row = NotifyDef::new("");
        row.id = self.def_id;
        let mut row = self.put(&columns, &row)?;
        row.delete_time = (columns.get(DELETED) == Some(&Value::Bool(true))).then_some(self.time);
        Ok(row)
    }

    /// Returns `present` with the columns of this version. Columns that did not exist then keep their present values.
    ///
    /// # Errors
    /// As [`Self::row`].
    pub fn onto(&self, present: &NotifyDef) -> Result<NotifyDef, String> {
        self.put(&self.columns()?, present)
    }

    fn put(&self, columns: &Map<String, Value>, present: &NotifyDef) -> Result<NotifyDef, String> {
        let mut values = present.values();
        for ((column, kind), value) in NotifyDef::COLUMNS.iter().zip(NotifyDef::KINDS).zip(&mut values) {
            let Some(stored) = columns.get(*column) else { continue };
            *value = match (kind, stored) {
                (ColumnValue::Text(_), Value::Null) => ColumnValue::Text(None),
                (ColumnValue::Text(_), Value::String(text)) => ColumnValue::Text(Some(text.clone())),
                (ColumnValue::Int(_), Value::Null) => ColumnValue::Int(None),
                (ColumnValue::Int(_), Value::Number(number)) if number.is_i64() => ColumnValue::Int(number.as_i64()),
                (ColumnValue::Bool(_), Value::Bool(flag)) => ColumnValue::Bool(*flag),
                _ => return Err(format!("version {} has {stored} as {column}", self.version)),
            };
        }
        let wrong = || format!("version {} has null in a column that cannot be null", self.version);
        let mut row = NotifyDef::from_values(present.id, values).ok_or_else(wrong)?;
        (row.create_time, row.update_time, row.delete_time) =
            (present.create_time, present.update_time, present.delete_time);
        Ok(row)
    }

    /// Returns the row of this version, marked as deleted now. For a row that was deleted by SQL.
    pub fn gone(&self, now: DateTime<Utc>) -> Option<NotifyDef> {
        let mut row = self.row().ok()?;
        row.delete_time = Some(now);
        Some(row)
    }

    fn columns(&self) -> Result<Map<String, Value>, String> {
        serde_json::from_str(&self.definition)
            .map_err(|error| format!("version {} is no JSON object: {error}", self.version))
    }

    fn says(&self, row: &NotifyDef) -> bool {
        let same =
            |own: NotifyDef| own.delete_time.is_some() == row.delete_time.is_some() && own.differences(row).is_empty();
        // Usually the text equals the one written now. The text of another release, or of an edit by hand, must be parsed.
        self.definition == written(row) || self.row().is_ok_and(same)
    }
}

/// Returns the author of an edit by SQL, of which only the node that noticed it is known.
pub fn by_hand(seen_by: &str) -> String {
    format!("by hand, seen by {seen_by}")
}

/// Returns the definitions whose last version differs from the row. `rows` are all rows, `last` all last versions.
pub fn unseen(rows: &[NotifyDef], last: &[StoredVersion]) -> Vec<i64> {
    let mut last: BTreeMap<i64, &StoredVersion> = last.iter().map(|version| (version.def_id, version)).collect();
    let changed = |row: &&NotifyDef| !last.remove(&row.id).is_some_and(|version| version.says(row));
    let mut ids: Vec<i64> = rows.iter().filter(changed).map(|row| row.id).collect();
    // The rows of these were deleted by SQL. A definition that was deleted and purged has no version.
    let lost = |version: &&&StoredVersion| version.row().is_ok_and(|row| row.delete_time.is_none());
    ids.extend(last.values().filter(lost).map(|version| version.def_id));
    ids
}

/// Returns versions, the latest first, with the changes of each. The oldest of `stored` is only shown if it is the first
/// version. Versions that cannot be parsed are skipped.
pub(crate) fn for_people(stored: &[StoredVersion]) -> Vec<DefVersion> {
    let mut shown: Vec<DefVersion> = Vec::with_capacity(stored.len());
    for version in stored.iter().rev() {
        let row = match version.row() {
            Ok(row) => row,
            Err(error) => {
                tracing::error!(def_id = version.def_id, error, "cannot read a version; it is skipped");
                continue;
            }
        };
        let differences = shown.last().map(|before| before.row.differences(&row)).unwrap_or_default();
        let (who, act) = (version.who.clone(), version.act.clone());
        shown.push(DefVersion { version: version.version, time: version.time, who, act, row, differences });
    }
    shown.reverse();
    shown
}

fn written(row: &NotifyDef) -> String {
    // Texts, numbers and flags can always be written.
    serde_json::to_string(&Columns(row)).unwrap_or_default()
}

/// The columns of a row as one JSON object.
struct Columns<'a>(&'a NotifyDef);

impl Serialize for Columns<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        self.0.write_columns(&mut object)?;
        if self.0.delete_time.is_some() {
            object.serialize_entry(DELETED, &true)?;
        }
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const NOW: DateTime<Utc> = DateTime::UNIX_EPOCH;

    fn version(last: Option<&StoredVersion>, row: &NotifyDef) -> Option<StoredVersion> {
        StoredVersion::after(last, row, "edited", "alice", NOW)
    }

    fn row() -> NotifyDef {
        let mut row = NotifyDef::new("sync").handler("h").max_retry_times(-1).enabled(false);
        row.id = 7;
        row
    }

    #[test]
    fn a_version_gives_back_every_column_of_its_row() {
        let first = version(None, &row()).unwrap();
        assert_eq!((first.version, first.def_id), (1, 7));
        assert_eq!(first.row(), Ok(row()));
        let mut deleted = row();
        deleted.delete_time = Some(NOW);
        let second = version(Some(&first), &deleted).unwrap();
        assert_eq!((second.version, second.row().unwrap().delete_time), (2, Some(NOW)));
        assert_eq!(first.gone(NOW), Some(deleted));
    }

    #[test]
    fn a_row_equal_to_its_last_version_is_not_stored_again() {
        let first = version(None, &row()).unwrap();
        assert_eq!(version(Some(&first), &row()), None);
        let mut touched = row();
        touched.update_time = Some(NOW + Duration::from_secs(1));
        assert_eq!(version(Some(&first), &touched), None, "a time is nothing that people edit");
        assert_eq!(version(Some(&first), &row().timeout("1s")).unwrap().version, 2);
    }

    #[test]
    fn columns_that_did_not_exist_keep_their_present_values() {
        let mut old = version(None, &row()).unwrap();
        old.definition = r#"{"name": "sync", "timeout": "9s", "a_later_column": 1}"#.to_owned();
        let onto = old.onto(&row()).unwrap();
        assert_eq!((onto.timeout.as_str(), onto.handler.as_deref(), onto.enabled), ("9s", Some("h"), false));
        assert_eq!(old.row().unwrap(), {
            let mut def = NotifyDef::new("sync").timeout("9s");
            def.id = 7;
            def
        });
    }

    #[test]
    fn a_spoiled_version_is_reported_and_followed_by_a_good_one() {
        let mut spoiled = version(None, &row()).unwrap();
        for (text, problem) in [
            ("[]", "no JSON object"),
            (r#"{"name": null}"#, "null in a column"),
            (r#"{"timeout": 5}"#, "5 as timeout"),
            (r#"{"max_concurrency": "2"}"#, "\"2\" as max_concurrency"),
        ] {
            spoiled.definition = text.to_owned();
            let error = spoiled.row().unwrap_err();
            assert!(error.starts_with("version 1") && error.contains(problem), "{error}");
            assert_eq!(version(Some(&spoiled), &row()).unwrap().version, 2);
            assert!(for_people(&[spoiled.clone()]).is_empty());
        }
    }

    #[test]
    fn edits_by_sql_are_found_by_comparing_rows_with_last_versions() {
        let stored = version(None, &row()).unwrap();
        assert!(unseen(&[row()], std::slice::from_ref(&stored)).is_empty());
        assert_eq!(unseen(&[row().timeout("1s")], std::slice::from_ref(&stored)), [7]);
        assert_eq!(unseen(&[row()], &[]), [7], "one without a version");
        assert_eq!(unseen(&[], std::slice::from_ref(&stored)), [7], "one that is gone");
        let deleted = version(Some(&stored), &stored.gone(NOW).unwrap()).unwrap();
        assert!(unseen(&[], std::slice::from_ref(&deleted)).is_empty(), "that is known");
        assert_eq!(unseen(&[row()], &[deleted]), [7], "it is back");
    }

    #[test]
    fn versions_show_values_and_the_audit_only_column_names() {
        let first = version(None, &row()).unwrap();
        let second = version(Some(&first), &row().timeout("1s").handler_config("secret")).unwrap();
        let shown = for_people(&[second.clone(), first.clone()]);
        assert_eq!(shown.iter().map(|shown| shown.version).collect::<Vec<_>>(), [2, 1]);
        let text = |text: &str| ColumnValue::Text(Some(text.to_owned()));
        assert_eq!(shown[0].differences[0], ("timeout", text("30s"), text("1s")));
        assert!(shown[1].differences.is_empty());
        assert!(first.audit(None, None).is_none());
        let entry = second.audit(Some(&first), None).unwrap();
        let detail = "definition \"sync\", version 2: timeout, handler_config";
        assert_eq!(entry.detail.as_deref(), Some(detail));
        let reasoned = second.audit(Some(&first), Some("410 Gone")).unwrap();
        assert_eq!(reasoned.detail, Some(format!("{detail}; reason: 410 Gone")));
        assert_eq!((entry.def_id, entry.notice_id, entry.act.as_str()), (Some(7), None, "edited"));
    }
}
