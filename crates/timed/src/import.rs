//! [`TimedTasks::import_older`]: moves the tasks of the older layout into this crate's keys.
//!
//! On a cluster the older keys and the new ones are in other slots, so no script can move a task at once. A batch is added and marked in
//! the new keys, then removed from the older ones, then the marks are removed. After a crash the marks say what was added.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::FromRedisValue;
use serde::de::IgnoredAny;
use solid_notify_redis_connection::MAX_SCORE;

use crate::error::Result;
use crate::model::When;
use crate::names::{check_id, check_kind};
use crate::scripts::given::{Import, Mark, Older, OlderTask};
use crate::scripts::{IMPORT, OLDER};
use crate::tasks::TimedTasks;

/// The least score that is a time in milliseconds: in 1973. A time in seconds stays below it until the year 5138.
const LEAST_SCORE: f64 = 1e11;

/// What [`TimedTasks::import_older`] has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// How many tasks were added, and removed from the older keys.
    pub imported: u64,
    /// How many tasks were there already, with the same id and content. They were removed from the older keys.
    pub present: u64,
    /// The tasks that stay in the older keys, by id.
    pub left: BTreeMap<String, NotImported>,
}

/// Why a task stays in the older keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotImported {
    /// `timedTaskContent_<kind>` does not have the id. Its producer may be about to add it.
    WithoutContent,
    /// The content is no JSON.
    UnreadableContent,
    /// The score is no time in milliseconds from 1973 on.
    UnreadableScore,
    /// The id has more than 500 bytes, a control character, or no character.
    UnusableId,
    /// There is a task with this id and another content.
    OtherContent,
    /// A producer changed it during the import. The task was imported as it was before.
    Changed,
}

/// Id and score of a task in the older layout.
type Found = (Vec<u8>, String);

impl TimedTasks {
    /// Moves the tasks of the older layout: `timedTask_<kind>`, a sorted set of ids by due time in milliseconds since 1970, and
    /// `timedTaskContent_<kind>`, a hash of ids to contents, JSON. Content becomes the value. A task that cannot be imported stays and
    /// is returned.
    ///
    /// Producers of the older layout may go on; a further call imports what they add. Stop its consumers before, because they would
    /// run the same tasks. Any number of processes may call this at the same time, and again after a crash: no task is lost, and
    /// none is added twice. Each 500 tasks take seven calls of Redis.
    ///
    /// ```no_run
    /// # async fn example(tasks: solid_notify_timed::TimedTasks) -> solid_notify_timed::Result<()> {
    /// let imported = tasks.import_older("remind").await?;
    /// println!("{} imported, {} left: {:?}", imported.imported, imported.left.len(), imported.left);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::Kind`], [`crate::Error::Redis`]. What was imported before stays; call it again.
    pub async fn import_older(&self, kind: &str) -> Result<Imported> {
        check_kind(kind)?;
        let import = Importer {
            tasks: self,
            kind,
            due: format!("timedTask_{kind}"),
            contents: format!("timedTaskContent_{kind}"),
        };
        let (mut done, mut cursor) = (Imported::default(), "0".to_owned());
        loop {
            // Before anything is read of the older keys.
            let batches = import.begin().await?;
            let scan = Older::Scan { cursor: &cursor };
            let (next, found): (String, Vec<Found>) = import.older(&import.due, &scan, "reading older tasks").await?;
            if !import.batch(&batches, found, &mut done).await? {
                continue;
            }
            cursor = next;
            if cursor == "0" {
                return Ok(done);
            }
        }
    }
}

struct Importer<'a> {
    tasks: &'a TimedTasks,
    kind: &'a str,
    due: String,
    contents: String,
}

