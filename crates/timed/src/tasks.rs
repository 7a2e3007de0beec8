//! [`TimedTasks`]: one-shot tasks with a due time. A delayed queue for programs that use nothing else of this workspace.
//!
//! Each kind is a few keys in one slot of a cluster, and each call is one script there. The consumers decide what a task means
//! and run it.

use std::time::Duration;

use chrono::{DateTime, Utc};
use redis::FromRedisValue;
use serde::Serialize;
use serde::de::DeserializeOwned;
use solid_notify_redis_connection::Redis;
use solid_notify_redis_connection::script::Script;

use crate::error::{Error, Result};
use crate::model::{
    ClaimedTask, Damaged, DeadTask, Due, RawAside, RawClaimed, RawDead, RawTasks, Rescheduled, Task, TaskCounts,
    TaskLease, TaskOutcome, TaskSettled, When, duration_millis, time_from_millis,
};
use crate::scripts::{self, ADD, ADD_AS, CHANGE, CLAIM, DUE, LOOK, REPLACE, SETTLE, given};

/// Maximum number of tasks in one script: Lua's `unpack` is limited, and all other calls wait while a script runs.
const AT_ONCE: usize = 500;
/// The reason for putting a value aside that does not fit its type.
const UNDECODABLE: &str = "an undecodable value";

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
    redis: Redis,
}

impl TimedTasks {
    /// Returns the tasks on this connection, under its prefix.
    pub fn new(redis: Redis) -> Self {
        Self { redis }
    }

    /// Uses a clock that tests turn by hand, instead of the server's. `clock` returns the time it shows.
    #[must_use]
    pub fn clock(self, clock: impl Fn() -> DateTime<Utc> + Send + Sync + 'static) -> Self {
        Self { redis: self.redis.with_clock(clock) }
    }

    /// Adds a task and returns its id, a number. A time in the past means at once.
    ///
    /// # Errors
    /// [`Error::Encode`], [`Error::Redis`]. After a lost reply the task may have been added; only [`Self::add_as`] can be
    /// repeated. A cluster's client repeats a call by itself when its connection breaks, so the task may be added twice without
    /// an error.
    pub async fn add<T: Serialize + ?Sized>(&self, kind: &str, at: impl Into<When>, value: &T) -> Result<String> {
        let (due, value) = (at.into().word(), encode(kind, value)?);
        self.add_values(kind, &[&due, &value], "adding a task").await
    }

