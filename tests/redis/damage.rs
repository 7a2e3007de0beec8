//! Damaged keys of notices in Redis: what cannot be used is put aside and stops nothing else.

use std::time::Duration;

use solid_notify::{Notice, NotifyDef, OutboxExt, Status, add_notice};
use solid_notify_tests::redis::OwnPrefix;
use solid_notify_tests::sending::eventually;
use solid_notify_tests::{RedisServer, on_each_redis};

on_each_redis!(a_score_without_a_notice_is_put_aside_and_stops_nothing);

async fn a_score_without_a_notice_is_put_aside_and_stops_nothing<R: RedisServer>() {
    let own = OwnPrefix::of::<R>();
    let outbox = own.outbox().await;
    outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let def_id = outbox.definitions().await.unwrap().iter().find(|state| state.row.name == "sync").unwrap().row.id;
    let key = |name: &str| format!("{{{}#{def_id}}}:{name}", own.prefix);
    // The number of a notice, far from those that are given, and its definition.
    let member = format!("00000000077777{def_id:05}");
    own.by_hand(&["ZADD", &key("ready:first_sends"), "0", &member]);
    own.by_hand(&["ZADD", &key("status:not_sent"), "0", &member]);
    let id = add_notice(&mut outbox.clone(), "sync", 1).await.unwrap().id();
    let sweeper = outbox
        .sweeper()
        .poll_interval(Duration::from_millis(20))
        .first_send(false)
        .handler("sync", |_: Notice<i64>| async { Ok(()) })
        .start()
        .await
        .unwrap();
    eventually("it is sent", async || outbox.find(id).await.unwrap().unwrap().status == Status::Succeeded).await;
    let aside = own.by_hand(&["HEXISTS", &key("aside"), &member]);
    assert_eq!(aside, ::redis::Value::Int(1));
    sweeper.shutdown().await;
    own.close();
}
