//! `TimedTasks::run`: tries, leases, concurrency, sleep and shutdown of a runner. Redis's clock is turned by hand; the
//! pace of a runner is that of the process, so its pauses are short here.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use chrono::DateTime;
use serde::{Deserialize, Deserializer};
use solid_notify_timed::{ClaimedTask, TaskFailure, TaskLease, TaskOutcome, TaskResult, TaskRun, TaskTally};
use test_support::RedisServer;
use test_support::log::Log;
use test_support::sending::{Calls, eventually};
use tokio::sync::Semaphore;

use crate::timed_tasks::{KIND, SECOND, World};

/// A pause of a runner, which is real time.
const SHORT: Duration = Duration::from_millis(5);
/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);

/// A handler that records each value and waits for a permit.
fn gated(calls: &Calls<i64>, gate: &Arc<Semaphore>) -> impl Fn(ClaimedTask<i64>) -> Gated + Send + Sync + 'static {
    let (calls, gate) = (calls.clone(), Arc::clone(gate));
    move |task| {
        calls.note(task.value);
        let gate = Arc::clone(&gate);
        Box::pin(async move {
            gate.acquire_owned().await?.forget();
            Ok(())
        })
    }
}

/// A handler that records each value.
fn noting(calls: &Calls<i64>) -> impl Fn(ClaimedTask<i64>) -> std::future::Ready<TaskResult> + Send + Sync + 'static {
    let calls = calls.clone();
    move |task| {
        calls.note(task.value);
        std::future::ready(Ok(()))
    }
}

type Gated = std::pin::Pin<Box<dyn Future<Output = TaskResult> + Send>>;

impl World {
    /// A runner that looks again and again, because the clock is turned.
    pub fn run<F>(&self, handler: impl Fn(ClaimedTask<i64>) -> F + Send + Sync + 'static) -> TaskRun
    where
        F: Future<Output = TaskResult> + Send + 'static,
    {
        // Only the test of the time limit has handlers that run into it.
        self.tasks.run(KIND, handler).poll(SHORT).time_limit(LONG)
    }

    /// Waits until so many tasks wait, are held, and are dead.
    pub async fn has(&self, waiting: u64, held: u64, dead: u64) {
        eventually(&format!("{waiting} wait, {held} are held, {dead} are dead"), async || {
            let counts = self.tasks.count(KIND).await.unwrap();
            (counts.waiting, counts.claimed, counts.dead) == (waiting, held, dead)
        })
        .await;
    }
}

fn tally(tally: TaskTally) -> [u64; 6] {
    let TaskTally { finished, retried, dead, aside, released, lost, .. } = tally;
    [finished, retried, dead, aside, released, lost]
}

async fn each_due_task_is_run_once_by_one_of_three_runners<R: RedisServer>() {
    let w = World::new::<R>().await;
    let calls = Calls::default();
    w.tasks.add_batch(KIND, (0..200).map(|n| (SECOND * (n % 2), n))).await.unwrap();
    let runners = (0..3).map(|_| w.run(noting(&calls)).concurrency(7).start().unwrap());
    let runners: Vec<_> = runners.collect();
    w.has(100, 0, 0).await;
    assert_eq!(calls.count(), 100, "the others are not due");
    w.own.clock.advance(SECOND);
    w.has(0, 0, 0).await;
    let mut finished = 0;
    for runner in runners {
        finished += runner.shutdown().await.finished;
    }
    let mut values = calls.all();
    values.sort_unstable();
    assert_eq!((values, finished), ((0..200).collect(), 200));
    w.own.close();
}

async fn failed_tasks_are_retried_and_the_last_try_makes_them_dead<R: RedisServer>() {
    let w = World::new::<R>().await;
    let tries = Calls::default();
    let seen = tries.clone();
    // By their values: an error, a panic, a delay of its own, and giving up.
    let handler = move |task: ClaimedTask<i64>| {
        seen.note((task.value, task.tries));
        async move {
            match task.value {
                0 => Err("busy".into()),
                1 => panic!("out of order"),
                2 => Err(TaskFailure::retry_in(Duration::MAX, "later")),
                _ => Err(TaskFailure::give_up("no such number")),
            }
        }
    };
    let run = w.run(handler).lease(TaskLease::of(60 * SECOND).max_tries(3)).max_retry_in(10 * SECOND);
    let runner = run.retry_delay(|tries| 4 * SECOND * u32::try_from(tries).unwrap()).start().unwrap();
    w.tasks.add_batch(KIND, (0..4).map(|n| (Duration::ZERO, n))).await.unwrap();
    w.has(3, 0, 1).await;
    // Both retries of 0 and 1 come after 4 s and 8 s, those of 2 after 10 s, the most.
    for (seconds, calls, dead) in [(4, 6, 1), (6, 7, 1), (2, 9, 3), (8, 10, 4)] {
        assert!(tries.count() < calls);
        w.own.clock.advance(SECOND * seconds);
        w.has(4 - dead, 0, dead).await;
        eventually("they are run", async || tries.count() == calls).await;
        w.has(4 - dead, 0, dead).await;
    }
    assert_eq!(tally(runner.shutdown().await), [0, 6, 4, 0, 0, 0]);
    let mut reasons: Vec<String> = w.tasks.dead(KIND, 10).await.unwrap().into_iter().map(|dead| dead.reason).collect();
    reasons.sort_unstable();
    let expected = [
        "all 3 tries used; in the last one: busy",
        "all 3 tries used; in the last one: later",
        "all 3 tries used; in the last one: the handler panicked: out of order",
        "the handler gave up: no such number",
    ];
    assert_eq!(reasons, expected);
    w.own.close();
}

/// A value that cannot be read without a panic.
struct Panics;

impl<'de> Deserialize<'de> for Panics {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u8::deserialize(deserializer)? {
            0 => panic!("a value"),
            _ => Ok(Self),
        }
    }
}

