//! Conditions that no outcome of an attempt shows: a backlog, an invalid definition, a handler that no node has, too many
//! dead letters, a clock that is far off. Every node checks them once per round of maintenance; the cool-down merges their
//! alerts into one. What stops this node itself ([`Problems`]) is known without the store, so its alerts wait for no call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::store::{Alarm, DueSlice, NODE_LIVES, SeenNode, dead_letters};
use solid_notify_core::{ALERT_DEFINITION, AlertReason, Status, StoreError};

use crate::alerts::{DEFAULT_COOLDOWN, circuit_open};
use crate::background::versions::without_definition;
use crate::definitions::{Definition, Readiness, refusal};
use crate::running::waiting::{NAMED, SameReason, text};
use crate::worker::Worker;

/// How long notices may be due while no node has their handler, because nodes start one after the other.
const HANDLER_GRACE: Duration = Duration::from_secs(60);
/// How far a node's clock may be off.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(30);

/// What stands in the way of this node's sending.
#[derive(Default)]
pub(crate) struct Problems {
    /// Why it sends nothing, or not all.
    pub(crate) node: Option<String>,
    /// The attempts that cannot be cancelled, by definition.
    pub(crate) stuck: BTreeMap<i64, String>,
}

impl Problems {
    /// Returns the alerts about them.
    pub(crate) fn alarms(&self, worker: &Worker) -> Vec<Alarm> {
        let stuck = self.stuck.iter();
        let stuck = stuck.map(|(def_id, why)| (*def_id, AlertReason::NotSending, format!("node {}: {why}", worker.id)));
        let mut alarms = of_definitions(worker, stuck);
        if let Some((problem, alerts)) = self.node.as_ref().zip(worker.definitions().alerts()) {
            let message = format!("the node {} does not send: {problem}", worker.id);
            let (reason, cooldown) = (AlertReason::NotSending, DEFAULT_COOLDOWN);
            alarms.extend(worker.alarms.alarm(alerts, ALERT_DEFINITION, reason, cooldown, message));
        }
        alarms
    }
}

/// Returns the alerts about these definitions, without those that raise none.
fn of_definitions(worker: &Worker, all: impl Iterator<Item = (i64, AlertReason, String)>) -> Vec<Alarm> {
    let definitions = worker.definitions();
    let alarm = |(def_id, reason, message)| {
        let definition = definitions.get(def_id).filter(|definition| definition.is_reported())?;
        let cooldown = definition.policy().map_or(DEFAULT_COOLDOWN, |policy| policy.alert_cooldown);
        worker.alarms.alarm(def_id, &definition.row.name, reason, cooldown, message)
    };
    all.filter_map(alarm).collect()
}

