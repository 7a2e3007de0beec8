//! Timed tasks: what is due, and when; target URLs; names that are refused.

use std::time::Duration;

use serde_json::{Value, json};
use solid_notify_timed::{Error, TaskOutcome, When};
use test_support::RedisServer;
use test_support::redis::OwnPrefix;

use crate::timed_tasks::{KIND, SECOND, World};

async fn due_returns_as_many_tasks_as_are_asked_for<R: RedisServer>() {
    let w = World::new::<R>().await;
    // Two thirds have the same time.
    w.tasks.add_batch(KIND, (0..1203).map(|n| (SECOND * (n % 3 / 2), n))).await.unwrap();
    w.tasks.add(KIND, 2 * SECOND, &9999).await.unwrap();
    w.own.clock.advance(SECOND);
    for limit in [1, 500, 501, 1203, usize::MAX] {
        let due = w.tasks.due::<u32>(KIND, limit).await.unwrap().tasks;
        assert_eq!(due.len(), limit.min(1203));
        assert!(due.is_sorted_by_key(|task| task.due), "the longest due first");
        let mut values: Vec<u32> = due.into_iter().map(|task| task.value).collect();
        values.sort_unstable();
        values.dedup();
        assert_eq!(values.len(), limit.min(1203), "each once");
    }
    w.own.close();
}

async fn pages_of_due_tasks_leave_none_out_while_others_change_them<R: RedisServer>() {
    let w = World::new::<R>().await;
    let ids = w.tasks.add_batch(KIND, (0..1200).map(|n| (Duration::ZERO, n))).await.unwrap();
    // Ids of equal length, so their order is that of the tasks. The last task of the first page and one of the second go, and one
    // of the first page gets another time.
    let other = OwnPrefix::of::<R>();
    let (key, changed) = (w.key("due"), [ids[499].clone(), ids[700].clone(), ids[3].clone()]);
    let reader = w
        .own
        .tasks_with_calls(move |call| {
            if call == 1 {
                other.by_hand(&["ZREM", &key, &changed[0], &changed[1]]);
                other.by_hand(&["ZADD", &key, "1", &changed[2]]);
            }
        })
        .await;
    let mut values: Vec<u32> =
        reader.due::<u32>(KIND, usize::MAX).await.unwrap().tasks.into_iter().map(|task| task.value).collect();
    values.sort_unstable();
    assert_eq!(values, (0..1200).filter(|n| *n != 700).collect::<Vec<_>>());
    w.own.close();
}

async fn the_next_due_time_is_that_of_the_earliest_task<R: RedisServer>() {
    let w = World::new::<R>().await;
    let (now, none) = (w.tasks.now(KIND).await.unwrap(), Vec::<Value>::new());
    assert_eq!(w.tasks.next_due(KIND).await.unwrap(), None);
    w.tasks.add(KIND, 70 * SECOND, &1).await.unwrap();
    w.tasks.add(KIND, now + 5 * SECOND, &2).await.unwrap();
    assert_eq!(w.tasks.next_due(KIND).await.unwrap(), Some(now + 5 * SECOND));
    w.own.clock.advance(9 * SECOND);
    assert_eq!(w.tasks.next_due(KIND).await.unwrap(), Some(now + 5 * SECOND), "it is over");
    let task = w.claim_one().await;
    assert_eq!(w.tasks.next_due(KIND).await.unwrap(), Some(now + 69 * SECOND), "the end of the lease");
    assert!(w.settle(&task, TaskOutcome::Finish).await);
    assert_eq!(w.tasks.next_due(KIND).await.unwrap(), Some(now + 70 * SECOND));
    assert_eq!(w.due().await, none);
    w.own.close();
}

