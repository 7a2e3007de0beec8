//! The in-memory store as a [`Backend`].

use std::time::SystemTime;

use async_trait::async_trait;
use solid_notify::{
    Added, ColumnValue, Confirmation, Confirmed, Error, HandClock, NewNotice, NotifyDef, Outbox, add_notices,
};
use solid_notify_testkit::MemoryNotify;
use solid_notify_testkit::conformance::Backend;

/// A fresh outbox in memory with a hand-turned clock.
pub struct MemoryBackend {
    notify: MemoryNotify,
    clock: HandClock,
}

impl Default for MemoryBackend {
    fn default() -> Self {
        let clock = HandClock::new(SystemTime::now());
        Self { notify: MemoryNotify::with_clock(clock.clone()), clock }
    }
}

#[async_trait]
impl Backend for MemoryBackend {
    fn outbox(&self) -> &Outbox {
        &self.notify
    }

    fn clock(&self) -> &HandClock {
        &self.clock
    }

    async fn add(&self, notice: NewNotice) -> Result<Added, Error> {
        let mut tx = self.notify.begin();
        let added = notice.add(&mut tx).await?;
        tx.commit();
        Ok(added)
    }

    async fn add_many(&self, notices: Vec<NewNotice>) -> Result<Vec<Added>, Error> {
        let mut tx = self.notify.begin();
        let added = add_notices(&mut tx, notices).await?;
        tx.commit();
        Ok(added)
    }

    async fn confirm(&self, answer: &Confirmation, commit: bool) -> Confirmed {
        let mut tx = self.notify.begin();
        let answered = answer.give(&mut tx).await.unwrap();
        if commit {
            tx.commit();
        }
        answered
    }

    async fn edit_by_hand(&self, def_id: i64, column: &str, value: &str) {
        let all = self.notify.definitions().await.unwrap();
        let row = all.into_iter().find(|state| state.row.id == def_id).unwrap().row;
        let mut values = row.values();
        let at = NotifyDef::COLUMNS.iter().position(|name| *name == column).unwrap();
        values[at] = ColumnValue::Text(Some(value.to_owned()));
        self.notify.edit_by_hand(def_id, NotifyDef::from_values(def_id, values));
    }

    async fn delete_by_hand(&self, def_id: i64) {
        self.notify.edit_by_hand(def_id, None);
    }

    async fn add_and_roll_back(&self, notice: NewNotice) -> Result<Added, Error> {
        let mut tx = self.notify.begin();
        let added = notice.add(&mut tx).await?;
        tx.rollback();
        Ok(added)
    }
}
