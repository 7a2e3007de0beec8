//! The world of a schedule: a store, nodes that come and go, producers, receivers, an operator, and the time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use chrono::{DateTime, Utc};
use fastrand::Rng;
use solid_notify::{HandClock, NoticeRecord, Sweeper};
use solid_notify_core::store::{Look, Stores};
use solid_notify_testkit::MemoryOutbox;

use crate::handlers::builder;
use crate::ledger::{Ledger, Time};
use crate::link::Link;
use crate::plan::{BROKEN, EDITED, Plan, START, SWITCHED, UNHANDLED, definitions};
use crate::watch::{Circuit, IN_FORCE};

/// How long the database works after an outage. It is longer than the 10 s in which nodes wait for others to come back.
const CLEAR: Duration = Duration::from_secs(20);
/// By then everything must have ended.
const LIMIT: Duration = Duration::from_secs(6 * 3600);
/// The time for the last alerts: three cool-downs.
const AFTERMATH: Duration = Duration::from_secs(45);

pub struct World {
    pub seed: u64,
    clock: HandClock,
    start: DateTime<Utc>,
    /// The store itself, without a link.
    pub outbox: MemoryOutbox,
    ledger: Mutex<Ledger>,
    rng: Mutex<Rng>,
    down: AtomicBool,
    over: AtomicBool,
    clear_until: Mutex<Time>,
    pub switched_off: Mutex<Option<Time>>,
    pub paused: Mutex<Option<Time>>,
    pub circuit: Mutex<Circuit>,
}

/// A process that sends.
pub struct Node {
    pub number: usize,
    pub dead: AtomicBool,
    pub stopped: AtomicBool,
}

impl Node {
    /// Returns while the process lives, else never.
    pub async fn lives(&self) {
        if self.dead.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }
}

struct Running {
    node: Arc<Node>,
    outbox: MemoryOutbox,
    sweeper: Sweeper,
}

enum Happening {
    Transaction,
    Kill,
    Deployment,
    Outage,
    Switch,
    Cancel,
    Pause,
    Edit,
}

/// Runs a schedule to its end.
pub async fn run(plan: Plan) -> Ledger {
    let start = DateTime::UNIX_EPOCH + START;
    let clock = HandClock::running(start);
    let mut rng = Rng::with_seed(plan.seed ^ 0x5EED);
    let mut happenings = happenings(&plan, &mut rng);
    let (seed, nodes) = (plan.seed, plan.nodes);
    let world = Arc::new(World {
        seed,
        clock: clock.clone(),
        start,
        outbox: MemoryOutbox::builder().clock(clock).build(),
        ledger: Mutex::new(Ledger::new(plan)),
        rng: Mutex::new(rng.fork()),
        down: AtomicBool::new(false),
        over: AtomicBool::new(false),
        clear_until: Mutex::default(),
        switched_off: Mutex::default(),
        paused: Mutex::default(),
        circuit: Mutex::default(),
    });
    for def in definitions() {
        world.outbox.define_if_missing(def).await.unwrap();
    }
    world.edit(BROKEN, |def| def.retry_interval("[5s,5x]")).await;
    let mut running = Vec::new();
    for number in 0..nodes {
        running.push(world.start_node(number).await);
    }
    let mut count = nodes;
    happenings.sort_by_key(|(at, _)| *at);
    for (at, happening) in happenings {
        tokio::time::sleep(at.saturating_sub(world.now())).await;
        match happening {
            Happening::Transaction => {
                // Some producers have no sweeper in their process.
                let place = rng.choice(&running).filter(|_| rng.u8(0..10) > 2);
                let outbox = place.map_or(&world.outbox, |place| &place.outbox).clone();
                world.transaction(&outbox, &mut rng).await;
            }
            Happening::Kill | Happening::Deployment => {
                let gone = running.swap_remove(rng.usize(..running.len()));
                match happening {
                    Happening::Kill => world.kill(gone),
                    _ => world.deploy(gone),
                }
                tokio::time::sleep(Duration::from_millis(rng.u64(0..5000))).await;
                running.push(world.start_node(count).await);
                count += 1;
            }
            Happening::Outage => {
                let world = Arc::clone(&world);
                let lasts = Duration::from_millis(rng.u64(500..150_000));
                world.tell(format_args!("the database is down for {lasts:?}"));
                world.down.store(true, Ordering::Relaxed);
                tokio::spawn(async move {
                    tokio::time::sleep(lasts).await;
                    *world.clear_until.lock().unwrap() = world.now() + CLEAR;
                    world.down.store(false, Ordering::Relaxed);
                    world.tell("the database is back");
                });
            }
            Happening::Switch => {
                let off = world.switched_off.lock().unwrap().is_none();
                world.edit(SWITCHED, |def| def.enabled(!off)).await;
                *world.switched_off.lock().unwrap() = off.then(|| world.now());
            }
            Happening::Cancel => world.cancel(&mut rng).await,
            Happening::Pause => {
                let world = Arc::clone(&world);
                let lasts = Duration::from_millis(rng.u64(3_000..40_000));
                tokio::spawn(async move { world.pause(lasts).await });
            }
            Happening::Edit => {
                world.edit(EDITED, |def| def.max_retry_times(0)).await;
                let in_force = world.now() + IN_FORCE;
                world.ledger().edited = Some(in_force);
            }
        }
    }
    world.end(running, count).await
}

