//! Tests of [`super::Policy`]: how the columns of a row are parsed, and what is reported of invalid ones.

use std::time::Duration;

use super::{ColumnValue, KeepHistory, NotifyDef};

#[test]
fn a_definition_with_only_a_name_works() {
    let policy = NotifyDef::new("a").policy().unwrap();
    assert_eq!(policy.handler, "a");
    assert_eq!(policy.max_retries, Some(4));
    assert_eq!(policy.timeout, Duration::from_secs(30));
    assert_eq!(policy.lease(), Duration::from_secs(60));
    assert_eq!(policy.keep_history, KeepHistory::For(Duration::from_secs(30 * 86_400)));
}

#[test]
fn retries_default_to_three_where_no_list_says_otherwise() {
    assert_eq!(NotifyDef::new("a").retry_interval("5m").policy().unwrap().max_retries, Some(3));
    assert_eq!(NotifyDef::new("a").retry_interval("5m").max_retry_times(0).policy().unwrap().max_retries, Some(0));
    assert_eq!(NotifyDef::new("a").max_retry_times(-1).policy().unwrap().max_retries, None);
    assert_eq!(NotifyDef::new("a").policy().unwrap().dead_alert_count, Some(100));
    assert_eq!(NotifyDef::new("a").dead_alert_count(0).policy().unwrap().dead_alert_count, None);
}

#[test]
fn every_wrong_column_is_named_with_its_value_and_what_would_be_right() {
    let def = NotifyDef::new("a")
        .retry_interval("[5s,5x]")
        .timeout("soon")
        .max_concurrency(0)
        .rate_limit("many/1m")
        .max_concurrency_total(0)
        .breaker_failures(-1)
        .breaker_pause("a while")
        .max_retry_times(-2)
        .max_retry_interval("x")
        .keep_history("sometimes")
        .alert_trigger_type("always")
        .alert_trigger_fail_times(0)
        .alert_cooldown("0s")
        .backlog_alert_age("?")
        .max_confirm_delay("later")
        .dead_alert_count(-1)
        .retry_rules("{\"always\": 1}")
        .schedule("0 0 0 30 2 *")
        .schedule_missed("twice")
        .send_window("at night")
        .runbook("the wiki")
        .mask("$.card")
        .handler("");
    let problems = def.policy().unwrap_err();
    let mut columns: Vec<_> = problems.iter().map(|problem| problem.column).collect();
    columns.sort_unstable();
    assert_eq!(
        columns,
        [
            "alert_cooldown",
            "alert_trigger_fail_times",
            "alert_trigger_type",
            "backlog_alert_age",
            "breaker_failures",
            "breaker_pause",
            "dead_alert_count",
            "handler",
            "keep_history",
            "mask",
            "max_concurrency",
            "max_concurrency_total",
            "max_confirm_delay",
            "max_retry_interval",
            "max_retry_times",
            "rate_limit",
            "retry_interval",
            "retry_rules",
            "runbook",
            "schedule",
            "schedule_missed",
            "send_window",
            "timeout"
        ]
    );
    let timeout = problems.iter().find(|problem| problem.column == "timeout").unwrap().to_string();
    assert!(timeout.contains("\"soon\"") && timeout.contains("30s"), "{timeout}");
}

#[test]
fn tries_are_one_more_than_the_retries() {
    let policy = NotifyDef::new("a").max_retry_times(2).policy().unwrap();
    assert!(!policy.is_exhausted(2));
    assert!(policy.is_exhausted(3));
    let endless = NotifyDef::new("a").max_retry_times(-1).policy().unwrap();
    assert!(!endless.is_exhausted(i64::MAX));
}

#[test]
fn a_runbook_is_an_http_url() {
    for right in ["https://wiki.example.org/orders?a=1#now", "http://wiki", ""] {
        assert!(NotifyDef::new("a").runbook(right).policy().is_ok(), "{right}");
    }
    for wrong in ["wiki.example.org", "javascript:alert(1)", "https://", "https:///orders", "https://a b", "ftp://wiki"]
    {
        let problem = NotifyDef::new("a").runbook(wrong).policy().unwrap_err().remove(0).to_string();
        assert!(problem.contains(wrong) && problem.contains("expected an http or https URL"), "{problem}");
    }
}

#[test]
fn built_in_definition_cannot_encrypt() {
    assert!(NotifyDef::new("a").encrypt_param(true).policy().unwrap().encrypt_param);
    let problem = NotifyDef::new("notify.alert").encrypt_param(true).policy().unwrap_err().remove(0).to_string();
    let expected =
        "encrypt_param = \"true\": expected false, because sweepers add the notices of a built-in definition";
    assert_eq!(problem, expected);
}

#[test]
fn handler_of_a_built_in_definition_is_for_that_one_alone() {
    let problem = NotifyDef::new("mine").handler("notify.bulk").policy().unwrap_err().remove(0).to_string();
    assert!(problem.starts_with("handler = \"notify.bulk\": expected the handler of an application"), "{problem}");
    assert!(NotifyDef::new("notify.bulk").handler("notify.bulk").policy().is_ok());
    assert!(NotifyDef::new("notify.purge").handler("mine").policy().is_ok());
}

#[test]
fn each_text_has_a_limit_of_its_length() {
    let def = |bytes: usize| NotifyDef::new("a").handler_config("x".repeat(bytes)).description("x".repeat(bytes));
    assert!(def(65_535).policy().is_ok());
    let problems: Vec<String> = def(65_536).policy().unwrap_err().iter().map(ToString::to_string).collect();
    let expected = "= \"…\": expected a text of at most 65535 bytes; it has 65536 bytes";
    assert_eq!(problems, [format!("description {expected}"), format!("handler_config {expected}")]);
    // One that has a form is not parsed, and its value is not repeated.
    let problems = NotifyDef::new("a").timeout("9".repeat(70_000)).policy().unwrap_err();
    assert!(problems.len() == 1 && problems[0].to_string().len() < 200, "{problems:?}");
}

#[test]
fn a_wrong_duration_is_reported_with_its_place() {
    for (text, expected) in [
        ("soon", "a duration such as `30s` or `1h 30m`"),
        ("30", "a duration such as `30s` or `1h 30m` (a unit behind `30`, such as `30s`)"),
        ("0s", "a duration such as `30s` or `1h 30m` (a duration of at least 1ms)"),
        ("18446744073709551615s 1000ms", "a duration such as `30s` or `1h 30m` (a duration of at most 10 years)"),
    ] {
        let problems = NotifyDef::new("a").timeout(text).policy().unwrap_err();
        assert_eq!(problems[0].expected, expected, "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_in_any_column_makes_a_policy_panic(
        texts in proptest::collection::vec(
            proptest::prop_oneof![".*", "[0-9]{1,20}(s|ms|y|d| |)[0-9]{0,20}(ns|ms|years|)", "\\PC{0,300}"],
            NotifyDef::COLUMNS.len(),
        )
    ) {
        let mut values = NotifyDef::new("a").values();
        for (value, text) in values.iter_mut().zip(texts) {
            if let ColumnValue::Text(column) = value {
                *column = Some(text);
            }
        }
        let _ = NotifyDef::from_values(1, values).unwrap().policy();
    }
}
