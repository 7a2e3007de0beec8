//! Which outcomes of attempts raise an alert: a pure function.

use super::AlertReason;
use crate::definition::{AlertTrigger, Policy};
use crate::notice::{ErrorClass, Status};
use crate::transition::{Event, Next, Transition};

/// Returns the reason to alert for an outcome, if there is one. A dead letter raises an alert with every trigger but `never`.
pub fn trigger(policy: &Policy, event: &Event, transition: &Transition) -> Option<AlertReason> {
    let dead = matches!(transition.next, Next::Finish { status: Status::DeadLetter, .. });
    let failed = matches!(event, Event::Failed(_) | Event::RetryIn(..) | Event::Crashed);
    let tries = transition.failures.saturating_add(transition.crashes);
    match policy.alert_trigger {
        AlertTrigger::Never => None,
        _ if dead => Some(AlertReason::FinalFailure),
        _ if *event == Event::Failed(ErrorClass::Unacked) => Some(AlertReason::AckOverdue),
        AlertTrigger::EachFailure if failed => Some(AlertReason::Failure),
        AlertTrigger::AfterFailures(times) if failed && tries >= times => Some(AlertReason::RepeatedFailures),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NotifyDef;
    use std::time::Duration;

    fn reason(def: NotifyDef, event: Event, failures: i64, dead: bool) -> Option<AlertReason> {
        let next = match dead {
            true => Next::Finish { status: Status::DeadLetter, reason: None, keep: true },
            false => Next::Wait { status: Status::Failed, after: Duration::ZERO },
        };
        trigger(&def.policy().unwrap(), &event, &Transition { next, failures, crashes: 0 })
    }

    fn def(kind: &str) -> NotifyDef {
        NotifyDef::new("a").alert_trigger_type(kind).alert_trigger_fail_times(3)
    }

    const FAILED: Event = Event::Failed(ErrorClass::Network);

    #[test]
    fn each_trigger_raises_the_alerts_that_it_names() {
        use AlertReason::{AckOverdue, Failure, FinalFailure, RepeatedFailures};
        for (kind, first, third, dead) in [
            ("final_failure", None, None, Some(FinalFailure)),
            ("each_failure", Some(Failure), Some(Failure), Some(FinalFailure)),
            ("after_failures", None, Some(RepeatedFailures), Some(FinalFailure)),
            ("never", None, None, None),
        ] {
            assert_eq!(reason(def(kind), FAILED, 1, false), first, "{kind}");
            assert_eq!(reason(def(kind), FAILED, 3, false), third, "{kind}");
            assert_eq!(reason(def(kind), FAILED, 1, true), dead, "{kind}");
            assert_eq!(reason(def(kind), Event::Succeeded, 1, false), None, "{kind}");
            let overdue = (kind != "never").then_some(AckOverdue);
            assert_eq!(reason(def(kind), Event::Failed(ErrorClass::Unacked), 1, false), overdue, "{kind}");
        }
    }
}
