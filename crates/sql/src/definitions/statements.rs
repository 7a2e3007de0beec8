//! The statements over `notify_def`, made from the list of its columns. Those over notices are in [`crate::statements`].

use solid_notify_core::definition::{ColumnValue, NotifyDef};

use crate::dialect::kind::Kind;
use crate::dialect::statement::Statement;

/// The statements over `notify_def`, made from the list of its columns.
pub(crate) struct DefinitionStatements {
    pub(crate) all: Statement,
    pub(crate) by_name: Statement,
    pub(crate) lock: Statement,
    pub(crate) create: Statement,
    pub(crate) replace: Statement,
    pub(crate) delete: Statement,
}

/// A SELECT of all columns of a row, as `definitions.rs` reads them.
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

pub(crate) fn definition_statements(kind: Kind) -> DefinitionStatements {
    let now = kind.now();
    let columns = NotifyDef::COLUMNS;
    let select = select_definitions(kind);
    let parameters: Vec<String> = (0..columns.len()).map(|n| format!("${}", n + 2)).collect();
    let assignments: Vec<String> =
        columns.iter().zip(&parameters).map(|(column, parameter)| format!("{column} = {parameter}")).collect();
    let id = format!("${}", columns.len() + 2);
    let statement = |text: String| Statement::new(kind, &text);
    DefinitionStatements {
        all: statement(format!("{select} ORDER BY id")),
        by_name: statement(format!("{select} WHERE name = $2")),
        lock: statement(format!("{select} WHERE id = $2{}", kind.lock_wait())),
        create: statement(format!(
            "INSERT INTO notify_def ({}, create_time, update_time) VALUES ({}, {now}, {now})",
            columns.join(", "),
            parameters.join(", ")
        )),
        replace: statement(format!(
            "UPDATE notify_def SET {}, update_time = {now} WHERE id = {id}",
            assignments.join(", ")
        )),
        // The name becomes free. The handler's name is stored, so that notices in flight still find their handler.
        delete: statement(format!(
            "UPDATE notify_def SET delete_time = {now}, update_time = {now}, handler = $3, name = $4 WHERE id = $2"
        )),
    }
}
