//! The schema: embedded, run by any number of processes at once, printable for people with a tool of their own.
//!
//! Bookkeeping is in `notify_schema`, a table of our own, so that it never collides with the application's migrations.

use std::borrow::Cow;

use sqlx::Connection;

use super::dialect::{Dialect, MigrationLock};
use super::run::Statement;

const BOOKKEEPING: &str = "CREATE TABLE IF NOT EXISTS notify_schema (version integer NOT NULL PRIMARY KEY)";

/// Brings the schema up to date. A database that is already further (a newer release runs beside this one) is left as it
/// is.
pub(super) async fn migrate<DB: Dialect>(conn: &mut DB::Connection) -> sqlx::Result<()> {
    DB::greet(conn, None).await?;
    match DB::MIGRATION_LOCK {
        MigrationLock::Transaction(lock) => {
            let mut tx = conn.begin_with(DB::BEGIN).await?;
            DB::script(&mut tx, lock.into()).await?;
            apply::<DB>(&mut tx).await?;
            tx.commit().await
        }
        MigrationLock::Session(lock, release) => {
            let taken = DB::fetch(conn, &Statement::new(DB::KIND, lock), &[]).await?;
            if taken.first().map(|row| DB::int(row, 0)).transpose()?.flatten() != Some(1) {
                let why = "another process has been migrating these tables for a minute; try again when it has ended";
                return Err(sqlx::Error::Configuration(why.into()));
            }
            let applied = apply::<DB>(conn).await;
            DB::script(conn, release.into()).await?;
            applied
        }
    }
}

async fn apply<DB: Dialect>(conn: &mut DB::Connection) -> sqlx::Result<()> {
    DB::script(conn, BOOKKEEPING.into()).await?;
    let select = Statement::new(DB::KIND, "SELECT max(version) FROM notify_schema");
    let rows = DB::fetch(conn, &select, &[]).await?;
    let stands = rows.first().map(|row| DB::int(row, 0)).transpose()?.flatten().unwrap_or(0);
    for (version, name, sql) in DB::MIGRATIONS {
        if *version > stands {
            DB::script(conn, without_delimiters(sql)).await?;
            DB::script(conn, record(*version).into()).await?;
            tracing::info!(version, name, "migrated the notice tables");
        }
    }
    Ok(())
}

/// Where the body of a procedure has semicolons, the clients of MySQL must be told by DELIMITER where its statement ends.
/// The server needs and knows no such thing.
fn without_delimiters(sql: &'static str) -> Cow<'static, str> {
    if !sql.contains("\nDELIMITER //\n") {
        return Cow::Borrowed(sql);
    }
    let lines = sql.lines().filter(|line| !line.starts_with("DELIMITER "));
    Cow::Owned(lines.map(|line| if line == "//" { ";" } else { line }).collect::<Vec<_>>().join("\n"))
}

fn record(version: i64) -> String {
    format!("INSERT INTO notify_schema (version) VALUES ({version})")
}

/// The whole schema as one script, bookkeeping included, to be run by any other tool on an empty database.
pub(super) fn printed<DB: Dialect>() -> String {
    let mut script = format!("{BOOKKEEPING};\n");
    for (version, name, sql) in DB::MIGRATIONS {
        script.push_str(&format!("\n-- {version:04} {name}\n{}\n\n{};\n", sql.trim_end(), record(*version)));
    }
    script
}
