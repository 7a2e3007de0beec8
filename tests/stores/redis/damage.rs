//! Damaged keys of notices in Redis: what cannot be used is put aside and stops nothing else.

use std::time::Duration;

use solid_notify::{Filter, NewNotice, Notice, NotifyDef, OutboxExt, Status, add_notice};
use solid_notify_conformance::outcome;
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::store::{Claim, ClaimWhat};
use solid_notify_core::transition::Next;
use solid_notify_redis::RedisOutbox;
use test_support::redis::OwnPrefix;
use test_support::sending::eventually;
use test_support::{RedisServer, on_each_redis};
use tokio::sync::mpsc::UnboundedReceiver;

on_each_redis!(
    a_score_without_a_notice_is_put_aside_and_stops_nothing,
    a_lost_notice_does_not_come_back_by_a_claim,
    a_lost_dead_letter_leaves_the_lists_of_its_tag_class_and_group,
    a_key_of_another_type_stops_its_definition_alone,
    a_row_with_odd_fields_stops_no_other_definition,
    a_damaged_target_holds_up_no_other_target,
    lost_counter_of_notices_gives_no_id_twice,
);

/// A counter that was lost, or set back by a restore: notices keep their ids, and the counter moves behind them at once.
async fn lost_counter_of_notices_gives_no_id_twice<R: RedisServer>() {
    let own = OwnPrefix::of::<R>();
    let outbox = own.outbox().await;
    outbox.define_if_missing(NotifyDef::new("sync").max_retry_times(0)).await.unwrap();
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.push(add_notice(&mut outbox.clone(), "sync", number).await.unwrap().id());
    }
    let fails = async |_: Notice<i64>| Err(solid_notify::Failure::retry("down"));
    outbox.sweeper().handler("sync", fails).run_until_idle().await.unwrap();
    let counter = format!("{{{}#}}:last_notice", own.prefix);
    own.by_hand(&["DEL", &counter]);
    let new = add_notice(&mut outbox.clone(), "sync", 5).await.unwrap().id();
    assert!(new > ids[4], "{new} {ids:?}");
    let counted = format!("{:?}", own.by_hand(&["GET", &counter]));
    assert!(counted.contains(&(new / 100_000).to_string()), "{counted}");
    for id in ids {
        assert_eq!(outbox.find(id).await.unwrap().unwrap().status, Status::DeadLetter);
    }
    // What the library adds has the id that is returned.
    own.by_hand(&["DEL", &counter]);
    let authority = solid_notify_core::store::Authority::of_alert();
    let act = outbox.engine().stores().operate.add(new % 100_000, "7", &authority).await.unwrap();
    assert!(act > new, "{act}");
    assert_eq!(outbox.find(act).await.unwrap().unwrap().param, "7");
    own.close();
}

async fn a_key_of_another_type_stops_its_definition_alone<R: RedisServer>() {
    for damaged in
        ["status:not_sent", "ready:first_sends", "limit", "outgoing", "outgoing_to", "definition", "versions"]
    {
        let own = OwnPrefix::of::<R>();
        let outbox = own.outbox().await;
        for name in ["bad", "good"] {
            outbox.define_if_missing(NotifyDef::new(name)).await.unwrap();
        }
        let bad = add_notice(&mut outbox.clone(), "bad", 1).await.unwrap().id();
        let def_id = outbox.find(bad).await.unwrap().unwrap().def_id;
        let key = match damaged {
            "definition" | "versions" => format!("{{{}#}}:{damaged}:{def_id}", own.prefix),
            _ => format!("{{{}#{def_id}}}:{damaged}", own.prefix),
        };
        own.by_hand(&["SET", &key, "damaged"]);
        let builder = outbox.sweeper().poll_interval(Duration::from_millis(20)).first_send(false);
        let handled = |_: Notice<i64>| async { Ok(()) };
        let sweeper = builder.handler("bad", handled).handler("good", handled).start().await.unwrap();
        for number in 0..3 {
            let good = add_notice(&mut outbox.clone(), "good", number).await.unwrap().id();
            let is_sent = async || outbox.find(good).await.unwrap().unwrap().status == Status::Succeeded;
            eventually(damaged, is_sent).await;
        }
        sweeper.shutdown().await;
        own.close();
    }
}

/// Fields that are no text, a text larger than the process should read, and members that are no ids.
async fn a_row_with_odd_fields_stops_no_other_definition<R: RedisServer>() {
    let own = OwnPrefix::of::<R>();
    let outbox = own.outbox().await;
    for name in ["bad", "good"] {
        outbox.define_if_missing(NotifyDef::new(name)).await.unwrap();
    }
    let bad = outbox.definitions().await.unwrap().iter().find(|state| state.row.name == "bad").unwrap().row.id;
    let row = format!("{{{}#}}:definition:{bad}", own.prefix);
    let large = "x".repeat(5_000_000);
    own.on_each_node(|connection| {
        // Only the master of its slot takes it.
        let _: Result<(), ::redis::RedisError> =
            ::redis::cmd("HSET").arg(&row).arg(&b"\xff\xfe"[..]).arg(&b"\xff"[..]).query(connection);
    });
    own.by_hand(&["SADD", &format!("{{{}#}}:definitions", own.prefix), "foo", "99999999999999999999"]);
    for description in ["small", &large] {
        own.by_hand(&["HSET", &row, "description", description]);
        let sweeper = outbox.sweeper().handler("good", |_: Notice<i64>| async { Ok(()) });
        let id = add_notice(&mut outbox.clone(), "good", 1).await.unwrap().id();
        sweeper.run_until_idle().await.unwrap();
        assert_eq!(outbox.find(id).await.unwrap().unwrap().status, Status::Succeeded);
    }
    let rows = outbox.definitions().await.unwrap();
    assert!(rows.iter().all(|state| state.row.id != bad), "too large to be read");
    own.by_hand(&["HDEL", &row, "description"]);
    assert!(outbox.definitions().await.unwrap().iter().any(|state| state.row.id == bad));
    own.close();
}

