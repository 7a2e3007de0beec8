//! [`Worker`]: what the loops of one sweeper share: definitions, slots, what is held, who waits for an answer.
//!
//! It holds state and answers questions about it; the loops decide what to do.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use solid_notify_core::lane::Report;
use solid_notify_core::notice::{Claimed, duration_millis};
use solid_notify_core::{Outbox, Store};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::builder::{Settings, StrategyFn, SweeperBuilder};
use crate::definitions::{Definition, Definitions};
use crate::handler::AnyHandler;
use crate::health::Health;
use crate::settle::Outcome;
use crate::slots::Slots;

/// The shared state of one sweeper.
pub(crate) struct Worker {
    pub(crate) outbox: Outbox,
    /// Unique per start: names that are used again would let an old lease look like one's own.
    pub(crate) id: String,
    pub(crate) handlers: HashMap<String, Arc<dyn AnyHandler>>,
    pub(crate) strategies: HashMap<String, StrategyFn>,
    pub(crate) settings: Settings,
    pub(crate) definitions: RwLock<Arc<Definitions>>,
    pub(crate) slots: Arc<Slots>,
    pub(crate) health: Health,
    held: Mutex<HashMap<i64, Held>>,
    /// Notices that were sent, but whose outcome could not be stored in any form: their leases expire and count.
    given_up: Mutex<HashSet<i64>>,
    reports: Mutex<HashMap<i64, Report>>,
    /// None once no more outcomes come.
    outcomes: Mutex<Option<mpsc::UnboundedSender<Outcome>>>,
    /// Taken once, by the settle loop.
    pub(crate) settle_queue: Mutex<Option<mpsc::UnboundedReceiver<Outcome>>>,
    pub(crate) running: TaskTracker,
    /// No more claims.
    pub(crate) stop: CancellationToken,
    /// Running handlers are given up and their notices handed back.
    pub(crate) abort: CancellationToken,
    /// Counts the sweeps that found nothing due while nothing was held.
    pub(crate) idle: watch::Sender<u64>,
    /// Told when something becomes due sooner than the sweep knew.
    pub(crate) due_soon: Notify,
    pub(crate) counts: Counts,
    started: Instant,
}

/// What was done since the start.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) succeeded: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) dead: AtomicU64,
}

/// A notice that this node has claimed and not yet settled.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) attempt: i64,
    pub(crate) lease: Duration,
    /// On the scale of [`Worker::moment`].
    pub(crate) lease_end: Duration,
}

impl Worker {
    pub(crate) fn new(builder: SweeperBuilder) -> Arc<Self> {
        let SweeperBuilder { outbox, handlers, strategies, settings } = builder;
        let (outcomes, settle_queue) = mpsc::unbounded_channel();
        Arc::new(Self {
            id: node_id(settings.node_name.as_deref()),
            slots: Slots::new(settings.max_running),
            health: Health::new(settings.outage_grace),
            outbox,
            handlers,
            strategies,
            settings,
            definitions: RwLock::default(),
            held: Mutex::default(),
            given_up: Mutex::default(),
            reports: Mutex::default(),
            outcomes: Mutex::new(Some(outcomes)),
            settle_queue: Mutex::new(Some(settle_queue)),
            running: TaskTracker::new(),
            stop: CancellationToken::new(),
            abort: CancellationToken::new(),
            idle: watch::channel(0).0,
            due_soon: Notify::new(),
            counts: Counts::default(),
            started: Instant::now(),
        })
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.outbox.store()
    }

    /// The current view of the definitions.
    pub(crate) fn definitions(&self) -> Arc<Definitions> {
        Arc::clone(&self.definitions.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn definition(&self, def_id: i64) -> Option<Arc<Definition>> {
        self.definitions().get(def_id).cloned()
    }

    /// A clock for leases that only goes forward: the process's own, or the one that a test turns.
    pub(crate) fn moment(&self) -> Duration {
        match self.outbox.hand_clock() {
            Some(clock) => Duration::from_millis(u64::try_from(clock.now_millis()).unwrap_or(0)),
            None => self.started.elapsed(),
        }
    }

    /// Remembers what was claimed, until it is settled.
    pub(crate) fn hold(&self, claimed: &Claimed, lease: Duration) {
        let held = Held { attempt: claimed.attempt, lease, lease_end: self.moment().saturating_add(lease) };
        self.held().insert(claimed.id, held);
    }

    /// Forgets a settled attempt.
    pub(crate) fn release(&self, id: i64, attempt: i64) {
        let mut held = self.held();
        if held.get(&id).is_some_and(|held| held.attempt == attempt) {
            held.remove(&id);
        }
    }

    /// Lets a notice go whose outcome cannot be stored.
    pub(crate) fn give_up(&self, id: i64, attempt: i64) {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        self.release(id, attempt);
    }

    pub(crate) fn was_given_up(&self, id: i64) -> bool {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }

    pub(crate) fn held(&self) -> MutexGuard<'_, HashMap<i64, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Producers who wait for the first attempt of a notice, by its id.
    pub(crate) fn reports(&self) -> MutexGuard<'_, HashMap<i64, Report>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes an outcome on to be settled.
    pub(crate) fn settle(&self, outcome: Outcome) {
        if let Some(outcomes) = &*self.outcomes.lock().unwrap_or_else(PoisonError::into_inner) {
            // The settle loop ends only after `close_outcomes`.
            let _ = outcomes.send(outcome);
        }
    }

    /// No more outcomes come: the settle loop ends with the last one.
    pub(crate) fn close_outcomes(&self) {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// True where nothing is claimed that is not settled.
    pub(crate) fn holds_nothing(&self) -> bool {
        self.held().is_empty()
    }

    pub(crate) fn count(&self, counter: impl Fn(&Counts) -> &AtomicU64) {
        counter(&self.counts).fetch_add(1, Ordering::Relaxed);
    }

    /// Sleeps, but not beyond the wish to stop.
    pub(crate) async fn pause(&self, duration: Duration) {
        tokio::select! {
            () = tokio::time::sleep(duration) => {}
            () = self.stop.cancelled() => {}
        }
    }

    /// Completes when a hand-turned clock is turned; never without one.
    pub(crate) fn clock_turned(&self) -> impl Future<Output = ()> + Send + 'static {
        let turned = self.outbox.hand_clock().map(solid_notify_core::HandClock::turned);
        async move {
            match turned {
                Some(turned) => turned.await,
                None => std::future::pending().await,
            }
        }
    }
}

/// `name-pid-random`, at most 200 bytes.
fn node_id(name: Option<&str>) -> String {
    let host = || gethostname::gethostname().to_string_lossy().into_owned();
    let name = name.map_or_else(host, str::to_owned).replace('\0', "");
    let name: String = name.chars().take(40).collect();
    format!("{name}-{}-{:08x}", std::process::id(), fastrand::u32(..))
}

/// The whole milliseconds of a duration, for log fields.
pub(crate) fn millis(duration: Duration) -> i64 {
    duration_millis(duration)
}
