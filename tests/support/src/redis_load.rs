//! A load on Redis while it is disturbed: notices of several definitions and timed tasks of several kinds, so that every node of a
//! cluster has some. It records successful adds and deliveries; the tests disturb Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use solid_notify_core::{NotifyDef, Status, add_notice};
use solid_notify_redis::{Redis, RedisOutbox};
use solid_notify_sweeper::{Notice, OutboxExt, Sweeper};
use solid_notify_timed::{ClaimedTask, TaskLease, TaskOutcome, TimedTasks};
use tokio::task::JoinHandle;

use crate::sending::Calls;

/// The deadline of a wait, which only ends a test that hangs. What a lost reply interrupted goes on when its lease of 31 s ends.
const PATIENCE: Duration = Duration::from_secs(120);
/// The time between two things added by one producer, and between two looks of a consumer.
const PACE: Duration = Duration::from_millis(10);
/// Definitions, and as many kinds. Each has a producer of its own.
const SOURCES: usize = 6;
/// So many more of each show that all loops work.
const SOME: usize = 10;

/// A notice or a task whose add succeeded.
#[derive(Debug, Clone, Copy)]
pub struct Answered {
    /// The number that it carries; each has its own.
    pub number: i64,
    /// When its add was begun.
    pub begun: Instant,
    source: usize,
    /// The id, if it is a notice.
    notice: Option<i64>,
}

/// The state that all its tasks share.
#[derive(Clone)]
struct Shared {
    next: Arc<AtomicI64>,
    answered: Calls<Answered>,
    arrived: Calls<i64>,
    errors: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

/// Producers, a sweeper and a consumer of timed tasks.
pub struct Load {
    outbox: RedisOutbox,
    tasks: TimedTasks,
    shared: Shared,
    sweeper: Sweeper,
    producers: Vec<JoinHandle<()>>,
    consumers: Vec<JoinHandle<()>>,
}

fn definition(source: usize) -> String {
    format!("job {source}")
}

fn kind(source: usize) -> String {
    format!("kind {source}")
}

impl Load {
    /// Starts the load over this connection, which all its tasks share.
    pub async fn start(redis: Redis) -> Self {
        let (outbox, tasks) = (RedisOutbox::new(redis.clone()), TimedTasks::new(redis));
        define(&outbox).await;
        let shared = Shared {
            next: Arc::default(),
            answered: Calls::default(),
            arrived: Calls::default(),
            errors: Arc::default(),
            stop: Arc::default(),
        };
        // A sweeper waits after an outage, since in one all leases end though their holders live. Here is no other.
        let mut sweeper = outbox.sweeper().outage_grace(Duration::from_millis(300));
        for source in 0..SOURCES {
            let arrived = shared.arrived.clone();
            sweeper = sweeper.handler(definition(source), move |notice: Notice<i64>| {
                arrived.note(*notice.param());
                async { solid_notify_sweeper::HandlerResult::Ok(()) }
            });
        }
        let sweeper = sweeper.start().await.unwrap();
        let mut producers = Vec::new();
        for source in 0..SOURCES {
            producers.push(tokio::spawn(shared.clone().produce_notices(outbox.clone(), source)));
            producers.push(tokio::spawn(shared.clone().produce_tasks(tasks.clone(), source)));
        }
        let consumers = vec![tokio::spawn(shared.clone().consume(tasks.clone()))];
        Self { outbox, tasks, shared, sweeper, producers, consumers }
    }

    /// Its timed tasks.
    pub fn tasks(&self) -> &TimedTasks {
        &self.tasks
    }

    /// Returns the successful adds so far.
    pub fn answered(&self) -> Vec<Answered> {
        self.shared.answered.all()
    }

    /// How many calls of the producers and of the consumer have failed so far.
    pub fn errors(&self) -> usize {
        self.shared.errors.load(Ordering::Relaxed)
    }

    /// Waits until every producer has added some more, and these have arrived: all of it goes by itself.
    pub async fn goes_on(&self, what: &str) {
        let since = Instant::now();
        within(what, async || {
            let arrived = self.shared.arrived.all();
            let new = self.answered().into_iter().filter(|added| added.begun >= since);
            let new: Vec<Answered> = new.filter(|added| arrived.contains(&added.number)).collect();
            (0..2 * SOURCES).all(|source| new.iter().filter(|added| added.source == source).count() >= SOME)
        })
        .await;
    }

