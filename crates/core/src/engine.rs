//! [`Engine`]: what the connections, sweepers and operators of one process share, behind the handle of the application.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::alert::recipients::wrong_address;
use crate::blocking::Blocking;
use crate::cipher::{self, CipherError, ParamCipher, is_encrypted};
use crate::clock::HandClock;
use crate::definition::{Budget, Edits, InForce, NotifyDef, Problem, in_force, quickly, with_row};
use crate::dispatch::Dispatch;
use crate::error::{Error, Result, StoreError};
use crate::metrics::{self, Commits};
use crate::notice::NoticeRecord;
use crate::secret::{Destination, SecretError, SecretRef, SecretRules, SecretString};
use crate::store::Stores;
use crate::token::{AckToken, TokenKeys};

/// A store, with what this process keeps beside it.
pub struct Engine {
    stores: Stores,
    dispatch: Dispatch,
    commits: Commits,
    clock: Option<HandClock>,
    wake: watch::Sender<()>,
    edits: AtomicU64,
    /// The ids of the sweepers that this process has started.
    own_nodes: RwLock<Vec<String>>,
    token_keys: RwLock<Option<TokenKeys>>,
    /// The random number of the store; 0: not read yet.
    store_id: AtomicI64,
    param_cipher: RwLock<Option<Arc<dyn ParamCipher>>>,
    config_checks: RwLock<HashMap<String, ConfigCheck>>,
    secret_rules: RwLock<Arc<SecretRules>>,
    blocking: Arc<Blocking>,
    computing: Blocking,
}

/// The check of a handler for the column `handler_config`; its error says what is wrong, where, and what would be right.
pub type ConfigCheck = Arc<dyn Fn(Option<&str>) -> std::result::Result<(), String> + Send + Sync>;

impl Engine {
    /// Creates an engine over a store. `clock` is set if the store uses a hand-turned clock.
    pub fn new(stores: Stores, clock: Option<HandClock>) -> Self {
        metrics::describe();
        Self {
            stores,
            dispatch: Dispatch::default(),
            commits: Commits::default(),
            clock,
            wake: watch::channel(()).0,
            edits: AtomicU64::new(0),
            own_nodes: RwLock::default(),
            token_keys: RwLock::default(),
            store_id: AtomicI64::new(0),
            param_cipher: RwLock::default(),
            config_checks: RwLock::default(),
            secret_rules: RwLock::default(),
            blocking: Arc::new(Blocking::waiting()),
            computing: Blocking::computing(),
        }
    }

    /// Adds the check of a handler, by its name. A later one replaces it.
    pub fn check_config_by(&self, handler: String, check: ConfigCheck) {
        self.config_checks.write().insert(handler, check);
    }

