//! [`TimedTasks::run`]: a loop that claims due tasks of a kind and calls a handler for each, until its [`TaskRunner`] is shut down.
//!
//! One task of the runtime looks for due tasks. What happens to a claimed task is in `attempt.rs`.

use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use crate::attempt::{Attempts, Ended, Handler, PAUSES, pause_after};
use crate::error::{Error, Result};
use crate::failure::{TaskFailure, TaskResult, default_delay};
use crate::model::{ClaimedTask, TaskLease};
use crate::names::check_kind;
use crate::tasks::{TimedTasks, undecodable_reason};

/// The longest delay of [`TaskFailure::retry_in`] by default, as of a notice.
const LONGEST_RETRY_IN: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a shutdown takes at most in addition to the grace period.
const CLEANUP: Duration = Duration::from_secs(10);

impl TimedTasks {
    /// Returns the settings of a runner, which calls `handler` for each due task of `kind`. [`TaskRun::start`] starts it. Any number
    /// of processes may run the same kind.
    ///
    /// `Ok(())` deletes the task. An error, or a panic of the handler or of [`TaskRun::retry_delay`], retries it, and the last try makes it dead ([`TaskFailure`]). A value that does
    /// not fit `T` is put aside. While the handler runs, its lease is extended; one that runs for longer than [`TaskRun::time_limit`] has
    /// failed. The handler may be called again for a task that it has done, for instance after a crash, so receivers deduplicate by the
    /// kind and [`ClaimedTask::id`].
    ///
    /// ```no_run
    /// # async fn example(tasks: solid_notify_timed::TimedTasks) -> Result<(), Box<dyn std::error::Error>> {
    /// use solid_notify_timed::ClaimedTask;
    ///
    /// let runner = tasks
    ///     .run("remind", |task: ClaimedTask<String>| async move {
    ///         let words: Vec<&str> = task.value.split(' ').collect();
    ///         println!("{words:?}, try {}", task.tries);
    ///         Ok(())
    ///     })
    ///     .concurrency(4)
    ///     .start()?;
    /// // When the process is asked to end:
    /// let tally = runner.shutdown().await;
    /// println!("{} finished", tally.finished);
    /// # Ok(()) }
    /// ```
    pub fn run<T, H, F>(&self, kind: &str, handler: H) -> TaskRun
    where
        T: DeserializeOwned + Send + 'static,
        H: Fn(ClaimedTask<T>) -> F + Send + Sync + 'static,
        F: Future<Output = TaskResult> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let handler: Handler = Box::new(move |task: ClaimedTask<Box<RawValue>>| {
            let handler = Arc::clone(&handler);
            // The value is read here, so that a panic of its type is one of this task.
            Box::pin(async move {
                match task.read(|value| serde_json::from_str(value.get())) {
                    Ok(task) => handler(task).await,
                    Err(error) => Err(TaskFailure::aside(undecodable_reason(&error))),
                }
            })
        });
        let attempts = Attempts {
            tasks: self.clone(),
            kind: kind.into(),
            handler,
            lease: TaskLease::of(Duration::from_secs(30)).max_tries(4),
            time_limit: Duration::from_secs(30),
            retry_delay: Box::new(default_delay),
            max_retry_in: LONGEST_RETRY_IN,
            stuck: watch::Sender::new(0),
        };
        let (poll, grace) = (Duration::from_secs(1), Duration::from_secs(15));
        TaskRun { attempts, concurrency: 10, poll, grace }
    }
}

/// Settings of a runner; returned by [`TimedTasks::run`].
#[must_use = "a runner runs after `start`"]
pub struct TaskRun {
    attempts: Attempts,
    concurrency: usize,
    poll: Duration,
    grace: Duration,
}

impl std::fmt::Debug for TaskRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { attempts, concurrency, poll, grace } = self;
        let mut fields = f.debug_struct("TaskRun");
        fields.field("kind", &attempts.kind).field("lease", &attempts.lease).field("concurrency", concurrency);
        fields.field("time_limit", &attempts.time_limit);
        fields.field("poll", poll).field("shutdown_grace", grace).finish_non_exhaustive()
    }
}

impl TaskRun {
    /// Sets the maximum number of tasks that run at the same time in this runner; 10 by default, at least 1. The runner claims no
    /// more than can run at once.
    pub fn concurrency(mut self, tasks: usize) -> Self {
        self.concurrency = tasks.max(1);
        self
    }