    /// Ends the producers and returns their successful adds.
    pub async fn stop_adding(&mut self) -> Vec<Answered> {
        self.shared.stop.store(true, Ordering::Relaxed);
        for producer in self.producers.drain(..) {
            producer.await.unwrap();
        }
        self.answered()
    }

    /// Waits until all of these have arrived, and of their notices the outcomes are stored.
    pub async fn delivers(&self, added: &[Answered]) {
        let missing = || {
            let arrived = self.shared.arrived.all();
            added.iter().filter(|added| !arrived.contains(&added.number)).collect::<Vec<_>>()
        };
        let began = Instant::now();
        while !missing().is_empty() {
            assert!(began.elapsed() < PATIENCE, "of {} have not arrived: {:?}", added.len(), missing());
            tokio::time::sleep(PACE).await;
        }
        for id in added.iter().filter_map(|added| added.notice) {
            within(
                &format!("notice {id} is done"),
                async || matches!(self.outbox.find(id).await, Ok(Some(record)) if record.status == Status::Succeeded),
            )
            .await;
        }
    }

    /// Waits until nothing is left over: no task waits or is held. Then ends everything.
    pub async fn ends(mut self) {
        self.stop_adding().await;
        for source in 0..SOURCES {
            within("no task is left", async || {
                self.tasks.count(&kind(source)).await.is_ok_and(|counts| (counts.waiting, counts.claimed) == (0, 0))
            })
            .await;
        }
        self.consumers.iter().for_each(JoinHandle::abort);
        self.sweeper.shutdown().await;
    }
}

/// Defines everything that the load needs.
pub async fn define(outbox: &RedisOutbox) {
    for source in 0..SOURCES {
        // A short lease, so that notices of a claim whose reply was lost are due again soon.
        let def = NotifyDef::new(definition(source)).timeout("1s").retry_interval("100ms").max_retry_times(20);
        outbox.define_if_missing(def).await.unwrap();
    }
}

async fn within(what: &str, condition: impl AsyncFn() -> bool) {
    let began = Instant::now();
    while !condition().await {
        assert!(began.elapsed() < PATIENCE, "{what}: it hangs, after {PATIENCE:?}");
        tokio::time::sleep(PACE).await;
    }
}

impl Shared {
    async fn produce_notices(self, outbox: RedisOutbox, source: usize) {
        while !self.stop.load(Ordering::Relaxed) {
            let (number, begun) = (self.next.fetch_add(1, Ordering::Relaxed), Instant::now());
            match add_notice(&mut outbox.clone(), &definition(source), number).await {
                Ok(added) => {
                    let notice = Some(added.id());
                    self.answered.note(Answered { number, begun, source, notice });
                }
                Err(error) => self.failed(&error),
            }
            tokio::time::sleep(PACE).await;
        }
    }

    async fn produce_tasks(self, tasks: TimedTasks, source: usize) {
        while !self.stop.load(Ordering::Relaxed) {
            let (number, begun) = (self.next.fetch_add(1, Ordering::Relaxed), Instant::now());
            match tasks.add(&kind(source), Duration::ZERO, &number).await {
                Ok(_) => {
                    self.answered.note(Answered { number, begun, source: SOURCES + source, notice: None });
                }
                Err(error) => self.failed(&error),
            }
            tokio::time::sleep(PACE).await;
        }
    }

    async fn consume(self, tasks: TimedTasks) {
        loop {
            for source in 0..SOURCES {
                if let Err(error) = self.work_off(&tasks, &kind(source)).await {
                    self.failed(&error);
                }
            }
            tokio::time::sleep(PACE).await;
        }
    }

    async fn work_off(&self, tasks: &TimedTasks, kind: &str) -> solid_notify_timed::Result<()> {
        let due = tasks.claim::<i64>(kind, 100, &TaskLease::of(Duration::from_secs(1))).await?;
        let done = |task: &ClaimedTask<i64>| {
            self.arrived.note(task.value);
            task.outcome(TaskOutcome::Finish)
        };
        let outcomes: Vec<_> = due.tasks.iter().map(done).collect();
        if !outcomes.is_empty() {
            tasks.settle(kind, &outcomes).await?;
        }
        Ok(())
    }

    fn failed(&self, error: &dyn std::fmt::Display) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(%error, "a call of the load failed");
    }
}
