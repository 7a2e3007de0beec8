//! [`Worker`]: what the loops of one sweeper share: definitions, slots, what is held, who waits for an answer.
//!
//! It holds state and answers questions about it; the loops decide what to do.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use solid_notify_core::built_in::is_built_in;
use solid_notify_core::lane::Report;
use solid_notify_core::notice::{Claimed, duration_from_millis};
use solid_notify_core::store::Settle;
use solid_notify_core::{Outbox, Policy, Store};
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::builder::{Settings, StrategyFn, SweeperBuilder};
use crate::classify::Classifier;
use crate::definitions::{Definition, Definitions};
use crate::handler::AnyHandler;
use crate::health::Health;
use crate::housekeeping;
use crate::limited::Limited;
use crate::meters::NodeMeters;
use crate::settle::{Hurry, Outcome};
use crate::slots::Slots;

/// The shared state of one sweeper.
pub(crate) struct Worker {
    pub(crate) outbox: Outbox,
    /// Unique per start: names that are used again would let an old lease look like one's own.
    pub(crate) id: String,
    pub(crate) handlers: HashMap<String, Arc<dyn AnyHandler>>,
    pub(crate) strategies: HashMap<String, StrategyFn>,
    pub(crate) classifier: Classifier,
    pub(crate) settings: Settings,
    pub(crate) definitions: RwLock<Arc<Definitions>>,
    /// Some row of a definition may have no version yet.
    pub(crate) unkept: Notify,
    pub(crate) slots: Arc<Slots>,
    /// Definitions whose quotas let nothing through just now.
    pub(crate) limited: Limited,
    pub(crate) health: Health,
    held: Mutex<HashMap<i64, Held>>,
    /// Attempts whose outcome could not be stored in any form: their leases expire and count.
    given_up: Mutex<HashSet<(i64, i64)>>,
    /// Expired attempts that are being judged: looked at once, not in every sweep.
    judged: Mutex<HashSet<(i64, i64)>>,
    /// Held for reading by whoever claims, until the claimed is registered as held.
    pub(crate) claims: tokio::sync::RwLock<()>,
    /// When the answer to a claim was last lost: something may have been claimed that nobody here knows of.
    unsure: Mutex<Option<Instant>>,
    /// The right to send a notice that may be what kills its processes: one at a time.
    pub(crate) suspect: Arc<Semaphore>,
    /// Outcomes that are not stored yet.
    unsettled: AtomicUsize,
    reports: Mutex<HashMap<i64, Report>>,
    /// None once no more outcomes come.
    outcomes: Mutex<Option<mpsc::UnboundedSender<Outcome>>>,
    /// Told of outcomes that shall not wait for the pace of the settle loop.
    pub(crate) hurry: Hurry,
    /// The settle loop's end.
    pub(crate) settle_queue: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Outcome>>>,
    pub(crate) running: TaskTracker,
    /// No more claims.
    pub(crate) stop: CancellationToken,
    /// Running handlers are given up and their notices handed back.
    pub(crate) abort: CancellationToken,
    /// Told by each sweep that found nothing due while nothing was held.
    pub(crate) idle: watch::Sender<()>,
    /// Told when something becomes due sooner than the sweep knew.
    pub(crate) due_soon: Notify,
    /// Ordering keys of which a notice has just ended, by definition.
    pub(crate) freed_keys: Mutex<BTreeMap<i64, BTreeSet<String>>>,
    pub(crate) key_freed: Notify,
    pub(crate) counts: Counts,
    pub(crate) meters: NodeMeters,
    /// Whether another living node takes alerts, where that is known.
    pub(crate) alerts_elsewhere: Mutex<Option<bool>>,
    started: Instant,
}

/// What was done since the start.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) succeeded: AtomicU64,
    pub(crate) awaiting: AtomicU64,
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
    /// Until when the attempt must have ended by itself. After it only an outcome that waits to be stored keeps the
    /// lease: a handler that blocks its thread for ever must not.
    pub(crate) overdue_at: Instant,
    /// The attempt has ended, its outcome is not stored yet.
    pub(crate) ended: bool,
}

