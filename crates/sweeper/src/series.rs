//! [`Series`]: counts and durations of outcomes, kept in memory by definition and minute of the store's clock. [`crate::background::series`] stores it.
//!
//! A minute only grows until it is over and stored; then it is forgotten, and nothing is counted for it any more. What is counted before
//! this process knows the store's clock is kept apart, and nothing is stored until then.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use solid_notify_core::ErrorClass;
use solid_notify_core::notice::{duration_millis, time_from_millis};
use solid_notify_core::store::{MINUTE_MS, SeriesCounts, SeriesRow};

use crate::meters::delivered_after;
use crate::settling::Outcome;

/// The most minutes of definitions that are kept while the store does not take them: the oldest are forgotten.
const MOST: usize = 20_000;

/// The length of the steps in which counts are kept until the offset is known, in milliseconds: an outcome is at most that far from its minute.
const EARLY_STEP_MS: i64 = 1000;

/// The minutes of a node that are not over, or not stored. All times that it is given are those of this process's clock.
pub(crate) struct Series {
    minutes: Mutex<Minutes>,
    /// One write at a time.
    pub(crate) writing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Minutes {
    /// This process's clock minus the store's, in milliseconds; `None`: it is not known yet.
    offset_ms: Option<i64>,
    /// What was counted before the offset was known: by the begin of the step, by this process's clock, and the definition.
    early: BTreeMap<(i64, i64), Minute>,
    /// By the begin of the minute, by the store's clock in milliseconds since 1970, and the definition.
    counted: BTreeMap<(i64, i64), Minute>,
    /// The first minute that may be counted: earlier ones are forgotten.
    first: i64,
}

#[derive(Default)]
struct Minute {
    counts: SeriesCounts,
    /// The sums of `counts`, exact, because most attempts are shorter than a millisecond or two.
    durations: Duration,
    deliveries: Duration,
    /// Whether something was counted since it was stored.
    changed: bool,
}

impl Series {
    /// Creates a series. `offset_ms` is this process's clock minus the store's, in milliseconds, if it is known.
    pub(crate) fn new(offset_ms: Option<i64>) -> Self {
        let minutes = Minutes { offset_ms, ..Minutes::default() };
        Self { minutes: Mutex::new(minutes), writing: tokio::sync::Mutex::default() }
    }

    /// Sets the offset, and adds what was counted before it was known to the minutes of the store's clock.
    pub(crate) fn set_offset(&self, offset_ms: i64) {
        let mut minutes = self.minutes.lock();
        minutes.offset_ms = Some(offset_ms);
        for ((begin, def_id), early) in std::mem::take(&mut minutes.early) {
            minutes.count(begin - offset_ms, def_id, |minute| minute.add(&early));
        }
    }

    pub(crate) fn knows_the_offset(&self) -> bool {
        self.minutes.lock().offset_ms.is_some()
    }

    /// Counts a stored outcome, by the word that metrics have for it.
    pub(crate) fn settled(&self, now: i64, outcome: &Outcome, word: &str) {
        self.count(now, outcome.claimed.def_id, |minute| {
            let counts = &mut minute.counts;
            let is_delivered = matches!(word, "succeeded" | "awaiting_ack");
            *match word {
                "succeeded" => &mut counts.succeeded,
                "awaiting_ack" => &mut counts.awaiting_ack,
                "skipped" => &mut counts.skipped,
                "dead_letter" => &mut counts.dead_letters,
                _ => &mut counts.failed,
            } += 1;
            counts.unacked += u64::from(outcome.class() == Some(ErrorClass::Unacked));
            if !outcome.duration.is_zero() {
                counts.timed += 1;
                minute.durations += outcome.duration;
                counts.duration_max_ms = counts.duration_max_ms.max(millis(outcome.duration));
            }
            if is_delivered {
                let after = delivered_after(&outcome.claimed, outcome.duration);
                minute.deliveries += after;
                counts.delivery_max_ms = counts.delivery_max_ms.max(millis(after));
            }
        });
    }

    /// Counts how late the first notice of a queue slice was claimed.
    pub(crate) fn claimed(&self, now: i64, def_id: i64, late: Duration) {
        self.count(now, def_id, |minute| minute.counts.late_max_ms = minute.counts.late_max_ms.max(millis(late)));
    }

    fn count(&self, now: i64, def_id: i64, count: impl FnOnce(&mut Minute)) {
        let mut minutes = self.minutes.lock();
        if let Some(offset_ms) = minutes.offset_ms {
            return minutes.count(now - offset_ms, def_id, count);
        }
        let step = now - now.rem_euclid(EARLY_STEP_MS);
        count(minutes.early.entry((step, def_id)).or_default());
        if minutes.early.len() > MOST {
            minutes.early.pop_first();
        }
    }

    /// Returns what has changed since it was stored, and forgets minutes that are over and stored. Returns nothing before the offset is known.
    pub(crate) fn changed(&self, now: i64) -> Vec<SeriesRow> {
        let mut minutes = self.minutes.lock();
        let Some(offset_ms) = minutes.offset_ms else { return Vec::new() };
        let current = begin_of(now - offset_ms);
        let Minutes { counted, first, .. } = &mut *minutes;
        counted.retain(|(begin, _), minute| {
            let stays = minute.changed || *begin >= current;
            if !stays {
                *first = (*first).max(begin + MINUTE_MS);
            }
            stays
        });
        counted.iter().filter(|(_, minute)| minute.changed).map(|(key, minute)| minute.row(*key)).collect()
    }

