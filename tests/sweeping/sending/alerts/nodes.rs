//! Alerts of several sweepers: which node takes them, and that a failure is not stored without its alert.

use std::time::Duration;

use chrono::Utc;
use solid_notify::alert::AlertReason;
use solid_notify::definition::ALERT_DEFINITION;
use solid_notify::spi::store::QueueSlice;
use solid_notify::testkit::{HandClock, MemoryOutbox, TestSweeper};
use solid_notify::{
    AckResult, Alert, AnyOutbox, Failure, Notice, NotifyDef, OutboxExt, Status, SweeperBuilder, ack_notice, add_notice,
};
use solid_notify_core::store::{Alarm, Cause, Node};
use test_support::sending::{Calls, PATIENCE, add, definition, eventually, reaches, record};
use test_support::{Database, TestDb, on_each_database, on_each_server};

on_each_database!(
    a_failure_is_not_stored_without_its_alert,
    a_definition_is_not_paused_without_its_alert,
    a_digest_that_cannot_be_stored_is_sent_later,
    nodes_that_alarm_at_once_count_each_alarm_once
);

/// SQLite has one writer at a time.
mod with_row_locks {
    use super::*;
    on_each_server!(an_ack_of_a_missing_notice_blocks_no_insert);
}

fn failing(outbox: &AnyOutbox) -> SweeperBuilder {
    outbox.sweeper().handler("sync", |_: Notice<i64>| async { Err(Failure::give_up("no such customer")) })
}

fn taking(builder: SweeperBuilder, alerts: &Calls<Alert>) -> SweeperBuilder {
    let alerts = alerts.clone();
    builder.handler(ALERT_DEFINITION, move |notice: Notice<Alert>| {
        alerts.note(notice.into_param());
        async { Ok(()) }
    })
}

async fn a_failure_is_not_stored_without_its_alert<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let alerts = Calls::default();
    let sweeper = taking(failing(&db.outbox), &alerts).start().await.unwrap();
    sweeper.idle().await;
    db.sql("ALTER TABLE notify_alert RENAME TO out_of_the_way").await;
    let id = add(&db, "sync").await;
    eventually("it is being sent", async || record(&db, id).await.fence == 1).await;
    // Long enough for a few tries to store its failure.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(record(&db, id).await.status, Status::Sending);
    db.sql("ALTER TABLE out_of_the_way RENAME TO notify_alert").await;
    reaches(&db, id, Status::DeadLetter).await;
    // Meanwhile the node may have reported that it lacks a table.
    let failed = || alerts.all().into_iter().find(|alert| alert.reason == AlertReason::FinalFailure);
    eventually("the alert is sent", async || failed().is_some()).await;
    assert_eq!(failed().unwrap().notice_id, Some(id));
    sweeper.shutdown().await;
    db.close().await;
}

async fn a_definition_is_not_paused_without_its_alert<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync").retry_interval("200ms").max_retry_times(-1)).await.unwrap();
    let alerts = Calls::default();
    let gone = db.outbox.sweeper().handler("sync", |_: Notice<i64>| async { Err(Failure::pause("no more")) });
    let sweeper = taking(gone, &alerts).start().await.unwrap();
    sweeper.idle().await;
    db.sql("ALTER TABLE notify_alert RENAME TO out_of_the_way").await;
    let id = add(&db, "sync").await;
    assert_eq!(reaches(&db, id, Status::Failed).await.failures, 1, "what cannot be paused has failed");
    assert!(definition(&db, "sync").await.enabled);
    db.sql("ALTER TABLE out_of_the_way RENAME TO notify_alert").await;
    eventually("the next attempt pauses it", async || !definition(&db, "sync").await.enabled).await;
    // Meanwhile the node may have reported that it lacks a table.
    let paused = || alerts.all().into_iter().find(|alert| alert.reason == AlertReason::Paused);
    eventually("the alert is sent", async || paused().is_some()).await;
    assert_eq!(paused().unwrap().notice_id, Some(id));
    sweeper.shutdown().await;
    db.close().await;
}