    /// Sets the duration of a lease and the maximum number of tries; 30 s and 4 tries by default. While a handler runs, its lease is
    /// extended after each third of it. A task of a process that died is claimed again when its lease is over.
    pub fn lease(mut self, lease: TaskLease) -> Self {
        self.attempts.lease = lease;
        self
    }

    /// Sets how long a handler may run; 30 s by default, as a notice by default, so that handlers that hang do not keep the others of their kind from
    /// running. One that runs longer is cancelled, and its try has failed. One that blocks its thread cannot be cancelled: this is logged as an
    /// error, and the runner claims nothing until it has ended. `Duration::MAX` is without a limit.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.attempts.time_limit = limit;
        self
    }

    /// Sets the delay before the retry of a failed task, by how many tries it has had: 1 after the first one. By default 1 s, 2 s,
    /// 4 s and so on, up to a minute.
    pub fn retry_delay(mut self, delay: impl Fn(u64) -> Duration + Send + Sync + 'static) -> Self {
        self.attempts.retry_delay = Box::new(delay);
        self
    }

    /// Sets the longest delay that [`TaskFailure::retry_in`] gets; a day by default, so that a wrong value, such as one of a receiver, does not
    /// delay a task for years. A longer one is cut, and logged.
    pub fn max_retry_in(mut self, longest: Duration) -> Self {
        self.attempts.max_retry_in = longest;
        self
    }

    /// Sets the longest time between two looks for due tasks; 1 s by default, at least 1 ms. The runner sleeps until the next due
    /// time. A task that another process adds meanwhile with an earlier time begins so much late at most; one that this process adds,
    /// by a clone of the same handle, begins on time.
    pub fn poll(mut self, longest: Duration) -> Self {
        self.poll = longest.max(Duration::from_millis(1));
        self
    }

    /// Sets how long a shutdown waits for running handlers; 15 s by default.
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Starts the runner, within a tokio runtime. It needs no reply of Redis: during an outage it tries again, after pauses of 50 ms
    /// to 2 s, each longer by a random part of it, and after ten seconds where Redis refuses its calls.
    ///
    /// # Errors
    /// [`crate::Error::Kind`].
    pub fn start(self) -> Result<TaskRunner> {
        check_kind(&self.attempts.kind)?;
        let (stop, stopped) = oneshot::channel();
        let Self { attempts, concurrency, poll, grace } = self;
        let running = Running {
            attempts: Arc::new(attempts),
            concurrency,
            poll,
            grace,
            tasks: JoinSet::new(),
            tally: TaskTally::default(),
        };
        Ok(TaskRunner { stop, ended: tokio::spawn(running.run(stopped)) })
    }
}

/// A runner of timed tasks, which [`TaskRun::start`] returns.
///
/// A dropped runner claims nothing more. Running handlers end and their outcomes are stored while the runtime lives;
/// [`Self::shutdown`] waits for that.
#[derive(Debug)]
#[must_use = "dropped, a runner stops claiming"]
pub struct TaskRunner {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<TaskTally>,
}

impl TaskRunner {
    /// Stops the runner: it claims nothing more and waits for running handlers (15 s by default). Then it cancels the rest and
    /// releases their tasks, which are due again at once without a try used. A task whose handler blocks its thread waits for the
    /// end of its lease. The shutdown ends at most 10 s, and the time-out of a call, after the grace period, even if a handler or
    /// Redis hangs.
    pub async fn shutdown(self) -> TaskTally {
        // An error says that the loop has ended, with its runtime.
        let _ = self.stop.send(());
        self.ended.await.unwrap_or_default()
    }
}

/// How many tasks a runner has run, by their outcomes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskTally {
    /// Done and deleted.
    pub finished: u64,
    /// Failed, to be retried.
    pub retried: u64,
    /// Failed for the last time, or given up by their handler. Tasks that ran out because their consumers died are not counted.
    pub dead: u64,
    /// Put aside because of their value.
    pub aside: u64,
    /// Released by a shutdown.
    pub released: u64,
    /// Without an outcome of this runner, because the lease was lost: the task was deleted or replaced, or another consumer has it. A
    /// task whose outcome was stored by a call without a reply is counted here, too.
    pub lost: u64,
}

impl TaskTally {
    fn count(&mut self, ended: Ended) {
        let counter = match ended {
            Ended::Finished => &mut self.finished,
            Ended::Retried => &mut self.retried,
            Ended::Dead => &mut self.dead,
            Ended::Aside => &mut self.aside,
            Ended::Released => &mut self.released,
            Ended::Lost => &mut self.lost,
        };
        *counter += 1;
    }
}

