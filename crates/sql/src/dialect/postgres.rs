//! PostgreSQL: the implementation of [`Dialect`].

use futures_util::future::BoxFuture;
use solid_notify_core::error::FaultKind;
use solid_notify_core::notice::NEVER;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgRow};
use sqlx::{Executor, Pool, Postgres, Row, Transaction};

use crate::dialect::kind::Kind;
use crate::dialect::statement::{Arg, Prepared};
use crate::dialect::{
    Changed, Committed, ConnectionPlan, Dialect, MigrationLock, SessionLimits, address, driver, sealed,
};

impl sealed::Sealed for Postgres {}

impl Dialect for Postgres {
    const KIND: Kind = Kind::Postgres;
    const BEGIN: &'static str = "BEGIN";
    const MIGRATIONS: &'static [(i64, &'static str, &'static str)] = &[
        (1, "notify", include_str!("../../migrations/postgres/0001_notify.sql")),
        (2, "notify_add", include_str!("../../migrations/postgres/0002_notify_add.sql")),
        (3, "notify_ack", include_str!("../../migrations/postgres/0003_notify_ack.sql")),
        (4, "notify_views", include_str!("../../migrations/postgres/0004_notify_views.sql")),
    ];
    const ROLES: Option<&'static str> = Some(include_str!("../../roles/postgres.sql"));
    // Settings of the transaction and not of the session, which also works behind a pooler that shares sessions. DDL that waits
    // for a lock blocks all later sessions, so it waits briefly and is retried. Where the search path finds the tables, new ones
    // are created beside them and not in a schema "$user" that appeared later.
    const MIGRATION_LOCK: MigrationLock = MigrationLock::Transaction(
        "SET LOCAL lock_timeout = '2s'",
        "SELECT pg_advisory_xact_lock(7310579364529341);
         SELECT set_config('search_path', concat_ws(', ', quote_ident(n.nspname), nullif(current_setting('search_path'), '')), true)
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass('notify_schema')",
    );

    driver!(Postgres);

    /// Microseconds since 2000, the binary format of prepared statements. The infinite times are the least and the greatest
    /// number; they become the years 1970 and 9999.
    fn moment(row: &PgRow, column: usize) -> sqlx::Result<Option<i64>> {
        let micros: Option<i64> = row.try_get_unchecked(column)?;
        Ok(micros.map(|micros| micros.saturating_add(YEAR_2000).div_euclid(1000).clamp(0, NEVER)))
    }

    /// All plans use the indexes. A queue is mostly empty, and Postgres keeps a plan that it made for the empty table while the
    /// table fills: that plan scans the whole table and compares each row with the batch.
    ///
    /// The statements run thousands of times, so they are planned once and not for their arguments. For a batch of fifty,
    /// planning would cost half as much as the statement.
    ///
    /// Neither these settings nor the limits use SET, because behind a pooler that shares sessions they would reach the
    /// application.
    fn with_settings(options: PgConnectOptions, limits: &SessionLimits) -> PgConnectOptions {
        // A plan type that is off is still used where there is no other, at an estimated cost so high that Postgres would compile
        // the plan.
        let planned = [("enable_seqscan", "off"), ("jit", "off"), ("plan_cache_mode", "force_generic_plan")];
        options.options(planned).options([
            ("statement_timeout", limits.statement.as_millis()),
            ("lock_timeout", limits.lock.as_millis()),
            ("idle_in_transaction_session_timeout", limits.idle.as_millis()),
        ])
    }

    fn refuses_settings(error: &sqlx::Error) -> bool {
        // A protocol violation (PgBouncer), a feature that is not supported (RDS Proxy), an unknown setting (a server).
        matches!(error, sqlx::Error::Database(error) if matches!(error.code().as_deref(), Some("08P01" | "0A000" | "42704")))
    }

    fn with_address(options: PgConnectOptions) -> PgConnectOptions {
        match address(options.get_host()).map(str::to_owned) {
            Some(address) => options.host(&address),
            None => options,
        }
    }

    fn prepare_session<'c>(
        conn: &'c mut sqlx::PgConnection,
        _limits: Option<&'c SessionLimits>,
    ) -> BoxFuture<'c, sqlx::Result<()>> {
        Box::pin(async move {
            let settings =
                "SELECT current_setting('server_version_num'), current_setting('default_transaction_isolation'),
                                   current_setting('server_encoding')";
            let row = conn.fetch_one(settings).await?;
            let (version, isolation): (String, String) = (row.try_get_unchecked(0)?, row.try_get_unchecked(1)?);
            let encoding: String = row.try_get_unchecked(2)?;
            // In another encoding it cannot store every error text, and rows that other sessions wrote cannot be read.
            if encoding != "UTF8" {
                return Err(sqlx::Error::Configuration(
                    format!(
                        "the encoding of this database is {encoding}, and UTF8 is needed: CREATE DATABASE … ENCODING 'UTF8' \
                         TEMPLATE template0"
                    )
                    .into(),
                ));
            }
            if version.parse::<u32>().unwrap_or(0) < 130_000 {
                return Err(sqlx::Error::Configuration(
                    format!("PostgreSQL {version} is too old: 13 or newer is needed").into(),
                ));
            }
            // The claim checks rows again after locking them, which only READ COMMITTED does, and the default of a database or a
            // role may be another level. It is set only then, because behind a pooler other clients share the session.
            if isolation != "read committed" {
                conn.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
            }
            Ok(())
        })
    }

    fn commit(mut tx: Transaction<'_, Self>) -> BoxFuture<'_, sqlx::Result<Committed>> {
        Box::pin(async move {
            // In an aborted transaction the SAVEPOINT fails, so the COMMIT is not reached and the error is visible. `AND CHAIN`
            // leaves an empty transaction, because sqlx still counts one as open: it rolls that back in the background when `tx`
            // is dropped.
            match (&mut *tx).execute(sqlx::raw_sql("SAVEPOINT notify_commit; COMMIT AND CHAIN")).await {
                Ok(_) => Ok(Committed::Yes),
                // 25P02: aborted; 25P01: no open transaction (after a raw ROLLBACK or PREPARE TRANSACTION).
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

    fn is_full(error: &dyn DatabaseError) -> bool {
        error.code().is_some_and(|code| code == DISK_FULL)
    }

    fn connections(_app: &Pool<Self>) -> ConnectionPlan {
        ConnectionPlan::Own
    }
}

/// In microseconds since 1970.
const YEAR_2000: i64 = 946_684_800_000_000;

const DISK_FULL: &str = "53100";

/// Maps an SQLSTATE.
fn fault(code: &str) -> FaultKind {
    match (code, code.get(..2).unwrap_or_default()) {
        // It is unknown whether the transaction was committed.
        ("40003", _) => FaultKind::Outage,
        // A lock that was not free in time, serialization failures, deadlocks.
        ("55P03", _) | (_, "40") => FaultKind::Conflict,
        // `statement_timeout`, or an administrator's cancel.
        ("57014", _) => FaultKind::Slow,
        // Shutdown and crash of the server; a read-only standby (a failover); a session that the server ended because its
        // transaction was idle.
        ("57P01" | "57P02" | "57P03" | "57P05" | "25006" | "25P03", _) => FaultKind::Outage,
        (DISK_FULL, _) => FaultKind::Unusable,
        // Connection exceptions, insufficient resources.
        (_, "08" | "53") => FaultKind::Outage,
        // Cardinality, data exceptions, constraints, a value above the server's limits.
        (_, "21" | "22" | "23" | "54") => FaultKind::Permanent,
        _ => FaultKind::Unusable,
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
        use FaultKind::{Conflict, Outage, Permanent, Slow, Unusable};
        for (codes, kind) in [
            (&["40001", "40P01", "55P03"][..], Conflict),
            (&["57014"], Slow),
            (&["08006", "40003", "53300", "57P01", "57P02", "25006", "25P03"], Outage),
            (&["21000", "22021", "22P02", "22P05", "23505", "23514", "54000"], Permanent),
            (&["53100", "42P01", "42501", "3D000", "28P01", "25P02", "0A000", "XX000", "58030", "", "é"], Unusable),
        ] {
            for code in codes {
                assert_eq!(fault(code), kind, "{code}");
            }
        }
    }
}
