//! [`TestSweeper`]: a sweeper in a test's hands: it sends until nothing is due, lets time pass, and fails attempts on
//! purpose. It is a real sweeper over any store; nothing of the send path knows that it is one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use solid_notify_core::definition::Step;
use solid_notify_core::{Outbox, StoreError};

use crate::handler::{AnyHandler, Facts};
use crate::sweep::SHORTEST;
use crate::worker::Worker;
use crate::{Failure, HandlerResult, StartError, Sweeper, SweeperBuilder, Tally};

/// How long sending may take in real time before the test is told what hangs.
const PATIENCE: Duration = Duration::from_secs(30);
/// A running sweeper that a test holds: see [`Self::drain`], [`Self::advance`] and [`Self::fail_next`].
///
/// It has the handlers and settings of the builder that the application itself starts, so that what is tested is what
/// runs. Only the housekeeping is left out, since its notices are nobody's in a test.
///
/// ```
/// # use std::time::{Duration, SystemTime};
/// # use solid_notify_core::{HandClock, NotifyDef, add_notice};
/// # use solid_notify_sweeper::{Done, Failure, Notice, Sweeper, testing::TestSweeper};
/// # use solid_notify_testkit::MemoryNotify;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let notify = MemoryNotify::with_clock(HandClock::new(SystemTime::now()));
/// notify.define(NotifyDef::new("sync_to_omp").retry_interval("[5s,5m]")).await?;
/// let builder = Sweeper::builder(&notify).handler("sync_to_omp", |_: Notice<i64>| async { Ok(Done::Ok) });
///
/// let sweeper = TestSweeper::start(builder).await?;
/// sweeper.fail_next("sync_to_omp", 2, || Failure::retry("OMP is out"));
/// let mut tx = notify.begin();
/// add_notice(&mut tx, "sync_to_omp", 7).await?;
/// tx.commit();
/// assert_eq!(sweeper.drain().await.failed, 1);
/// assert_eq!(sweeper.advance(Duration::from_secs(5)).await.failed, 1);
/// assert_eq!(sweeper.advance(Duration::from_secs(299)).await.succeeded, 0);
/// assert_eq!(sweeper.advance(Duration::from_secs(1)).await.succeeded, 1);
/// # Ok(()) }
/// ```
#[must_use = "dropped, a sweeper stops claiming"]
pub struct TestSweeper {
    sweeper: Sweeper,
    outbox: Outbox,
    faults: Arc<Faults>,
    told: Mutex<Tally>,
}

/// Failures that are still to happen, by definition.
type Faults = Mutex<HashMap<String, Fault>>;

struct Fault {
    left: usize,
    failure: Arc<dyn Fn() -> Failure + Send + Sync>,
}

impl TestSweeper {
    /// Starts what the builder describes.
    ///
    /// # Errors
    /// As [`SweeperBuilder::start`].
    pub async fn start(mut builder: SweeperBuilder) -> Result<Self, StartError> {
        let faults: Arc<Faults> = Arc::default();
        for handler in builder.handlers.values_mut() {
            *handler = Arc::new(Failing { handler: Arc::clone(handler), faults: Arc::clone(&faults) });
        }
        let outbox = builder.outbox.clone();
        let sweeper = builder.housekeeping(false).start().await?;
        Ok(Self { sweeper, outbox, faults, told: Mutex::default() })
    }

    /// Fails the next `count` attempts at notices of a definition, whichever they are, instead of calling the handler: of
    /// those that begin from now on, so say it before the notice is added. Called again, it counts anew; 0 ends it.
    pub fn fail_next(
        &self,
        definition: impl Into<String>,
        count: usize,
        failure: impl Fn() -> Failure + Send + Sync + 'static,
    ) {
        lock(&self.faults).insert(definition.into(), Fault { left: count, failure: Arc::new(failure) });
    }

    /// Sends what is due until nothing is, and tells what came of it since the last time: of all attempts, also of those
    /// that the first-send lane made meanwhile. Retries that are due later are left.
    ///
    /// # Panics
    /// Where that takes longer than 30 s: a handler hangs, or the database is out.
    pub async fn drain(&self) -> Tally {
        self.until(self.sweeper.idle()).await;
        self.news()
    }

    fn news(&self) -> Tally {
        let (now, mut told) = (self.sweeper.so_far(), lock(&self.told));
        let since = now.since(&told);
        *told = now;
        since
    }