/// Returns the alerts for the current conditions. `handlers`: those of all living nodes.
pub(crate) async fn conditions(worker: &Worker, handlers: &BTreeSet<String>) -> Result<Vec<Alarm>, StoreError> {
    let definitions = worker.definitions();
    let due = worker.stores().send.due(true).await?;
    // Notices that the switch paused count as late from the end of the pause.
    let resumed = |status| {
        let since = definitions.resumed(status).map(|since| worker.moment().saturating_sub(since));
        since.unwrap_or(Duration::MAX)
    };
    // Notices count as late only from the opening of their window.
    let no_longer = |def_id: i64, status: Status, late: Duration| {
        let late = late.min(resumed(status));
        definitions.get(def_id).map_or(late, |definition| late.min(definition.open_for(due.now)))
    };
    let late = |def_id: i64| {
        let waits = |slice: &&DueSlice| match slice.status {
            Status::NotSent => true,
            Status::Failed => !definitions.retries_are_paused(),
            _ => false,
        };
        let slices = due.slices.iter().filter(|slice| slice.def_id == def_id).filter(waits);
        slices.map(|slice| no_longer(def_id, slice.status, slice.late)).max().unwrap_or_default()
    };
    let snapshot = worker.stores().browse.counts().await?;
    let piles = definitions.piles(&snapshot);
    let mut alarms = Vec::new();
    let is_reported = |definition: &&Arc<Definition>| definition.is_reported();
    if let Some(alerts) = definitions.alerts().and_then(|id| definitions.get(id)).filter(|_| !definitions.is_paused()) {
        mention_waiting_alerts(alerts, handlers, late(alerts.row.id));
    }
    let lacks_cipher = definitions.all().any(|definition| definition.lacks_cipher());
    let nodes = if lacks_cipher { worker.stores().browse.nodes(NODE_LIVES).await? } else { Vec::new() };
    for definition in definitions.all().filter(is_reported) {
        let def_id = definition.row.id;
        let cooldown = definition.policy().map_or(DEFAULT_COOLDOWN, |policy| policy.alert_cooldown);
        let mut alarm = |reason, message| {
            alarms.extend(worker.alarms.alarm(def_id, &definition.row.name, reason, cooldown, message));
        };
        match &definition.readiness {
            Readiness::Invalid(problems) => alarm(AlertReason::InvalidDefinition, problems.clone()),
            // A node without a cipher leaves encrypted notices to those that have one.
            Readiness::Refused(..)
                if definition.lacks_cipher() && (late(def_id) < HANDLER_GRACE || decrypts(&nodes, definition)) => {}
            Readiness::Refused(_, problem) => {
                alarm(AlertReason::InvalidDefinition, refusal(problem));
            }
            _ => {}
        }
        let Some(policy) = definition.policy().filter(|policy| policy.enabled && !definitions.is_paused()) else {
            continue;
        };
        if let Some(breaker) = policy.quota.and_then(|quota| quota.breaker).filter(|_| definitions.is_open(def_id)) {
            alarm(AlertReason::CircuitOpen, circuit_open(breaker, ""));
        }
        let mut late = late(def_id);
        // While retries are paused, notices may be blocked by one that waits for them.
        if policy.backlog_alert_age.is_some()
            && !definitions.retries_are_paused()
            && let Some(since) = worker.stores().browse.oldest_blocked(def_id).await?
        {
            late = late.max(no_longer(def_id, Status::Failed, (due.now - since).to_std().unwrap_or_default()));
        }
        let waits = humantime::format_duration(Duration::from_secs(late.as_secs()));
        if !definition.has_targets && !handlers.contains(&policy.handler) && late >= HANDLER_GRACE {
            let message =
                format!("notices have been due for {waits}, and no node has the handler {:?}", policy.handler);
            alarm(AlertReason::NoHandler, message);
        }
        if policy.backlog_alert_age.is_some_and(|limit| late > limit) {
            alarm(AlertReason::Backlog, format!("the oldest due notice has been due for {waits}"));
        }
        if let Some(count) = piles.get(&def_id) {
            let (total, distribution) = dead_letters(&snapshot);
            let message = format!("there are {count} dead letters, and {total} of all definitions: {distribution}");
            alarm(AlertReason::DeadLetters, message);
        }
    }
    for (def_id, name) in without_definition(worker).await? {
        let message = format!(
            "its row in notify_def was deleted by SQL, and notices of it wait: insert the row again with id {def_id} and name {name:?}"
        );
        tracing::warn!(definition = %name, def_id, "{message}");
        alarms.extend(worker.alarms.alarm(def_id, &name, AlertReason::InvalidDefinition, DEFAULT_COOLDOWN, message));
    }
    let locked = worker.alarms.locked_rows.lasting().into_iter();
    let locked = locked.map(|(def_id, message)| (def_id, AlertReason::Locked, message));
    alarms.extend(of_definitions(worker, locked.chain(waiting(worker).await?)));
    // Against a clock that a test turns, every real clock is off.
    let turned = worker.outbox.engine().hand_clock().is_some();
    alarms.extend(clock_alarm(worker, if turned { 0 } else { worker.health.seen().clock_offset_ms }));
    Ok(alarms)
}

/// Returns the alerts about notices that wait. A parameter that another node can decrypt raises none, and neither does a notice that no longer
/// waits.
async fn waiting(worker: &Worker) -> Result<Vec<(i64, AlertReason, String)>, StoreError> {
    let mut found = worker.waiting.by_reason(worker.moment());
    let mut nodes = Vec::new();
    if found.iter().any(|same| same.key.is_some()) {
        nodes = worker.stores().browse.nodes(NODE_LIVES).await?;
    }
    for same in &mut found {
        let Some(key) = &same.key else { continue };
        let definition = worker.definition(same.def_id);
        let sends = |node: &SeenNode| {
            definition.as_ref().is_none_or(|definition| {
                definition.has_targets || node.handlers.iter().any(|name| name == definition.row.handler_name())
            })
        };
        if nodes.iter().any(|node| node.param_keys.contains(key) && sends(node)) {
            same.ids.clear();
        }
        // Those that a text names stand for all.
        for id in same.ids.iter().take(NAMED).copied().collect::<Vec<_>>() {
            let notice = worker.stores().browse.find(id).await?;
            let waits = |status| matches!(status, Status::NotSent | Status::Failed | Status::Sending);
            if !notice.is_some_and(|notice| waits(notice.status)) {
                worker.waiting.forget(same.def_id, id);
                same.ids.retain(|other| *other != id);
            }
        }
    }
    found.retain(|same| !same.ids.is_empty());
    let alarm = |same: SameReason| (same.def_id, AlertReason::InvalidDefinition, text(&same.problem, &same.ids));
    Ok(found.into_iter().map(alarm).collect())
}

