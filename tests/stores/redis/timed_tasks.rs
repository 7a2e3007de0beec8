//! Timed tasks on Redis, one server and a cluster: the promises of a delayed queue, and damaged entries.

use std::time::{Duration, Instant};

use chrono::Utc;
use futures_util::future::join_all;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use solid_notify_timed::{ClaimedTask, ConnectionError, Rescheduled, TaskLease, TaskOutcome, TimedTasks, When};
use test_support::RedisServer;
use test_support::redis::OwnPrefix;
use test_support::sending::eventually;

pub const KIND: &str = "remind";
pub const SECOND: Duration = Duration::from_secs(1);

pub struct World {
    pub own: OwnPrefix,
    pub tasks: TimedTasks,
}

impl World {
    pub async fn new<R: RedisServer>() -> Self {
        let own = OwnPrefix::of::<R>();
        let tasks = own.tasks().await;
        Self { own, tasks }
    }

    pub fn key(&self, name: &str) -> String {
        format!("{{{}:{KIND}}}:{name}", self.own.prefix)
    }

    pub async fn claim(&self, limit: usize) -> Vec<ClaimedTask<Value>> {
        self.tasks.claim(KIND, limit, &TaskLease::of(60 * SECOND)).await.unwrap().tasks
    }

    pub async fn claim_one(&self) -> ClaimedTask<Value> {
        let mut claimed = self.claim(10).await;
        assert_eq!(claimed.len(), 1, "one task is due: {claimed:?}");
        claimed.remove(0)
    }

    pub async fn settle(&self, task: &ClaimedTask<Value>, outcome: TaskOutcome) -> bool {
        self.tasks.settle(KIND, &[task.outcome(outcome)]).await.unwrap()[0]
    }

    pub async fn due(&self) -> Vec<Value> {
        let due = self.tasks.due(KIND, 100).await.unwrap();
        due.tasks.into_iter().map(|task| task.value).collect()
    }
}

async fn tasks_are_due_at_their_time_and_in_its_order<R: RedisServer>() {
    let w = World::new::<R>().await;
    let now = w.tasks.now(KIND).await.unwrap();
    assert_eq!(now, w.own.clock.now());
    w.tasks.add(KIND, 3 * SECOND, &"c").await.unwrap();
    w.tasks.add(KIND, SECOND, &"a").await.unwrap();
    w.tasks.add(KIND, now + 2 * SECOND, &"b").await.unwrap();
    w.tasks.add("other", SECOND, &"x").await.unwrap();
    assert!(w.due().await.is_empty());
    w.own.clock.advance(Duration::from_millis(999));
    assert!(w.due().await.is_empty(), "a millisecond too early");
    w.own.clock.advance(Duration::from_millis(1));
    assert_eq!(w.due().await, ["a"]);
    w.own.clock.advance(10 * SECOND);
    assert_eq!(w.due().await, ["a", "b", "c"]);
    assert_eq!(w.due().await, ["a", "b", "c"], "looking changes nothing");
    assert_eq!(w.tasks.due::<String>(KIND, 2).await.unwrap().tasks.len(), 2);
    w.own.close();
}

async fn tasks_are_deleted_rescheduled_looked_up_and_counted<R: RedisServer>() {
    let w = World::new::<R>().await;
    let ids = w.tasks.add_batch(KIND, (0..1001).map(|n| (SECOND * (n + 1), json!({ "n": n })))).await.unwrap();
    assert_eq!(ids.len(), 1001);
    w.own.clock.advance(2 * SECOND);
    let counts = w.tasks.count(KIND).await.unwrap();
    assert_eq!((counts.waiting, counts.due, counts.claimed), (1001, 2, 0));
    assert_eq!(w.tasks.delete(KIND, &[&ids[0], &ids[2], "no-such-task"]).await.unwrap(), 2);
    assert!(w.tasks.is_scheduled(KIND, &ids[1]).await.unwrap());
    assert!(!w.tasks.is_scheduled(KIND, &ids[0]).await.unwrap());
    assert_eq!(w.due().await, [json!({ "n": 1 })]);
    let held = w.claim_one().await;
    assert!(w.tasks.is_scheduled(KIND, &held.id).await.unwrap(), "a claimed task is not finished");
    let moved = |id: &str, at: When| {
        let (tasks, id) = (w.tasks.clone(), id.to_owned());
        async move { tasks.reschedule(KIND, &id, at).await.unwrap() }
    };
    assert_eq!(moved(&held.id, When::After(SECOND)).await, Rescheduled::Claimed);
    assert_eq!(moved("no-such-task", When::After(SECOND)).await, Rescheduled::Unknown);
    assert_eq!(moved(&ids[1000], When::At(w.own.clock.now())).await, Rescheduled::Rescheduled);
    assert_eq!(w.due().await, [json!({ "n": 1000 })]);
    assert_eq!(moved(&ids[1000], When::After(SECOND)).await, Rescheduled::Rescheduled);
    assert!(w.due().await.is_empty());
    assert_eq!(w.tasks.delete(KIND, &[&held.id]).await.unwrap(), 1);
    assert!(!w.settle(&held, TaskOutcome::Finish).await, "it is gone");
    w.own.close();
}

