//! `TaskRun::time_limit`: handlers that hang.

use std::time::Duration;

use solid_notify_timed::{ClaimedTask, TaskLease};
use test_support::RedisServer;
use test_support::sending::Calls;

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

test_support::on_each_redis!(handlers_that_hang_fail_and_leave_their_places);
