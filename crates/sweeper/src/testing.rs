//! [`TestSweeper`]: a sweeper for tests. It sends until nothing is due, lets time pass, and fails attempts on request. It
//! is a real sweeper over any store; the send path has no code for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use solid_notify_core::built_in::is_built_in;
use solid_notify_core::definition::{SecretRef, Step};
use solid_notify_core::{AnyOutbox, StoreError};

use crate::handlers::erased::AnyHandler;
use crate::handlers::handler::Facts;
use crate::handlers::under_way::Call;
use crate::sleep::SHORTEST_SLEEP;
use crate::worker::Worker;
use crate::{Failure, HandlerResult, StartError, Sweeper, SweeperBuilder, Tally};

/// How long sending may take in real time before the test fails with the list of notices in flight.
const PATIENCE: Duration = Duration::from_secs(30);
/// A running sweeper for a test: see [`Self::drain`], [`Self::advance`] and [`Self::fail_next`].
///
/// It has the handlers and settings of the builder that the application itself starts, so the test covers the real
/// configuration. Only the housekeeping is switched off, because its notices would disturb a test.
///
/// ```
/// # use std::time::Duration;
/// # use chrono::{DateTime, Utc};
/// # use solid_notify_core::{HandClock, NotifyDef, add_notice};
/// # use solid_notify_sweeper::{Failure, Notice, OutboxExt, testing::TestSweeper};
/// # use solid_notify_testkit::MemoryOutbox;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let outbox = MemoryOutbox::builder().clock(HandClock::new(Utc::now())).build();
/// outbox.define_if_missing(NotifyDef::new("sync_to_omp").retry_interval("[5s,5m]")).await?;
/// let builder = outbox.sweeper().handler("sync_to_omp", |_: Notice<i64>| async { Ok(()) });
///
/// let sweeper = TestSweeper::start(builder).await?;
/// sweeper.fail_next("sync_to_omp", 2, || Failure::retry("OMP is out"));
/// let mut tx = outbox.begin().await?;
/// add_notice(&mut tx, "sync_to_omp", 7).await?;
/// tx.commit().await?;
/// assert_eq!(sweeper.drain().await.failed, 1);
/// assert_eq!(sweeper.advance(Duration::from_secs(5)).await.failed, 1);
/// assert_eq!(sweeper.advance(Duration::from_secs(299)).await.succeeded, 0);
/// assert_eq!(sweeper.advance(Duration::from_secs(1)).await.succeeded, 1);
/// # Ok(()) }
/// ```
#[must_use = "dropped, a sweeper stops claiming"]
pub struct TestSweeper {
    sweeper: Sweeper,
    outbox: AnyOutbox,
    faults: Arc<Faults>,
    reported: Mutex<Tally>,
}

/// Failures that are still to happen, by definition.
type Faults = Mutex<HashMap<String, Fault>>;

struct Fault {
    left: usize,
    failure: Arc<dyn Fn() -> Failure + Send + Sync>,
}

impl TestSweeper {
    /// Starts a test sweeper from a builder.
    ///
    /// # Errors
    /// As [`SweeperBuilder::start`].
    pub async fn start(mut builder: SweeperBuilder) -> Result<Self, StartError> {
        let faults: Arc<Faults> = Arc::default();
        for handler in builder.setup.registered.handlers.values_mut() {
            *handler = Arc::new(Failing { handler: Arc::clone(handler), faults: Arc::clone(&faults) });
        }
        let outbox = builder.setup.outbox.clone();
        // After a start a sweeper waits before it judges overdue acks, because receivers could not ack during an outage. In a
        // test nothing was out.
        let sweeper = builder.housekeeping(false).outage_grace(Duration::ZERO).start().await?;
        Ok(Self { sweeper, outbox, faults, reported: Mutex::default() })
    }

    /// Fails the next `count` attempts at any notices of a definition instead of calling the handler. It applies to
    /// attempts that begin after this call, so call it before the notice is inserted. A new call replaces the count; 0 ends
    /// it. [`Self::drain`] and [`Self::advance`] panic if the definition does not exist then.
    pub fn fail_next(
        &self,
        definition: impl Into<String>,
        count: usize,
        failure: impl Fn() -> Failure + Send + Sync + 'static,
    ) {
        self.faults.lock().insert(definition.into(), Fault { left: count, failure: Arc::new(failure) });
    }

    /// Sends what is due until nothing is due. Returns the counts of all attempts since the last call, including those of
    /// dispatched notices. Retries that are due later are left.
    ///
    /// # Panics
    /// If that takes longer than 30 s, because a handler hangs or the database does not answer. If notices are due whose
    /// handler is not registered here: its name may be misspelt.
    pub async fn drain(&self) -> Tally {
        self.until(self.sweeper.idle()).await;
        self.check_faults();
        self.check_handlers().await;
        self.news()
    }

