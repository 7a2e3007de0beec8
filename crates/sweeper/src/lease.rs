//! The lease loop: extends leases that end soon, in one statement and on a connection of its own.
//!
//! A lease is longer than its attempt may take, so extensions serve outcomes that the database did not take in time. The
//! loop also finds claims whose answer was lost, which this node holds without having registered them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::StoreError;
use solid_notify_core::store::{Lease, Look};
use solid_notify_core::transition::Event;
use tokio::time::Instant;

use crate::settle::Outcome;
use crate::worker::Worker;

/// How often the loop looks. Several looks must fit into the grace period after an outage: a claim whose answer was lost is handed back by
/// this node before another node may take its lease as expired, also where a look finds claims under way and ends.
const TICK: Duration = Duration::from_secs(2);
/// A lease with less time left than this is extended.
const SOON: Duration = Duration::from_secs(20);
/// How long to wait for the claims under way.
const CLAIMS_END: Duration = Duration::from_millis(250);
/// The most unregistered notices that one tick looks at after a lost answer; registered ones come on top.
const UNKNOWN: usize = 2000;

pub(crate) async fn lease_loop(worker: Arc<Worker>) {
    let mut turned = worker.clock_turned();
    loop {
        tokio::select! {
            biased;
            () = tokio::time::sleep(TICK) => {}
            () = turned => {}
        }
        // Subscribed before the work, so that a turn of the clock during the work is not missed.
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
            .in_flight()
            .iter()
            .filter(|(_, in_flight)| in_flight.lease_end < now.saturating_add(left))
            .filter(|(_, in_flight)| in_flight.ended || Instant::now() < in_flight.overdue_at)
            .map(|(id, in_flight)| Lease { id: *id, fence: in_flight.fence, lease: in_flight.lease })
            .collect();
        if leases.is_empty() {
            return Ok(());
        }
        // Sorted by id in every statement, so that two statements never wait for each other.
        leases.sort_unstable_by_key(|lease| lease.id);
        // A lease that the store did not extend is tried again at the next look: an acknowledgement's transaction may have
        // locked the row.
        let extended: HashSet<i64> = self.store().extend(&leases).await?.into_iter().collect();
        let mut in_flight = self.in_flight();
        for lease in leases.iter().filter(|lease| extended.contains(&lease.id)) {
            if let Some(in_flight) = in_flight.get_mut(&lease.id).filter(|in_flight| in_flight.fence == lease.fence) {
                in_flight.lease_end = now.saturating_add(lease.lease);
            }
        }
        Ok(())
    }

    /// Hands back, uncounted, notices that the store lists as claimed by this node and that are not registered here: they
    /// were never attempted. A notice whose definition is paused or invalid cannot be handed back yet; its lease is
    /// extended, because this process lives.
    async fn hand_back_unknown(&self) -> Result<(), StoreError> {
        // Runs while no claim is under way, because a claim in progress is not registered yet. If a claim takes long, this
        // waits only a moment, because all other claims wait meanwhile.
        let Ok(_no_claims) = tokio::time::timeout(CLAIMS_END, self.claims.write()).await else { return Ok(()) };
        let (began, mut left) = (Instant::now(), Vec::new());
        // Registered notices cannot fill up the look. A full look is repeated.
        let most = UNKNOWN + self.in_flight().len() + self.given_up().len();
        let found = self.store().look(&Look::ClaimedBy { worker: self.id.clone() }, most).await?;
        let is_full = found.len() == most;
        for claimed in found {
            let (id, fence) = (claimed.id, claimed.fence);
            let known = self.in_flight().get(&id).is_some_and(|in_flight| in_flight.fence == fence);
            if known || self.was_given_up(id, fence) {
                continue;
            }
            let Some(definition) = self.definition(claimed.def_id) else { continue };
            let Some(ready) = definition.ready() else {
                let lease = definition.policy().map_or(4 * SOON, |policy| policy.lease());
                left.push(Lease { id, fence, lease });
                continue;
            };
            if self.begin_to_judge(id, fence) {
                tracing::warn!(definition = %definition.row.name, id, fence, "the answer to a claim was lost; handing it back");
                self.settle(Outcome::new(claimed, Arc::clone(ready), Event::HandedBack(Duration::ZERO)));
            }
        }
        if left.is_empty() && !is_full {
            self.sure_of_claims(began);
        }
        if !left.is_empty() {
            self.store().extend(&left).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use solid_notify_core::store::{Claim, ClaimWhat};
    use solid_notify_core::{HandClock, NotifyDef, Status, add_notice};
    use solid_notify_testkit::MemoryOutbox;

    use super::*;
    use crate::OutboxExt;
    use chrono::DateTime;

    #[tokio::test(start_paused = true)]
    async fn a_handler_that_blocks_its_thread_does_not_keep_its_lease_for_ever() {
        let clock = HandClock::new(DateTime::UNIX_EPOCH + Duration::from_secs(1_000_000));
        let outbox = MemoryOutbox::builder().clock(clock.clone()).build();
        outbox.define_if_missing(NotifyDef::new("sync").timeout("10s")).await.unwrap();
        let policy = outbox.definitions().await.unwrap().remove(0).row.policy().unwrap();
        let mut tx = outbox.begin().await.unwrap();
        let id = add_notice(&mut tx, "sync", 1).await.unwrap().id();
        tx.commit().await.unwrap();
        let worker = Worker::new(outbox.sweeper());
        let what = ClaimWhat::Slice(Status::NotSent);
        let lease = policy.lease();
        let claim = Claim { def_id: policy.def_id, what, limit: 1, lease, worker: worker.id.clone(), quota: None };
        let claimed = outbox.engine().store().claim(&claim).await.unwrap().notices.remove(0);
        worker.hold(&claimed, &policy);
        let lease_end = async || outbox.find(id).await.unwrap().unwrap().next_call_time.unwrap();

        // While its time-out may still fire, the lease is extended.
        tokio::time::advance(Duration::from_secs(39)).await;
        clock.advance(Duration::from_secs(39));
        worker.extend_leases(SOON).await.unwrap();
        let extended = clock.now() + lease;
        assert_eq!(lease_end().await, extended);
        // Its time-out should have fired long ago: other nodes may take the notice.
        tokio::time::advance(Duration::from_secs(39)).await;
        clock.advance(Duration::from_secs(39));
        worker.extend_leases(SOON).await.unwrap();
        assert_eq!(lease_end().await, extended);
        // An outcome that only waits for the database keeps the lease.
        if let Some(in_flight) = worker.in_flight().get_mut(&id) {
            in_flight.ended = true;
        }
        worker.extend_leases(SOON).await.unwrap();
        assert_eq!(lease_end().await, clock.now() + lease);
    }

    #[tokio::test(start_paused = true)]
    async fn lease_that_the_store_did_not_extend_is_tried_again_at_the_next_look() {
        let outbox = MemoryOutbox::new();
        outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
        let policy = outbox.definitions().await.unwrap().remove(0).row.policy().unwrap();
        let mut tx = outbox.begin().await.unwrap();
        add_notice(&mut tx, "sync", 1).await.unwrap();
        tx.commit().await.unwrap();
        let worker = Worker::new(outbox.sweeper());
        let (what, lease) = (ClaimWhat::Slice(Status::NotSent), policy.lease());
        let claim = Claim { def_id: policy.def_id, what, limit: 1, lease, worker: worker.id.clone(), quota: None };
        let mut claimed = outbox.engine().store().claim(&claim).await.unwrap().notices.remove(0);
        // The store skips it, like a row that another transaction has locked.
        claimed.fence += 1;
        worker.hold(&claimed, &policy);
        tokio::time::advance(Duration::from_secs(1)).await;
        let before = worker.in_flight()[&claimed.id].lease_end;
        worker.extend_leases(Duration::MAX).await.unwrap();
        assert_eq!(worker.in_flight()[&claimed.id].lease_end, before);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unknown_claim_of_a_paused_definition_keeps_its_lease() {
        let clock = HandClock::new(DateTime::UNIX_EPOCH + Duration::from_secs(1_000_000));
        let outbox = MemoryOutbox::builder().clock(clock.clone()).build();
        outbox.define_if_missing(NotifyDef::new("sync").enabled(false)).await.unwrap();
        let mut tx = outbox.begin().await.unwrap();
        let id = add_notice(&mut tx, "sync", 1).await.unwrap().id();
        tx.commit().await.unwrap();
        let worker = Worker::new(outbox.sweeper());
        worker.reload_definitions().await.unwrap();
        let def_id = outbox.find(id).await.unwrap().unwrap().def_id;
        let (what, lease) = (ClaimWhat::Slice(Status::NotSent), Duration::from_secs(60));
        let claim = Claim { def_id, what, limit: 1, lease, worker: worker.id.clone(), quota: None };
        outbox.engine().store().claim(&claim).await.unwrap();
        worker.claim_unsure();
        clock.advance(Duration::from_secs(50));
        worker.hand_back_unknown().await.unwrap();
        let record = outbox.find(id).await.unwrap().unwrap();
        assert_eq!((record.status, record.crashes), (Status::Sending, 0));
        assert!(record.next_call_time.unwrap() >= clock.now() + Duration::from_secs(50), "no node may count a crash");
    }

    #[tokio::test(start_paused = true)]
    async fn unknown_claims_are_found_behind_thousands_that_are_known() {
        let outbox = MemoryOutbox::new();
        outbox.define_if_missing(NotifyDef::new("sync").max_concurrency(5000)).await.unwrap();
        let mut tx = outbox.begin().await.unwrap();
        for n in 0..2100 {
            add_notice(&mut tx, "sync", n).await.unwrap();
        }
        tx.commit().await.unwrap();
        let handler = |_: crate::Notice<i64>| async { Ok(()) };
        let worker = Worker::new(outbox.sweeper().handler("sync", handler));
        worker.reload_definitions().await.unwrap();
        let policy = outbox.definitions().await.unwrap().into_iter().find(|state| state.row.name == "sync").unwrap();
        let policy = policy.row.policy().unwrap();
        let (what, lease) = (ClaimWhat::Slice(Status::NotSent), policy.lease());
        let claim = Claim { def_id: policy.def_id, what, limit: 2100, lease, worker: worker.id.clone(), quota: None };
        let claimed = outbox.engine().store().claim(&claim).await.unwrap().notices;
        let (unknown, known) = claimed.split_last().unwrap();
        known.iter().for_each(|claimed| worker.hold(claimed, &policy));
        worker.claim_unsure();
        worker.hand_back_unknown().await.unwrap();
        assert!(!worker.begin_to_judge(unknown.id, unknown.fence), "this notice is being handed back");
    }

    #[tokio::test(start_paused = true)]
    async fn attempt_that_was_given_up_is_forgotten_after_a_day() {
        let worker = Worker::new(MemoryOutbox::new().sweeper());
        worker.give_up(1, 1);
        tokio::time::advance(Duration::from_secs(86_400)).await;
        worker.give_up(2, 1);
        assert!(worker.was_given_up(2, 1) && worker.given_up().len() == 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_whose_answer_was_lost_is_sought_until_a_late_look_succeeds() {
        let worker = Worker::new(MemoryOutbox::new().sweeper());
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
