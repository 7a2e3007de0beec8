//! [`AnyOutbox`]: what an application does with the handle of any store: definitions, acks, operators, waking.
//!
//! Beginning transactions and migrating belong to the handle of a particular database (`Outbox<DB>`), which derefs to this.

use std::collections::HashSet;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::ack::{AckResult, Reply};
use crate::built_in::check_rename;
use crate::cipher::{CipherError, ParamCipher};
use crate::definition::{APPLICATION, ColumnValue, InForce, NotifyDef, Problem, in_force};
use crate::engine::Engine;
use crate::error::{FaultKind, Result, StoreError};
use crate::notice::NoticeRecord;
use crate::secret::SecretRules;
use crate::store::{Edit, Edited, NODE_RUNS, SeenNode};
use crate::token::{AckToken, TokenKeys};

/// A store of notices as this process sees it. Clones share all state.
#[derive(Clone)]
pub struct AnyOutbox {
    engine: Arc<Engine>,
}

impl std::fmt::Debug for AnyOutbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnyOutbox").finish_non_exhaustive()
    }
}

impl AnyOutbox {
    /// Creates the handle of a store.
    #[doc(hidden)]
    pub fn over(engine: Engine) -> Self {
        Self { engine: Arc::new(engine) }
    }

    /// Creates the definition if its name is free, and never changes an existing one, because operators may have edited it. A
    /// difference is returned, and logged as a warning at each call. [`Self::define_or_replace`] lets the code win.
    ///
    /// # Errors
    /// [`crate::Error::InvalidDefinition`] names every column that cannot work.
    pub async fn define_if_missing(&self, def: NotifyDef) -> Result<Defined> {
        let def = self.engine.checked(def).await?;
        let defined = match self.edit(Edit::Create(def.clone()), APPLICATION).await? {
            Edited::Stored(row) => Defined::Created(row),
            Edited::Conflict(row) => {
                let differences = row.differences(&def);
                if differences.is_empty() {
                    Defined::Same(row)
                } else {
                    // Without the values, because `handler_config` may contain a secret.
                    let columns: Vec<&str> = differences.iter().map(|(column, ..)| *column).collect();
                    tracing::warn!(definition = %row.name, ?columns, "the stored definition differs from the one in the code; the stored one is followed");
                    Defined::Kept { row, differences }
                }
            }
            Edited::Missing => Defined::Same(def),
        };
        Ok(defined)
    }

    /// Creates the definition, or replaces the stored one of its name: the code wins over edits by operators, which stay in the
    /// versions of the definition.
    ///
    /// # Errors
    /// [`crate::Error::InvalidDefinition`] names every column that cannot work; [`FaultKind::Conflict`] where other editors changed the
    /// row ten times meanwhile.
    pub async fn define_or_replace(&self, def: NotifyDef) -> Result<Defined> {
        let def = self.engine.checked_by_name(def).await?;
        for _ in 0..EDITS {
            match self.plan(&def).await? {
                Plan::Create => {
                    if let Edited::Stored(row) = self.edit(Edit::Create(def.clone()), APPLICATION).await? {
                        return Ok(Defined::Created(row));
                    }
                }
                Plan::Same(row) => return Ok(Defined::Same(row)),
                Plan::Replace { row: seen, differences } => {
                    let new = NotifyDef { id: seen.id, ..def.clone() };
                    if let Edited::Stored(row) = self.edit(Edit::Replace { seen, new }, APPLICATION).await? {
                        return Ok(Defined::Replaced { row, differences });
                    }
                }
            }
        }
        let why = format!("gave up after {EDITS} tries: other editors change the definition {:?}", def.name);
        Err(StoreError::new("replacing a definition", FaultKind::Conflict, why).into())
    }

    /// Returns what [`Self::define_or_replace`] would do now, and changes nothing.
    ///
    /// # Errors
    /// As [`Self::define_or_replace`].
    pub async fn plan(&self, def: &NotifyDef) -> Result<Plan> {
        let def = self.engine.checked_by_name(def.clone()).await?;
        let rows = self.engine.stores().definitions.definitions().await?;
        let Some(row) = rows.into_iter().find(|row| row.name == def.name && row.delete_time.is_none()) else {
            return Ok(Plan::Create);
        };
        let differences = row.differences(&def);
        Ok(if differences.is_empty() { Plan::Same(row) } else { Plan::Replace { row, differences } })
    }