/// Returns true if one of these nodes has keys, and sends notices of this definition.
fn decrypts(nodes: &[SeenNode], definition: &Definition) -> bool {
    nodes.iter().any(|node| {
        let sends = definition.has_targets || node.handlers.iter().any(|name| name == definition.row.handler_name());
        sends && !node.param_keys.is_empty()
    })
}

/// Returns the alert about the clock of this node, if it is far off.
fn clock_alarm(worker: &Worker, clock_offset_ms: i64) -> Option<Alarm> {
    let off = Duration::from_millis(clock_offset_ms.unsigned_abs());
    let alerts = worker.definitions().alerts().filter(|_| off > CLOCK_TOLERANCE)?;
    let direction = if clock_offset_ms > 0 { "ahead of" } else { "behind" };
    let message = format!(
        "the clock of the node {} is {} {direction} the database's",
        worker.id,
        humantime::format_duration(Duration::from_secs(off.as_secs()))
    );
    worker.alarms.alarm(alerts, ALERT_DEFINITION, AlertReason::Clock, DEFAULT_COOLDOWN, message)
}

/// Logs that alerts are not sent, because an alert cannot report that.
fn mention_waiting_alerts(alerts: &Definition, handlers: &BTreeSet<String>, late: Duration) {
    let waits = match &alerts.readiness {
        _ if late < HANDLER_GRACE => return,
        Readiness::Paused(_) => "it is paused",
        Readiness::Invalid(_) => "its row is invalid",
        Readiness::Refused(..) => "its handler refuses its handler_config",
        Readiness::NotHere(policy, _) if !handlers.contains(&policy.handler) => "no living node has its handler",
        Readiness::NotHere(..) | Readiness::Ready(_) => return,
    };
    tracing::error!(definition = ALERT_DEFINITION, waits, "alerts are not sent");
}

/// Returns whether one of these handlers, which the living nodes have, sends alerts.
pub(crate) fn sends_alerts(worker: &Worker, handlers: &BTreeSet<String>) -> bool {
    let alerts =
        worker.definitions().named(ALERT_DEFINITION).map(|alerts| handlers.contains(alerts.row.handler_name()));
    alerts.unwrap_or_else(|| handlers.contains(ALERT_DEFINITION))
}

/// Records whether a living node sends alerts. That none does is logged, at the start and whenever it begins.
pub(crate) fn learn_senders_of_alerts(worker: &Worker, sent: bool) {
    if worker.known.set_alerts_sent(sent) && !sent {
        tracing::warn!(
            definition = ALERT_DEFINITION,
            "no living node sends alerts: they are stored, and wait until one does. `AlertChannels`, a handler of this definition, or \
             the table [alerts] of `solid-notify serve` sends them"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OutboxExt, worker::Worker};
    use solid_notify_testkit::MemoryOutbox;

    #[tokio::test]
    async fn a_clock_raises_an_alert_only_when_it_is_far_off() {
        let outbox = MemoryOutbox::new();
        let worker = Worker::new(outbox.sweeper().setup);
        worker.reload_definitions().await.unwrap();
        for (offset, is_far_off) in [(45_000, true), (-45_000, true), (29_000, false), (-29_000, false)] {
            worker.health.beaten(offset, worker.moment());
            let alarms = conditions(&worker, &BTreeSet::new()).await.unwrap();
            let clock = alarms.iter().find(|alarm| alarm.reason == AlertReason::Clock);
            assert_eq!(clock.is_some(), is_far_off, "{offset}");
            assert!(clock.is_none_or(|alarm| alarm.message.contains("45s")), "{clock:?}");
        }
    }
}
