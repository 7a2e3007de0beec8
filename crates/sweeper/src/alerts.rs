//! Alerts on the sweeper's side: which outcomes raise an alert, to which recipients it goes, and what a follow-up reports.
//!
//! An alert is a notice of the built-in definition. Its parameter is completed when it is sent, so that it has the
//! recipients and numbers of that moment.

use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::alert::StoredAlert;
pub(crate) use solid_notify_core::alert::follow_up::DEFAULT_COOLDOWN;
use solid_notify_core::alert::follow_up::follow_up;
use solid_notify_core::alert::trigger::trigger;
use solid_notify_core::definition::AlertTrigger;
use solid_notify_core::limit::{Breaker, Sign, Watched};
use solid_notify_core::notice::{ClaimedNotice, rfc3339};
use solid_notify_core::store::{Alarm, FollowUpResult};
use solid_notify_core::transition::{Event, Transition};
use solid_notify_core::{ALERT_DEFINITION, Alert, AlertKind, AlertReason, Policy, StoreError};

use crate::definitions::{Definition, Recipients};
use crate::running::handler::{AnyHandler, Closure, Failure, Notice, Typed};
use crate::settling::Outcome;
use crate::supervise::report;
use crate::worker::Worker;

/// What to do with a claimed notice of the built-in alert definition.
pub(crate) enum Resolved {
    /// Send it with this parameter; store the second value as reported when it succeeds.
    Send(String, Option<Box<FollowUpResult>>),
    /// There is nothing (more) to report.
    Nothing(Option<Box<FollowUpResult>>),
}

/// Returns the handler that logs alerts, used if no node has a handler for them.
pub(crate) fn log_alerts() -> Arc<dyn AnyHandler> {
    let log = |notice: Notice<Alert>| async move {
        let alert = notice.param();
        tracing::error!(definition = %alert.definition, reason = alert.reason.as_str(), "{}", alert.text());
        Ok::<_, Failure>(())
    };
    Arc::new(Typed(Closure::new(log)))
}

impl Worker {
    /// Returns the alert that an outcome raises, if any.
    pub(crate) fn alarm_of(&self, policy: &Policy, outcome: &Outcome, transition: &Transition) -> Option<Box<Alarm>> {
        let reason = trigger(policy, &outcome.event, transition)?;
        let message = match (&outcome.trouble, &transition.next) {
            (Some((_, message)), _) => message.clone(),
            (None, solid_notify_core::transition::Next::Finish { reason: Some(reason), .. }) => reason.clone(),
            _ if outcome.event == Event::Crashed => "the process died while sending".to_owned(),
            _ => String::new(),
        };
        let mut alarm = self.alarm(policy.def_id, &policy.name, reason, policy.alert_cooldown, message)?;
        alarm.notice_id = Some(outcome.claimed.id);
        alarm.class = outcome.trouble.as_ref().map(|(class, _)| class.as_str().to_owned());
        Some(Box::new(alarm))
    }

    /// Returns what the circuit breaker of the definition counts of an outcome.
    pub(crate) fn watched(&self, policy: &Policy, outcome: &Outcome) -> Option<Box<Watched>> {
        let breaker = policy.quota?.breaker?;
        let sign = Sign::of(&outcome.event);
        let tells = sign == Sign::Unwell && policy.alert_trigger != AlertTrigger::Never;
        let alarm = tells.then(|| {
            let (class, message) = outcome.trouble.as_ref()?;
            let message = circuit_open(breaker, message);
            let mut alarm =
                self.alarm(policy.def_id, &policy.name, AlertReason::CircuitOpen, policy.alert_cooldown, message)?;
            (alarm.notice_id, alarm.class) = (Some(outcome.claimed.id), Some(class.as_str().to_owned()));
            Some(alarm)
        });
        Some(Box::new(Watched { def_id: policy.def_id, breaker, sign, alarm: alarm.flatten() }))
    }

    /// Returns an alert about a definition; None (and a log line) if there is no alert definition. Alerts about the alert
    /// definition itself are left out, except about the clock.
    pub(crate) fn alarm(
        &self,
        def_id: i64,
        definition: &str,
        reason: AlertReason,
        cooldown: Duration,
        message: String,
    ) -> Option<Alarm> {
        let Some(alert_def) = self.definitions().alerts() else {
            report(|| {
                tracing::error!(
                    definition,
                    reason = reason.as_str(),
                    message,
                    "there is no definition {ALERT_DEFINITION:?}, so this alert is not sent"
                );
            });
            return None;
        };
        let of_alerts = self.definition(def_id).is_some_and(|definition| definition.is_alerts());
        let of_alerts = of_alerts && reason != AlertReason::Clock;
        (!of_alerts).then(|| Alarm {
            alert_def,
            def_id,
            definition: definition.to_owned(),
            reason,
            cooldown,
            notice_id: None,
            class: None,
            message: solid_notify_core::notice::clean_text(&message, solid_notify_core::notice::MESSAGE_LIMIT),
            node: self.id.clone(),
        })
    }

    /// Completes an alert that is about to be sent.
    pub(crate) async fn resolve(&self, claimed: &ClaimedNotice) -> Result<Resolved, StoreError> {
        // Applications may insert alerts of their own; those are sent unchanged.
        let Ok(stored) = serde_json::from_str::<StoredAlert>(&claimed.param) else {
            return Ok(Resolved::Send(claimed.param.clone(), None));
        };
        let definition = self.definition(stored.def_id);
        let policy = definition.as_deref().and_then(Definition::policy);
        let name = definition.as_deref().map_or(stored.definition.as_str(), |definition| &definition.row.name);
        let mut alert = Alert::new(AlertKind::Raised, stored.reason, name, stored.message.clone());
        (alert.notice_id, alert.class, alert.node) = (stored.notice_id, stored.class.clone(), stored.node.clone());
        alert.since = rfc3339(claimed.create_time);
        let alerts = self.definitions().alerts().and_then(|id| self.definition(id));
        let recipients = Recipients::of(definition.as_deref(), alerts.as_deref());
        (alert.email, alert.alert_to) = (recipients.email, recipients.alert_to);
        let mut told = None;
        if stored.follow_up {
            let Some((row, facts)) = self.outbox.engine().operate().alert_row(stored.def_id, stored.reason).await?
            else {
                return Ok(Resolved::Nothing(None));
            };
            let sightings = self.settings.maintenance_interval;
            let (news, about) = follow_up(claimed.def_id, stored.def_id, alert, row, facts, policy, sightings);
            told = Some(Box::new(about));
            match news {
                Some(full) => alert = full,
                None => return Ok(Resolved::Nothing(told)),
            }
        }
        let param = serde_json::to_string(&alert).unwrap_or_else(|_| claimed.param.clone());
        Ok(Resolved::Send(param, told))
    }
}

/// Returns the text about an open circuit.
pub(crate) fn circuit_open(breaker: Breaker, message: &str) -> String {
    let pause = humantime::format_duration(breaker.pause);
    format!(
        "{} failures in a row; nothing but a probe every {pause} is sent until one succeeds. {message}",
        breaker.failures
    )
}
