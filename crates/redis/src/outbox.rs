//! [`RedisOutbox`]: an outbox over Redis, and [`RedisBatch`]: notices that are collected and written by one commit.
//!
//! Redis has no transaction to take part in: a notice exists when the call that adds it returns.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use solid_notify_core::ack::{AckResult, Reply};
use solid_notify_core::add::nearest_name;
use solid_notify_core::connection::Insert;
use solid_notify_core::dispatch::{FirstAttempt, FirstAttemptReceiver, FirstAttemptSender, Fresh};
use solid_notify_core::engine::Engine;
use solid_notify_core::{AnyOutbox, Error, HandClock, NewNotice, Receipt, Result, Stores};
use solid_notify_redis_connection::Redis;

use crate::store::{RedisStore, def_of, mark};

/// An outbox over Redis. Through `Deref` it has all methods of [`AnyOutbox`], so sweepers, operators and the dashboard use it like
/// that of a database. Clones share everything.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use solid_notify_core::{NotifyDef, add_notice};
/// use solid_notify_redis::{Redis, RedisOutbox};
///
/// let mut outbox = RedisOutbox::new(Redis::connect("redis://127.0.0.1").await?);
/// outbox.define_if_missing(NotifyDef::new("push").retry_interval("[5s,10s,15s]")).await?;
/// let added = add_notice(&mut outbox, "push", 7).await?;
/// assert!(outbox.find(added.id()).await?.is_some());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct RedisOutbox {
    store: Arc<RedisStore>,
    outbox: AnyOutbox,
}

/// Default of how many successes of a definition are kept.
const HISTORY_LIMIT: usize = 100_000;

impl std::fmt::Debug for RedisOutbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisOutbox").finish_non_exhaustive()
    }
}

impl Deref for RedisOutbox {
    type Target = AnyOutbox;

    fn deref(&self) -> &AnyOutbox {
        &self.outbox
    }
}

impl RedisOutbox {
    /// Creates an outbox under the prefix of this connection, with the defaults. Nothing needs to be created before.
    pub fn new(redis: Redis) -> Self {
        Self::builder(redis).build()
    }

    /// Returns a builder for an outbox with other settings than the defaults. The prefix and the time-out
    /// are settings of the connection ([`Redis::builder`]).
    pub fn builder(redis: Redis) -> RedisOutboxBuilder {
        RedisOutboxBuilder { redis, history_limit: HISTORY_LIMIT, clock: None }
    }

    /// Begins a batch of notices, acks and nacks, which [`RedisBatch::commit`] writes.
    ///
    /// # Errors
    /// None today: nothing is written before the commit.
    pub async fn begin(&self) -> Result<RedisBatch> {
        Ok(RedisBatch {
            outbox: self.clone(),
            notices: Vec::new(),
            covered: Vec::new(),
            replies: Vec::new(),
            marks: Vec::new(),
            reports: BTreeMap::new(),
        })
    }

    /// Returns each notice with its id, in their order and encrypted if its definition demands it, or the error of the first invalid one.
    async fn number(&self, notices: Vec<NewNotice>) -> Result<Vec<(i64, NewNotice)>> {
        for notice in &notices {
            notice.check()?;
        }
        let mut names: Vec<&str> = notices.iter().map(NewNotice::name).collect();
        names.sort_unstable();
        names.dedup();
        let numbered = self.store.number_all(&names, notices.len()).await?;
        let found = names.into_iter().map(str::to_owned).zip(numbered.def_ids.into_iter().zip(numbered.encrypt));
        let found: BTreeMap<String, (i64, bool)> = found.filter(|(_, (id, _))| *id > 0).collect();
        let mut ids = Vec::with_capacity(notices.len());
        for (number, notice) in (numbered.first..).zip(notices) {
            let Some((def_id, encrypts)) = found.get(notice.name()) else {
                let nearest = nearest_name(notice.name(), numbered.known.iter().map(String::as_str));
                return Err(Error::UnknownDefinition { name: notice.name().to_owned(), nearest });
            };
            self.outbox.engine().commits().learn(*def_id, notice.name());
            let notice = match encrypts {
                true => notice.encrypted(*def_id, self.outbox.engine().param_cipher())?,
                false => notice,
            };
            ids.push((crate::store::notice_id(number, *def_id), notice));
        }
        Ok(ids)
    }

    /// Writes the notices. Returns for each the id of the stored notice, and whether this call added it. Dispatches those that
    /// are due at once to the sweepers of this process, with their reports.
    async fn write(&self, notices: Vec<(i64, NewNotice, FirstAttemptSender)>) -> Result<Vec<(i64, bool)>> {
        let stored = self.store.insert_all(&notices).await?;
        let (mut fresh, mut wake) = (Vec::new(), false);
        for ((_, notice, mut report), (id, added)) in notices.into_iter().zip(&stored) {
            if !added {
                continue;
            }
            if notice.skip_reason().is_some() {
                report.tell(FirstAttempt::NotHere);
                continue;
            }
            report.committed();
            self.outbox.engine().commits().count(std::iter::once(def_of(*id)));
            if notice.is_due_at_once() {
                fresh.push(Fresh { id: *id, def_id: def_of(*id), report });
            } else {
                wake |= notice.is_due_soon();
            }
        }
        if wake {
            self.outbox.wake();
        }
        self.outbox.engine().dispatch().hand(fresh);
        Ok(stored)
    }
}

/// Settings of a [`RedisOutbox`].
#[derive(Debug)]
pub struct RedisOutboxBuilder {
    redis: Redis,
    history_limit: usize,
    clock: Option<HandClock>,
}

