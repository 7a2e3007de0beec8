//! [`MemoryNotify`] and [`MemoryTx`]: the front of the in-memory store, used like `Notify` and `NoticeTx`.

use std::ops::Deref;
use std::sync::Arc;

use solid_notify_core::add::nearest_name;
use solid_notify_core::error::{Error, Result};
use solid_notify_core::lane::{Fresh, Outcome, Report};
use solid_notify_core::param::DEFAULT_PARAM_LIMIT;
use solid_notify_core::{Added, HandClock, NewNotice, NoticeConnection, Outbox, Receipt};

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
        Self { outbox: Outbox::new(store.clone(), clock), store }
    }

    /// Begins a transaction: what is added through it exists once it is committed.
    pub fn begin(&self) -> MemoryTx {
        MemoryTx { notify: self.clone(), rows: Vec::new(), fresh: Vec::new(), later: Vec::new(), wake: false }
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
    fresh: Vec<Fresh>,
    later: Vec<Report>,
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
        }
        let reports = self.fresh.iter_mut().map(|fresh| &mut fresh.report).chain(&mut self.later);
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
}

impl MemoryTx {
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
        let (report, outcome): (Report, Outcome) = Report::new();
        if notice.is_due_at_once() {
            self.fresh.push(Fresh { id, def_id, report });
        } else {
            self.later.push(report);
            self.wake |= notice.is_due_soon();
        }
        Added::New(Receipt::new(id, outcome))
    }
}
