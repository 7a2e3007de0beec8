//! [`Receipt`]: what adding a notice returns.

use std::time::Duration;

use crate::dispatch::{FirstAttempt, FirstAttemptReceiver};

/// Result of adding a notice. It is valid once the transaction has committed.
#[derive(Debug)]
pub struct Receipt {
    id: i64,
    added: Option<FirstAttemptReceiver>,
}

impl Receipt {
    /// Creates the receipt of an added notice.
    #[doc(hidden)]
    pub fn added(id: i64, first_attempt: FirstAttemptReceiver) -> Self {
        Self { id, added: Some(first_attempt) }
    }

    /// Creates the receipt of a notice that was not added, because the notice `id` has its dedupe key.
    #[doc(hidden)]
    pub fn duplicate(id: i64) -> Self {
        Self { id, added: None }
    }

    /// Returns the id of the added notice, which the handler and every table show. For a duplicate it is the id of the notice
    /// that has the dedupe key.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// Returns true if nothing was added, because another notice has the dedupe key.
    pub fn is_duplicate(&self) -> bool {
        self.added.is_none()
    }

    /// Waits until the first attempt has ended and its outcome is stored, at most `limit`. Call it after the commit; before the
    /// commit it waits for the whole `limit`.
    pub async fn first_attempt(self, limit: Duration) -> FirstAttempt {
        match self.added {
            Some(first_attempt) => first_attempt.wait(limit).await,
            None => FirstAttempt::Duplicate,
        }
    }
}