async fn a_value_that_does_not_fit_harms_no_other_task<R: RedisServer>() {
    let w = World::new::<R>().await;
    for value in [serde_json::json!("no number"), 0.into(), 1.into()] {
        w.tasks.add(KIND, Duration::ZERO, &value).await.unwrap();
    }
    let run = w.tasks.run(KIND, |_: ClaimedTask<Panics>| async { Ok(()) }).poll(SHORT);
    let runner = run.lease(TaskLease::of(60 * SECOND).max_tries(1)).start().unwrap();
    w.has(0, 0, 1).await;
    eventually("it is put aside", async || w.tasks.count(KIND).await.unwrap().aside == 1).await;
    assert_eq!(tally(runner.shutdown().await), [1, 0, 1, 1, 0, 0]);
    w.own.close();
}

async fn a_lease_is_extended_while_its_handler_runs<R: RedisServer>() {
    let w = World::new::<R>().await;
    let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(0)));
    w.tasks.add(KIND, Duration::ZERO, &1).await.unwrap();
    let lease = Duration::from_millis(30);
    let runner = w.run(gated(&calls, &gate)).lease(TaskLease::of(lease)).start().unwrap();
    for _ in 0..5 {
        // Each step is shorter than a lease; together they are longer.
        w.own.clock.advance(lease * 2 / 3);
        let end = w.own.clock.now() + lease;
        eventually("it is extended", async || w.tasks.next_due(KIND).await.unwrap() == Some(end)).await;
    }
    assert!(w.claim(10).await.is_empty());
    gate.add_permits(1);
    w.has(0, 0, 0).await;
    assert_eq!((calls.count(), tally(runner.shutdown().await)), (1, [1, 0, 0, 0, 0, 0]));
    w.own.close();
}

async fn a_handler_whose_lease_is_lost_is_cancelled<R: RedisServer>() {
    let w = World::new::<R>().await;
    let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(0)));
    w.tasks.add_as(KIND, "order 7", Duration::ZERO, &1).await.unwrap();
    let runner = w.run(gated(&calls, &gate)).lease(TaskLease::of(Duration::from_millis(30))).start().unwrap();
    eventually("it runs", async || calls.count() == 1).await;
    w.tasks.delete(KIND, &["order 7"]).await.unwrap();
    // The handler has the other reference to the gate; the closure keeps one.
    eventually("it is cancelled", async || Arc::strong_count(&gate) == 2).await;
    assert_eq!(tally(runner.shutdown().await), [0, 0, 0, 0, 0, 1]);
    w.own.close();
}

async fn an_outcome_after_the_loss_of_the_lease_is_not_written<R: RedisServer>() {
    let w = World::new::<R>().await;
    let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(0)));
    w.tasks.add_as(KIND, "order 7", Duration::ZERO, &1).await.unwrap();
    // The runner does not extend it within the test.
    let runner = w.run(gated(&calls, &gate)).lease(TaskLease::of(LONG)).start().unwrap();
    eventually("it runs", async || calls.count() == 1).await;
    w.tasks.replace(KIND, "order 7", SECOND, &2).await.unwrap();
    gate.add_permits(1);
    assert_eq!(tally(runner.shutdown().await), [0, 0, 0, 0, 0, 1]);
    w.own.clock.advance(SECOND);
    assert_eq!(w.claim_one().await.value, 2, "the new task is as it was added");
    w.own.close();
}

