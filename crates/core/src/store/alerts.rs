//! [`AlertStore`]: the rows of alerts that are due for a digest or for their end, and an operator's verbs on them.
//!
//! An alarm itself is stored with the outcome that causes it ([`super::Settle::alarm`]) or with a heartbeat ([`super::Node::alarms`]).

use async_trait::async_trait;

use super::Advanced;
use crate::alert::AlertReason;
use crate::alert::cooldown::{AlertFacts, AlertRow};
use crate::alert::silence::AlertChange;
use crate::error::StoreError;

/// Alerts that are due, and what operators do with alerts.
///
/// See [`super`] for the contract of all methods.
#[async_trait]
pub trait AlertStore: Send + Sync + 'static {
    /// Returns the rows of alerts that are due, up to `limit`, the longest due first: definition and reason.
    async fn due_alerts(&self, limit: usize) -> Result<Vec<(i64, AlertReason)>, StoreError>;

    /// Returns the row of an alert and the data beside it that decides what becomes of it.
    async fn alert(&self, def_id: i64, reason: AlertReason) -> Result<Option<(AlertRow, AlertFacts)>, StoreError>;

    /// Writes the row of a due alert and inserts its notice, in one transaction. It waits for no row lock.
    async fn advance_alert(&self, step: &AlertStep) -> Result<Advanced, StoreError>;

    /// Returns rows of alerts and silences, up to `limit`, by definition and the name of the reason.
    async fn alerts(&self, limit: usize) -> Result<Vec<(i64, AlertReason, AlertRow)>, StoreError>;

    /// Applies [`crate::alert::silence::decide`] to the row of each reason and writes an audit entry, in one transaction. Returns
    /// false, without an entry, if no row changes.
    async fn change_alerts(&self, change: &AlertChange, who: &str) -> Result<bool, StoreError>;
}

/// What becomes of a due alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertStep {
    /// The definition.
    pub def_id: i64,
    /// The reason.
    pub reason: AlertReason,
    /// The row as it was read, which it must still be.
    pub seen: AlertRow,
    /// The new row; `None`: the row is deleted.
    pub new: Option<AlertRow>,
    /// The notice to insert, due at once: the id of the definition of alerts, and the parameter.
    pub notice: Option<(i64, String)>,
}
