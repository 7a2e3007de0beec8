//! Alerts on the sweeper's side. This file: which outcomes raise an alarm. [`advance`]: what becomes of rows that are due.
//! [`sending`] and [`recipients`]: the handler of the notices, and who gets them.

mod advance;
pub(crate) mod recipients;
mod sending;

use std::time::Duration;

pub(crate) use solid_notify_core::alert::advance::DEFAULT_COOLDOWN;
use solid_notify_core::alert::trigger::trigger;
use solid_notify_core::definition::AlertTrigger;
use solid_notify_core::limit::{Breaker, TargetSign};
use solid_notify_core::notice::{MESSAGE_LIMIT, clean_text};
use solid_notify_core::store::{Alarm, BreakerInput, Cause};
use solid_notify_core::trace::trace_id;
use solid_notify_core::transition::{Next, Transition, tries_in_all};
use solid_notify_core::{ALERT_DEFINITION, AlertReason, Policy};

pub(crate) use self::sending::{AlertHandler, log_alerts};
use crate::settling::Outcome;
use crate::supervise::report;
use crate::worker::Worker;

impl Worker {
    /// Returns the alert that an outcome raises, if any.
    pub(crate) fn alarm_of(&self, policy: &Policy, outcome: &Outcome, transition: &Transition) -> Option<Box<Alarm>> {
        let reason = trigger(policy, &outcome.event, transition)?;
        let message = match (&outcome.trouble, &transition.next) {
            (Some((_, message)), _) => message.clone(),
            (None, Next::Finish { reason: Some(reason), .. }) => reason.clone(),
            _ => String::new(),
        };
        let mut alarm = self.alarm(policy.def_id, &policy.name, reason, policy.alert_cooldown, message)?;
        alarm.notice_id = Some(outcome.claimed.id);
        alarm.description = outcome.claimed.description.as_deref().map(|text| clean_text(text, MESSAGE_LIMIT));
        alarm.class = outcome.trouble.as_ref().map(|(class, _)| class.as_str().to_owned());
        let tries = transition.failures.saturating_add(transition.crashes);
        alarm.cause = Cause {
            tries: Some(tries),
            max_tries: tries_in_all(policy, &outcome.claimed, &outcome.event, tries),
            end_reason: match &transition.next {
                Next::Finish { reason: Some(reason), .. } => Some(clean_text(reason, MESSAGE_LIMIT)),
                _ => None,
            },
            trace_id: outcome.claimed.trace_context.as_deref().and_then(trace_id).map(str::to_owned),
        };
        Some(Box::new(alarm))
    }

    /// Returns what the circuit breaker of the definition counts of an outcome.
    pub(crate) fn breaker_input(&self, policy: &Policy, outcome: &Outcome) -> Option<Box<BreakerInput>> {
        let breaker = policy.quota?.breaker?;
        let sign = TargetSign::of(&outcome.event);
        let tells = sign == TargetSign::Unwell && policy.alert_trigger != AlertTrigger::Never;
        let alarm = tells.then(|| {
            let (class, message) = outcome.trouble.as_ref()?;
            let message = circuit_open(breaker, message);
            let mut alarm =
                self.alarm(policy.def_id, &policy.name, AlertReason::CircuitOpen, policy.alert_cooldown, message)?;
            (alarm.notice_id, alarm.class) = (Some(outcome.claimed.id), Some(class.as_str().to_owned()));
            Some(alarm)
        });
        Some(Box::new(BreakerInput { def_id: policy.def_id, breaker, sign, alarm: alarm.flatten() }))
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
            description: None,
            class: None,
            message: clean_text(&message, MESSAGE_LIMIT),
            cause: Cause::default(),
            node: self.id.clone(),
        })
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