async fn a_runner_claims_no_more_than_can_run<R: RedisServer>() {
    let w = World::new::<R>().await;
    let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(0)));
    w.tasks.add_batch(KIND, (0..7).map(|n| (Duration::ZERO, n))).await.unwrap();
    let runner = w.run(gated(&calls, &gate)).concurrency(2).start().unwrap();
    for done in 0..7 {
        let running = (7 - done).min(2);
        w.has(7 - done - running, running, 0).await;
        eventually("they run", async || calls.count() as u64 == done + running).await;
        tokio::time::sleep(4 * SHORT).await;
        assert_eq!(calls.count() as u64, done + running);
        gate.add_permits(1);
    }
    w.has(0, 0, 0).await;
    assert_eq!(runner.shutdown().await.finished, 7);
    w.own.close();
}

async fn a_shutdown_waits_for_handlers_and_claims_nothing_more<R: RedisServer>() {
    let w = World::new::<R>().await;
    let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(0)));
    w.tasks.add(KIND, Duration::ZERO, &1).await.unwrap();
    let runner = w.run(gated(&calls, &gate)).concurrency(1).shutdown_grace(LONG).start().unwrap();
    eventually("it runs", async || calls.count() == 1).await;
    let mut ending = std::pin::pin!(runner.shutdown());
    assert!(futures_util::poll!(&mut ending).is_pending());
    w.tasks.add(KIND, Duration::ZERO, &2).await.unwrap();
    tokio::time::sleep(10 * SHORT).await;
    assert!(futures_util::poll!(&mut ending).is_pending(), "it waits for the handler");
    gate.add_permits(2);
    assert_eq!(tally(ending.await), [1, 0, 0, 0, 0, 0]);
    assert_eq!(calls.all(), [1]);
    w.has(1, 0, 0).await;
    w.own.close();
}

async fn a_task_that_a_shutdown_interrupts_has_used_no_try<R: RedisServer>() {
    let w = World::new::<R>().await;
    let (calls, held) = (Calls::default(), Arc::new(()));
    w.tasks.add(KIND, Duration::ZERO, &1).await.unwrap();
    // One try is used before.
    let failed = w.claim_one().await;
    assert!(w.settle(&failed, TaskOutcome::Retry(Duration::ZERO.into())).await);
    let (seen, holder) = (calls.clone(), Arc::clone(&held));
    // It can be cancelled only now and then.
    let handler = move |task: ClaimedTask<i64>| {
        seen.note(task.value);
        let held = Arc::clone(&holder);
        async move {
            let _held = held;
            loop {
                std::thread::sleep(10 * SHORT);
                tokio::task::yield_now().await;
            }
        }
    };
    let runner = w.run(handler).shutdown_grace(Duration::ZERO).start().unwrap();
    eventually("it runs", async || calls.count() == 1).await;
    assert_eq!(tally(runner.shutdown().await), [0, 0, 0, 0, 1, 0]);
    assert_eq!(Arc::strong_count(&held), 1, "its handler ended before");
    assert_eq!(w.claim_one().await.tries, 2, "due at once, and its second try");
    w.own.close();
}

async fn a_dropped_runner_ends_its_tasks_and_claims_no_more<R: RedisServer>() {
    let w = World::new::<R>().await;
    let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(0)));
    w.tasks.add(KIND, Duration::ZERO, &1).await.unwrap();
    let runner = w.run(gated(&calls, &gate)).concurrency(1).shutdown_grace(Duration::ZERO).start().unwrap();
    eventually("it runs", async || calls.count() == 1).await;
    drop(runner);
    w.tasks.add(KIND, Duration::ZERO, &2).await.unwrap();
    gate.add_permits(2);
    w.has(1, 0, 0).await;
    eventually("it has ended", async || Arc::strong_count(&gate) == 1).await;
    assert_eq!(calls.all(), [1]);
    w.own.close();
}

async fn a_runner_sleeps_until_the_next_due_time<R: RedisServer>() {
    let w = World::new::<R>().await;
    let looks = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&looks);
    let tasks = w.own.tasks_with_calls(move |call| counter.store(call + 1, Ordering::SeqCst)).await;
    let calls = Calls::default();
    // Another handle adds it, so the runner hears nothing of it.
    w.tasks.add(KIND, 1000 * SHORT, &1).await.unwrap();
    let began = Instant::now();
    let runner = tasks.run(KIND, noting(&calls)).poll(LONG).start().unwrap();
    eventually("it has looked", async || looks.load(Ordering::SeqCst) >= 2).await;
    tokio::time::sleep(20 * SHORT).await;
    // A look is a claim and the next due time. On a machine that stands still the real pause may be over, too.
    let (made, most) = (looks.load(Ordering::SeqCst), 2 + 2 * began.elapsed().as_secs() / 5);
    assert!((made as u64) <= most, "{made} calls in {:?}", began.elapsed());
    w.own.clock.advance(1000 * SHORT);
    eventually("it wakes when the task is due", async || calls.count() == 1).await;
    runner.shutdown().await;
    w.own.close();
}

