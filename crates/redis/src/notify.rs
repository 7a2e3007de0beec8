//! [`RedisNotify`]: an outbox over Redis, and [`RedisBatch`]: notices that are written together, or not at all.
//!
//! There is no transaction to be part of: what is added exists when the call returns.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use solid_notify_core::add::nearest_name;
use solid_notify_core::confirm::{Confirmation, Confirmed};
use solid_notify_core::lane::{Fresh, Outcome, Report};
use solid_notify_core::param::DEFAULT_PARAM_LIMIT;
use solid_notify_core::{Added, Error, NewNotice, NoticeConnection, Operate, Outbox, Receipt, Result};

use crate::connection::Redis;
use crate::store::{RedisStore, def_of};

/// An outbox over Redis. Through `Deref` it has everything of [`Outbox`], so sweepers, operators and the dashboard take it like
/// that of a database. Clones share everything.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use solid_notify_core::{NotifyDef, add_notice};
/// use solid_notify_redis::{Redis, RedisNotify};
///
/// let mut notify = RedisNotify::new(Redis::connect("redis://127.0.0.1").await?);
/// notify.define(NotifyDef::new("push").retry_interval("[5s,10s,15s]")).await?;
/// let added = add_notice(&mut notify, "push", 7).await?;
/// assert!(notify.find(added.id()).await?.is_some());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct RedisNotify {
    store: Arc<RedisStore>,
    outbox: Outbox,
    param_limit: usize,
}

/// How many successes of a definition are kept, unless something else is said.
const HISTORY_LIMIT: usize = 100_000;

impl std::fmt::Debug for RedisNotify {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisNotify").finish_non_exhaustive()
    }
}

impl Deref for RedisNotify {
    type Target = Outbox;

    fn deref(&self) -> &Outbox {
        &self.outbox
    }
}

impl RedisNotify {
    /// The outbox under the prefix of this connection. Nothing needs to be created before.
    pub fn new(redis: Redis) -> Self {
        Self::with_history_limit(redis, HISTORY_LIMIT)
    }

    /// As [`Self::new`], but of each definition so many successes are kept at most, the latest, whatever its `keep_history` says:
    /// they are in memory. Unless given it is 100,000. Dead letters and what was cancelled stay until they are purged.
    pub fn with_history_limit(redis: Redis, successes: usize) -> Self {
        let clock = redis.hand_clock().cloned();
        let store = Arc::new(RedisStore::new(redis, successes));
        Self { outbox: Outbox::new(store.clone(), store.clone(), clock), store, param_limit: DEFAULT_PARAM_LIMIT }
    }

    /// The same outbox with another limit for the size of a parameter in bytes: 1 MiB unless given.
    #[must_use]
    pub fn param_limit(mut self, bytes: usize) -> Self {
        (self.param_limit, self.outbox) = (bytes, self.outbox.with_param_limit(bytes));
        self
    }

    /// Notices and answers that are written by [`RedisBatch::commit`].
    pub fn begin(&self) -> RedisBatch {
        RedisBatch { notify: self.clone(), notices: Vec::new(), answers: Vec::new(), reports: BTreeMap::new() }
    }

    /// An id for each, in their order, or what is wrong with the first that has none.
    async fn number(&self, notices: &[NewNotice]) -> Result<Vec<i64>> {
        for notice in notices {
            notice.check(self.param_limit)?;
        }
        let mut names: Vec<&str> = notices.iter().map(NewNotice::name).collect();
        names.sort_unstable();
        names.dedup();
        let numbered = self.store.number_all(&names, notices.len()).await?;
        let def_ids: BTreeMap<&str, i64> =
            names.iter().copied().zip(numbered.def_ids).filter(|(_, id)| *id > 0).collect();
        let mut ids = Vec::with_capacity(notices.len());
        for (number, notice) in (numbered.first..).zip(notices) {
            let Some(def_id) = def_ids.get(notice.name()) else {
                let nearest = nearest_name(notice.name(), numbered.known.iter().map(String::as_str));
                return Err(Error::UnknownDefinition { name: notice.name().to_owned(), nearest });
            };
            self.outbox.commits().learn(*def_id, notice.name());
            ids.push(crate::store::notice_id(number, *def_id));
        }
        Ok(ids)
    }

