//! Whys of single notices.

use super::*;
use crate::definition::in_force;
use crate::store::{SeenNode, SendLimits};

fn of(row: NotifyDef) -> Explained {
    Explained { followed: in_force(vec![row]).remove(0), has_targets: false }
}

fn explained(status: Status, definition: Option<NotifyDef>, next: Option<DateTime<Utc>>) -> Why {
    let mut notice = NoticeRecord::new(7, 3, status, "1".to_owned(), DateTime::UNIX_EPOCH);
    notice.next_call_time = next;
    let context = ExplainContext {
        now: DateTime::UNIX_EPOCH,
        definition: definition.map(of),
        ahead: Some(1),
        nodes: Vec::new(),
        send_limits: SendLimits::default(),
        sending: 0,
    };
    Why::of(&notice, &context)
}

#[test]
fn a_missing_or_wrong_definition_is_reported_before_anything_else() {
    let missing = explained(Status::Failed, None, Some(DateTime::UNIX_EPOCH));
    assert_eq!(missing, Why::DefinitionMissing { def_id: 3 });
    let wrong = NotifyDef::new("sync").timeout("soon").enabled(false);
    let text = explained(Status::NotSent, Some(wrong), Some(DateTime::UNIX_EPOCH)).to_string();
    assert!(text.contains("sync is invalid: timeout = \"soon\""), "{text}");
}

#[test]
fn an_ack_without_a_deadline_is_awaited_for_ever() {
    let waits = explained(Status::AwaitingAck, None, None);
    assert_eq!(waits, Why::AwaitingAck { until: None });
    assert!(waits.to_string().ends_with("without a deadline"));
}

#[test]
fn outside_of_its_window_a_due_notice_waits_for_it_to_open() {
    let definition = NotifyDef::new("sync").send_window("01:00-06:00");
    let waits = explained(Status::Failed, Some(definition), Some(DateTime::UNIX_EPOCH));
    let text = "it is due, but the definition sync is outside of its window until 1970-01-01T01:00:00.000Z";
    assert_eq!(waits.to_string(), text);
    let open =
        explained(Status::Failed, Some(NotifyDef::new("sync").send_window("00:00-06:00")), Some(DateTime::UNIX_EPOCH));
    assert_eq!(open, Why::NoNode { since: DateTime::UNIX_EPOCH });
}

#[test]
fn without_a_node_a_due_notice_waits_for_one() {
    let waits = explained(Status::NotSent, Some(NotifyDef::new("sync")), Some(DateTime::UNIX_EPOCH));
    assert_eq!(waits, Why::NoNode { since: DateTime::UNIX_EPOCH });
    assert_eq!(waits.to_string(), "it is due since 1970-01-01T00:00:00.000Z, but no sweeper is running: start one");
}

#[test]
fn limits_of_a_notice_are_part_of_the_explanation() {
    let at = |seconds: u32| DateTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds.into());
    let explained = |status, failures, next, own: OwnLimits| {
        let mut notice = NoticeRecord::new(7, 3, status, "1".to_owned(), DateTime::UNIX_EPOCH);
        (notice.failures, notice.next_call_time, notice.own) = (failures, Some(next), own);
        let node = crate::store::Node::new("n", vec!["sync".to_owned()]);
        let context = ExplainContext {
            now: at(60),
            definition: Some(of(NotifyDef::new("sync").max_retry_times(1))),
            ahead: None,
            nodes: vec![SeenNode::new(node, at(0), at(60))],
            send_limits: SendLimits::default(),
            sending: 0,
        };
        Why::of(&notice, &context).to_string()
    };
    let own = |tries, expires| OwnLimits::new(tries, expires);
    for (status, failures, next, own, expected) in [
        (
            Status::NotSent,
            0,
            90,
            own(None, Some(at(91))),
            "it is not due until 1970-01-01T00:01:30.000Z; it expires at ",
        ),
        (Status::NotSent, 0, 90, own(None, Some(at(90))), "; it expires before that, at 1970-01-01T00:01:30.000Z, and"),
        (
            Status::Failed,
            1,
            90,
            own(Some(7), None),
            "is retried at 1970-01-01T00:01:30.000Z; it has used 1 of its own 7",
        ),
        (Status::Failed, 2, 90, own(None, None), "all 2 tries are used: it becomes a dead letter when it is due at "),
        (Status::Failed, 2, 90, own(Some(3), None), "it has used 2 of its own 3 tries"),
        (Status::Failed, 1, 90, own(Some(1), None), "all 1 tries are used"),
        (
            Status::NotSent,
            0,
            60,
            own(None, Some(at(60))),
            "it is due, but expired at 1970-01-01T00:01:00.000Z: the next",
        ),
        (Status::NotSent, 0, 60, own(None, Some(at(61))), "it is due since "),
    ] {
        let text = explained(status, failures, at(next), own);
        assert!(text.contains(expected), "{expected:?} in {text:?}");
    }
}

#[test]
fn waiting_notice_shows_what_a_node_reports() {
    let problem = "handler_config: the address 127.0.0.1 is refused because it is loopback: allow its network";
    let mut node = crate::store::Node::new("n", vec!["sync".to_owned()]);
    node.refused = vec![crate::store::RefusedConfig::new(0, problem.to_owned())];
    let (now, later) = (DateTime::UNIX_EPOCH, DateTime::UNIX_EPOCH + std::time::Duration::from_secs(60));
    let context = ExplainContext {
        now,
        definition: Some(of(NotifyDef::new("sync"))),
        ahead: None,
        nodes: vec![SeenNode::new(node, now, now)],
        send_limits: SendLimits::default(),
        sending: 0,
    };
    for (status, begin) in [
        (Status::NotSent, "it is not due until 1970-01-01T00:01:00.000Z"),
        (Status::Failed, "it failed (network) and is retried at 1970-01-01T00:01:00.000Z"),
    ] {
        let mut notice = NoticeRecord::new(7, 0, status, "1".to_owned(), now);
        (notice.next_call_time, notice.last_class) = (Some(later), Some("network".to_owned()));
        let why = Why::of(&notice, &context);
        assert_eq!(why.to_string(), format!("{begin}; a node reports: {problem}"));
        assert_eq!(serde_json::to_value(&why).unwrap()["problem"], problem);
    }
}
