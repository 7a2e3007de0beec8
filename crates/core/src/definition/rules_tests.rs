//! The effect of rules per class on a notice: every class with every form, more tries and fewer.

use std::time::Duration;

use chrono::DateTime;
use proptest::prelude::*;

use super::{NotifyDef, Policy};
use crate::notice::{ClaimedNotice, ErrorClass, Status};
use crate::transition::{Chance, Event, Next, transition};

fn policy(rules: &str) -> Policy {
    NotifyDef::new("a").retry_interval("5s").max_retry_times(2).retry_rules(rules).policy().unwrap()
}

fn notice(failures: i64, crashes: i64) -> ClaimedNotice {
    let new = ClaimedNotice::new(1, 1, Status::Sending, "null".into(), DateTime::UNIX_EPOCH);
    ClaimedNotice { fence: failures + crashes + 1, failures, crashes, ..new }
}

fn decide(policy: &Policy, notice: &ClaimedNotice, event: &Event) -> Next {
    transition(
        policy,
        notice,
        event,
        &Chance { unit: 0.0, elapsed: Duration::ZERO, strategy: &|_| Duration::from_secs(1) },
    )
    .next
}

/// Returns the seconds until the retry, or why there is none.
fn after(policy: &Policy, failures: i64, event: &Event) -> Result<u64, String> {
    match decide(policy, &notice(failures, 0), event) {
        Next::Wait { status, after } => {
            assert_eq!(status, Status::Failed);
            Ok(after.as_secs())
        }
        Next::Finish { status, reason, keep } => {
            assert_eq!((status, keep), (Status::DeadLetter, true));
            Err(reason.unwrap())
        }
    }
}

#[test]
fn every_class_follows_its_rule_in_each_form() {
    for class in ErrorClass::ALL {
        let failed = Event::Failed(class);
        let rule = |form: &str| policy(&format!("{{\"{class}\": {form}}}"));
        let never = after(&rule("\"never\""), 0, &failed).unwrap_err();
        assert_eq!(never, format!("a failure of class {class} is not retried (a rule of retry_rules)"));
        let tries: Vec<_> = (0..5).map(|before| after(&rule("4"), before, &failed).ok()).collect();
        assert_eq!(tries, [Some(5), Some(5), Some(5), None, None], "{class}: four tries, and not three");
        let fewer: Vec<_> = (0..3).map(|before| after(&rule("2"), before, &failed).ok()).collect();
        assert_eq!(fewer, [Some(5), None, None], "{class}: two tries, and not three");
        let delays: Vec<_> = (0..4).map(|before| after(&rule("\"[7s,8s,9s]\""), before, &failed).ok()).collect();
        assert_eq!(delays, [Some(7), Some(8), None, None], "{class}: its delays, and the definition's limit");
    }
}

#[test]
fn without_a_rule_what_cannot_pass_by_itself_is_not_retried() {
    for class in ErrorClass::ALL {
        let retried = after(&policy(""), 0, &Event::Failed(class));
        match class {
            ErrorClass::Invalid | ErrorClass::Auth | ErrorClass::NotFound => {
                let reason = format!("a failure of class {class} is not retried (unless retry_rules say so)");
                assert_eq!(retried, Err(reason));
            }
            _ => assert_eq!(retried, Ok(5), "{class}"),
        }
    }
}

#[test]
fn the_reason_names_the_rule_that_left_no_try() {
    let policy = policy(r#"{"busy": 2}"#);
    let busy = after(&policy, 1, &Event::Failed(ErrorClass::Busy)).unwrap_err();
    assert_eq!(busy, "all 2 tries failed: 2 are allowed to class busy (a rule of retry_rules)");
    let unknown = after(&policy, 2, &Event::Failed(ErrorClass::Unknown)).unwrap_err();
    assert_eq!(unknown, "all 3 tries failed");
}

#[test]
fn the_cap_of_the_definition_holds_for_the_delays_of_a_rule() {
    let def = NotifyDef::new("a").max_retry_interval("1m").retry_rules(r#"{"busy": "1h"}"#);
    assert_eq!(after(&def.policy().unwrap(), 0, &Event::Failed(ErrorClass::Busy)), Ok(60));
}

#[test]
fn retry_in_of_a_handler_overrides_a_default_but_not_a_rule() {
    let wish = |class| Event::RetryIn(Duration::from_secs(77), class);
    assert_eq!(after(&policy(""), 0, &wish(ErrorClass::Auth)), Ok(77));
    assert!(after(&policy(""), 2, &wish(ErrorClass::Auth)).is_err(), "tries still run out");
    let rules = policy(r#"{"auth": "never", "busy": 5, "timeout": "9s"}"#);
    assert!(after(&rules, 0, &wish(ErrorClass::Auth)).is_err());
    assert_eq!(after(&rules, 3, &wish(ErrorClass::Busy)), Ok(77));
    assert!(after(&rules, 4, &wish(ErrorClass::Busy)).is_err());
    assert_eq!(after(&rules, 0, &wish(ErrorClass::Timeout)), Ok(77), "the wish, and not the rule's delay");
}

#[test]
fn a_crash_is_first_sent_again_at_once_unless_a_rule_gives_it_an_interval() {
    let crashes = |rules: &str| -> Vec<Option<u64>> {
        let policy = policy(rules);
        let after = |before| match decide(&policy, &notice(0, before), &Event::Crashed) {
            Next::Wait { after, .. } => Some(after.as_secs()),
            Next::Finish { .. } => None,
        };
        (0..5).map(after).collect()
    };
    assert_eq!(crashes(""), [Some(0), Some(5), None, None, None]);
    assert_eq!(crashes(r#"{"crash": "[1m,1h]"}"#), [Some(60), Some(3600), None, None, None]);
    assert_eq!(crashes(r#"{"crash": 4}"#), [Some(0), Some(5), Some(5), None, None]);
    assert_eq!(crashes(r#"{"crash": "never"}"#), [None; 5]);
}

fn any_rules() -> impl Strategy<Value = String> {
    let class = (0..ErrorClass::ALL.len()).prop_map(|at| ErrorClass::ALL[at]);
    let form = prop_oneof![
        Just("\"never\"".to_owned()),
        (1..9_u32).prop_map(|tries| tries.to_string()),
        Just("\"[1s,1m] ~10%\"".to_owned())
    ];
    proptest::collection::btree_map(class.prop_map(ErrorClass::as_str), form, 0..6).prop_map(|rules| {
        let rules: Vec<String> = rules.into_iter().map(|(class, form)| format!("\"{class}\": {form}")).collect();
        format!("{{{}}}", rules.join(","))
    })
}

proptest! {
    #[test]
    fn every_claim_has_a_try_left_and_none_exceeds_the_largest_limit(
        rules in any_rules(),
        classes in proptest::collection::vec(0..ErrorClass::ALL.len(), 20),
    ) {
        let policy = policy(&rules);
        let mut state = notice(0, 0);
        let mut ended = false;
        for class in classes {
            // As a worker does: a claimed notice without a try left is ended, not attempted.
            prop_assert!(!policy.is_exhausted_in_all(state.tries()), "a retry was promised and is then refused");
            let event = Event::Failed(ErrorClass::ALL[class]);
            let done = transition(&policy, &state, &event, &Chance { unit: 0.5, elapsed: Duration::ZERO, strategy: &|_| Duration::ZERO });
            (state.failures, state.crashes) = (done.failures, done.crashes);
            ended = matches!(done.next, Next::Finish { .. });
            if ended {
                break;
            }
        }
        prop_assert!(ended && state.tries() <= 9);
    }
}
