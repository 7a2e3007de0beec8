//! The preview of an edit: each kind of change.

use super::*;

fn group(failures: i64, crashes: i64, class: &str, wait: u64, count: u64) -> RetryGroup {
    let (class, wait) = (Some(class.to_owned()), Some(Duration::from_secs(wait)));
    RetryGroup { failures, crashes, class, max_tries: None, wait, expires_after: None, due: false, count }
}

fn of(seen: NotifyDef, new: NotifyDef, retries: Vec<RetryGroup>) -> EditPreview {
    preview(&seen, &new, &InFlight { retries, ..InFlight::default() })
}

fn def() -> NotifyDef {
    NotifyDef::new("a").retry_interval("[5s,5m,1h,1d]")
}

fn retry(seconds: u64) -> NextStep {
    NextStep::Retry(Duration::from_secs(seconds))
}

#[test]
fn tries_that_are_left_are_those_of_the_send_path() {
    // Failures and crashes, the class of the last one, the number of attempts left before, and after.
    let rules = r#"{"busy": 6, "auth": "1m", "timeout": "never"}"#;
    let (before, after) = (def(), def().max_retry_times(1).retry_rules(rules));
    let (before, after) = (before.policy().unwrap(), after.policy().unwrap());
    for (failures, crashes, class, left, left_then) in [
        (1, 0, "network", 4, 1),
        (4, 0, "network", 1, 1),
        (2, 1, "crash", 2, 1),
        (1, 0, "busy", 4, 5),
        (1, 0, "auth", 1, 1),
        (1, 0, "timeout", 4, 1),
        // No attempt is left by the old row; by the new one a failure of class busy leaves one.
        (5, 0, "network", 0, 1),
        (6, 0, "network", 0, 0),
        (i64::MAX, i64::MAX, "busy", 0, 0),
    ] {
        let group = group(failures, crashes, class, 5, 1);
        let facts = format!("{failures} {crashes} {class}");
        assert_eq!((tries_left(&before, &group), tries_left(&after, &group)), (Some(left), Some(left_then)), "{facts}");
    }
    let endless = def().max_retry_times(-1).policy().unwrap();
    assert_eq!(tries_left(&endless, &group(9, 0, "network", 5, 1)), None);
    assert_eq!(tries_left(&endless, &group(9, 0, "invalid", 5, 1)), Some(1));
}

#[test]
fn a_lowered_limit_counts_the_notices_that_become_dead_letters() {
    let retries = vec![group(1, 0, "network", 5, 100), group(3, 0, "network", 3600, 20), group(2, 2, "crash", 300, 3)];
    let preview = of(def(), def().max_retry_times(1), retries);
    assert_eq!((preview.retries.count, preview.out_of_tries), (123, 23));
    assert_eq!((preview.fewer_tries, preview.more_tries), (123, 0));
    let step = IntervalChange { from: Some(retry(300)), to: NextStep::DeadLetter, count: 100 };
    assert_eq!(preview.steps, [step]);
    assert_eq!((preview.earlier, preview.later), (0, 0));
    assert_eq!(preview.alerts, (3, 123), "final failures raise alerts");
    assert_eq!(
        preview.to_string(),
        "max_retry_times: null -> 1\nwaiting retries, which keep their times: 123\nafter the next failure of 100: a dead letter \
         instead of 5m\nwithout a try left, dead letters when they are due: 23\nwith fewer tries left: 100\n123 of the \
         next failures alert instead of 3"
    );
}

#[test]
fn other_intervals_change_the_next_ones_and_what_retiming_would_move() {
    let mut due = group(1, 0, "network", 5, 7);
    due.due = true;
    let retries = vec![
        group(1, 0, "network", 5, 12_431),
        group(2, 0, "busy", 300, 5),
        group(3, 0, "busy", 3600, 4),
        due,
        // An operator retried it as a dead letter.
        group(0, 0, "busy", 900, 2),
    ];
    let preview = of(def(), def().retry_interval("[1m,1m,1h,1d]"), retries);
    assert_eq!((preview.earlier, preview.later), (5, 12_431));
    let step = |from, to, count| IntervalChange { from: Some(retry(from)), to: retry(to), count };
    assert_eq!(preview.steps, [step(300, 60, 12_438), step(5, 60, 2)]);
    assert_eq!((preview.fewer_tries, preview.more_tries, preview.out_of_tries), (0, 0, 0));
    let text = preview.to_string();
    assert!(text.contains("`retime` would move 5 to an earlier time, 12431 to a later one"), "{text}");
    assert!(text.contains("after the next failure of 12438: 1m instead of 5m"), "{text}");
}

