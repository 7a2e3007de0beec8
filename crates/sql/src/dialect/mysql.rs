//! MySQL and MariaDB: the implementation of [`Dialect`].

use std::time::Duration;

use futures_util::future::BoxFuture;
use solid_notify_core::error::FaultKind;
use sqlx::error::DatabaseError;
use sqlx::mysql::{MySqlConnectOptions, MySqlDatabaseError};
use sqlx::{AssertSqlSafe, Executor, MySql, Pool, Row, Transaction};

use crate::dialect::kind::Kind;
use crate::dialect::statement::{Arg, Prepared, Statement};
use crate::dialect::{
    Changed, Committed, ConnectionPlan, Dialect, MigrationLock, Presence, SessionLimits, address, driver, sealed,
};

impl sealed::Sealed for MySql {}

impl Dialect for MySql {
    const KIND: Kind = Kind::MySql;
    const BEGIN: &'static str = "BEGIN";
    // Where the application ignores a deadlock's error, its transaction is gone. The rest of its work commits by itself (MariaDB)
    // or as another transaction (MySQL). The savepoint is gone then, as after a raw ROLLBACK.
    const OPEN: &'static str = "BEGIN; SAVEPOINT notify_open";
    const MIGRATIONS: &'static [(i64, &'static str, &'static str)] = &[
        (1, "notify", include_str!("../../migrations/mysql/0001_notify.sql")),
        (2, "notify_add", include_str!("../../migrations/mysql/0002_notify_add.sql")),
        (3, "notify_ack", include_str!("../../migrations/mysql/0003_notify_ack.sql")),
        (4, "notify_views", include_str!("../../migrations/mysql/0004_notify_views.sql")),
    ];
    const ROLES: Option<&'static str> = Some(include_str!("../../roles/mysql.sql"));
    // DDL commits implicitly here. The lock's name is server-wide, so it contains a digest of the database's name: it has at most
    // 64 characters. Not MD5, which MySQL 9 no longer has. By default a metadata lock is waited for a year, and all later
    // sessions queue behind that wait.
    const MIGRATION_LOCK: MigrationLock = MigrationLock::Session(
        "SET SESSION lock_wait_timeout = 2, SESSION innodb_lock_wait_timeout = 2",
        "SELECT coalesce(GET_LOCK(concat('solid-notify ', left(sha2(database(), 256), 32)), 60), 0)",
        "DO RELEASE_LOCK(concat('solid-notify ', left(sha2(database(), 256), 32)))",
    );

    driver!(MySql);

    fn with_address(options: MySqlConnectOptions) -> MySqlConnectOptions {
        match address(options.get_host()).map(str::to_owned) {
            Some(address) => options.host(&address),
            None => options,
        }
    }

    fn prepare_session<'c>(
        conn: &'c mut sqlx::MySqlConnection,
        limits: Option<&'c SessionLimits>,
    ) -> BoxFuture<'c, sqlx::Result<()>> {
        Box::pin(async move {
            // REPEATABLE READ, the default, would lock the gaps between due rows and make claims wait for inserts.
            conn.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
            if let Some(limits) = limits {
                // Lock waits and idle times are set in whole seconds. MySQL has no limit for statements that write, and none for
                // idle transactions alone, so `wait_timeout` limits all idle connections (`longest_rest`). `lock_wait_timeout` is that of locks
                // of whole tables.
                let (lock_wait, rest) = (limits.lock.as_secs().max(1), limits.idle.as_secs().max(1));
                let statement = limits.statement.as_secs_f64();
                let set = format!(
                    "SET SESSION innodb_lock_wait_timeout = {lock_wait}, SESSION lock_wait_timeout = {lock_wait}, SESSION wait_timeout = {rest} /*M! , SESSION max_statement_time = {statement} */"
                );
                conn.execute(AssertSqlSafe(set)).await?;
            }
            let row = conn.fetch_one("SELECT version()").await?;
            let version: String = row.try_get_unchecked(0)?;
            if has_skip_locked(&version) {
                return Ok(());
            }
            let needed =
                format!("server version {version} is too old: MariaDB 10.6 or MySQL 8.0 is needed (SKIP LOCKED)");
            Err(sqlx::Error::Configuration(needed.into()))
        })
    }

    /// Well below the server's own limit, because the server must not close a connection just as a call uses it.
    fn longest_rest(limits: &SessionLimits) -> Duration {
        (limits.idle / 2).min(Duration::from_secs(60))
    }

    fn prepare_to_add<'c>(conn: &'c mut sqlx::MySqlConnection, statements: &'c [&'c Statement]) -> BoxFuture<'c, ()> {
        Box::pin(async move {
            // If a future is dropped while sqlx 0.9 prepares a statement, the connection is out of step with the server: its next
            // use hangs or panics. The statements stay prepared, so this costs time only once.
            for statement in statements {
                if conn.prepare(Prepared::from(*statement).sql).await.is_err() {
                    return;
                }
            }
        })
    }

    fn commit(mut tx: Transaction<'_, Self>) -> BoxFuture<'_, sqlx::Result<Committed>> {
        Box::pin(async move {
            // Without the savepoint the transaction is gone too, and the COMMIT is not reached. When `tx` is dropped, sqlx rolls
            // back in the background what it still counts as open: nothing, or the statements after a deadlock.
            match (&mut *tx).execute(sqlx::raw_sql("RELEASE SAVEPOINT notify_open; COMMIT")).await {
                Ok(_) => Ok(Committed::Yes),
                Err(sqlx::Error::Database(error)) if number(error.as_ref()) == NOT_THERE => Ok(Committed::Lost),
                Err(error) => Err(error),
            }
        })
    }

    fn is_not_open(error: &sqlx::Error) -> bool {
        matches!(error, sqlx::Error::Database(error) if number(error.as_ref()) == NO_NULL)
    }

    fn fault(error: &dyn DatabaseError) -> FaultKind {
        fault(number(error))
    }

    fn is_full(error: &dyn DatabaseError) -> bool {
        // `ER_DISK_FULL`, `ER_RECORD_FILE_FULL`.
        matches!(number(error), 1021 | 1114)
    }

    fn presence(error: &dyn DatabaseError) -> Presence {
        match number(error) {
            NOT_THERE => Presence::Missing,
            NO_RIGHT_TO_EXECUTE => Presence::Hidden,
            _ => Presence::There,
        }
    }

    fn connections(_app: &Pool<Self>) -> ConnectionPlan {
        ConnectionPlan::Own
    }
}

