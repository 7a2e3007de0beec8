//! Which outcomes raise an alarm, and what a circuit breaker counts of them.

use solid_notify_core::alert::trigger::trigger;
use solid_notify_core::definition::AlertTrigger;
use solid_notify_core::limit::TargetSign;
use solid_notify_core::notice::{MESSAGE_LIMIT, clean_text};
use solid_notify_core::store::{Alarm, BreakerInput, Cause};
use solid_notify_core::trace::trace_id;
use solid_notify_core::transition::{Next, Transition, tries_in_all};
use solid_notify_core::{AlertReason, Policy};

use super::pending::Outcome;
use crate::alerts::{Alarms, circuit_open};

/// Returns the alert that an outcome raises, if any.
pub(super) fn alarm_of(
    alarms: &Alarms,
    policy: &Policy,
    outcome: &Outcome,
    transition: &Transition,
) -> Option<Box<Alarm>> {
    let reason = trigger(policy, &outcome.event, transition)?;
    let message = match (&outcome.trouble, &transition.next) {
        (Some((_, message)), _) => message.clone(),
        (None, Next::Finish { reason: Some(reason), .. }) => reason.clone(),
        _ => String::new(),
    };
    let mut alarm = alarms.alarm(policy.def_id, &policy.name, reason, policy.alert_cooldown, message)?;
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
pub(super) fn breaker_input(alarms: &Alarms, policy: &Policy, outcome: &Outcome) -> Option<Box<BreakerInput>> {
    let breaker = policy.quota?.breaker?;
    let sign = match TargetSign::of(&outcome.event) {
        // It says nothing of the other receivers. A success still closes a circuit that an earlier row has opened.
        TargetSign::Unwell if outcome.is_one_of_many => TargetSign::None,
        sign => sign,
    };
    let tells = sign == TargetSign::Unwell && policy.alert_trigger != AlertTrigger::Never;
    let alarm = tells.then(|| {
        let (class, message) = outcome.trouble.as_ref()?;
        let message = circuit_open(breaker, message);
        let mut alarm =
            alarms.alarm(policy.def_id, &policy.name, AlertReason::CircuitOpen, policy.alert_cooldown, message)?;
        (alarm.notice_id, alarm.class) = (Some(outcome.claimed.id), Some(class.as_str().to_owned()));
        Some(alarm)
    });
    Some(Box::new(BreakerInput { def_id: policy.def_id, breaker, sign, alarm: alarm.flatten() }))
}
