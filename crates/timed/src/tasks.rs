//! [`TimedTasks`]: one-shot tasks with a due time. A delayed queue for programs that use nothing else of this workspace.
//!
//! Each kind is a few keys in one slot of a cluster, and each call is one script there. The consumers decide what a task means
//! and run it.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use redis::FromRedisValue;
use serde::Serialize;
use serde::de::DeserializeOwned;
use solid_notify_redis_connection::Redis;
use solid_notify_redis_connection::script::Script;

use crate::error::{Error, Result};
use crate::model::{
    ClaimedTask, Damaged, Due, RawAside, RawClaimed, Rescheduled, TaskLease, TaskOutcome, TaskSettled, When,
    duration_millis, time_from_millis,
};
use crate::names::{check_id, check_target};
use crate::news::News;
use crate::scripts::{self, ADD, ADD_AS, CHANGE, CLAIM, LOOK, REPLACE, SETTLE, given};

/// Maximum number of tasks in one script: Lua's `unpack` is limited, and all other calls wait while a script runs.
pub(crate) const AT_ONCE: usize = 500;

/// Timed tasks of any number of kinds.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use solid_notify_timed::{Redis, TaskLease, TaskOutcome, TimedTasks};
///
/// let tasks = TimedTasks::new(Redis::connect("redis://127.0.0.1").await?);
/// let id = tasks.add("remind", Duration::from_secs(60), &("order", 7)).await?;
/// assert!(tasks.is_scheduled("remind", &id).await?);
///
/// // In any number of consumers:
/// let due = tasks.claim::<(String, i64)>("remind", 10, &TaskLease::of(Duration::from_secs(30))).await?;
/// for task in due.tasks {
///     println!("{:?}, try {}", task.value, task.tries);
///     tasks.settle("remind", &[task.outcome(TaskOutcome::Finish)]).await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct TimedTasks {
    pub(crate) redis: Redis,
    target: Option<Arc<str>>,
    pub(crate) news: News,
}

impl TimedTasks {
    /// Returns the tasks on this connection, under its prefix.
    pub fn new(redis: Redis) -> Self {
        Self { redis, target: None, news: News::new() }
    }

    /// Uses a clock that tests turn by hand, instead of the server's. `clock` returns the time it shows.
    #[must_use]
    pub fn clock(self, clock: impl Fn() -> DateTime<Utc> + Send + Sync + 'static) -> Self {
        Self { redis: self.redis.with_clock(clock), ..self }
    }

    /// Returns the same tasks, where each task that this handle adds has a target URL: an absolute URL of any scheme, at most 2,000
    /// bytes. It is stored beside the value and returned with the task. This crate never calls it; that is up to the handler.
    ///
    /// ```no_run
    /// # async fn example(tasks: solid_notify_timed::TimedTasks) -> solid_notify_timed::Result<()> {
    /// # use std::time::Duration;
    /// let to_shop = tasks.with_target("https://shop.example/hooks/paid")?;
    /// to_shop.add("push", Duration::from_secs(5), &("order", 7)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Target`].
    pub fn with_target(&self, target: &str) -> Result<Self> {
        check_target(target)?;
        Ok(Self { target: Some(target.into()), ..self.clone() })
    }

    /// Adds a task and returns its id, a number. A time in the past means at once.
    ///
    /// # Errors
    /// [`Error::Kind`], [`Error::Encode`], [`Error::Redis`]. After a lost reply the task may have been added; only [`Self::add_as`] can be
    /// repeated. A cluster's client repeats a call by itself when its connection breaks, so the task may be added twice without
    /// an error.
    pub async fn add<T: Serialize + ?Sized>(&self, kind: &str, at: impl Into<When>, value: &T) -> Result<String> {
        let (at, value) = (at.into(), encode(kind, value)?);
        let id = self.add_values(kind, &[&at.word(), &value], "adding a task").await?;
        self.news.tell(kind, at);
        Ok(id)
    }

    /// Adds a task under an id that the caller chooses. Returns false where a task with this id exists.
    ///
    /// # Errors
    /// As [`Self::add`], and [`Error::Id`].
    pub async fn add_as<T: Serialize + ?Sized>(
        &self,
        kind: &str,
        id: &str,
        at: impl Into<When>,
        value: &T,
    ) -> Result<bool> {
        let added: i64 = self.add_with_id(&ADD_AS, kind, id, at.into(), value, "adding a task").await?;
        Ok(added == 1)
    }

