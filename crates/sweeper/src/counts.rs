//! The snapshot of counts: what is due to be counted is counted by whichever node comes first, definition by definition; and every
//! node shows the whole snapshot as gauges.
//!
//! Every node and not the one that counted: a gauge cannot be taken back, and that of a node which counts no more would stay as
//! it was. So all nodes show the same, and who reads them takes the greatest and not the sum.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::StoreError;
use solid_notify_core::metrics as names;
use solid_notify_core::operate::{COUNT_TIMEOUT, Counts, DefinitionCounts};
use tokio::time::timeout;

use crate::worker::Worker;

/// The shortest pause between two looks at the snapshot.
const SHORTEST: Duration = Duration::from_secs(1);

pub(crate) async fn counts_loop(worker: Arc<Worker>) {
    let mut gauges = Gauges::default();
    while !worker.stop.is_cancelled() {
        // Subscribed before the look, so that a turn of the clock during it is not missed.
        let turned = worker.clock_turned();
        let every = worker.settings.count_interval;
        let pause = tokio::select! {
            biased;
            () = worker.stop.cancelled() => break,
            snapshot = worker.snapshot() => match snapshot {
                Ok(snapshot) => {
                    gauges.show(&snapshot);
                    let next = snapshot.iter().map(|row| row.due_in).min().unwrap_or(every);
                    next.clamp(SHORTEST.min(every), every)
                }
                Err(error) => {
                    worker.health.mention(&error);
                    every
                }
            },
        };
        tokio::select! {
            () = worker.pause(pause) => {}
            () = turned => {}
        }
    }
}

impl Worker {
    /// The snapshot, with whatever of it was due counted anew by this node or by others.
    async fn snapshot(&self) -> Result<Vec<DefinitionCounts>, StoreError> {
        let operate = self.outbox.operate();
        let mut snapshot = operate.counts().await?;
        let mut counted = false;
        for row in snapshot.iter().filter(|row| row.due_in.is_zero()) {
            match timeout(COUNT_TIMEOUT, operate.refresh_counts(row.def_id, self.settings.count_interval)).await {
                Ok(done) => counted |= done?,
                Err(_) => tracing::warn!(
                    definition = %row.definition,
                    "its notices could not be counted within {}",
                    humantime::format_duration(COUNT_TIMEOUT)
                ),
            }
        }
        if counted {
            snapshot = operate.counts().await?;
        }
        Ok(snapshot)
    }
}

/// The gauges of a node.
#[derive(Default)]
struct Gauges {
    /// The definitions that are shown.
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
        // What was renamed or purged has nothing any more under its old name.
        for gone in self.shown.difference(&now) {
            set(gone, &Counts::default(), Duration::ZERO);
        }
        metrics::gauge!(names::COUNTS_AGE).set(age.as_secs_f64());
        self.shown = now;
    }
}

#[allow(clippy::cast_precision_loss)] // Gauges are floats, and exact up to 2^53.
fn set(definition: &str, counts: &Counts, oldest_due: Duration) {
    let live = [
        ("not_sent", counts.not_sent),
        ("failed", counts.failed),
        ("sending", counts.sending),
        ("awaiting_confirm", counts.awaiting_confirm),
    ];
    for (status, count) in live {
        metrics::gauge!(names::LIVE, "definition" => definition.to_owned(), "status" => status).set(count as f64);
    }
    metrics::gauge!(names::DEAD_LETTERS, "definition" => definition.to_owned()).set(counts.dead_letters as f64);
    metrics::gauge!(names::OLDEST_DUE, "definition" => definition.to_owned()).set(oldest_due.as_secs_f64());
}
