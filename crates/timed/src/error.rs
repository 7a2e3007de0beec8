//! The errors of timed tasks. Expected races (another consumer claimed the task meanwhile) are values, not errors.

use solid_notify_redis_connection::Error as ConnectionError;

/// Error of a call for timed tasks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Redis could not be reached, refused the script, or its reply cannot be read.
    #[error(transparent)]
    Redis(#[from] ConnectionError),
    /// A value could not be written as JSON.
    #[error("a value of the kind {kind:?} cannot be written as JSON: {source}")]
    Encode {
        /// The kind of the task.
        kind: String,
        /// The error of the JSON encoder.
        source: serde_json::Error,
    },
}

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;