    /// Returns the definitions as sweepers follow them.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn in_force(&self) -> Result<Vec<InForce>> {
        Ok(in_force(self.stores.definitions.definitions().await?))
    }

    /// Returns a definition as it would be followed among the stored ones, with the id of its parent if it is a target.
    ///
    /// # Errors
    /// [`Error::InvalidDefinition`] if it is no valid target; those of the store.
    pub(crate) async fn followed(&self, def: &NotifyDef) -> Result<NotifyDef> {
        if def.target_of.is_none() {
            return Ok(def.clone());
        }
        followed_among(def, &self.stores.definitions.definitions().await?)
    }

    /// Checks a definition before it is stored, as [`Self::validate`] does, a target with what it inherits, and what the edit would break in
    /// its targets. Returns the row to store.
    ///
    /// # Errors
    /// [`Error::InvalidDefinition`] names every column that cannot work; [`Error::Invalid`] what would break; those of the store.
    pub(crate) async fn checked(&self, def: NotifyDef) -> Result<NotifyDef> {
        let rows = self.stores.definitions.definitions().await?;
        self.checked_among(def, &rows)
    }

    /// The same of a definition that replaces the stored one of its name, if there is one.
    pub(crate) async fn checked_by_name(&self, def: NotifyDef) -> Result<NotifyDef> {
        let rows = self.stores.definitions.definitions().await?;
        let stored = rows.iter().find(|row| row.name == def.name && row.delete_time.is_none());
        let id = stored.map_or(def.id, |row| row.id);
        Ok(NotifyDef { id: def.id, ..self.checked_among(NotifyDef { id, ..def }, &rows)? })
    }

    /// The same among these rows.
    pub(crate) fn checked_among(&self, def: NotifyDef, rows: &[NotifyDef]) -> Result<NotifyDef> {
        let followed = followed_among(&def, rows)?;
        self.validate(&followed)?;
        let new = NotifyDef { target_of: followed.target_of, ..def };
        if new.id != 0 {
            let after = with_row(rows, &new);
            self.check_family(new.id, &Edits { before: rows, after: &after })?;
        }
        Ok(new)
    }

    /// Checks what the edit of a row would break in its targets, beside other edits.
    ///
    /// # Errors
    /// [`Error::Invalid`] says what.
    pub(crate) fn check_family(&self, id: i64, edits: &Edits<'_>) -> Result<()> {
        let broken = edits.breaks(id, |row| self.problems(row));
        if broken.is_empty() { Ok(()) } else { Err(Error::Invalid { what: "edit", problem: broken.join("; ") }) }
    }

    /// Checks a definition: each column, and `handler_config` by its handler if this process has the handler. One that is no target may
    /// be without it.
    pub(crate) fn validate(&self, def: &NotifyDef) -> Result<()> {
        let problems = self.problems(def);
        if problems.is_empty() { Ok(()) } else { Err(Error::InvalidDefinition { name: def.name.clone(), problems }) }
    }

    fn problems(&self, def: &NotifyDef) -> Vec<Problem> {
        let mut problems = def.policy().err().unwrap_or_default();
        // Not in the policy, because a wrong address in a row that was edited by hand must not stop its notices.
        if let Some((entry, problem)) = wrong_address(def.email.as_ref()) {
            problems.push(Problem::new("email", entry, format!("mail addresses, separated by commas: {problem}")));
        }
        // The targets of a definition may have a configuration each, and they come after it.
        let may_come_later = def.handler_config.is_none() && def.target_of.is_none();
        let is_read = !problems.iter().any(|problem| problem.column == "handler_config");
        if is_read
            && !may_come_later
            && let Some(problem) = self.problem_of_config(def)
        {
            // Without the value, which may contain a secret in the wrong place.
            problems.push(Problem::new("handler_config", "…", format!("what its handler accepts: {problem}")));
        }
        problems
    }

    /// Returns why its handler refuses the `handler_config` of a definition, if this process has the handler.
    pub fn problem_of_config(&self, def: &NotifyDef) -> Option<String> {
        let check = self.config_checks.read().get(def.handler_name()).cloned();
        check?(def.handler_config.as_deref()).err()
    }

    /// Returns the store, by its roles.
    pub fn stores(&self) -> &Stores {
        &self.stores
    }

    /// Returns the dispatch of committed notices to the sweepers of this process.
    pub fn dispatch(&self) -> &Dispatch {
        &self.dispatch
    }

    /// Returns the counter of notices that this process has committed.
    pub fn commits(&self) -> &Commits {
        &self.commits
    }

    /// Returns the hand-turned clock, in tests that use one.
    pub fn hand_clock(&self) -> Option<&HandClock> {
        self.clock.as_ref()
    }

    /// Wakes the sweepers of this process.
    pub fn wake(&self) {
        self.wake.send_replace(());
    }

    /// Returns a receiver that changes with each [`Self::wake`].
    pub fn wakes(&self) -> watch::Receiver<()> {
        self.wake.subscribe()
    }

    /// Records that this process edited a definition, or paused or resumed everything, and wakes its sweepers. They claim and
    /// judge nothing more before they have read the definitions again.
    pub fn edited(&self) {
        self.edits.fetch_add(1, Ordering::SeqCst);
        self.wake();
    }

    /// Returns the number of [`Self::edited`] so far.
    pub fn edits(&self) -> u64 {
        self.edits.load(Ordering::SeqCst)
    }

    /// Records the id of a sweeper of this process.
    pub fn begin_node(&self, id: String) {
        self.own_nodes.write().push(id);
    }

    pub(crate) fn is_own_node(&self, id: &str) -> bool {
        self.own_nodes.read().iter().any(|own| own == id)
    }

    /// Sets the secrets of ack tokens.
    pub fn set_token_keys(&self, keys: TokenKeys) {
        *self.token_keys.write() = Some(keys);
    }

    /// Returns true if the secrets of ack tokens are set.
    pub fn has_token_keys(&self) -> bool {
        self.token_keys.read().is_some()
    }

    /// Sets the cipher of parameters. Sweepers of this process then read the definitions again, which may have waited for it.
    pub fn set_param_cipher(&self, cipher: Arc<dyn ParamCipher>) {
        *self.param_cipher.write() = Some(cipher);
        self.edited();
    }

    /// Returns the cipher of parameters, if one is set.
    pub fn param_cipher(&self) -> Option<Arc<dyn ParamCipher>> {
        self.param_cipher.read().clone()
    }

    /// Decrypts the parameter of a notice; `None`: it is stored as it is. `owners`: the definitions for which it may be encrypted.
    ///
    /// # Errors
    /// Those of the cipher; [`CipherError::UnknownKey`] if none is set.
    pub fn decrypted(
        &self,
        owners: impl IntoIterator<Item = i64>,
        param: &str,
    ) -> std::result::Result<Option<String>, CipherError> {
        if !is_encrypted(param) {
            return Ok(None);
        }
        cipher::decrypt(self.param_cipher().as_deref(), owners, param).map(Some)
    }

    /// Sets which secrets rows may use. Sweepers of this process then read the definitions again, which may have waited for it.
    pub fn set_secret_rules(&self, rules: SecretRules) {
        *self.secret_rules.write() = Arc::new(rules);
        self.edited();
    }

    /// Returns which secrets rows may use.
    pub fn secret_rules(&self) -> Arc<SecretRules> {
        Arc::clone(&self.secret_rules.read())
    }

    /// Reads secrets that the row of a definition names, files on a thread that may block.
    ///
    /// # Errors
    /// [`SecretError`] for the first one that the row may not use, or that cannot be read.
    pub async fn secrets(
        &self,
        definition: &str,
        references: Vec<SecretRef>,
        to: Destination<'_>,
    ) -> std::result::Result<Vec<SecretString>, SecretError> {
        let rules = self.secret_rules();
        let allowing = |one: SecretRef| rules.allowing(definition, &one, to).map(|allowing| (one, allowing));
        let allowed: Vec<_> = references.into_iter().map(allowing).collect::<std::result::Result<_, _>>()?;
        if allowed.iter().all(|(one, _)| one.is_variable()) {
            return allowed.iter().map(|(one, _)| one.read_unrestricted()).collect();
        }
        let first = allowed.first().map(|(one, _)| one.clone());
        let read = move || allowed.iter().map(|(one, allowing)| rules.read(one, allowing)).collect();
        let result = self.blocking.run(definition, move || Ok(read())).await;
        result.unwrap_or_else(|error| first.map_or(Ok(Vec::new()), |first| Err(first.failed(error))))
    }

    /// Returns a record as people see it, by the row of its definition. What takes long is done on a thread that may block.
    pub(crate) async fn for_people(&self, record: NoticeRecord, definition: Option<&NotifyDef>) -> NoticeRecord {
        let Some(row) = definition.filter(|row| row.mask.is_some()).cloned() else {
            return record.for_people(definition);
        };
        let (name, record) = (row.name.clone(), Arc::new(record));
        let of_all = Arc::clone(&record);
        let work = move |budget: &mut Budget| of_all.for_people_within(Some(&row), budget);
        if let Some(shown) = quickly(&work) {
            return shown;
        }
        let shown = self.computing.run(&name, move || Ok(work(&mut Budget::default()))).await;
        // After a panic, which the log has, everything is hidden.
        shown.unwrap_or_else(|_| record.for_people_within(None, &mut Budget::default()))
    }

    /// Returns what runs calls that may block a thread, because they wait.
    pub fn blocking(&self) -> &Arc<Blocking> {
        &self.blocking
    }

    /// Returns what runs calls that may take a processor for long.
    pub fn computing(&self) -> &Blocking {
        &self.computing
    }

    /// Reads the number of the store, once. Tokens that are signed before do not name their store.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn know_store(&self) -> std::result::Result<(), StoreError> {
        if self.store_id.load(Ordering::Relaxed) == 0 {
            let id = self.stores.definitions.store_id().await?;
            self.store_id.store(id.unwrap_or(0), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Signs an ack token, valid for `valid`.
    ///
    /// # Errors
    /// [`Error::TokenKeys`] if no keys are set.
    pub fn sign_token(&self, mut token: AckToken, valid: Duration) -> Result<String> {
        token.store = Some(self.store_id.load(Ordering::Relaxed)).filter(|id| *id != 0);
        self.with_token_keys(|keys| keys.sign(token, valid, self.now()).ok_or(NO_KEYS))
    }

    /// Verifies an ack token and returns its content.
    ///
    /// # Errors
    /// [`Error::TokenKeys`] if no keys are set, [`Error::Token`] for a token that was not signed here or has expired.
    pub fn read_token(&self, token: &str) -> Result<AckToken> {
        self.with_token_keys(|keys| keys.read(token, self.now()))
    }

    fn with_token_keys<T>(&self, work: impl FnOnce(&TokenKeys) -> Result<T>) -> Result<T> {
        work(self.token_keys.read().as_ref().ok_or(NO_KEYS)?)
    }

    /// Uses the process's clock, because the expiry of a token decides nothing that is stored.
    fn now(&self) -> DateTime<Utc> {
        self.clock.as_ref().map_or_else(Utc::now, HandClock::now)
    }
}

/// Returns a definition as it would be followed among these, with the id of its parent if it is a target.
pub(crate) fn followed_among(def: &NotifyDef, rows: &[NotifyDef]) -> Result<NotifyDef> {
    let InForce { mut row, problem, .. } = def.among(rows);
    if let Some(problem) = problem {
        return Err(Error::InvalidDefinition { name: def.name.clone(), problems: vec![problem] });
    }
    if let Some(Ok(parent)) = def.parent_in(rows) {
        // One that has been its target before stays so.
        if def.id == 0 && parent.delete_time.is_some() {
            let problem = Problem::new("target_of", &parent.name, "a definition that is not deleted");
            return Err(Error::InvalidDefinition { name: def.name.clone(), problems: vec![problem] });
        }
        row.target_of = Some(parent.id);
    }
    Ok(row)
}

const NO_KEYS: Error = Error::TokenKeys { problem: "no keys are set (`outbox.use_token_keys`)" };
