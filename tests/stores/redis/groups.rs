//! Groups of dead letters on Redis: many of them are counted and read in steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use solid_notify::{Filter, NotifyDef};
use test_support::redis::OwnPrefix;
use test_support::{RedisServer, on_each_redis};

on_each_redis!(the_largest_of_many_groups_are_read_in_steps);

/// Makes groups 1 to 1,200, each with one to seven dead letters, whose hashes do not matter here; and one without any.
const FILL: &str = "for group = 1, 1200 do
    redis.call('SADD', KEYS[1] .. 'error_groups', group)
    for n = 0, group % 7 do redis.call('ZADD', KEYS[1] .. 'error_group:' .. group, n, n) end
end
redis.call('SADD', KEYS[1] .. 'error_groups', 1201)";

async fn the_largest_of_many_groups_are_read_in_steps<R: RedisServer>() {
    let own = OwnPrefix::of::<R>();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let outbox = own.outbox_with_calls(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let outbox = outbox.await;
    outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let def_id = outbox.definitions().await.unwrap().iter().find(|state| state.row.name == "sync").unwrap().row.id;
    let prefix = format!("{{{}#{def_id}}}:", own.prefix);
    own.by_hand(&["EVAL", FILL, "1", &prefix]);
    let before = calls.load(Ordering::SeqCst);
    let groups = outbox.operator("alice").groups(&Filter::dead_letters().definition("sync")).await.unwrap();
    let calls = calls.load(Ordering::SeqCst) - before;
    let largest = (0..7)
        .rev()
        .flat_map(|size| (1..=1200).filter(move |group| group % 7 == size).map(move |group| (group, size + 1)));
    let found: Vec<(i64, i64)> =
        groups.iter().map(|group| (group.group, i64::try_from(group.count).unwrap())).collect();
    assert_eq!(found, largest.take(500).collect::<Vec<_>>());
    // One looks for the definition, three or more count 500 groups each, and ten read 50 groups each.
    assert!((14..20).contains(&calls), "{calls}");
    let empty = own.by_hand(&["SISMEMBER", &format!("{prefix}error_groups"), "1201"]);
    assert_eq!(empty, ::redis::Value::Int(0));
    own.close();
}
