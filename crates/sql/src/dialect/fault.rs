//! What a driver's error means, and how long a call that meets a conflict pauses.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use solid_notify_core::error::{Error, FaultKind, StoreError};

use crate::dialect::Dialect;

/// Returns the kind of fault of a driver's error.
pub(crate) fn fault<DB: Dialect>(error: &sqlx::Error) -> FaultKind {
    match error {
        sqlx::Error::Database(error) => DB::fault(error.as_ref()),
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::BeginFailed => FaultKind::Outage,
        sqlx::Error::Encode(_) | sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. } => FaultKind::Permanent,
        // A server that is too old, or a reply of another shape: a row's values are not the cause.
        _ => FaultKind::Unusable,
    }
}

/// Returns the error of a call of the application.
pub(crate) fn failed<DB: Dialect>(doing: &'static str, error: sqlx::Error) -> Error {
    store_error::<DB>(doing, error).into()
}

/// Returns the error of a call of the store.
pub(crate) fn store_error<DB: Dialect>(doing: &'static str, error: sqlx::Error) -> StoreError {
    // A missing table or column: on PostgreSQL, on MySQL, and, among other mistakes in a statement, on SQLite.
    let lacks_schema = ["42P01", "42703", "42S02", "42S22", "1"];
    let told = error.as_database_error();
    let hint = match told.and_then(sqlx::error::DatabaseError::code) {
        Some(code) if lacks_schema.contains(&code.as_ref()) => " (was `outbox.migrate()` run?)",
        _ => "",
    };
    let is_full = told.is_some_and(DB::is_full);
    let failed = StoreError::new(doing, fault::<DB>(&error), error);
    if is_full { failed.explained(FULL) } else { failed.hint(hint) }
}

/// What a full disk needs.
const FULL: &str = "; free space on the disk of the database";

pub(crate) fn is_unique_violation(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation)
}

/// The pauses between the tries of a call that meets a conflict: 5 ms, then each twice as long. Jitter adds up to as much again, so
/// that two transactions in conflict do not meet again.
pub(crate) const CONFLICT_PAUSES: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(5))
    .with_max_delay(Duration::from_millis(100))
    .with_max_times(3)
    .with_jitter();

/// Returns a pause before another try, of 5 to 10 ms.
pub(crate) fn conflict_pause() -> Duration {
    CONFLICT_PAUSES.build().next().unwrap_or_default()
}
