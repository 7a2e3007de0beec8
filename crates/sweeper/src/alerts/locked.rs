//! Reports definitions whose ticks, claims or outcomes wait because another session has locked a row. A wait that lasts is
//! logged, logged again every minute, and raises an alert of the reason `locked`.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A wait that lasts longer is reported.
const LONG: Duration = Duration::from_secs(10);
/// A wait that was not seen again for this long is over, because blocked work is retried more often than that.
const OVER: Duration = Duration::from_secs(8);
/// How often a wait is logged again.
const AGAIN: Duration = Duration::from_secs(60);

/// The kind of work that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    Ticks,
    Claims,
    Outcomes,
}

impl Work {
    fn text(self) -> &'static str {
        match self {
            Self::Ticks => "its timetable does not tick: another session has locked its row in notify_def",
            Self::Claims => "none of its notices is claimed: another session has locked its row in notify_limit",
            Self::Outcomes => {
                "outcomes of its attempts cannot be stored, because the database refuses them or another session has locked a row \
                 that they need (in notify_alert, notify_limit or notify_msg)"
            }
        }
    }
}

/// The waits, by definition and kind of work. A wait ends when its work goes on, or when it is not seen again.
#[derive(Default)]
pub(crate) struct LockedRows(Mutex<BTreeMap<(i64, Work), Since>>);

struct Since {
    began: Instant,
    last: Instant,
    reported: Option<Instant>,
}

impl LockedRows {
    /// Records that work of a definition waits now, and logs it if that lasts.
    pub(crate) fn waits(&self, def_id: i64, definition: &str, work: Work) {
        let now = Instant::now();
        let mut all = self.0.lock();
        all.retain(|_, since| since.last.elapsed() < OVER);
        let since = all.entry((def_id, work)).or_insert(Since { began: now, last: now, reported: None });
        since.last = now;
        let waits = since.began.elapsed();
        if waits < LONG || since.reported.is_some_and(|at| at.elapsed() < AGAIN) {
            return;
        }
        since.reported = Some(Instant::now());
        drop(all);
        let waits = humantime::format_duration(Duration::from_secs(waits.as_secs())).to_string();
        tracing::warn!(definition, waits, "{}", work.text());
    }

    /// Records that the work goes on.
    pub(crate) fn goes_on(&self, def_id: i64, definition: &str, work: Work) {
        let since = self.0.lock().remove(&(def_id, work));
        if since.is_some_and(|since| since.reported.is_some()) {
            tracing::info!(definition, "this is over: {}", work.text());
        }
    }

    /// Returns the definition and text of each wait that has lasted long.
    pub(crate) fn lasting(&self) -> Vec<(i64, String)> {
        let text = |work: Work, since: &Since| {
            let waits = humantime::format_duration(Duration::from_secs(since.began.elapsed().as_secs()));
            format!("for {waits} {}", work.text())
        };
        let all = self.0.lock();
        let long = all.iter().filter(|(_, since)| since.began.elapsed() >= LONG && since.last.elapsed() < OVER);
        long.map(|((def_id, work), since)| (*def_id, text(*work, since))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn wait_is_reported_when_it_lasts_and_not_sooner() {
        let locked = LockedRows::default();
        let mut reported = Vec::new();
        for second in 0..=10 {
            locked.waits(7, "sync", Work::Claims);
            if !locked.lasting().is_empty() {
                reported.push(second);
            }
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        // Other nodes lock a row all the time, for a moment.
        assert_eq!(reported, [10]);
        assert!(locked.lasting()[0].1.starts_with("for 11s none of its notices is claimed"), "{:?}", locked.lasting());
        tokio::time::advance(OVER).await;
        assert!(locked.lasting().is_empty(), "it was not seen again");
        locked.waits(7, "sync", Work::Claims);
        assert!(locked.lasting().is_empty(), "another wait begins");
    }
}
