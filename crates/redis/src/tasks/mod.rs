//! [`TimedTasks`]: one-shot tasks with a due time. A delayed queue for programs that use nothing else of this workspace.
//!
//! Each kind is a few keys in one slot of a cluster, and each call is one script there. The consumers decide what a task means
//! and run it.

use chrono::{DateTime, Utc};
mod model;
mod scripts;

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use solid_notify_core::notice::{duration_millis, time_from_millis};

pub use model::{
    ClaimedTask, Damaged, DeadTask, Due, Rescheduled, Task, TaskCounts, TaskLease, TaskOutcome, TaskSettled, When,
};

use crate::connection::Redis;
use crate::error::{Error, Result};
use model::{RawAside, RawClaimed, RawDead, RawTasks};
use scripts::{ADD, ADD_AS, CHANGE, CLAIM, DUE, LOOK, REPLACE, SETTLE};

/// Maximum number of tasks in one script: Lua's `unpack` is limited, and all other calls wait while a script runs.
const AT_ONCE: usize = 500;
/// The reason for putting a value aside that does not fit its type.
const UNDECODABLE: &str = "an undecodable value";

/// Timed tasks of any number of kinds.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use solid_notify_redis::{TaskLease, TaskOutcome, Redis, TimedTasks};
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

    /// Adds a task and returns its id, a number. A time in the past means at once.
    ///
    /// # Errors
    /// [`Error::Encode`], [`Error::Redis`]. After a lost reply the task may have been added; only [`Self::add_as`] can be
    /// repeated. A cluster's client repeats a call by itself when its connection breaks, so the task may be added twice without
    /// an error.
    pub async fn add<T: Serialize + ?Sized>(&self, kind: &str, at: impl Into<When>, value: &T) -> Result<String> {
        let (due, value) = (at.into().word(), encode(kind, value)?);
        let keys = scripts::keys_to_add(self.redis.prefix(), kind);
        self.redis.run(&ADD, &keys, &[&due, &value], "adding a task").await
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
        let (due, value) = (at.into().word(), encode(kind, value)?);
        let added: i64 = self.run(&ADD_AS, kind, &[id, &due, &value], "adding a task").await?;
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
        let (due, value) = (at.into().word(), encode(kind, value)?);
        let _: i64 = self.run(&REPLACE, kind, &[id, &due, &value], "replacing a task").await?;
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
        let keys = scripts::keys_to_add(self.redis.prefix(), kind);
        let mut ids = Vec::with_capacity(encoded.len());
        for window in encoded.chunks(AT_ONCE) {
            let args: Vec<&str> = window.iter().flatten().map(String::as_str).collect();
            match window.len() {
                1 => ids.push(self.redis.run(&ADD, &keys, &args, "adding a task").await?),
                _ => ids.extend(self.redis.run::<Vec<String>>(&ADD, &keys, &args, "adding tasks").await?),
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
        let limit = limit.min(AT_ONCE).to_string();
        let (found, tries, aside): (RawTasks, Vec<u64>, RawAside) =
            self.run(&DUE, kind, &[&limit], "looking for due tasks").await?;
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
            self.change(kind, "aside", &reason, &[&id], "putting a task aside").await?;
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
    /// Stores the outcomes of claimed tasks. Returns false for a task that its consumer no longer held; nothing was changed then.
    pub async fn claim<T: DeserializeOwned>(
        &self,
        kind: &str,
        limit: usize,
        lease: &TaskLease,
    ) -> Result<Due<ClaimedTask<T>>> {
        let (limit, ms) = (limit.min(AT_ONCE).to_string(), duration_millis(lease.time).to_string());
        let most = lease.max_tries.unwrap_or(0).to_string();
        let (fence, found, values, again, aside, dead): RawClaimed =
            self.run(&CLAIM, kind, &[&limit, &ms, &most], "claiming tasks").await?;
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

    /// Stores what became of claimed tasks, many at once; false for each that its consumer no longer held: nothing was changed.
    ///
    /// # Errors
    /// [`Error::Redis`]. The call can be repeated after one; it returns false then for what the first call stored.
    pub async fn settle(&self, kind: &str, outcomes: &[TaskSettled]) -> Result<Vec<bool>> {
        let mut held = Vec::with_capacity(outcomes.len());
        for window in outcomes.chunks(AT_ONCE) {
            let runs: Vec<_> = window
                .chunk_by(TaskSettled::is_like)
                .filter_map(|run| TaskSettled::words(run).zip(Some(run)))
                .collect();
            let args = runs.iter().flat_map(|(words, run)| {
                words.iter().map(String::as_str).chain(run.iter().map(|outcome| outcome.id.as_str()))
            });
            let args: Vec<&str> = args.collect();
            let lost: Vec<usize> = self.run(&SETTLE, kind, &args, "settling tasks").await?;
            held.extend((1..=window.len()).map(|place| !lost.contains(&place)));
        }
        Ok(held)
    }

    /// Deletes tasks in any state: waiting, held (the consumer loses it), dead or put aside. Returns how many existed.
    ///
    /// # Errors
    /// [`Error::Redis`].
    pub async fn delete(&self, kind: &str, ids: &[&str]) -> Result<usize> {
        let done = self.change(kind, "delete", "", ids, "deleting tasks").await?;
        Ok(done.into_iter().filter(|done| *done == 1).count())
    }

    /// Changes the due time of a waiting task.
    ///
    /// # Errors
    /// [`Error::Redis`].
    pub async fn reschedule(&self, kind: &str, id: &str, at: impl Into<When>) -> Result<Rescheduled> {
        let done = self.change(kind, "due", &at.into().word(), &[id], "rescheduling a task").await?;
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
        let found: i64 = self.run(&LOOK, kind, &["is_scheduled", id], "looking for a task").await?;
        Ok(found == 1)
    }

    /// Returns how many tasks there are.
    ///
    /// # Errors
    /// [`Error::Redis`].
    pub async fn count(&self, kind: &str) -> Result<TaskCounts> {
        let (open, due, held, dead, aside): (u64, u64, u64, u64, u64) =
            self.run(&LOOK, kind, &["count"], "counting tasks").await?;
        Ok(TaskCounts { waiting: open.saturating_sub(held), due, held, dead, aside })
    }

    /// Returns dead tasks, the latest first, with their stored values.
    ///
    /// # Errors
    /// [`Error::Redis`].
    pub async fn dead(&self, kind: &str, limit: usize) -> Result<Vec<DeadTask>> {
        let limit = limit.min(AT_ONCE).to_string();
        let found: Vec<RawDead> = self.run(&LOOK, kind, &["dead", &limit], "reading dead tasks").await?;
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
        let done = self.change(kind, "revive", "", ids, "reviving tasks").await?;
        Ok(done.into_iter().filter(|done| *done == 1).count())
    }

    /// Deletes one window of tasks that have been dead for longer than this. Returns their ids; repeat the call until it returns
    /// none.
    ///
    /// # Errors
    /// [`Error::Redis`].
    pub async fn purge(&self, kind: &str, older_than: Duration) -> Result<Vec<String>> {
        let ms = duration_millis(older_than).to_string();
        self.run(&LOOK, kind, &["purge", &ms], "purging dead tasks").await
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
                self.run(&LOOK, kind, &["check", &cursor], "checking the tasks").await?;
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
            let (next, page): (String, Vec<Vec<u8>>) =
                self.run(&LOOK, kind, &["aside", &cursor], "reading the tasks that were put aside").await?;
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
        self.redis.now(&scripts::keys(self.redis.prefix(), kind)[0]).await
    }

    async fn change(&self, kind: &str, what: &str, more: &str, ids: &[&str], doing: &'static str) -> Result<Vec<i64>> {
        let mut done = Vec::with_capacity(ids.len());
        for window in ids.chunks(AT_ONCE) {
            let mut args = vec![what, more];
            args.extend(window);
            done.extend(self.run::<Vec<i64>>(&CHANGE, kind, &args, doing).await?);
        }
        Ok(done)
    }

    async fn run<T: redis::FromRedisValue>(
        &self,
        script: &crate::connection::Script,
        kind: &str,
        args: &[&str],
        doing: &'static str,
    ) -> Result<T> {
        self.redis.run(script, &scripts::keys(self.redis.prefix(), kind), args, doing).await
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