fn happenings(plan: &Plan, rng: &mut Rng) -> Vec<(Time, Happening)> {
    let mut all = Vec::new();
    let mut draw = |count: usize, happening: fn() -> Happening| {
        for _ in 0..count {
            all.push((Duration::from_millis(rng.u64(0..plan.lasts.as_millis() as u64)), happening()));
        }
    };
    draw(plan.transactions, || Happening::Transaction);
    draw(plan.kills, || Happening::Kill);
    draw(plan.deployments, || Happening::Deployment);
    draw(plan.outages, || Happening::Outage);
    draw(plan.switches, || Happening::Switch);
    draw(plan.cancels, || Happening::Cancel);
    draw(plan.pauses, || Happening::Pause);
    draw(usize::from(plan.edited), || Happening::Edit);
    all
}

impl World {
    pub fn now(&self) -> Time {
        (self.clock.now() - self.start).to_std().unwrap()
    }

    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap()
    }

    pub fn tell(&self, what: impl std::fmt::Display) {
        self.ledger().tell(self.now(), what);
    }

    pub fn draw<T>(&self, draw: impl FnOnce(&mut Rng, &Plan) -> T) -> T {
        draw(&mut self.rng.lock().unwrap(), &self.ledger().plan)
    }

    pub fn is_down(&self) -> bool {
        self.down.load(Ordering::Relaxed)
    }

    pub fn is_clear(&self) -> bool {
        self.is_over() || self.now() < *self.clear_until.lock().unwrap()
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub fn stores(&self) -> &Stores {
        self.outbox.engine().stores()
    }

    async fn start_node(self: &Arc<Self>, number: usize) -> Running {
        let node = Arc::new(Node { number, dead: AtomicBool::new(false), stopped: AtomicBool::new(false) });
        let (world, of) = (Arc::clone(self), Arc::clone(&node));
        let outbox = self.outbox.beside(|store| {
            let link = Arc::new(Link { store: store.clone(), world, node: of });
            Stores { send: link.clone(), definitions: link.clone(), alerts: link, ..store }
        });
        loop {
            match builder(&outbox, self, &node).start().await {
                Ok(sweeper) => {
                    self.tell(format_args!("node {number} starts"));
                    return Running { node, outbox, sweeper };
                }
                // As a process that is started again.
                Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
            }
        }
    }

    fn kill(&self, gone: Running) {
        self.tell(format_args!("node {} is killed", gone.node.number));
        gone.node.dead.store(true, Ordering::Relaxed);
        let mut ledger = self.ledger();
        ledger.gone.insert(gone.node.number);
        ledger.killed.insert(gone.node.number);
        ledger.kills += 1;
    }

    fn deploy(self: &Arc<Self>, gone: Running) {
        let world = Arc::clone(self);
        tokio::spawn(async move {
            world.tell(format_args!("node {} is shut down", gone.node.number));
            let began = world.now();
            world.ledger().shut_down.insert(gone.node.number, began);
            let worker = gone.sweeper.node_id().to_owned();
            gone.sweeper.shutdown().await;
            gone.node.stopped.store(true, Ordering::Relaxed);
            world.tell(format_args!("node {} has ended", gone.node.number));
            if !world.stores().send.look(&Look::ClaimedBy { worker }, 1).await.unwrap().is_empty() {
                // A claim of its last moment whose reply was lost, or outcomes that the database refused for 10 s.
                world.ledger().gone.insert(gone.node.number);
            }
        });
    }

    /// Ends all faults. From now on every notice must end.
    async fn end(self: Arc<Self>, mut running: Vec<Running>, count: usize) -> Ledger {
        while self.is_down() || self.paused.lock().unwrap().is_some() || self.now() < *self.clear_until.lock().unwrap()
        {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.over.store(true, Ordering::Relaxed);
        self.tell("all is well");
        self.edit(BROKEN, |def| def.retry_interval("[5s,10s,30s]")).await;
        self.edit(SWITCHED, |def| def.enabled(true)).await;
        *self.switched_off.lock().unwrap() = None;
        running.push(self.start_node(count).await);
        while running.len() > 2 {
            self.deploy(running.swap_remove(0));
        }
        let ids: Vec<i64> = self.ledger().committed.keys().copied().collect();
        let limit = self.now() + LIMIT;
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let records = self.stand(ids.iter().copied()).await;
            let is_left =
                |record: &NoticeRecord| !record.status.is_final() && self.ledger().definition(record.id) != UNHANDLED;
            if self.now() > limit || !records.iter().flatten().any(is_left) {
                break;
            }
        }
        tokio::time::sleep(AFTERMATH).await;
        let lasted = self.now();
        self.ledger().lasted = lasted;
        for running in running {
            running.sweeper.shutdown().await;
        }
        let records = self.stand(ids.iter().copied()).await;
        let told: Vec<i64> = self.ledger().told.keys().copied().collect();
        let alerts = self.stand(told.into_iter()).await;
        let rolled_back: Vec<i64> = self.ledger().rolled_back.iter().copied().collect();
        for record in self.stand(rolled_back.into_iter()).await.into_iter().flatten() {
            self.ledger().broken.push(format!("G1: notice {} exists though it was rolled back", record.id));
        }
        let mut ledger = self.ledger();
        ledger.ended = records.into_iter().flatten().map(|record| (record.id, record)).collect();
        ledger.alerts = alerts.into_iter().flatten().map(|record| (record.id, record)).collect();
        std::mem::replace(&mut *ledger, Ledger::new(Plan::of(self.seed)))
    }
}
