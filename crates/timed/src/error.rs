//! The errors of timed tasks. Expected races (another consumer claimed the task meanwhile) are values, not errors.

use solid_notify_redis_connection::Error as ConnectionError;

/// Error of a call for timed tasks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Redis could not be reached, refused the script, or its reply cannot be read.
    #[error(transparent)]
    Redis(#[from] ConnectionError),
    /// A kind that cannot be used: 1 to 200 bytes without braces and control characters are expected.
    #[error("the kind {kind:?} cannot be used: expected 1 to 200 bytes without braces and control characters")]
    Kind {
        /// The kind.
        kind: String,
    },
    /// An id that cannot be used: 1 to 500 bytes without control characters are expected.
    #[error("the id {id:?} cannot be used: expected 1 to 500 bytes without control characters")]
    Id {
        /// The id.
        id: String,
    },
    /// A target that is no URL.
    #[error(
        "the target {target:?} cannot be used: expected a URL like \"https://host/path\" of at most 2,000 bytes without spaces"
    )]
    Target {
        /// The target.
        target: String,
    },
    /// A value could not be written as JSON.
    #[error("a value of the kind {kind:?} cannot be written as JSON: {source}")]
    Encode {
        /// The kind of the task.
        kind: String,
        /// The error of the JSON encoder.
        source: serde_json::Error,
    },
}

impl Error {
    /// True where the cause passes by itself: Redis cannot be reached, or does not serve for now.
    pub(crate) fn is_outage(&self) -> bool {
        matches!(self, Self::Redis(error) if error.is_outage())
    }
}

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;
