//! Inboxes of receivers on Redis: when the mark of a key is written, and a call that the client repeats.

use ::redis::Value;
use solid_notify::{Inbox, NotifyDef, add_notice};
use test_support::RedisServer;
use test_support::redis::OwnPrefix;

test_support::on_each_redis!(
    the_outbox_itself_marks_at_once_and_one_of_many_is_the_first,
    a_batch_marks_with_its_commit,
    a_mark_that_the_client_repeats_is_still_the_first,
);

fn warehouse() -> Inbox {
    Inbox::new("warehouse", "shop")
}

async fn the_outbox_itself_marks_at_once_and_one_of_many_is_the_first<R: RedisServer>() {
    let own = OwnPrefix::of::<R>();
    let outbox = own.outbox().await;
    let inbox = warehouse();
    let all = (0..8).map(|_| {
        let mut outbox = outbox.clone();
        let inbox = &inbox;
        async move { inbox.first_time(&mut outbox, "7").await.unwrap() }
    });
    let all = futures_util::future::join_all(all).await;
    assert_eq!(all.into_iter().filter(|first| *first).count(), 1);
    own.close();
}

/// It locks nothing, so two batches at the same moment may both do the work.
async fn a_batch_marks_with_its_commit<R: RedisServer>() {
    let own = OwnPrefix::of::<R>();
    let outbox = own.outbox().await;
    outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let (mut one, mut two) = (outbox.begin().await.unwrap(), outbox.begin().await.unwrap());
    for batch in [&mut one, &mut two] {
        assert!(warehouse().first_time(batch, "7").await.unwrap());
        assert!(!warehouse().first_time(batch, "7").await.unwrap(), "in the same batch");
        add_notice(batch, "sync", 7).await.unwrap();
    }
    one.commit().await.unwrap();
    let mut three = outbox.begin().await.unwrap();
    assert!(!warehouse().first_time(&mut three, "7").await.unwrap());
    two.commit().await.unwrap();
    assert!(!warehouse().first_time(&mut three, "7").await.unwrap());
    own.close();
}

/// The client of a cluster sends a call again after a lost reply.
async fn a_mark_that_the_client_repeats_is_still_the_first<R: RedisServer>() {
    const SCRIPT: &str = concat!(
        include_str!("../../../crates/redis-connection/src/start.lua"),
        include_str!("../../../crates/redis/src/store/lua/audit.lua"),
        include_str!("../../../crates/redis/src/store/lua/meta.lua"),
    );
    let own = OwnPrefix::of::<R>();
    let key = format!("{{{}#}}", own.prefix);
    let mark = |call: &str| {
        let given = serde_json::json!({ "what": "mark_seen", "marks": ["warehouse\x007"], "call": call });
        own.by_hand(&["EVAL", SCRIPT, "1", &key, &given.to_string()])
    };
    assert_eq!([mark("a"), mark("a"), mark("b"), mark("a")], [1, 1, 0, 1].map(Value::Int));
    own.close();
}