async fn a_task_with_an_id_of_the_callers_exists_once_and_can_be_replaced<R: RedisServer>() {
    let w = World::new::<R>().await;
    assert!(w.tasks.add_as(KIND, "order 7", SECOND, &1).await.unwrap());
    assert!(!w.tasks.add_as(KIND, "order 7", Duration::ZERO, &2).await.unwrap());
    assert!(w.due().await.is_empty());
    w.tasks.replace(KIND, "order 7", Duration::ZERO, &3).await.unwrap();
    let old = w.claim_one().await;
    assert_eq!((old.value.clone(), old.id.as_str()), (json!(3), "order 7"));
    w.tasks.replace(KIND, "order 7", Duration::ZERO, &4).await.unwrap();
    assert!(!w.settle(&old, TaskOutcome::Finish).await, "the holder of a replaced task has lost it");
    let new = w.claim_one().await;
    assert_eq!((new.value.clone(), new.tries), (json!(4), 1));
    assert!(!w.settle(&old, TaskOutcome::Finish).await, "though both claims are the first of their task");
    assert!(w.settle(&new, TaskOutcome::Finish).await);
    w.own.close();
}

async fn of_sixteen_consumers_each_task_is_held_by_one<R: RedisServer>() {
    let w = World::new::<R>().await;
    w.tasks.add_batch(KIND, (0..400).map(|n| (Duration::ZERO, n))).await.unwrap();
    let mut seen = Vec::new();
    loop {
        let claims = join_all((0..16).map(|_| w.claim(7))).await;
        let claimed: Vec<_> = claims.into_iter().flatten().collect();
        if claimed.is_empty() {
            break;
        }
        let outcomes: Vec<_> = claimed.iter().map(|task| task.outcome(TaskOutcome::Finish)).collect();
        assert!(w.tasks.settle(KIND, &outcomes).await.unwrap().into_iter().all(|held| held));
        seen.extend(claimed.into_iter().map(|task| task.value.as_i64().unwrap()));
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..400).collect::<Vec<_>>());
    assert_eq!(w.tasks.count(KIND).await.unwrap(), Default::default());
    w.own.close();
}

async fn tasks_of_a_dead_consumer_are_claimed_again<R: RedisServer>() {
    let w = World::new::<R>().await;
    w.tasks.add(KIND, Duration::ZERO, &1).await.unwrap();
    let dead = w.claim_one().await;
    w.own.clock.advance(59 * SECOND);
    assert!(w.claim(10).await.is_empty(), "its lease runs");
    assert!(w.settle(&dead, TaskOutcome::Extend(60 * SECOND)).await);
    w.own.clock.advance(59 * SECOND);
    assert!(w.claim(10).await.is_empty(), "its lease was extended");
    w.own.clock.advance(SECOND);
    let alive = w.claim_one().await;
    assert_eq!((alive.id.as_str(), alive.tries), (dead.id.as_str(), 2));
    assert!(alive.fence > dead.fence);
    for outcome in [TaskOutcome::Finish, TaskOutcome::Retry(When::After(SECOND)), TaskOutcome::Dead("late".into())] {
        assert!(!w.settle(&dead, outcome).await);
    }
    assert!(w.settle(&alive, TaskOutcome::Finish).await);
    assert!(!w.settle(&alive, TaskOutcome::Finish).await, "once");
    w.own.close();
}

