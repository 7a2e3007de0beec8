//! [`ActVerb`]: the verbs of bulk changes, and the filters that they take.

use serde::{Deserialize, Serialize};

use super::filter::Filter;
use crate::error::Result;
use crate::notice::Status;

/// What a bulk act does with each notice of its filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ActVerb {
    /// As [`crate::Operator::retry_all`].
    Retry,
    /// As [`crate::Operator::cancel_all`].
    Cancel,
    /// As [`crate::Operator::purge_all`].
    Purge,
}

impl ActVerb {
    /// Returns its name: `retry`, `cancel` or `purge`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Cancel => "cancel",
            Self::Purge => "purge",
        }
    }

    /// Rejects a filter that no index serves, or with statuses that the verb does not change.
    pub(super) fn check(self, filter: &Filter) -> Result<()> {
        use Status::{AwaitingAck, Cancelled, DeadLetter, Failed, NotSent, Succeeded};
        match self {
            Self::Retry => {
                filter.check(&[DeadLetter, Cancelled], "only dead letters and cancelled notices are retried in bulk")
            }
            Self::Cancel => filter.check(
                &[NotSent, Failed, AwaitingAck],
                "only notices that wait are cancelled in bulk (`Filter::waiting()`)",
            ),
            Self::Purge => filter.check(
                &[Succeeded, DeadLetter, Cancelled],
                "only ended notices are purged (`Filter::ended()`); `cancel_all` ends notices that wait",
            ),
        }
    }
}