async fn a_target_url_stays_with_its_task<R: RedisServer>() {
    let w = World::new::<R>().await;
    let url = "https://shop.example/hooks/paid?a=b";
    let (shop, target) = (w.tasks.with_target(url).unwrap(), Some(url.to_owned()));
    w.tasks.add(KIND, Duration::ZERO, &"none").await.unwrap();
    shop.add(KIND, Duration::ZERO, &"one").await.unwrap();
    shop.add_batch(KIND, [(Duration::ZERO, "two"), (Duration::ZERO, "three")]).await.unwrap();
    assert!(shop.add_as(KIND, "own", Duration::ZERO, &"own").await.unwrap());
    assert!(!w.tasks.add_as(KIND, "own", Duration::ZERO, &"other").await.unwrap(), "its target stays");
    shop.replace(KIND, "replaced", Duration::ZERO, &"replaced").await.unwrap();
    shop.replace(KIND, "without", Duration::ZERO, &"any").await.unwrap();
    w.tasks.replace(KIND, "without", Duration::ZERO, &"without").await.unwrap();
    let expected = |value: &str| target.clone().filter(|_| !["none", "without"].contains(&value));
    let due = w.tasks.due::<String>(KIND, 10).await.unwrap().tasks;
    assert_eq!(due.len(), 7);
    assert!(due.iter().all(|task| task.target == expected(&task.value)), "{due:?}");
    let claimed = w.claim(10).await;
    assert_eq!(claimed.len(), 7);
    assert!(claimed.iter().all(|task| task.target == expected(task.value.as_str().unwrap())), "{claimed:?}");
    for task in &claimed {
        let outcome = match task.value.as_str().unwrap() {
            "one" => TaskOutcome::Retry(When::After(Duration::ZERO)),
            "two" => TaskOutcome::Dead("no such number".to_owned()),
            "three" => TaskOutcome::Aside("unusable".to_owned()),
            _ => TaskOutcome::Finish,
        };
        assert!(w.settle(task, outcome).await);
    }
    let retried = w.claim_one().await;
    assert_eq!((retried.value.clone(), &retried.target), (json!("one"), &target));
    assert!(w.settle(&retried, TaskOutcome::Finish).await);
    let (dead, aside) = (w.tasks.dead(KIND, 10).await.unwrap().remove(0), w.tasks.aside(KIND).await.unwrap().remove(0));
    assert_eq!(dead.target, target);
    assert_eq!(w.tasks.revive(KIND, &[&dead.id]).await.unwrap(), 1);
    let revived = w.claim_one().await;
    assert_eq!(revived.target, target);
    assert!(w.settle(&revived, TaskOutcome::Dead("again".to_owned())).await);
    let stored = |id: &str| w.own.by_hand(&["HEXISTS", &w.key("targets"), id]) == ::redis::Value::Int(1);
    assert!(stored(&dead.id) && stored(&aside.0), "an operator needs it");
    assert_eq!(w.tasks.purge(KIND, Duration::ZERO).await.unwrap(), [dead.id]);
    w.tasks.delete(KIND, &[&aside.0]).await.unwrap();
    assert_eq!(w.own.by_hand(&["EXISTS", &w.key("targets")]), ::redis::Value::Int(0), "none is left over");
    w.own.close();
}

async fn unusable_kinds_ids_and_targets_are_refused<R: RedisServer>() {
    let w = World::new::<R>().await;
    for kind in ["", "a{b}c", "a\nb"] {
        assert!(matches!(w.tasks.add(kind, SECOND, &1).await, Err(Error::Kind { .. })), "{kind:?}");
        assert!(matches!(w.tasks.count(kind).await, Err(Error::Kind { .. })), "{kind:?}");
        assert!(matches!(w.tasks.import_older(kind).await, Err(Error::Kind { .. })), "{kind:?}");
        let run = w.tasks.run(kind, |_: solid_notify_timed::ClaimedTask<i64>| async { Ok(()) });
        assert!(matches!(run.start(), Err(Error::Kind { .. })), "{kind:?}");
    }
    for id in ["", "a\nb"] {
        assert!(matches!(w.tasks.add_as(KIND, id, SECOND, &1).await, Err(Error::Id { .. })), "{id:?}");
        assert!(matches!(w.tasks.replace(KIND, id, SECOND, &1).await, Err(Error::Id { .. })), "{id:?}");
    }
    assert!(matches!(w.tasks.with_target("shop.example"), Err(Error::Target { .. })));
    assert_eq!(w.tasks.count(KIND).await.unwrap(), Default::default());
    w.own.close();
}

test_support::on_each_redis!(
    due_returns_as_many_tasks_as_are_asked_for,
    pages_of_due_tasks_leave_none_out_while_others_change_them,
    the_next_due_time_is_that_of_the_earliest_task,
    a_target_url_stays_with_its_task,
    unusable_kinds_ids_and_targets_are_refused,
);
