//! The in-memory store as a [`Backend`].

use async_trait::async_trait;
use solid_notify_conformance::Backend;
use solid_notify_core::ack::Reply;
use solid_notify_core::definition::ColumnValue;
use solid_notify_core::{AckResult, AnyOutbox, Error, HandClock, Inbox, NewNotice, NotifyDef, Receipt, add_notices};
use solid_notify_testkit::MemoryOutbox;

use crate::hand_clock;

/// A fresh outbox in memory, by default with a hand-turned clock.
pub struct MemoryBackend {
    outbox: MemoryOutbox,
    clock: HandClock,
}

impl Default for MemoryBackend {
    fn default() -> Self {
        Self::with(hand_clock())
    }
}

impl MemoryBackend {
    /// Its clock runs with tokio's time, which the test pauses.
    pub fn on_virtual_time() -> Self {
        Self::with(HandClock::running(hand_clock().now()))
    }

    fn with(clock: HandClock) -> Self {
        Self { outbox: MemoryOutbox::builder().clock(clock.clone()).build(), clock }
    }
}

#[async_trait]
impl Backend for MemoryBackend {
    fn outbox(&self) -> &AnyOutbox {
        &self.outbox
    }

    fn clock(&self) -> &HandClock {
        &self.clock
    }

    async fn add(&self, notice: NewNotice) -> Result<Receipt, Error> {
        let mut tx = self.outbox.begin().await.unwrap();
        let added = notice.add(&mut tx).await?;
        tx.commit().await.unwrap();
        Ok(added)
    }

    async fn add_many(&self, notices: Vec<NewNotice>) -> Result<Vec<Receipt>, Error> {
        let mut tx = self.outbox.begin().await.unwrap();
        let added = add_notices(&mut tx, notices).await?;
        tx.commit().await.unwrap();
        Ok(added)
    }

    async fn apply_ack(&self, answer: &Reply, commit: bool) -> AckResult {
        let mut tx = self.outbox.begin().await.unwrap();
        let answered = answer.apply(&mut tx).await.unwrap();
        if commit {
            tx.commit().await.unwrap();
        }
        answered
    }

    async fn first_time(&self, inbox: &Inbox, key: &str, commit: bool) -> Result<bool, Error> {
        let mut tx = self.outbox.begin().await?;
        let first = inbox.first_time(&mut tx, key).await?;
        if commit {
            tx.commit().await?;
        }
        Ok(first)
    }

    async fn edit_by_hand(&self, def_id: i64, column: &str, value: &str) {
        let all = self.outbox.definitions().await.unwrap();
        let row = all.into_iter().find(|state| state.row.id == def_id).unwrap().row;
        let mut values = row.values();
        let at = NotifyDef::COLUMNS.iter().position(|name| *name == column).unwrap();
        values[at] = ColumnValue::Text(Some(value.to_owned()));
        self.outbox.edit_by_hand(def_id, NotifyDef::from_values(def_id, values));
    }

    async fn delete_by_hand(&self, def_id: i64) {
        self.outbox.edit_by_hand(def_id, None);
    }

    async fn add_and_roll_back(&self, notice: NewNotice) -> Result<Receipt, Error> {
        let mut tx = self.outbox.begin().await.unwrap();
        let added = notice.add(&mut tx).await?;
        tx.rollback().await.unwrap();
        Ok(added)
    }
}
