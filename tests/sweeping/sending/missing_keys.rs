//! Notices whose key this node does not have: they wait, are counted and listed, and raise an alert where no node has the key.

use std::sync::Arc;
use std::time::Duration;

use solid_notify::alert::{ALERT_DEFINITION, AlertReason};
use solid_notify::cipher::{ParamKey, ParamKeys};
use solid_notify::sweeper::SweeperBuilder;
use solid_notify::{Alert, AnyOutbox, NewNotice, Notice, NoticeRecord, OutboxExt, Status, Sweeper};
use solid_notify_conformance::Backend;
use solid_notify_core::engine::Engine;
use solid_notify_core::store::{Node, SeenNode};
use test_support::log::Log;
use test_support::sending::{Calls, add, eventually, reaches, record, refusal_of, refused_by};

use super::encryption::{encrypting, keys};
use crate::turn;

const MINUTE: Duration = Duration::from_secs(60);

pub async fn notice_of_an_unknown_key_waits_and_counts_nothing(b: &dyn Backend) {
    let log = Log::start();
    b.outbox().use_param_cipher(keys(&["a"]));
    b.outbox().define_if_missing(encrypting("unknown_key")).await.unwrap();
    let newer = NewNotice::new("unknown_key", 1).unwrap().param_cipher(keys(&["z"]));
    let waits = b.add_new(newer).await.id();
    let handler = |_: Notice<i64>| async { Ok(()) };
    let sweeper = b.outbox().sweeper().handler("unknown_key", handler).start().await.unwrap();
    let sent = add(b, "unknown_key").await;
    reaches(b, sent, Status::Succeeded).await;
    let handed_back =
        |notice: NoticeRecord| notice.status == Status::NotSent && notice.next_call_time > Some(b.clock().now());
    eventually("it waits", async || handed_back(record(b, waits).await)).await;
    let untouched = record(b, waits).await;
    assert_eq!((untouched.failures, untouched.crashes, untouched.errors.len()), (0, 0, 0));
    let problem = refusal_of(b.outbox(), "unknown_key").await;
    let expected = format!(
        "encrypt_param: the parameter of notice {waits} cannot be decrypted: it is encrypted with the key \"z\", which this process does not \
         have; it has \"a\"; it waits, and the others are sent"
    );
    assert_eq!(problem, expected);
    assert!(!log.errors_with(&problem).is_empty(), "it is logged");
    let explained = b.outbox().operator("alice").explain(waits).await.unwrap().to_string();
    assert!(explained.contains(&format!("a node reports: {problem}")), "{explained}");
    b.outbox().use_param_cipher(keys(&["a", "z"]));
    b.clock().advance(Duration::from_secs(60));
    b.outbox().wake();
    reaches(b, waits, Status::Succeeded).await;
    sweeper.shutdown().await;
}

/// It is sent by a node that has the right key, and until then it waits.
pub async fn notice_of_another_key_under_the_same_id_waits(b: &dyn Backend) {
    let key = |seed: u8| Arc::new(ParamKeys::new("2026", ParamKey::new(&[seed; 32]).unwrap()).unwrap());
    b.outbox().use_param_cipher(key(2));
    b.outbox().define_if_missing(encrypting("wrong_key")).await.unwrap();
    let waits = b.add_new(NewNotice::new("wrong_key", 1).unwrap().param_cipher(key(1))).await.id();
    let handler = |_: Notice<i64>| async { Ok(()) };
    let sweeper = b.outbox().sweeper().handler("wrong_key", handler).start().await.unwrap();
    let sent = add(b, "wrong_key").await;
    reaches(b, sent, Status::Succeeded).await;
    let problem = refusal_of(b.outbox(), "wrong_key").await;
    assert!(problem.contains("another key than the one that this process has under the id \"2026\""), "{problem}");
    let untouched = record(b, waits).await;
    assert_eq!((untouched.status, untouched.failures, untouched.errors.len()), (Status::NotSent, 0, 0));
    b.outbox().use_param_cipher(key(1));
    b.clock().advance(MINUTE);
    b.outbox().wake();
    reaches(b, waits, Status::Succeeded).await;
    sweeper.shutdown().await;
}

/// A sweeper that has the handler `charge`, and records the alerts that a definition is invalid.
fn charging(outbox: &AnyOutbox, alerts: &Calls<Alert>) -> SweeperBuilder {
    let alerts = alerts.clone();
    let builder = outbox.sweeper().handler("charge", |_: Notice<i64>| async { Ok(()) });
    builder.handler(ALERT_DEFINITION, move |notice: Notice<Alert>| {
        if notice.param().reason == AlertReason::InvalidDefinition {
            alerts.note(notice.into_param());
        }
        async { Ok(()) }
    })
}

/// Starts a sweeper that has the key `a`, adds a notice with the key `z`, and waits until the sweeper has tried it. Returns the alerts, too.
async fn without_the_key(b: &dyn Backend) -> (Sweeper, Calls<Alert>, i64) {
    b.outbox().use_param_cipher(keys(&["a"]));
    b.outbox().define_if_missing(encrypting("charge")).await.unwrap();
    let alerts = Calls::default();
    let sweeper = charging(b.outbox(), &alerts).start().await.unwrap();
    let notice = NewNotice::new("charge", 1).unwrap().param_cipher(keys(&["z"]));
    let waits = b.add_new(notice).await.id();
    refusal_of(b.outbox(), "charge").await;
    (sweeper, alerts, waits)
}

/// Turns the clock by minutes, and waits for the end of each round of checks.
async fn minutes_pass(b: &dyn Backend, sweeper: &Sweeper, minutes: u32) {
    for _ in 0..minutes {
        turn(b, sweeper, MINUTE).await;
        sweeper.idle().await;
    }
    turn(b, sweeper, Duration::ZERO).await;
}

