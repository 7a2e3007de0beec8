//! Moves the rows of alerts on that are due: inserts a digest or the notice of a recovery, or looks again later. Any sweeper
//! does this for every definition.

use std::time::Duration;

use solid_notify_core::alert::advance::{DEFAULT_COOLDOWN, advance};
use solid_notify_core::alert::cooldown::{Checks, News, advanced};
use solid_notify_core::error::FaultKind;
use solid_notify_core::store::{Advanced, AlertStep, DueTimes};
use solid_notify_core::{ALERT_DEFINITION, Alert, AlertKind, AlertReason, StoreError};

use crate::definitions::Definition;
use crate::refusals::Part;
use crate::sleep::{SHORTEST_SLEEP, Swept};
use crate::worker::Worker;

/// How many alerts are moved on after one look.
const AT_ONCE: usize = 100;

/// Moves the alerts on that are due.
pub(crate) async fn advance_alerts(worker: &Worker, due: &DueTimes) -> Result<Swept, StoreError> {
    let mut again_in = worker.settings.poll_interval;
    match due.alerts {
        None => return Ok(Swept { again_in, busy: false }),
        Some(after) if !after.is_zero() => {
            return Ok(Swept { again_in: again_in.min(after.max(SHORTEST_SLEEP)), busy: false });
        }
        Some(_) => {}
    }
    for (def_id, reason) in worker.stores().alerts.due_alerts(AT_ONCE).await? {
        let part = Part::Alerts(def_id, reason);
        if worker.health.refusals.rest(part).is_some() {
            continue;
        }
        worker.health.sweeps();
        let advanced = advance_alert(worker, def_id, reason).await;
        if advanced.is_ok() {
            worker.health.works(part, worker.moment());
        }
        match advanced {
            // The new notice is due, and there may be more.
            Ok(Advanced::Stored) => again_in = Duration::ZERO,
            // Another node was faster, or another alarm came.
            Ok(Advanced::Changed) => again_in = again_in.min(SHORTEST_SLEEP),
            // Tried again with the next poll: an outcome is just being stored, or an editor has locked the row for long.
            Ok(Advanced::Locked) => {}
            Err(error) if error.kind == FaultKind::Outage => return Err(error),
            // The other alerts do not wait for it.
            Err(error) => worker.health.failed(part, &error),
        }
    }
    Ok(Swept { again_in, busy: true })
}

async fn advance_alert(worker: &Worker, def_id: i64, reason: AlertReason) -> Result<Advanced, StoreError> {
    let Some((seen, facts)) = worker.stores().alerts.alert(def_id, reason).await? else {
        return Ok(Advanced::Changed);
    };
    let definition = worker.definition(def_id);
    let policy = definition.as_deref().and_then(Definition::policy);
    let step = |new, notice| AlertStep { def_id, reason, seen: seen.clone(), new, notice };
    let alert_def = worker.definitions().alerts();
    if alert_def.is_none() {
        tracing::error!("there is no definition {ALERT_DEFINITION:?}, so the alerts that are due wait");
    }
    // Where no node sends alerts, the one that waits says enough: digests of it would only pile up.
    let Some(alert_def) = alert_def.filter(|_| worker.known.alerts_sent() != Some(false)) else {
        let cooldown = policy.map_or(DEFAULT_COOLDOWN, |policy| policy.alert_cooldown);
        let later = advanced(&seen, News::Quiet(cooldown), facts.now, cooldown);
        return worker.stores().alerts.advance_alert(&step(later, None)).await;
    };
    let name = match &definition {
        Some(definition) => definition.row.name.clone(),
        None => format!("definition {def_id}, whose row is gone"),
    };
    let alert = Alert::new(AlertKind::Digest, reason, name, "");
    let since = worker.definitions().checks_since(def_id, reason);
    let lasted = since.map(|since| worker.moment().saturating_sub(since));
    let checks = Checks { interval: worker.settings.maintenance_interval, lasted };
    let (alert, new) = advance(alert, &seen, facts, policy, checks);
    let notice = alert.as_ref().map(|alert| (alert_def, alert.to_json()));
    let result = worker.stores().alerts.advance_alert(&step(new, notice)).await?;
    if let (Advanced::Stored, Some(alert)) = (result, alert) {
        worker.alarms.suppressed(alert.more);
    }
    Ok(result)
}