async fn a_digest_that_cannot_be_stored_is_sent_later<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync").alert_cooldown("1s")).await.unwrap();
    let alerts = Calls::default();
    let sweeper = taking(failing(&db.outbox), &alerts).start().await.unwrap();
    for _ in 0..3 {
        reaches(&db, add(&db, "sync").await, Status::DeadLetter).await;
    }
    db.sql("ALTER TABLE notify_msg RENAME TO out_of_the_way").await;
    // Long enough for the cool-down to end and for a few tries to store the digest.
    tokio::time::sleep(Duration::from_millis(2000)).await;
    db.sql("ALTER TABLE out_of_the_way RENAME TO notify_msg").await;
    let reported = || alerts.all().iter().map(|alert| 1 + alert.more).sum::<i64>() >= 3;
    eventually("the digest is sent", async || reported()).await;
    sweeper.shutdown().await;
    db.close().await;
}

async fn nodes_that_alarm_at_once_count_each_alarm_once<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new(ALERT_DEFINITION)).await.unwrap();
    let alert_def = definition(&db, ALERT_DEFINITION).await.id;
    let stores = db.outbox.engine().stores();
    for incident in 1..=10 {
        let beat = |node: usize| {
            let alarm = Alarm {
                alert_def,
                def_id: incident,
                definition: "sync".to_owned(),
                reason: AlertReason::FinalFailure,
                cooldown: Duration::from_secs(3600),
                notice_id: None,
                description: None,
                class: None,
                message: "no".to_owned(),
                cause: Cause::default(),
                node: format!("node-{node}"),
            };
            let node = alarm.node.clone();
            let node = Node { alarms: vec![alarm], ..Node::new(node, Vec::new()) };
            async move { stores.send.beat(&node).await.unwrap().alarms_left }
        };
        assert_eq!(beat(0).await, 0);
        // On a busy machine a heartbeat may give up an alarm whose row the others lock.
        let mut left = 0;
        for _ in 0..3 {
            left += futures_util::future::join_all((0..3).map(beat)).await.into_iter().sum::<usize>();
        }
        let (row, _) = stores.alerts.alert(incident, AlertReason::FinalFailure).await.unwrap().unwrap();
        assert_eq!(row.suppressed, 9 - i64::try_from(left).unwrap(), "{left} alarms are left");
        let slice = QueueSlice::of(alert_def, Status::NotSent);
        let alerts = db.outbox.engine().stores().browse.count(&slice, 1000).await.unwrap();
        assert_eq!(alerts, usize::try_from(incident).unwrap(), "incident {incident}");
    }
    db.close().await;
}

/// Where there is no row, MySQL locks the place where one may come.
async fn an_ack_of_a_missing_notice_blocks_no_insert<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let ended = add(&db, "sync").await;
    db.outbox.ack(ended).await.unwrap();
    let mut tx = db.outbox.begin().await.unwrap();
    assert_eq!(ack_notice(&mut tx, ended).await.unwrap(), AckResult::AlreadySucceeded);
    assert_eq!(ack_notice(&mut tx, ended + 1000).await.unwrap(), AckResult::Unknown);
    tokio::time::timeout(PATIENCE, add(&db, "sync")).await.expect("an insert does not wait for the open ack");
    tx.commit().await.unwrap();
    db.close().await;
}

#[tokio::test]
async fn a_definition_created_after_the_start_is_not_reported_as_deleted() {
    let outbox = MemoryOutbox::builder().clock(HandClock::new(Utc::now())).build();
    let alerts = Calls::default();
    let sweeper = TestSweeper::start(taking(failing(&outbox), &alerts)).await.unwrap();
    outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let mut tx = outbox.begin().await.unwrap();
    add_notice(&mut tx, "sync", 7).await.unwrap();
    tx.commit().await.unwrap();
    sweeper.drain().await;
    sweeper.advance(Duration::from_secs(120)).await;
    let reasons: Vec<AlertReason> = alerts.all().iter().map(|alert| alert.reason).collect();
    assert_eq!(reasons, [AlertReason::FinalFailure]);
    sweeper.shutdown().await;
}
