//! Definitions in the database: reads them and edits them without overwriting a concurrent change.

mod row;
pub(crate) mod tick;
pub(crate) mod versions;

use solid_notify_core::definition::{BY_HAND, ColumnValue, NotifyDef, by_hand, deleted_handler, deleted_name};
use solid_notify_core::store::{Edit, Edited};
use tokio::time::Instant;

use crate::add::known_ids::KnownIds;
use crate::alerts;
use crate::connections::Share;
use crate::definitions::row::{read_definition, select_definitions};
use crate::definitions::versions::write_version;
use crate::dialect::Dialect;
use crate::dialect::fault::is_unique_violation;
use crate::dialect::kind::Kind;
use crate::dialect::row::readable;
use crate::dialect::statement::{Arg, Statement, statements};

statements! {
    DefinitionStatements:
    definitions,
    definition_by_name,
    has_definition,
    lock_definition,
    create_definition,
    replace_definition,
    delete_definition,
}

impl DefinitionStatements {
    fn new(kind: Kind) -> Self {
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
            has_definition: statement("SELECT 1 FROM notify_def WHERE id = $2".into()),
            lock_definition: statement(format!("{select} WHERE id = $2{}", kind.lock_if_free())),
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

pub(crate) async fn definitions<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    known: &KnownIds,
) -> sqlx::Result<Vec<NotifyDef>> {
    let began = Instant::now();
    let mut conn = on.get().await?;
    let rows = DB::fetch(&mut conn, &DefinitionStatements::of(DB::KIND).definitions, &[now]).await?;
    let tables = known.look::<DB>(&mut conn).await?;
    conn.done();
    let definitions = readable::<DB, _>(&rows, "definition", read_definition::<DB>);
    known.remember(began, &definitions, tables);
    Ok(definitions)
}

/// `None`: another session has locked the row.
pub(crate) async fn edit<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    known: &KnownIds,
    edit: &Edit,
    who: &str,
) -> sqlx::Result<Option<Edited>> {
    let mut conn = on.get().await?;
    // Searched without a transaction, because on SQLite it would be a writer's, and each process defines its definitions at
    // every start.
    if let Edit::Create(def) = edit
        && let Some(row) = by_name::<DB>(&mut conn, now, &def.name).await?
    {
        conn.done();
        return Ok(Some(Edited::Conflict(row)));
    }
    let mut tx = conn.begin().await?;
    let edited = edit_in::<DB>(&mut tx, now, edit, who).await;
    let edited = match finish(tx, edited).await {
        // Another definition has the new name.
        Err(error) if is_unique_violation(&error) => {
            let name = match edit {
                Edit::Create(def)
                | Edit::Replace { new: def, .. }
                | Edit::RollBack { new: def, .. }
                | Edit::Pause { new: def, .. }
                | Edit::Delete { seen: def } => &def.name,
            };
            match by_name::<DB>(&mut conn, now, name).await? {
                Some(row) => Some(Edited::Conflict(row)),
                None => return Err(error),
            }
        }
        edited => edited?,
    };
    conn.done();
    known.forget();
    Ok(edited)
}

/// Writes the change, its version and its alarm.
async fn edit_in<DB: Dialect>(
    tx: &mut DB::Connection,
    now: Arg<'_>,
    edit: &Edit,
    who: &str,
) -> sqlx::Result<Option<Edited>> {
    let edited = match edit {
        Edit::Create(def) => Some(create::<DB>(tx, now, def).await?),
        Edit::Replace { seen, new } | Edit::RollBack { seen, new, .. } | Edit::Pause { seen, new, .. } => {
            replace::<DB>(tx, now, seen, new, who).await?
        }
        Edit::Delete { seen } => delete::<DB>(tx, now, seen, who).await?,
    };
    if let Some(Edited::Stored(row)) = &edited {
        write_version::<DB>(tx, now, row, (&edit.act(), edit.reason()), who).await?;
        alerts::apply::<DB>(tx, now, edit.alarm().into_iter()).await?;
    }
    Ok(edited)
}

async fn create<DB: Dialect>(conn: &mut DB::Connection, now: Arg<'_>, def: &NotifyDef) -> sqlx::Result<Edited> {
    let values = def.values();
    DB::execute(conn, &DefinitionStatements::of(DB::KIND).create_definition, &with_values(now, &values)).await?;
    let created = by_name::<DB>(conn, now, &def.name).await?;
    Ok(created.map_or(Edited::Missing, Edited::Stored))
}

