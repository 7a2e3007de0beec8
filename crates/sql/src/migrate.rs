//! The schema: embedded, safe to run from several processes at once, printable for users with their own migration tool.
//!
//! The applied versions are in `notify_schema`, a table of its own, so that they never collide with the application's migrations.

use std::time::Duration;

use solid_notify_core::error::{FaultKind, StoreError};
use sqlx::{Connection, SqlSafeStr, Transaction};

use crate::dialect::fault::fault;
use crate::dialect::row::one_number;
use crate::dialect::statement::Statement;
use crate::dialect::{Dialect, MigrationLock};
use crate::restore;

const BOOKKEEPING: &str = "CREATE TABLE IF NOT EXISTS notify_schema (version integer NOT NULL PRIMARY KEY)";

/// How long a migration waits in all for tables that other sessions lock.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// Brings the schema up to date, and creates again what a restore has lost. Leaves a database as it is where a newer release has migrated it
/// further. Where nothing is to be done, it needs only SELECT on `notify_schema` and takes no lock.
pub(crate) async fn migrate<DB: Dialect>(conn: &mut DB::Connection) -> sqlx::Result<()> {
    DB::prepare_session(conn, None).await?;
    if let MigrationLock::Session(settings, ..) = DB::MIGRATION_LOCK {
        DB::script(conn, settings.into()).await?;
    }
    let stored = stored_version::<DB>(conn).await?;
    // What a newer release has changed is not lost.
    if stored > newest::<DB>() || (stored == newest::<DB>() && has_lost_nothing::<DB>(conn, stored).await?) {
        return Ok(());
    }
    match under_lock::<DB>(conn).await {
        Err(error) if stored == newest::<DB>() && is_refused::<DB>(&error) => {
            tracing::warn!(%error, "this account may not repair what a restore has lost; run `solid-notify migrate` as the owner of the tables");
            Ok(())
        }
        done => done,
    }
}

pub(crate) fn newest<DB: Dialect>() -> i64 {
    DB::MIGRATIONS.iter().map(|(version, ..)| *version).max().unwrap_or(0)
}

/// True where nothing is to be repaired, and where this account may not see it.
async fn has_lost_nothing<DB: Dialect>(conn: &mut DB::Connection, version: i64) -> sqlx::Result<bool> {
    let found = match DB::MIGRATION_LOCK {
        // In a transaction, because the time that it waits for a lock is set for one.
        MigrationLock::Transaction(waits, _) => {
            let mut tx = conn.begin().await?;
            DB::script(&mut tx, waits.into()).await?;
            let found = restore::find::<DB>(&mut tx, version).await;
            tx.rollback().await?;
            found
        }
        MigrationLock::Session(..) => restore::find::<DB>(conn, version).await,
    };
    match found {
        Ok(lost) => Ok(lost.is_nothing()),
        Err(error) if is_refused::<DB>(&error) => Ok(true),
        Err(error) => Err(error),
    }
}

fn is_refused<DB: Dialect>(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some() && fault::<DB>(error) == FaultKind::Unusable
}

async fn under_lock<DB: Dialect>(conn: &mut DB::Connection) -> sqlx::Result<()> {
    match DB::MIGRATION_LOCK {
        MigrationLock::Transaction(waits, lock) => {
            let mut tx = Transaction::<DB>::begin(conn, Some(DB::BEGIN.into_sql_str())).await?;
            DB::script(&mut tx, waits.into()).await?;
            DB::script(&mut tx, lock.into()).await?;
            apply::<DB>(&mut tx).await?;
            tx.commit().await
        }
        MigrationLock::Session(_, lock, release) => {
            let taken = DB::fetch(conn, &Statement::new(DB::KIND, lock), &[]).await?;
            if one_number::<DB>(&taken)? != Some(1) {
                let why = "another process has been migrating these tables for a minute; try again when it has ended";
                return Err(sqlx::Error::Configuration(why.into()));
            }
            let applied = apply::<DB>(conn).await;
            DB::script(conn, release.into()).await?;
            applied
        }
    }
}

/// Returns the last migration of the tables that the session finds in its search path; 0 for none.
pub(crate) async fn stored_version<DB: Dialect>(conn: &mut DB::Connection) -> sqlx::Result<i64> {
    for (sql, least) in [(DB::KIND.has_bookkeeping(), 1), ("SELECT max(version) FROM notify_schema", 0)] {
        let rows = DB::fetch(conn, &Statement::new(DB::KIND, sql), &[]).await?;
        let number = one_number::<DB>(&rows)?.unwrap_or(0);
        if number < least || least == 0 {
            return Ok(number);
        }
    }
    Ok(0)
}

/// The error of a migration that could not lock its tables.
pub(crate) fn locked(error: sqlx::Error) -> StoreError {
    let advice = format!(
        "gave up after {} s, because an open transaction or another migration locks what it needs; try again when that has ended \
         ({error})",
        PATIENCE.as_secs()
    );
    StoreError::new("migrating the notice tables", FaultKind::Conflict, advice)
}

async fn apply<DB: Dialect>(conn: &mut DB::Connection) -> sqlx::Result<()> {
    DB::script(conn, BOOKKEEPING.into()).await?;
    let stored = stored_version::<DB>(conn).await?;
    for (version, name, sql) in DB::MIGRATIONS {
        if *version > stored {
            DB::script(conn, restore::without_delimiters(sql)).await?;
            DB::script(conn, record(*version).into()).await?;
            tracing::info!(version, name, "migrated the notice tables");
        }
    }
    // Only where there was nothing to migrate: a migration that needs an object creates it. A newer release has objects of its own.
    if stored != newest::<DB>() {
        return Ok(());
    }
    let lost = restore::find::<DB>(conn, stored).await?;
    restore::repair::<DB>(conn, &lost).await
}

fn record(version: i64) -> String {
    format!("INSERT INTO notify_schema (version) VALUES ({version})")
}

/// Returns the whole schema and its bookkeeping as one script, for another tool to run on an empty database.
pub(crate) fn printed<DB: Dialect>() -> String {
    let mut script = format!("{BOOKKEEPING};\n");
    for (version, name, sql) in DB::MIGRATIONS {
        script.push_str(&format!("\n-- {version:04} {name}\n{}\n\n{};\n", sql.trim_end(), record(*version)));
    }
    script
}
