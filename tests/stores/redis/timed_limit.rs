//! `TaskRun::time_limit`: handlers that hang or block their thread; what the log has of handlers that fail.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use solid_notify_timed::{ClaimedTask, TaskFailure, TaskLease};
use test_support::RedisServer;
use test_support::log::Log;
use test_support::sending::{Calls, eventually};

use crate::timed_tasks::{KIND, SECOND, World};

async fn handlers_that_hang_fail_and_leave_their_places<R: RedisServer>() {
    let w = World::new::<R>().await;
    assert!(
        format!("{:?}", w.tasks.run(KIND, |_: ClaimedTask<i64>| async { Ok(()) })).contains("time_limit: 30s"),
        "by default"
    );
    let done = Calls::default();
    let noted = done.clone();
    let handler = move |task: ClaimedTask<i64>| {
        let noted = noted.clone();
        async move {
            if task.value < 0 {
                std::future::pending::<()>().await;
            }
            noted.note(task.value);
            Ok(())
        }
    };
    for value in (-10..0).chain(1..=20) {
        w.tasks.add(KIND, Duration::ZERO, &value).await.unwrap();
    }
    let runner = w.run(handler).concurrency(10).time_limit(Duration::from_millis(50));
    let runner = runner.lease(TaskLease::of(30 * SECOND).max_tries(2)).retry_delay(|_| Duration::ZERO).start().unwrap();
    w.has(0, 0, 10).await;
    let mut values = done.all();
    values.sort_unstable();
    assert_eq!(values, (1..=20).collect::<Vec<_>>());
    for dead in w.tasks.dead(KIND, 10).await.unwrap() {
        assert!(dead.reason.contains("longer than its time limit, 50ms"), "{dead:?}");
    }
    runner.shutdown().await;
    w.own.close();
}

async fn a_handler_that_blocks_its_thread_stops_the_claims_of_its_runner<R: RedisServer>() {
    let (w, log) = (World::new::<R>().await, Log::start());
    let kind = &format!("blocks {}", w.own.prefix);
    let calls = Calls::default();
    let (release, gate) = channel::<()>();
    let (noted, gate) = (calls.clone(), Arc::new(Mutex::new(gate)));
    let handler = move |task: ClaimedTask<i64>| {
        let gate = Arc::clone(&gate);
        noted.note(task.value);
        async move {
            if task.value == 0 {
                let _ = gate.lock().unwrap().recv_timeout(60 * SECOND);
            }
            Ok(())
        }
    };
    w.tasks.add(kind, Duration::ZERO, &0).await.unwrap();
    let runner = w.tasks.run(kind, handler).poll(Duration::from_millis(5)).time_limit(Duration::from_millis(50));
    let runner = runner.concurrency(4).lease(TaskLease::of(60 * SECOND).max_tries(1)).start().unwrap();
    eventually("its try has failed", async || w.tasks.count(kind).await.unwrap().dead == 1).await;
    let errors = log.errors_with(kind);
    assert!(matches!(&errors[..], [line] if line.contains("cannot be cancelled")), "{errors:?}");
    w.tasks.add(kind, Duration::ZERO, &1).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(calls.all(), [0], "nothing is claimed while it blocks its thread");
    drop(release);
    eventually("the next one is run", async || calls.all() == [0, 1]).await;
    assert_eq!(runner.shutdown().await.finished, 1);
    w.own.close();
}

async fn the_log_has_nothing_of_a_value<R: RedisServer>() {
    let (w, log) = (World::new::<R>().await, Log::start());
    let (kind, secret) = (&format!("quotes {}", w.own.prefix), &format!("card {}", w.own.prefix));
    let handler = |task: ClaimedTask<(u8, String)>| async move {
        match task.value.0 {
            0 => Err(format!("no such number: {}", task.value.1).into()),
            1 => Err(TaskFailure::give_up(std::io::Error::other(task.value.1))),
            _ => panic!("{}", task.value.1),
        }
    };
    for value in [json!([0, secret]), json!([1, secret]), json!([2, secret]), json!(secret)] {
        w.tasks.add(kind, Duration::ZERO, &value).await.unwrap();
    }
    let lease = TaskLease::of(60 * SECOND).max_tries(1);
    let runner = w.tasks.run(kind, handler).poll(Duration::from_millis(5)).lease(lease).start().unwrap();
    eventually("all have ended", async || {
        let counts = w.tasks.count(kind).await.unwrap();
        (counts.dead, counts.aside) == (3, 1)
    })
    .await;
    runner.shutdown().await;
    w.tasks.add(kind, Duration::ZERO, secret).await.unwrap();
    assert_eq!(w.tasks.due::<u8>(kind, 10).await.unwrap().damaged.len(), 1);
    let dead = w.tasks.dead(kind, 10).await.unwrap();
    assert!(dead.iter().all(|dead| dead.reason.contains(secret)), "the dead task keeps it: {dead:?}");
    let logged: Vec<String> = log.all().into_iter().filter(|line| line.contains(kind)).collect();
    assert_eq!(logged.iter().filter(|line| line.contains("a timed task failed")).count(), 4, "{logged:?}");
    assert!(logged.iter().any(|line| line.contains("undecodable value")), "{logged:?}");
    assert!(log.all().iter().all(|line| !line.contains(secret)), "{logged:?}");
    w.own.close();
}

test_support::on_each_redis!(
    handlers_that_hang_fail_and_leave_their_places,
    a_handler_that_blocks_its_thread_stops_the_claims_of_its_runner,
    the_log_has_nothing_of_a_value,
);
