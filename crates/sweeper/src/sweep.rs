//! The sweep: looks for what is due, claims it per definition and lane up to the free slots, and sleeps exactly until
//! the next due time.
//!
//! Per definition, so that the backlog or the pause of one never starves another; per lane, so that old retries never
//! hide fresh notices.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::store::{Claim, ClaimWhat, DueLane};
use solid_notify_core::transition::Event;
use solid_notify_core::{Status, StoreError};
use tokio::time::Instant;

use crate::definitions::{Definition, RELOAD_INTERVAL, Ready};
use crate::health::Backoff;
use crate::settle::Outcome;
use crate::worker::Worker;

/// The most notices of one claim.
const BATCH: usize = 500;
/// How long to gather free slots while more is due than there were slots for.
const REFILL: Duration = Duration::from_millis(1);
/// The shortest sleep: two looks within the same millisecond find the same.
const SHORTEST: Duration = Duration::from_millis(1);

pub(crate) async fn sweep_loop(worker: Arc<Worker>) {
    let mut wakes = worker.outbox.wakes();
    let mut backoff = Backoff::new();
    let mut loaded = Instant::now();
    let mut turn = 0_usize;
    while !worker.stop.is_cancelled() {
        // Subscribed before the look, so that a turn of the clock during it is not missed.
        let turned = worker.clock_turned();
        let woken = wakes.has_changed().unwrap_or(false);
        if woken {
            wakes.mark_unchanged();
        }
        let round = async {
            worker.recover().await?;
            if woken || loaded.elapsed() >= RELOAD_INTERVAL {
                worker.reload_definitions().await?;
                loaded = Instant::now();
            }
            turn = turn.wrapping_add(1);
            worker.sweep(turn).await
        };
        let sleep = match round.await {
            Ok(next) => {
                backoff.reset();
                next
            }
            Err(error) => {
                worker.health.note(&error);
                backoff.next()
            }
        };
        if sleep.is_zero() {
            // More is due than was claimed; but let the others of this thread have their turn.
            tokio::task::yield_now().await;
            continue;
        }
        tokio::select! {
            () = tokio::time::sleep(sleep) => {}
            _ = wakes.changed() => { wakes.mark_changed(); }
            // A moment later more slots are free, and one claim takes for all of them.
            () = worker.slots.freed.notified() => tokio::time::sleep(REFILL).await,
            () = worker.due_soon.notified() => {}
            () = turned => {}
            () = worker.stop.cancelled() => {}
        }
    }
}

impl Worker {
    /// After an outage: first extends our leases and lets our outcomes be written; only then is anything claimed.
    async fn recover(&self) -> Result<(), StoreError> {
        if self.health.is_down() {
            // Whatever is left of them. Where nothing is held, this only tells whether the database answers.
            self.extend_leases(Duration::MAX).await?;
            self.reload_definitions().await?;
            self.health.recovered();
        }
        Ok(())
    }

    /// One look at everything; returns how long to sleep, zero where more is due already.
    async fn sweep(self: &Arc<Self>, turn: usize) -> Result<Duration, StoreError> {
        let due = self.store().due().await?;
        let mut by_def: BTreeMap<i64, Vec<DueLane>> = BTreeMap::new();
        for lane in due.lanes {
            by_def.entry(lane.def_id).or_default().push(lane);
        }
        let definitions = self.definitions();
        let mut sleep = self.settings.poll_interval;
        let mut any_due = false;
        // Another definition is first each time, so that the node's limit is shared.
        let first = turn % by_def.len().max(1);
        for (def_id, lanes) in by_def.iter().skip(first).chain(by_def.iter().take(first)) {
            let Some(definition) = definitions.get(*def_id) else { continue };
            let Some(ready) = definition.ready() else { continue };
            if self.stop.is_cancelled() {
                break;
            }
            let (now, later): (Vec<&DueLane>, Vec<&DueLane>) = lanes.iter().partition(|lane| lane.after.is_zero());
            if let Some(next) = later.iter().map(|lane| lane.after).min() {
                sleep = sleep.min(next.max(SHORTEST));
            }
            any_due |= now.iter().any(|lane| lane.status != Status::AwaitingConfirm);
            if now.iter().any(|lane| lane.status == Status::Sending) {
                sleep = sleep.min(self.rescue(definition, ready).await?);
            }
            let sending: Vec<Status> = now
                .iter()
                .map(|lane| lane.status)
                .filter(|status| matches!(status, Status::NotSent | Status::Failed))
                .collect();
            if self.claim_lanes(definition, ready, &sending, turn).await? {
                sleep = Duration::ZERO;
            }
        }
        if !any_due && self.holds_nothing() {
            self.idle.send_modify(|count| *count += 1);
        }
        Ok(sleep)
    }

    /// Claims from the due lanes of one definition; true where one of them has more and a slot is free.
    async fn claim_lanes(
        self: &Arc<Self>,
        definition: &Arc<Definition>,
        ready: &Ready,
        lanes: &[Status],
        turn: usize,
    ) -> Result<bool, StoreError> {
        let mut more = false;
        for (nth, status) in lanes.iter().enumerate() {
            let def_id = ready.policy.def_id;
            let mut slots = self.slots.take(def_id, ready.policy.max_concurrency, BATCH);
            // Two lanes share the slots: the first gets half of what is free, the second the rest; where there is one
            // slot they take turns.
            if lanes.len() == 2 && nth == 0 {
                slots.truncate((slots.len() + turn % 2) / 2);
            }
            if slots.is_empty() {
                self.slots.want_more();
                continue;
            }
            let claim = Claim {
                def_id,
                what: ClaimWhat::Lane(*status),
                limit: slots.len(),
                lease: ready.policy.lease(),
                worker: self.id.clone(),
            };
            let claimed = self.store().claim(&claim).await?;
            if claimed.len() == claim.limit {
                // Perhaps there is more. With a slot left it is taken at once, else when one becomes free.
                self.slots.want_more();
                more |= claim.limit == BATCH || lanes.len() == 2;
            }
            self.start(definition, ready, claimed, slots);
        }
        Ok(more)
    }

    /// Judges expired leases: whoever held them died while sending. Returns when to look again.
    async fn rescue(&self, definition: &Definition, ready: &Ready) -> Result<Duration, StoreError> {
        if let Some(left) = self.health.grace_left() {
            return Ok(left.max(SHORTEST));
        }
        let expired = self.store().overdue(definition.row.id, Status::Sending, BATCH).await?;
        for claimed in expired {
            // One that this node itself still holds is late, not dead: the lease loop extends it.
            let held = self.held().get(&claimed.id).is_some_and(|held| held.attempt == claimed.attempt);
            if held {
                continue;
            }
            let event = if claimed.worker == self.id && !self.was_given_up(claimed.id) {
                // Claimed by this very node, which does not know of it: the answer to the claim was lost. Nothing was
                // tried, so nothing is counted.
                Event::HandedBack
            } else {
                tracing::warn!(
                    definition = %definition.row.name, id = claimed.id, attempt = claimed.attempt, worker = %claimed.worker,
                    "the lease expired: its worker died while sending"
                );
                Event::Crashed
            };
            let mut outcome = Outcome::new(claimed, ready.clone(), event);
            outcome.overdue = true;
            self.settle(outcome);
        }
        // Once it is settled, the settle loop tells that its retry is due.
        Ok(self.settings.poll_interval)
    }
}
