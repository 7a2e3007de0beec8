//! [`Recorder`]: counts events over time, in pieces whose length grows with the covered time, so that memory stays bounded.

use std::time::Duration;

use solid_notify_core::notice::duration_from_millis;

use super::report::{Bucket, Peak};

/// The most pieces if the scenario does not set their length.
const MOST: usize = 240;
/// The most pieces if the scenario sets their length.
const MOST_CHOSEN: usize = 100_000;
/// Round lengths in milliseconds, each a multiple of the one before; after the last one the length is doubled.
const LENGTHS: [i64; 12] =
    [1_000, 2_000, 10_000, 20_000, 60_000, 120_000, 600_000, 1_200_000, 3_600_000, 7_200_000, 21_600_000, 86_400_000];

/// Records events in the order of time.
pub(super) struct Recorder {
    buckets: Vec<Bucket>,
    /// In milliseconds.
    length: i64,
    most: usize,
    retries: Second,
    live: u64,
    waiting: u64,
}

/// The count of the current second.
#[derive(Default)]
struct Second {
    second: i64,
    count: u64,
    peak: Option<Peak>,
}

impl Second {
    fn count(&mut self, now: i64) {
        if now / 1000 != self.second {
            (self.second, self.count) = (now / 1000, 0);
        }
        self.count += 1;
        if self.peak.is_none_or(|peak| self.count > peak.count) {
            let at = Duration::from_secs(u64::try_from(self.second).unwrap_or(0));
            self.peak = Some(Peak { at, count: self.count });
        }
    }
}

impl Recorder {
    /// Creates a recorder with pieces of this length, or of a length that it chooses.
    pub(super) fn new(length: Option<Duration>) -> Self {
        let chosen = length.map(|length| i64::try_from(length.as_millis()).unwrap_or(i64::MAX));
        Self {
            buckets: Vec::new(),
            length: chosen.unwrap_or(LENGTHS[0]),
            most: if chosen.is_some() { MOST_CHOSEN } else { MOST },
            retries: Second::default(),
            live: 0,
            waiting: 0,
        }
    }

    /// Returns the piece of this moment.
    pub(super) fn at(&mut self, now: i64) -> &mut Bucket {
        let mut index = usize::try_from(now / self.length).unwrap_or(usize::MAX);
        while index >= self.most {
            self.lengthen();
            index = usize::try_from(now / self.length).unwrap_or(usize::MAX);
        }
        while self.buckets.len() <= index {
            // No event happened in the pieces created here, so their levels are the last ones.
            self.buckets.push(Bucket { live: self.live, waiting: self.waiting, ..Bucket::default() });
        }
        &mut self.buckets[index]
    }

    /// Records that a retry begins.
    pub(super) fn retry(&mut self, now: i64) {
        self.retries.count(now);
        self.at(now).retries += 1;
    }

    /// Records how many notices are live now, and how many of them are due without a slot.
    pub(super) fn level(&mut self, now: i64, live: u64, waiting: u64) {
        if (live, waiting) != (self.live, self.waiting) {
            let bucket = self.at(now);
            (bucket.live, bucket.waiting) = (bucket.live.max(live), bucket.waiting.max(waiting));
            (self.live, self.waiting) = (live, waiting);
        }
    }

    /// Returns all pieces, the length of each, and the second in which most retries began.
    pub(super) fn finish(self) -> (Vec<Bucket>, Duration, Option<Peak>) {
        (self.buckets, duration_from_millis(self.length), self.retries.peak)
    }

    fn lengthen(&mut self) {
        let longer = LENGTHS.iter().copied().find(|length| self.most == MOST && *length > self.length);
        let longer = longer.unwrap_or(self.length * 2);
        let count = usize::try_from(longer / self.length).unwrap_or(usize::MAX);
        self.buckets = self.buckets.chunks(count).map(Bucket::sum).collect();
        self.length = longer;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_grow_longer_and_lose_nothing() {
        let mut recorder = Recorder::new(None);
        for second in 0..100_000 {
            recorder.at(second * 1000).added += 1;
        }
        let (buckets, length, _) = recorder.finish();
        assert_eq!((buckets.len(), length), (167, Duration::from_secs(600)));
        assert_eq!(buckets.iter().map(|bucket| bucket.added).sum::<u64>(), 100_000);
        assert!(buckets[..166].iter().all(|bucket| bucket.added == 600));
    }

    #[test]
    fn a_chosen_length_is_kept_as_long_as_memory_allows() {
        let mut recorder = Recorder::new(Some(Duration::from_millis(7)));
        recorder.at(0).added += 1;
        recorder.at(7 * 99_999).added += 1;
        assert_eq!((recorder.length, recorder.buckets.len()), (7, 100_000));
        recorder.at(7 * 100_000).added += 1;
        let (buckets, length, _) = recorder.finish();
        assert_eq!((buckets.len(), length), (50_001, Duration::from_millis(14)));
        assert_eq!(Bucket::sum(&buckets).added, 3);
    }

    #[test]
    fn a_level_holds_until_it_changes_and_a_piece_shows_its_highest() {
        let mut recorder = Recorder::new(Some(Duration::from_secs(1)));
        for (now, live) in [(0, 3), (500, 9), (900, 2), (4000, 0)] {
            recorder.level(now, live, 0);
        }
        let live: Vec<u64> = recorder.finish().0.iter().map(|bucket| bucket.live).collect();
        assert_eq!(live, [9, 2, 2, 2, 2]);
    }

    #[test]
    fn the_peak_is_the_first_second_with_the_most() {
        let mut recorder = Recorder::new(None);
        for now in [100, 1000, 1999, 2000, 7000, 7001] {
            recorder.retry(now);
        }
        assert_eq!(recorder.finish().2, Some(Peak { at: Duration::from_secs(1), count: 2 }));
    }
}