/// `ER_BAD_NULL_ERROR`.
const NO_NULL: u16 = 1048;
/// `ER_SP_DOES_NOT_EXIST`, of a procedure or of a savepoint.
const NOT_THERE: u16 = 1305;
/// `ER_PROCACCESS_DENIED_ERROR`.
const NO_RIGHT_TO_EXECUTE: u16 = 1370;

fn number(error: &dyn DatabaseError) -> u16 {
    error.try_downcast_ref::<MySqlDatabaseError>().map_or(0, MySqlDatabaseError::number)
}

/// Maps a server's error number.
fn fault(number: u16) -> FaultKind {
    match number {
        // Lock wait time-out, deadlock, a snapshot that is too old, NOWAIT.
        // The last one: a deadlock over the next id.
        1205 | 1213 | 1020 | 3572 | 1467 => FaultKind::Conflict,
        // Statements that took longer than `max_execution_time` or `max_statement_time`, or that an administrator killed.
        1317 | 1969 | 3024 => FaultKind::Slow,
        // Too many connections, shutdown, aborted, killed and lost connections (also those that the server closed as idle),
        // read-only servers (a failover).
        1040 | 1053 | 1152 | 1158..=1161 | 1203 | 1226 | 1290 | 1836 | 1927 | 4031 | 2002 | 2003 | 2006 | 2013 => {
            FaultKind::Outage
        }
        // Null in a column without nulls, duplicates, out of range, truncated, wrong characters or numbers, JSON.
        1048 | 1062 | 1264 | 1292 | 1365 | 1366 | 1406 | 1690 | 3140 | 3141 => FaultKind::Permanent,
        // A CHECK constraint, on MariaDB and on MySQL.
        4025 | 3819 => FaultKind::Permanent,
        // Larger than a packet, a row or a function's result may be.
        1153 | 1118 | 1301 => FaultKind::Permanent,
        _ => FaultKind::Unusable,
    }
}

/// True from MariaDB 10.6 and MySQL 8.0, and for a version that cannot be read.
fn has_skip_locked(version: &str) -> bool {
    let least = if version.contains("MariaDB") { (10, 6) } else { (8, 0) };
    // Some MariaDB servers put "5.5.5-" before their version, for old replicas.
    let version = version.strip_prefix("5.5.5-").unwrap_or(version);
    let mut numbers = version.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => (major, minor) >= least,
        _ => true,
    }
}

fn changed(done: &sqlx::mysql::MySqlQueryResult) -> Changed {
    Changed { rows: done.rows_affected(), last_id: i64::try_from(done.last_insert_id()).unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::{FaultKind, fault, has_skip_locked};

    #[test]
    fn only_what_values_cause_is_permanent() {
        use FaultKind::{Conflict, Outage, Permanent, Slow, Unusable};
        for (numbers, kind) in [
            (&[1205, 1213][..], Conflict),
            (&[1317, 1969, 3024], Slow),
            (&[1040, 1053, 1160, 1290, 1927, 2013, 4031], Outage),
            (&[1048, 1062, 1264, 1366, 1406, 3140, 4025, 3819, 1153], Permanent),
            // A missing table, column, right or database; a full disk; a full table; an error without a number.
            (&[1146, 1054, 1142, 1045, 1049, 1021, 1114, 0], Unusable),
        ] {
            for number in numbers {
                assert_eq!(fault(*number), kind, "{number}");
            }
        }
    }

    #[test]
    fn servers_without_skip_locked_are_refused() {
        for good in [
            "10.11.19-MariaDB-0+deb12u1",
            "10.6.0-MariaDB",
            "8.0.36",
            "8.4.0",
            "5.5.5-10.11.2-MariaDB",
            "11.4.2-MariaDB",
        ] {
            assert!(has_skip_locked(good), "{good}");
        }
        for old in ["10.5.23-MariaDB", "5.7.44-log", "5.5.5-10.3.1-MariaDB"] {
            assert!(!has_skip_locked(old), "{old}");
        }
    }
}
