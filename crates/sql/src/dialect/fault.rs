//! What a driver's error means, and how long a call that meets a conflict pauses.

use std::time::Duration;

use chrono::{DateTime, Utc};
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
    StoreError::new(doing, fault::<DB>(&error), error).into()
}

pub(crate) fn is_unique_violation(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation)
}

/// A few milliseconds, longer with each try, with jitter from the clock's low digits, so that two transactions in conflict do not
/// meet again.
pub(crate) fn conflict_pause(tried: u32) -> Duration {
    let noise = (Utc::now() - DateTime::UNIX_EPOCH).to_std().map_or(0, |now| now.subsec_nanos());
    Duration::from_millis(u64::from(2_u32 << tried)) + Duration::from_micros(u64::from(noise / 1000 % 8000))
}
