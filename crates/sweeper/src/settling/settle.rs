//! The settle loop: takes outcomes from the queue, has them judged, and writes them in batches. It retries for as long as
//! the database does not accept them.
//!
//! A batch that fails waits behind the others ([`super::pending`]). A batch that keeps failing, or can never be written, is
//! halved, so that one row never keeps others from being settled.

use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::StoreError;
use solid_notify_core::error::FaultKind;
use solid_notify_core::store::{Settle, Settled, Shape};
use solid_notify_core::transition::Next;
use tokio::time::Instant;

use super::Outcome;
use super::gathering::Settling;
use super::pending::{BATCH, Batch, Decided, Pending};
use crate::background::locked::Work;
use crate::supervise::report;
use crate::worker::Worker;

/// How long after the hand-back the last outcomes are retried.
const LAST_TRIES: Duration = Duration::from_secs(9);

/// Runs until no more outcomes can come and all are written, or until the last tries after a shutdown are over.
pub(crate) async fn settle_loop(worker: Arc<Worker>) {
    let mut settling = worker.outcomes.settling().await;
    let settling = &mut *settling;
    if let Some(batch) = settling.in_hand.take() {
        settling.pending.put_back(batch);
    }
    let mut deadline = None;
    let mut written_at = Instant::now();
    loop {
        let ready_at = settling.pending.next_at();
        let wait = async {
            match ready_at {
                Some(moment) => tokio::time::sleep_until(moment).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = std::future::ready(()), if !settling.fresh.is_empty() => {}
            received = settling.receiver.recv_many(&mut settling.fresh, BATCH) => {
                if received == 0 && settling.is_empty() {
                    break;
                }
                if received == 0 {
                    // The channel is closed: only pending outcomes are left.
                    tokio::time::sleep_until(ready_at.unwrap_or_else(Instant::now)).await;
                }
            }
            () = wait => {}
        }
        if worker.signals.are_handlers_cancelled()
            && *deadline.get_or_insert_with(|| Instant::now() + LAST_TRIES) <= Instant::now()
        {
            let left = settling.fresh.len() + settling.pending.count();
            report(|| tracing::error!(notices = left, "shutdown ends before all outcomes are stored"));
            break;
        }
        if !settling.fresh.is_empty() {
            settling.gather(worker.outcomes.urgency(), written_at).await;
            if let Err(error) = worker.read_own_edits().await {
                report(|| worker.health.note_some(&error));
            }
            settling.pending.add(settling.fresh.drain(..).filter_map(|outcome| worker.decide(outcome)));
        }
        // All batches are written, so that the queue does not grow. After a failed batch the loop first
        // checks for new outcomes and for the shutdown.
        let mut stored = true;
        while stored && let Some(batch) = settling.pending.next() {
            settling.in_hand = Some(batch);
            stored = worker.write(settling).await;
            written_at = Instant::now();
        }
    }
}

impl Worker {
    /// Passes an outcome on to the settle loop. It is urgent if a producer or an ordering key waits for it to be stored.
    pub(crate) fn settle(&self, outcome: Outcome) {
        let (id, fence) = (outcome.claimed.id, outcome.claimed.fence);
        let is_urgent = outcome.claimed.ordering_key.is_some() || self.in_flight.is_report_awaited(id);
        self.in_flight.ended(id, fence);
        self.outcomes.push(outcome, is_urgent);
    }

    /// Writes the batch in hand; outcomes that could not be written go back to `pending`. Returns false if the call failed.
    async fn write(&self, settling: &mut Settling) -> bool {
        let Some(batch) = &settling.in_hand else { return true };
        let settles: Vec<Settle> = batch.decided.iter().map(|decided| decided.settle.clone()).collect();
        let replies = self.stores().send.settle(&settles).await;
        let Some(batch) = settling.in_hand.take() else { return true };
        match replies {
            Ok(replies) => {
                self.written(batch, &settles, replies, &mut settling.pending);
                true
            }
            Err(error) => {
                self.not_written(batch, &error, &mut settling.pending);
                false
            }
        }
    }

    /// Handles the store's replies to a batch, one for each outcome.
    fn written(&self, mut batch: Batch, settles: &[Settle], replies: Vec<Settled>, pending: &mut Pending) {
        #[allow(clippy::cast_precision_loss)] // At most a few hundred.
        report(|| self.meters.settle_batch.record(settles.len() as f64));
        let poll = self.settings.poll_interval;
        let due_soon = |settle: &Settle| matches!(settle.transition.next, Next::Wait { after, .. } if after < poll);
        if settles.iter().any(|settle| due_soon(settle) || settle.shape() == Shape::Watched) {
            // The sweep did not know of these due times when it went to sleep.
            self.signals.sweep_soon();
        }
        let mut locked = Vec::new();
        for (decided, reply) in std::mem::take(&mut batch.decided).into_iter().zip(replies) {
            match reply {
                Settled::Done => self.settled(decided),
                Settled::Locked if !decided.outcome.overdue => locked.push(decided),
                Settled::Locked | Settled::LostLease | Settled::Ended(_) => self.lost(&decided, reply),
            }
        }
        if let Some(def_id) = batch.of {
            pending.goes_on(def_id);
        }
        if !locked.is_empty() {
            self.mark_stuck(&mut locked);
            pending.put_back(batch.with(locked).again());
        }
        // Claims or a wait for idleness may depend on this settle.
        self.admission.wake_if_wanted();
        if self.signals.is_idle_awaited() && self.in_flight.is_empty() {
            self.signals.sweep_soon();
        }
    }

    /// Puts back a batch after a call that failed, or splits it if it can never be written.
    fn not_written(&self, mut batch: Batch, error: &StoreError, pending: &mut Pending) {
        if !error.is_transient() {
            if let Some(def_id) = batch.of {
                pending.goes_on(def_id);
            }
            return self.split(batch.decided, error, pending);
        }
        report(|| self.health.note_some(error));
        if matches!(error.kind, FaultKind::Outage | FaultKind::Busy) {
            pending.put_back(batch.again());
        } else {
            self.mark_stuck(&mut batch.decided);
            pending.put_back_apart(batch.again());
        }
    }

    /// Counts outcomes that could not be stored, although the store answers, and reports their definitions if that lasts.
    fn mark_stuck(&self, decided: &mut [Decided]) {
        self.outcomes.mark_stuck(decided);
        for same in decided.chunk_by(|one, next| one.def_id() == next.def_id()) {
            if let Some(first) = same.first() {
                self.locked_rows.waits(first.def_id(), first.definition(), Work::Outcomes);
            }
        }
    }
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
