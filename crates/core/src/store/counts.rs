//! The snapshot: how many notices each definition has, counted regularly by one of the nodes and stored in `notify_count`. A
//! reader reads only those few rows, however many notices there are.
//!
//! There is no counter that every notice updates, because all transactions would wait for its row. This module decides when to
//! count, the stores count, and the sweeper starts the counts.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};

/// The maximum duration of one count. Its locks delay no other work, but it reads all queue slices of a definition.
pub const COUNT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a started count prevents other nodes from starting one. So a count that never ends, or whose node dies, loads the
/// database for at most a twentieth of the time.
pub const COUNT_HOLD: Duration = COUNT_TIMEOUT.saturating_mul(REST);

/// The period of the successes that a snapshot counts. History may contain ten million successes, and counting all of them
/// repeatedly would cost more than sending.
pub const RECENT: Duration = Duration::from_secs(300);

/// A count is followed by a pause of this many times its duration, so that slow counts run less often.
const REST: u32 = 20;

/// Returns when to count again after a count that took `took` and is wanted `every` so often.
pub fn next_count(took: Duration, every: Duration) -> Duration {
    every.max(took.saturating_mul(REST))
}

/// The number of notices of a definition at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NoticeCounts {
    /// Not attempted yet, due or delayed.
    pub not_sent: u64,
    /// Waiting for a retry.
    pub failed: u64,
    /// Being sent.
    pub sending: u64,
    /// Delivered, awaiting their ack.
    pub awaiting_ack: u64,
    /// Dead letters in history.
    pub dead_letters: u64,
    /// Cancelled notices in history.
    pub cancelled: u64,
    /// Successes of the last [`RECENT`] five minutes, as far as `keep_history` keeps them.
    pub recently_succeeded: u64,
    /// Since when the oldest first send or retry was due; `None`: none was due.
    pub oldest_due: Option<DateTime<Utc>>,
}

impl NoticeCounts {
    /// Returns the number of live notices.
    pub fn live(&self) -> u64 {
        self.not_sent + self.failed + self.sending + self.awaiting_ack
    }
}

/// The counts of a definition, and how old they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DefinitionCounts {
    /// The id of the definition.
    pub def_id: i64,
    /// Its name.
    pub definition: String,
    /// The counts and their time; `None`: not counted yet.
    #[serde(serialize_with = "taken")]
    pub taken: Option<(NoticeCounts, DateTime<Utc>)>,
    /// The age of the counts.
    #[serde(serialize_with = "crate::json::duration")]
    pub age: Duration,
    /// When the next count is due; zero: now.
    #[serde(serialize_with = "crate::json::duration")]
    pub due_in: Duration,
}

/// Writes counts beside their time.
fn taken<S: Serializer>(taken: &Option<(NoticeCounts, DateTime<Utc>)>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Taken<'a> {
        at: &'a DateTime<Utc>,
        #[serde(flatten)]
        counts: &'a NoticeCounts,
    }
    taken.as_ref().map(|(counts, at)| Taken { at, counts }).serialize(serializer)
}

impl DefinitionCounts {
    /// For stores: creates the counts of a definition at the time `now`; `next` is when to count again.
    pub fn new(
        (def_id, definition): (i64, String),
        taken: Option<(NoticeCounts, DateTime<Utc>)>,
        next: Option<DateTime<Utc>>,
        now: DateTime<Utc>,
    ) -> Self {
        let age = taken.as_ref().and_then(|(_, at)| (now - *at).to_std().ok()).unwrap_or_default();
        let due_in = next.and_then(|next| (next - now).to_std().ok()).unwrap_or_default();
        Self { def_id, definition, taken, age, due_in }
    }

    /// Returns how long the oldest first send or retry had been due at the time of the count; zero: none was due.
    pub fn oldest_due_for(&self) -> Duration {
        let late = |(counts, at): &(NoticeCounts, DateTime<Utc>)| (*at - counts.oldest_due?).to_std().ok();
        self.taken.as_ref().and_then(late).unwrap_or_default()
    }
}

/// Returns how many dead letters a snapshot has, and for people how they are distributed, the definitions with the most first:
/// `sync 120, report 30, and 3 of 2 more definitions`.
pub fn dead_letters(snapshot: &[DefinitionCounts]) -> (u64, String) {
    const NAMED: usize = 10;
    let count = |row: &DefinitionCounts| row.taken.as_ref().map_or(0, |(counts, _)| counts.dead_letters);
    let mut piles: Vec<(u64, &str)> = snapshot.iter().map(|row| (count(row), row.definition.as_str())).collect();
    piles.retain(|(count, _)| *count > 0);
    piles.sort_unstable_by_key(|(count, name)| (std::cmp::Reverse(*count), *name));
    let total = piles.iter().map(|(count, _)| count).sum();
    let others = piles.split_off(piles.len().min(NAMED));
    let mut parts: Vec<String> = piles.iter().map(|(count, name)| format!("{name} {count}")).collect();
    if !others.is_empty() {
        let count: u64 = others.iter().map(|(count, _)| count).sum();
        parts.push(format!("and {count} of {} more definitions", others.len()));
    }
    (total, parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_letters_are_distributed_over_the_definitions_with_the_most() {
        let row = |(n, dead_letters): (i64, u64)| {
            let counts = NoticeCounts { dead_letters, ..NoticeCounts::default() };
            let taken = Some((counts, DateTime::UNIX_EPOCH));
            DefinitionCounts::new((n, format!("d{n:02}")), taken, None, DateTime::UNIX_EPOCH)
        };
        let few: Vec<_> = [(1, 3), (2, 0), (3, 120)].map(row).to_vec();
        assert_eq!(dead_letters(&few), (123, "d03 120, d01 3".to_owned()));
        assert_eq!(dead_letters(&[]), (0, String::new()));
        let many: Vec<_> = (1..=12).map(|n| row((n, 1))).collect();
        let (total, text) = dead_letters(&many);
        assert_eq!(total, 12);
        assert!(text.starts_with("d01 1, ") && text.ends_with("d10 1, and 2 of 2 more definitions"), "{text}");
    }

    #[test]
    fn a_slow_count_is_repeated_less_often() {
        let every = Duration::from_secs(30);
        assert_eq!(next_count(Duration::from_millis(100), every), every);
        assert_eq!(next_count(Duration::from_secs(4), every), Duration::from_secs(80));
        assert_eq!(COUNT_HOLD, Duration::from_secs(100));
    }
}