    /// Adds a task under an id that the caller chooses. Returns false where a task with this id exists.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub async fn add_as<T: Serialize + ?Sized>(
        &self,
        kind: &str,
        id: &str,
        at: impl Into<When>,
        value: &T,
    ) -> Result<bool> {
        let task = given::Task { id, due: at.into().into(), value: encode(kind, value)? };
        let added: i64 = self.run(&ADD_AS, kind, &task, "adding a task").await?;
        Ok(added == 1)
    }

    /// As [`Self::add_as`], but replaces a task that has this id. A consumer that holds it loses its lease.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub async fn replace<T: Serialize + ?Sized>(
        &self,
        kind: &str,
        id: &str,
        at: impl Into<When>,
        value: &T,
    ) -> Result<()> {
        let task = given::Task { id, due: at.into().into(), value: encode(kind, value)? };
        let _: i64 = self.run(&REPLACE, kind, &task, "replacing a task").await?;
        Ok(())
    }

    /// Adds many tasks and returns their ids, in their order. Each window of 500 is added completely or not at all.
    ///
    /// # Errors
    /// As [`Self::add`]. What was added before stays.
    pub async fn add_batch<T: Serialize>(
        &self,
        kind: &str,
        tasks: impl IntoIterator<Item = (impl Into<When>, T)>,
    ) -> Result<Vec<String>> {
        let encoded = tasks.into_iter().map(|(at, value)| Ok([at.into().word(), encode(kind, &value)?]));
        let encoded = encoded.collect::<Result<Vec<_>>>()?;
        let mut ids = Vec::with_capacity(encoded.len());
        for window in encoded.chunks(AT_ONCE) {
            let args: Vec<&str> = window.iter().flatten().map(String::as_str).collect();
            match window.len() {
                1 => ids.push(self.add_values(kind, &args, "adding a task").await?),
                _ => ids.extend(self.add_values::<Vec<String>>(kind, &args, "adding tasks").await?),
            }
        }
        Ok(ids)
    }

    /// Returns due tasks in the order of their time without claiming them, for a program that is the only reader and deletes what
    /// it has done. Tasks that cannot be used are put aside and reported.
    ///
    /// # Errors
    /// [`Error::Redis`].
    pub async fn due<T: DeserializeOwned>(&self, kind: &str, limit: usize) -> Result<Due<Task<T>>> {
        let limit = given::Limit { limit: limit.min(AT_ONCE) };
        let (found, tries, aside): (RawTasks, Vec<u64>, RawAside) =
            self.run(&DUE, kind, &limit, "looking for due tasks").await?;
        let mut due = Due { tasks: Vec::with_capacity(found.len()), damaged: damaged(aside), dead: Vec::new() };
        let mut undecodable = Vec::new();
        for ((id, score, value), tries) in found.into_iter().zip(tries) {
            match serde_json::from_slice(&value) {
                Ok(value) => due.tasks.push(Task { id, due: time_from_millis(score as i64), value, tries }),
                Err(error) => undecodable.push((id, error.to_string())),
            }
        }
        for (id, error) in undecodable {
            let reason = format!("{UNDECODABLE}: {error}");
            let put_aside = given::Verb::SetAside { reason: &reason };
            self.change(kind, put_aside, &[&id], "putting a task aside").await?;
            due.damaged.push(Damaged { id, reason });
        }
        report(kind, &due.damaged);
        Ok(due)
    }

    /// Claims due tasks in the order of their time. Two consumers never hold the same task. A task that is not settled within its
    /// lease is due again at the lease's end.
    ///
    /// # Errors
    /// [`Error::Redis`]. After a lost reply the claimed tasks wait for the end of the lease.
    pub async fn claim<T: DeserializeOwned>(
        &self,
        kind: &str,
        limit: usize,
        lease: &TaskLease,
    ) -> Result<Due<ClaimedTask<T>>> {
        let max_tries = lease.max_tries.filter(|tries| *tries > 0);
        let claim = given::Claim { limit: limit.min(AT_ONCE), lease: duration_millis(lease.time), max_tries };
        let (fence, found, values, again, aside, dead): RawClaimed =
            self.run(&CLAIM, kind, &claim, "claiming tasks").await?;
        let mut due = Due { tasks: Vec::with_capacity(found.len()), damaged: damaged(aside), dead };
        let mut undecodable = Vec::new();
        let mut again = again.into_iter().peekable();
        for (place, ((id, score), value)) in (1..).zip(found.into_iter().zip(values)) {
            let tries = again.next_if(|(of, _)| *of == place).map_or(1, |(_, tries)| tries);
            match serde_json::from_slice(&value) {
                Ok(value) => {
                    due.tasks.push(ClaimedTask { id, due: time_from_millis(score as i64), value, tries, fence })
                }
                Err(error) => {
                    let reason = format!("{UNDECODABLE}: {error}");
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

    /// Stores the outcomes of claimed tasks. Returns false for a task that its consumer no longer held; nothing was changed then.
    ///
    /// # Errors
    /// [`Error::Redis`]. The call can be repeated after one; it returns false then for what the first call stored.
    pub async fn settle(&self, kind: &str, outcomes: &[TaskSettled]) -> Result<Vec<bool>> {
        let mut held = Vec::with_capacity(outcomes.len());
        for window in outcomes.chunks(AT_ONCE) {
            let runs = window.chunk_by(TaskSettled::is_like).filter_map(given::Run::new).collect();
            let lost: Vec<usize> = self.run(&SETTLE, kind, &given::Settle { runs }, "settling tasks").await?;
            held.extend((1..=window.len()).map(|place| !lost.contains(&place)));
        }
        Ok(held)
    }

    /// Deletes tasks in any state: waiting, held (the consumer loses it), dead or put aside. Returns how many existed.
    ///
    /// # Errors
    /// [`Error::Redis`].
    pub async fn delete(&self, kind: &str, ids: &[&str]) -> Result<usize> {
        let done = self.change(kind, given::Verb::Delete, ids, "deleting tasks").await?;
        Ok(done.into_iter().filter(|done| *done == 1).count())
    }

    /// Changes the due time of a waiting task.
    ///
    /// # Errors
    /// [`Error::Redis`].
    pub async fn reschedule(&self, kind: &str, id: &str, at: impl Into<When>) -> Result<Rescheduled> {
        let done = self.change(kind, given::Verb::Reschedule(at.into().into()), &[id], "rescheduling a task").await?;
        Ok(match done.first() {
            Some(1) => Rescheduled::Done,
            Some(2) => Rescheduled::Held,
            _ => Rescheduled::Unknown,
        })
    }

    /// Returns whether a task waits or is held.
    ///
    /// # Errors
    /// [`Error::Redis`].
    pub async fn is_scheduled(&self, kind: &str, id: &str) -> Result<bool> {
        let found: i64 = self.run(&LOOK, kind, &given::Look::IsScheduled { id }, "looking for a task").await?;
        Ok(found == 1)
    }

    /// Returns how many tasks there are.
    ///
    /// # Errors
    /// [`Error::Redis`].
    pub async fn count(&self, kind: &str) -> Result<TaskCounts> {
        let (open, due, held, dead, aside): (u64, u64, u64, u64, u64) =
            self.run(&LOOK, kind, &given::Look::Count, "counting tasks").await?;
        Ok(TaskCounts { waiting: open.saturating_sub(held), due, held, dead, aside })
    }

    /// Returns dead tasks, the latest first, with their stored values.
    ///
    /// # Errors
    /// [`Error::Redis`].
    pub async fn dead(&self, kind: &str, limit: usize) -> Result<Vec<DeadTask>> {
        let look = given::Look::Dead { limit: limit.min(AT_ONCE) };
        let found: Vec<RawDead> = self.run(&LOOK, kind, &look, "reading dead tasks").await?;
        let dead = |(id, score, reason, tries, value): RawDead| {
            let (died, value) = (time_from_millis(score as i64), String::from_utf8_lossy(&value).into_owned());
            DeadTask { id, died, reason, tries, value }
        };
        Ok(found.into_iter().map(dead).collect())
    }

    /// Makes dead tasks due at once, with no tries used. Returns how many of them were dead.
    ///
    /// # Errors
    /// [`Error::Redis`].
    pub async fn revive(&self, kind: &str, ids: &[&str]) -> Result<usize> {
        let done = self.change(kind, given::Verb::Revive, ids, "reviving tasks").await?;
        Ok(done.into_iter().filter(|done| *done == 1).count())
    }

    /// Deletes one window of tasks that have been dead for longer than this. Returns their ids; repeat the call until it returns
    /// none.
    ///
    /// # Errors
    /// [`Error::Redis`].
    pub async fn purge(&self, kind: &str, older_than: Duration) -> Result<Vec<String>> {
        let minimum_age = duration_millis(older_than);
        self.run(&LOOK, kind, &given::Look::Purge { minimum_age }, "purging dead tasks").await
    }

    /// Puts all entries aside that are in no set, because they would never be due. This crate leaves no such entries, but an edit
    /// by hand may. A claim that finds nothing checks a few entries once a second; this call checks all at once.
    ///
    /// # Errors
    /// [`Error::Redis`].
    pub async fn check(&self, kind: &str) -> Result<Vec<Damaged>> {
        let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
        loop {
            let (next, aside): (String, RawAside) =
                self.run(&LOOK, kind, &given::Look::Check { cursor: &cursor }, "checking the tasks").await?;
            found.extend(damaged(aside));
            cursor = next;
            if cursor == "0" {
                report(kind, &found);
                return Ok(found);
            }
        }
    }

    /// Returns the ids of what was put aside, each with a JSON text of the reason, the time, and the value if there was one.
    ///
    /// # Errors
    /// [`Error::Redis`].
    pub async fn aside(&self, kind: &str) -> Result<RawAside> {
        let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
        loop {
            let (next, page): (String, Vec<Vec<u8>>) = self
                .run(&LOOK, kind, &given::Look::Aside { cursor: &cursor }, "reading the tasks that were put aside")
                .await?;
            let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
            found.extend(page.chunks_exact(2).map(|pair| (text(&pair[0]), text(&pair[1]))));
            cursor = next;
            if cursor == "0" {
                found.sort();
                found.dedup();
                return Ok(found);
            }
        }
    }

    /// Returns the time that the tasks of this kind use, which is Redis's.
    ///
    /// # Errors
    /// [`Error::Redis`].
    pub async fn now(&self, kind: &str) -> Result<DateTime<Utc>> {
        Ok(self.redis.now(&scripts::keys(self.redis.prefix(), kind)[0]).await?)
    }

    async fn change(&self, kind: &str, verb: given::Verb<'_>, ids: &[&str], doing: &'static str) -> Result<Vec<i64>> {
        let mut done = Vec::with_capacity(ids.len());
        for ids in ids.chunks(AT_ONCE) {
            let change = given::Change { verb: &verb, ids };
            done.extend(self.run::<Vec<i64>>(&CHANGE, kind, &change, doing).await?);
        }
        Ok(done)
    }

    /// Adds tasks, whose due time and value are the values.
    async fn add_values<T: FromRedisValue>(&self, kind: &str, values: &[&str], doing: &'static str) -> Result<T> {
        let keys = scripts::keys_to_add(self.redis.prefix(), kind);
        Ok(self.redis.run_with_values(&ADD, &keys, values, doing).await?)
    }

    async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        kind: &str,
        given: &impl Serialize,
        doing: &'static str,
    ) -> Result<T> {
        Ok(self.redis.run(script, &scripts::keys(self.redis.prefix(), kind), given, doing).await?)
    }
}

fn encode<T: Serialize + ?Sized>(kind: &str, value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|source| Error::Encode { kind: kind.to_owned(), source })
}

fn damaged(aside: RawAside) -> Vec<Damaged> {
    aside.into_iter().map(|(id, reason)| Damaged { id, reason }).collect()
}

fn report(kind: &str, damaged: &[Damaged]) {
    for task in damaged {
        tracing::error!(kind, id = task.id, reason = task.reason, "put aside a task that cannot be used");
    }
}
