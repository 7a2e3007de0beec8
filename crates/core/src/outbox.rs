//! [`AnyOutbox`]: what the handles of all stores share: definitions, waking and the dispatch to the sweepers of this process.
//!
//! Beginning transactions and migrating belong to the handle of a particular database (`Outbox<DB>`), which derefs to this.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use crate::ack::{AckResult, Reply};
use crate::clock::HandClock;
use crate::definition::{ColumnValue, NotifyDef, Problem};
use crate::dispatch::Dispatch;
use crate::error::{Error, Result};
use crate::metrics::{self, Commits};
use crate::notice::NoticeRecord;
use crate::operate::{Operate, Operator};
use crate::param::DEFAULT_PARAM_LIMIT;
use crate::store::{Edit, Edited, Store};
use crate::token::{AckToken, TokenKeys};

/// A store of notices as this process sees it. Clones share all state, but not the parameter limit.
#[derive(Clone)]
pub struct AnyOutbox {
    shared: Arc<Shared>,
    param_limit: usize,
}

struct Shared {
    store: Arc<dyn Store>,
    operate: Arc<dyn Operate>,
    dispatch: Dispatch,
    commits: Commits,
    clock: Option<HandClock>,
    wake: watch::Sender<()>,
    token_keys: RwLock<Option<TokenKeys>>,
}

impl std::fmt::Debug for AnyOutbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnyOutbox").finish_non_exhaustive()
    }
}

impl AnyOutbox {
    /// Creates an outbox over `store`, with `operate` for operators' requests. `clock` is set if both use a hand-turned clock.
    pub fn new(store: Arc<dyn Store>, operate: Arc<dyn Operate>, clock: Option<HandClock>) -> Self {
        metrics::describe();
        let shared = Shared {
            store,
            operate,
            dispatch: Dispatch::default(),
            commits: Commits::default(),
            clock,
            wake: watch::channel(()).0,
            token_keys: RwLock::default(),
        };
        Self { shared: Arc::new(shared), param_limit: DEFAULT_PARAM_LIMIT }
    }

    /// Sets the size limit for parameters that operators give.
    #[must_use]
    pub fn with_param_limit(mut self, bytes: usize) -> Self {
        self.param_limit = bytes;
        self
    }

    pub(crate) fn param_limit(&self) -> usize {
        self.param_limit
    }

