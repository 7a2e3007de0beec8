//! Tests of what a store's reply means for an outcome that was not written, and of its shape and texts.

use super::*;
use crate::alarm::{AlertReason, Cause};

/// The outcome of the claim with fence 3: a second failure, which is retried.
fn settle() -> Settle {
    let next = Next::Wait { status: Status::Failed, after: std::time::Duration::from_secs(5) };
    Settle {
        id: 1,
        def_id: 7,
        ordering_key: None,
        fence: 3,
        from: Status::Sending,
        overdue: false,
        transition: Transition { next, failures: 2, crashes: 0 },
        errors: None,
        last_class: None,
        description: None,
        response: None,
        error_group: None,
        alarm: None,
        for_breaker: None,
        pass_to: Vec::new(),
        decided_by: None,
    }
}

fn ended(status: Status, reason: Option<&str>, keep: bool) -> Settle {
    let next = Next::Finish { status, reason: reason.map(str::to_owned), keep };
    Settle { transition: Transition { next, failures: 0, crashes: 0 }, ..settle() }
}

fn stored(status: Status, failures: i64) -> StoredState {
    StoredState { fence: 3, status: Some(status), failures, crashes: 0, reason: None }
}

fn alarm() -> Alarm {
    Alarm {
        alert_def: 1,
        def_id: 7,
        definition: "sync".to_owned(),
        reason: AlertReason::Failure,
        cooldown: std::time::Duration::ZERO,
        notice_id: Some(1),
        description: None,
        class: None,
        message: "für".to_owned(),
        cause: Cause::default(),
        node: "node".to_owned(),
    }
}

#[test]
fn outcome_whose_reply_was_lost_counts_as_stored() {
    assert_eq!(settle().judge(Some(&stored(Status::Failed, 2))), Settled::Stored);
    assert_eq!(settle().judge(Some(&stored(Status::Failed, 1))), Settled::LostLease, "it is of another attempt");
    let crashed = StoredState { crashes: 1, ..stored(Status::Failed, 2) };
    assert_eq!(settle().judge(Some(&crashed)), Settled::LostLease);
    let dead = ended(Status::DeadLetter, Some("no"), true);
    assert_eq!(dead.judge(Some(&stored(Status::DeadLetter, 0))), Settled::Stored);
}

#[test]
fn overdue_outcome_that_another_sweeper_has_stored_is_lost() {
    let overdue = Settle { overdue: true, ..settle() };
    assert_eq!(overdue.judge(Some(&stored(Status::Failed, 2))), Settled::LostLease);
    let dead = Settle { overdue: true, ..ended(Status::DeadLetter, Some("no"), true) };
    assert_eq!(dead.judge(Some(&stored(Status::DeadLetter, 0))), Settled::Ended(Status::DeadLetter));
}

#[test]
fn outcome_of_an_earlier_claim_is_lost() {
    let later = StoredState { fence: 4, ..stored(Status::Failed, 2) };
    assert_eq!(settle().judge(Some(&later)), Settled::LostLease);
    let ended_later = StoredState { fence: 4, ..stored(Status::Succeeded, 0) };
    assert_eq!(settle().judge(Some(&ended_later)), Settled::LostLease);
}

#[test]
fn outcome_of_a_row_that_another_session_locks_is_settled_again() {
    assert_eq!(settle().judge(Some(&stored(Status::Sending, 1))), Settled::Locked);
    let overdue = Settle { overdue: true, ..settle() };
    assert_eq!(overdue.judge(Some(&stored(Status::Sending, 1))), Settled::LostLease, "its lease was extended");
}

#[test]
fn notice_that_ended_meanwhile_is_reported_with_its_status() {
    for status in [Status::Succeeded, Status::DeadLetter, Status::Cancelled] {
        assert_eq!(settle().judge(Some(&stored(status, 1))), Settled::Ended(status));
    }
    let unreadable = StoredState { status: None, ..stored(Status::Sending, 2) };
    assert_eq!(settle().judge(Some(&unreadable)), Settled::LostLease);
}

