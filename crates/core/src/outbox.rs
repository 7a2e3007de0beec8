//! [`Outbox`]: what every store's front shares, whatever the database: definitions, waking, the first-send lane.
//!
//! Beginning transactions and migrating belong to the front of a particular database (`Notify<DB>`), which derefs to
//! this.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::watch;

use crate::clock::HandClock;
use crate::definition::{ColumnValue, NotifyDef, Problem};
use crate::error::{Error, Result};
use crate::lane::Lane;
use crate::notice::NoticeRecord;
use crate::store::{Edit, Edited, Store};

/// A store of notices as this process sees it. Clones share everything.
#[derive(Clone)]
pub struct Outbox {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn Store>,
    lane: Lane,
    clock: Option<HandClock>,
    wake: watch::Sender<()>,
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").finish_non_exhaustive()
    }
}

impl Outbox {
    /// An outbox over `store`; `clock` is the one the store goes by, where that is turned by hand.
    pub fn new(store: Arc<dyn Store>, clock: Option<HandClock>) -> Self {
        let shared = Shared { store, lane: Lane::default(), clock, wake: watch::channel(()).0 };
        Self { shared: Arc::new(shared) }
    }

    /// Creates the definition if there is none of its name, and never changes an existing one: what operators set
    /// stays. A difference is reported, and logged as a warning.
    ///
    /// # Errors
    /// [`Error::InvalidDefinition`] names every column that cannot work.
    pub async fn define(&self, def: NotifyDef) -> Result<Defined> {
        validate(&def)?;
        let defined = match self.edit(Edit::Create(def.clone())).await? {
            Edited::Done(row) => Defined::Created(row),
            Edited::Conflict(row) => {
                let differences = row.differences(&def);
                if differences.is_empty() {
                    Defined::Same(row)
                } else {
                    tracing::warn!(definition = %row.name, ?differences, "the stored definition differs from the one in the code; the stored one is followed");
                    Defined::Differs { row, differences }
                }
            }
            Edited::Missing => Defined::Same(def),
        };
        Ok(defined)
    }

    /// Replaces the definition if the row is still the one that the editor saw (as got from [`Self::definitions`]).
    ///
    /// # Errors
    /// [`Error::InvalidDefinition`] names every column that cannot work.
    pub async fn update(&self, seen: &NotifyDef, new: NotifyDef) -> Result<Updated> {
        validate(&new)?;
        let edit = Edit::Replace { seen: seen.clone(), new };
        Ok(self.edit(edit).await?.into())
    }

    /// Deletes the definition if the row is still the one that the editor saw: it takes no new notices (from other processes
    /// some seconds later) and its name is free again; its notices in flight are sent on to their end by the same handler.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn delete(&self, seen: &NotifyDef) -> Result<Updated> {
        let edit = Edit::Delete { seen: seen.clone() };
        Ok(self.edit(edit).await?.into())
    }

    async fn edit(&self, edit: Edit) -> Result<Edited> {
        let edited = self.shared.store.edit(&edit).await?;
        if matches!(edited, Edited::Done(_)) {
            self.wake();
        }
        Ok(edited)
    }

    /// Every definition as stored, with what is wrong with it, in the order of their names.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn definitions(&self) -> Result<Vec<DefinitionState>> {
        let rows = self.shared.store.definitions().await?;
        let mut states: Vec<_> = rows.into_iter().map(DefinitionState::new).collect();
        states.sort_by(|a, b| a.row.name.cmp(&b.row.name));
        Ok(states)
    }

    /// One notice, live or ended, by its id.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn find(&self, id: i64) -> Result<Option<NoticeRecord>> {
        Ok(self.shared.store.find(id).await?)
    }

    /// Tells the sweepers of this process to look at once for edited definitions and due notices: after the commit of a plain transaction, or
    /// an edit by SQL. Never waits.
    pub fn wake(&self) {
        self.shared.wake.send_replace(());
    }

    /// For sweepers: changes whenever [`Self::wake`] is called.
    pub fn wakes(&self) -> watch::Receiver<()> {
        self.shared.wake.subscribe()
    }

    /// For sweepers: where committed notices are handed over.
    pub fn lane(&self) -> &Lane {
        &self.shared.lane
    }

    /// For sweepers: the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }

    /// The hand-turned clock, in tests that use one.
    pub fn hand_clock(&self) -> Option<&HandClock> {
        self.shared.clock.as_ref()
    }
}

fn validate(def: &NotifyDef) -> Result<()> {
    match def.policy() {
        Ok(_) => Ok(()),
        Err(problems) => Err(Error::InvalidDefinition { name: def.name.clone(), problems }),
    }
}

/// What [`Outbox::define`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Defined {
    /// The row was missing and is there now.
    Created(NotifyDef),
    /// The row is as given.
    Same(NotifyDef),
    /// The row exists with other values, which stay in force.
    Differs {
        /// The row as stored.
        row: NotifyDef,
        /// Column, stored value, given value.
        differences: Vec<(&'static str, ColumnValue, ColumnValue)>,
    },
}

/// What became of an [`Outbox::update`] or [`Outbox::delete`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Updated {
    /// The change is stored; the row as it stands.
    Done(NotifyDef),
    /// Somebody changed the row since the editor saw it (or another row has the new name); that row.
    Conflict(NotifyDef),
    /// There is no such row any more.
    Missing,
}

impl From<Edited> for Updated {
    fn from(edited: Edited) -> Self {
        match edited {
            Edited::Done(row) => Self::Done(row),
            Edited::Conflict(row) => Self::Conflict(row),
            Edited::Missing => Self::Missing,
        }
    }
}

/// A definition as stored and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DefinitionState {
    /// The row.
    pub row: NotifyDef,
    /// Why its notices wait; empty for a valid row.
    pub problems: Vec<Problem>,
}

impl DefinitionState {
    fn new(row: NotifyDef) -> Self {
        let problems = row.policy().err().unwrap_or_default();
        Self { row, problems }
    }

    /// When it was deleted, for one that only finishes what is in flight.
    pub fn deleted(&self) -> Option<SystemTime> {
        self.row.delete_time
    }
}
