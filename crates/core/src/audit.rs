//! [`AuditEntry`]: an entry of the audit, for each change by a person. Stores keep entries, and versions of definitions are shown as entries.

use chrono::{DateTime, Utc};
use serde::Serialize;

/// What is done by [`AuditEntry::of_test`].
const TEST_SEND: &str = "test_send";

/// An operator's action: a row of `notify_audit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditEntry {
    /// When, by the database's clock.
    pub time: DateTime<Utc>,
    /// The operator.
    pub who: String,
    /// What was done: a verb, such as `retry`.
    pub act: String,
    /// The definition, if the action concerned one.
    pub def_id: Option<i64>,
    /// The notice, if the action concerned one.
    pub notice_id: Option<i64>,
    /// The notices that a step of a bulk verb changed, by their ids; empty for other actions.
    pub notice_ids: Vec<i64>,
    /// The details, for people.
    pub detail: Option<String>,
}

impl AuditEntry {
    /// Creates an entry without definition, notices and detail.
    pub fn new(time: DateTime<Utc>, who: impl Into<String>, act: impl Into<String>) -> Self {
        let (who, act) = (who.into(), act.into());
        Self { time, who, act, def_id: None, notice_id: None, notice_ids: Vec::new(), detail: None }
    }

    /// Creates the entry of a test that an operator sends.
    pub fn of_test(time: DateTime<Utc>, who: &str, def_id: i64, notice_id: i64) -> Self {
        Self { def_id: Some(def_id), notice_id: Some(notice_id), ..Self::new(time, who, TEST_SEND) }
    }
}
