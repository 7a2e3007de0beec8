//! Tests the simulation as a whole; other tests compare it with real sweepers.

use std::time::Duration;

use chrono::DateTime;
use proptest::prelude::*;
use solid_notify_core::{AlertKind, AlertReason, Error, ErrorClass, NotifyDef};

use super::{Ending, MOST_NOTICES, Report, Scenario, run, simulate};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Returns a scenario with one notice, attempts without duration, and pieces of a second.
fn one() -> Scenario {
    Scenario::new().lasting(SECOND).attempt(Duration::ZERO).bucket(SECOND)
}

/// Returns the seconds in which an attempt began.
fn attempts(report: &Report) -> Vec<usize> {
    let began = |(second, bucket): (usize, &super::Bucket)| (bucket.first_sends + bucket.retries > 0).then_some(second);
    report.series.iter().enumerate().filter_map(began).collect()
}

#[test]
fn an_always_failing_notice_walks_the_intervals_to_a_dead_letter() {
    let def = NotifyDef::new("sync").retry_interval("[5s,1m,10m]");
    let report = simulate(&def, &one().failing(1.0, ErrorClass::Network)).unwrap();
    assert_eq!(attempts(&report), [0, 5, 65, 665]);
    assert_eq!((report.totals.dead_letters, report.totals.failures, report.ending), (1, 4, Ending::AllEnded));
    assert_eq!((report.until, report.last_success), (seconds(665), None));
}

#[test]
fn a_class_follows_its_rule() {
    let rules = r#"{ "busy": "[7s]", "auth": "[3s]", "timeout": "never" }"#;
    let def = NotifyDef::new("sync").retry_rules(rules).max_retry_times(2);
    for (class, expected) in
        [(ErrorClass::Busy, &[0, 7, 14][..]), (ErrorClass::Auth, &[0, 3, 6]), (ErrorClass::Invalid, &[0])]
    {
        assert_eq!(attempts(&simulate(&def, &one().failing(1.0, class)).unwrap()), expected, "{class}");
    }
    let report = simulate(&def, &one().failing(1.0, ErrorClass::Timeout)).unwrap();
    assert_eq!(
        (attempts(&report), report.until),
        (vec![0], seconds(30)),
        "the receiver does not answer for the definition's timeout"
    );
}

#[test]
fn concurrent_attempts_are_limited_by_slots_on_all_nodes() {
    let def = NotifyDef::new("sync").max_concurrency(2);
    let rush = Scenario::new().rate(100.0).lasting(SECOND).attempt(SECOND).bucket(SECOND);
    for (nodes, until) in [(1, 50), (5, 10)] {
        let report = simulate(&def, &rush.clone().nodes(nodes)).unwrap();
        assert_eq!(report.until.as_secs(), until, "100 notices, 2 at a time on each of {nodes} nodes");
        assert!(report.series.iter().all(|bucket| bucket.first_sends <= 2 * nodes as u64), "{report}");
        assert_eq!(report.series[0].waiting, 100 - 2 * nodes as u64);
    }
}

#[test]
fn a_receiver_that_does_not_answer_holds_the_slots_for_the_timeout() {
    let def = NotifyDef::new("sync").max_concurrency(3).timeout("10s").max_retry_times(0);
    let silent = Scenario::new().rate(30.0).lasting(SECOND).outage(Duration::ZERO, 10 * MINUTE, ErrorClass::Timeout);
    let report = simulate(&def, &silent).unwrap();
    assert_eq!((report.until.as_secs(), report.totals.dead_letters), (100, 30), "three every ten seconds");
    let slow = Scenario::new().lasting(SECOND).attempt(seconds(11));
    let report = simulate(&def, &slow).unwrap();
    assert_eq!((report.until, report.totals.dead_letters), (seconds(10), 1), "longer than the timeout");
}

#[test]
fn a_crash_is_noticed_when_the_lease_is_over() {
    let def = NotifyDef::new("sync").retry_interval("[5s]").max_retry_times(2).alert_trigger_type("each_failure");
    let report = simulate(&def, &one().crashing(1.0)).unwrap();
    assert_eq!(attempts(&report), [0, 60, 125], "at once the first time, then by the interval");
    assert_eq!((report.totals.crashes, report.totals.dead_letters, report.until), (3, 1, seconds(185)));
    assert_eq!(report.alerts[0].at, MINUTE);
}

