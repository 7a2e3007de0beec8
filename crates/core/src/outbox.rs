//! [`Outbox`]: what every store's front shares, whatever the database: definitions, waking, the first-send lane.
//!
//! Beginning transactions and migrating belong to the front of a particular database (`Notify<DB>`), which derefs to
//! this.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use crate::clock::HandClock;
use crate::confirm::{Confirmation, Confirmed};
use crate::definition::{ColumnValue, NotifyDef, Problem};
use crate::error::{Error, Result};
use crate::lane::Lane;
use crate::metrics::{self, Commits};
use crate::notice::NoticeRecord;
use crate::operate::{Operate, Operator};
use crate::param::DEFAULT_PARAM_LIMIT;
use crate::store::{Edit, Edited, Store};
use crate::token::TokenKeys;

/// A store of notices as this process sees it. Clones share everything.
#[derive(Clone)]
pub struct Outbox {
    shared: Arc<Shared>,
    param_limit: usize,
}

struct Shared {
    store: Arc<dyn Store>,
    operate: Arc<dyn Operate>,
    lane: Lane,
    commits: Commits,
    clock: Option<HandClock>,
    wake: watch::Sender<()>,
    token_keys: RwLock<Option<TokenKeys>>,
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").finish_non_exhaustive()
    }
}

impl Outbox {
    /// An outbox over `store`, of which people ask what `operate` can do; `clock` is the one that both go by, where that is
    /// turned by hand.
    pub fn new(store: Arc<dyn Store>, operate: Arc<dyn Operate>, clock: Option<HandClock>) -> Self {
        metrics::describe();
        let shared = Shared {
            store,
            operate,
            lane: Lane::default(),
            commits: Commits::default(),
            clock,
            wake: watch::channel(()).0,
            token_keys: RwLock::default(),
        };
        Self { shared: Arc::new(shared), param_limit: DEFAULT_PARAM_LIMIT }
    }

    /// The same outbox with another limit for the parameters that operators give.
    #[must_use]
    pub fn with_param_limit(mut self, bytes: usize) -> Self {
        self.param_limit = bytes;
        self
    }

    pub(crate) fn param_limit(&self) -> usize {
        self.param_limit
    }

    /// Creates the definition if there is none of its name, and never changes an existing one: what operators set
    /// stays. A difference is reported, and logged as a warning.
    ///
    /// # Errors
    /// [`Error::InvalidDefinition`] names every column that cannot work.
    pub async fn define(&self, def: NotifyDef) -> Result<Defined> {
        validate(&def)?;
        let defined = match self.edit(Edit::Create(def.clone()), APPLICATION).await? {
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
        Ok(self.edit(edit, APPLICATION).await?.into())
    }

    /// Deletes the definition if the row is still the one that the editor saw: it takes no new notices (from other processes
    /// some seconds later) and its name is free again; its notices in flight are sent on to their end by the same handler.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn delete(&self, seen: &NotifyDef) -> Result<Updated> {
        let edit = Edit::Delete { seen: seen.clone() };
        Ok(self.edit(edit, APPLICATION).await?.into())
    }

    pub(crate) async fn edit(&self, edit: Edit, who: &str) -> Result<Edited> {
        let edited = self.shared.store.edit(&edit, who).await?;
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

    /// Confirms a notice: it ends as succeeded, whatever its state.
    ///
    /// # Errors
    /// Those of the store. A race is no error: see [`Confirmed`].
    pub async fn ack(&self, id: i64) -> Result<Confirmed> {
        self.confirm(&Confirmation::ack(id)).await
    }

    /// Refuses the last delivery of a notice: it counts as failed, for this reason, and is sent again as its definition says.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn nack(&self, id: i64, reason: impl Into<String>) -> Result<Confirmed> {
        self.confirm(&Confirmation::nack(id, reason)).await
    }

