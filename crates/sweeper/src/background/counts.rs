//! The snapshot of counts: the first node that finds a definition's counts outdated counts its notices again. Every node
//! shows the whole snapshot as gauges.
//!
//! All nodes show it because a gauge cannot be removed: a gauge shown by one node alone would keep its last value when that
//! node stops counting. All nodes show the same values, so dashboards take the maximum and not the sum.

use std::collections::BTreeSet;
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
/// How many definitions a node counts after one look, the longest waiting first. 10,000 idle definitions are each counted
/// every few minutes, which costs the database at most 300 short statements a second.
const AT_ONCE: usize = 100;

pub(crate) async fn counts_loop(worker: Arc<Worker>) {
    let mut gauges = Gauges::default();
    let mut piles = BTreeSet::new();
    while !worker.signals.is_stopped() {
        // Subscribed before the look, so that a turn of the clock during the look is not missed.
        let turned = worker.signals.clock_turned();
        let every = worker.settings.count_interval;
        let pause = tokio::select! {
            biased;
            () = worker.signals.stopped() => break,
            snapshot = snapshot(&worker) => match snapshot {
                Ok((snapshot, reading)) => {
                    gauges.show(&snapshot);
                    let now: BTreeSet<i64> = worker.definitions().piles(&snapshot).into_keys().collect();
                    if !now.is_subset(&piles) {
                        // The heartbeat raises the alert.
                        worker.signals.beat_soon();
                    }
                    piles = now;
                    let next = snapshot.iter().map(|row| row.due_in).min().unwrap_or(every);
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
            () = turned => {}
        }
    }
}

/// Returns the snapshot after its outdated counts were counted again, by this node or by others, and how long it took
/// to read it.
async fn snapshot(worker: &Worker) -> Result<(Vec<DefinitionCounts>, Duration), StoreError> {
    let store = &worker.stores().browse;
    let began = Instant::now();
    let mut snapshot = store.counts().await?;
    let reading = began.elapsed();
    let mut counted = false;
    let mut due: Vec<&DefinitionCounts> = snapshot.iter().filter(|row| row.due_in.is_zero()).collect();
    due.sort_by_key(|row| std::cmp::Reverse(row.taken.as_ref().map_or(Duration::MAX, |_| row.age)));
    for row in due.into_iter().take(AT_ONCE) {
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

/// The gauges of a node.
#[derive(Default)]
struct Gauges {
    /// The definitions whose gauges this node shows.
    shown: BTreeSet<String>,
}

impl Gauges {
    fn show(&mut self, snapshot: &[DefinitionCounts]) {
        let mut now = BTreeSet::new();
        let mut age = Duration::ZERO;
        for row in snapshot {
            let Some((counts, _)) = &row.taken else { continue };
            set(&row.definition, counts, row.oldest_due_for());
            age = age.max(row.age);
            now.insert(row.definition.clone());
        }
        // Definitions that were renamed or purged show zero under their old name.
        for gone in self.shown.difference(&now) {
            set(gone, &NoticeCounts::default(), Duration::ZERO);
        }
        metrics::gauge!(names::COUNTS_AGE).set(age.as_secs_f64());
        self.shown = now;
    }
}

#[allow(clippy::cast_precision_loss)] // Gauges are floats, and exact up to 2^53.
fn set(definition: &str, counts: &NoticeCounts, oldest_due: Duration) {
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
