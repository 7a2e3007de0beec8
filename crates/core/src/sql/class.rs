//! The [`ErrorClass`] of an error of sqlx: by its type, and by the server's code.
//!
//! Which codes mean what is known by the file of each database; here stands what they have in common.

use std::error::Error as StdError;

use sqlx::error::DatabaseError;

use crate::class::ErrorClass;

/// The class of an [`sqlx::Error`], where it tells by itself; its causes are not looked at.
pub(crate) fn class_of(error: &(dyn StdError + 'static)) -> Option<ErrorClass> {
    match error.downcast_ref::<sqlx::Error>()? {
        sqlx::Error::Database(error) => class_of_answer(error.as_ref()),
        // The server is full or gone: the pool knows only that no connection came in time.
        sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
            Some(ErrorClass::Unavailable)
        }
        sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) => Some(ErrorClass::Network),
        sqlx::Error::RowNotFound => Some(ErrorClass::NotFound),
        sqlx::Error::Encode(_) | sqlx::Error::InvalidArgument(_) => Some(ErrorClass::Invalid),
        // `Io` is told by its cause. The others are of the program or of its settings, which a release corrects.
        _ => None,
    }
}

/// The class of what a server answered.
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
