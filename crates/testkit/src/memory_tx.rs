//! [`MemoryOutbox`] and [`MemoryTx`]: the public types of the in-memory store, used like `Outbox` and `NoticeTx`.

use std::ops::Deref;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use solid_notify_core::ack::{AckResult, Reply};
use solid_notify_core::add::nearest_name;
use solid_notify_core::connection::Insert;
use solid_notify_core::dispatch::{FirstAttemptReceiver, FirstAttemptSender, Fresh};
use solid_notify_core::engine::Engine;
use solid_notify_core::error::{Error, Result};
use solid_notify_core::{AnyOutbox, HandClock, NewNotice, NotifyDef, Receipt, Stores};

use crate::memory::{Live, MemoryStore};

/// An outbox in memory, for tests without a database. It derefs to [`AnyOutbox`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use solid_notify_core::{NotifyDef, add_notice};
/// use solid_notify_testkit::MemoryOutbox;
///
/// let outbox = MemoryOutbox::new();
/// outbox.define_if_missing(NotifyDef::new("sync_to_omp")).await?;
/// let mut tx = outbox.begin().await?;
/// let receipt = add_notice(&mut tx, "sync_to_omp", 7).await?;
/// tx.commit().await?;
/// assert!(outbox.find(receipt.id()).await?.is_some());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct MemoryOutbox {
    store: Arc<MemoryStore>,
    outbox: AnyOutbox,
}

impl std::fmt::Debug for MemoryOutbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryOutbox").finish_non_exhaustive()
    }
}

impl Default for MemoryOutbox {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryOutbox {
    /// Creates an empty outbox with the system's clock.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder for an outbox with other settings than the defaults.
    pub fn builder() -> MemoryOutboxBuilder {
        MemoryOutboxBuilder { clock: None }
    }

    /// Returns an outbox over the same notices, as another process would have it: it has a dispatch of its own, and its
    /// sweepers call the store that `wrap` returns. A test can wrap a role of the store in one that is slow or fails.
    pub fn beside(&self, wrap: impl FnOnce(Stores) -> Stores) -> Self {
        let engine = self.outbox.engine();
        let engine = Engine::new(wrap(engine.stores().clone()), engine.hand_clock().cloned());
        Self { store: Arc::clone(&self.store), outbox: AnyOutbox::over(engine) }
    }

    /// Replaces the row of a definition, or deletes it, like an edit by SQL: the store checks nothing, keeps no version and
    /// wakes no sweeper. Sweepers find the change with their next reading. As in a table, `alert_trigger_type`, `max_confirm_delay` and
    /// `max_retry_interval` may be numbers of older conventions.
    pub fn edit_by_hand(&self, def_id: i64, row: Option<NotifyDef>) {
        self.store.state().change_behind_the_back(def_id, row);
    }

    /// Begins a transaction: notices that are added through it exist after its commit.
    ///
    /// # Errors
    /// None; other outboxes return those of their database.
    pub async fn begin(&self) -> Result<MemoryTx> {
        Ok(MemoryTx {
            outbox: self.clone(),
            rows: Vec::new(),
            covered: Vec::new(),
            replies: Vec::new(),
            seen: Vec::new(),
            fresh: Vec::new(),
            later: Vec::new(),
            wake: false,
        })
    }
}

/// Settings of a [`MemoryOutbox`].
#[derive(Debug)]
pub struct MemoryOutboxBuilder {
    clock: Option<HandClock>,
}

impl MemoryOutboxBuilder {
    /// Uses the time of `clock` instead of the system's.
    #[must_use]
    pub fn clock(mut self, clock: HandClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Builds the outbox, without any notices.
    pub fn build(self) -> MemoryOutbox {
        let store = Arc::new(MemoryStore::new(self.clock.clone()));
        MemoryOutbox { outbox: AnyOutbox::over(Engine::new(Stores::of(&store), self.clock)), store }
    }
}

impl Deref for MemoryOutbox {
    type Target = AnyOutbox;

