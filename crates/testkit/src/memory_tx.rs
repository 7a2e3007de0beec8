//! [`MemoryNotify`] and [`MemoryTx`]: the front of the in-memory store, used like `Notify` and `NoticeTx`.

use std::ops::Deref;
use std::sync::Arc;

use solid_notify_core::add::nearest_name;
use solid_notify_core::confirm::{Confirmation, Confirmed};
use solid_notify_core::error::{Error, Result};
use solid_notify_core::lane::{Fresh, Outcome, Report};
use solid_notify_core::param::DEFAULT_PARAM_LIMIT;
use solid_notify_core::{Added, HandClock, NewNotice, NoticeConnection, NotifyDef, Outbox, Receipt, Store};

use crate::memory::{Live, MemoryStore};

/// An outbox in memory, for tests without a database. Through `Deref` it has everything of [`Outbox`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use solid_notify_core::{NotifyDef, add_notice};
/// use solid_notify_testkit::MemoryNotify;
///
/// let notify = MemoryNotify::new();
/// notify.define(NotifyDef::new("sync_to_omp")).await?;
/// let mut tx = notify.begin();
/// let added = add_notice(&mut tx, "sync_to_omp", 7).await?;
/// tx.commit();
/// assert!(notify.find(added.id()).await?.is_some());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct MemoryNotify {
    store: Arc<MemoryStore>,
    outbox: Outbox,
}

impl std::fmt::Debug for MemoryNotify {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryNotify").finish_non_exhaustive()
    }
}

impl Default for MemoryNotify {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryNotify {
    /// An empty outbox that goes by the system's clock.
    pub fn new() -> Self {
        Self::build(None)
    }

    /// An empty outbox that goes by a clock turned by hand.
    pub fn with_clock(clock: HandClock) -> Self {
        Self::build(Some(clock))
    }

    fn build(clock: Option<HandClock>) -> Self {
        let store = Arc::new(MemoryStore::new(clock.clone()));
        Self { outbox: Outbox::new(store.clone(), store.clone(), clock), store }
    }

    /// The same notices, as another process sees them: with a first-send lane of its own, and with sweepers whose calls go
    /// through what `wrap` makes of the store: one that is slow, or fails, as tests want it.
    pub fn beside(&self, wrap: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>) -> Self {
        let store = wrap(Arc::clone(self.outbox.store()));
        let outbox = Outbox::new(store, Arc::clone(self.outbox.operate()), self.outbox.hand_clock().cloned());
        Self { store: Arc::clone(&self.store), outbox }
    }

    /// Makes a definition's row what somebody could make it by SQL, or deletes it: nothing is checked, no version is kept and nobody
    /// is told. Sweepers find it with their next reading.
    pub fn edit_by_hand(&self, def_id: i64, row: Option<NotifyDef>) {
        self.store.state().change_behind_the_back(def_id, row);
    }

    /// Begins a transaction: what is added through it exists once it is committed.
    pub fn begin(&self) -> MemoryTx {
        MemoryTx {
            notify: self.clone(),
            rows: Vec::new(),
            answers: Vec::new(),
            fresh: Vec::new(),
            later: Vec::new(),
            wake: false,
        }
    }
}

impl Deref for MemoryNotify {
    type Target = Outbox;

    fn deref(&self) -> &Outbox {
        &self.outbox
    }
}

/// A transaction of a [`MemoryNotify`]. Dropped, it rolls back.
#[derive(Debug)]
pub struct MemoryTx {
    notify: MemoryNotify,
    rows: Vec<(i64, Row)>,
    answers: Vec<Confirmation>,
    fresh: Vec<Fresh>,
    later: Vec<(i64, Report)>,
    wake: bool,
}

struct Row(Live);

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Row")
    }
}

impl MemoryTx {
    /// Makes the notices exist and hands them to the sweeper of this process.
    pub fn commit(mut self) {
        {
            let mut state = self.notify.store.state();
            state.live.extend(self.rows.drain(..).map(|(id, row)| (id, row.0)));
            let now = self.notify.store.now();
            for answer in &self.answers {
                state.confirm(answer, now);
            }
        }
        let def_ids = self.fresh.iter().map(|fresh| fresh.def_id).chain(self.later.iter().map(|(def_id, _)| *def_id));
        self.notify.outbox.commits().count(def_ids);
        let later = self.later.iter_mut().map(|(_, report)| report);
        let reports = self.fresh.iter_mut().map(|fresh| &mut fresh.report).chain(later);
        reports.for_each(Report::committed);
        if self.wake {
            self.notify.outbox.wake();
        }
        self.notify.outbox.lane().hand(std::mem::take(&mut self.fresh));
    }

    /// Forgets the notices; so does dropping it.
    pub fn rollback(self) {}
}

impl NoticeConnection for MemoryTx {
    async fn insert(&mut self, notice: NewNotice) -> Result<Added> {
        notice.check(DEFAULT_PARAM_LIMIT)?;
        let def_id = self.definition_id(notice.name())?;
        Ok(self.add(def_id, &notice))
    }

    async fn insert_many(&mut self, notices: Vec<NewNotice>) -> Result<Vec<Added>> {
        for notice in &notices {
            notice.check(DEFAULT_PARAM_LIMIT)?;
        }
        let def_ids = notices.iter().map(|notice| self.definition_id(notice.name())).collect::<Result<Vec<_>>>()?;
        Ok(def_ids.into_iter().zip(&notices).map(|(def_id, notice)| self.add(def_id, notice)).collect())
    }

    async fn confirm(&mut self, answer: &Confirmation) -> Result<Confirmed> {
        Ok(self.confirm_later(answer))
    }
}

impl MemoryTx {
    /// Tells what an answer will do, which it does with the commit.
    fn confirm_later(&mut self, answer: &Confirmation) -> Confirmed {
        self.answers.push(answer.clone());
        self.wake = true;
        let now = self.notify.store.now();
        self.notify.store.state().clone().confirm(answer, now)
    }

    fn definition_id(&self, name: &str) -> Result<i64> {
        self.notify.store.state().definition_id(name).map_err(|known| Error::UnknownDefinition {
            name: name.to_owned(),
            nearest: nearest_name(name, known.iter().map(String::as_str)),
        })
    }

    fn add(&mut self, def_id: i64, notice: &NewNotice) -> Added {
        let now = self.notify.store.now();
        let id = {
            let mut state = self.notify.store.state();
            if let Some(key) = notice.dedupe_key_text() {
                let own = self.rows.iter().map(|(id, row)| (id, &row.0));
                let same = state.live.iter().chain(own).find(|(_, live)| live.has_dedupe_key(def_id, key));
                if let Some((id, _)) = same {
                    return Added::Duplicate(Some(*id));
                }
            }
            state.next_id()
        };
        self.rows.push((id, Row(Live::new(id, def_id, notice, now))));
        self.notify.outbox.commits().learn(def_id, notice.name());
        let (report, outcome): (Report, Outcome) = Report::new();
        if notice.is_due_at_once() {
            self.fresh.push(Fresh { id, def_id, report });
        } else {
            self.later.push((def_id, report));
            self.wake |= notice.is_due_soon();
        }
        Added::New(Receipt::new(id, outcome))
    }
}