    /// Lets so much time pass on the outbox's hand-turned clock, and tells what came of it as [`Self::drain`] does. The
    /// clock stops at each moment at which something is due (a retry, a timetable's tick, the end of a confirmation's
    /// time, an opening window), so that all of it happens in its order and at its time.
    ///
    /// # Panics
    /// Where the outbox has no hand-turned clock; where the store does not answer; as [`Self::drain`].
    #[allow(clippy::panic)] // Of a test.
    pub async fn advance(&self, by: Duration) -> Tally {
        let Some(clock) = self.outbox.hand_clock() else {
            panic!(
                "time passes by itself here: give the outbox a HandClock to turn (`with_clock`, `builder(pool).clock`)"
            )
        };
        let end = clock.now() + by;
        self.until(self.sweeper.idle()).await;
        loop {
            let left = end.duration_since(clock.now()).unwrap_or_default();
            if left.is_zero() {
                return self.news();
            }
            match self.sweeper.worker.until_due().await {
                Ok(until) => clock.advance(until.clamp(SHORTEST, left.max(SHORTEST))),
                Err(error) => panic!("what is due cannot be read: {error}"),
            }
            self.until(self.sweeper.idle_as_known()).await;
        }
    }

    /// Stops as [`Sweeper::shutdown`] does; tells what was done since the start.
    pub async fn shutdown(self) -> Tally {
        self.sweeper.shutdown().await
    }

    #[allow(clippy::panic)] // Of a test.
    async fn until(&self, idle: impl Future<Output = ()>) {
        if tokio::time::timeout(PATIENCE, idle).await.is_err() {
            panic!("still sending after {PATIENCE:?}: {}", self.sweeper.worker.what_is_held());
        }
    }
}

impl std::fmt::Debug for TestSweeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestSweeper").field("node_id", &self.sweeper.node_id()).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A handler that fails where the test wants it.
struct Failing {
    handler: Arc<dyn AnyHandler>,
    faults: Arc<Faults>,
}

impl AnyHandler for Failing {
    fn call(self: Arc<Self>, facts: Arc<Facts>) -> BoxFuture<'static, Result<HandlerResult, String>> {
        let failure = {
            let mut faults = lock(&self.faults);
            let fault = faults.get_mut(&facts.definition.row.name).filter(|fault| fault.left > 0);
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
}

impl Worker {
    /// How long until something that this sweeper does is due, as far as that is known.
    async fn until_due(&self) -> Result<Duration, StoreError> {
        // What is known of definitions and circuits would soon be hours old, by the clock that is turned.
        self.reload_definitions().await?;
        let due = self.store().due(true).await?;
        let definitions = self.definitions();
        let lanes = due.lanes.iter().filter_map(|lane| {
            let definition = definitions.get(lane.def_id)?;
            let policy = &definition.ready()?.policy;
            let after = lane.after.max(definition.closed_for(lane.status, due.now));
            // What is due and was not sent waits for another notice, or for a limit.
            if after.is_zero() { self.limited.again_after(policy) } else { Some(after) }
        });
        let ticks = definitions.all().filter_map(|definition| match definition.step(&due)? {
            Step::Wait(tick) => tick?.duration_since(due.now).ok(),
            Step::Produce { .. } => Some(Duration::ZERO),
        });
        Ok(lanes.chain(ticks).min().unwrap_or(Duration::MAX))
    }

    /// The notices that are being sent, for a message.
    fn what_is_held(&self) -> String {
        let held = self.held();
        let ids: Vec<String> =
            held.iter().take(10).map(|(id, held)| format!("{id} (attempt {})", held.attempt)).collect();
        if ids.is_empty() { "nothing is held here; does the database answer?".to_owned() } else { ids.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use solid_notify_core::{HandClock, NotifyDef, add_notice};
    use solid_notify_testkit::MemoryNotify;

    use super::*;
    use crate::{Done, Notice};

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "(attempt 1)")]
    async fn a_handler_that_hangs_is_told() {
        let notify = MemoryNotify::with_clock(HandClock::new(SystemTime::now()));
        notify.define(NotifyDef::new("sync")).await.unwrap();
        let hangs = Sweeper::builder(&notify).handler("sync", |_: Notice<i64>| async {
            tokio::time::sleep(2 * PATIENCE).await;
            Ok(Done::Ok)
        });
        let sweeper = TestSweeper::start(hangs).await.unwrap();
        let mut tx = notify.begin();
        add_notice(&mut tx, "sync", 7).await.unwrap();
        tx.commit();
        sweeper.drain().await;
    }

    #[tokio::test]
    #[should_panic(expected = "give the outbox a HandClock to turn")]
    async fn time_is_not_turned_where_there_is_no_clock() {
        let sweeper = TestSweeper::start(Sweeper::builder(&MemoryNotify::new())).await.unwrap();
        sweeper.advance(PATIENCE).await;
    }
}
