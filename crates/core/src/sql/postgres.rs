//! PostgreSQL: what [`Dialect`] asks.

use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgRow};
use sqlx::{AssertSqlSafe, Executor, Pool, Postgres, Row, Transaction};

use super::dialect::{Changed, Committed, Dialect, MigrationLock, Plan, driver, give_up_after, sealed};
use super::fragment::Kind;
use super::read::ENDLESS;
use super::run::{Arg, Statement};
use crate::class::{ErrorClass, class_of_fault};
use crate::error::FaultKind;

impl sealed::Sealed for Postgres {}

impl Dialect for Postgres {
    const KIND: Kind = Kind::Postgres;
    const BEGIN: &'static str = "BEGIN";
    const MIGRATIONS: &'static [(i64, &'static str, &'static str)] = &[
        (1, "notify", include_str!("../../migrations/postgres/0001_notify.sql")),
        (2, "notify_add", include_str!("../../migrations/postgres/0002_notify_add.sql")),
        (3, "notify_ack", include_str!("../../migrations/postgres/0003_notify_ack.sql")),
    ];
    // Of the transaction, not of the session: that also works behind a pooler that shares sessions.
    const MIGRATION_LOCK: MigrationLock = MigrationLock::Transaction("SELECT pg_advisory_xact_lock(7310579364529341)");

    driver!(Postgres);

    /// Microseconds since 2000, as prepared statements are answered. The infinite times are the least and the greatest number: they
    /// become the year 1970 and 9999.
    fn moment(row: &PgRow, column: usize) -> sqlx::Result<Option<i64>> {
        let micros: Option<i64> = row.try_get_unchecked(column)?;
        Ok(micros.map(|micros| micros.saturating_add(YEAR_2000).div_euclid(1000).clamp(0, ENDLESS)))
    }

    /// A queue is mostly empty, and a plan that was made for the empty table is kept while the table fills: it reads the
    /// whole of it, and compares it row by row with the batch. So every plan of ours goes by the indexes.
    ///
    /// They are prepared and run thousands of times, so they are planned once and not for their arguments: for a batch of fifty that
    /// would cost half of what it does.
    ///
    /// Not by SET: behind a pooler that shares sessions, the application's own queries would be planned so, too.
    fn with_settings(options: PgConnectOptions) -> PgConnectOptions {
        // What is off is still planned where there is no other way, at a price for which Postgres compiles the plan.
        options.options([("enable_seqscan", "off"), ("jit", "off"), ("plan_cache_mode", "force_generic_plan")])
    }

    fn refuses_settings(error: &sqlx::Error) -> bool {
        // A protocol violation, for a pooler; an unknown object, for a server.
        matches!(error, sqlx::Error::Database(error) if matches!(error.code().as_deref(), Some("08P01" | "42704")))
    }

    fn greet(conn: &mut sqlx::PgConnection, limit: Option<Duration>) -> BoxFuture<'_, sqlx::Result<()>> {
        Box::pin(async move {
            let settings =
                "SELECT current_setting('server_version_num'), current_setting('default_transaction_isolation')";
            let row = conn.fetch_one(settings).await?;
            let (version, isolation): (String, String) = (row.try_get_unchecked(0)?, row.try_get_unchecked(1)?);
            if version.parse::<u32>().unwrap_or(0) < 130_000 {
                return Err(sqlx::Error::Configuration(
                    format!("PostgreSQL {version} is too old: 13 or newer is needed").into(),
                ));
            }
            // The claim re-checks rows after locking them, which only READ COMMITTED does; a database's or a role's
            // default may be another level. Set only then: behind a pooler sessions are shared with others.
            if isolation != "read committed" {
                conn.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
            }
            if let Some(limit) = limit {
                let limit = give_up_after(limit).as_millis();
                conn.execute(AssertSqlSafe(format!("SET statement_timeout = {limit}"))).await?;
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
        fault(&error.code().unwrap_or_default())
    }

    fn connections(_app: &Pool<Self>) -> Plan {
        Plan::Own(3)
    }
}

/// In microseconds since 1970.
const YEAR_2000: i64 = 946_684_800_000_000;

/// By SQLSTATE.
fn fault(code: &str) -> FaultKind {
    match (code, code.get(..2).unwrap_or_default()) {
        // Nobody knows whether it was committed.
        ("40003", _) => FaultKind::Outage,
        // A lock that was not to be had in time; serialization failures and deadlocks.
        ("55P03", _) | (_, "40") => FaultKind::Conflict,
        // Shutdown and crash of the server, a cancelled statement; a standby that only reads (a failover).
        ("57P01" | "57P02" | "57P03" | "57P05" | "57014" | "25006", _) => FaultKind::Outage,
        // Connection exceptions, insufficient resources.
        (_, "08" | "53") => FaultKind::Outage,
        // Cardinality, data exceptions, constraints, a value beyond the server's limits.
        (_, "21" | "22" | "23" | "54") => FaultKind::Permanent,
        _ => FaultKind::Unusable,
    }
}

/// What a failure with this SQLSTATE is to whoever called the database.
pub(super) fn class(code: &str) -> Option<ErrorClass> {
    match (code, code.get(..2).unwrap_or_default()) {
        // A wrong role or password, a missing right.
        ("42501", _) | (_, "28") => Some(ErrorClass::Auth),
        // `statement_timeout`, or somebody cancelled it.
        ("57014", _) => Some(ErrorClass::Timeout),
        // Too many connections, and other resources that are used up.
        (_, "53") => Some(ErrorClass::Busy),
        (_, "08") => Some(ErrorClass::Network),
        _ => class_of_fault(fault(code)),
    }
}

fn changed(done: &sqlx::postgres::PgQueryResult) -> Changed {
    Changed { rows: done.rows_affected(), last_id: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_values_cause_is_permanent() {
        use FaultKind::{Conflict, Outage, Permanent, Unusable};
        for (codes, kind) in [
            (&["40001", "40P01", "55P03"][..], Conflict),
            (&["08006", "40003", "53300", "57P01", "57P02", "57014", "25006"], Outage),
            (&["21000", "22021", "22P02", "22P05", "23505", "23514", "54000"], Permanent),
            (&["42P01", "42501", "3D000", "28P01", "25P02", "0A000", "XX000", "58030", "", "é"], Unusable),
        ] {
            for code in codes {
                assert_eq!(fault(code), kind, "{code}");
            }
        }
    }

    #[test]
    fn codes_have_classes() {
        use ErrorClass::{Auth, Busy, Deadlock, Invalid, Network, Timeout, Unavailable};
        for (codes, class) in [
            (&["40001", "40P01", "55P03"][..], Some(Deadlock)),
            (&["28P01", "28000", "42501"], Some(Auth)),
            (&["57014"], Some(Timeout)),
            (&["53300"], Some(Busy)),
            (&["08006"], Some(Network)),
            (&["57P01", "57P03", "25006"], Some(Unavailable)),
            (&["23505", "22P02"], Some(Invalid)),
            (&["42P01", "58030", "", "é"], None),
        ] {
            for code in codes {
                assert_eq!(super::class(code), class, "{code}");
            }
        }
    }
}