    fn deref(&self) -> &AnyOutbox {
        &self.outbox
    }
}

/// A transaction of a [`MemoryOutbox`]. Dropped, it rolls back.
#[derive(Debug)]
pub struct MemoryTx {
    outbox: MemoryOutbox,
    rows: Vec<(i64, Row)>,
    /// Duplicates of a notice that is unique only until it is claimed, with the ids of their definitions.
    covered: Vec<(i64, NewNotice)>,
    replies: Vec<Reply>,
    /// Receivers and the keys that they have seen.
    seen: Vec<[String; 3]>,
    fresh: Vec<Fresh>,
    later: Vec<(i64, FirstAttemptSender)>,
    wake: bool,
}

/// A notice to be added, and why it must not be sent, if it is added as skipped.
struct Row(Live, Option<String>);

impl Row {
    fn new(id: i64, def_id: i64, notice: &NewNotice, now: DateTime<Utc>) -> Self {
        Self(Live::new(id, def_id, notice, now), notice.skip_reason().map(str::to_owned))
    }
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Row")
    }
}

impl MemoryTx {
    /// Commits the notices and dispatches them to the sweeper of this process.
    ///
    /// # Errors
    /// None; the transactions of other outboxes return those of their database.
    pub async fn commit(mut self) -> Result<()> {
        {
            let mut state = self.outbox.store.state();
            // A database would keep the first notice from being claimed until this commit. This store locks nothing, so if
            // the first notice was claimed meanwhile, the duplicate is inserted.
            let now = self.outbox.store.time();
            for (def_id, notice) in self.covered.drain(..) {
                let key = notice.dedupe_key_text().unwrap_or_default();
                let own = self.rows.iter().filter(|(_, row)| row.1.is_none()).map(|(_, row)| &row.0);
                if !state.live.values().chain(own).any(|live| live.has_dedupe_key(def_id, key)) {
                    let id = state.next_id();
                    self.rows.push((id, Row::new(id, def_id, &notice, now)));
                    self.wake = true;
                }
            }
            for (id, Row(live, skipped)) in self.rows.drain(..) {
                state.add(id, live, skipped, now);
            }
            for reply in &self.replies {
                state.apply_ack(reply, now);
            }
            for key in self.seen.drain(..) {
                state.inbox.entry(key).or_insert(now);
            }
        }
        let def_ids = self.fresh.iter().map(|fresh| fresh.def_id).chain(self.later.iter().map(|(def_id, _)| *def_id));
        self.outbox.outbox.engine().commits().count(def_ids);
        let later = self.later.iter_mut().map(|(_, report)| report);
        let reports = self.fresh.iter_mut().map(|fresh| &mut fresh.report).chain(later);
        reports.for_each(FirstAttemptSender::committed);
        if self.wake {
            self.outbox.outbox.wake();
        }
        self.outbox.outbox.engine().dispatch().hand(std::mem::take(&mut self.fresh));
        Ok(())
    }

    /// Rolls the transaction back; dropping it does the same.
    ///
    /// # Errors
    /// None, as of [`Self::commit`].
    pub async fn rollback(self) -> Result<()> {
        Ok(())
    }
}

impl Insert for MemoryTx {
    async fn insert_many(&mut self, notices: Vec<NewNotice>) -> Result<Vec<Receipt>> {
        for notice in &notices {
            notice.check()?;
        }
        let notices = notices.into_iter().map(|notice| self.of_definition(notice)).collect::<Result<Vec<_>>>()?;
        Ok(notices.iter().map(|(def_id, notice)| self.add(*def_id, notice)).collect())
    }

    async fn apply_ack(&mut self, reply: &Reply) -> Result<AckResult> {
        Ok(self.ack_later(reply))
    }

    async fn mark_seen(&mut self, receiver: &str, sender: &str, key: &str) -> Result<bool> {
        let key = [receiver, sender, key].map(str::to_owned);
        let first = !self.seen.contains(&key) && !self.outbox.store.state().inbox.contains_key(&key);
        if first {
            self.seen.push(key);
        }
        Ok(first)
    }
}

impl MemoryTx {
    /// Returns the result that an ack or nack will have; it takes effect with the commit.
    fn ack_later(&mut self, reply: &Reply) -> AckResult {
        self.replies.push(reply.clone());
        self.wake = true;
        let now = self.outbox.store.time();
        self.outbox.store.state().clone().apply_ack(reply, now)
    }

    /// Returns the notice with the id of its definition, encrypted if the definition demands it.
    fn of_definition(&self, notice: NewNotice) -> Result<(i64, NewNotice)> {
        let (def_id, encrypts) = match self.outbox.store.state().definition(notice.name()) {
            Ok(def) => (def.id, def.encrypt_param),
            Err(known) => {
                let nearest = nearest_name(notice.name(), known.iter().map(String::as_str));
                return Err(Error::UnknownDefinition { name: notice.name().to_owned(), nearest });
            }
        };
        let cipher = || self.outbox.outbox.engine().param_cipher();
        Ok((def_id, if encrypts { notice.encrypted(def_id, cipher())? } else { notice }))
    }

    fn add(&mut self, def_id: i64, notice: &NewNotice) -> Receipt {
        let now = self.outbox.store.time();
        let id = {
            let mut state = self.outbox.store.state();
            if let Some(key) = notice.taken_key_text() {
                let own = self.rows.iter().filter(|(_, row)| row.1.is_none()).map(|(id, row)| (id, &row.0));
                let same = state.live.iter().chain(own).find(|(_, live)| live.has_dedupe_key(def_id, key));
                if let Some((id, _)) = same {
                    let id = *id;
                    if !notice.is_unique_until_ended() {
                        self.covered.push((def_id, notice.clone()));
                    }
                    return Receipt::duplicate(id);
                }
            }
            state.next_id()
        };
        self.rows.push((id, Row::new(id, def_id, notice, now)));
        self.outbox.outbox.engine().commits().learn(def_id, notice.name());
        if notice.skip_reason().is_some() {
            return Receipt::added(id, FirstAttemptReceiver::not_here());
        }
        let (report, first_attempt): (FirstAttemptSender, FirstAttemptReceiver) = FirstAttemptSender::new();
        if notice.is_due_at_once() {
            self.fresh.push(Fresh { id, def_id, report });
        } else {
            self.later.push((def_id, report));
            self.wake |= notice.is_due_soon();
        }
        Receipt::added(id, first_attempt)
    }
}