    #[allow(clippy::panic)] // Of a test.
    fn check_faults(&self) {
        let definitions = self.sweeper.worker.definitions();
        let unknown = |name: &&String| !definitions.all().any(|definition| definition.row.name == **name);
        if let Some(name) = self.faults.lock().keys().find(unknown) {
            panic!("`fail_next` names the definition {name:?}, which does not exist");
        }
    }

    #[allow(clippy::panic)] // Of a test.
    async fn check_handlers(&self) {
        let worker = &self.sweeper.worker;
        let due = match worker.stores().send.due(true).await {
            Ok(due) => due,
            Err(error) => panic!("what is due cannot be read: {error}"),
        };
        let definitions = worker.definitions();
        for slice in due.slices.iter().filter(|slice| slice.after.is_zero()) {
            let definition = definitions.get(slice.def_id);
            // An alert waits where nothing sends alerts.
            let of_user = definition.filter(|it| !is_built_in(&it.row.name));
            if let Some((name, reason)) = of_user.and_then(|it| it.not_here().map(|reason| (&it.row.name, reason))) {
                let mut registered: Vec<&str> = worker
                    .known
                    .registered
                    .handlers
                    .keys()
                    .map(String::as_str)
                    .filter(|name| !is_built_in(name))
                    .collect();
                registered.sort_unstable();
                panic!("notices of the definition {name:?} are due, and {reason}; registered are {registered:?}");
            }
        }
    }

    fn news(&self) -> Tally {
        let (now, mut reported) = (self.sweeper.so_far(), self.reported.lock());
        let since = now.since(&reported);
        *reported = now;
        since
    }

    /// Lets time pass on the outbox's hand-turned clock, and returns the counts as [`Self::drain`] does. The clock stops at
    /// each moment at which something is due (a retry, a timetable's tick, the end of an ack's time, the digest of an
    /// alert, an opening window), so that all of it happens in order and on time.
    ///
    /// # Panics
    /// If the outbox has no hand-turned clock; if the store does not answer; as [`Self::drain`].
    #[allow(clippy::panic)] // Of a test.
    pub async fn advance(&self, by: Duration) -> Tally {
        let Some(clock) = self.outbox.engine().hand_clock() else {
            panic!("time passes by itself here: give the outbox a HandClock to turn (`.clock(…)`)")
        };
        let end = clock.now() + by;
        self.until(self.sweeper.idle()).await;
        self.check_faults();
        loop {
            let left = (end - clock.now()).to_std().unwrap_or_default();
            if left.is_zero() {
                return self.news();
            }
            match until_due(&self.sweeper.worker).await {
                Ok(until) => clock.advance(until.clamp(SHORTEST_SLEEP, left.max(SHORTEST_SLEEP))),
                Err(error) => panic!("what is due cannot be read: {error}"),
            }
            self.until(self.sweeper.idle_as_known()).await;
        }
    }

    /// Stops as [`Sweeper::shutdown`] does, and returns the counts since the start.
    pub async fn shutdown(self) -> Tally {
        self.sweeper.shutdown().await
    }

    #[allow(clippy::panic)] // Of a test.
    async fn until(&self, idle: impl Future<Output = ()>) {
        if tokio::time::timeout(PATIENCE, idle).await.is_err() {
            panic!("not idle after {PATIENCE:?}: {}", what_is_sent(&self.sweeper.worker));
        }
    }
}

impl std::fmt::Debug for TestSweeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestSweeper").field("node_id", &self.sweeper.node_id()).finish_non_exhaustive()
    }
}

/// A handler that fails on the test's request.
struct Failing {
    handler: Arc<dyn AnyHandler>,
    faults: Arc<Faults>,
}

impl AnyHandler for Failing {
    fn call(self: Arc<Self>, facts: Arc<Facts>) -> BoxFuture<'static, Result<HandlerResult, String>> {
        let failure = {
            let mut faults = self.faults.lock();
            let fault = faults.get_mut(&facts.row.name).filter(|fault| fault.left > 0);
            fault.map(|fault| {
                fault.left -= 1;
                Arc::clone(&fault.failure)
            })
        };
        match failure {
            Some(failure) => Box::pin(async move { Ok(Err(failure())) }),
            None => Arc::clone(&self.handler).call(facts),
        }
    }

    fn own_calls(&self) -> Vec<Call> {
        self.handler.own_calls()
    }

    fn check(&self, handler_config: Option<&str>) -> Result<(), String> {
        self.handler.check(handler_config)
    }

    fn secrets(&self, handler_config: Option<&str>) -> Vec<SecretRef> {
        self.handler.secrets(handler_config)
    }

    fn check_recipients(&self, email: &[String], alert_to: &[String]) -> Result<(), String> {
        self.handler.check_recipients(email, alert_to)
    }
}