#[test]
fn a_delivery_without_an_ack_is_a_failed_attempt() {
    let def = NotifyDef::new("order").need_confirm(true).max_confirm_delay("1m").retry_interval("[5s]");
    let never = simulate(&def, &one().acking(0.0, Duration::ZERO)).unwrap();
    assert_eq!((attempts(&never), never.totals.dead_letters), (vec![0, 65], 1));
    let late = simulate(&def, &one().acking(1.0, MINUTE)).unwrap();
    assert_eq!(late.totals.dead_letters, 1, "an ack that comes too late");
    let soon = simulate(&def, &one().acking(1.0, 59 * SECOND)).unwrap();
    assert_eq!((soon.totals.succeeded, soon.last_success), (1, Some(seconds(59))));
    let endless = simulate(&def.max_confirm_delay("0"), &one().acking(0.0, Duration::ZERO)).unwrap();
    assert_eq!((endless.totals.live, endless.ending), (1, Ending::Horizon));
}

#[test]
fn endless_retries_end_at_the_horizon_and_count_as_live() {
    let def = NotifyDef::new("sync").retry_interval("1m").max_retry_times(-1);
    let endless = Scenario::new().rate(0.1).failing(1.0, ErrorClass::Busy).horizon(60 * MINUTE).attempt(Duration::ZERO);
    let report = simulate(&def, &endless).unwrap();
    assert_eq!((report.ending, report.totals.live, report.until), (Ending::Horizon, 6, 60 * MINUTE));
    assert_eq!(report.totals.attempts(), 6 * 60 + 1, "the last of the first is at the horizon itself");
    assert!(report.to_string().contains("6 notices were still live after 1h, the horizon"), "{report}");
}

#[test]
fn retries_without_limit_nor_pause_end_all_the_same() {
    let def = NotifyDef::new("sync").retry_interval("1ms").max_retry_times(-1);
    let report = run::run(&def.policy().unwrap(), &one().failing(1.0, ErrorClass::Busy), 1000);
    assert_eq!((report.ending, report.totals.attempts(), report.totals.live), (Ending::TooManyAttempts, 1000, 1));
    assert!(report.to_string().contains("stopped after 999ms and 1000 attempts; 1 notices were live"), "{report}");
}

#[test]
fn a_definition_that_is_switched_off_sends_nothing() {
    let report = simulate(&NotifyDef::new("sync").enabled(false), &Scenario::new()).unwrap();
    assert_eq!((report.totals.attempts(), report.totals.live, report.ending), (0, 60, Ending::Horizon));
}

#[test]
fn neither_fresh_notices_nor_retries_wait_for_all_of_the_others() {
    // More notices are added than can be sent, so both queue slices always have notices.
    let def = NotifyDef::new("sync").max_concurrency(1).retry_interval("1s");
    let rush = Scenario::new().rate(4.0).lasting(5 * MINUTE).attempt(SECOND).failing(1.0, ErrorClass::Network);
    let report = simulate(&def, &rush.horizon(5 * MINUTE).bucket(MINUTE)).unwrap();
    for bucket in &report.series[1..5] {
        assert_eq!((bucket.first_sends, bucket.retries), (30, 30), "{report}");
    }
}

#[test]
fn an_outage_is_reported_once_in_digests_and_at_its_end() {
    let def = NotifyDef::new("sync").max_retry_times(0).alert_cooldown("10m");
    let outage = Scenario::new().lasting(120 * MINUTE).outage(30 * MINUTE, 30 * MINUTE, ErrorClass::Unavailable);
    let report = simulate(&def, &outage).unwrap();
    let kinds: Vec<AlertKind> = report.alerts.iter().map(|sent| sent.alert.kind).collect();
    use AlertKind::{Digest, Raised, Recovered};
    assert_eq!(kinds, [Raised, Digest, Digest, Digest, Recovered], "{report}");
    assert_eq!(report.alerts[0].at, 30 * MINUTE + Duration::from_millis(100));
    assert_eq!(report.alerts[4].alert.title(), "sync: recovered after 30 min");
    assert_eq!((report.totals.dead_letters, report.totals.suppressed), (1800, 1799));
    let reported: i64 = report.alerts[..4].iter().map(|sent| sent.alert.more).sum();
    assert_eq!(reported, 1799, "the digests report all suppressed alerts");
}