#[test]
fn rules_and_caps_and_strategies_count() {
    let capped = of(def(), def().max_retry_interval("1m"), vec![group(2, 0, "network", 300, 3)]);
    assert_eq!((capped.earlier, capped.steps[0].to.clone()), (3, retry(60)));
    let ruled = of(
        def(),
        def().retry_rules(r#"{"busy": "10m"}"#),
        vec![group(1, 0, "busy", 5, 3), group(1, 0, "network", 5, 2)],
    );
    assert_eq!((ruled.later, ruled.steps.len(), ruled.steps[0].count), (3, 1, 3));
    let strategy =
        of(def(), def().retry_interval("strategy:mine").max_retry_times(4), vec![group(1, 0, "network", 5, 3)]);
    assert_eq!((strategy.later, strategy.steps[0].to.to_string().as_str()), (0, "strategy:mine"));
}

#[test]
fn a_preview_shows_switch_handler_and_deadlines() {
    let mut in_flight = InFlight { retries: vec![group(1, 0, "network", 5, 2)], ..InFlight::default() };
    in_flight.not_sent = Counted { count: 10_000, more: true };
    (in_flight.awaiting_ack.count, in_flight.sending.count) = (3, 4);
    in_flight.handlers.insert("a".to_owned());
    let new = def().enabled(false).handler("b").timeout("1s").max_confirm_delay("1h");
    let text = preview(&def(), &new, &in_flight).to_string();
    for part in [
        "enabled: true -> false; ",
        "timeout: \"30s\" -> \"1s\"",
        "10002+ notices wait until it is enabled again",
        "10002+ notices go to the handler \"b\" instead of \"a\", which no living node has: they wait",
        "3 that await their ack keep their deadlines",
        "4 that are being sent keep their time-out",
        "waiting retries, which keep their times: 2",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    in_flight.handlers.insert("b".to_owned());
    let text = preview(&def().enabled(false), &def().handler("b"), &in_flight).to_string();
    assert!(text.contains("may be sent again") && !text.contains("no living node"), "{text}");
    assert_eq!(preview(&def(), &def(), &in_flight).to_string(), "nothing changes");
}

#[test]
fn a_row_that_was_invalid_has_nothing_to_compare_with() {
    let preview = of(def().timeout("soon"), def(), vec![group(1, 0, "network", 5, 2), group(9, 0, "network", 5, 3)]);
    assert_eq!((preview.out_of_tries, preview.fewer_tries, preview.more_tries), (3, 0, 0));
    assert_eq!(preview.steps, [IntervalChange { from: None, to: retry(300), count: 2 }]);
    assert!(preview.to_string().contains("after the next failure of 2: 5m"), "{preview}");
}

#[test]
fn where_there_are_more_than_were_counted_it_says_so() {
    let in_flight = InFlight { retries: vec![group(1, 0, "network", 5, 2)], more: true, ..InFlight::default() };
    let text = preview(&def(), &def().timeout("1s"), &in_flight).to_string();
    assert!(text.contains("keep their times: at least 2"), "{text}");
}

#[test]
fn an_expiry_ends_what_its_next_retry_would_not_reach() {
    let expiring = |seconds: u64, count: u64| {
        let expires_after = Some(Duration::from_secs(seconds));
        RetryGroup { expires_after, ..group(1, 0, "network", 5, count) }
    };
    // The retry after the next failure would be due after 5s and 5m, then after 5s and 10m.
    let retries = vec![expiring(5, 1), expiring(305, 20), expiring(306, 300), expiring(606, 4000)];
    let preview = of(def(), def().retry_interval("[10s,10m,1h,1d]"), retries);
    let step = |from: Option<NextStep>, to, count| IntervalChange { from, to, count };
    let expected = [step(Some(retry(300)), retry(600), 4000), step(Some(retry(300)), NextStep::DeadLetter, 300)];
    assert_eq!(preview.steps, expected, "the first two become dead letters with both rows");
    assert_eq!((preview.earlier, preview.later), (0, 4320), "the first would be expired at its new time");
    assert_eq!((preview.out_of_tries, preview.fewer_tries, preview.more_tries), (0, 0, 0));
}
