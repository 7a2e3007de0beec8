//! The snapshot: how many notices each definition has, counted every now and then by one of the nodes and kept in
//! `notify_count`. Whoever wants numbers reads those few rows, however many notices there are.
//!
//! There is no counter that every notice moves: it would be a row that all transactions wait for. When to count is decided
//! here, how in the stores; who does it is the sweeper's.

use std::time::{Duration, SystemTime};

/// How long one count may take. It disturbs nobody by locks, but reads all of a definition's lanes.
pub const COUNT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a count is the business of who began it: then another node may begin. So one that never ends, or whose node dies,
/// keeps the database busy for a twentieth of the time at most.
pub const COUNT_HOLD: Duration = COUNT_TIMEOUT.saturating_mul(REST);

/// The successes that a snapshot shows are those of this last time. All that are kept may be ten million, and to count them again
/// and again would cost more than to send.
pub const RECENT: Duration = Duration::from_secs(300);

/// What is slow to count is counted more seldom: it rests twenty times as long as it took.
const REST: u32 = 20;

/// When to count again what took so long to count and is wanted so often.
pub fn next_count(took: Duration, every: Duration) -> Duration {
    every.max(took.saturating_mul(REST))
}

/// How many notices a definition had at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Never attempted yet, due or delayed.
    pub not_sent: u64,
    /// Waiting for a retry.
    pub failed: u64,
    /// Being sent.
    pub sending: u64,
    /// Delivered, awaiting their confirmation.
    pub awaiting_confirm: u64,
    /// Dead letters that are kept.
    pub dead_letters: u64,
    /// Cancelled ones that are kept.
    pub cancelled: u64,
    /// Successes of the last [`RECENT`] five minutes, as far as `keep_history` keeps them.
    pub recently_succeeded: u64,
    /// Since when the oldest first send or retry was due; none: none was.
    pub oldest_due: Option<SystemTime>,
}

impl Counts {
    /// All live notices.
    pub fn live(&self) -> u64 {
        self.not_sent + self.failed + self.sending + self.awaiting_confirm
    }
}

/// The counts of a definition, and how old they are.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DefinitionCounts {
    /// The id of the definition.
    pub def_id: i64,
    /// Its name.
    pub definition: String,
    /// What was counted, and when; none: never yet.
    pub taken: Option<(Counts, SystemTime)>,
    /// How old that is.
    pub age: Duration,
    /// In how long it is counted again; zero: now.
    pub due_in: Duration,
}

impl DefinitionCounts {
    /// For stores: the counts of a definition at the time `now`; `next` is when to count again.
    pub fn new(
        (def_id, definition): (i64, String),
        taken: Option<(Counts, SystemTime)>,
        next: Option<SystemTime>,
        now: SystemTime,
    ) -> Self {
        let age = taken.as_ref().and_then(|(_, at)| now.duration_since(*at).ok()).unwrap_or_default();
        let due_in = next.and_then(|next| next.duration_since(now).ok()).unwrap_or_default();
        Self { def_id, definition, taken, age, due_in }
    }

    /// For how long the oldest first send or retry had been due when that was counted; zero: none was due.
    pub fn oldest_due_for(&self) -> Duration {
        let late = |(counts, at): &(Counts, SystemTime)| at.duration_since(counts.oldest_due?).ok();
        self.taken.as_ref().and_then(late).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_slow_to_count_is_counted_more_seldom() {
        let every = Duration::from_secs(30);
        assert_eq!(next_count(Duration::from_millis(100), every), every);
        assert_eq!(next_count(Duration::from_secs(4), every), Duration::from_secs(80));
        assert_eq!(COUNT_HOLD, Duration::from_secs(100));
    }
}
