//! SQLite: the implementation of [`Dialect`].

use futures_util::future::BoxFuture;
use solid_notify_core::error::FaultKind;
use sqlx::error::DatabaseError;
use sqlx::{Executor, Pool, Row, Sqlite, Transaction};

use crate::dialect::kind::Kind;
use crate::dialect::statement::{Arg, Prepared};
use crate::dialect::{Changed, Committed, ConnectionPlan, Dialect, MigrationLock, SessionLimits, driver, sealed};

impl sealed::Sealed for Sqlite {}

impl Dialect for Sqlite {
    const KIND: Kind = Kind::Sqlite;
    // A deferred transaction that reads first and writes later fails with BUSY, whatever the busy time-out.
    const BEGIN: &'static str = "BEGIN IMMEDIATE";
    const MIGRATIONS: &'static [(i64, &'static str, &'static str)] = &[
        (1, "notify", include_str!("../../migrations/sqlite/0001_notify.sql")),
        (2, "notify_add", include_str!("../../migrations/sqlite/0002_notify_add.sql")),
        (3, "notify_ack", include_str!("../../migrations/sqlite/0003_notify_ack.sql")),
        (4, "notify_views", include_str!("../../migrations/sqlite/0004_notify_views.sql")),
    ];
    const ROLES: Option<&'static str> = None;
    // BEGIN IMMEDIATE is the lock.
    const MIGRATION_LOCK: MigrationLock = MigrationLock::Transaction("SELECT 1", "SELECT 1");

    driver!(Sqlite);

    fn prepare_session<'c>(
        conn: &'c mut sqlx::SqliteConnection,
        limits: Option<&'c SessionLimits>,
    ) -> BoxFuture<'c, sqlx::Result<()>> {
        Box::pin(async move {
            if limits.is_some() {
                // The store itself waits for the lock of the file (`SqlStore::call`), without a connection: it has a single one, and its other
                // calls would wait behind it. The options and a hook of the application's pool have set another time-out.
                conn.execute("PRAGMA busy_timeout = 0").await?;
            }
            let row = conn.fetch_one("SELECT sqlite_version()").await?;
            let version: String = row.try_get_unchecked(0)?;
            let mut numbers = version.split('.').map_while(|part| part.parse::<u32>().ok());
            if (numbers.next(), numbers.next()) < (Some(3), Some(42)) {
                return Err(sqlx::Error::Configuration(
                    format!("SQLite {version} is too old: 3.42 or newer is needed").into(),
                ));
            }
            // In WAL mode readers do not wait for writers; the file keeps the mode.
            conn.execute("PRAGMA journal_mode = WAL").await?;
            Ok(())
        })
    }

    fn commit(tx: Transaction<'_, Self>) -> BoxFuture<'_, sqlx::Result<Committed>> {
        Box::pin(async move {
            match tx.commit().await {
                Ok(()) => Ok(Committed::Yes),
                // SQLite itself fails a COMMIT without a transaction. A constraint, another writer and the disk have codes of their own; only a
                // virtual table may fail with this one, and SQLite rolls the transaction back then.
                Err(sqlx::Error::Database(error)) if code(error.as_ref()) == ERROR => Ok(Committed::Lost),
                Err(error) => Err(error),
            }
        })
    }

    fn fault(error: &dyn DatabaseError) -> FaultKind {
        fault(code(error))
    }

    fn is_full(error: &dyn DatabaseError) -> bool {
        code(error) & 0xff == FULL
    }

    fn connections(app: &Pool<Self>) -> ConnectionPlan {
        let options = app.connect_options();
        let name = options.get_filename().to_string_lossy();
        let in_memory = name.is_empty()
            || name.contains(":memory:")
            || name.contains("mode=memory")
            || name.starts_with("file:sqlx-in-memory");
        if in_memory { ConnectionPlan::Shared } else { ConnectionPlan::OwnSingle }
    }
}

/// `SQLITE_ERROR`, the generic code.
const ERROR: u32 = 1;
/// `SQLITE_FULL`.
const FULL: u32 = 13;

fn code(error: &dyn DatabaseError) -> u32 {
    error.code().and_then(|code| code.parse().ok()).unwrap_or(0)
}

/// Maps an extended result code, whose lowest byte is the primary one.
fn fault(code: u32) -> FaultKind {
    match code & 0xff {
        // BUSY, LOCKED: another writer.
        5 | 6 => FaultKind::Conflict,
        // READONLY, IOERR, CANTOPEN: the disk, which an operator may repair.
        8 | 10 | 14 => FaultKind::Outage,
        // TOOBIG, CONSTRAINT, MISMATCH, RANGE: the values.
        18 | 19 | 20 | 25 => FaultKind::Permanent,
        _ => FaultKind::Unusable,
    }
}

fn changed(done: &sqlx::sqlite::SqliteQueryResult) -> Changed {
    Changed { rows: done.rows_affected(), last_id: done.last_insert_rowid() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_values_cause_is_permanent() {
        use FaultKind::{Conflict, Outage, Permanent, Unusable};
        for (codes, kind) in [
            (&[5, 517, 6][..], Conflict),
            (&[8, 10, 266, 14], Outage),
            (&[18, 19, 275, 1299, 2067, 20, 25], Permanent),
            // An unknown table; a corrupt file or one of another format; a missing right; a full disk.
            (&[1, 11, 26, 23, FULL, 0], Unusable),
        ] {
            for code in codes {
                assert_eq!(fault(*code), kind, "{code}");
            }
        }
    }
}
