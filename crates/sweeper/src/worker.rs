//! [`Worker`]: the state that the loops of one sweeper share: definitions, slots, held claims, and producers that wait for
//! an outcome.
//!
//! It holds state and answers questions about it; the loops decide what to do.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use solid_notify_core::built_in::is_built_in;
use solid_notify_core::dispatch::FirstAttemptSender;
use solid_notify_core::notice::{ClaimedNotice, duration_from_millis};
use solid_notify_core::{AnyOutbox, Policy, Store};
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::builder::{Settings, StrategyFn, SweeperBuilder};
use crate::classify::Classifier;
use crate::definitions::{Definition, Definitions};
use crate::handler::AnyHandler;
use crate::health::Health;
use crate::held_up::{HeldUp, What};
use crate::housekeeping;
use crate::limited::Limited;
use crate::meters::NodeMeters;
use crate::node_id::node_id;
use crate::pending::Decided;
use crate::settle::{Hurry, Outcome, SettleQueue};
use crate::slots::Slots;
use crate::sweeping::Sweeping;

/// How long to remember an attempt whose outcome could not be stored.
const GIVEN_UP: Duration = Duration::from_secs(86_400);

/// The shared state of one sweeper.
pub(crate) struct Worker {
    pub(crate) outbox: AnyOutbox,
    /// Unique per start, because a reused name would make an old lease look like one of this process.
    pub(crate) id: String,
    pub(crate) handlers: HashMap<String, Arc<dyn AnyHandler>>,
    pub(crate) strategies: HashMap<String, StrategyFn>,
    pub(crate) classifier: Classifier,
    pub(crate) settings: Settings,
    pub(crate) definitions: RwLock<Arc<Definitions>>,
    /// Notified when the row of a definition may have no stored version yet.
    pub(crate) unkept: Notify,
    /// Definitions whose row was deleted by SQL: id and name.
    pub(crate) lost_definitions: Mutex<Vec<(i64, String)>>,
    pub(crate) slots: Arc<Slots>,
    /// Definitions whose quotas currently allow no claim.
    pub(crate) limited: Limited,
    pub(crate) health: Health,
    in_flight: Mutex<HashMap<i64, InFlight>>,
    /// Attempts whose outcome could not be stored in any form: their leases expire and count a crash.
    given_up: Mutex<HashMap<(i64, i64), Instant>>,
    /// Expired attempts that are being judged, so that each is judged once and not in every sweep.
    judged: Mutex<HashSet<(i64, i64)>>,
    /// Locked for reading during a claim, until the claimed notices are registered as held.
    pub(crate) claims: tokio::sync::RwLock<()>,
    /// When the answer to a claim was last lost: the store may then hold claims that this process has not registered.
    unsure: Mutex<Option<Instant>>,
    /// The permit to send a suspect notice (one that may kill its process): one at a time.
    pub(crate) crash_looping: Arc<Semaphore>,
    /// The number of outcomes that are not stored yet, without those that are stuck.
    unsettled: AtomicUsize,
    /// By definition: the number of outcomes that could not be stored although the store answers.
    stuck: Mutex<HashMap<i64, usize>>,
    /// Ticks, claims and outcomes that wait because of other sessions' row locks.
    pub(crate) held_up: HeldUp,
    /// The definitions that are being swept, and those that are slow.
    pub(crate) sweeping: Arc<Sweeping>,
    reports: Mutex<HashMap<i64, FirstAttemptSender>>,
    /// None once the sweeper accepts no more outcomes.
    outcomes: Mutex<Option<mpsc::UnboundedSender<Outcome>>>,
    /// Notified of outcomes that must not wait for the pace of the settle loop.
    pub(crate) hurry: Hurry,
    /// The settle loop's side of the queue.
    pub(crate) settle_queue: Arc<tokio::sync::Mutex<SettleQueue>>,
    pub(crate) running: TaskTracker,
    /// Cancelled when the sweeper claims nothing more.
    pub(crate) stop: CancellationToken,
    /// Cancelled when running handlers are cancelled and their notices handed back.
    pub(crate) abort: CancellationToken,
    /// Sent by each sweep that found no due notice while no claim was held.
    pub(crate) idle: watch::Sender<()>,
    /// Notified when a notice becomes due sooner than the sweep expects.
    pub(crate) due_soon: Notify,
    /// Notified when this node must report at once that it lives.
    pub(crate) beat_now: Notify,
    /// Ordering keys of which a notice has just ended, by definition.
    pub(crate) freed_keys: Mutex<BTreeMap<i64, BTreeSet<String>>>,
    pub(crate) key_freed: Notify,
    pub(crate) totals: Totals,
    pub(crate) meters: NodeMeters,
    /// Whether another living node handles alerts; None while unknown.
    pub(crate) alerts_elsewhere: Mutex<Option<bool>>,
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

/// A notice that this node has claimed and not yet settled.
#[derive(Clone)]
pub(crate) struct InFlight {
    pub(crate) fence: i64,
    pub(crate) lease: Duration,
    /// On the time scale of [`Worker::moment`].
    pub(crate) lease_end: Duration,
    /// When the attempt must have ended by itself. After that only an outcome that waits to be stored keeps the lease,
    /// because a handler that blocks its thread for ever must not.
    pub(crate) overdue_at: Instant,
    /// The attempt has ended, and its outcome is not stored yet.
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
            lost_definitions: Mutex::default(),
            in_flight: Mutex::default(),
            given_up: Mutex::default(),
            judged: Mutex::default(),
            claims: tokio::sync::RwLock::default(),
            unsure: Mutex::default(),
            crash_looping: Arc::new(Semaphore::new(1)),
            unsettled: AtomicUsize::new(0),
            stuck: Mutex::default(),
            held_up: HeldUp::default(),
            sweeping: Arc::default(),
            reports: Mutex::default(),
            outcomes: Mutex::new(Some(outcomes)),
            hurry: Hurry::default(),
            settle_queue: Arc::new(tokio::sync::Mutex::new(SettleQueue::new(settle_queue))),
            running: TaskTracker::new(),
            stop: CancellationToken::new(),
            abort: CancellationToken::new(),
            idle: watch::channel(()).0,
            due_soon: Notify::new(),
            beat_now: Notify::new(),
            freed_keys: Mutex::default(),
            key_freed: Notify::new(),
            totals: Totals::default(),
            meters: NodeMeters::new(),
            alerts_elsewhere: Mutex::default(),
            started,
        })
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.outbox.engine().store()
    }

    /// Returns the current view of the definitions.
    pub(crate) fn definitions(&self) -> Arc<Definitions> {
        Arc::clone(&self.definitions.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn definition(&self, def_id: i64) -> Option<Arc<Definition>> {
        self.definitions().get(def_id).cloned()
    }

    /// Returns the time for leases and outages, which only goes forward: the process's clock, or the one that a test turns.
    pub(crate) fn moment(&self) -> Duration {
        moment(&self.outbox, self.started)
    }

    /// Registers a claimed notice as held, until it is settled.
    pub(crate) fn hold(&self, claimed: &ClaimedNotice, policy: &Policy) {
        let lease = policy.lease();
        let lease_end = self.moment().saturating_add(lease);
        // Time-outs run by the process's clock.
        let overdue_at = Instant::now() + lease;
        self.in_flight()
            .insert(claimed.id, InFlight { fence: claimed.fence, lease, lease_end, overdue_at, ended: false });
    }

    /// Forgets an attempt whose outcome is settled or can never be settled.
    pub(crate) fn forget(&self, decided: &Decided) {
        if decided.stuck {
            self.count_unstuck(decided.def_id());
        } else {
            self.unsettled.fetch_sub(1, Ordering::Relaxed);
        }
        let settle = &decided.settle;
        self.forget_attempt(settle.id, settle.fence, settle.overdue);
    }

    /// Forgets an outcome whose judgement panicked: the lease of its attempt expires and totals a crash.
    pub(crate) fn unjudged(&self, outcome: &Outcome) {
        let (id, fence) = (outcome.claimed.id, outcome.claimed.fence);
        self.unsettled.fetch_sub(1, Ordering::Relaxed);
        self.give_up(id, fence);
        self.forget_attempt(id, fence, outcome.overdue);
    }

    fn forget_attempt(&self, id: i64, fence: i64, overdue: bool) {
        if overdue {
            self.judged.lock().unwrap_or_else(PoisonError::into_inner).remove(&(id, fence));
        }
        self.let_go(id, fence);
    }

    /// Removes an attempt from the held claims.
    pub(crate) fn let_go(&self, id: i64, fence: i64) {
        let mut in_flight = self.in_flight();
        if in_flight.get(&id).is_some_and(|in_flight| in_flight.fence == fence) {
            in_flight.remove(&id);
        }
    }

    /// Registers that an expired attempt is being judged; false if it already is.
    pub(crate) fn begin_to_judge(&self, id: i64, fence: i64) -> bool {
        self.judged.lock().unwrap_or_else(PoisonError::into_inner).insert((id, fence))
    }

    /// Returns true if so many outcomes are not stored that no more of a definition should be claimed, because all of them
    /// would be sent again if this process died. Stuck outcomes count for their own definition only.
    pub(crate) fn is_overloaded(&self, def_id: i64) -> bool {
        self.unsettled.load(Ordering::Relaxed) > 4 * crate::settle::BATCH
            || self.stuck().get(&def_id).is_some_and(|count| *count >= crate::settle::BATCH)
    }

    fn stuck(&self) -> MutexGuard<'_, HashMap<i64, usize>> {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts outcomes that could not be stored, although the store answers, as stuck for their definitions.
    pub(crate) fn count_stuck(&self, decided: &mut [Decided]) {
        let mut stuck = self.stuck();
        for decided in decided.iter_mut().filter(|decided| !decided.stuck) {
            decided.stuck = true;
            *stuck.entry(decided.def_id()).or_default() += 1;
            self.unsettled.fetch_sub(1, Ordering::Relaxed);
        }
        drop(stuck);
        for same in decided.chunk_by(|one, next| one.def_id() == next.def_id()) {
            if let Some(first) = same.first() {
                self.is_held_up(first.def_id(), first.definition(), What::Outcomes);
            }
        }
    }

    fn count_unstuck(&self, def_id: i64) {
        let mut stuck = self.stuck();
        if let Some(count) = stuck.get_mut(&def_id) {
            *count -= 1;
            if *count == 0 {
                stuck.remove(&def_id);
                drop(stuck);
                self.outcomes_go_on(def_id);
            }
        }
    }

    /// Records that the answer to a claim was lost.
    pub(crate) fn claim_unsure(&self) {
        *self.unsure.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Returns true after the answer to a claim was lost, until [`Self::sure_of_claims`] clears it.
    pub(crate) fn is_claim_unsure(&self) -> bool {
        self.unsure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Records that a look which began at `looked` found no unregistered claim. A look within a minute of the lost answer
    /// does not count, because the server may still carry out the claim later.
    pub(crate) fn sure_of_claims(&self, looked: Instant) {
        let mut unsure = self.unsure.lock().unwrap_or_else(PoisonError::into_inner);
        if unsure.is_some_and(|since| looked.saturating_duration_since(since) >= Duration::from_secs(60)) {
            *unsure = None;
        }
    }

    /// Records an attempt whose outcome cannot be stored.
    pub(crate) fn give_up(&self, id: i64, fence: i64) {
        let mut given_up = self.given_up();
        // Their leases expired long ago, here or on another node.
        given_up.retain(|_, since| since.elapsed() < GIVEN_UP);
        given_up.insert((id, fence), Instant::now());
    }

    pub(crate) fn was_given_up(&self, id: i64, fence: i64) -> bool {
        self.given_up().contains_key(&(id, fence))
    }

    pub(crate) fn given_up(&self) -> MutexGuard<'_, HashMap<(i64, i64), Instant>> {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn in_flight(&self) -> MutexGuard<'_, HashMap<i64, InFlight>> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the producers that wait for the first attempt of a notice, by its id.
    pub(crate) fn reports(&self) -> MutexGuard<'_, HashMap<i64, FirstAttemptSender>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes an outcome on to the settle loop.
    pub(crate) fn settle(&self, outcome: Outcome) {
        let before = self.unsettled.fetch_add(1, Ordering::Relaxed);
        let urgent = self.is_urgent(&outcome);
        if let Some(in_flight) =
            self.in_flight().get_mut(&outcome.claimed.id).filter(|in_flight| in_flight.fence == outcome.claimed.fence)
        {
            in_flight.ended = true;
        }
        if let Some(outcomes) = &*self.outcomes.lock().unwrap_or_else(PoisonError::into_inner) {
            // The settle loop ends only after `close_outcomes`.
            let _ = outcomes.send(outcome);
        }
        self.hurry.note(urgent, before + 1);
    }

    /// Accepts no more outcomes: the settle loop ends with the last one.
    pub(crate) fn close_outcomes(&self) {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Returns true if no claim is under way. Only then are all claimed notices registered as held.
    pub(crate) fn claims_nothing(&self) -> bool {
        self.claims.try_write().is_ok()
    }

    /// Returns true if no claim is held.
    pub(crate) fn holds_nothing(&self) -> bool {
        self.in_flight().is_empty()
    }

    /// Counts an outcome. Outcomes of alerts and housekeeping are not counted.
    pub(crate) fn count(&self, outcome: &Outcome, counter: impl Fn(&Totals) -> &AtomicU64) {
        if !is_built_in(&outcome.ready.policy.name) {
            counter(&self.totals).fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sleeps for `duration`, or until the sweeper stops.
    pub(crate) async fn pause(&self, duration: Duration) {
        tokio::select! {
            biased;
            () = tokio::time::sleep(duration) => {}
            () = self.stop.cancelled() => {}
        }
    }

    /// Completes when a test's clock is turned; without such a clock it never completes.
    pub(crate) fn clock_turned(&self) -> impl Future<Output = ()> + Send + 'static {
        let turned = self.outbox.engine().hand_clock().map(solid_notify_core::HandClock::turned);
        async move {
            match turned {
                Some(turned) => turned.await,
                None => std::future::pending().await,
            }
        }
    }
}

fn moment(outbox: &AnyOutbox, started: Instant) -> Duration {
    match outbox.engine().hand_clock() {
        Some(clock) => duration_from_millis(clock.moment_millis()),
        None => started.elapsed(),
    }
}
