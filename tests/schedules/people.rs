//! The applications, receivers and operators of a schedule, which act independently of the sweepers.

use std::time::Duration;

use fastrand::Rng;
use solid_notify::{NewNotice, NotifyDef};
use solid_notify_core::store::Edit;
use solid_notify_testkit::MemoryOutbox;

use crate::ledger::Committed;
use crate::plan::{ACKED, BROKEN, EDITED, FRAGILE, ORDERED, PACED, RULED, SWITCHED, UNHANDLED, WINDOWED};
use crate::world::World;

/// The definitions that applications add to; one that is listed twice is twice as likely.
const NAMES: [&str; 18] = [
    "plain",
    "plain",
    "once",
    "stubborn",
    "narrow",
    "forgotten",
    ORDERED,
    ORDERED,
    ACKED,
    SWITCHED,
    UNHANDLED,
    PACED,
    PACED,
    FRAGILE,
    FRAGILE,
    WINDOWED,
    RULED,
    EDITED,
];

impl World {
    /// Edits a row as people do, by a tool that checks nothing.
    pub async fn edit(&self, name: &str, edit: impl FnOnce(NotifyDef) -> NotifyDef) {
        let all = self.stores().definitions.definitions().await.unwrap();
        let seen = all.into_iter().find(|def| def.name == name).unwrap();
        let new = edit(seen.clone());
        self.tell(format_args!("{name}: {:?}", seen.differences(&new)));
        self.stores().definitions.edit(&Edit::Replace { seen, new }, "eve").await.unwrap();
    }

    pub async fn transaction(&self, outbox: &MemoryOutbox, rng: &mut Rng) {
        let mut tx = outbox.begin().await.unwrap();
        let mut added = Vec::new();
        for _ in 0..rng.usize(1..4) {
            let name = if rng.u8(0..20) == 0 { BROKEN } else { rng.choice(NAMES).unwrap() };
            let key = (name == ORDERED).then(|| rng.char('a'..'d').to_string());
            let mut notice = NewNotice::new(name, 1).unwrap();
            if let Some(key) = &key {
                notice = notice.ordering_key(key.clone());
            }
            let dedupe = (rng.u8(0..8) == 0).then(|| rng.char('p'..'t').to_string());
            if let Some(dedupe) = &dedupe {
                notice = notice.unique_until_ended(dedupe.clone());
            }
            if rng.u8(0..8) == 0 {
                notice = notice.delay(Duration::from_millis(rng.u64(0..30_000)));
            }
            let receipt = notice.add(&mut tx).await.unwrap();
            if !receipt.is_duplicate() {
                added.push((receipt.id(), name, key, dedupe));
            }
        }
        let ids: Vec<i64> = added.iter().map(|(id, ..)| *id).collect();
        if rng.u8(0..5) == 0 {
            self.tell(format_args!("{ids:?} are rolled back"));
            self.ledger().rolled_back.extend(ids);
            return tx.rollback().await.unwrap();
        }
        self.are_alone(&added).await;
        let at = self.now();
        for (id, definition, key, dedupe) in added {
            self.tell(format_args!("{id} is added to {definition} {}", key.as_deref().unwrap_or_default()));
            self.ledger().committed.insert(id, Committed { definition, key, dedupe, at });
        }
        tx.commit().await.unwrap();
    }

    /// Everything is paused for a while.
    pub async fn pause(&self, lasts: Duration) {
        self.outbox.operator("eve").pause_all("as planned").await.unwrap();
        self.tell(format_args!("everything is paused for {lasts:?}"));
        *self.paused.lock().unwrap() = Some(self.now());
        tokio::time::sleep(lasts).await;
        self.outbox.operator("eve").resume_all().await.unwrap();
        self.tell("everything goes on");
        *self.paused.lock().unwrap() = None;
    }

    pub async fn cancel(&self, rng: &mut Rng) {
        let ids: Vec<i64> = self.ledger().committed.keys().copied().collect();
        let Some(id) = rng.choice(ids) else { return };
        let answer = self.outbox.operator("eve").cancel(id, "as planned").await.unwrap();
        self.tell(format_args!("{id} is cancelled: {answer:?}"));
        if answer.is_applied() {
            self.ledger().cancelled.insert(id);
        }
    }

    /// The receiver has got the delivery. Mostly it acks some time later.
    pub fn delivered(&self, id: i64, rng: &mut Rng) {
        if self.ledger().definition(id) != ACKED || rng.u8(0..10) < 3 {
            return;
        }
        let (outbox, after) = (self.outbox.clone(), Duration::from_millis(rng.u64(0..40_000)));
        self.ledger().answers.insert(id);
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            outbox.ack(id).await.unwrap();
        });
    }

    /// Among the live notices of a definition there is one of a dedupe key.
    async fn are_alone(&self, added: &[(i64, &'static str, Option<String>, Option<String>)]) {
        for (id, definition, _, dedupe) in added {
            let Some(key) = dedupe else { continue };
            let same = |other: &Committed| other.definition == *definition && other.dedupe.as_ref() == Some(key);
            let before: Vec<i64> =
                self.ledger().committed.iter().filter(|(_, other)| same(other)).map(|(id, _)| *id).collect();
            let live = self.stand(before.into_iter()).await;
            if let Some(live) = live.iter().flatten().find(|record| !record.status.is_final()) {
                self.ledger().broken.push(format!("notice {id} was added beside {} of its dedupe key", live.id));
            }
        }
    }
}
