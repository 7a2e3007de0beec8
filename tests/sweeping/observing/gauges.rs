//! The gauges, which every node sets from the snapshot.

use std::sync::Arc;
use std::time::Duration;

use metrics::set_default_local_recorder;
use solid_notify::cipher::{ParamKey, ParamKeys};
use solid_notify::metrics::{COUNTS_AGE, DEAD_LETTERS, HELD_BACK, LIVE, OLDEST_DUE};
use solid_notify::{Failure, NewNotice, Notice, NotifyDef, OutboxExt, Status};
use solid_notify_conformance::Backend;
use test_support::memory::MemoryBackend;
use test_support::sending::{add, eventually, reaches, update};

use crate::observing::recorded::{recorder, value};

const EVERY: Duration = Duration::from_secs(30);

#[tokio::test]
async fn every_node_shows_the_snapshot() {
    let b = MemoryBackend::default();
    b.outbox().define_if_missing(NotifyDef::new("waiting")).await.unwrap();
    b.outbox().define_if_missing(NotifyDef::new("bad").max_retry_times(0)).await.unwrap();
    for _ in 0..3 {
        add(&b, "waiting").await;
    }
    b.clock().advance(Duration::from_secs(7));
    // The first node counts.
    let first = b
        .outbox()
        .sweeper()
        .handler("bad", |_: Notice<i64>| async { Err(Failure::give_up("no")) })
        .start()
        .await
        .unwrap();
    let id = add(&b, "bad").await;
    reaches(&b, id, Status::DeadLetter).await;
    let counted = async || {
        let snapshot = b.outbox().operator("test").snapshot().await.unwrap();
        snapshot.iter().all(|row| row.taken.is_some() && !row.due_in.is_zero())
    };
    eventually("all is counted", counted).await;
    first.idle().await;
    b.clock().advance(EVERY);
    eventually("all is counted anew", counted).await;
    first.shutdown().await;
    // The second one only shows.
    let recorder = recorder();
    let (shown, _recorder) = (recorder.handle(), set_default_local_recorder(&recorder));
    b.clock().advance(Duration::from_secs(9));
    let second = b.outbox().sweeper().start().await.unwrap();
    let gauge = |name: &str, labels: &str| value(&shown, name, labels);
    eventually("shown", async || gauge(LIVE, "definition=waiting,status=not_sent") == 3.0).await;
    assert_eq!(gauge(OLDEST_DUE, "definition=waiting"), 37.0);
    assert_eq!((gauge(DEAD_LETTERS, "definition=bad"), gauge(DEAD_LETTERS, "definition=waiting")), (1.0, 0.0));
    assert_eq!(gauge(COUNTS_AGE, ""), 9.0);
    // The gauge of an old name becomes zero.
    let renamed = |mut def: NotifyDef| {
        def.name = "renamed".to_owned();
        def
    };
    update(&b, "waiting", renamed).await;
    second.idle().await;
    b.clock().advance(EVERY);
    eventually("renamed", async || gauge(LIVE, "definition=renamed,status=not_sent") == 3.0).await;
    assert_eq!(gauge(LIVE, "definition=waiting,status=not_sent"), 0.0);
    assert_eq!((gauge(OLDEST_DUE, "definition=waiting"), gauge(OLDEST_DUE, "definition=renamed")), (0.0, 76.0));
    second.shutdown().await;
}

#[tokio::test]
async fn notices_that_wait_for_their_key_are_counted() {
    let recorder = recorder();
    let (shown, _recorder) = (recorder.handle(), set_default_local_recorder(&recorder));
    let b = MemoryBackend::default();
    let keys = |id: &str| {
        let key = ParamKey::new(&[id.as_bytes()[0]; 32]).unwrap();
        Arc::new(ParamKeys::new(id, key).unwrap())
    };
    b.outbox().use_param_cipher(keys("a"));
    b.outbox().define_if_missing(NotifyDef::new("charge").encrypt_param(true)).await.unwrap();
    let builder = b.outbox().sweeper().handler("charge", |_: Notice<i64>| async { Ok(()) });
    // The node reports with its beats.
    let sweeper = builder.maintenance_interval(Duration::from_millis(50)).start().await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(b.add_new(NewNotice::new("charge", 1).unwrap().param_cipher(keys("z"))).await.id());
    }
    let sent = add(&b, "charge").await;
    reaches(&b, sent, Status::Succeeded).await;
    let held_back = || value(&shown, HELD_BACK, "definition=charge");
    eventually("they are counted", async || held_back() == 3.0).await;
    b.outbox().use_param_cipher(keys("z"));
    b.clock().advance(Duration::from_secs(60));
    b.outbox().wake();
    for id in waiting {
        reaches(&b, id, Status::Succeeded).await;
    }
    b.clock().advance(Duration::from_secs(121));
    eventually("none waits any more", async || held_back() == 0.0).await;
    sweeper.shutdown().await;
}