    /// Writes them; of each the id of what is there now, and whether that was added. What is due at once is handed to the
    /// sweepers of this process, with its report.
    async fn write(&self, notices: Vec<(i64, NewNotice, Report)>) -> Result<Vec<(i64, bool)>> {
        let stored = self.store.insert_all(&notices).await?;
        let (mut fresh, mut wake) = (Vec::new(), false);
        for ((_, notice, mut report), (id, added)) in notices.into_iter().zip(&stored) {
            if !added {
                continue;
            }
            report.committed();
            self.outbox.commits().count(std::iter::once(def_of(*id)));
            if notice.is_due_at_once() {
                fresh.push(Fresh { id: *id, def_id: def_of(*id), report });
            } else {
                wake |= notice.is_due_soon();
            }
        }
        if wake {
            self.outbox.wake();
        }
        self.outbox.lane().hand(fresh);
        Ok(stored)
    }
}

impl NoticeConnection for RedisNotify {
    async fn insert(&mut self, notice: NewNotice) -> Result<Added> {
        let added = self.insert_many(vec![notice]).await?;
        Ok(added.into_iter().next().unwrap_or(Added::Duplicate(None)))
    }

    /// Those of one definition are added together, 500 at a time, in the order given here.
    async fn insert_many(&mut self, notices: Vec<NewNotice>) -> Result<Vec<Added>> {
        let ids = self.number(&notices).await?;
        let (mut rows, mut outcomes) = (Vec::with_capacity(ids.len()), Vec::with_capacity(ids.len()));
        for (id, notice) in ids.into_iter().zip(notices) {
            let (report, outcome): (Report, Outcome) = Report::new();
            rows.push((id, notice, report));
            outcomes.push(outcome);
        }
        let stored = self.write(rows).await?;
        let added = |((id, added), outcome)| match added {
            true => Added::New(Receipt::new(id, outcome)),
            false => Added::Duplicate(Some(id)),
        };
        Ok(stored.into_iter().zip(outcomes).map(added).collect())
    }

    async fn confirm(&mut self, answer: &Confirmation) -> Result<Confirmed> {
        let answered = Operate::confirm(&*self.store, answer).await?;
        self.outbox.wake();
        Ok(answered)
    }
}

/// Notices and answers that wait for [`RedisBatch::commit`]; dropped, nothing of them happens. It is no transaction: nothing is
/// locked, and what others do meanwhile is seen when it is written.
#[derive(Debug)]
pub struct RedisBatch {
    notify: RedisNotify,
    notices: Vec<(i64, NewNotice)>,
    answers: Vec<Confirmation>,
    reports: BTreeMap<i64, Report>,
}

impl RedisBatch {
    /// Writes the notices (those of one definition together), then the answers. A notice whose dedupe key was given to another
    /// one meanwhile is left out, and its first attempt is told as rolled back.
    ///
    /// # Errors
    /// Those of the store. What was written before stays.
    pub async fn commit(mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.notices).into_iter().filter_map(|(id, notice)| {
            let report = self.reports.remove(&id)?;
            Some((id, notice, report))
        });
        let rows: Vec<_> = rows.collect();
        self.notify.write(rows).await?;
        for answer in &self.answers {
            self.notify.confirm(answer).await?;
        }
        Ok(())
    }

    /// Forgets them; so does dropping it.
    pub fn rollback(self) {}
}

impl NoticeConnection for RedisBatch {
    async fn insert(&mut self, notice: NewNotice) -> Result<Added> {
        let added = self.insert_many(vec![notice]).await?;
        Ok(added.into_iter().next().unwrap_or(Added::Duplicate(None)))
    }

    async fn insert_many(&mut self, notices: Vec<NewNotice>) -> Result<Vec<Added>> {
        let ids = self.notify.number(&notices).await?;
        let mut added = Vec::with_capacity(ids.len());
        for (id, notice) in ids.into_iter().zip(notices) {
            if let Some(key) = notice.dedupe_key_text() {
                let same =
                    |other: &&(i64, NewNotice)| def_of(other.0) == def_of(id) && other.1.dedupe_key_text() == Some(key);
                let own = self.notices.iter().find(same).map(|(id, _)| *id);
                let other = match own {
                    Some(own) => Some(own),
                    None => self.notify.store.with_dedupe_key(def_of(id), key).await?,
                };
                if other.is_some() {
                    added.push(Added::Duplicate(other));
                    continue;
                }
            }
            let (report, outcome): (Report, Outcome) = Report::new();
            self.reports.insert(id, report);
            self.notices.push((id, notice));
            added.push(Added::New(Receipt::new(id, outcome)));
        }
        Ok(added)
    }

    async fn confirm(&mut self, answer: &Confirmation) -> Result<Confirmed> {
        let answered = self.notify.store.preview(answer).await?;
        self.answers.push(answer.clone());
        Ok(answered)
    }
}
