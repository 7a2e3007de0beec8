//! Definitions in the database: reads them and edits them without overwriting a concurrent change.

pub(crate) mod tick;
pub(crate) mod versions;

use async_trait::async_trait;
use solid_notify_core::definition::{BY_HAND, ColumnValue, NotifyDef, StoredVersion, by_hand, deleted_name};
use solid_notify_core::error::StoreError;
use solid_notify_core::notice::time_from_millis;
use solid_notify_core::store::{DefinitionStore, Edit, Edited, SendLimits};
use tokio::time::Instant;

use crate::connections::{Purpose, Share};
use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::{readable, required};
use crate::dialect::statement::{Arg, Statement};
use crate::statements::statements;
use crate::store::SqlStore;

/// Maximum number of tries to store versions that another node stores at the same moment.
const TRIES: u32 = 4;

statements! {
    DefinitionStatements:
    definitions,
    definition_by_name,
    lock_definition,
    create_definition,
    replace_definition,
    delete_definition,
}

impl DefinitionStatements {
    pub(crate) fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        let columns = NotifyDef::COLUMNS;
        let select = select_definitions(kind);
        let parameters: Vec<String> = (0..columns.len()).map(|n| format!("${}", n + 2)).collect();
        let assignments: Vec<String> =
            columns.iter().zip(&parameters).map(|(column, parameter)| format!("{column} = {parameter}")).collect();
        let id = format!("${}", columns.len() + 2);
        Self {
            definitions: statement(format!("{select} ORDER BY id")),
            definition_by_name: statement(format!("{select} WHERE name = $2")),
            lock_definition: statement(format!("{select} WHERE id = $2{}", kind.lock_wait())),
            create_definition: statement(format!(
                "INSERT INTO notify_def ({}, create_time, update_time) VALUES ({}, {now}, {now})",
                columns.join(", "),
                parameters.join(", ")
            )),
            replace_definition: statement(format!(
                "UPDATE notify_def SET {}, update_time = {now} WHERE id = {id}",
                assignments.join(", ")
            )),
            // The name becomes free. The handler's name is stored, so that notices in flight still find their handler.
            delete_definition: statement(format!(
                "UPDATE notify_def SET delete_time = {now}, update_time = {now}, handler = $3, name = $4 WHERE id = $2"
            )),
        }
    }
}

/// A SELECT of all columns of a row, as [`read`] reads them.
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

impl<DB: Dialect> SqlStore<DB> {
    pub(crate) async fn try_definitions(&self, on: &Share<DB>) -> sqlx::Result<Vec<NotifyDef>> {
        let began = Instant::now();
        let mut conn = on.get().await?;
        let rows = DB::fetch(&mut conn, &DB::statements().definitions.definitions, &[self.now()]).await?;
        let tables = self.known.look::<DB>(&mut conn).await?;
        conn.done();
        let definitions = readable::<DB, _>(&rows, "definition", read::<DB>);
        self.known.remember(began, &definitions, tables);
        Ok(definitions)
    }

    pub(crate) async fn try_edit(&self, on: &Share<DB>, edit: &Edit, who: &str) -> sqlx::Result<Edited> {
        let mut conn = on.get().await?;
        // Searched without a transaction, because on SQLite it would be a writer's, and each process defines its definitions at
        // every start.
        if let Edit::Create(def) = edit
            && let Some(row) = self.by_name(&mut conn, &def.name).await?
        {
            conn.done();
            return Ok(Edited::Conflict(row));
        }
        let mut tx = conn.begin().await?;
        let edited = self.edit_in(&mut tx, edit, who).await;
        let edited = match finish(tx, edited).await {
            // Another definition has the new name.
            Err(error) if is_unique_violation(&error) => {
                let name = match edit {
                    Edit::Create(def)
                    | Edit::Replace { new: def, .. }
                    | Edit::RollBack { new: def, .. }
                    | Edit::Delete { seen: def } => &def.name,
                };
                match self.by_name(&mut conn, name).await? {
                    Some(row) => Edited::Conflict(row),
                    None => return Err(error),
                }
            }
            edited => edited?,
        };
        conn.done();
        self.known.forget();
        Ok(edited)
    }

    /// Writes the change and its version.
    async fn edit_in(&self, tx: &mut DB::Connection, edit: &Edit, who: &str) -> sqlx::Result<Edited> {
        let edited = match edit {
            Edit::Create(def) => self.create(tx, def).await?,
            Edit::Replace { seen, new } | Edit::RollBack { seen, new, .. } => self.replace(tx, seen, new, who).await?,
            Edit::Delete { seen } => self.delete(tx, seen, who).await?,
        };
        if let Edited::Done(row) = &edited {
            self.write_version(tx, row, &edit.act(), who).await?;
        }
        Ok(edited)
    }

    async fn create(&self, conn: &mut DB::Connection, def: &NotifyDef) -> sqlx::Result<Edited> {
        let values = def.values();
        DB::execute(conn, &DB::statements().definitions.create_definition, &self.with_values(&values)).await?;
        let created = self.by_name(conn, &def.name).await?;
        Ok(created.map_or(Edited::Missing, Edited::Done))
    }