    /// Replaces the definition if the row still equals `seen` (as returned by [`Self::definitions`]).
    ///
    /// # Errors
    /// [`crate::Error::InvalidDefinition`] names every column that cannot work.
    pub async fn update(&self, seen: &NotifyDef, new: NotifyDef) -> Result<Updated> {
        let new = self.engine.checked(new).await?;
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

    pub(crate) async fn store_edit(&self, edit: &Edit, who: &str) -> Result<Edited> {
        if let Edit::Replace { seen, new } | Edit::RollBack { seen, new, .. } = edit {
            check_rename(&seen.name, &new.name)?;
        }
        let edited = self.engine.stores().definitions.edit(edit, who).await?;
        if matches!(edited, Edited::Stored(_)) {
            self.engine.edited();
        }
        Ok(edited)
    }

    /// Returns every definition as stored, with its invalid columns and the nodes that refuse its `handler_config`, sorted by name.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn definitions(&self) -> Result<Vec<DefinitionState>> {
        let rows = self.engine.stores().definitions.definitions().await?;
        let nodes = self.engine.stores().browse.nodes(NODE_RUNS).await?;
        let in_force = in_force(rows.clone());
        let parents: HashSet<i64> = in_force.iter().filter_map(InForce::parent).collect();
        let states = rows.into_iter().zip(in_force);
        let mut states: Vec<_> =
            states.map(|(row, followed)| DefinitionState::new(row, followed, &parents, &nodes)).collect();
        states.sort_by(|a, b| a.row.name.cmp(&b.row.name));
        Ok(states)
    }

    /// Returns one notice, live or ended, by its id, with its whole parameter. For the application; [`crate::Operator::show`] returns
    /// what people may see of it. A parameter that this process cannot decrypt is returned as it is stored.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn find(&self, id: i64) -> Result<Option<NoticeRecord>> {
        let mut found = self.engine.stores().browse.find(id).await?;
        if let Some(notice) = &mut found {
            let mut decrypted = self.engine.decrypted([notice.def_id], &notice.param);
            if matches!(decrypted, Err(CipherError::OtherDefinition { .. })) {
                // What was passed on to a target is encrypted for the definition that it is a target of.
                let rows = self.engine.stores().definitions.definitions().await?;
                let parent = rows.iter().find(|row| row.id == notice.def_id).and_then(|row| row.target_of);
                decrypted = self.engine.decrypted(parent, &notice.param);
            }
            if let Ok(Some(param)) = decrypted {
                notice.param = param;
            }
        }
        Ok(found)
    }

    /// Acks a notice: it ends as succeeded, also if it is being sent, waits for a retry or is a dead letter. A cancelled one
    /// stays cancelled.
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
    /// [`crate::Error::Token`] for a token that was not signed here or has expired, [`crate::Error::TokenKeys`] if no keys are set.
    pub async fn ack_token(&self, token: &str) -> Result<AckResult> {
        self.apply_ack(&self.read_token(token)?.ack()).await
    }

    /// As [`Self::nack`], by the token of the attempt. The token of an earlier attempt changes nothing.
    ///
    /// # Errors
    /// As [`Self::ack_token`].
    pub async fn nack_token(&self, token: &str, reason: impl Into<String>) -> Result<AckResult> {
        self.apply_ack(&self.read_token(token)?.nack(reason)).await
    }

    pub(crate) async fn apply_ack(&self, reply: &Reply) -> Result<AckResult> {
        let result = self.engine.stores().operate.apply_ack(reply).await?;
        // The next notice of its ordering key, or its own retry, is due.
        self.wake();
        Ok(reply.known(result))
    }

    /// Sets the secrets of ack tokens. Call it at the start, and again whenever they are rotated.
    pub fn use_token_keys(&self, keys: TokenKeys) {
        self.engine.set_token_keys(keys);
    }

    /// Sets which secrets the rows of definitions may use, for the sweepers and channels of this outbox. Without this call it is
    /// [`SecretRules::default`]. Call it at the start.
    pub fn use_secret_rules(&self, rules: SecretRules) {
        self.engine.set_secret_rules(rules);
    }

    /// Sets the cipher for the parameters of definitions that have `encrypt_param`: notices added through this outbox are encrypted, and
    /// its sweepers, operators and [`Self::find`] decrypt them. Call it at the start, and again to rotate keys.
    ///
    /// Without a cipher, adding a notice of such a definition is an [`crate::Error::Encryption`], and sweepers leave the definition to
    /// other nodes.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use solid_notify_core::{AnyOutbox, NotifyDef, ParamCipher, Result};
    ///
    /// async fn set_up(outbox: &AnyOutbox, keys: impl ParamCipher + 'static) -> Result<()> {
    ///     outbox.use_param_cipher(Arc::new(keys));
    ///     outbox.define_if_missing(NotifyDef::new("charge_card").encrypt_param(true)).await?;
    ///     Ok(())
    /// }
    /// ```
    pub fn use_param_cipher(&self, cipher: Arc<dyn ParamCipher>) {
        self.engine.set_param_cipher(cipher);
    }

    /// Verifies an ack token and returns its content. Use it to ack or nack within your own transaction:
    /// `outbox.read_token(token)?.ack().apply(&mut tx)`.
    ///
    /// # Errors
    /// [`crate::Error::Token`] for a token that was not signed here or has expired, [`crate::Error::TokenKeys`] if no keys are set.
    pub fn read_token(&self, token: &str) -> Result<AckToken> {
        self.engine.read_token(token)
    }

    /// Wakes the sweepers of this process, which then look for edited definitions and due notices at once. Call it after the
    /// commit of a plain transaction, or after an edit by SQL. Never waits.
    pub fn wake(&self) {
        self.engine.wake();
    }

    /// Returns what stores and sweepers share. Applications do not need it.
    #[doc(hidden)]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}

