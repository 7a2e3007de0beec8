//! One try of a claimed task: its handler, the lease meanwhile, and its outcome.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};

use crate::error::Error;
use crate::failure::{TaskFailure, TaskResult};
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

/// The pause after a call that fails until an operator acts, for want of a right for instance.
const REST: Duration = Duration::from_secs(10);

/// Returns the pause after a failed call, where that of an outage would be this one.
pub(crate) fn pause_after(error: &Error, outage: Option<Duration>) -> Option<Duration> {
    if error.is_outage() { outage } else { Some(REST) }
}

/// What all tries of a runner share.
pub(crate) struct Attempts {
    pub(crate) tasks: TimedTasks,
    pub(crate) kind: Arc<str>,
    pub(crate) handler: Handler,
    pub(crate) lease: TaskLease,
    pub(crate) time_limit: Duration,
    pub(crate) max_retry_in: Duration,
    pub(crate) retry_delay: Box<dyn Fn(u64) -> Duration + Send + Sync>,
    /// How many handlers go on although they were cancelled.
    pub(crate) stuck: watch::Sender<usize>,
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
        // Of an idle runtime this thread may be the one that serves timers and sockets, and it runs what it spawned last by itself, without
        // waking another thread. A second task wakes one, which serves them where the handler blocks this thread.
        tokio::spawn(std::future::ready(()));
        let result = tokio::select! {
            biased;
            result = handler.join_next() => result,
            () = self.keep_lease(of(TaskOutcome::Extend(self.lease.time))) => {
                tracing::warn!(kind = %self.kind, id, "lost the lease of a timed task; its handler is cancelled");
                self.cancel(&id, handler).await;
                return Ended::Lost;
            }
            () = is_set(cancel) => {
                handler.abort_all();
                handler.join_next().await
            }
            () = sleep(self.time_limit) => {
                // One that has ended meanwhile has its own result.
                match self.cancel(&id, handler).await {
                    Some(Ok(result)) => Some(Ok(result)),
                    _ => Some(Ok(Err(TaskFailure::late(self.time_limit)))),
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

    /// Cancels a handler, and returns its result if it ends soon. One that blocks its thread does not end. Until it does, its runner claims
    /// nothing, because each further task could block another thread.
    async fn cancel(&self, id: &str, mut handler: JoinSet<TaskResult>) -> Option<Result<TaskResult, JoinError>> {
        handler.abort_all();
        if let Ok(ended) = timeout(LAST_MOMENT, handler.join_next()).await {
            return ended;
        }
        tracing::error!(
            kind = %self.kind, id,
            "the handler of a timed task cannot be cancelled, because it blocks its thread; until it ends, this runner claims no task of its kind"
        );
        self.stuck.send_modify(|stuck| *stuck += 1);
        let (stuck, kind) = (self.stuck.clone(), Arc::clone(&self.kind));
        tokio::spawn(async move {
            handler.join_next().await;
            stuck.send_modify(|stuck| *stuck -= 1);
            tracing::info!(%kind, "a handler of a timed task that could not be cancelled has ended");
        });
        None
    }

    /// Turns the end of a handler into an outcome. It has none if it was cancelled. The log has no text of the handler, which may quote a value.
    fn judge(&self, id: &str, tries: u64, result: Option<Result<TaskResult, JoinError>>) -> TaskOutcome {
        let mut failure = match result.map(|result| result.map_err(JoinError::try_into_panic)) {
            Some(Ok(Ok(()))) => return TaskOutcome::Finish,
            Some(Ok(Err(failure))) => failure,
            Some(Err(Ok(panic))) => TaskFailure::panicked(panic),
            Some(Err(Err(_))) | None => return TaskOutcome::Release,
        };
        tracing::warn!(kind = %self.kind, id, tries, error = failure.error_type(), "a timed task failed");
        if let Some(asked) = failure.cut(self.max_retry_in) {
            tracing::warn!(kind = %self.kind, id, ?asked, most = ?self.max_retry_in, "a timed task asked for a later retry than it gets");
        }
        failure.judged(tries, &self.lease, &self.retry_delay)
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
        let report = |error: &Error, _| {
            let (id, kind) = (&settled.id, &self.kind);
            match (std::mem::take(&mut is_first), error.is_outage()) {
                (true, true) => tracing::warn!(%kind, id, %error, "cannot settle a timed task; trying again"),
                (true, false) => tracing::error!(%kind, id, %error, "cannot settle a timed task; trying again"),
                (false, _) => tracing::debug!(%kind, id, %error, "still cannot settle a timed task"),
            }
        };
        let held = call.retry(PAUSES).notify(report).adjust(pause_after).await;
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

#[cfg(test)]
mod tests {
    use std::io;

    use solid_notify_redis_connection::Error as ConnectionError;

    use super::*;

    #[test]
    fn refused_call_rests_longer_than_an_outage() {
        let error = |source: redis::RedisError| Error::Redis(ConnectionError::Redis { doing: "claiming", source });
        let outage = error(io::Error::from(io::ErrorKind::ConnectionRefused).into());
        let pause = Some(Duration::from_millis(50));
        assert_eq!(pause_after(&outage, pause), pause);
        let refused = redis::RedisError::from((redis::ErrorKind::Client, "no permissions"));
        assert_eq!(pause_after(&error(refused), pause), Some(REST));
        assert_eq!(pause_after(&Error::Kind { kind: String::new() }, None), Some(REST));
    }
}
