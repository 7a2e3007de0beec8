//! [`OwnLimits`]: what one notice may, besides what its definition allows. [`crate::transition`] decides by them.

use chrono::{DateTime, Utc};
use serde::Serialize;

/// The limits of one notice, which it has besides those of its definition. Most notices have none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OwnLimits {
    /// How often it may be tried, instead of `1 + max_retry_times`.
    pub max_tries: Option<i64>,
    /// The time from which on it is not sent.
    pub expires_at: Option<DateTime<Utc>>,
}

impl OwnLimits {
    /// Creates the limits from stored values.
    pub fn new(max_tries: Option<i64>, expires_at: Option<DateTime<Utc>>) -> Self {
        Self { max_tries, expires_at }
    }

    /// Returns whether it is not sent at `time` any more.
    pub fn is_expired(&self, time: DateTime<Utc>) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= time)
    }
}