    /// Creates the definition if its name is free, and never changes an existing one, because operators may have edited it. A
    /// difference is reported, and logged as a warning.
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
                    // Without the values, because `handler_config` may contain a secret.
                    let columns: Vec<&str> = differences.iter().map(|(column, ..)| *column).collect();
                    tracing::warn!(definition = %row.name, ?columns, "the stored definition differs from the one in the code; the stored one is followed");
                    Defined::Differs { row, differences }
                }
            }
            Edited::Missing => Defined::Same(def),
        };
        Ok(defined)
    }

    /// Replaces the definition if the row still equals `seen` (as returned by [`Self::definitions`]).
    ///
    /// # Errors
    /// [`Error::InvalidDefinition`] names every column that cannot work.
    pub async fn update(&self, seen: &NotifyDef, new: NotifyDef) -> Result<Updated> {
        validate(&new)?;
        let edit = Edit::Replace { seen: seen.clone(), new };
        Ok(self.edit(edit, APPLICATION).await?.into())
    }

    /// Deletes the definition if the row still equals `seen`. It accepts no new notices (from other processes some seconds
    /// later), and its name is free again. The same handler sends its remaining notices until they end.
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

    /// Returns every definition as stored, with its invalid columns, sorted by name.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn definitions(&self) -> Result<Vec<DefinitionState>> {
        let rows = self.shared.store.definitions().await?;
        let mut states: Vec<_> = rows.into_iter().map(DefinitionState::new).collect();
        states.sort_by(|a, b| a.row.name.cmp(&b.row.name));
        Ok(states)
    }

    /// Returns one notice, live or ended, by its id.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn find(&self, id: i64) -> Result<Option<NoticeRecord>> {
        Ok(self.shared.store.find(id).await?)
    }

    /// Acks a notice: it ends as succeeded, whatever its state.
    ///
    /// # Errors
    /// Those of the store. A race is no error: see [`AckResult`].
    pub async fn ack(&self, id: i64) -> Result<AckResult> {
        self.apply_ack(&Reply::ack(id)).await
    }

    /// Nacks the last delivery of a notice: the attempt fails with this reason, and is retried as its definition says.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn nack(&self, id: i64, reason: impl Into<String>) -> Result<AckResult> {
        self.apply_ack(&Reply::nack(id, reason)).await
    }

    /// As [`Self::ack`], by the token that the handler put into its message. The token of an earlier attempt is valid, too.
    ///
    /// # Errors
    /// [`Error::Token`] for a token that was not signed here or has expired.
    pub async fn ack_token(&self, token: &str) -> Result<AckResult> {
        Ok(existed(self.apply_ack(&self.read_token(token)?.ack()).await?))
    }

    /// As [`Self::nack`], by the token of the attempt. The token of an earlier attempt changes nothing.
    ///
    /// # Errors
    /// As [`Self::ack_token`].
    pub async fn nack_token(&self, token: &str, reason: impl Into<String>) -> Result<AckResult> {
        Ok(existed(self.apply_ack(&self.read_token(token)?.nack(reason)).await?))
    }

    async fn apply_ack(&self, reply: &Reply) -> Result<AckResult> {
        let result = self.shared.operate.apply_ack(reply).await?;
        // The next notice of its ordering key, or its own retry, is due.
        self.wake();
        Ok(result)
    }

    /// Sets the secrets of confirmation tokens. Call it at the start, and again whenever they are rotated.
    pub fn use_token_keys(&self, keys: TokenKeys) {
        *self.shared.token_keys.write().unwrap_or_else(PoisonError::into_inner) = Some(keys);
    }

    /// Signs a confirmation token, valid for `valid`. Handlers get it from `notice.ack_token`.
    ///
    /// # Errors
    /// [`Error::Token`] if no keys are set.
    #[doc(hidden)]
    pub fn sign_token(&self, token: AckToken, valid: Duration) -> Result<String> {
        let now = self.now();
        self.with_token_keys(|keys| keys.sign(token, valid, now).ok_or(NO_KEYS))
    }

    /// Verifies a confirmation token and returns its content. Use it to ack or nack within your own transaction:
    /// `outbox.read_token(token)?.ack().apply(&mut tx)`.
    ///
    /// # Errors
    /// [`Error::Token`] for a token that was not signed here or has expired.
    pub fn read_token(&self, token: &str) -> Result<AckToken> {
        let now = self.now();
        self.with_token_keys(|keys| keys.read(token, now))
    }

    fn with_token_keys<T>(&self, work: impl FnOnce(&TokenKeys) -> Result<T>) -> Result<T> {
        work(self.shared.token_keys.read().unwrap_or_else(PoisonError::into_inner).as_ref().ok_or(NO_KEYS)?)
    }

    /// Uses the process's clock, because the expiry of a token decides nothing that is stored.
    fn now(&self) -> SystemTime {
        self.shared.clock.as_ref().map_or_else(SystemTime::now, HandClock::now)
    }

    /// Returns the handle for an operator: dead letters, retrying, cancelling, explaining, editing definitions. The audit
    /// stores at most 200 characters of `who`.
    pub fn operator(&self, who: &str) -> Operator {
        Operator::new(self.clone(), who)
    }

    /// Wakes the sweepers of this process, which then look for edited definitions and due notices at once. Call it after the
    /// commit of a plain transaction, or after an edit by SQL. Never waits.
    pub fn wake(&self) {
        self.shared.wake.send_replace(());
    }

    /// For sweepers: a receiver that changes with each [`Self::wake`].
    pub fn wakes(&self) -> watch::Receiver<()> {
        self.shared.wake.subscribe()
    }

    /// For sweepers: the dispatch of committed notices.
    pub fn dispatch(&self) -> &Dispatch {
        &self.shared.dispatch
    }

    /// For connections: the counter of notices that this process has committed.
    pub fn commits(&self) -> &Commits {
        &self.shared.commits
    }

    /// For sweepers: the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }

    /// The operators' side of the store.
    pub fn operate(&self) -> &Arc<dyn Operate> {
        &self.shared.operate
    }

    /// The hand-turned clock, in tests that use one.
    pub fn hand_clock(&self) -> Option<&HandClock> {
        self.shared.clock.as_ref()
    }
}

/// The editor's name where no operator is named.
const APPLICATION: &str = "application";
const NO_KEYS: Error = Error::Token { problem: "no keys are set (`outbox.use_token_keys`)" };

/// A genuine token proves that the notice existed, so a missing one was purged.
fn existed(answered: AckResult) -> AckResult {
    if answered == AckResult::Unknown { AckResult::Purged } else { answered }
}

pub(crate) fn validate(def: &NotifyDef) -> Result<()> {
    match def.policy() {
        Ok(_) => Ok(()),
        Err(problems) => Err(Error::InvalidDefinition { name: def.name.clone(), problems }),
    }
}

/// Result of [`AnyOutbox::define`].
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

/// Result of an edit: [`AnyOutbox::update`], [`AnyOutbox::delete`], and those of an [`Operator`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Updated {
    /// The change is stored. Contains the row as it is now.
    Done(NotifyDef),
    /// Another editor changed the row since it was read (or another row has the new name). Contains that row.
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

/// A definition as stored, with its invalid columns.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DefinitionState {
    /// The row.
    pub row: NotifyDef,
    /// Why its notices are not sent; empty for a valid row.
    pub problems: Vec<Problem>,
}

impl DefinitionState {
    fn new(row: NotifyDef) -> Self {
        let problems = row.policy().err().unwrap_or_default();
        Self { row, problems }
    }

    /// Returns when it was deleted. A deleted definition only finishes its live notices.
    pub fn deleted(&self) -> Option<SystemTime> {
        self.row.delete_time
    }
}