    /// Notes that rows are stored. What was counted meanwhile is stored by the next write.
    pub(crate) fn stored(&self, rows: &[SeriesRow]) {
        let mut minutes = self.minutes.lock();
        for row in rows {
            let key = (row.minute.timestamp_millis(), row.def_id);
            if let Some(minute) = minutes.counted.get_mut(&key)
                && minute.row(key) == *row
            {
                minute.changed = false;
            }
        }
    }
}

impl Minutes {
    /// Counts in the minute of a time by the store's clock.
    fn count(&mut self, time: i64, def_id: i64, count: impl FnOnce(&mut Minute)) {
        // Where the clock was set back, the earliest minute that is not forgotten.
        let begin = begin_of(time).max(self.first);
        let minute = self.counted.entry((begin, def_id)).or_default();
        count(minute);
        minute.changed = true;
        if self.counted.len() > MOST
            && let Some(((oldest, _), _)) = self.counted.pop_first()
        {
            self.first = self.first.max(oldest + MINUTE_MS);
        }
    }
}

impl Minute {
    fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.durations += other.durations;
        self.deliveries += other.deliveries;
    }

    fn row(&self, (begin, def_id): (i64, i64)) -> SeriesRow {
        let mut counts = self.counts;
        (counts.duration_ms, counts.delivery_ms) = (millis(self.durations), millis(self.deliveries));
        SeriesRow { def_id, minute: time_from_millis(begin), counts }
    }
}

fn begin_of(now: i64) -> i64 {
    now - now.rem_euclid(MINUTE_MS)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration_millis(duration)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(series: &Series, now: i64, ms: u64) {
        series.claimed(now, 7, Duration::from_millis(ms));
    }

    fn shown(rows: &[SeriesRow]) -> Vec<(i64, u64)> {
        rows.iter().map(|row| (row.minute.timestamp_millis(), row.counts.late_max_ms)).collect()
    }

    #[test]
    fn minute_is_written_whole_until_it_is_over_and_stored() {
        let series = Series::new(Some(0));
        late(&series, 61_000, 5);
        let rows = series.changed(62_000);
        assert_eq!(shown(&rows), [(60_000, 5)]);
        assert_eq!(shown(&series.changed(62_000)), [(60_000, 5)], "its reply was lost");
        late(&series, 63_000, 9);
        series.stored(&rows);
        let rows = series.changed(64_000);
        assert_eq!(shown(&rows), [(60_000, 9)], "counted while the first write was under way");
        series.stored(&rows);
        assert!(series.changed(64_000).is_empty());
        late(&series, 119_999, 10);
        let rows = series.changed(121_000);
        assert_eq!(shown(&rows), [(60_000, 10)], "the whole minute again");
        series.stored(&rows);
        assert!(series.changed(122_000).is_empty() && series.minutes.lock().counted.is_empty());
    }

    #[test]
    fn minute_that_is_forgotten_is_never_counted_again() {
        let series = Series::new(Some(0));
        late(&series, 61_000, 5);
        let rows = series.changed(62_000);
        series.stored(&rows);
        assert!(series.changed(125_000).is_empty());
        late(&series, 1_000, 6);
        assert_eq!(shown(&series.changed(125_000)), [(120_000, 6)], "the clock was set back");
    }

    #[test]
    fn oldest_minutes_are_forgotten_where_the_store_takes_none() {
        let series = Series::new(Some(0));
        for minute in 0..=i64::try_from(MOST).unwrap() {
            late(&series, minute * MINUTE_MS, 1);
        }
        let rows = series.changed(0);
        assert_eq!((rows.len(), rows[0].minute.timestamp_millis()), (MOST, MINUTE_MS));
    }

    #[test]
    fn counts_wait_until_the_clock_of_the_store_is_known_and_get_its_minute() {
        let series = Series::new(None);
        late(&series, 3_659_000, 5);
        late(&series, 3_661_000, 9);
        late(&series, 3_661_500, 7);
        assert!(series.changed(4_000_000).is_empty() && !series.knows_the_offset(), "they could be of any minute");
        // This process's clock is half an hour and two seconds ahead.
        series.set_offset(30 * MINUTE_MS + 2000);
        assert_eq!(shown(&series.changed(4_000_000)), [(30 * MINUTE_MS, 9)]);
        series.set_offset(0);
        late(&series, 3_662_000, 3);
        let rows = series.changed(4_000_000);
        assert_eq!(shown(&rows), [(30 * MINUTE_MS, 9), (61 * MINUTE_MS, 3)], "none is counted twice");
    }

    #[test]
    fn early_counts_are_added_to_those_of_their_minute() {
        let series = Series::new(None);
        let count = |now| {
            series.count(now, 7, |minute| {
                minute.counts.succeeded += 1;
                minute.durations += Duration::from_micros(500);
                minute.deliveries += Duration::from_millis(2);
            });
        };
        [60_000, 60_001, 65_000].into_iter().for_each(count);
        series.set_offset(0);
        count(66_000);
        let rows = series.changed(66_000);
        let SeriesCounts { succeeded, duration_ms, delivery_ms, .. } = rows[0].counts;
        assert_eq!((rows.len(), succeeded, duration_ms, delivery_ms), (1, 4, 2, 8));
    }

    #[test]
    fn oldest_early_counts_are_forgotten_where_the_store_does_not_answer() {
        let series = Series::new(None);
        for step in 0..=i64::try_from(MOST).unwrap() {
            late(&series, step * EARLY_STEP_MS, 1);
        }
        assert_eq!(series.minutes.lock().early.keys().next(), Some(&(EARLY_STEP_MS, 7)));
        assert_eq!(series.minutes.lock().early.len(), MOST);
    }
}