    /// As [`Self::add_as`], but replaces a task that has this id. A consumer that holds it loses its lease.
    ///
    /// # Errors
    /// As [`Self::add_as`].
    pub async fn replace<T: Serialize + ?Sized>(
        &self,
        kind: &str,
        id: &str,
        at: impl Into<When>,
        value: &T,
    ) -> Result<()> {
        self.add_with_id(&REPLACE, kind, id, at.into(), value, "replacing a task").await?;
        Ok(())
    }

    /// Adds many tasks and returns their ids, in their order. Each batch of 500 is added completely or not at all.
    ///
    /// # Errors
    /// As [`Self::add`]. What was added before stays.
    pub async fn add_batch<T: Serialize>(
        &self,
        kind: &str,
        tasks: impl IntoIterator<Item = (impl Into<When>, T)>,
    ) -> Result<Vec<String>> {
        let (mut encoded, mut times) = (Vec::new(), Vec::new());
        for (at, value) in tasks {
            let at = at.into();
            encoded.push([at.word(), encode(kind, &value)?]);
            times.push(at);
        }
        let mut ids = Vec::with_capacity(encoded.len());
        for batch in encoded.chunks(AT_ONCE) {
            let args: Vec<&str> = batch.iter().flatten().map(String::as_str).collect();
            match batch.len() {
                1 => ids.push(self.add_values(kind, &args, "adding a task").await?),
                _ => ids.extend(self.add_values::<Vec<String>>(kind, &args, "adding tasks").await?),
            }
        }
        times.into_iter().for_each(|at| self.news.tell(kind, at));
        Ok(ids)
    }

    /// Claims due tasks in the order of their time, at most 500 in one call. Two consumers never hold the same task. A task that is
    /// not settled within its lease is due again at the lease's end. [`Self::run`] claims, extends and settles by itself.
    ///
    /// # Errors
    /// [`Error::Kind`], [`Error::Redis`]. After a lost reply the claimed tasks wait for the end of the lease.
    pub async fn claim<T: DeserializeOwned>(
        &self,
        kind: &str,
        limit: usize,
        lease: &TaskLease,
    ) -> Result<Due<ClaimedTask<T>>> {
        let (limit, max_tries) = (limit.min(AT_ONCE), lease.limit());
        let claim = given::Claim { limit, lease: duration_millis(lease.time), max_tries };
        let (fence, found, values, again, targets, aside, dead): RawClaimed =
            self.run_script(&CLAIM, kind, &claim, "claiming tasks").await?;
        let mut due = Due { tasks: Vec::with_capacity(found.len()), damaged: damaged(aside), dead };
        let mut undecodable = Vec::new();
        let (mut again, mut targets) = (again.into_iter().peekable(), targets.into_iter().peekable());
        for (place, ((id, score), value)) in (1..).zip(found.into_iter().zip(values)) {
            let tries = again.next_if(|(of, _)| *of == place).map_or(1, |(_, tries)| tries);
            let target = targets.next_if(|(of, _)| *of == place).map(|(_, target)| target);
            match serde_json::from_slice(&value) {
                Ok(value) => {
                    due.tasks.push(ClaimedTask { id, due: time_from_millis(score as i64), value, tries, fence, target })
                }
                Err(error) => {
                    let reason = undecodable_reason(&error);
                    due.damaged.push(Damaged { id: id.clone(), reason: reason.clone() });
                    undecodable.push(TaskSettled { id, fence, outcome: TaskOutcome::Aside(reason) });
                }
            }
        }
        if !undecodable.is_empty() {
            self.settle(kind, &undecodable).await?;
        }
        report(kind, &due.damaged);
        Ok(due)
    }

    /// Stores the outcomes of claimed tasks. Returns false for a task that its consumer no longer had the claim of; nothing was changed then.
    ///
    /// # Errors
    /// [`Error::Kind`], [`Error::Redis`]. The call can be repeated after one; it returns false then for what the first call stored.
    pub async fn settle(&self, kind: &str, outcomes: &[TaskSettled]) -> Result<Vec<bool>> {
        let mut kept = Vec::with_capacity(outcomes.len());
        for batch in outcomes.chunks(AT_ONCE) {
            let runs = batch.chunk_by(TaskSettled::is_like).filter_map(given::Run::new).collect();
            let lost: Vec<usize> = self.run_script(&SETTLE, kind, &given::Settle { runs }, "settling tasks").await?;
            kept.extend((1..=batch.len()).map(|place| !lost.contains(&place)));
        }
        for settled in outcomes {
            match settled.outcome {
                TaskOutcome::Retry(when) => self.news.tell(kind, when),
                TaskOutcome::Release => self.news.tell(kind, When::After(Duration::ZERO)),
                _ => {}
            }
        }
        Ok(kept)
    }