async fn replace<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    seen: &NotifyDef,
    new: &NotifyDef,
    who: &str,
) -> sqlx::Result<Option<Edited>> {
    match lock::<DB>(conn, now, seen, who).await? {
        Some(Edited::Stored(_)) => {}
        other => return Ok(other),
    }
    let values = new.values();
    let mut args = with_values(now, &values);
    args.push(seen.id.into());
    DB::execute(conn, &DefinitionStatements::of(DB::KIND).replace_definition, &args).await?;
    stored::<DB>(conn, now, seen.id).await
}

async fn delete<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    seen: &NotifyDef,
    who: &str,
) -> sqlx::Result<Option<Edited>> {
    match lock::<DB>(conn, now, seen, who).await? {
        Some(Edited::Stored(_)) => {}
        other => return Ok(other),
    }
    let free_name = deleted_name(seen);
    let args = [now, seen.id.into(), Arg::Text(deleted_handler(seen)), free_name.as_str().into()];
    DB::execute(conn, &DefinitionStatements::of(DB::KIND).delete_definition, &args).await?;
    stored::<DB>(conn, now, seen.id).await
}

/// Locks the row. Returns [`Edited::Stored`] where it still equals what the editor saw, and `None` where another session has locked it.
/// First stores a version of an edit made by SQL that no node has seen yet.
async fn lock<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    seen: &NotifyDef,
    who: &str,
) -> sqlx::Result<Option<Edited>> {
    let Some(locked) = stored::<DB>(conn, now, seen.id).await? else {
        let key = [now, seen.id.into()];
        let there = DB::fetch(conn, &DefinitionStatements::of(DB::KIND).has_definition, &key).await?;
        return Ok(there.is_empty().then_some(Edited::Missing));
    };
    Ok(Some(match locked {
        Edited::Stored(row) if row.delete_time.is_some() => Edited::Missing,
        Edited::Stored(row) if !row.differences(seen).is_empty() => Edited::Conflict(row),
        Edited::Stored(row) => {
            write_version::<DB>(conn, now, &row, (BY_HAND, None), &by_hand(who)).await?;
            Edited::Stored(row)
        }
        other => other,
    }))
}

/// Locks and reads the row, unless it is missing or another session has locked it.
async fn stored<DB: Dialect>(conn: &mut DB::Connection, now: Arg<'_>, id: i64) -> sqlx::Result<Option<Edited>> {
    let rows = DB::fetch(conn, &DefinitionStatements::of(DB::KIND).lock_definition, &[now, id.into()]).await?;
    rows.first().map(|row| read_definition::<DB>(row).map(Edited::Stored)).transpose()
}

async fn by_name<DB: Dialect>(conn: &mut DB::Connection, now: Arg<'_>, name: &str) -> sqlx::Result<Option<NotifyDef>> {
    let rows = DB::fetch(conn, &DefinitionStatements::of(DB::KIND).definition_by_name, &[now, name.into()]).await?;
    rows.first().map(read_definition::<DB>).transpose()
}

fn with_values<'a>(now: Arg<'a>, values: &'a [ColumnValue]) -> Vec<Arg<'a>> {
    let values = values.iter().map(|value| match value {
        ColumnValue::Text(text) => Arg::Text(text.as_deref()),
        ColumnValue::Int(number) => Arg::Int(*number),
        ColumnValue::Bool(flag) => Arg::Bool(*flag),
    });
    std::iter::once(now).chain(values).collect()
}

/// Commits where the edit is done, else rolls back. After an error it rolls back and returns that error.
async fn finish<DB: Dialect>(
    tx: sqlx::Transaction<'_, DB>,
    edited: sqlx::Result<Option<Edited>>,
) -> sqlx::Result<Option<Edited>> {
    match &edited {
        Ok(Some(Edited::Stored(_))) => tx.commit().await?,
        Ok(_) => tx.rollback().await?,
        // Its error would hide the cause. On SQLite it fails after a full disk, which has rolled back already.
        Err(_) => _ = tx.rollback().await,
    }
    edited
}
