//! The lease loop: extends leases that end soon, in batches and on a connection of its own.
//!
//! A lease is longer than its attempt may take, so extensions serve outcomes that the database did not take in time. The
//! loop also finds claims whose answer was lost, which the store lists for this node and which are not registered here.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::StoreError;
use solid_notify_core::store::{Lease, Look};
use solid_notify_core::transition::Event;
use tokio::time::Instant;

use crate::refusals::Part;
use crate::settling::Outcome;
use crate::worker::Worker;

/// How often the loop looks. Several looks must fit into the grace period after an outage. This node then hands a claim whose response was
/// lost back before another node may take its lease as expired, also where a look finds claims under way and ends.
const TICK: Duration = Duration::from_secs(2);
/// A lease with less time left than this is extended.
const SOON: Duration = Duration::from_secs(20);
/// How long to wait for the claims under way.
const CLAIMS_END: Duration = Duration::from_millis(250);
/// The most unregistered notices that one tick looks at after a lost response; registered ones come on top.
const UNKNOWN: usize = 2000;

pub(crate) async fn lease_loop(worker: Arc<Worker>) {
    let mut turned = worker.signals.clock_turned();
    loop {
        tokio::select! {
            biased;
            () = tokio::time::sleep(TICK) => {}
            () = turned => {}
        }
        // Subscribed before the work, so that a turn of the clock during the work is not missed.
        turned = worker.signals.clock_turned();
        worker.health.extends();
        match extend_leases(&worker, SOON).await {
            Ok(()) => worker.health.works(Part::Leases, worker.moment()),
            Err(error) => worker.health.failed(Part::Leases, &error),
        }
        worker.health.extends();
        if worker.in_flight.may_have_lost_claims()
            && let Err(error) = hand_back_unknown(&worker).await
        {
            worker.health.mention(&error);
        }
        worker.health.extended();
    }
}

/// Extends every lease with less than `left` to run.
pub(crate) async fn extend_leases(worker: &Worker, left: Duration) -> Result<(), StoreError> {
    let now = worker.moment();
    let leases = worker.in_flight.leases_to_extend(now, left);
    if leases.is_empty() {
        return Ok(());
    }
    // A lease that the store did not extend is tried again at the next look: an acknowledgement's transaction may have
    // locked the row.
    let extended: HashSet<i64> = worker.stores().send.extend(&leases).await?.into_iter().collect();
    worker.in_flight.extended(leases.iter().filter(|lease| extended.contains(&lease.id)), now);
    Ok(())
}

