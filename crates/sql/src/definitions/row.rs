//! The row of a definition: the SELECT of its columns, and its reader.

use solid_notify_core::definition::{ColumnValue, NotifyDef};
use solid_notify_core::notice::time_from_millis;

use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::required;

/// A SELECT of all columns of a row, as [`read_definition`] reads them.
pub(crate) fn select_definitions(kind: Kind) -> String {
    let read: Vec<String> = NotifyDef::COLUMNS
        .iter()
        .zip(NotifyDef::KINDS)
        .map(|(column, value)| match value {
            // Drivers disagree about booleans, but all read 0 and 1.
            ColumnValue::Bool(_) => format!("CASE WHEN {column} THEN 1 ELSE 0 END"),
            _ => (*column).to_owned(),
        })
        .collect();
    // A set `delete_time` marks the row as deleted even where its value cannot be read.
    format!(
        "SELECT id, {}, {}, {}, coalesce({}, CASE WHEN delete_time IS NOT NULL THEN 0 END) FROM notify_def",
        read.join(", "),
        kind.epoch("create_time"),
        kind.epoch("update_time"),
        kind.epoch("delete_time")
    )
}

pub(crate) fn read_definition<DB: Dialect>(row: &DB::Row) -> sqlx::Result<NotifyDef> {
    let mut values = Vec::with_capacity(NotifyDef::COLUMNS.len());
    for (column, kind) in (1..).zip(NotifyDef::KINDS) {
        values.push(match kind {
            ColumnValue::Text(_) => ColumnValue::Text(DB::text(row, column)?),
            ColumnValue::Int(_) => ColumnValue::Int(DB::int(row, column)?),
            ColumnValue::Bool(_) => ColumnValue::Bool(DB::int(row, column)? == Some(1)),
        });
    }
    let times = NotifyDef::COLUMNS.len() + 1;
    let wrong = || sqlx::Error::Decode("a row of notify_def has null in a column that is never null".into());
    let mut def = NotifyDef::from_values(required::<DB>(row, 0)?, values).ok_or_else(wrong)?;
    def.create_time = DB::int(row, times)?.map(time_from_millis);
    def.update_time = DB::int(row, times + 1)?.map(time_from_millis);
    def.delete_time = DB::int(row, times + 2)?.map(time_from_millis);
    Ok(def)
}
