//! [`Backend`]: a store under test, and what the cases do with it. Adding and acking are the store's own; the rest goes through the outbox.

use std::time::Duration;

use async_trait::async_trait;
use solid_notify_core::ack::{AckResult, Reply};
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::store::{Look, Purge, Settle, Settled, Stores};
use solid_notify_core::{AnyOutbox, Error, HandClock, Inbox, NewNotice, NoticeRecord, NotifyDef, Receipt, Status};

use super::outcomes::slice_claim;

/// A store under test, empty, with a clock of its own.
#[async_trait]
pub trait Backend: Send + Sync {
    /// Returns the outbox over the store. It must use the clock of [`Self::clock`].
    fn outbox(&self) -> &AnyOutbox;

    /// Returns the clock.
    fn clock(&self) -> &HandClock;

    /// Adds a notice in a transaction of its own and commits it.
    async fn add(&self, notice: NewNotice) -> Result<Receipt, Error>;

    /// Adds notices by one call in a transaction of its own and commits it.
    async fn add_many(&self, notices: Vec<NewNotice>) -> Result<Vec<Receipt>, Error>;

    /// Adds a notice in a transaction and rolls it back.
    async fn add_and_roll_back(&self, notice: NewNotice) -> Result<Receipt, Error>;

    /// Acks or nacks in a transaction of its own, and commits it or rolls it back.
    async fn apply_ack(&self, reply: &Reply, commit: bool) -> AckResult;

    /// Asks an inbox in a transaction of its own whether it sees the key for the first time, and commits it or rolls it back.
    async fn first_time(&self, inbox: &Inbox, key: &str, commit: bool) -> Result<bool, Error>;

    /// Sets a text column of a definition's row like an edit by SQL: nothing is checked, and no sweeper is woken.
    async fn edit_by_hand(&self, def_id: i64, column: &str, value: &str);

    /// Deletes a definition's row in the same way.
    async fn delete_by_hand(&self, def_id: i64);

    /// Like [`Self::add`], for a notice that is valid and not a duplicate.
    #[allow(clippy::unwrap_used, clippy::expect_used)] // That is how a case fails.
    async fn add_new(&self, notice: NewNotice) -> Receipt {
        let receipt = self.add(notice).await.unwrap();
        assert!(!receipt.is_duplicate());
        receipt
    }
}

/// Helpers of the cases. They panic, because that is how a case fails.
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
impl dyn Backend + '_ {
    pub(crate) fn stores(&self) -> &Stores {
        self.outbox().engine().stores()
    }

    pub(crate) async fn define(&self, def: NotifyDef) -> i64 {
        let name = def.name.clone();
        self.outbox().define_if_missing(def).await.expect("define");
        self.definition(&name).await.id
    }

    pub(crate) async fn definition(&self, name: &str) -> NotifyDef {
        let all = self.outbox().definitions().await.expect("definitions");
        all.into_iter().find(|state| state.row.name == name).expect("a definition of this name").row
    }

    pub(crate) async fn add_to(&self, name: &str) -> i64 {
        self.add_new(NewNotice::new(name, 1).unwrap()).await.id()
    }

    pub(crate) async fn record(&self, id: i64) -> NoticeRecord {
        self.outbox().find(id).await.expect("find").expect("a notice of this id")
    }

    pub(crate) async fn claim_slice(&self, def_id: i64, status: Status, limit: usize) -> Vec<ClaimedNotice> {
        self.stores().send.claim(&slice_claim(def_id, status, limit)).await.expect("claim").notices
    }

    /// Claims the only fresh notice of a definition.
    pub(crate) async fn claim_one(&self, def_id: i64) -> ClaimedNotice {
        let mut claimed = self.claim_slice(def_id, Status::NotSent, 10).await;
        assert_eq!(claimed.len(), 1, "one notice is due");
        claimed.remove(0)
    }

    /// Returns the notices of a definition whose leases have expired.
    pub(crate) async fn overdue(&self, def_id: i64) -> Vec<ClaimedNotice> {
        let look = Look::Overdue { def_id, status: Status::Sending };
        self.stores().send.look(&look, 10).await.expect("look")
    }

    /// Purges, and returns the ids of what was deleted.
    pub(crate) async fn purge(&self, purge: &Purge) -> Vec<i64> {
        self.stores().send.purge(purge).await.expect("purge").into_iter().map(|row| row.id).collect()
    }

    pub(crate) async fn settle_one(&self, settle: Settle) -> Settled {
        let mut answers = self.stores().send.settle(&[settle]).await.expect("settle");
        assert_eq!(answers.len(), 1, "one answer per outcome");
        answers.remove(0)
    }

    /// Settles again after a conflict with other nodes and while another session has locked the notice. After a conflict that can
    /// be this call's own session: its connection is closed, and its transaction may end a moment later.
    pub(crate) async fn settle_beside_others(&self, settle: Settle) {
        let stored = async {
            loop {
                match self.stores().send.settle(std::slice::from_ref(&settle)).await.as_deref() {
                    Ok([Settled::Locked]) | Err(_) => tokio::task::yield_now().await,
                    settled => return assert_eq!(settled.unwrap(), [Settled::Stored]),
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), stored).await.expect("it hangs, after a minute");
    }
}
