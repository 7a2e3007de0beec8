//! [`Sweeper`]: the handle of a running sweeper: its start, its idleness, its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use solid_notify_core::Outbox;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::builder::SweeperBuilder;
use crate::supervise::supervised;
use crate::worker::{Counts, Worker};
use crate::{counts, first_send, lease, maintenance, settle, successor, sweep, versions};

/// Sends the notices of an outbox, in any number of processes at once.
///
/// Dropped, it claims nothing more; what is running ends and is stored while the runtime lives. [`Self::shutdown`] waits
/// for that.
///
/// ```
/// use solid_notify_sweeper::{Done, Notice, Sweeper};
/// # async fn example(outbox: solid_notify_core::Outbox) -> Result<(), Box<dyn std::error::Error>> {
/// let sweeper = Sweeper::builder(&outbox)
///     .handler("sync_to_omp", |notice: Notice<serde_json::Value>| async move {
///         println!("sending {}", notice.param());
///         Ok(Done::Ok)
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
    /// Nothing is left to be cleaned up.
    ended: bool,
}

/// How long a shutdown waits for handlers that were told to stop and cannot hear it.
const BLOCKED_GRACE: Duration = Duration::from_secs(5);

/// What a sweeper did: between its start and its end, or for so long as is said. Alerts and housekeeping are not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// Notices that ended well (delivered, or skipped by their handler).
    pub succeeded: u64,
    /// Attempts that delivered a notice which now waits for its confirmation.
    pub awaiting: u64,
    /// Attempts that failed and will be retried.
    pub failed: u64,
    /// Notices that became dead letters.
    pub dead_letters: u64,
}

impl Tally {
    /// What was done since `earlier`.
    #[cfg(feature = "testkit")]
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            succeeded: self.succeeded - earlier.succeeded,
            awaiting: self.awaiting - earlier.awaiting,
            failed: self.failed - earlier.failed,
            dead_letters: self.dead_letters - earlier.dead_letters,
        }
    }
}

impl Sweeper {
    /// Handlers and settings of a sweeper over `outbox` (a `Notify` derefs to one).
    pub fn builder(outbox: &Outbox) -> SweeperBuilder {
        SweeperBuilder::new(outbox)
    }

    pub(crate) fn spawn(worker: Arc<Worker>) -> Self {
        let with = |run: fn(Arc<Worker>) -> BoxFuture<'static, ()>| {
            let worker = Arc::clone(&worker);
            move || run(Arc::clone(&worker))
        };
        let settle = supervised(
            "settle",
            with(|worker| {
                let queue = Arc::clone(&worker.settle_queue);
                Box::pin(settle::settle_loop(worker, queue))
            }),
        );
        let lease = supervised("lease", with(|worker| Box::pin(lease::lease_loop(worker))));
        let mut claiming = vec![
            supervised("sweep", with(|worker| Box::pin(sweep::sweep_loop(worker)))),
            supervised("successor", with(|worker| Box::pin(successor::successor_loop(worker)))),
            supervised("versions", with(|worker| Box::pin(versions::versions_loop(worker)))),
            supervised("counts", with(|worker| Box::pin(counts::counts_loop(worker)))),
            supervised("maintenance", with(|worker| Box::pin(maintenance::maintenance_loop(worker)))),
        ];
        if worker.settings.first_send {
            let definitions = Arc::downgrade(&worker);
            // A definition that is not known yet may be one of ours: it is read before the claim.
            let accepts = move |def_id| {
                let Some(worker) = definitions.upgrade() else { return false };
                worker.definition(def_id).is_none_or(|definition| definition.is_here())
            };
            let queue = Arc::new(Mutex::new(worker.outbox.lane().subscribe(first_send::QUEUE, accepts)));
            let worker = Arc::clone(&worker);
            claiming.push(supervised("first send", move || {
                first_send::first_send_loop(Arc::clone(&worker), Arc::clone(&queue))
            }));
        }
        Self { worker, claiming, lease, settle, ended: false }
    }

    /// The id of this node in tables and logs, unique per start.
    pub fn node_id(&self) -> &str {
        &self.worker.id
    }

    /// Waits until a look finds nothing due and nothing is being sent, by the definitions as they are now.
    pub async fn idle(&self) {
        self.worker.outbox.wake();
        self.idle_as_known().await;
    }

    /// As [`Self::idle`], by the definitions as they were read last.
    pub(crate) async fn idle_as_known(&self) {
        let mut idle = self.worker.idle.subscribe();
        // The first look may have begun before this call.
        for _ in 0..2 {
            self.worker.due_soon.notify_one();
            if idle.changed().await.is_err() {
                return;
            }
        }
    }

    /// Stops: claims nothing more, waits for running handlers (30 s unless set otherwise), hands the rest back uncounted,
    /// and stores every outcome; for that it waits up to 10 s for a database that does not answer.
    pub async fn shutdown(mut self) -> Tally {
        let worker = Arc::clone(&self.worker);
        worker.stop.cancel();
        for task in &mut self.claiming {
            // A claim that is under way is finished, so that nothing is claimed and then forgotten.
            let _ = task.await;
        }
        worker.running.close();
        if tokio::time::timeout(worker.settings.shutdown_grace, worker.running.wait()).await.is_err() {
            tracing::warn!("handlers are still running after the grace period; their notices are handed back");
        }
        worker.abort.cancel();
        if tokio::time::timeout(BLOCKED_GRACE, worker.running.wait()).await.is_err() {
            tracing::error!(
                "a handler blocks its thread and cannot be stopped; its notice is sent again when its lease is over"
            );
        }
        worker.close_outcomes();
        let _ = (&mut self.settle).await;
        self.lease.abort();
        self.ended = true;
        self.so_far()
    }

    /// What was done since the start.
    pub(crate) fn so_far(&self) -> Tally {
        let Counts { succeeded, awaiting, failed, dead } = &self.worker.counts;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Tally {
            succeeded: count(succeeded),
            awaiting: count(awaiting),
            failed: count(failed),
            dead_letters: count(dead),
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.worker.stop.cancel();
        if self.ended {
            return;
        }
        // Dropped without a shutdown, or during one: let the claims under way and what is running end, then the last loops.
        let (worker, lease, claiming) =
            (Arc::clone(&self.worker), self.lease.abort_handle(), std::mem::take(&mut self.claiming));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                for task in claiming.into_iter().filter(|task| !task.is_finished()) {
                    let _ = task.await;
                }
                worker.running.close();
                worker.running.wait().await;
                worker.close_outcomes();
                lease.abort();
            });
        }
    }
}
