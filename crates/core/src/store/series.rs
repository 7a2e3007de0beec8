//! Series: what settling counted, per node, definition and minute. Nodes write their own minutes; people read the sums over all nodes.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;

use crate::notice::{duration_millis, millis_from_time, time_from_millis};

/// Declares the counters, each with how two of them become one: by `sum` or by `max`.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $fold:ident,)+) => {
        /// The counters of one minute, or of a longer step. Outcomes of alerts and housekeeping are not counted.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
        #[non_exhaustive]
        pub struct SeriesCounts {
            $($(#[$doc])* pub $name: u64,)+
        }

        impl SeriesCounts {
            /// The names of the columns, and for each whether several become one by their maximum, and not by their sum.
            pub const COLUMNS: &'static [(&'static str, bool)] = &[$((stringify!($name), counters!(@is_max $fold))),+];

            /// Returns the values in the order of [`Self::COLUMNS`].
            pub fn values(&self) -> [u64; Self::COLUMNS.len()] {
                [$(self.$name),+]
            }

            /// Sets the values in the order of [`Self::COLUMNS`]; a missing one is zero.
            pub fn from_values(values: impl IntoIterator<Item = u64>) -> Self {
                let mut values = values.into_iter();
                Self { $($name: values.next().unwrap_or(0),)+ }
            }

            /// Adds other counters to these.
            pub fn add(&mut self, other: &Self) {
                $(counters!(@fold $fold self.$name, other.$name);)+
            }
        }
    };
    (@is_max sum) => { false };
    (@is_max max) => { true };
    (@fold sum $one:expr, $other:expr) => { $one = $one.saturating_add($other) };
    (@fold max $one:expr, $other:expr) => { $one = $one.max($other) };
}

counters! {
    /// Attempts that delivered their notice and ended it.
    succeeded: sum,
    /// Attempts that delivered a notice which then awaited its ack.
    awaiting_ack: sum,
    /// Attempts whose handler skipped the notice.
    skipped: sum,
    /// Failed attempts, crashes and missing acks that are followed by a retry.
    failed: sum,
    /// Notices that became dead letters.
    dead_letters: sum,
    /// Of `failed` and `dead_letters` those whose delivery was nacked or not acked in time.
    unacked: sum,
    /// Attempts whose duration is known; a crash has none.
    timed: sum,
    /// The sum of these durations, in milliseconds.
    duration_ms: sum,
    /// The longest of them, in milliseconds.
    duration_max_ms: max,
    /// The sum of the times from the insert of a notice to its delivery, in milliseconds, over `succeeded` and `awaiting_ack`.
    delivery_ms: sum,
    /// The longest of them, in milliseconds.
    delivery_max_ms: max,
    /// The longest time that a due notice waited for its claim, in milliseconds, as far as it was measured: once for each claim.
    late_max_ms: max,
}

impl SeriesCounts {
    /// Replaces each counter by the larger one: these are two readings of counters that only grow.
    pub fn grow(&mut self, other: &Self) {
        let larger = self.values().into_iter().zip(other.values()).map(|(one, other)| one.max(other));
        *self = Self::from_values(larger);
    }

    /// Returns true if nothing was counted.
    pub fn is_zero(&self) -> bool {
        self.values().iter().all(|value| *value == 0)
    }
}

/// The counters of a node, of one definition and minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesRow {
    /// The definition.
    pub def_id: i64,
    /// When the minute begins.
    pub minute: DateTime<Utc>,
    /// The counters.
    pub counts: SeriesCounts,
}

/// Which part of the series to read: whole minutes, in steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesQuery {
    /// Only of this definition.
    pub def_id: Option<i64>,
    /// The begin of the first step, a whole minute.
    pub from: DateTime<Utc>,
    /// The end: the last minute is before it.
    pub until: DateTime<Utc>,
    /// The length of a step.
    pub step: Duration,
}

impl SeriesQuery {
    /// Returns the number of the step that a minute is in.
    pub fn step_of(&self, minute: DateTime<Utc>) -> i64 {
        (millis_from_time(minute) - millis_from_time(self.from)).div_euclid(duration_millis(self.step).max(1))
    }

    /// Returns when a step begins.
    pub fn begin_of(&self, step: i64) -> DateTime<Utc> {
        time_from_millis(millis_from_time(self.from).saturating_add(step.saturating_mul(duration_millis(self.step))))
    }

    /// Returns true if a minute is within the times.
    pub fn has(&self, minute: DateTime<Utc>) -> bool {
        self.from <= minute && minute < self.until
    }
}

/// The length of a minute, in milliseconds.
pub const MINUTE_MS: i64 = 60_000;

/// Returns when the minute of a time begins.
pub fn minute_of(time: DateTime<Utc>) -> DateTime<Utc> {
    time - TimeDelta::milliseconds(time.timestamp_millis().rem_euclid(MINUTE_MS))
        - TimeDelta::nanoseconds(i64::from(time.timestamp_subsec_nanos() % 1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_added_and_maxima_are_compared() {
        let mut one = SeriesCounts { succeeded: 3, duration_ms: 10, duration_max_ms: 7, ..SeriesCounts::default() };
        one.add(&SeriesCounts {
            succeeded: 1,
            duration_ms: 5,
            duration_max_ms: 4,
            late_max_ms: 2,
            ..SeriesCounts::default()
        });
        assert_eq!((one.succeeded, one.duration_ms, one.duration_max_ms, one.late_max_ms), (4, 15, 7, 2));
        assert_eq!(SeriesCounts::from_values(one.values()), one);
        assert_eq!(SeriesCounts::COLUMNS.iter().position(|(name, _)| *name == "late_max_ms"), Some(11));
        let mut grown = SeriesCounts { succeeded: 1, failed: 2, ..SeriesCounts::default() };
        grown.grow(&SeriesCounts { succeeded: 2, failed: 1, ..SeriesCounts::default() });
        assert_eq!((grown.succeeded, grown.failed), (2, 2));
        assert!(SeriesCounts::default().is_zero() && !one.is_zero());
    }

    #[test]
    fn a_minute_begins_at_its_first_nanosecond() {
        for (time, minute) in [
            ("2026-11-24T20:03:59.999999999Z", "2026-11-24T20:03:00Z"),
            ("1969-12-31T23:59:00.5Z", "1969-12-31T23:59:00Z"),
        ] {
            assert_eq!(minute_of(time.parse().unwrap()), minute.parse::<DateTime<Utc>>().unwrap());
        }
    }

    #[test]
    fn steps_begin_at_the_first_minute() {
        let from = time_from_millis(600_000);
        let query =
            SeriesQuery { def_id: None, from, until: time_from_millis(1_200_000), step: Duration::from_secs(300) };
        assert_eq!((query.step_of(from), query.step_of(time_from_millis(899_999))), (0, 0));
        assert_eq!((query.step_of(time_from_millis(900_000)), query.begin_of(1)), (1, time_from_millis(900_000)));
        assert!(query.has(from) && !query.has(query.until));
    }
}
