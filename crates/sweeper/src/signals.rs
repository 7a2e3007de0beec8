//! [`Signals`]: how the loops and attempts of one sweeper wake and stop each other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parking_lot::Mutex;
use solid_notify_core::HandClock;
use solid_notify_core::notice::duration_from_millis;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Ordering keys, by definition.
pub(crate) type OrderingKeys = BTreeMap<i64, BTreeSet<String>>;

/// The signals of one sweeper.
///
/// A wake-up is kept until its loop reads it, so none is lost while the loop works. Several of one kind are read as one. A
/// stop is never taken back, and handlers are cancelled only after it.
pub(crate) struct Signals {
    /// Cancelled when the sweeper claims nothing more.
    stopped: CancellationToken,
    /// Cancelled when running handlers are cancelled and their notices handed back.
    handlers_cancelled: CancellationToken,
    /// Notified when a notice becomes due sooner than the sweep expects.
    sweep: Notify,
    /// Notified when a condition may have begun.
    check: Notify,
    /// Notified when the row of a definition may have no stored version yet.
    versions: Notify,
    /// Ordering keys of which a notice has just ended; `key_freed` is notified after each change.
    freed_keys: Mutex<OrderingKeys>,
    key_freed: Notify,
    /// Sent by each sweep that found no due notice while no attempt was in flight.
    idle: watch::Sender<()>,
    /// The clock that a test turns.
    clock: Option<HandClock>,
    started: Instant,
}

impl Signals {
    pub(crate) fn new(clock: Option<HandClock>) -> Self {
        Self {
            stopped: CancellationToken::new(),
            handlers_cancelled: CancellationToken::new(),
            sweep: Notify::new(),
            check: Notify::new(),
            versions: Notify::new(),
            freed_keys: Mutex::default(),
            key_freed: Notify::new(),
            idle: watch::channel(()).0,
            clock,
            started: Instant::now(),
        }
    }

    /// Stops the sweeper: it claims nothing more.
    pub(crate) fn stop(&self) {
        self.stopped.cancel();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.is_cancelled()
    }

    /// Completes when the sweeper is stopped.
    pub(crate) async fn stopped(&self) {
        self.stopped.cancelled().await;
    }

    /// Sleeps for `duration`, or until the sweeper is stopped.
    pub(crate) async fn pause(&self, duration: Duration) {
        tokio::select! {
            biased;
            () = tokio::time::sleep(duration) => {}
            () = self.stopped() => {}
        }
    }

    /// Cancels running handlers; their notices are handed back. From now on outcomes are stored in a bounded time.
    pub(crate) fn cancel_handlers(&self) {
        self.stop();
        self.handlers_cancelled.cancel();
    }

    pub(crate) fn are_handlers_cancelled(&self) -> bool {
        self.handlers_cancelled.is_cancelled()
    }

    /// Completes when running handlers are cancelled.
    pub(crate) async fn handlers_cancelled(&self) {
        self.handlers_cancelled.cancelled().await;
    }

    /// Wakes the sweep, because a notice is or becomes due sooner than it expects.
    pub(crate) fn sweep_soon(&self) {
        self.sweep.notify_one();
    }

    pub(crate) async fn sweep_requested(&self) {
        self.sweep.notified().await;
    }

    /// Wakes the maintenance loop, so that it checks the conditions before the next beat.
    pub(crate) fn check_soon(&self) {
        self.check.notify_one();
    }

    pub(crate) async fn check_requested(&self) {
        self.check.notified().await;
    }

    /// Wakes the loop that keeps versions, because the row of a definition may have no stored version yet.
    pub(crate) fn keep_versions_soon(&self) {
        self.versions.notify_one();
    }

    pub(crate) async fn versions_requested(&self) {
        self.versions.notified().await;
    }

    /// Wakes the successor loop, because a notice of this ordering key has ended.
    pub(crate) fn key_freed(&self, def_id: i64, key: &str) {
        let mut freed = self.freed_keys.lock();
        freed.entry(def_id).or_default().insert(key.to_owned());
        drop(freed);
        self.key_freed.notify_one();
    }

    /// Waits for freed keys and takes all of them.
    pub(crate) async fn freed_keys(&self) -> OrderingKeys {
        self.key_freed.notified().await;
        std::mem::take(&mut *self.freed_keys.lock())
    }

    /// Reports that a sweep found no due notice while no attempt was in flight.
    pub(crate) fn report_idle(&self) {
        self.idle.send_replace(());
    }

    pub(crate) fn is_idle_awaited(&self) -> bool {
        self.idle.receiver_count() > 0
    }

    /// Returns a receiver that changes with each report of idleness from now on.
    pub(crate) fn idle_reports(&self) -> watch::Receiver<()> {
        self.idle.subscribe()
    }

    /// Returns the time for leases and outages, which only goes forward: the process's clock, or the one that a test turns.
    pub(crate) fn moment(&self) -> Duration {
        match &self.clock {
            Some(clock) => duration_from_millis(clock.moment_millis()),
            None => self.started.elapsed(),
        }
    }

    /// Completes when a test's clock is turned after this call; without such a clock it never completes.
    pub(crate) fn clock_turned(&self) -> impl Future<Output = ()> + Send + 'static {
        let turned = self.clock.as_ref().map(HandClock::turned);
        async move {
            match turned {
                Some(turned) => turned.await,
                None => std::future::pending().await,
            }
        }
    }
}
