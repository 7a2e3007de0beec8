//! PostgreSQL: what [`Dialect`] asks.

use futures_util::future::BoxFuture;
use sqlx::error::DatabaseError;
use sqlx::{Executor, Pool, Postgres, Row, Transaction};

use super::dialect::{Changed, Committed, Dialect, MigrationLock, Plan, driver, sealed};
use super::fragment::Kind;
use super::run::{Arg, Statement};
use crate::error::FaultKind;

impl sealed::Sealed for Postgres {}

impl Dialect for Postgres {
    const KIND: Kind = Kind::Postgres;
    const BEGIN: &'static str = "BEGIN";
    const MIGRATIONS: &'static [(i64, &'static str, &'static str)] =
        &[(1, "notify", include_str!("../../migrations/postgres/0001_notify.sql"))];
    // Of the transaction, not of the session: that also works behind a pooler that shares sessions.
    const MIGRATION_LOCK: MigrationLock = MigrationLock::Transaction("SELECT pg_advisory_xact_lock(7310579364529341)");

    driver!(Postgres, |_| 0);

    fn greet(conn: &mut sqlx::PgConnection) -> BoxFuture<'_, sqlx::Result<()>> {
        Box::pin(async move {
            // The claim re-checks rows after locking them, which only READ COMMITTED does; a database's or a role's
            // default may be another level.
            conn.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
            let row = conn.fetch_one("SHOW server_version_num").await?;
            let version: String = row.try_get_unchecked(0)?;
            if version.parse::<u32>().unwrap_or(0) < 130_000 {
                return Err(sqlx::Error::Configuration(
                    format!("PostgreSQL {version} is too old: 13 or newer is needed").into(),
                ));
            }
            Ok(())
        })
    }

    fn commit(mut tx: Transaction<'_, Self>) -> BoxFuture<'_, sqlx::Result<Committed>> {
        Box::pin(async move {
            // In an aborted transaction the SAVEPOINT fails, so the COMMIT behind it is not reached and the error is
            // seen. `AND CHAIN` leaves an empty transaction, since sqlx goes on believing in one: it rolls that back when
            // `tx` is dropped, without waiting.
            match (&mut *tx).execute(sqlx::raw_sql("SAVEPOINT notify_commit; COMMIT AND CHAIN")).await {
                Ok(_) => Ok(Committed::Yes),
                // 25P02: aborted; 25P01: no transaction is open any more (a raw ROLLBACK or PREPARE TRANSACTION).
                Err(sqlx::Error::Database(error)) if matches!(error.code().as_deref(), Some("25P02" | "25P01")) => {
                    Ok(Committed::Lost)
                }
                Err(error) => Err(error),
            }
        })
    }

    fn fault(error: &dyn DatabaseError) -> FaultKind {
        let code = error.code().unwrap_or_default();
        match code.as_ref() {
            // Serialization failures and deadlocks; a lock that was not to be had in time.
            "55P03" => FaultKind::Conflict,
            code if code.starts_with("40") => FaultKind::Conflict,
            // Shutdown and crash of the server, a cancelled statement; a standby that only reads (a failover).
            "57P01" | "57P02" | "57P03" | "57P05" | "57014" | "25006" => FaultKind::Outage,
            // Connection exceptions, insufficient resources.
            code if code.starts_with("08") || code.starts_with("53") => FaultKind::Outage,
            _ => FaultKind::Permanent,
        }
    }

    fn connections(_app: &Pool<Self>) -> Plan {
        Plan::Own(3)
    }
}