pub async fn notice_that_no_node_can_decrypt_raises_one_alert(b: &dyn Backend) {
    let (sweeper, alerts, waits) = without_the_key(b).await;
    sweeper.idle().await;
    assert_eq!(alerts.count(), 0, "a node that starts now may have the key");
    turn(b, &sweeper, MINUTE).await;
    eventually("the alert is sent", async || alerts.count() == 1).await;
    let alert = alerts.all().remove(0);
    let problem = format!(
        "encrypt_param: the parameter of notice {waits} cannot be decrypted: it is encrypted with the key \"z\""
    );
    assert!(alert.definition == "charge" && alert.message.starts_with(&problem), "{alert:?}");
    assert!(alert.message.ends_with("it waits, and the others are sent"), "{alert:?}");
    let open = b.outbox().operator("alice").open_alerts(10).await.unwrap();
    assert!(open.iter().any(|alert| alert.definition == "charge"), "{open:?}");
    minutes_pass(b, &sweeper, 3).await;
    assert_eq!(alerts.count(), 1, "within its cool-down");
    assert_eq!((record(b, waits).await.status, record(b, waits).await.failures), (Status::NotSent, 0));
    b.outbox().use_param_cipher(keys(&["a", "z"]));
    b.clock().advance(MINUTE);
    b.outbox().wake();
    reaches(b, waits, Status::Succeeded).await;
    sweeper.shutdown().await;
}

pub async fn notice_that_another_node_can_decrypt_raises_no_alert(b: &dyn Backend) {
    let (sweeper, alerts, waits) = without_the_key(b).await;
    // A node that has the key, and is busy with others.
    let has = |handler: &str, key: &str| Node {
        param_keys: vec![key.to_owned()],
        ..Node::new(format!("with {key} for {handler}"), vec![handler.to_owned()])
    };
    for _ in 0..4 {
        b.outbox().engine().stores().send.beat(&has("charge", "z")).await.unwrap();
        minutes_pass(b, &sweeper, 1).await;
    }
    assert_eq!(alerts.count(), 0);
    assert_eq!(record(b, waits).await.status, Status::NotSent);
    // That node is gone, and two others are of no use.
    for _ in 0..4 {
        for node in [has("charge", "y"), has("other", "z")] {
            b.outbox().engine().stores().send.beat(&node).await.unwrap();
        }
        minutes_pass(b, &sweeper, 1).await;
    }
    eventually("the alert is sent", async || alerts.count() == 1).await;
    sweeper.shutdown().await;
}

pub async fn node_without_a_cipher_alerts_only_where_notices_wait(b: &dyn Backend) {
    b.outbox().define_if_missing(encrypting("charge")).await.unwrap();
    let alerts = Calls::default();
    let sweeper = charging(b.outbox(), &alerts).start().await.unwrap();
    minutes_pass(b, &sweeper, 3).await;
    assert_eq!(alerts.count(), 0, "nothing waits");
    b.add_new(NewNotice::new("charge", 1).unwrap().param_cipher(keys(&["a"]))).await;
    let node = Node { param_keys: vec!["a".to_owned()], ..Node::new("with a cipher", vec!["charge".to_owned()]) };
    for _ in 0..4 {
        b.outbox().engine().stores().send.beat(&node).await.unwrap();
        minutes_pass(b, &sweeper, 1).await;
    }
    assert_eq!(alerts.count(), 0, "another node has a cipher");
    minutes_pass(b, &sweeper, 5).await;
    eventually("the alert is sent", async || alerts.count() == 1).await;
    assert!(alerts.all()[0].message.contains("this node has no cipher"), "{:?}", alerts.all());
    sweeper.shutdown().await;
}

pub async fn node_with_the_key_sends_what_another_one_left(b: &dyn Backend) {
    let (without, alerts, waits) = without_the_key(b).await;
    let other = AnyOutbox::over(Engine::new(b.outbox().engine().stores().clone(), Some(b.clock().clone())));
    other.use_param_cipher(keys(&["b", "z"]));
    let with = charging(&other, &alerts).start().await.unwrap();
    let known = async || b.outbox().operator("alice").nodes().await.unwrap();
    let has_keys = |node: &SeenNode| ["b", "z"].iter().all(|key| node.param_keys.iter().any(|known| known == key));
    let reports = async || known().await.iter().any(|node| has_keys(node) && node.id == with.node_id());
    eventually("it reports its keys", reports).await;
    // Each time either of them may be the first.
    while record(b, waits).await.status != Status::Succeeded {
        turn(b, &without, MINUTE).await;
        without.idle().await;
        with.idle().await;
    }
    eventually("nothing is refused any more", async || {
        b.clock().advance(MINUTE);
        refused_by(b.outbox(), "charge").await.is_empty()
    })
    .await;
    minutes_pass(b, &without, 3).await;
    assert_eq!(alerts.count(), 0, "{:?}", alerts.all());
    without.shutdown().await;
    with.shutdown().await;
}

pub async fn notice_that_was_cancelled_while_it_waited_raises_no_alert(b: &dyn Backend) {
    let (sweeper, alerts, waits) = without_the_key(b).await;
    sweeper.idle().await;
    assert!(b.outbox().operator("alice").cancel(waits, "its key is lost").await.unwrap().is_applied());
    minutes_pass(b, &sweeper, 1).await;
    eventually("it no longer waits", async || refused_by(b.outbox(), "charge").await.is_empty()).await;
    minutes_pass(b, &sweeper, 1).await;
    assert_eq!(alerts.count(), 0, "{:?}", alerts.all());
    sweeper.shutdown().await;
}
