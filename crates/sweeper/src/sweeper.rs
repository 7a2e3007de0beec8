//! [`Sweeper`]: the handle of a running sweeper, with its start, its wait for idleness and its shutdown.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::background::watch::Watch;
use crate::background::{counts, lease, maintenance, series, versions};
use crate::claiming::{first_send, successor, sweep};
use crate::settling::{Totals, settle};
use crate::supervise::supervised;
use crate::worker::Worker;

/// Sends the notices of an outbox. Any number of processes can run a sweeper at once.
///
/// A dropped sweeper claims nothing more. Running handlers end and their outcomes are stored while the runtime lives;
/// [`Self::shutdown`] waits for that.
///
/// ```
/// use solid_notify_sweeper::{Notice, OutboxExt, Sweeper};
/// # async fn example(outbox: solid_notify_core::AnyOutbox) -> Result<(), Box<dyn std::error::Error>> {
/// let sweeper = outbox.sweeper()
///     .handler("sync_to_omp", |notice: Notice<serde_json::Value>| async move {
///         println!("sending {}", notice.param());
///         Ok(())
///     })
///     .start()
///     .await?;
/// sweeper.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropped, a sweeper stops claiming"]
pub struct Sweeper {
    pub(crate) worker: Arc<Worker>,
    claiming: Vec<JoinHandle<()>>,
    lease: JoinHandle<()>,
    settle: JoinHandle<()>,
    _watch: Watch,
    /// True after a shutdown: the drop has nothing left to do.
    ended: bool,
}

/// The longest time that a shutdown takes in addition to the handlers' grace period. The two steps below end this long
/// before the end of the shutdown.
const CLEANUP: Duration = Duration::from_secs(10);
/// Claims that are under way.
const CLAIMS_END: Duration = Duration::from_secs(8);
/// Handlers that block their thread and so cannot be cancelled. The remaining time is for the last outcomes, the series and the report of the end.
const BLOCKED_END: Duration = Duration::from_secs(6);

/// Totals of outcomes, from the start of the sweeper to its end, or over the stated time. Alerts and housekeeping are not
/// counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Tally {
    /// Notices that succeeded, were skipped by their handler, or were refused by the filter of their target.
    pub succeeded: u64,
    /// Attempts that delivered a notice which then awaited its ack. An acked notice stays counted here, because an ack is stored
    /// by the process that it reaches, and is no outcome of a sweeper. A delivery is not counted whose nack was judged before it was
    /// stored.
    pub awaiting_ack: u64,
    /// Attempts that failed and will be retried.
    pub failed: u64,
    /// Notices that became dead letters.
    pub dead_letters: u64,
}

impl Tally {
    /// Returns the counts since `earlier`.
    #[cfg(feature = "testkit")]
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            succeeded: self.succeeded - earlier.succeeded,
            awaiting_ack: self.awaiting_ack - earlier.awaiting_ack,
            failed: self.failed - earlier.failed,
            dead_letters: self.dead_letters - earlier.dead_letters,
        }
    }
}

