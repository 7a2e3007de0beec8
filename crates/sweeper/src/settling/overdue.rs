//! Judges overdue notices without claiming them: leases whose worker died, and deliveries that were not acked in time.

use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::cipher::{NOT_KEPT, is_encrypted};
use solid_notify_core::definition::{Budget, FOREVER, Masking};
use solid_notify_core::notice::{ClaimedNotice, with_last_message};
use solid_notify_core::store::Look;
use solid_notify_core::transition::Event;
use solid_notify_core::{ErrorClass, Status, StoreError};

use super::Outcome;
use crate::definitions::{Definition, Ready};
use crate::hiding::{Texts, hidden};
use crate::sleep::SHORTEST_SLEEP;
use crate::worker::Worker;

/// The most overdue notices that one look returns.
const LOOK_BATCH: usize = 500;

/// Judges expired leases: their workers died while sending. Returns when to look again.
pub(crate) async fn rescue(
    worker: &Worker,
    definition: &Definition,
    ready: &Arc<Ready>,
) -> Result<Duration, StoreError> {
    if let Some(left) = worker.health.grace_left(worker.moment()) {
        return Ok(left.max(SHORTEST_SLEEP));
    }
    let expired = worker
        .stores()
        .send
        .look(&Look::Overdue { def_id: definition.row.id, status: Status::Sending }, LOOK_BATCH)
        .await?;
    for mut claimed in expired {
        // A notice that is in flight here is late, not lost: the lease loop extends its lease.
        let is_late = worker.in_flight.contains(claimed.id, claimed.fence);
        if is_late || !worker.in_flight.begin_to_judge(claimed.id, claimed.fence) {
            continue;
        }
        let is_own = claimed.worker == worker.id && !worker.in_flight.was_given_up(claimed.id, claimed.fence);
        let (event, trouble) = if is_own {
            // This node claimed it but has not registered it, so the answer to the claim was lost. It was not
            // attempted, so nothing is counted.
            (Event::HandedBack(Duration::ZERO), None)
        } else {
            tracing::warn!(
                definition = %definition.row.name, id = claimed.id, attempt = claimed.attempt(), worker = %claimed.worker,
                "the lease expired: its worker died while sending"
            );
            if definition.has_targets {
                // Passing on is no try: it is repeated until it is done.
                claimed.own.max_tries = None;
            }
            let lease = humantime::format_duration(ready.policy.lease());
            let message = format!("the process died while sending: its lease (about {lease}) expired unsettled");
            (Event::Crashed, Some((ErrorClass::Crash, message)))
        };
        hide(worker, (ready, definition), &mut claimed, None).await;
        worker.queue_outcome(Outcome { overdue: true, trouble, ..Outcome::new(claimed, Arc::clone(ready), event) });
    }
    // When it is settled, the settle loop wakes the sweep for its retry.
    Ok(worker.settings.poll_interval)
}

/// Judges deliveries whose ack is overdue, or that their receiver nacked, as failed attempts. Returns when to
/// look again.
pub(crate) async fn judge_unacked(
    worker: &Worker,
    definition: &Definition,
    ready: &Arc<Ready>,
) -> Result<Duration, StoreError> {
    // No receiver could ack while the database was down, but a nack that is stored counts.
    let grace = worker.health.grace_left(worker.moment());
    let overdue = Look::Overdue { def_id: definition.row.id, status: Status::AwaitingAck };
    let overdue = worker.stores().send.look(&overdue, LOOK_BATCH).await?;
    // Only an expiry needs the time.
    let now = match overdue.iter().any(|claimed| claimed.own.expires_at.is_some()) {
        true => Some(worker.stores().send.now().await?),
        false => None,
    };
    for mut claimed in overdue {
        let nack = claimed.refused().map(|record| record.message);
        if (grace.is_some() && nack.is_none()) || !worker.in_flight.begin_to_judge(claimed.id, claimed.fence) {
            continue;
        }
        let nack = hide(worker, (ready, definition), &mut claimed, nack).await;
        if let (Some(message), Some(errors)) = (&nack, &mut claimed.errors) {
            *errors = with_last_message(errors, message);
        }
        let message = nack.unwrap_or_else(|| not_acked(ready.policy.max_confirm_delay));
        let waited = now.and_then(|now| (now - claimed.last_call_time).to_std().ok()).unwrap_or_default();
        let outcome = Outcome::new(claimed, Arc::clone(ready), Event::Failed(ErrorClass::Unacked));
        let trouble = Some((ErrorClass::Unacked, message));
        worker.queue_outcome(Outcome { trouble, waited, overdue: true, ..outcome });
    }
    Ok(grace.map_or(worker.settings.poll_interval, |left| left.max(SHORTEST_SLEEP)))
}

/// Hides what people must not see from the description, and returns the text of a nack without it. Of a receiver's nack about an encrypted parameter
/// nothing was stored.
async fn hide(
    worker: &Worker,
    (ready, definition): (&Arc<Ready>, &Definition),
    claimed: &mut ClaimedNotice,
    reason: Option<String>,
) -> Option<String> {
    // Of a parameter that is left in the store nothing is known.
    let is_plain = definition.row.encrypt_param && !is_encrypted(&claimed.param);
    let reason = reason.map(|text| if is_plain { format!("its receiver refused it; {NOT_KEPT}") } else { text });
    let texts = Texts { message: reason, description: claimed.description.take(), response: None };
    let texts = match ready.policy.mask.is_some() && !texts.is_empty() {
        true if claimed.param_is_left => texts.hidden_as_a_whole(),
        true => {
            let (shared, param) = (Arc::clone(ready), claimed.param.clone());
            let hide = move |texts: &Texts, budget: &mut Budget| {
                texts.masked(&mut Masking::new(shared.policy.mask.as_deref(), &param, budget))
            };
            Box::pin(hidden(worker, &ready.policy.name, texts, hide)).await
        }
        false => texts,
    };
    claimed.description = texts.description;
    texts.message
}

fn not_acked(within: Duration) -> String {
    match within {
        // The handler itself asked for the ack, or the row was changed since.
        FOREVER => "it was not acked in time".to_owned(),
        within => format!("it was not acked within {}", humantime::format_duration(within)),
    }
}
