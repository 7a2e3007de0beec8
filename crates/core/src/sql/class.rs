//! The [`ErrorClass`] of an sqlx error, by its type and by the server's error code.
//!
//! The file of each database maps its codes. This file has what they share.

use std::error::Error as StdError;

use sqlx::error::DatabaseError;

use crate::class::ErrorClass;

/// Returns the class of an [`sqlx::Error`], if the error itself shows it. Does not look at the error's causes.
pub(crate) fn class_of(error: &(dyn StdError + 'static)) -> Option<ErrorClass> {
    match error.downcast_ref::<sqlx::Error>()? {
        sqlx::Error::Database(error) => class_of_answer(error.as_ref()),
        // The server is full or down: the pool reports only that it got no connection in time.
        sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
            Some(ErrorClass::Unavailable)
        }
        sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) => Some(ErrorClass::Network),
        sqlx::Error::RowNotFound => Some(ErrorClass::NotFound),
        sqlx::Error::Encode(_) | sqlx::Error::InvalidArgument(_) => Some(ErrorClass::Invalid),
        // The cause of `Io` decides its class. The others are faults of the program or of its settings, which a release corrects.
        _ => None,
    }
}

/// Returns the class of an error that a server reported.
fn class_of_answer(error: &dyn DatabaseError) -> Option<ErrorClass> {
    #[cfg(feature = "postgres")]
    if error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some() {
        return super::postgres::class(&error.code().unwrap_or_default());
    }
    #[cfg(feature = "mysql")]
    if let Some(error) = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
        return super::mysql::class(error.number());
    }
    #[cfg(feature = "sqlite")]
    if error.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some() {
        let code = error.code().and_then(|code| code.parse().ok()).unwrap_or(0);
        return super::sqlite::class(code);
    }
    None
}
