//! The snapshot of counts: the first node that finds a definition's counts outdated counts its notices again. Every node
//! shows the whole snapshot as gauges.
//!
//! All nodes show it because a gauge cannot be removed: a gauge shown by one node alone would keep its last value when that
//! node stops counting. All nodes show the same values, so dashboards take the maximum and not the sum.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::StoreError;
use solid_notify_core::error::FaultKind;
use solid_notify_core::metrics as names;
use solid_notify_core::store::{COUNT_TIMEOUT, DefinitionCounts, NoticeCounts};
use tokio::time::{Instant, timeout};

use crate::worker::Worker;

/// The shortest pause between two looks at the snapshot.
const SHORTEST: Duration = Duration::from_secs(1);
/// Reading the snapshot takes at most a twentieth of the time.
const SHARE: u32 = 20;
/// How many definitions a node counts after one look, of those that were not counted yet or had live notices.
const BUSY_AT_ONCE: usize = 100;
/// How many others, at least, and the shortest pause between two looks at them. Up to 300 of them are each counted every 30 s, and any
/// number every [`IDLE_ROUND`] looks, 100 s: at the pace of busy ones their counts would be most of what an idle process does.
const IDLE_AT_ONCE: usize = 50;
const IDLE_PAUSE: Duration = Duration::from_secs(5);
const IDLE_ROUND: usize = 20;
/// How long a process that ends may count.
const LAST_COUNT: Duration = Duration::from_secs(30);

pub(crate) async fn counts_loop(worker: Arc<Worker>) {
    let mut gauges = Gauges::default();
    let mut piles = BTreeSet::new();
    let mut idle_counted: Option<Instant> = None;
    while !worker.signals.is_stopped() {
        // Subscribed before the look, so that a turn of the clock during the look is not missed.
        let turned = worker.signals.clock_turned();
        let every = worker.settings.count_interval;
        let with_idle = idle_counted.is_none_or(|at| at.elapsed() >= IDLE_PAUSE.min(every));
        if with_idle {
            idle_counted = Some(Instant::now());
        }
        let pause = tokio::select! {
            biased;
            () = worker.signals.stopped() => break,
            snapshot = snapshot(&worker, with_idle) => match snapshot {
                Ok((snapshot, reading)) => {
                    gauges.show(&snapshot, every);
                    let now: BTreeSet<i64> = worker.definitions().piles(&snapshot).into_keys().collect();
                    if !now.is_subset(&piles) {
                        // The next heartbeat raises the alert.
                        worker.signals.check_soon();
                    }
                    piles = now;
                    let pause = |row: &DefinitionCounts| if is_idle(row) { row.due_in.max(IDLE_PAUSE) } else { row.due_in };
                    let next = snapshot.iter().map(pause).min().unwrap_or(every);
                    next.clamp(SHORTEST.min(every), every).max(SHARE * reading)
                }
                Err(error) => {
                    worker.health.mention(&error);
                    every
                }
            },
        };
        tokio::select! {
            () = worker.signals.pause(pause) => {}
            // A clock that is turned by hand: the pause has passed.
            () = turned => idle_counted = None,
        }
    }
}

/// Returns the snapshot after its outdated counts were counted again, by this node or by others, and how long it took
/// to read it.
async fn snapshot(worker: &Worker, with_idle: bool) -> Result<(Vec<DefinitionCounts>, Duration), StoreError> {
    let store = &worker.stores().browse;
    let began = Instant::now();
    let mut snapshot = store.counts().await?;
    let reading = began.elapsed();
    let mut counted = false;
    for row in due(&snapshot, with_idle) {
        match timeout(COUNT_TIMEOUT, store.refresh_counts(row.def_id, worker.settings.count_interval)).await {
            Ok(Err(error)) if error.kind == FaultKind::Outage => return Err(error),
            // The other definitions are counted all the same.
            Ok(Err(error)) => worker.health.mention(&error),
            Ok(Ok(done)) => counted |= done,
            Err(_) => tracing::warn!(
                definition = %row.definition,
                "its notices could not be counted within {}",
                humantime::format_duration(COUNT_TIMEOUT)
            ),
        }
    }
    if counted {
        snapshot = store.counts().await?;
    }
    Ok((snapshot, reading))
}

/// Counts the notices of all definitions, busy ones first, because this process ends and others may not count for long.
pub(crate) async fn count_all(worker: &Worker) {
    let counting = async {
        let store = &worker.stores().browse;
        let mut snapshot = store.counts().await?;
        snapshot.sort_by_key(is_idle);
        for row in snapshot {
            match timeout(COUNT_TIMEOUT, store.refresh_counts(row.def_id, Duration::ZERO)).await {
                Ok(Err(error)) if error.kind == FaultKind::Outage => return Err(error),
                Ok(Err(error)) => worker.health.mention(&error),
                Ok(Ok(_)) | Err(_) => {}
            }
        }
        Ok(())
    };
    match timeout(LAST_COUNT, counting).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => worker.health.mention(&error),
        Err(_) => tracing::warn!(
            "not all notices could be counted within {}, so counts of some definitions are older",
            humantime::format_duration(LAST_COUNT)
        ),
    }
}

