//! Pauses a definition whose receiver wants no more notices ([`crate::Failure::pause`]).
//!
//! The edit, its version, its entry in the audit and the alert are one transaction, before the outcome of the attempt is stored. A
//! process that dies before it repeats the attempt; one that dies after it leaves a notice whose lease expires.

use solid_notify_core::built_in::is_built_in;
use solid_notify_core::definition::in_force;
use solid_notify_core::error::FaultKind;
use solid_notify_core::notice::{MESSAGE_LIMIT, clean_text};
use solid_notify_core::store::{Alarm, Edit, Edited};
use solid_notify_core::trace::trace_id;
use solid_notify_core::transition::Event;
use solid_notify_core::{AlertReason, ErrorClass, NotifyDef, StoreError};

use crate::definitions::Definition;
use crate::settling::Outcome;
use crate::supervise::report;
use crate::worker::Worker;

/// Pauses the definition of an attempt. Returns the event of the attempt: a usual failure if the definition cannot be paused.
pub(super) async fn pause(worker: &Worker, definition: &Definition, outcome: &Outcome) -> Event {
    let (row, id) = (&*definition.row, outcome.claimed.id);
    let (class, message) = match &outcome.trouble {
        Some((class, message)) => (*class, message.as_str()),
        None => (ErrorClass::Unknown, ""),
    };
    if is_built_in(&row.name) || row.delete_time.is_some() {
        return Event::Failed(class);
    }
    match edit(worker, row, message, alarm(worker, definition, outcome, message)).await {
        Ok(Some(Edited::Stored(_))) => {
            worker.outbox.engine().edited();
            report(|| {
                tracing::error!(definition = %row.name, id, error = message, "its receiver wants no more notices: the definition is paused");
            });
            Event::Paused(class)
        }
        Ok(Some(Edited::Conflict(_)) | None) => {
            report(|| {
                tracing::info!(definition = %row.name, id, "not paused: another node or an editor was faster");
            });
            Event::Paused(class)
        }
        Ok(Some(Edited::Missing)) => Event::Failed(class),
        Err(error) => {
            report(|| {
                tracing::error!(definition = %row.name, id, %error, "cannot pause the definition, whose receiver wants no more notices");
            });
            match error.kind {
                FaultKind::Unusable | FaultKind::Permanent => Event::Failed(class),
                // The next attempt repeats it.
                _ => Event::Paused(class),
            }
        }
    }
}

/// Disables the row if it still is the one with which the attempt began; `None`: it is not. So no edit of a row since then is undone by
/// what its receiver answered before.
async fn edit(
    worker: &Worker,
    began_with: &NotifyDef,
    message: &str,
    alarm: Option<Alarm>,
) -> Result<Option<Edited>, StoreError> {
    let definitions = &worker.stores().definitions;
    let rows = definitions.definitions().await?;
    let followed = in_force(rows.clone());
    let Some(seen) = rows.into_iter().zip(followed).find(|(_, followed)| followed.row == *began_with) else {
        return Ok(None);
    };
    let seen = seen.0;
    let new = seen.clone().enabled(false);
    let reason = clean_text(message, MESSAGE_LIMIT);
    definitions.edit(&Edit::Pause { seen, new, reason, alarm }, &worker.id).await.map(Some)
}

/// Returns the alarm about it, unless the definition has none.
fn alarm(worker: &Worker, definition: &Definition, outcome: &Outcome, message: &str) -> Option<Alarm> {
    let (policy, claimed) = (&outcome.ready.policy, &outcome.claimed);
    let cooldown = policy.alert_cooldown;
    let new = || worker.alarms.alarm(policy.def_id, &policy.name, AlertReason::Paused, cooldown, message.to_owned());
    let mut alarm = definition.is_reported().then(new)??;
    alarm.notice_id = Some(claimed.id);
    alarm.description = claimed.description.as_deref().map(|text| clean_text(text, MESSAGE_LIMIT));
    alarm.class = outcome.class().map(|class| class.as_str().to_owned());
    alarm.cause.trace_id = claimed.trace_context.as_deref().and_then(trace_id).map(str::to_owned);
    Some(alarm)
}
