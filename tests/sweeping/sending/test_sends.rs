//! Tests that operators send: handlers see the mark in each attempt, and the rules of the definition hold.

use std::time::Duration;

use solid_notify::operate::TEST_TAG;
use solid_notify::{Failure, NewNotice, Notice, NotifyDef, Operator, OutboxExt, Status};
use solid_notify_conformance::Backend;
use test_support::sending::{Calls, eventually, reaches, record, update};

fn alice(b: &dyn Backend) -> Operator {
    b.outbox().operator("alice")
}

pub async fn handlers_see_the_mark_of_a_test_in_each_attempt(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("1h")).await.unwrap();
    b.outbox().define_if_missing(NotifyDef::new("order")).await.unwrap();
    b.outbox().define_if_missing(NotifyDef::target("order", "erp")).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let note = move |notice: &Notice<i64>| {
        noted.note((notice.definition().to_owned(), notice.is_test(), notice.tag().map(str::to_owned)));
    };
    let (first, second) = (note.clone(), note);
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", move |notice: Notice<i64>| {
            first(&notice);
            let fails = notice.attempt() == 1;
            async move { if fails { Err(Failure::retry("no")) } else { Ok(()) } }
        })
        .handler("order", move |notice: Notice<i64>| {
            second(&notice);
            async { Ok(()) }
        })
        .start()
        .await
        .unwrap();
    let test = alice(b).test_send("sync", 1).await.unwrap();
    reaches(b, test, Status::Failed).await;
    b.clock().advance(Duration::from_secs(2 * 3600));
    reaches(b, test, Status::Succeeded).await;
    let mark = Some(TEST_TAG.to_owned());
    let seen = |name: &str| (name.to_owned(), true, mark.clone());
    assert_eq!(calls.all(), [seen("sync"), seen("sync")]);
    alice(b).test_send("order", 1).await.unwrap();
    eventually("the target gets it", async || calls.count() == 3).await;
    assert_eq!(calls.all()[2..], [seen("order/erp")]);
    // What an application adds is no test.
    b.add_new(NewNotice::new("order", 1).unwrap().tag("order:7")).await;
    eventually("it is sent", async || calls.count() == 4).await;
    assert_eq!(calls.all()[3], ("order/erp".to_owned(), false, Some("order:7".to_owned())));
    sweeper.shutdown().await;
}

pub async fn a_test_waits_while_its_definition_is_paused(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").enabled(false)).await.unwrap();
    let sweeper = b.outbox().sweeper().handler("sync", |_: Notice<i64>| async { Ok(()) }).start().await.unwrap();
    let test = alice(b).test_send("sync", 1).await.unwrap();
    sweeper.idle().await;
    assert_eq!(record(b, test).await.status, Status::NotSent);
    let why = alice(b).explain(test).await.unwrap().to_string();
    assert!(why.contains("is paused") && why.contains(TEST_TAG), "{why}");
    update(b, "sync", |def| def.enabled(true)).await;
    reaches(b, test, Status::Succeeded).await;
    sweeper.shutdown().await;
}