/// How often [`AnyOutbox::define_or_replace`] tries again after another editor was faster.
const EDITS: usize = 10;

/// Result of [`AnyOutbox::define_if_missing`] and [`AnyOutbox::define_or_replace`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Defined {
    /// The row was missing and is there now.
    Created(NotifyDef),
    /// The row is as given.
    Same(NotifyDef),
    /// The row exists with other values, which stay in force.
    Kept {
        /// The row as stored.
        row: NotifyDef,
        /// Column, stored value, given value.
        differences: Vec<(&'static str, ColumnValue, ColumnValue)>,
    },
    /// The row had other values and was replaced.
    Replaced {
        /// The row as it is now.
        row: NotifyDef,
        /// Column, value before, value now.
        differences: Vec<(&'static str, ColumnValue, ColumnValue)>,
    },
}

/// Result of [`AnyOutbox::plan`]: what [`AnyOutbox::define_or_replace`] would do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Plan {
    /// It would create the row.
    Create,
    /// It would change nothing: the row is as given.
    Same(NotifyDef),
    /// It would replace the row.
    Replace {
        /// The row as stored.
        row: NotifyDef,
        /// Column, stored value, given value.
        differences: Vec<(&'static str, ColumnValue, ColumnValue)>,
    },
}

/// Result of an edit: [`AnyOutbox::update`], [`AnyOutbox::delete`], and those of an [`crate::Operator`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[serde(tag = "result", content = "row", rename_all = "snake_case")]
pub enum Updated {
    /// The change is stored. Contains the row as it is now.
    Stored(NotifyDef),
    /// Another editor changed the row since it was read (or another row has the new name). Contains that row.
    Conflict(NotifyDef),
    /// There is no such row any more.
    Missing,
}

impl From<Edited> for Updated {
    fn from(edited: Edited) -> Self {
        match edited {
            Edited::Stored(row) => Self::Stored(row),
            Edited::Conflict(row) => Self::Conflict(row),
            Edited::Missing => Self::Missing,
        }
    }
}

/// A definition as stored, with its invalid columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DefinitionState {
    /// The row.
    pub row: NotifyDef,
    /// Why its notices are not sent; empty for a valid row.
    pub problems: Vec<Problem>,
    /// The living nodes whose handler refuses its `handler_config`. They send none of its notices. Also those at which single notices wait,
    /// because they cannot be decrypted, the filter cannot be judged for them, or the node may not send to the host that their row names.
    pub refused_by: Vec<Refusal>,
    #[serde(skip)]
    in_force: NotifyDef,
    #[serde(skip)]
    has_targets: bool,
}

/// The refusal of a definition's `handler_config`, or of single notices, by a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Refusal {
    /// The id of the node.
    pub node: String,
    /// What is wrong, where, and what would be right.
    pub problem: String,
}

impl DefinitionState {
    fn new(row: NotifyDef, followed: InForce, parents: &HashSet<i64>, nodes: &[SeenNode]) -> Self {
        let refusal =
            |node: &SeenNode| Some(Refusal { node: node.id.clone(), problem: node.refuses(row.id)?.to_owned() });
        Self {
            problems: followed.policy().err().unwrap_or_default(),
            refused_by: nodes.iter().filter_map(refusal).collect(),
            has_targets: parents.contains(&row.id),
            in_force: followed.row,
            row,
        }
    }

    /// Returns the row as sweepers follow it: a target with what it inherits, any other row as it is.
    pub fn in_force(&self) -> &NotifyDef {
        &self.in_force
    }

    /// Returns the name of the handler that its notices need. `None`: they need none, because they are passed on to its targets.
    pub fn handler(&self) -> Option<&str> {
        (!self.has_targets).then(|| self.in_force.handler_name())
    }

    /// Whether one of these nodes can send its notices.
    pub fn is_handled_by(&self, nodes: &[SeenNode]) -> bool {
        let has = |node: &SeenNode, name: &str| node.handlers.iter().any(|handler| handler == name);
        self.handler().is_none_or(|name| nodes.iter().any(|node| has(node, name)))
    }

    /// Returns when it was deleted. A deleted definition only finishes its live notices.
    pub fn deleted(&self) -> Option<DateTime<Utc>> {
        self.row.delete_time
    }
}