#[test]
fn the_report_says_when_what_an_outage_had_left_was_delivered() {
    let def = NotifyDef::new("sync").retry_interval("[5m]").max_retry_times(9);
    let outage = Scenario::new().lasting(60 * MINUTE).outage(10 * MINUTE, 12 * MINUTE, ErrorClass::Network);
    let report = simulate(&def, &outage).unwrap();
    assert_eq!(report.totals.dead_letters, 0);
    let drained = report.drained_after.unwrap();
    assert!(drained > 4 * MINUTE && drained < 6 * MINUTE, "the last one failed just before the end: {drained:?}");
    assert_eq!(report.last_success, Some(59 * MINUTE + 59 * SECOND + Duration::from_millis(100)));
    assert_eq!(report.peak_retries.unwrap().count, 3, "the first, the second and the third retries of three groups");
}

#[test]
fn a_named_strategy_is_asked() {
    let def = NotifyDef::new("sync").retry_interval("strategy:mine").max_retry_times(2);
    let mine = one().failing(1.0, ErrorClass::Network).strategy(|n| seconds(u64::from(n) * 10));
    assert_eq!(attempts(&simulate(&def, &mine).unwrap()), [0, 10, 30]);
}

#[test]
fn wrong_scenarios_are_refused_with_an_exact_message() {
    let problem = |def: &NotifyDef, scenario: &Scenario| simulate(def, scenario).unwrap_err().to_string();
    let def = NotifyDef::new("sync");
    let class = ErrorClass::Network;
    for (scenario, expected) in [
        (Scenario::new().rate(f64::NAN), "rate = NaN: expected a number of notices per second above 0"),
        (Scenario::new().rate(0.0), "rate = 0: expected a number of notices per second above 0"),
        (Scenario::new().rate(f64::INFINITY), "rate = inf: expected a number of notices per second above 0"),
        (Scenario::new().lasting(Duration::ZERO), "lasting = 0ns: expected a time from 1ms to 10 years"),
        (Scenario::new().lasting(Duration::MAX), "to 10 years"),
        (Scenario::new().attempt(Duration::MAX), "to 10 years"),
        (Scenario::new().rate(1e9), "rate and lasting make 60000000000 notices: expected at most 10000000"),
        (Scenario::new().failing(1.1, class), "failing = 1.1: expected a share from 0 to 1"),
        (Scenario::new().crashing(f64::NAN), "crashing = NaN: expected a share from 0 to 1"),
        (Scenario::new().acking(-0.1, SECOND), "acking = -0.1: expected a share from 0 to 1"),
        (Scenario::new().nodes(0), "nodes = 0: expected 1 or more"),
        (Scenario::new().outage(SECOND, Duration::ZERO, class), "outage = 0ns: expected a time from 1ms to 10 years"),
        (Scenario::new().outage(SECOND, SECOND, ErrorClass::Crash), "expected `crashing`"),
        (Scenario::new().failing(0.1, ErrorClass::Unacked), "expected `acking`"),
        (Scenario::new().bucket(Duration::ZERO), "bucket = 0ns: expected a time from 1ms to 10 years"),
    ] {
        let problem = problem(&def, &scenario);
        assert!(problem.starts_with("the scenario: ") && problem.contains(expected), "{problem}");
    }
    let named = NotifyDef::new("sync").retry_interval("strategy:mine");
    assert!(problem(&named, &Scenario::new()).contains("the function behind strategy:mine"));
    match simulate(&def.timeout("soon").max_concurrency(0), &Scenario::new()) {
        Err(Error::InvalidDefinition { name, problems }) => assert_eq!((name.as_str(), problems.len()), ("sync", 2)),
        other => panic!("{other:?}"),
    }
    assert_eq!(MOST_NOTICES, 10_000_000);
}