impl RedisOutboxBuilder {
    /// Keeps at most the latest `successes` successes of each definition, also where its `keep_history` asks for more, because
    /// they are in memory. The default is 100,000. Dead letters and cancelled notices stay until they are purged.
    #[must_use]
    pub fn history_limit(mut self, successes: usize) -> Self {
        self.history_limit = successes;
        self
    }

    /// Uses a clock that tests turn by hand, instead of the server's.
    #[must_use]
    pub fn clock(mut self, clock: HandClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Builds the outbox.
    pub fn build(self) -> RedisOutbox {
        let redis = match self.clock.clone() {
            Some(clock) => self.redis.with_clock(move || clock.now()),
            None => self.redis,
        };
        let store = Arc::new(RedisStore::new(redis, self.history_limit));
        RedisOutbox { outbox: AnyOutbox::over(Engine::new(Stores::of(&store), self.clock)), store }
    }
}

impl Insert for RedisOutbox {
    /// Adds the notices of one definition together, 500 at a time, in the order given here.
    async fn insert_many(&mut self, notices: Vec<NewNotice>) -> Result<Vec<Receipt>> {
        let ids = self.number(notices).await?;
        let (mut rows, mut first_attempts) = (Vec::with_capacity(ids.len()), Vec::with_capacity(ids.len()));
        for (id, notice) in ids {
            let (report, first_attempt): (FirstAttemptSender, FirstAttemptReceiver) = FirstAttemptSender::new();
            rows.push((id, notice, report));
            first_attempts.push(first_attempt);
        }
        let stored = self.write(rows).await?;
        let added = |((id, added), first_attempt)| match added {
            true => Receipt::added(id, first_attempt),
            false => Receipt::duplicate(id),
        };
        Ok(stored.into_iter().zip(first_attempts).map(added).collect())
    }

    async fn apply_ack(&mut self, reply: &Reply) -> Result<AckResult> {
        let result = self.outbox.engine().stores().operate.apply_ack(reply).await?;
        self.outbox.wake();
        Ok(result)
    }

    async fn mark_seen(&mut self, receiver: &str, sender: &str, key: &str) -> Result<bool> {
        Ok(self.store.mark_seen(&[mark(receiver, sender, key)]).await? == 1)
    }
}

/// Notices, acks and nacks that wait for [`RedisBatch::commit`]. Dropping the batch discards them. It is not a transaction: it
/// locks nothing, and its commit sees what others wrote meanwhile.
#[derive(Debug)]
pub struct RedisBatch {
    outbox: RedisOutbox,
    notices: Vec<(i64, NewNotice)>,
    /// Duplicates of notices that are not claimed yet. The commit writes them too, and skips those that still are duplicates.
    covered: Vec<(i64, NewNotice)>,
    replies: Vec<Reply>,
    /// Idempotency keys of receivers.
    marks: Vec<String>,
    reports: BTreeMap<i64, FirstAttemptSender>,
}

impl RedisBatch {
    /// Writes the notices (those of one definition together), then the acks and nacks, then the idempotency keys of inboxes. Skips a notice whose dedupe key another
    /// one got meanwhile; its first attempt is reported as rolled back.
    ///
    /// # Errors
    /// Those of the store. What was written before the error stays.
    pub async fn commit(mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.notices).into_iter().filter_map(|(id, notice)| {
            let report = self.reports.remove(&id)?;
            Some((id, notice, report))
        });
        let covered =
            std::mem::take(&mut self.covered).into_iter().map(|(id, notice)| (id, notice, FirstAttemptSender::new().0));
        let rows: Vec<_> = rows.chain(covered).collect();
        self.outbox.write(rows).await?;
        for reply in &self.replies {
            self.outbox.apply_ack(reply).await?;
        }
        // Last, so that the notices of a commit that is cut short are written again by the next delivery.
        self.outbox.store.mark_seen(&self.marks).await?;
        Ok(())
    }

    /// Discards the batch, as dropping it does.
    ///
    /// # Errors
    /// None today: nothing was written.
    pub async fn rollback(self) -> Result<()> {
        Ok(())
    }
}

impl Insert for RedisBatch {
    async fn insert_many(&mut self, notices: Vec<NewNotice>) -> Result<Vec<Receipt>> {
        let ids = self.outbox.number(notices).await?;
        let mut added = Vec::with_capacity(ids.len());
        for (id, notice) in ids {
            if let Some(key) = notice.taken_key_text() {
                let same =
                    |other: &&(i64, NewNotice)| def_of(other.0) == def_of(id) && other.1.taken_key_text() == Some(key);
                let own = self.notices.iter().find(same).map(|(id, _)| *id);
                let other = match own {
                    Some(own) => Some(own),
                    None => self.outbox.store.with_dedupe_key(def_of(id), key).await?,
                };
                if let Some(other) = other {
                    if !notice.is_unique_until_ended() {
                        self.covered.push((id, notice));
                    }
                    added.push(Receipt::duplicate(other));
                    continue;
                }
            }
            let (report, first_attempt): (FirstAttemptSender, FirstAttemptReceiver) = FirstAttemptSender::new();
            self.reports.insert(id, report);
            self.notices.push((id, notice));
            added.push(Receipt::added(id, first_attempt));
        }
        Ok(added)
    }

    async fn apply_ack(&mut self, reply: &Reply) -> Result<AckResult> {
        let result = self.outbox.store.preview(reply).await?;
        self.replies.push(reply.clone());
        Ok(result)
    }

    async fn mark_seen(&mut self, receiver: &str, sender: &str, key: &str) -> Result<bool> {
        let mark = mark(receiver, sender, key);
        let first = !self.marks.contains(&mark) && !self.outbox.store.is_seen(&mark).await?;
        if first {
            self.marks.push(mark);
        }
        Ok(first)
    }
}