async fn next(receiver: &mut UnboundedReceiver<(String, i64)>) -> (String, i64) {
    tokio::time::timeout(Duration::from_secs(60), receiver.recv()).await.expect("a notice arrives").unwrap()
}

async fn a_damaged_target_holds_up_no_other_target<R: RedisServer>() {
    let own = OwnPrefix::of::<R>();
    let outbox = own.outbox().await;
    for def in [NotifyDef::new("order"), NotifyDef::target("order", "bad"), NotifyDef::target("order", "good")] {
        outbox.define_if_missing(def.handler("send")).await.unwrap();
    }
    let rows = outbox.definitions().await.unwrap();
    let bad = rows.iter().find(|state| state.row.name == "order/bad").unwrap().row.id;
    let key = format!("{{{}#{bad}}}:status:not_sent", own.prefix);
    own.by_hand(&["SET", &key, "damaged"]);
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let handler = move |notice: Notice<i64>| {
        sender.send((notice.target().unwrap().to_owned(), *notice.param())).unwrap();
        async { Ok(()) }
    };
    let builder = outbox.sweeper().poll_interval(Duration::from_millis(20)).handler("send", handler);
    let sweeper = builder.start().await.unwrap();
    for number in 0..3 {
        add_notice(&mut outbox.clone(), "order", number).await.unwrap();
        assert_eq!(next(&mut receiver).await, ("good".to_owned(), number));
    }
    let problem = || sweeper.health().not_sending.unwrap_or_default();
    eventually("its health says so", async || problem().contains("passing notices on to a target")).await;
    own.by_hand(&["DEL", &key]);
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(next(&mut receiver).await);
    }
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2].map(|number| ("bad".to_owned(), number)), "once it can be written to");
    eventually("its health says that, too", async || sweeper.health().is_sending()).await;
    sweeper.shutdown().await;
    own.close();
}

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

async fn claims(outbox: &RedisOutbox, id: i64) -> Vec<ClaimedNotice> {
    let def_id = outbox.definitions().await.unwrap().iter().find(|state| state.row.name == "sync").unwrap().row.id;
    let (what, worker, lease) = (ClaimWhat::Ids(vec![id]), "worker-1".to_owned(), Duration::from_secs(1));
    let claim = Claim { def_id, what, limit: 1, lease, worker, quota: None };
    outbox.engine().stores().send.claim(&claim).await.unwrap().notices
}

/// The claim by ids, of a dispatched notice, does not look at the notice before.
async fn a_lost_notice_does_not_come_back_by_a_claim<R: RedisServer>() {
    let own = OwnPrefix::of::<R>();
    let outbox = own.outbox().await;
    outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let id = add_notice(&mut outbox.clone(), "sync", 1).await.unwrap().id();
    let prefix = format!("{{{}#{}}}:", own.prefix, outbox.find(id).await.unwrap().unwrap().def_id);
    own.by_hand(&["DEL", &format!("{prefix}notice:{id}")]);
    assert!(claims(&outbox, id).await.is_empty());
    assert_eq!(own.keys(&format!("{prefix}*")), [format!("{prefix}aside")]);
    own.close();
}

async fn a_lost_dead_letter_leaves_the_lists_of_its_tag_class_and_group<R: RedisServer>() {
    let own = OwnPrefix::of::<R>();
    let outbox = own.outbox().await;
    outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let notice = NewNotice::new("sync", 1).unwrap().tag("order:7");
    let id = notice.add(&mut outbox.clone()).await.unwrap().id();
    let claimed = claims(&outbox, id).await.remove(0);
    let ended = Next::Finish { status: Status::DeadLetter, reason: Some("refused".to_owned()), keep: true };
    let mut dead = outcome(&claimed, ended);
    dead.last_class = Some("network".to_owned());
    dead.regroup();
    let group = dead.error_group.unwrap();
    outbox.engine().stores().send.settle(&[dead]).await.unwrap();
    own.by_hand(&["DEL", &format!("{{{}#{}}}:notice:{id}", own.prefix, claimed.def_id)]);
    let dead_letters = Filter::dead_letters;
    for filter in [dead_letters().tag("order:7"), dead_letters().class("network"), dead_letters().group(group)] {
        let filter = filter.definition("sync");
        let alice = outbox.operator("alice");
        assert!(alice.list(&filter, None, 9).await.unwrap().notices.is_empty());
        assert_eq!(alice.preview(&filter).await.unwrap().total.count, 0, "{filter:?}");
    }
    own.close();
}