/// Returns how long until this sweeper has work, as far as it can tell.
async fn until_due(worker: &Worker) -> Result<Duration, StoreError> {
    // By the turned clock, the readings of definitions and circuits would soon be hours old.
    worker.reload_definitions().await?;
    let due = worker.stores().send.due(true).await?;
    let definitions = worker.definitions();
    let slices = due.slices.iter().filter_map(|slice| {
        let definition = definitions.get(slice.def_id)?;
        let policy = &definition.ready()?.policy;
        let after = slice.after.max(definitions.closed_for(definition, slice.status, due.now));
        // A due notice that was not sent waits for another notice, or for a limit.
        if after.is_zero() { worker.admission.quota_opens_after(policy) } else { Some(after) }
    });
    let ticks = definitions.all().filter_map(|definition| match definition.step(&due)? {
        Step::Wait(tick) => (tick? - due.now).to_std().ok(),
        Step::Produce { .. } => Some(Duration::ZERO),
    });
    Ok(slices.chain(ticks).chain(due.alerts).min().unwrap_or(Duration::MAX))
}

/// Returns the notices that are being sent, as text for a message.
fn what_is_sent(worker: &Worker) -> String {
    match worker.in_flight.examples() {
        none if none.is_empty() => {
            "something is due, and nothing is being sent here; does the store answer?".to_owned()
        }
        examples => examples,
    }
}

#[cfg(test)]
mod tests {
    use solid_notify_core::{HandClock, NotifyDef, add_notice};
    use solid_notify_testkit::MemoryOutbox;

    use super::*;
    use crate::Notice;
    use crate::OutboxExt;
    use chrono::Utc;

    #[tokio::test]
    async fn overdue_acks_are_judged_at_their_time() {
        let outbox = MemoryOutbox::builder().clock(HandClock::new(Utc::now())).build();
        let definition = NotifyDef::new("sync").retry_interval("[5m]").need_confirm(true).max_confirm_delay("3s");
        outbox.define_if_missing(definition).await.unwrap();
        let handler = outbox.sweeper().handler("sync", |_: Notice<i64>| async { Ok(()) });
        let sweeper = TestSweeper::start(handler).await.unwrap();
        let mut tx = outbox.begin().await.unwrap();
        add_notice(&mut tx, "sync", 7).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(sweeper.drain().await.awaiting_ack, 1);
        assert_eq!(sweeper.advance(Duration::from_secs(3)).await.failed, 1);
        sweeper.shutdown().await;
    }

    #[tokio::test]
    #[should_panic(expected = "no handler \"sync\" is registered on this node; registered are [\"snyc\"]")]
    async fn a_misspelt_handler_is_reported() {
        let outbox = MemoryOutbox::new();
        outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
        let misspelt = outbox.sweeper().handler("snyc", |_: Notice<i64>| async { Ok(()) });
        let sweeper = TestSweeper::start(misspelt).await.unwrap();
        let mut tx = outbox.begin().await.unwrap();
        add_notice(&mut tx, "sync", 7).await.unwrap();
        tx.commit().await.unwrap();
        sweeper.drain().await;
    }

    #[tokio::test]
    #[should_panic(expected = "`fail_next` names the definition \"snyc\", which does not exist")]
    async fn fault_of_an_unknown_definition_is_reported() {
        let outbox = MemoryOutbox::new();
        outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
        let handler = outbox.sweeper().handler("sync", |_: Notice<i64>| async { Ok(()) });
        let sweeper = TestSweeper::start(handler).await.unwrap();
        sweeper.fail_next("snyc", 1, || Failure::retry("no"));
        sweeper.drain().await;
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "(fence 1)")]
    async fn a_handler_that_hangs_is_reported() {
        let outbox = MemoryOutbox::builder().clock(HandClock::new(Utc::now())).build();
        outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
        let hangs = outbox.sweeper().handler("sync", |_: Notice<i64>| async {
            tokio::time::sleep(2 * PATIENCE).await;
            Ok(())
        });
        let sweeper = TestSweeper::start(hangs).await.unwrap();
        let mut tx = outbox.begin().await.unwrap();
        add_notice(&mut tx, "sync", 7).await.unwrap();
        tx.commit().await.unwrap();
        sweeper.drain().await;
    }

    #[tokio::test]
    #[should_panic(expected = "give the outbox a HandClock to turn")]
    async fn time_is_not_turned_where_there_is_no_clock() {
        let sweeper = TestSweeper::start(MemoryOutbox::new().sweeper()).await.unwrap();
        sweeper.advance(PATIENCE).await;
    }
}