    async fn replace(
        &self,
        conn: &mut DB::Connection,
        seen: &NotifyDef,
        new: &NotifyDef,
        who: &str,
    ) -> sqlx::Result<Edited> {
        match self.lock(conn, seen, who).await? {
            Edited::Done(_) => {}
            other => return Ok(other),
        }
        let values = new.values();
        let mut args = self.with_values(&values);
        args.push(seen.id.into());
        DB::execute(conn, &DB::statements().definitions.replace_definition, &args).await?;
        self.lock_row(conn, seen.id).await
    }

    async fn delete(&self, conn: &mut DB::Connection, seen: &NotifyDef, who: &str) -> sqlx::Result<Edited> {
        match self.lock(conn, seen, who).await? {
            Edited::Done(_) => {}
            other => return Ok(other),
        }
        let free_name = deleted_name(seen);
        let args = [self.now(), seen.id.into(), seen.handler_name().into(), free_name.as_str().into()];
        DB::execute(conn, &DB::statements().definitions.delete_definition, &args).await?;
        self.lock_row(conn, seen.id).await
    }

    /// Locks the row. Returns [`Edited::Done`] where it still equals what the editor saw. First stores a version of an edit made
    /// by SQL that no node has seen yet.
    async fn lock(&self, conn: &mut DB::Connection, seen: &NotifyDef, who: &str) -> sqlx::Result<Edited> {
        Ok(match self.lock_row(conn, seen.id).await? {
            Edited::Done(row) if row.delete_time.is_some() => Edited::Missing,
            Edited::Done(row) if !row.differences(seen).is_empty() => Edited::Conflict(row),
            Edited::Done(row) => {
                self.write_version(conn, &row, BY_HAND, &by_hand(who)).await?;
                Edited::Done(row)
            }
            other => other,
        })
    }

    async fn lock_row(&self, conn: &mut DB::Connection, id: i64) -> sqlx::Result<Edited> {
        let rows = DB::fetch(conn, &DB::statements().definitions.lock_definition, &[self.now(), id.into()]).await?;
        Ok(rows.first().map(read::<DB>).transpose()?.map_or(Edited::Missing, Edited::Done))
    }

    async fn by_name(&self, conn: &mut DB::Connection, name: &str) -> sqlx::Result<Option<NotifyDef>> {
        let rows =
            DB::fetch(conn, &DB::statements().definitions.definition_by_name, &[self.now(), name.into()]).await?;
        rows.first().map(read::<DB>).transpose()
    }

    fn with_values<'a>(&self, values: &'a [ColumnValue]) -> Vec<Arg<'a>> {
        let values = values.iter().map(|value| match value {
            ColumnValue::Text(text) => Arg::Text(text.as_deref()),
            ColumnValue::Int(number) => Arg::Int(*number),
            ColumnValue::Bool(flag) => Arg::Bool(*flag),
        });
        std::iter::once(self.now()).chain(values).collect()
    }
}

/// Commits where the edit is done, else rolls back. After an error it rolls back and returns that error.
async fn finish<DB: Dialect>(tx: sqlx::Transaction<'_, DB>, edited: sqlx::Result<Edited>) -> sqlx::Result<Edited> {
    match &edited {
        Ok(Edited::Done(_)) => tx.commit().await?,
        _ => tx.rollback().await?,
    }
    edited
}

pub(crate) fn is_unique_violation(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation)
}

pub(crate) fn read<DB: Dialect>(row: &DB::Row) -> sqlx::Result<NotifyDef> {
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

#[async_trait]
impl<DB: Dialect> DefinitionStore for SqlStore<DB> {
    async fn definitions(&self) -> Result<Vec<NotifyDef>, StoreError> {
        self.call("reading the definitions", Purpose::Work, |on| self.try_definitions(on)).await
    }

    async fn edit(&self, edit: &Edit, who: &str) -> Result<Edited, StoreError> {
        self.call("editing a definition", Purpose::Operate, |on| self.try_edit(on, edit, who)).await
    }

    async fn versions(&self, def_id: i64, up_to: i64, limit: usize) -> Result<Vec<StoredVersion>, StoreError> {
        self.call("reading the versions of a definition", Purpose::Operate, |on| {
            self.try_versions(on, def_id, up_to, limit)
        })
        .await
    }

    async fn last_versions(&self) -> Result<Vec<StoredVersion>, StoreError> {
        self.call("reading the last versions of the definitions", Purpose::Work, |on| self.try_last_versions(on)).await
    }

    async fn remember(&self, rows: &[NotifyDef], seen_by: &str) -> Result<bool, StoreError> {
        self.call("storing versions of definitions edited by SQL", Purpose::Operate, |on| async move {
            let mut done = self.try_remember(on, rows, seen_by).await;
            for _ in 1..TRIES {
                // Another node stored the same version at the same moment; the next try sees it.
                if !done.as_ref().is_err_and(is_unique_violation) {
                    break;
                }
                done = self.try_remember(on, rows, seen_by).await;
            }
            done
        })
        .await
    }

    async fn send_limits(&self) -> Result<SendLimits, StoreError> {
        self.call("reading the limits and the pause switch", Purpose::Work, |on| self.try_send_limits(on)).await
    }
}