/// Hands back, uncounted, notices that the store lists as claimed by this node and that are not registered here: they
/// were never attempted. A notice whose definition is paused or invalid cannot be handed back yet; its lease is
/// extended, because this process lives.
async fn hand_back_unknown(worker: &Worker) -> Result<(), StoreError> {
    // Runs while no claim is under way, because a claim in progress is not registered yet. If a claim takes long, this
    // waits only a moment, because all other claims wait meanwhile.
    let Ok(_no_claims) = tokio::time::timeout(CLAIMS_END, worker.in_flight.without_claims()).await else {
        return Ok(());
    };
    let (began, mut left) = (Instant::now(), Vec::new());
    // Registered notices cannot fill up the look. A full look is repeated.
    let most = UNKNOWN + worker.in_flight.known();
    let found = worker.stores().send.look(&Look::ClaimedBy { worker: worker.id.clone() }, most).await?;
    let is_full = found.len() == most;
    for claimed in found {
        let (id, fence) = (claimed.id, claimed.fence);
        if worker.in_flight.contains(id, fence) || worker.in_flight.was_given_up(id, fence) {
            continue;
        }
        let Some(definition) = worker.definition(claimed.def_id) else { continue };
        let Some(ready) = definition.ready() else {
            let lease = definition.policy().map_or(4 * SOON, |policy| policy.lease());
            left.push(Lease { id, fence, lease });
            continue;
        };
        if worker.in_flight.begin_to_judge(id, fence) {
            tracing::warn!(definition = %definition.row.name, id, fence, "the answer to a claim was lost; handing it back");
            worker.queue_outcome(Outcome::new(claimed, Arc::clone(ready), Event::HandedBack(Duration::ZERO)));
        }
    }
    if left.is_empty() && !is_full {
        worker.in_flight.looked_for_lost_claims(began);
    }
    if !left.is_empty() {
        worker.stores().send.extend(&left).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use solid_notify_core::store::{Claim, ClaimWhat};
    use solid_notify_core::{HandClock, NotifyDef, Policy, Status, add_notice};
    use solid_notify_testkit::MemoryOutbox;

    use super::*;
    use crate::OutboxExt;

    fn claim(worker: &Worker, policy: &Policy, limit: usize) -> Claim {
        Claim::new(policy, &worker.id, ClaimWhat::Slice(Status::NotSent), limit)
    }

    #[tokio::test(start_paused = true)]
    async fn a_handler_that_blocks_its_thread_does_not_keep_its_lease_for_ever() {
        let clock = HandClock::new(DateTime::UNIX_EPOCH + Duration::from_secs(1_000_000));
        let outbox = MemoryOutbox::builder().clock(clock.clone()).build();
        outbox.define_if_missing(NotifyDef::new("sync").timeout("10s")).await.unwrap();
        let policy = outbox.definitions().await.unwrap().remove(0).row.policy().unwrap();
        let mut tx = outbox.begin().await.unwrap();
        let id = add_notice(&mut tx, "sync", 1).await.unwrap().id();
        tx.commit().await.unwrap();
        let worker = Worker::new(outbox.sweeper().setup);
        let (lease, claim) = (policy.lease(), claim(&worker, &policy, 1));
        let claimed = outbox.engine().stores().send.claim(&claim).await.unwrap().notices.remove(0);
        worker.in_flight.register(&claimed, &policy, worker.moment());
        let lease_end = async || outbox.find(id).await.unwrap().unwrap().next_call_time.unwrap();

        // While its time-out may still fire, the lease is extended.
        tokio::time::advance(Duration::from_secs(39)).await;
        clock.advance(Duration::from_secs(39));
        extend_leases(&worker, SOON).await.unwrap();
        let extended = clock.now() + lease;
        assert_eq!(lease_end().await, extended);
        // Its time-out should have fired long ago: other nodes may take the notice.
        tokio::time::advance(Duration::from_secs(39)).await;
        clock.advance(Duration::from_secs(39));
        extend_leases(&worker, SOON).await.unwrap();
        assert_eq!(lease_end().await, extended);
        // An outcome that only waits for the database keeps the lease.
        worker.in_flight.ended(id, claimed.fence);
        extend_leases(&worker, SOON).await.unwrap();
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
        let worker = Worker::new(outbox.sweeper().setup);
        let claim = claim(&worker, &policy, 1);
        let mut claimed = outbox.engine().stores().send.claim(&claim).await.unwrap().notices.remove(0);
        // The store skips it, like a row that another transaction has locked.
        claimed.fence += 1;
        worker.in_flight.register(&claimed, &policy, worker.moment());
        tokio::time::advance(policy.lease() - SOON / 2).await;
        extend_leases(&worker, SOON).await.unwrap();
        let left = worker.in_flight.leases_to_extend(worker.moment(), SOON);
        assert_eq!(left.len(), 1, "its lease still ends soon");
    }

    #[tokio::test(start_paused = true)]
    async fn an_unknown_claim_of_a_paused_definition_keeps_its_lease() {
        let clock = HandClock::new(DateTime::UNIX_EPOCH + Duration::from_secs(1_000_000));
        let outbox = MemoryOutbox::builder().clock(clock.clone()).build();
        outbox.define_if_missing(NotifyDef::new("sync").enabled(false)).await.unwrap();
        let mut tx = outbox.begin().await.unwrap();
        let id = add_notice(&mut tx, "sync", 1).await.unwrap().id();
        tx.commit().await.unwrap();
        let worker = Worker::new(outbox.sweeper().setup);
        worker.reload_definitions().await.unwrap();
        let def_id = outbox.find(id).await.unwrap().unwrap().def_id;
        let policy = worker.definition(def_id).unwrap().policy().unwrap().clone();
        outbox.engine().stores().send.claim(&claim(&worker, &policy, 1)).await.unwrap();
        worker.in_flight.claim_answer_lost();
        clock.advance(Duration::from_secs(50));
        hand_back_unknown(&worker).await.unwrap();
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
        let worker = Worker::new(outbox.sweeper().handler("sync", handler).setup);
        worker.reload_definitions().await.unwrap();
        let policy = outbox.definitions().await.unwrap().into_iter().find(|state| state.row.name == "sync").unwrap();
        let policy = policy.row.policy().unwrap();
        let claimed = outbox.engine().stores().send.claim(&claim(&worker, &policy, 2100)).await.unwrap().notices;
        let (unknown, known) = claimed.split_last().unwrap();
        known.iter().for_each(|claimed| worker.in_flight.register(claimed, &policy, worker.moment()));
        worker.in_flight.claim_answer_lost();
        hand_back_unknown(&worker).await.unwrap();
        assert!(!worker.in_flight.begin_to_judge(unknown.id, unknown.fence), "this notice is being handed back");
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_whose_answer_was_lost_is_sought_until_a_late_look_succeeds() {
        let worker = Worker::new(MemoryOutbox::new().sweeper().setup);
        worker.in_flight.claim_answer_lost();
        hand_back_unknown(&worker).await.unwrap();
        assert!(worker.in_flight.may_have_lost_claims(), "the server may carry it out later");
        // An outage, during which no look succeeds.
        tokio::time::advance(Duration::from_secs(600)).await;
        assert!(worker.in_flight.may_have_lost_claims());
        hand_back_unknown(&worker).await.unwrap();
        assert!(!worker.in_flight.may_have_lost_claims());
    }
}