impl Sweeper {
    pub(crate) fn spawn(worker: Arc<Worker>) -> Self {
        let with = |run: fn(Arc<Worker>) -> BoxFuture<'static, ()>| {
            let worker = Arc::clone(&worker);
            move || run(Arc::clone(&worker))
        };
        let settle = supervised(
            "settle",
            with(|worker| {
                Box::pin(async move {
                    settle::settle_loop(Arc::clone(&worker)).await;
                    series::write_last_series(&worker).await;
                    maintenance::report_stop(&worker).await;
                })
            }),
        );
        let lease = supervised("lease", with(|worker| Box::pin(lease::lease_loop(worker))));
        let mut claiming = vec![
            supervised("sweep", with(|worker| Box::pin(sweep::sweep_loop(worker)))),
            supervised("successor", with(|worker| Box::pin(successor::successor_loop(worker)))),
            supervised("versions", with(|worker| Box::pin(versions::versions_loop(worker)))),
            supervised("counts", with(|worker| Box::pin(counts::counts_loop(worker)))),
            supervised("series", with(|worker| Box::pin(series::series_loop(worker)))),
            supervised("maintenance", with(|worker| Box::pin(maintenance::maintenance_loop(worker)))),
            supervised("acks", with(|worker| Box::pin(maintenance::acks_loop(worker)))),
        ];
        if worker.settings.first_send {
            let definitions = Arc::downgrade(&worker);
            // A definition that this node has not read yet may have its handler here, so its dispatched notices are
            // accepted too.
            let accepts = move |def_id| {
                let Some(worker) = definitions.upgrade() else { return false };
                worker.definition(def_id).is_none_or(|definition| definition.is_here())
            };
            let queue = Arc::new(Mutex::new(worker.outbox.engine().dispatch().subscribe(first_send::QUEUE, accepts)));
            let worker = Arc::clone(&worker);
            claiming.push(supervised("first send", move || {
                first_send::first_send_loop(Arc::clone(&worker), Arc::clone(&queue))
            }));
        }
        let _watch = Watch::start(&worker);
        Self { worker, claiming, lease, settle, _watch, ended: false }
    }

    /// Returns the id of this node in tables and logs, unique per start.
    pub fn node_id(&self) -> &str {
        &self.worker.id
    }

    /// Waits until a sweep finds no due notice and no notice is being sent. It first has the sweeper read the definitions
    /// again.
    pub async fn idle(&self) {
        self.worker.outbox.wake();
        self.idle_as_known().await;
    }

    /// Like [`Self::idle`], with the definitions as the sweeper last read them.
    pub(crate) async fn idle_as_known(&self) {
        let mut idle = self.worker.signals.idle_reports();
        // The first sweep that ends may have begun before this call.
        for _ in 0..2 {
            self.worker.signals.sweep_soon();
            if idle.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits until nothing is due, then stops, and counts the notices of all definitions, as
    /// [`SweeperBuilder::run_until_idle`](crate::SweeperBuilder::run_until_idle) does.
    pub async fn shutdown_when_idle(self) -> Tally {
        self.idle().await;
        let worker = Arc::clone(&self.worker);
        let tally = self.shutdown().await;
        counts::count_all(&worker).await;
        tally
    }

    /// Stops the sweeper: it claims nothing more, waits for running handlers (15 s by default), hands the rest back
    /// uncounted, and stores every outcome. It ends at most 10 s after the grace period, even if a handler or the database
    /// hangs.
    pub async fn shutdown(mut self) -> Tally {
        let worker = Arc::clone(&self.worker);
        let (grace, began) = (worker.settings.shutdown_grace, Instant::now());
        let left = |until: Duration| until.saturating_sub(began.elapsed());
        let end = grace.saturating_add(CLEANUP);
        worker.signals.stop();
        // Claims that are under way finish, so that no notice is claimed without being registered.
        let claims = futures_util::future::join_all(&mut self.claiming);
        if tokio::time::timeout(left(end - CLAIMS_END), claims).await.is_err() {
            tracing::error!("the database did not answer; notices of the last claim count a crash");
            self.claiming.iter().for_each(JoinHandle::abort);
        }
        worker.in_flight.tasks.close();
        if tokio::time::timeout(left(grace), worker.in_flight.tasks.wait()).await.is_err() {
            tracing::warn!("handlers still run after the grace period; their notices are handed back");
        }
        worker.signals.cancel_handlers();
        if tokio::time::timeout(left(end - BLOCKED_END), worker.in_flight.tasks.wait()).await.is_err() {
            tracing::error!(
                "a handler blocks its thread and cannot be cancelled; its notice is sent again when its lease expires"
            );
        }
        worker.outcomes.close();
        if tokio::time::timeout(left(end), &mut self.settle).await.is_err() {
            tracing::error!("the database did not answer; outcomes are not stored and may be sent again");
            self.settle.abort();
        }
        self.lease.abort();
        self.ended = true;
        self.so_far()
    }

    /// Returns the counts since the start.
    pub(crate) fn so_far(&self) -> Tally {
        let Totals { succeeded, awaiting_ack, failed, dead } = self.worker.outcomes.totals();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Tally {
            succeeded: count(succeeded),
            awaiting_ack: count(awaiting_ack),
            failed: count(failed),
            dead_letters: count(dead),
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.worker.signals.stop();
        if self.ended {
            return;
        }
        // Dropped without a shutdown, or during one: the claims under way and the running handlers end first, then the last
        // loops.
        let (worker, lease, claiming) =
            (Arc::clone(&self.worker), self.lease.abort_handle(), std::mem::take(&mut self.claiming));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                for task in claiming.into_iter().filter(|task| !task.is_finished()) {
                    let _ = task.await;
                }
                worker.in_flight.tasks.close();
                worker.in_flight.tasks.wait().await;
                worker.outcomes.close();
                lease.abort();
            });
        }
    }
}