/// Looks that fail, one after the other.
struct Failing {
    /// Those of an outage.
    pauses: ExponentialBackoff,
    /// That the latest error was one.
    is_outage: bool,
}

/// The state of the loop.
struct Running {
    attempts: Arc<Attempts>,
    concurrency: usize,
    poll: Duration,
    grace: Duration,
    tasks: JoinSet<Ended>,
    tally: TaskTally,
}

impl Running {
    async fn run(mut self, mut stop: oneshot::Receiver<()>) -> TaskTally {
        let (cancel, cancelled) = watch::channel(false);
        let mut news = self.attempts.tasks.news.listen(&self.attempts.kind);
        let mut stuck = self.attempts.stuck.subscribe();
        let (mut next_look, mut earliest, mut failing) = (Instant::now(), Instant::now(), None);
        let shut_down = loop {
            let is_stuck = *stuck.borrow_and_update() > 0;
            tokio::select! {
                // After a shutdown nothing is claimed. The news come last, because a lot of them would stop the others.
                biased;
                stopped = &mut stop => break stopped.is_ok(),
                Some(ended) = self.tasks.join_next() => self.count(ended),
                Ok(()) = stuck.changed() => {}
                () = sleep_until(next_look), if self.tasks.len() < self.concurrency && !is_stuck => {
                    next_look = match self.look(&cancelled).await {
                        Ok(next) => {
                            if failing.take().is_some() {
                                tracing::info!(kind = %self.attempts.kind, "timed tasks are claimed again");
                            }
                            next
                        }
                        Err(error) => {
                            earliest = Instant::now() + self.pause(&mut failing, &error);
                            earliest
                        }
                    };
                }
                // Redis fails as before, whatever is added.
                at = news.next() => next_look = next_look.min(at).max(earliest),
            }
        };
        let grace = if shut_down { self.grace } else { Duration::MAX };
        if timeout(grace, self.drain()).await.is_err() {
            tracing::warn!(kind = %self.attempts.kind, "handlers still run after the grace period; their tasks are released");
            cancel.send_replace(true);
            if timeout(CLEANUP, self.drain()).await.is_err() {
                tracing::error!(
                    kind = %self.attempts.kind,
                    "a handler blocks its thread or Redis does not answer; these tasks are due again when their leases end"
                );
            }
        }
        self.tally
    }

    /// Logs the error of a look, the first of its kind as an error, and returns the pause after it.
    fn pause(&self, failing: &mut Option<Failing>, error: &Error) -> Duration {
        let (kind, is_outage) = (&self.attempts.kind, error.is_outage());
        match failing {
            Some(known) if known.is_outage == is_outage => {
                tracing::debug!(%kind, %error, "still cannot claim timed tasks");
            }
            _ => tracing::error!(%kind, %error, "cannot claim timed tasks; trying again"),
        }
        let failing = failing.get_or_insert_with(|| Failing { pauses: PAUSES.build(), is_outage });
        failing.is_outage = is_outage;
        pause_after(error, failing.pauses.next()).unwrap_or(self.poll)
    }

    /// Claims what is due and can run, and returns when to look again.
    async fn look(&mut self, cancelled: &watch::Receiver<bool>) -> Result<Instant> {
        let Attempts { tasks, kind, lease, .. } = &*self.attempts;
        let due = tasks.claim::<Box<RawValue>>(kind, self.concurrency - self.tasks.len(), lease).await?;
        for id in &due.dead {
            tracing::error!(%kind, id, "a timed task has no tries left and is dead: its consumer died in each try");
        }
        let found = due.tasks.len() + due.damaged.len() + due.dead.len();
        for task in due.tasks {
            self.tasks.spawn(Arc::clone(&self.attempts).run(task, cancelled.clone()));
        }
        if found > 0 {
            return Ok(Instant::now());
        }
        let wait = tasks.until_next_due(kind).await?;
        Ok(Instant::now() + wait.unwrap_or(self.poll).min(self.poll))
    }

    /// Waits for the tasks that run.
    async fn drain(&mut self) {
        while let Some(ended) = self.tasks.join_next().await {
            self.count(ended);
        }
    }

    fn count(&mut self, ended: Result<Ended, tokio::task::JoinError>) {
        match ended {
            Ok(ended) => self.tally.count(ended),
            Err(error) => {
                tracing::error!(kind = %self.attempts.kind, %error, "a timed task has no outcome; it is due again when its lease ends");
            }
        }
    }
}