async fn after_a_flush_a_consumer_of_before_holds_nothing<R: RedisServer>() {
    let w = World::new::<R>().await;
    w.tasks.add_as(KIND, "order 7", Duration::ZERO, &1).await.unwrap();
    let old = w.claim_one().await;
    for name in ["due", "values", "claims", "last_number"] {
        w.own.by_hand(&["DEL", &w.key(name)]);
    }
    w.own.clock.advance(SECOND);
    w.tasks.add_as(KIND, "order 7", Duration::ZERO, &2).await.unwrap();
    let new = w.claim_one().await;
    assert!(!w.settle(&old, TaskOutcome::Finish).await, "it is another task");
    assert!(w.settle(&new, TaskOutcome::Finish).await);
    w.own.close();
}

async fn a_task_is_retried_at_its_time_and_dies_with_its_reason<R: RedisServer>() {
    let w = World::new::<R>().await;
    w.tasks.add(KIND, Duration::ZERO, &json!({ "n": 1 })).await.unwrap();
    let first = w.claim_one().await;
    assert!(w.settle(&first, TaskOutcome::Retry(When::After(5 * SECOND))).await);
    assert!(w.claim(10).await.is_empty());
    w.own.clock.advance(5 * SECOND);
    let second = w.claim_one().await;
    assert_eq!(second.tries, 2);
    assert!(w.settle(&second, TaskOutcome::Dead("no such number".into())).await);
    assert!(w.claim(10).await.is_empty());
    let dead = w.tasks.dead(KIND, 10).await.unwrap();
    assert_eq!((dead[0].reason.as_str(), dead[0].tries, dead[0].value.as_str()), ("no such number", 2, r#"{"n":1}"#));
    assert_eq!(dead[0].died, w.own.clock.now());
    assert_eq!(w.tasks.revive(KIND, &[&dead[0].id, "no-such-task"]).await.unwrap(), 1);
    let again = w.claim_one().await;
    assert_eq!(again.tries, 1);
    assert!(w.settle(&again, TaskOutcome::Dead("again".into())).await);
    assert!(w.tasks.purge(KIND, SECOND).await.unwrap().is_empty(), "it is not old enough");
    w.own.clock.advance(SECOND);
    assert_eq!(w.tasks.purge(KIND, SECOND).await.unwrap(), [again.id]);
    w.own.close();
}

async fn a_task_that_kills_its_consumers_runs_out<R: RedisServer>() {
    let w = World::new::<R>().await;
    w.tasks.add(KIND, Duration::ZERO, &1).await.unwrap();
    let lease = TaskLease::of(SECOND).max_tries(2);
    for tries in 1..=2 {
        let due = w.tasks.claim::<i64>(KIND, 10, &lease).await.unwrap();
        assert_eq!((due.tasks[0].tries, due.dead.len()), (tries, 0));
        w.own.clock.advance(SECOND);
    }
    let due = w.tasks.claim::<i64>(KIND, 10, &lease).await.unwrap();
    assert_eq!((due.tasks.len(), due.dead.len()), (0, 1));
    let dead = w.tasks.dead(KIND, 10).await.unwrap();
    assert_eq!((dead[0].id.as_str(), dead[0].tries), (due.dead[0].as_str(), 2));
    w.own.close();
}

async fn an_unusable_entry_is_put_aside_and_stops_nothing<R: RedisServer>() {
    let w = World::new::<R>().await;
    w.tasks.add_as(KIND, "good", Duration::ZERO, &1).await.unwrap();
    w.own.by_hand(&["ZADD", &w.key("due"), "1", "no entry"]);
    w.own.by_hand(&["ZADD", &w.key("due"), "1", "no entry, held"]);
    w.own.by_hand(&["HSET", &w.key("claims"), "no entry, held", "what is this"]);
    w.own.by_hand(&["HSET", &w.key("values"), "no score", "7"]);
    w.own.by_hand(&["HSET", &w.key("values"), "undecodable", "{"]);
    w.own.by_hand(&["ZADD", &w.key("due"), "2", "undecodable"]);
    let due = w.tasks.claim::<i64>(KIND, 10, &TaskLease::of(SECOND)).await.unwrap();
    assert_eq!(due.tasks.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["good"]);
    let mut damaged: Vec<&str> = due.damaged.iter().map(|damaged| damaged.id.as_str()).collect();
    damaged.sort_unstable();
    assert_eq!(damaged, ["no entry", "no entry, held", "undecodable"]);
    let lost = w.tasks.check(KIND).await.unwrap();
    assert_eq!(lost.iter().map(|damaged| damaged.id.as_str()).collect::<Vec<_>>(), ["no score"]);
    assert!(w.tasks.check(KIND).await.unwrap().is_empty(), "each is reported once");
    let aside = w.tasks.aside(KIND).await.unwrap();
    let told: Vec<(&str, Value)> =
        aside.iter().map(|(id, text)| (id.as_str(), serde_json::from_str::<Value>(text).unwrap())).collect();
    assert_eq!(
        told.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
        ["no entry", "no entry, held", "no score", "undecodable"]
    );
    assert_eq!((told[2].1["value"].as_str(), told[3].1["value"].as_str()), (Some("7"), Some("{")));
    let counts = w.tasks.count(KIND).await.unwrap();
    assert_eq!((counts.waiting, counts.claimed, counts.aside), (0, 1, 4));
    // The same for a reader that claims nothing.
    w.own.by_hand(&["HSET", &w.key("values"), "undecodable", "{"]);
    w.own.by_hand(&["ZADD", &w.key("due"), "2", "undecodable"]);
    w.own.by_hand(&["ZADD", &w.key("due"), "1", "no entry"]);
    let due = w.tasks.due::<i64>(KIND, 10).await.unwrap();
    assert_eq!((due.tasks.len(), due.damaged.len()), (0, 2));
    assert!(w.tasks.due::<i64>(KIND, 10).await.unwrap().damaged.is_empty());
    w.own.close();
}

async fn an_idle_consumer_finds_an_entry_without_a_score<R: RedisServer>() {
    let w = World::new::<R>().await;
    w.tasks.add_batch(KIND, (0..600).map(|n| (60 * SECOND, n))).await.unwrap();
    w.own.by_hand(&["HSET", &w.key("values"), "no score", "7"]);
    let mut found = Vec::new();
    for _ in 0..60 {
        let due = w.tasks.claim::<i64>(KIND, 10, &TaskLease::of(SECOND)).await.unwrap();
        assert!(due.tasks.is_empty());
        found.extend(due.damaged.into_iter().map(|damaged| (damaged.id, damaged.reason)));
        w.own.clock.advance(SECOND / 2);
    }
    assert_eq!(found, [("no score".to_owned(), "an entry without a score".to_owned())]);
    assert_eq!(w.tasks.count(KIND).await.unwrap().waiting, 600, "the others are left alone");
    w.own.close();
}

async fn a_value_is_stored_byte_for_byte<R: RedisServer>() {
    let w = World::new::<R>().await;
    let texts = [
        r#"{"a":"\u0000\"\\\u001f é \ud83d\ude00 😀","n":1e200000, "a":1.10}"#.to_owned(),
        "[".repeat(100) + &"]".repeat(100),
    ];
    for text in texts {
        let value = RawValue::from_string(text.clone()).unwrap();
        let id = w.tasks.add(KIND, SECOND, &value).await.unwrap();
        assert!(w.tasks.add_as(KIND, "own", SECOND, &value).await.unwrap());
        w.tasks.replace(KIND, "replaced é\"", SECOND, &value).await.unwrap();
        for id in [id.as_str(), "own", "replaced é\""] {
            let stored = w.own.by_hand(&["HGET", &w.key("values"), id]);
            assert_eq!(stored, ::redis::Value::BulkString(text.clone().into_bytes()), "{id}");
        }
        w.tasks.delete(KIND, &["own"]).await.unwrap();
    }
    w.own.close();
}

async fn many_damaged_entries_hide_no_task<R: RedisServer>() {
    let w = World::new::<R>().await;
    for n in 0..300 {
        w.own.by_hand(&["ZADD", &w.key("due"), "1", &format!("no entry {n}")]);
    }
    w.tasks.add(KIND, Duration::ZERO, &1).await.unwrap();
    let due = w.tasks.claim::<i64>(KIND, 10, &TaskLease::of(SECOND)).await.unwrap();
    assert_eq!((due.tasks.len(), due.damaged.len()), (1, 300));
    w.own.close();
}

async fn scripts_that_the_server_has_forgotten_are_sent_again<R: RedisServer>() {
    let w = World::new::<R>().await;
    w.tasks.add(KIND, Duration::ZERO, &1).await.unwrap();
    w.own.on_each_node(|connection| {
        let _: () = ::redis::cmd("SCRIPT").arg("FLUSH").query(connection).unwrap();
    });
    w.tasks.add(KIND, Duration::ZERO, &2).await.unwrap();
    assert_eq!(w.due().await, [json!(1), json!(2)]);
    w.own.close();
}

async fn without_a_clock_of_ours_time_is_that_of_redis<R: RedisServer>() {
    let own = OwnPrefix::of::<R>();
    let tasks = TimedTasks::new(own.builder().connect().await.unwrap());
    let began = Instant::now();
    tasks.add(KIND, Duration::from_millis(150), &1).await.unwrap();
    tasks.add(KIND, 3600 * SECOND, &2).await.unwrap();
    eventually("the first one is due", async || tasks.due::<i64>(KIND, 2).await.unwrap().tasks.len() == 1).await;
    // Redis counts whole milliseconds.
    assert!(began.elapsed() >= Duration::from_millis(149), "{:?}", began.elapsed());
    let before = Utc::now();
    let redis = tasks.now(KIND).await.unwrap();
    // The server may be another machine with a clock of its own.
    assert!(before - 60 * SECOND < redis && redis < Utc::now() + 60 * SECOND, "{redis}");
    own.close();
}

async fn a_prefix_that_could_meet_another_is_refused<R: RedisServer>() {
    let own = OwnPrefix::of::<R>();
    for prefix in ["", "a:b", "a}b", "a b"] {
        let refused = own.builder().prefix(prefix).connect().await;
        assert!(matches!(refused, Err(ConnectionError::Prefix { .. })), "{prefix:?}");
    }
}

async fn a_panic_of_retry_delay_is_a_failure_as_any<R: RedisServer>() {
    let w = World::new::<R>().await;
    let handler = |task: ClaimedTask<i64>| async move { if task.tries == 1 { Err("busy".into()) } else { Ok(()) } };
    let run = w.tasks.run(KIND, handler).poll(Duration::from_millis(5));
    let runner = run.retry_delay(|_| panic!("no delay")).start().unwrap();
    w.tasks.add_batch(KIND, (0..3).map(|n| (Duration::ZERO, n))).await.unwrap();
    eventually("all are done", async || {
        let counts = w.tasks.count(KIND).await.unwrap();
        // Time that passes during an attempt would end its lease.
        if counts.claimed == 0 {
            w.own.clock.advance(SECOND);
        }
        counts.waiting + counts.claimed == 0
    })
    .await;
    let tally = runner.shutdown().await;
    assert_eq!((tally.finished, tally.retried), (3, 3));
    w.own.close();
}

test_support::on_each_redis!(
    tasks_are_due_at_their_time_and_in_its_order,
    tasks_are_deleted_rescheduled_looked_up_and_counted,
    a_task_with_an_id_of_the_callers_exists_once_and_can_be_replaced,
    of_sixteen_consumers_each_task_is_held_by_one,
    tasks_of_a_dead_consumer_are_claimed_again,
    after_a_flush_a_consumer_of_before_holds_nothing,
    a_task_is_retried_at_its_time_and_dies_with_its_reason,
    a_task_that_kills_its_consumers_runs_out,
    an_unusable_entry_is_put_aside_and_stops_nothing,
    an_idle_consumer_finds_an_entry_without_a_score,
    a_value_is_stored_byte_for_byte,
    many_damaged_entries_hide_no_task,
    scripts_that_the_server_has_forgotten_are_sent_again,
    without_a_clock_of_ours_time_is_that_of_redis,
    a_prefix_that_could_meet_another_is_refused,
    a_panic_of_retry_delay_is_a_failure_as_any,
);
