//! One try of a claimed task: its handler, the lease meanwhile, and its outcome.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};

use crate::failure::{TaskFailure, TaskResult, panic_text};
use crate::model::{ClaimedTask, TaskLease, TaskOutcome, TaskSettled};
use crate::tasks::TimedTasks;

/// A handler that gets its value as JSON.
pub(crate) type Handler =
    Box<dyn Fn(ClaimedTask<Box<RawValue>>) -> Pin<Box<dyn Future<Output = TaskResult> + Send>> + Send + Sync>;

/// The pauses after failed calls: from 50 ms, each twice as long, to 2 s. Jitter adds up to as much again.
pub(crate) const PAUSES: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(50))
    .with_max_delay(Duration::from_secs(2))
    .with_jitter()
    .without_max_times();

/// How long a handler may take to end after its time limit.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// What all tries of a runner share.
pub(crate) struct Attempts {
    pub(crate) tasks: TimedTasks,
    pub(crate) kind: Arc<str>,
    pub(crate) handler: Handler,
    pub(crate) lease: TaskLease,
    pub(crate) time_limit: Duration,
    pub(crate) retry_delay: Box<dyn Fn(u64) -> Duration + Send + Sync>,
}

/// How a try ended.
pub(crate) enum Ended {
    Finished,
    Retried,
    Dead,
    Aside,
    Released,
    Lost,
}

impl Attempts {
    /// Runs one try and stores its outcome.
    pub(crate) async fn run(self: Arc<Self>, task: ClaimedTask<Box<RawValue>>, cancel: watch::Receiver<bool>) -> Ended {
        let (id, fence, tries) = (task.id.clone(), task.fence, task.tries);
        let of = |outcome| TaskSettled { id: id.clone(), fence, outcome };
        // In a task of its own, so that a handler that blocks its thread does not keep its lease from being extended. Dropped, the
        // set cancels it.
        let mut handler = JoinSet::new();
        handler.spawn((self.handler)(task));
        let result = tokio::select! {
            biased;
            result = handler.join_next() => result,
            () = self.keep_lease(of(TaskOutcome::Extend(self.lease.time))) => {
                tracing::warn!(kind = %self.kind, id, "lost the lease of a timed task; its handler is cancelled");
                return Ended::Lost;
            }
            () = is_set(cancel) => {
                handler.abort_all();
                handler.join_next().await
            }
            () = sleep(self.time_limit) => {
                handler.abort_all();
                // One that blocks its thread does not end. One that has ended meanwhile has its own result.
                match timeout(LAST_MOMENT, handler.join_next()).await {
                    Ok(Some(Ok(result))) => Some(Ok(result)),
                    _ => Some(Ok(Err(TaskFailure::retry(format!("it ran longer than its time limit, {:?}", self.time_limit))))),
                }
            }
        };
        let outcome = self.judge(&id, tries, result);
        let ended = match &outcome {
            TaskOutcome::Finish => Ended::Finished,
            TaskOutcome::Dead(_) => Ended::Dead,
            TaskOutcome::Aside(_) => Ended::Aside,
            TaskOutcome::Release => Ended::Released,
            TaskOutcome::Retry(_) | TaskOutcome::Extend(_) => Ended::Retried,
        };
        if self.settle(&of(outcome)).await {
            return ended;
        }
        tracing::warn!(kind = %self.kind, id, "did not store the outcome of a timed task: its lease was lost, or a call whose reply was lost has stored it");
        Ended::Lost
    }

    /// Turns the end of a handler into an outcome. It has none if it was cancelled.
    fn judge(&self, id: &str, tries: u64, result: Option<Result<TaskResult, JoinError>>) -> TaskOutcome {
        let failure = match result.map(|result| result.map_err(JoinError::try_into_panic)) {
            Some(Ok(Ok(()))) => return TaskOutcome::Finish,
            Some(Ok(Err(failure))) => failure,
            Some(Err(Ok(panic))) => TaskFailure::retry(format!("the handler panicked: {}", panic_text(panic))),
            Some(Err(Err(_))) | None => return TaskOutcome::Release,
        };
        let (error, outcome) = failure.judged(tries, &self.lease, &self.retry_delay);
        tracing::warn!(kind = %self.kind, id, tries, error, "a timed task failed");
        outcome
    }

    /// Extends the lease after each third of it, and returns when it is lost.
    async fn keep_lease(&self, extension: TaskSettled) {
        let third = (self.lease.time / 3).max(Duration::from_millis(1));
        loop {
            sleep(third).await;
            if !self.settle(&extension).await {
                return;
            }
        }
    }

    /// Stores an outcome, and tries again until Redis answers. Returns false if the lease was lost. Redis compares the fence, so an
    /// outcome that comes late changes nothing.
    async fn settle(&self, settled: &TaskSettled) -> bool {
        let mut is_first = true;
        let call = || self.tasks.settle(&self.kind, std::slice::from_ref(settled));
        let report = |error: &crate::Error, _| {
            let TaskSettled { id, outcome, .. } = settled;
            match std::mem::take(&mut is_first) {
                true => {
                    tracing::warn!(kind = %self.kind, id, ?outcome, %error, "cannot settle a timed task; trying again")
                }
                false => tracing::debug!(kind = %self.kind, id, ?outcome, %error, "still cannot settle a timed task"),
            }
        };
        let held = call.retry(PAUSES).notify(report).await;
        held.is_ok_and(|held| held == [true])
    }
}

/// Waits until the flag is set.
async fn is_set(mut flag: watch::Receiver<bool>) {
    if flag.wait_for(|set| *set).await.is_err() {
        // The runtime ends.
        std::future::pending::<()>().await;
    }
}