    /// Deletes tasks in any state: waiting, claimed (the consumer loses it), dead or put aside. Returns how many existed.
    ///
    /// # Errors
    /// [`Error::Kind`], [`Error::Redis`].
    pub async fn delete(&self, kind: &str, ids: &[&str]) -> Result<usize> {
        let done = self.change(kind, given::Verb::Delete, ids, "deleting tasks").await?;
        Ok(done.into_iter().filter(|done| *done == 1).count())
    }

    /// Changes the due time of a waiting task.
    ///
    /// # Errors
    /// [`Error::Kind`], [`Error::Redis`].
    pub async fn reschedule(&self, kind: &str, id: &str, at: impl Into<When>) -> Result<Rescheduled> {
        let at = at.into();
        let done = self.change(kind, given::Verb::Reschedule(at.into()), &[id], "rescheduling a task").await?;
        self.news.tell(kind, at);
        Ok(match done.first() {
            Some(1) => Rescheduled::Rescheduled,
            Some(2) => Rescheduled::Claimed,
            _ => Rescheduled::Unknown,
        })
    }

    /// Makes dead tasks due at once, with no tries used. Returns how many of them were dead.
    ///
    /// # Errors
    /// [`Error::Kind`], [`Error::Redis`].
    pub async fn revive(&self, kind: &str, ids: &[&str]) -> Result<usize> {
        let done = self.change(kind, given::Verb::Revive, ids, "reviving tasks").await?;
        self.news.tell(kind, When::After(Duration::ZERO));
        Ok(done.into_iter().filter(|done| *done == 1).count())
    }

    /// Deletes one batch of tasks that have been dead for longer than this. Returns their ids; repeat the call until it returns
    /// none.
    ///
    /// # Errors
    /// [`Error::Kind`], [`Error::Redis`].
    pub async fn purge(&self, kind: &str, older_than: Duration) -> Result<Vec<String>> {
        let minimum_age = duration_millis(older_than);
        self.run_script(&LOOK, kind, &given::Look::Purge { minimum_age }, "purging dead tasks").await
    }

    pub(crate) async fn change(
        &self,
        kind: &str,
        verb: given::Verb<'_>,
        ids: &[&str],
        doing: &'static str,
    ) -> Result<Vec<i64>> {
        let mut done = Vec::with_capacity(ids.len());
        for ids in ids.chunks(AT_ONCE) {
            let change = given::Change { verb: &verb, ids };
            done.extend(self.run_script::<Vec<i64>>(&CHANGE, kind, &change, doing).await?);
        }
        Ok(done)
    }

    /// Adds tasks, whose due time and value are the values.
    async fn add_values<T: FromRedisValue>(&self, kind: &str, values: &[&str], doing: &'static str) -> Result<T> {
        let keys = scripts::keys_to_add(self.redis.prefix(), kind, self.target.is_some())?;
        let values = [self.target.as_deref().as_slice(), values].concat();
        Ok(self.redis.run_with_values(&ADD, &keys, &values, doing).await?)
    }

    async fn add_with_id<T: Serialize + ?Sized>(
        &self,
        script: &Script,
        kind: &str,
        id: &str,
        at: When,
        value: &T,
        doing: &'static str,
    ) -> Result<i64> {
        check_id(id)?;
        let task = given::Task { id, due: at.into(), value: encode(kind, value)?, target: self.target.as_deref() };
        let added = self.run_script(script, kind, &task, doing).await?;
        self.news.tell(kind, at);
        Ok(added)
    }

    pub(crate) async fn run_script<T: FromRedisValue>(
        &self,
        script: &Script,
        kind: &str,
        given: &impl Serialize,
        doing: &'static str,
    ) -> Result<T> {
        Ok(self.redis.run(script, &scripts::keys(self.redis.prefix(), kind)?, given, doing).await?)
    }
}

/// The reason for putting a value aside that does not fit its type. serde's own message quotes the value, and this text is stored and logged.
pub(crate) fn undecodable_reason(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Data => "another type or shape is expected",
        _ => "it is not JSON",
    };
    format!("an undecodable value: {what} (line {}, column {})", error.line(), error.column())
}

fn encode<T: Serialize + ?Sized>(kind: &str, value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|source| Error::Encode { kind: kind.to_owned(), source })
}

pub(crate) fn damaged(aside: RawAside) -> Vec<Damaged> {
    aside.into_iter().map(|(id, reason)| Damaged { id, reason }).collect()
}

/// Logs damage.
pub(crate) fn report(kind: &str, damaged: &[Damaged]) {
    for task in damaged {
        tracing::error!(kind, id = task.id, reason = task.reason, "put aside a task that cannot be used");
    }
}