#[test]
fn the_same_seed_makes_the_same_report_byte_for_byte() {
    let def = NotifyDef::new("sync").retry_interval("[5s,1m] ~50%").alert_trigger_type("each_failure");
    let scenario = Scenario::new().rate(7.0).lasting(10 * MINUTE).failing(0.3, ErrorClass::Network).crashing(0.01);
    let scenario = scenario.outage(MINUTE, 3 * MINUTE, ErrorClass::Busy);
    let both = |seed| {
        let report = simulate(&def, &scenario.clone().seed(seed)).unwrap();
        (report.to_string(), report.to_svg())
    };
    assert_eq!(both(7), both(7));
    assert_ne!(both(7).0, both(8).0.replace("seed 8", "seed 7"), "chance has a part in it");
}

#[test]
fn the_picture_says_what_it_shows() {
    let def = NotifyDef::new("a <b> & \"c\"\u{1}");
    let outage = Scenario::new().lasting(10 * MINUTE).outage(MINUTE, 3 * MINUTE, ErrorClass::Busy);
    let svg = simulate(&def, &outage).unwrap().to_svg();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
    assert_eq!((svg.matches("<svg").count(), svg.matches("</svg>").count()), (1, 1));
    for text in
        ["a &lt;b&gt; &amp; &quot;c&quot;: 600 notices", "attempts per second", "in minutes", "outage", "retries"]
    {
        assert!(svg.contains(text), "{text}: {svg}");
    }
    assert!(!svg.contains('\u{1}'));
}

