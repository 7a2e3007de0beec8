//! The lease loop: leases that end soon are extended in one statement, on a connection that waits behind nothing.
//!
//! A lease is longer than its attempt may take, so this is for outcomes that the database did not take in time. The loop
//! also finds what this node holds without knowing: claims whose answer was lost.

use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::StoreError;
use solid_notify_core::store::{Lease, Look};
use solid_notify_core::transition::Event;
use tokio::time::Instant;

use crate::settle::Outcome;
use crate::worker::Worker;

/// How often to look.
const TICK: Duration = Duration::from_secs(5);
/// A lease with less left than this is extended.
const SOON: Duration = Duration::from_secs(20);
/// The most notices that are looked at in one tick after a lost answer.
const UNKNOWN: usize = 2000;

pub(crate) async fn lease_loop(worker: Arc<Worker>) {
    let mut turned = worker.clock_turned();
    loop {
        tokio::select! {
            biased;
            () = tokio::time::sleep(TICK) => {}
            () = turned => {}
        }
        // Subscribed before the work, so that a turn of the clock during it is not missed.
        turned = worker.clock_turned();
        if let Err(error) = worker.extend_leases(SOON).await {
            worker.health.note(&error);
        }
        if worker.is_claim_unsure()
            && let Err(error) = worker.hand_back_unknown().await
        {
            worker.health.mention(&error);
        }
    }
}

impl Worker {
    /// Extends every lease with less than `left` to run.
    pub(crate) async fn extend_leases(&self, left: Duration) -> Result<(), StoreError> {
        let now = self.moment();
        let mut leases: Vec<Lease> = self
            .held()
            .iter()
            .filter(|(_, held)| held.lease_end < now.saturating_add(left))
            .filter(|(_, held)| held.ended || Instant::now() < held.overdue_at)
            .map(|(id, held)| Lease { id: *id, attempt: held.attempt, lease: held.lease })
            .collect();
        if leases.is_empty() {
            return Ok(());
        }
        // In one order everywhere, so that two statements never wait for each other.
        leases.sort_unstable_by_key(|lease| lease.id);
        self.store().extend(&leases).await?;
        let mut held = self.held();
        for lease in &leases {
            if let Some(held) = held.get_mut(&lease.id).filter(|held| held.attempt == lease.attempt) {
                held.lease_end = now.saturating_add(lease.lease);
            }
        }
        Ok(())
    }

    /// Hands back, uncounted, what the store believes to be held here and is not: nobody has tried to send it. What cannot be handed
    /// back yet, since its definition is paused or broken, keeps its lease: this process has not died.
    async fn hand_back_unknown(&self) -> Result<(), StoreError> {
        // While no claim is under way: what is claimed just now is not registered yet.
        let _no_claims = self.claims.write().await;
        let (began, mut left) = (Instant::now(), Vec::new());
        for claimed in self.store().look(&Look::HeldBy { worker: self.id.clone() }, UNKNOWN).await? {
            let (id, attempt) = (claimed.id, claimed.attempt);
            let known = self.held().get(&id).is_some_and(|held| held.attempt == attempt);
            if known || self.was_given_up(id, attempt) {
                continue;
            }
            let Some(definition) = self.definition(claimed.def_id) else { continue };
            let Some(ready) = definition.ready() else {
                let lease = definition.policy().map_or(4 * SOON, |policy| policy.lease());
                left.push(Lease { id, attempt, lease });
                continue;
            };
            if self.begin_to_judge(id, attempt) {
                tracing::warn!(definition = %definition.row.name, id, attempt, "the answer to a claim was lost; handing it back");
                self.settle(Outcome::new(claimed, Arc::clone(ready), Event::HandedBack));
            }
        }
        if left.is_empty() {
            self.sure_of_claims(began);
        } else {
            self.store().extend(&left).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use solid_notify_core::store::{Claim, ClaimWhat};
    use solid_notify_core::{HandClock, NotifyDef, Status, add_notice};
    use solid_notify_testkit::MemoryNotify;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_handler_that_blocks_its_thread_does_not_keep_its_lease_for_ever() {
        let clock = HandClock::new(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000));
        let notify = MemoryNotify::with_clock(clock.clone());
        notify.define(NotifyDef::new("sync").timeout("10s")).await.unwrap();
        let policy = notify.definitions().await.unwrap().remove(0).row.policy().unwrap();
        let mut tx = notify.begin();
        let id = add_notice(&mut tx, "sync", 1).await.unwrap().id();
        tx.commit();
        let worker = Worker::new(crate::Sweeper::builder(&notify));
        let what = ClaimWhat::Lane(Status::NotSent);
        let lease = policy.lease();
        let claim = Claim { def_id: policy.def_id, what, limit: 1, lease, worker: worker.id.clone(), quota: None };
        let claimed = notify.store().claim(&claim).await.unwrap().notices.remove(0);
        worker.hold(&claimed, &policy);
        let lease_end = async || notify.find(id).await.unwrap().unwrap().next_call_time.unwrap();

        // While its time-out may still fire, the lease is extended.
        tokio::time::advance(Duration::from_secs(39)).await;
        clock.advance(Duration::from_secs(39));
        worker.extend_leases(SOON).await.unwrap();
        let extended = clock.now() + lease;
        assert_eq!(lease_end().await, extended);
        // It should have, long ago: others may take the notice.
        tokio::time::advance(Duration::from_secs(39)).await;
        clock.advance(Duration::from_secs(39));
        worker.extend_leases(SOON).await.unwrap();
        assert_eq!(lease_end().await, extended);
        // An outcome that only waits for the database keeps it.
        if let Some(held) = worker.held().get_mut(&id) {
            held.ended = true;
        }
        worker.extend_leases(SOON).await.unwrap();
        assert_eq!(lease_end().await, clock.now() + lease);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unknown_claim_of_a_paused_definition_keeps_its_lease() {
        let clock = HandClock::new(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000));
        let notify = MemoryNotify::with_clock(clock.clone());
        notify.define(NotifyDef::new("sync").enabled(false)).await.unwrap();
        let mut tx = notify.begin();
        let id = add_notice(&mut tx, "sync", 1).await.unwrap().id();
        tx.commit();
        let worker = Worker::new(crate::Sweeper::builder(&notify));
        worker.reload_definitions().await.unwrap();
        let def_id = notify.find(id).await.unwrap().unwrap().def_id;
        let (what, lease) = (ClaimWhat::Lane(Status::NotSent), Duration::from_secs(60));
        let claim = Claim { def_id, what, limit: 1, lease, worker: worker.id.clone(), quota: None };
        notify.store().claim(&claim).await.unwrap();
        worker.claim_unsure();
        clock.advance(Duration::from_secs(50));
        worker.hand_back_unknown().await.unwrap();
        let record = notify.find(id).await.unwrap().unwrap();
        assert_eq!((record.status, record.crashes), (Status::Sending, 0));
        assert!(record.next_call_time.unwrap() >= clock.now() + Duration::from_secs(50), "nobody may count a crash");
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_whose_answer_was_lost_is_looked_for_until_a_late_look_has_succeeded() {
        let worker = Worker::new(crate::Sweeper::builder(&MemoryNotify::new()));
        worker.claim_unsure();
        worker.hand_back_unknown().await.unwrap();
        assert!(worker.is_claim_unsure(), "the server may carry it out later");
        // An outage, during which no look succeeds.
        tokio::time::advance(Duration::from_secs(600)).await;
        assert!(worker.is_claim_unsure());
        worker.hand_back_unknown().await.unwrap();
        assert!(!worker.is_claim_unsure());
    }
}
