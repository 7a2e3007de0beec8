//! What can be read of timed tasks without claiming them: what is due, and when; counts; dead tasks; what was put aside.

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;

use crate::error::Result;
use crate::model::{Damaged, DeadTask, Due, RawAside, RawDead, RawDue, Task, TaskCounts, time_from_millis};
use crate::scripts::{self, DUE, LOOK, given};
use crate::tasks::{AT_ONCE, TimedTasks, damaged, report, undecodable_reason};

impl TimedTasks {
    /// Returns due tasks in the order of their time without claiming them, for a program that is the only reader and deletes what
    /// it has done. Tasks that cannot be used are put aside and reported.
    ///
    /// `limit` is the maximum number of tasks; `usize::MAX` returns all. Each 500 are one script. A task that is added, deleted or
    /// moved between two of them may be in the result or not; each other due task is in it once.
    ///
    /// # Errors
    /// [`crate::Error::Kind`], [`crate::Error::Redis`].
    pub async fn due<T: DeserializeOwned>(&self, kind: &str, limit: usize) -> Result<Due<Task<T>>> {
        let mut due = Due { tasks: Vec::new(), damaged: Vec::new(), dead: Vec::new() };
        let (mut seen, mut last) = (HashSet::new(), None::<(f64, String)>);
        while due.tasks.len() < limit {
            let after = last.as_ref().map(|(score, id)| given::After { score: score.to_string(), id });
            let page = given::Due { limit: (limit - due.tasks.len()).min(AT_ONCE), after };
            let (found, tries, targets, aside, no_more): RawDue =
                self.run_script(&DUE, kind, &page, "looking for due tasks").await?;
            due.damaged.extend(damaged(aside));
            for (((id, score, value), tries), target) in found.into_iter().zip(tries).zip(targets) {
                last = Some((score, id.clone()));
                if !seen.insert(id.clone()) {
                    continue;
                }
                let target = Some(target).filter(|target| !target.is_empty());
                match serde_json::from_slice(&value) {
                    Ok(value) => due.tasks.push(Task { id, due: time_from_millis(score as i64), value, tries, target }),
                    Err(error) => {
                        let reason = undecodable_reason(&error);
                        let put_aside = given::Verb::SetAside { reason: &reason };
                        self.change(kind, put_aside, &[&id], "putting a task aside").await?;
                        due.damaged.push(Damaged { id, reason });
                    }
                }
            }
            if no_more == 1 {
                break;
            }
        }
        report(kind, &due.damaged);
        Ok(due)
    }

    /// Returns the time at which a claim may next find a task: the due time of the earliest task, which may be over, or the end of
    /// the earliest lease. `None` if no task waits or is claimed.
    ///
    /// # Errors
    /// [`crate::Error::Kind`], [`crate::Error::Redis`].
    pub async fn next_due(&self, kind: &str) -> Result<Option<DateTime<Utc>>> {
        let (_, next) = self.now_and_next_due(kind).await?;
        Ok(next.map(time_from_millis))
    }

    /// Returns how long it is until [`Self::next_due`], by Redis's time.
    pub(crate) async fn until_next_due(&self, kind: &str) -> Result<Option<Duration>> {
        let (now, next) = self.now_and_next_due(kind).await?;
        Ok(next.map(|next| Duration::from_millis(next.saturating_sub(now).try_into().unwrap_or(0))))
    }

    /// Returns both in milliseconds.
    async fn now_and_next_due(&self, kind: &str) -> Result<(i64, Option<i64>)> {
        let scores: Vec<f64> =
            self.run_script(&LOOK, kind, &given::Look::NextDue, "looking for the next due task").await?;
        let at = |place: usize| scores.get(place).map(|score| score.ceil() as i64);
        Ok((at(0).unwrap_or_default(), at(1)))
    }

    /// Returns whether a task waits or is claimed.
    ///
    /// # Errors
    /// [`crate::Error::Kind`], [`crate::Error::Redis`].
    pub async fn is_scheduled(&self, kind: &str, id: &str) -> Result<bool> {
        let found: i64 = self.run_script(&LOOK, kind, &given::Look::IsScheduled { id }, "looking for a task").await?;
        Ok(found == 1)
    }

    /// Returns how many tasks there are.
    ///
    /// # Errors
    /// [`crate::Error::Kind`], [`crate::Error::Redis`].
    pub async fn count(&self, kind: &str) -> Result<TaskCounts> {
        let (open, due, claimed, dead, aside): (u64, u64, u64, u64, u64) =
            self.run_script(&LOOK, kind, &given::Look::Count, "counting tasks").await?;
        Ok(TaskCounts { waiting: open.saturating_sub(claimed), due, claimed, dead, aside })
    }

    /// Returns dead tasks, the latest first, at most 500, with their stored values.
    ///
    /// # Errors
    /// [`crate::Error::Kind`], [`crate::Error::Redis`].
    pub async fn dead(&self, kind: &str, limit: usize) -> Result<Vec<DeadTask>> {
        let look = given::Look::Dead { limit: limit.min(AT_ONCE) };
        let found: Vec<RawDead> = self.run_script(&LOOK, kind, &look, "reading dead tasks").await?;
        let dead = |(id, score, reason, tries, value, target): RawDead| {
            let (died, value) = (time_from_millis(score as i64), String::from_utf8_lossy(&value).into_owned());
            DeadTask { id, died, reason, tries, value, target: Some(target).filter(|target| !target.is_empty()) }
        };
        Ok(found.into_iter().map(dead).collect())
    }

    /// Puts all entries aside that are in no set, because they would never be due. This crate leaves no such entries, but an edit
    /// by hand may. A claim that finds nothing checks a few entries once a second; this call checks all at once.
    ///
    /// # Errors
    /// [`crate::Error::Kind`], [`crate::Error::Redis`].
    pub async fn check(&self, kind: &str) -> Result<Vec<Damaged>> {
        let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
        loop {
            let (next, aside): (String, RawAside) =
                self.run_script(&LOOK, kind, &given::Look::Check { cursor: &cursor }, "checking the tasks").await?;
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
    /// [`crate::Error::Kind`], [`crate::Error::Redis`].
    pub async fn aside(&self, kind: &str) -> Result<RawAside> {
        let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
        loop {
            let (next, page): (String, Vec<Vec<u8>>) = self
                .run_script(
                    &LOOK,
                    kind,
                    &given::Look::Aside { cursor: &cursor },
                    "reading the tasks that were put aside",
                )
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
    /// [`crate::Error::Kind`], [`crate::Error::Redis`].
    pub async fn now(&self, kind: &str) -> Result<DateTime<Utc>> {
        Ok(self.redis.now(&scripts::keys(self.redis.prefix(), kind)?[0]).await?)
    }
}
