//! Numbers as the scripts read them.

use std::fmt::Display;
use std::time::Duration;

use serde::{Serialize, Serializer};
use solid_notify_core::notice::{Status, duration_millis};
use solid_notify_redis_connection::MAX_SCORE;

/// A number that goes as a text.
pub(in crate::store) struct Text<T>(pub(in crate::store) T);

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl From<Status> for Text<i64> {
    fn from(status: Status) -> Self {
        Self(status.code())
    }
}

/// A duration in milliseconds; `inf` for one without end.
pub(in crate::store) struct Millis(pub(in crate::store) Duration);

impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match duration_millis(self.0) {
            ms if ms >= MAX_SCORE => serializer.serialize_str("inf"),
            ms => serializer.serialize_i64(ms),
        }
    }
}
