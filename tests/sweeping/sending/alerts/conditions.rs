//! Alerts about conditions, which no outcome of an attempt shows.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use solid_notify::alert::{Alert, AlertKind, AlertReason};
use solid_notify::operate::{Filter, Rate};
use solid_notify::{NewNotice, NotifyDef, Status};
use solid_notify_conformance::Backend;
use test_support::sending::{Calls, add, definition, edit_by_hand, eventually, reaches};

use super::{MINUTE, failing, on, told};
use crate::turn;

pub async fn conditions_outside_of_attempts_raise_alerts_too(b: &dyn Backend) {
    let outbox = b.outbox();
    outbox.define_if_missing(NotifyDef::new("broken")).await.unwrap();
    edit_by_hand(b, "broken", |def| def.retry_interval("[5x]")).await;
    outbox.define_if_missing(NotifyDef::new("unhandled")).await.unwrap();
    outbox.define_if_missing(NotifyDef::new("slow").handler("not_here").backlog_alert_age("10m")).await.unwrap();
    outbox
        .define_if_missing(NotifyDef::new("quiet").handler("unregistered").alert_trigger_type("never"))
        .await
        .unwrap();
    outbox.define_if_missing(NotifyDef::new("sync").max_retry_times(0).dead_alert_count(2)).await.unwrap();
    outbox.define_if_missing(NotifyDef::new("lost")).await.unwrap();
    for name in ["broken", "unhandled", "slow", "quiet", "lost"] {
        b.add_new(NewNotice::new(name, 1).unwrap()).await;
    }
    // Before the sweeper has ever read it.
    b.delete_by_hand(definition(b, "lost").await.id).await;
    let alerts = Calls::default();
    // A loop of its own finds the row that is missing, perhaps after a check of the conditions.
    let builder = failing(b, &on(), &alerts).maintenance_interval(Duration::from_millis(50));
    let sweeper = builder.start().await.unwrap();
    for _ in 0..2 {
        let id = add(b, "sync").await;
        reaches(b, id, Status::DeadLetter).await;
    }
    b.clock().advance(11 * MINUTE);
    let told = || {
        let mut all: Vec<_> = alerts
            .all()
            .into_iter()
            .filter(|alert| alert.kind == AlertKind::Raised)
            .map(|alert| (alert.definition, alert.reason))
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    use AlertReason::{Backlog, DeadLetters, FinalFailure, InvalidDefinition, NoHandler};
    let expected = [
        ("broken", InvalidDefinition),
        ("lost", InvalidDefinition),
        ("unhandled", NoHandler),
        ("slow", Backlog),
        ("slow", NoHandler),
        ("sync", FinalFailure),
        ("sync", DeadLetters),
    ];
    let mut expected: Vec<_> = expected.map(|(name, reason)| (name.to_owned(), reason)).to_vec();
    expected.sort_unstable();
    eventually("all of them are sent", async || told() == expected).await;
    sweeper.shutdown().await;
}

pub async fn a_pile_of_dead_letters_raises_an_alert_by_default(b: &dyn Backend) {
    for (name, count) in [("sync", None), ("off", Some(0)), ("report", None)] {
        let def = NotifyDef::new(name).handler("sync").max_retry_times(0).alert_trigger_type("final_failure");
        let def = if let Some(count) = count { def.dead_alert_count(count) } else { def };
        b.outbox().define_if_missing(def).await.unwrap();
    }
    for (name, count) in [("sync", 99), ("off", 101), ("report", 3)] {
        let many = (0..count).map(|n| NewNotice::new(name, n).unwrap()).collect();
        b.add_many(many).await.unwrap();
    }
    let alerts = Calls::default();
    let sweeper = failing(b, &on(), &alerts).start().await.unwrap();
    let piles =
        || alerts.all().into_iter().filter(|alert| alert.reason == AlertReason::DeadLetters).collect::<Vec<_>>();
    sweeper.idle().await;
    b.clock().advance(2 * MINUTE);
    sweeper.idle().await;
    let counted = async || {
        let snapshot = b.outbox().operator("alice").snapshot().await.unwrap();
        solid_notify_core::store::dead_letters(&snapshot).0 == 203
    };
    eventually("all are counted", counted).await;
    assert!(piles().is_empty(), "99 are no pile, and `0` switches the alert off");
    let id = add(b, "sync").await;
    reaches(b, id, Status::DeadLetter).await;
    sweeper.idle().await;
    b.clock().advance(2 * MINUTE);
    eventually("the pile is reported", async || !piles().is_empty()).await;
    let pile = piles().remove(0);
    assert_eq!(pile.definition, "sync");
    let text = "there are 100 dead letters, and 204 of all definitions: off 101, sync 100, report 3";
    assert_eq!(pile.message, text);
    sweeper.shutdown().await;
}

pub async fn a_pile_that_is_not_checked_has_not_recovered(b: &dyn Backend) {
    let def = NotifyDef::new("sync").max_retry_times(0).dead_alert_count(2).alert_cooldown("2m");
    b.outbox().define_if_missing(def).await.unwrap();
    let (alerts, fails) = (Calls::default(), on());
    let sweeper = failing(b, &fails, &alerts).start().await.unwrap();
    for _ in 0..2 {
        let id = add(b, "sync").await;
        reaches(b, id, Status::DeadLetter).await;
    }
    let piles = |kind: AlertKind| {
        let of = |alert: &Alert| alert.reason == AlertReason::DeadLetters && alert.kind == kind;
        alerts.all().iter().filter(|alert| of(alert)).count()
    };
    let minutes_pass = async |minutes: u32| {
        for _ in 0..minutes {
            sweeper.idle().await;
            turn(b, &sweeper, MINUTE).await;
        }
        sweeper.idle().await;
    };
    minutes_pass(2).await;
    eventually("the pile is reported", async || piles(AlertKind::Raised) == 1).await;
    let alice = b.outbox().operator("alice");
    for turn in ["disabled", "invalid", "paused"] {
        match turn {
            "disabled" => edit_by_hand(b, "sync", |def| def.enabled(false)).await,
            "invalid" => edit_by_hand(b, "sync", |def| def.retry_interval("[5x]")).await,
            _ => drop(alice.pause_all("the target moves").await.unwrap()),
        }
        b.outbox().wake();
        minutes_pass(10).await;
        match turn {
            "paused" => drop(alice.resume_all().await.unwrap()),
            _ => edit_by_hand(b, "sync", |def| def.enabled(true).retry_interval("5s")).await,
        }
        b.outbox().wake();
        minutes_pass(10).await;
        assert_eq!(piles(AlertKind::Recovered), 0, "{turn}");
    }
    fails.store(false, Ordering::SeqCst);
    let dead = Filter::dead_letters().definition("sync");
    assert_eq!(alice.retry_all(&dead, Rate::AT_ONCE).await.unwrap().changed, 2);
    minutes_pass(10).await;
    eventually("the end of the pile is reported", async || piles(AlertKind::Recovered) == 1).await;
    sweeper.shutdown().await;
}

pub async fn a_notice_behind_its_ordering_key_is_backlog(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").need_confirm(true).backlog_alert_age("10m")).await.unwrap();
    let alerts = Calls::default();
    let sweeper = failing(b, &Arc::default(), &alerts).start().await.unwrap();
    let add = async || b.add_new(NewNotice::new("sync", 1).unwrap().ordering_key("key")).await.id();
    let first = add().await;
    reaches(b, first, Status::AwaitingAck).await;
    add().await;
    sweeper.idle().await;
    b.clock().advance(11 * MINUTE);
    assert_eq!(told(&alerts, 1).await.remove(0).reason, AlertReason::Backlog);
    sweeper.shutdown().await;
}
