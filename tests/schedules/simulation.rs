//! Compares simulations with sweepers: the same definition and the same faults, once in virtual time and once with a sweeper on
//! the memory store whose clock the test turns. Attempts and alerts have the same times.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use solid_notify::alert::{AlertKind, AlertReason};
use solid_notify::definition::ALERT_DEFINITION;
use solid_notify::testkit::{MemoryOutbox, TestSweeper};
use solid_notify::{Alert, ErrorClass, Failure, HandClock, Notice, NotifyDef, OutboxExt, add_notice};
use solid_notify_simulate::{Report, Scenario, simulate};
use test_support::sending::Calls;

const SECOND: Duration = Duration::from_secs(1);
/// How long a notice is followed, and its alerts.
const HORIZON: Duration = Duration::from_secs(4 * 3600);
/// Notices are added every eight seconds.
const PAUSE: Duration = Duration::from_secs(8);

/// The observed behaviour: how many attempts began in which second, and the alerts with their times.
#[derive(Debug, PartialEq)]
struct Seen {
    attempts: BTreeMap<u64, u64>,
    alerts: Vec<(Duration, Told)>,
}

/// The parts of an alert but its texts.
type Told = (AlertKind, AlertReason, Option<String>, i64, Option<u64>, String);

fn told(alert: &Alert) -> Told {
    (alert.kind, alert.reason, alert.class.clone(), alert.more, alert.lasted_ms, alert.since.clone())
}

/// A sweeper repeats the alert while a circuit is open; a simulation has only the first one.
fn is_simulated(alert: &Alert) -> bool {
    alert.reason != AlertReason::CircuitOpen || alert.kind == AlertKind::Raised
}

/// The scenario: so many notices, and an outage.
struct Trouble {
    notices: u32,
    from: Duration,
    lasting: Duration,
    class: ErrorClass,
}

impl Trouble {
    fn simulated(&self, def: &NotifyDef) -> (Seen, Report) {
        let scenario = Scenario::new()
            .rate(1.0 / PAUSE.as_secs_f64())
            .lasting(PAUSE * self.notices)
            .outage(self.from, self.lasting, self.class)
            .acking(0.0, Duration::ZERO)
            .attempt(Duration::ZERO)
            .horizon(HORIZON)
            .bucket(SECOND);
        let report = simulate(def, &scenario).unwrap();
        let attempts = report.series.iter().map(|bucket| bucket.first_sends + bucket.retries);
        let attempts = (0..).zip(attempts).filter(|(_, count)| *count > 0).collect();
        let alerts = report.alerts.iter().filter(|alert| is_simulated(&alert.alert));
        let alerts = alerts.map(|alert| (alert.at, told(&alert.alert))).collect();
        (Seen { attempts, alerts }, report)
    }

    async fn lived(&self, def: &NotifyDef) -> Seen {
        let clock = HandClock::new(DateTime::UNIX_EPOCH);
        let outbox = MemoryOutbox::builder().clock(clock.clone()).build();
        outbox.define_if_missing(def.clone()).await.unwrap();
        let (attempts, alerts) = (Calls::default(), Calls::default());
        let (noted, told_at) = (attempts.clone(), alerts.clone());
        let (outage, class) = (self.from..self.from + self.lasting, self.class);
        let (now, alert_now) = (clock.clone(), clock.clone());
        let builder = outbox
            .sweeper()
            .handler(&def.name, move |_: Notice<u32>| {
                let time = since_the_beginning(now.now());
                noted.note(time.as_secs());
                let fails = outage.contains(&time);
                async move { if fails { Err(Failure::retry("trouble").class(class)) } else { Ok(()) } }
            })
            .handler(ALERT_DEFINITION, move |notice: Notice<Alert>| {
                if is_simulated(notice.param()) {
                    told_at.note((since_the_beginning(alert_now.now()), told(notice.param())));
                }
                async { Ok(()) }
            });
        let sweeper = TestSweeper::start(builder).await.unwrap();
        for added in 0..self.notices {
            let mut tx = outbox.begin().await.unwrap();
            add_notice(&mut tx, &def.name, added).await.unwrap();
            tx.commit().await.unwrap();
            sweeper.advance(PAUSE).await;
        }
        sweeper.advance(HORIZON - PAUSE * self.notices).await;
        sweeper.shutdown().await;
        let mut by_second = BTreeMap::new();
        for second in attempts.all() {
            *by_second.entry(second).or_default() += 1;
        }
        Seen { attempts: by_second, alerts: alerts.all() }
    }

