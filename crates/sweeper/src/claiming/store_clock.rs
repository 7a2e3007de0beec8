//! [`StoreClock`]: detects that the store's clock was set (NTP, a failover), by comparing it with this process's own clock.
//!
//! Leases are times of the store's clock, so all of them expire at once if it is set ahead, although their workers live.
//! The sweep decides what to do then.

use std::time::Duration;

use chrono::{DateTime, Utc};
use solid_notify_core::notice::{duration_millis, millis_from_time};

/// How far the clocks may move apart between two looks. A lease has at least three times as much left.
const TOLERANCE: i64 = 5_000;
/// How old the compared reading may get, so that clocks that drift apart slowly do not count as set.
const COMPARED: i64 = 60_000;

/// A reading of the store's clock, with the process's clock before and after it, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    store: i64,
    asked: i64,
    answered: i64,
}

impl Reading {
    /// `asked` and `answered` are moments of the process's clock before and after the store read its own.
    pub(super) fn new(store: DateTime<Utc>, asked: Duration, answered: Duration) -> Self {
        Self { store: millis_from_time(store), asked: duration_millis(asked), answered: duration_millis(answered) }
    }
}

/// Keeps the reading with which later ones are compared.
#[derive(Default)]
pub(super) struct StoreClock {
    compared: Option<Reading>,
}

impl StoreClock {
    /// Returns by how many milliseconds, at least, the store's clock was set ahead since the last reading kept, or back (below
    /// zero); `None` if it was not set.
    pub(super) fn was_set(&self, now: &Reading) -> Option<i64> {
        let before = self.compared?;
        // The duration of a call must not count as a change of the clock.
        let ahead = (now.store - before.store) - (now.answered - before.asked);
        let back = (now.store - before.store) - (now.asked - before.answered);
        if ahead > TOLERANCE { Some(ahead) } else { (back < -TOLERANCE).then_some(back) }
    }

    /// Keeps a reading, after the sweep has acted on it.
    pub(super) fn keep(&mut self, now: Reading) {
        let is_old = |kept: &Reading| now.answered - kept.answered > COMPARED;
        if self.compared.as_ref().is_none_or(is_old) || self.was_set(&now).is_some() {
            self.compared = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn reading(store: u64, asked: u64, answered: u64) -> Reading {
        let secs = Duration::from_secs;
        Reading::new(DateTime::UNIX_EPOCH + secs(store), secs(asked), secs(answered))
    }

    #[test]
    fn clock_that_is_set_is_noticed_and_a_slow_call_is_not_one() {
        let mut clock = StoreClock::default();
        assert_eq!(clock.was_set(&reading(1000, 0, 1)), None, "there is nothing to compare with");
        clock.keep(reading(1000, 0, 1));
        assert_eq!(clock.was_set(&reading(1010, 10, 11)), None);
        assert_eq!(clock.was_set(&reading(1010, 1, 40)), None, "the answer was late");
        assert_eq!(clock.was_set(&reading(1130, 10, 11)), Some(119_000));
        assert_eq!(clock.was_set(&reading(910, 10, 11)), Some(-99_000));
    }

    #[test]
    fn clocks_that_drift_apart_slowly_set_nothing() {
        let mut clock = StoreClock::default();
        for minute in 0..60 {
            let (store, own) = (minute * 61 + minute / 30, minute * 61);
            assert_eq!(clock.was_set(&reading(store, own, own)), None, "minute {minute}");
            clock.keep(reading(store, own, own));
        }
    }
}
