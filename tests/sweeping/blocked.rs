//! Handlers that block their threads, which no time-out can end. These tests run in real time, because a blocked thread stops the clock
//! that a test could turn.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use solid_notify::sweeper::Batch;
use solid_notify::testkit::MemoryOutbox;
use solid_notify::{AnyOutbox, Notice, NotifyDef, OutboxExt, Status, Sweeper, SweeperBuilder, add_notice};
use test_support::log::Log;
use test_support::sending::{Calls, PATIENCE, eventually};

/// Blocks the threads that wait, until it is dropped.
struct Block(#[allow(dead_code)] Sender<()>);

/// Returns a block, and what waits for its end.
fn block() -> (Block, impl Fn() + Clone + Send + Sync) {
    let (end, ended) = channel::<()>();
    let ended: Arc<Mutex<Receiver<()>>> = Arc::new(Mutex::new(ended));
    (Block(end), move || {
        let _ = ended.lock().unwrap().recv();
    })
}

async fn defined(name: &str) -> MemoryOutbox {
    let outbox = MemoryOutbox::new();
    let row = NotifyDef::new(name).timeout("1s").retry_interval("1h");
    outbox.define_if_missing(row).await.unwrap();
    outbox
}

async fn add(outbox: &MemoryOutbox, name: &str) -> i64 {
    let mut tx = outbox.begin().await.unwrap();
    let id = add_notice(&mut tx, name, 1).await.unwrap().id();
    tx.commit().await.unwrap();
    id
}

async fn status(outbox: &AnyOutbox, id: i64) -> Status {
    outbox.find(id).await.unwrap().unwrap().status
}

/// Waits until a sweep that began now has ended, or is known to hang: a task that yields is woken by its thread, which may be blocked.
async fn sweeps_again(sweeper: &Sweeper) {
    for _ in 0..2 {
        let since = Instant::now();
        let hangs = |why: &String| why.contains("the sweep hangs");
        let has_swept = async || {
            let health = sweeper.health();
            health.last_sweep.unwrap() < since.elapsed() || health.not_sending.as_ref().is_some_and(hangs)
        };
        eventually("it sweeps", has_swept).await;
    }
}

/// Sends two notices with a handler that blocks its thread. The second one must wait for the end of the first call.
async fn blocked_call_is_the_last(
    name: &str,
    with: impl FnOnce(SweeperBuilder, Calls<()>) -> SweeperBuilder,
    block: Block,
) {
    let outbox = defined(name).await;
    let calls = Calls::default();
    let builder = outbox.sweeper().poll_interval(Duration::from_millis(50)).first_send(false);
    let builder = builder.maintenance_interval(Duration::from_millis(50));
    let sweeper = with(builder, calls.clone()).start().await.unwrap();
    add(&outbox, name).await;
    let alice = outbox.operator("alice");
    let problems = async || alice.nodes().await.unwrap().into_iter().flat_map(|node| node.problems).collect::<Vec<_>>();
    let text = format!("an attempt of {name} (notice");
    eventually("it is reported", async || problems().await.iter().any(|problem| problem.starts_with(&text))).await;
    let next = add(&outbox, name).await;
    outbox.wake();
    sweeps_again(&sweeper).await;
    assert_eq!((status(&outbox, next).await, calls.count()), (Status::NotSent, 1));
    drop(block);
    eventually("the next one is sent", async || status(&outbox, next).await == Status::Succeeded).await;
    eventually("all is well", async || problems().await.is_empty()).await;
    sweeper.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn handler_that_blocks_its_thread_gets_no_other_notice() {
    let (block, wait) = block();
    let handler = |builder: SweeperBuilder, calls: Calls<()>| {
        builder.handler("blocks", move |_: Notice<i64>| {
            calls.note(());
            let wait = wait.clone();
            async move {
                wait();
                Ok(())
            }
        })
    };
    blocked_call_is_the_last("blocks", handler, block).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn batch_handler_that_blocks_its_thread_gets_no_other_notice() {
    let (block, wait) = block();
    let handler = |builder: SweeperBuilder, calls: Calls<()>| {
        builder.batch_handler("blocks_all", Batch::up_to(10), move |notices: Vec<Notice<i64>>| {
            calls.note(());
            let wait = wait.clone();
            async move {
                wait();
                Ok(notices.iter().map(|_| Ok(())).collect())
            }
        })
    };
    blocked_call_is_the_last("blocks_all", handler, block).await;
}

#[test]
fn runtime_whose_threads_are_all_blocked_is_reported() {
    let log = Log::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (block, wait) = block();
    let sweeper = runtime.block_on(async {
        let outbox = defined("blocks_the_only_one").await;
        add(&outbox, "blocks_the_only_one").await;
        let handler = move |_: Notice<i64>| {
            wait();
            async { Ok(()) }
        };
        outbox.sweeper().handler("blocks_the_only_one", handler).start().await.unwrap()
    });
    // The timers of the runtime stand still, too.
    let began = Instant::now();
    let reported = || log.errors_with("calls under way: blocks_the_only_one (notice").len();
    while reported() == 0 {
        assert!(began.elapsed() < PATIENCE, "it is not reported");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(block);
    let goes_on = || log.infos_with("the loops of the sweeper run again").len();
    while goes_on() == 0 {
        assert!(began.elapsed() < PATIENCE, "its end is not reported");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(reported(), 1);
    assert_eq!(runtime.block_on(sweeper.shutdown()).succeeded, 1);
}

#[test]
fn timers_go_on_beside_a_handler_that_blocks_its_thread() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (block, wait) = block();
    let (began, ticks) = (Calls::default(), Calls::default());
    let (noted, ticked) = (began.clone(), ticks.clone());
    runtime.spawn(async move {
        let mut interval = tokio::time::interval(Duration::from_millis(10));
        loop {
            interval.tick().await;
            ticked.note(());
        }
    });
    let sweeper = runtime.block_on(async {
        let outbox = defined("blocks_one_of_two").await;
        add(&outbox, "blocks_one_of_two").await;
        let handler = move |_: Notice<i64>| {
            noted.note(());
            wait();
            async { Ok(()) }
        };
        let builder = outbox.sweeper().handler("blocks_one_of_two", handler);
        builder.poll_interval(Duration::from_millis(50)).start().await.unwrap()
    });
    let since = Instant::now();
    while began.count() == 0 {
        assert!(since.elapsed() < PATIENCE, "it is not called");
        std::thread::sleep(Duration::from_millis(1));
    }
    let before = ticks.count();
    // Less than a beat, which wakes the runtime in any case.
    std::thread::sleep(Duration::from_secs(3));
    let count = ticks.count() - before;
    assert!(count > 10, "{count} ticks");
    drop(block);
    assert_eq!(runtime.block_on(sweeper.shutdown()).succeeded, 1);
}