#[test]
fn outcome_that_an_earlier_try_stored_has_the_reason_of_its_record() {
    let passed = Settle {
        pass_to: vec![NamedTarget::new(4, "erp"), NamedTarget::new(5, "mail")],
        ..ended(Status::Succeeded, Some("passed on to 2 targets: erp, mail"), true)
    };
    let kept = passed.reason_with(&[Kept { target: 5, notice: 17 }]).unwrap();
    assert_eq!(kept, "passed on to the target erp; `mail` still has notice 17 of this dedupe key");
    assert_eq!(passed.reason_with(&[]), None);
    let with = |reason: &str| StoredState { reason: Some(reason.to_owned()), ..stored(Status::Succeeded, 0) };
    assert_eq!(passed.judge(Some(&with(&kept))), Settled::PassedOn(kept.clone()));
    assert_eq!(passed.judge(Some(&with("passed on to 2 targets: erp, mail"))), Settled::Stored);
    let other = ended(Status::Succeeded, Some("acked"), true);
    assert_eq!(other.judge(Some(&with("by hand"))), Settled::Stored, "it was not passed on");
}

#[test]
fn missing_notice_is_as_intended_only_where_a_success_leaves_no_history() {
    assert_eq!(ended(Status::Succeeded, None, false).judge(None), Settled::Stored);
    assert_eq!(ended(Status::Succeeded, None, true).judge(None), Settled::LostLease);
    assert_eq!(ended(Status::DeadLetter, None, false).judge(None), Settled::LostLease);
    assert_eq!(settle().judge(None), Settled::LostLease);
}

#[test]
fn only_a_success_that_changes_nothing_but_the_status_is_bare() {
    for keep in [true, false] {
        assert_eq!(ended(Status::Succeeded, None, keep).shape(), Shape::Bare { keep });
    }
    let success = || ended(Status::Succeeded, None, true);
    let failed_before = |failures, crashes| {
        let next = success().transition.next;
        Settle { transition: Transition { next, failures, crashes }, ..success() }
    };
    for other in [
        settle(),
        ended(Status::Succeeded, Some("acked"), true),
        ended(Status::Cancelled, None, true),
        failed_before(1, 0),
        failed_before(0, 1),
        Settle { errors: Some("[]".to_owned()), ..success() },
        Settle { last_class: Some("timeout".to_owned()), ..success() },
        Settle { description: Some("an order".to_owned()), ..success() },
        Settle { response: Some("{}".to_owned()), ..success() },
        Settle { from: Status::AwaitingAck, ..success() },
        Settle { overdue: true, ..success() },
    ] {
        assert_eq!(other.shape(), Shape::NoticeOnly, "{other:?}");
    }
    assert_eq!(Settle { alarm: Some(Box::new(alarm())), ..success() }.shape(), Shape::Full);
}

#[test]
fn texts_that_a_database_cannot_store_become_ascii() {
    let mut settle = Settle {
        errors: Some("[\"ü\"]".to_owned()),
        description: Some("plain".to_owned()),
        alarm: Some(Box::new(Alarm {
            cause: Cause { end_reason: Some("ö".to_owned()), ..Cause::default() },
            ..alarm()
        })),
        ..ended(Status::DeadLetter, Some("größer"), true)
    };
    assert!(settle.reduce_to_ascii());
    assert!(!settle.reduce_to_ascii(), "nothing is left to replace");
    let alarm = settle.alarm.unwrap();
    assert_eq!((settle.errors.as_deref(), settle.description.as_deref()), (Some("[\"?\"]"), Some("plain")));
    assert_eq!((alarm.message.as_str(), alarm.cause.end_reason.as_deref()), ("f?r", Some("?")));
    assert!(matches!(settle.transition.next, Next::Finish { reason: Some(reason), .. } if reason == "gr??er"));
}