/// Returns the definitions to count now, of each kind the longest waiting first.
fn due(snapshot: &[DefinitionCounts], with_idle: bool) -> impl Iterator<Item = &DefinitionCounts> {
    let mut due: Vec<&DefinitionCounts> = snapshot.iter().filter(|row| row.due_in.is_zero()).collect();
    due.sort_by_key(|row| std::cmp::Reverse(row.taken.as_ref().map_or(Duration::MAX, |_| row.age)));
    let (idle, busy): (Vec<_>, Vec<_>) = due.into_iter().partition(|row| is_idle(row));
    let all_idle = snapshot.iter().filter(|row| is_idle(row)).count();
    let idle_at_once = if with_idle { IDLE_AT_ONCE.max(all_idle.div_ceil(IDLE_ROUND)) } else { 0 };
    busy.into_iter().take(BUSY_AT_ONCE).chain(idle.into_iter().take(idle_at_once))
}

/// Whether it had no live notice when it was counted last.
fn is_idle(row: &DefinitionCounts) -> bool {
    row.taken.as_ref().is_some_and(|(counts, _)| counts.live() == 0)
}

/// The gauges of a node.
#[derive(Default)]
struct Gauges {
    /// What this node shows of each definition. A gauge is set when its value has changed, because setting those of 1,000 definitions
    /// at each look would be an eighth of what an idle process does.
    shown: BTreeMap<String, Shown>,
    /// When all of them were set last. They are set regularly, because a recorder may remove what is not.
    all_set: Option<Instant>,
}

/// The counts of a definition, and how long its oldest notice had been due.
type Shown = (NoticeCounts, Duration);

impl Gauges {
    fn show(&mut self, snapshot: &[DefinitionCounts], every: Duration) {
        let all = self.all_set.is_none_or(|at| at.elapsed() >= every);
        if all {
            self.all_set = Some(Instant::now());
        }
        let counted = |row: &DefinitionCounts| {
            let (counts, _) = row.taken.as_ref()?;
            Some((row.definition.clone(), (counts.clone(), row.oldest_due_for())))
        };
        let now: BTreeMap<String, Shown> = snapshot.iter().filter_map(counted).collect();
        for (definition, shown) in &now {
            if all || self.shown.get(definition) != Some(shown) {
                set(definition, shown);
            }
        }
        // Definitions that were renamed or purged show zero under their old name.
        for gone in self.shown.keys().filter(|definition| !now.contains_key(*definition)) {
            set(gone, &Shown::default());
        }
        let ages = snapshot.iter().filter(|row| row.taken.is_some()).map(|row| row.age);
        metrics::gauge!(names::COUNTS_AGE).set(ages.max().unwrap_or_default().as_secs_f64());
        self.shown = now;
    }
}

#[allow(clippy::cast_precision_loss)] // Gauges are floats, and exact up to 2^53.
fn set(definition: &str, (counts, oldest_due): &Shown) {
    let live = [
        ("not_sent", counts.not_sent),
        ("failed", counts.failed),
        ("sending", counts.sending),
        ("awaiting_ack", counts.awaiting_ack),
    ];
    for (status, count) in live {
        metrics::gauge!(names::LIVE, "definition" => definition.to_owned(), "status" => status).set(count as f64);
    }
    metrics::gauge!(names::DEAD_LETTERS, "definition" => definition.to_owned()).set(counts.dead_letters as f64);
    metrics::gauge!(names::OLDEST_DUE, "definition" => definition.to_owned()).set(oldest_due.as_secs_f64());
}

#[cfg(test)]
mod tests {
    use chrono::{TimeDelta, Utc};

    use super::*;

    #[test]
    fn busy_definitions_are_counted_before_idle_ones_use_up_the_time() {
        let now = Utc::now();
        let row = |id: i64, live: u64, age: i64| {
            let mut counts = NoticeCounts::default();
            counts.not_sent = live;
            let taken = (age > 0).then_some((counts, now - TimeDelta::seconds(age)));
            DefinitionCounts::new((id, id.to_string()), taken, Some(now), now)
        };
        let idle = (1..=1000).map(|id| row(id, 0, 1000 + id));
        let snapshot: Vec<_> = idle.chain([row(2001, 5, 30), row(2002, 1, 31), row(2003, 0, 0)]).collect();
        let ids = |with_idle| due(&snapshot, with_idle).map(|row| row.def_id).collect::<Vec<i64>>();
        // The one that was not counted yet may be busy.
        let busy = [2003, 2002, 2001];
        assert_eq!(ids(true), busy.into_iter().chain((951..=1000).rev()).collect::<Vec<_>>());
        assert_eq!(ids(false), busy);
        let many: Vec<_> = (1..=10_000).map(|id| row(id, 0, id)).collect();
        assert_eq!(due(&many, true).count(), 500, "all of them within twenty looks");
    }
}