fn any_def() -> impl Strategy<Value = NotifyDef> {
    let interval = prop_oneof![Just("3s"), Just("[1s,10s,1m] ~20%"), Just("exp(1s, x3, max 10m)")];
    let trigger = prop_oneof![Just("final_failure"), Just("each_failure"), Just("after_failures"), Just("never")];
    let rules = prop_oneof![Just(None), Just(Some(r#"{ "busy": 2, "crash": "never" }"#))];
    (interval, 0..4_i64, trigger, rules, any::<bool>(), 1..5_i64).prop_map(
        |(interval, retries, trigger, rules, ack, slots)| {
            let mut def = NotifyDef::new("any").retry_interval(interval).max_retry_times(retries);
            def.retry_rules = rules.map(str::to_owned);
            def.alert_trigger_type(trigger).need_confirm(ack).max_confirm_delay("30s").max_concurrency(slots)
        },
    )
}

fn any_scenario() -> impl Strategy<Value = Scenario> {
    let share = || prop_oneof![Just(0.0), Just(1.0), 0.0..1.0_f64];
    let class = prop_oneof![Just(ErrorClass::Network), Just(ErrorClass::Busy), Just(ErrorClass::Timeout)];
    (0.1..5.0_f64, 1..120_u64, share(), share(), share(), class, 0..3000_u64, any::<u64>(), 1..9000_u64).prop_map(
        |(rate, lasting, failing, crashing, acking, class, attempt, seed, horizon)| {
            Scenario::new()
                .rate(rate)
                .lasting(seconds(lasting))
                .outage(seconds(lasting / 4), seconds(lasting), class)
                .failing(failing, class)
                .crashing(crashing)
                .acking(acking, seconds(20))
                .attempt(Duration::from_millis(attempt))
                .horizon(seconds(horizon))
                .seed(seed)
        },
    )
}

proptest! {
    #[test]
    fn every_notice_is_accounted_for(def in any_def(), scenario in any_scenario()) {
        let report = simulate(&def, &scenario).unwrap();
        let totals = report.totals;
        prop_assert_eq!(totals.added, totals.succeeded + totals.dead_letters + totals.live);
        prop_assert!(totals.first_sends <= totals.added);
        let most = 1 + def.max_retry_times.unwrap().max(1) as u64;
        prop_assert!(totals.attempts() <= totals.added * most, "{} tries at most", most);
        prop_assert!(report.ending != super::Ending::AllEnded || totals.live == 0);
        let sums = super::Bucket::sum(&report.series);
        prop_assert_eq!(
            (sums.added, sums.first_sends, sums.retries, sums.failures, sums.successes, sums.dead_letters),
            (totals.added, totals.first_sends, totals.retries, totals.failures, totals.succeeded, totals.dead_letters)
        );
        prop_assert!(sums.live <= totals.added && sums.waiting <= sums.live);
        let reported: i64 = report.alerts.iter().map(|sent| sent.alert.more).sum();
        prop_assert!(reported as u64 <= totals.suppressed);
        prop_assert_eq!(&report, &simulate(&def, &scenario).unwrap());
    }
}

#[test]
fn a_rate_bounds_what_begins_in_any_minute_and_nothing_is_lost() {
    let def = NotifyDef::new("sync").rate_limit("100/1m");
    let rush = Scenario::new().rate(10.0).lasting(MINUTE).attempt(Duration::ZERO).bucket(SECOND);
    let report = simulate(&def, &rush).unwrap();
    assert_eq!((report.totals.succeeded, report.ending), (600, Ending::AllEnded));
    let began: Vec<u64> = report.series.iter().map(|bucket| bucket.first_sends + bucket.retries).collect();
    let most = began.windows(60).map(|minute| minute.iter().sum::<u64>()).max();
    assert_eq!(most, Some(100));
    // Ten seconds' worth begins each minute: the sixth hundred begins in the sixth minute.
    assert!((5 * MINUTE..5 * MINUTE + seconds(15)).contains(&report.until), "{report}");
}

#[test]
fn max_concurrency_of_the_cluster_counts_leases_of_dead_nodes() {
    let rush = Scenario::new().rate(10.0).lasting(SECOND).attempt(SECOND).bucket(SECOND).nodes(5);
    let def = NotifyDef::new("sync").max_concurrency_total(2);
    let report = simulate(&def, &rush).unwrap();
    assert_eq!((report.totals.succeeded, report.until.as_secs()), (10, 5));
    let dies = simulate(&def, &rush.crashing(1.0)).unwrap();
    let lease = def.policy().unwrap().lease();
    let began = |from: Duration, to: Duration| -> u64 {
        let within = dies.series.iter().enumerate().filter(|(n, _)| (from..to).contains(&seconds(*n as u64)));
        within.map(|(_, bucket)| bucket.first_sends + bucket.retries).sum()
    };
    assert_eq!((began(Duration::ZERO, lease), began(lease, 2 * lease)), (2, 2), "{dies}");
}

#[test]
fn an_open_circuit_spares_the_receiver_and_raises_an_alert() {
    let hours = |count: u32| count * 60 * MINUTE;
    let outage =
        Scenario::new().lasting(hours(1)).outage(5 * MINUTE, 30 * MINUTE, ErrorClass::Unavailable).bucket(MINUTE);
    let def = NotifyDef::new("sync").retry_interval("10s").max_retry_times(-1);
    let without = simulate(&def, &outage).unwrap();
    let report = simulate(&def.breaker_failures(5).breaker_pause("1m"), &outage).unwrap();
    assert!(report.alerts.iter().any(|sent| sent.alert.reason == AlertReason::CircuitOpen), "{report}");
    assert!(without.alerts.iter().all(|sent| sent.alert.reason != AlertReason::CircuitOpen));
    // Five failures open the circuit, and a probe fails each minute.
    assert!((30..=36).contains(&report.totals.failures), "{report}");
    assert!(without.totals.failures > 10 * report.totals.failures, "{without}");
    assert_eq!(report.totals.succeeded, 3600);
}

#[test]
fn nothing_is_sent_while_the_window_is_closed() {
    // The window is open for a quarter of an hour each day, from half an hour after the beginning.
    let def = NotifyDef::new("sync").send_window("06:30-06:45").retry_interval("10m");
    let six = DateTime::UNIX_EPOCH + 6 * 60 * MINUTE;
    let scenario = Scenario::new().lasting(60 * MINUTE).starting(six).attempt(Duration::ZERO).bucket(MINUTE);
    let report = simulate(&def, &scenario.outage(Duration::ZERO, 31 * MINUTE, ErrorClass::Busy)).unwrap();
    let minutes = attempts(&report);
    assert_eq!((minutes.first(), report.totals.succeeded), (Some(&30), 3600));
    let open = |minute: &usize| (30..45).contains(minute) || (30 + 24 * 60..45 + 24 * 60).contains(minute);
    assert!(minutes.iter().all(open), "{minutes:?}");
    assert_eq!(report.until, 24 * 60 * MINUTE + 30 * MINUTE, "{report}");
}