async fn a_task_added_by_this_process_begins_on_time<R: RedisServer>() {
    let w = World::new::<R>().await;
    let calls = Calls::default();
    let seen = calls.clone();
    let handler = move |task: ClaimedTask<i64>| {
        seen.note(task.value);
        async move {
            match (task.value, task.tries) {
                (5, 1) => Err("again".into()),
                _ => Ok(()),
            }
        }
    };
    let tasks = w.tasks.with_target("https://shop.example").unwrap();
    let run = tasks.run(KIND, handler).poll(LONG).retry_delay(|_| Duration::ZERO);
    let runner = run.start().unwrap();
    let mut expected = 0;
    let mut more = async |n: usize| {
        expected += n;
        eventually(&format!("{expected} calls"), async || calls.count() == expected).await;
        // It sleeps, until it hears of the next one.
        tokio::time::sleep(4 * SHORT).await;
    };
    tokio::time::sleep(4 * SHORT).await;
    w.tasks.add("other", Duration::ZERO, &0).await.unwrap();
    more(0).await;
    w.tasks.add(KIND, Duration::ZERO, &1).await.unwrap();
    more(1).await;
    w.tasks.add_batch(KIND, [(Duration::ZERO, 2), (LONG, 3)]).await.unwrap();
    more(1).await;
    w.tasks.add_as(KIND, "own", LONG, &4).await.unwrap();
    w.tasks.reschedule(KIND, "own", DateTime::UNIX_EPOCH).await.unwrap();
    more(1).await;
    w.tasks.replace(KIND, "failing", Duration::ZERO, &5).await.unwrap();
    more(2).await;
    runner.shutdown().await;
    w.own.close();
}

async fn a_task_added_by_another_process_is_seen_at_the_next_poll<R: RedisServer>() {
    let w = World::new::<R>().await;
    let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(9)));
    let runner = w.run(gated(&calls, &gate)).start().unwrap();
    tokio::time::sleep(4 * SHORT).await;
    let other = w.own.tasks().await;
    other.add(KIND, LONG, &1).await.unwrap();
    tokio::time::sleep(4 * SHORT).await;
    other.add(KIND, Duration::ZERO, &2).await.unwrap();
    eventually("the earlier one is run", async || calls.all() == [2]).await;
    runner.shutdown().await;
    w.own.close();
}

async fn a_runner_rests_after_a_refusal_whatever_is_added<R: RedisServer>() {
    let (w, log) = (World::new::<R>().await, Log::start());
    let kind = &format!("refused {}", w.own.prefix);
    let made = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&made);
    let tasks = w.own.tasks_with_calls(move |call| counter.store(call + 1, Ordering::SeqCst)).await;
    let calls = Calls::default();
    // Each claim fails at once, and no add.
    let aside = &format!("{{{}:{kind}}}:aside", w.own.prefix);
    w.own.by_hand(&["SET", aside, "no hash"]);
    let began = Instant::now();
    let runner = tasks.run(kind, noting(&calls)).poll(SHORT).start().unwrap();
    eventually("it has looked", async || made.load(Ordering::SeqCst) >= 1).await;
    for value in 0..20 {
        tasks.add(kind, Duration::ZERO, &value).await.unwrap();
        tokio::time::sleep(SHORT).await;
    }
    let (looks, most) = (made.load(Ordering::SeqCst) - 20, 1 + began.elapsed().as_secs() / 10);
    assert!(looks as u64 <= most, "{looks} looks in {:?}", began.elapsed());
    w.own.by_hand(&["DEL", aside]);
    eventually("they are run", async || calls.count() == 20).await;
    let errors = log.errors_with(kind);
    assert!(matches!(&errors[..], [line] if line.contains("cannot claim timed tasks")), "{errors:?}");
    runner.shutdown().await;
    w.own.close();
}

test_support::on_each_redis!(
    each_due_task_is_run_once_by_one_of_three_runners,
    failed_tasks_are_retried_and_the_last_try_makes_them_dead,
    a_value_that_does_not_fit_harms_no_other_task,
    a_lease_is_extended_while_its_handler_runs,
    a_handler_whose_lease_is_lost_is_cancelled,
    an_outcome_after_the_loss_of_the_lease_is_not_written,
    a_runner_claims_no_more_than_can_run,
    a_shutdown_waits_for_handlers_and_claims_nothing_more,
    a_task_that_a_shutdown_interrupts_has_used_no_try,
    a_dropped_runner_ends_its_tasks_and_claims_no_more,
    a_runner_sleeps_until_the_next_due_time,
    a_task_added_by_this_process_begins_on_time,
    a_task_added_by_another_process_is_seen_at_the_next_poll,
    a_runner_rests_after_a_refusal_whatever_is_added,
);