    /// As [`Self::ack`], by the token that the handler put into its message. That of an earlier attempt counts as well.
    ///
    /// # Errors
    /// [`Error::Token`] for one that was not signed here or has expired.
    pub async fn ack_token(&self, token: &str) -> Result<Confirmed> {
        let (id, attempt) = self.read_token(token)?;
        Ok(existed(self.confirm(&Confirmation::ack(id).to_attempt(attempt)).await?))
    }

    /// As [`Self::nack`], by the token of the attempt. One of an earlier attempt changes nothing.
    ///
    /// # Errors
    /// As [`Self::ack_token`].
    pub async fn nack_token(&self, token: &str, reason: impl Into<String>) -> Result<Confirmed> {
        let (id, attempt) = self.read_token(token)?;
        Ok(existed(self.confirm(&Confirmation::nack(id, reason).to_attempt(attempt)).await?))
    }

    async fn confirm(&self, answer: &Confirmation) -> Result<Confirmed> {
        let answered = self.shared.operate.confirm(answer).await?;
        // What waits behind it, or its retry, is due.
        self.wake();
        Ok(answered)
    }

    /// The secrets of confirmation tokens, from now on: called at the start, and again whenever they are rotated.
    pub fn use_token_keys(&self, keys: TokenKeys) {
        *self.shared.token_keys.write().unwrap_or_else(PoisonError::into_inner) = Some(keys);
    }

    /// A confirmation token for an attempt, valid for so long: what `notice.confirm_token` gives to handlers.
    ///
    /// # Errors
    /// [`Error::Token`] where no keys are set.
    pub fn token(&self, id: i64, attempt: i64, valid: Duration) -> Result<String> {
        let now = self.now();
        self.with_token_keys(|keys| keys.sign(id, attempt, valid, now).ok_or(NO_KEYS))
    }

    /// The notice and the attempt that a confirmation token speaks for: to answer within a transaction of one's own, by
    /// [`Confirmation::give`].
    ///
    /// # Errors
    /// [`Error::Token`] for one that was not signed here or has expired.
    pub fn read_token(&self, token: &str) -> Result<(i64, i64)> {
        let now = self.now();
        self.with_token_keys(|keys| keys.read(token, now))
    }

    fn with_token_keys<T>(&self, work: impl FnOnce(&TokenKeys) -> Result<T>) -> Result<T> {
        work(self.shared.token_keys.read().unwrap_or_else(PoisonError::into_inner).as_ref().ok_or(NO_KEYS)?)
    }

    /// By the process's clock: a token's end decides nothing that is stored.
    fn now(&self) -> SystemTime {
        self.shared.clock.as_ref().map_or_else(SystemTime::now, HandClock::now)
    }

    /// The outbox in the hands of a person (at most 200 characters of whose name go to the audit): dead letters, retrying,
    /// cancelling, explaining, editing definitions.
    pub fn operator(&self, who: &str) -> Operator {
        Operator::new(self.clone(), who)
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

    /// For connections: the counter of what this process has committed.
    pub fn commits(&self) -> &Commits {
        &self.shared.commits
    }

    /// For sweepers: the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }

    /// What people ask of the store.
    pub fn operate(&self) -> &Arc<dyn Operate> {
        &self.shared.operate
    }

    /// The hand-turned clock, in tests that use one.
    pub fn hand_clock(&self) -> Option<&HandClock> {
        self.shared.clock.as_ref()
    }
}

/// Who edits a definition where no operator is named.
const APPLICATION: &str = "application";
const NO_KEYS: Error = Error::Token { problem: "no keys are set (`notify.use_token_keys`)" };

/// What is not found and has a genuine token is gone.
fn existed(answered: Confirmed) -> Confirmed {
    if answered == Confirmed::Unknown { Confirmed::Purged } else { answered }
}

pub(crate) fn validate(def: &NotifyDef) -> Result<()> {
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

/// What became of an edit: [`Outbox::update`], [`Outbox::delete`], and those of an [`Operator`].
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