impl Worker {
    pub(crate) fn new(builder: SweeperBuilder) -> Arc<Self> {
        let SweeperBuilder { outbox, mut handlers, strategies, classifier, settings } = builder;
        if settings.housekeeping {
            housekeeping::register(&mut handlers, &outbox);
        }
        let (outcomes, settle_queue) = mpsc::unbounded_channel();
        let started = Instant::now();
        Arc::new(Self {
            id: node_id(settings.node_name.as_deref()),
            slots: Slots::new(settings.max_running),
            limited: Limited::default(),
            health: Health::new(settings.outage_grace, moment(&outbox, started)),
            outbox,
            handlers,
            strategies,
            classifier,
            settings,
            definitions: RwLock::default(),
            unkept: Notify::new(),
            held: Mutex::default(),
            given_up: Mutex::default(),
            judged: Mutex::default(),
            claims: tokio::sync::RwLock::default(),
            unsure: Mutex::default(),
            suspect: Arc::new(Semaphore::new(1)),
            unsettled: AtomicUsize::new(0),
            reports: Mutex::default(),
            outcomes: Mutex::new(Some(outcomes)),
            hurry: Hurry::default(),
            settle_queue: Arc::new(tokio::sync::Mutex::new(settle_queue)),
            running: TaskTracker::new(),
            stop: CancellationToken::new(),
            abort: CancellationToken::new(),
            idle: watch::channel(()).0,
            due_soon: Notify::new(),
            freed_keys: Mutex::default(),
            key_freed: Notify::new(),
            counts: Counts::default(),
            meters: NodeMeters::new(),
            alerts_elsewhere: Mutex::default(),
            started,
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

    /// A clock for leases and outages that only goes forward: the process's own, or the one that a test turns.
    pub(crate) fn moment(&self) -> Duration {
        moment(&self.outbox, self.started)
    }

    /// Remembers what was claimed, until it is settled.
    pub(crate) fn hold(&self, claimed: &Claimed, policy: &Policy) {
        let lease = policy.lease();
        let lease_end = self.moment().saturating_add(lease);
        // Time-outs are of the process's clock.
        let overdue_at = Instant::now() + lease;
        self.held().insert(claimed.id, Held { attempt: claimed.attempt, lease, lease_end, overdue_at, ended: false });
    }

    /// Forgets an attempt whose outcome is settled, or will never be.
    pub(crate) fn forget(&self, settle: &Settle) {
        let (id, attempt) = (settle.id, settle.attempt);
        self.unsettled.fetch_sub(1, Ordering::Relaxed);
        if settle.overdue {
            self.judged.lock().unwrap_or_else(PoisonError::into_inner).remove(&(id, attempt));
        }
        let mut held = self.held();
        if held.get(&id).is_some_and(|held| held.attempt == attempt) {
            held.remove(&id);
        }
    }

    /// Remembers that an expired attempt is being judged; false where it already is.
    pub(crate) fn begin_to_judge(&self, id: i64, attempt: i64) -> bool {
        self.judged.lock().unwrap_or_else(PoisonError::into_inner).insert((id, attempt))
    }

    /// True where so much is delivered and not stored that nothing more should be claimed: it would all be sent again,
    /// should this process die.
    pub(crate) fn is_overloaded(&self) -> bool {
        self.unsettled.load(Ordering::Relaxed) > 4 * crate::settle::BATCH
    }

    /// Remembers that the answer to a claim was lost.
    pub(crate) fn claim_unsure(&self) {
        *self.unsure.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// True after the answer to a claim was lost, until [`Self::sure_of_claims`].
    pub(crate) fn is_claim_unsure(&self) -> bool {
        self.unsure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Everything that this worker holds is known, as of a look that began then. A look within a minute of the lost answer tells
    /// nothing of that: the server may carry the claim out even later.
    pub(crate) fn sure_of_claims(&self, looked: Instant) {
        let mut unsure = self.unsure.lock().unwrap_or_else(PoisonError::into_inner);
        if unsure.is_some_and(|since| looked.saturating_duration_since(since) >= Duration::from_secs(60)) {
            *unsure = None;
        }
    }

    /// Lets a notice go whose outcome cannot be stored.
    pub(crate) fn give_up(&self, id: i64, attempt: i64) {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner).insert((id, attempt));
    }

    pub(crate) fn was_given_up(&self, id: i64, attempt: i64) -> bool {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner).contains(&(id, attempt))
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
        let before = self.unsettled.fetch_add(1, Ordering::Relaxed);
        let urgent = self.is_urgent(&outcome);
        if let Some(held) =
            self.held().get_mut(&outcome.claimed.id).filter(|held| held.attempt == outcome.claimed.attempt)
        {
            held.ended = true;
        }
        if let Some(outcomes) = &*self.outcomes.lock().unwrap_or_else(PoisonError::into_inner) {
            // The settle loop ends only after `close_outcomes`.
            let _ = outcomes.send(outcome);
        }
        self.hurry.note(urgent, before + 1);
    }

    /// No more outcomes come: the settle loop ends with the last one.
    pub(crate) fn close_outcomes(&self) {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// True where no claim is under way. Only then what is held is all that was claimed.
    pub(crate) fn claims_nothing(&self) -> bool {
        self.claims.try_write().is_ok()
    }

    /// True where nothing is claimed that is not settled.
    pub(crate) fn holds_nothing(&self) -> bool {
        self.held().is_empty()
    }

    /// Counts an outcome. Alerts and housekeeping are our own and not what somebody asks for who counts.
    pub(crate) fn count(&self, outcome: &Outcome, counter: impl Fn(&Counts) -> &AtomicU64) {
        if !is_built_in(&outcome.ready.policy.name) {
            counter(&self.counts).fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sleeps, but not beyond the wish to stop.
    pub(crate) async fn pause(&self, duration: Duration) {
        tokio::select! {
            biased;
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

fn moment(outbox: &Outbox, started: Instant) -> Duration {
    match outbox.hand_clock() {
        Some(clock) => duration_from_millis(clock.now_millis()),
        None => started.elapsed(),
    }
}

/// `name-pid-random`, at most 200 bytes.
fn node_id(name: Option<&str>) -> String {
    let host = || gethostname::gethostname().to_string_lossy().into_owned();
    let name = name.map_or_else(host, str::to_owned).replace('\0', "");
    let name: String = name.chars().take(40).collect();
    format!("{name}-{}-{:08x}", std::process::id(), fastrand::u32(..))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sweeper;
    use solid_notify_testkit::{HandClock, MemoryNotify};

    #[tokio::test]
    async fn a_worker_that_was_just_started_is_as_careful_as_after_an_outage() {
        let clock = HandClock::new(std::time::UNIX_EPOCH + Duration::from_secs(3600));
        let worker = Worker::new(Sweeper::builder(&MemoryNotify::with_clock(clock.clone())));
        assert_eq!(worker.health.grace_left(worker.moment()), Some(Duration::from_secs(10)));
        clock.advance(Duration::from_secs(10));
        assert_eq!(worker.health.grace_left(worker.moment()), None);
    }

    #[test]
    fn two_starts_have_two_ids() {
        let (one, two) = (node_id(Some("node")), node_id(Some("node")));
        assert!(one != two && one.starts_with("node-"), "{one} {two}");
    }
}