    /// Compares the two, and returns what is the same.
    async fn compared(&self, def: NotifyDef) -> Report {
        let (simulated, report) = self.simulated(&def);
        let lived = self.lived(&def).await;
        assert_eq!(simulated, lived, "{report}");
        assert!(!lived.attempts.is_empty() && !lived.alerts.is_empty());
        report
    }
}

fn since_the_beginning(now: DateTime<Utc>) -> Duration {
    (now - DateTime::UNIX_EPOCH).to_std().unwrap()
}

/// The end of the cool-down never falls on an attempt, because their order would then be random.
fn sync() -> NotifyDef {
    NotifyDef::new("sync").alert_cooldown("5m 7ms")
}

#[tokio::test]
async fn an_always_failing_notice_has_the_same_attempts_and_alerts() {
    let always = Trouble { notices: 1, from: Duration::ZERO, lasting: HORIZON, class: ErrorClass::Network };
    for trigger in ["final_failure", "each_failure", "after_failures"] {
        let def = sync().retry_interval("[7s,1m,10m,1h]").alert_trigger_type(trigger);
        let report = always.compared(def).await;
        assert_eq!((report.totals.attempts(), report.totals.dead_letters), (5, 1));
    }
}

#[tokio::test]
async fn suppressed_alerts_bring_the_next_look_at_an_alert_forward() {
    let always = Trouble { notices: 2, from: Duration::ZERO, lasting: HORIZON, class: ErrorClass::Network };
    // It is woken after two hours. The time until which it had slept comes just after the next failures, and means nothing.
    let def = sync().retry_interval("[2h,37m,1h]").alert_trigger_type("each_failure");
    let report = always.compared(def).await;
    assert_eq!(report.alerts.iter().filter(|told| told.alert.kind == AlertKind::Digest).count(), 4, "{report}");
}

#[tokio::test]
async fn an_outage_and_the_recovery_from_it_are_the_same() {
    let minutes = |count: u64| Duration::from_secs(60 * count);
    let outage = Trouble { notices: 90, from: minutes(1), lasting: minutes(7), class: ErrorClass::Busy };
    let def = sync().retry_interval("[20s,70s,3m]").alert_trigger_type("each_failure");
    let report = outage.compared(def.clone()).await;
    assert!(report.totals.dead_letters > 0 && report.totals.succeeded > 0, "{report}");
    assert!(report.alerts.iter().any(|told| told.alert.kind == AlertKind::Recovered), "{report}");
    let with_rules = def.retry_rules(r#"{ "busy": "exp(1s, x3, max 2m)" }"#).max_retry_interval("1m");
    outage.compared(with_rules.keep_history("none").max_retry_times(12)).await;
}

#[tokio::test]
async fn deliveries_without_an_ack_are_the_same() {
    let never = Trouble { notices: 3, from: HORIZON, lasting: SECOND, class: ErrorClass::Network };
    let report = never.compared(sync().need_confirm(true).max_confirm_delay("90s").retry_interval("[1m]")).await;
    assert_eq!((report.totals.attempts(), report.totals.dead_letters), (6, 3));
}

#[tokio::test]
async fn limited_notices_are_sent_at_the_same_times() {
    let minutes = |count: u64| Duration::from_secs(60 * count);
    let outage = Trouble { notices: 60, from: minutes(2), lasting: minutes(20), class: ErrorClass::Unavailable };
    let def = sync().retry_interval("[30s]").max_retry_times(-1);
    let report = outage.compared(def.clone().breaker_failures(3).breaker_pause("90s")).await;
    assert!(report.alerts.iter().any(|told| told.alert.reason == AlertReason::CircuitOpen), "{report}");
    let def = def.alert_trigger_type("each_failure");
    outage.compared(def.clone().rate_limit("5/1m")).await;
    outage.compared(def.send_window("00:07-00:11, 00:31-23:00")).await;
}
