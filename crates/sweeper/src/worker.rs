//! [`Worker`]: what the loops and attempts of one sweeper share, made from the [`Setup`] that the builder collects. Each of its parts
//! keeps its own invariant; the methods of the worker stand beside the step that they make, in `claiming`, `running`, `settling` and
//! `background`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use solid_notify_core::notice::duration_from_millis;
use solid_notify_core::{AnyOutbox, Stores};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::background::health::Health;
use crate::background::locked::LockedRows;
use crate::background::{bulk, housekeeping};
use crate::claiming::Admission;
use crate::definitions::{Definition, Definitions, KnownDefinitions, StrategyFn};
use crate::meters::NodeMeters;
use crate::running::AttemptsInFlight;
use crate::running::classify::Classifier;
use crate::running::erased::AnyHandler;
use crate::settling::OutcomeQueue;
use crate::signals::Signals;

/// The shared state of one sweeper.
pub(crate) struct Worker {
    pub(crate) outbox: AnyOutbox,
    /// Unique per start, because a reused name would make an old lease look like one of this process.
    pub(crate) id: String,
    pub(crate) settings: Settings,
    pub(crate) handlers: HashMap<String, Arc<dyn AnyHandler>>,
    pub(crate) strategies: HashMap<String, StrategyFn>,
    pub(crate) classifier: Classifier,
    pub(crate) known: Arc<KnownDefinitions>,
    /// What may be claimed now.
    pub(crate) admission: Admission,
    /// The attempts from claim to settle.
    pub(crate) in_flight: AttemptsInFlight,
    /// The outcomes on their way to the store.
    pub(crate) outcomes: OutcomeQueue,
    pub(crate) signals: Signals,
    /// The tasks of attempts and of slow sweeps. A shutdown waits for them.
    pub(crate) tasks: TaskTracker,
    pub(crate) health: Health,
    /// Ticks, claims and outcomes that wait because of other sessions' row locks.
    pub(crate) locked_rows: LockedRows,
    pub(crate) meters: NodeMeters,
    pub(crate) totals: Totals,
    started: Instant,
}

/// Totals since the start.
#[derive(Default)]
pub(crate) struct Totals {
    pub(crate) succeeded: AtomicU64,
    pub(crate) awaiting: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) dead: AtomicU64,
}

impl Worker {
    pub(crate) fn new(setup: Setup) -> Arc<Self> {
        let Setup { outbox, mut handlers, twice: _, strategies, classifier, settings } = setup;
        bulk::register(&mut handlers, &outbox);
        if settings.housekeeping {
            housekeeping::register(&mut handlers, &outbox);
        }
        let started = Instant::now();
        Arc::new(Self {
            id: node_id(settings.node_name.as_deref()),
            admission: Admission::new(outbox.clone(), settings.max_running, settings.poll_interval),
            in_flight: AttemptsInFlight::default(),
            outcomes: OutcomeQueue::new(),
            signals: Signals::new(outbox.engine().hand_clock().cloned()),
            tasks: TaskTracker::new(),
            health: Health::new(settings.outage_grace, moment(&outbox, started)),
            locked_rows: LockedRows::default(),
            meters: NodeMeters::new(),
            totals: Totals::default(),
            known: Arc::default(),
            outbox,
            settings,
            handlers,
            strategies,
            classifier,
            started,
        })
    }

    pub(crate) fn stores(&self) -> &Stores {
        self.outbox.engine().stores()
    }

    /// Returns the current view of the definitions.
    pub(crate) fn definitions(&self) -> Arc<Definitions> {
        self.known.view()
    }

    pub(crate) fn definition(&self, def_id: i64) -> Option<Arc<Definition>> {
        self.definitions().get(def_id).cloned()
    }

    /// Returns the time for leases and outages, which only goes forward: the process's clock, or the one that a test turns.
    pub(crate) fn moment(&self) -> Duration {
        moment(&self.outbox, self.started)
    }
}

/// What a [`crate::SweeperBuilder`] collects for a sweeper.
pub(crate) struct Setup {
    pub(crate) outbox: AnyOutbox,
    pub(crate) handlers: HashMap<String, Arc<dyn AnyHandler>>,
    /// The first name that two handlers were registered by.
    pub(crate) twice: Option<String>,
    pub(crate) strategies: HashMap<String, StrategyFn>,
    pub(crate) classifier: Classifier,
    pub(crate) settings: Settings,
}

impl Setup {
    pub(crate) fn new(outbox: AnyOutbox) -> Self {
        Self {
            outbox,
            handlers: HashMap::new(),
            twice: None,
            strategies: HashMap::new(),
            classifier: Classifier::default(),
            settings: Settings::default(),
        }
    }
}

/// The settings of a sweeper.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) node_name: Option<String>,
    pub(crate) poll_interval: Duration,
    pub(crate) max_running: usize,
    pub(crate) first_send: bool,
    pub(crate) outage_grace: Duration,
    pub(crate) shutdown_grace: Duration,
    pub(crate) maintenance_interval: Duration,
    pub(crate) housekeeping: bool,
    pub(crate) count_interval: Duration,
    /// Checked by the start.
    pub(crate) base_url: Option<Arc<str>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            node_name: None,
            poll_interval: Duration::from_secs(1),
            max_running: 2000,
            first_send: true,
            outage_grace: Duration::from_secs(10),
            shutdown_grace: Duration::from_secs(15),
            maintenance_interval: Duration::from_secs(60),
            housekeeping: true,
            count_interval: Duration::from_secs(30),
            base_url: None,
        }
    }
}

fn moment(outbox: &AnyOutbox, started: Instant) -> Duration {
    match outbox.engine().hand_clock() {
        Some(clock) => duration_from_millis(clock.moment_millis()),
        None => started.elapsed(),
    }
}

/// Returns `name-pid-random`, at most 200 bytes.
fn node_id(name: Option<&str>) -> String {
    let host = || gethostname::gethostname().to_string_lossy().into_owned();
    let name = name.map_or_else(host, str::to_owned).replace('\0', "");
    let name: String = name.chars().take(40).collect();
    format!("{name}-{}-{:08x}", std::process::id(), fastrand::u32(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_starts_have_two_ids() {
        let (one, two) = (node_id(Some("node")), node_id(Some("node")));
        assert!(one != two && one.starts_with("node-"), "{one} {two}");
    }
}