impl Importer<'_> {
    /// Ends the batches that were not ended, and returns the number of batches so far.
    async fn begin(&self) -> Result<String> {
        loop {
            let (batches, marks): (String, Vec<(String, String, String)>) =
                self.new_keys(&Import::Begin, "beginning an import").await?;
            if marks.is_empty() {
                return Ok(batches);
            }
            let marks: Vec<Mark> = marks.into_iter().map(|(id, score, sha1)| Mark { id, score, sha1 }).collect();
            self.end(marks, &mut BTreeMap::new()).await?;
        }
    }

    /// Imports what was found. Returns false if it must be read again, because another process has imported meanwhile.
    async fn batch(&self, batches: &str, found: Vec<Found>, done: &mut Imported) -> Result<bool> {
        let mut tasks = Vec::with_capacity(found.len());
        for (id, score) in found {
            match (String::from_utf8(id), millis(&score)) {
                (Ok(id), Some(due)) if check_id(&id).is_ok() => tasks.push((id, score, due)),
                (Ok(id), None) => drop(done.left.insert(id, NotImported::UnreadableScore)),
                (Ok(id), Some(_)) => drop(done.left.insert(id, NotImported::UnusableId)),
                (Err(id), _) => {
                    let id = String::from_utf8_lossy(id.as_bytes()).into_owned();
                    done.left.insert(id, NotImported::UnusableId);
                }
            }
        }
        if tasks.is_empty() {
            return Ok(true);
        }
        let ids: Vec<String> = tasks.iter().map(|(id, ..)| id.clone()).collect();
        let read = Older::Contents { ids: &ids };
        let contents: Vec<Option<Vec<u8>>> =
            self.older(&self.contents, &read, "reading contents of older tasks").await?;
        let mut readable = Vec::with_capacity(tasks.len());
        for ((id, score, due), content) in tasks.iter().zip(&contents) {
            let value = content.as_deref().map(|content| std::str::from_utf8(content).unwrap_or_default());
            match value {
                None => drop(done.left.insert(id.clone(), NotImported::WithoutContent)),
                Some(value) if serde_json::from_str::<IgnoredAny>(value).is_ok() => {
                    readable.push(OlderTask { id, score, due: *due, value });
                }
                Some(_) => drop(done.left.insert(id.clone(), NotImported::UnreadableContent)),
            }
        }
        let add = Import::Add { batches, tasks: &readable };
        let fates: Vec<(String, String)> = self.new_keys(&add, "adding older tasks").await?;
        if fates.len() < readable.len() {
            return Ok(false);
        }
        let mut marks = Vec::with_capacity(readable.len());
        for (OlderTask { id, score, .. }, (sha1, fate)) in readable.iter().zip(fates) {
            let counter = match fate.as_str() {
                "added" => &mut done.imported,
                "present" => &mut done.present,
                _ => {
                    done.left.insert((*id).to_owned(), NotImported::OtherContent);
                    continue;
                }
            };
            *counter += 1;
            done.left.remove(*id);
            marks.push(Mark { id: (*id).to_owned(), score: (*score).to_owned(), sha1 });
        }
        if !marks.is_empty() {
            self.end(marks, &mut done.left).await?;
            self.tasks.news.tell(self.kind, When::After(Duration::ZERO));
        }
        Ok(true)
    }

    /// Removes tasks from the older keys that have been added to the new ones, then their marks. What has changed meanwhile stays.
    async fn end(&self, marks: Vec<Mark>, left: &mut BTreeMap<String, NotImported>) -> Result<()> {
        let remove = Older::RemoveScores { marks: &marks };
        let kept: Vec<usize> = self.older(&self.due, &remove, "removing older tasks").await?;
        let is_kept = |place: usize| kept.contains(&place);
        let (moved, gone): (Vec<_>, Vec<_>) = (1..).zip(marks).partition(|(place, _)| is_kept(*place));
        let [moved, gone] = [moved, gone].map(|marks| marks.into_iter().map(|(_, mark)| mark).collect::<Vec<Mark>>());
        let remove = Older::RemoveContents { marks: &gone };
        let kept: Vec<usize> = self.older(&self.contents, &remove, "removing contents of older tasks").await?;
        let rewritten: Vec<&Mark> = kept.iter().filter_map(|place| gone.get(place.checked_sub(1)?)).collect();
        if !rewritten.is_empty() {
            let restore = Older::RestoreScores { marks: &rewritten };
            let _: Vec<usize> = self.older(&self.due, &restore, "restoring older tasks").await?;
        }
        for mark in moved.iter().chain(rewritten) {
            left.insert(mark.id.clone(), NotImported::Changed);
        }
        for marks in [moved, gone].iter().filter(|marks| !marks.is_empty()) {
            let _: Vec<usize> = self.new_keys(&Import::Done { marks }, "ending a batch of an import").await?;
        }
        Ok(())
    }

    async fn new_keys<T: FromRedisValue>(&self, given: &Import<'_>, doing: &'static str) -> Result<T> {
        self.tasks.run_script(&IMPORT, self.kind, given, doing).await
    }

    async fn older<T: FromRedisValue>(&self, key: &String, given: &Older<'_>, doing: &'static str) -> Result<T> {
        Ok(self.tasks.redis.run(&OLDER, std::slice::from_ref(key), given, doing).await?)
    }
}

/// Reads a score as milliseconds since 1970, rounded up so that no task is due too early.
fn millis(score: &str) -> Option<i64> {
    let score: f64 = score.parse().ok()?;
    (LEAST_SCORE..=MAX_SCORE as f64).contains(&score).then_some(score.ceil() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_a_time_in_milliseconds() {
        assert_eq!(millis("1700000000000"), Some(1_700_000_000_000));
        assert_eq!(millis("1.7000000000000000e12"), Some(1_700_000_000_000));
        assert_eq!(millis("1700000000000.25"), Some(1_700_000_000_001));
        for unreadable in ["1700000000", "0", "-1700000000000", "inf", "-inf", "nan", "1e300", ""] {
            assert_eq!(millis(unreadable), None, "{unreadable}");
        }
    }
}
