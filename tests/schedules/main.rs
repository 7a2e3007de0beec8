//! Seeded schedules: sweepers, handlers, producers, operators, crashes and a store that loses answers, on virtual time. After
//! each the promises G1 to G8 are checked from what producers committed, what handlers saw and what the store carried out.
//!
//! Everything random comes from the seed and everything runs in one thread, so a seed is a schedule:
//! `SCHEDULE=17 cargo test -p solid-notify-tests-schedules --test schedules` replays number 17 and prints it; `SCHEDULES=100000` runs more of
//! them. The store is that of the test kit; the conformance suite checks that the other stores behave the same. `simulation.rs`
//! compares simulations of one definition with sweepers on virtual time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod check;
mod handlers;
mod ledger;
mod link;
mod people;
mod plan;
mod simulation;
mod watch;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use ledger::Ledger;

/// The number of schedules of a test run. Each night has 20,000.
const SCHEDULES: u64 = 300;

/// Runs a schedule to its end.
fn run(seed: u64) -> Ledger {
    // The product's own random values (jitter, pauses) come from this thread, too.
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(world::run(plan::Plan::of(seed)))
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}

/// Hides panics of handlers, because they are part of the schedules.
fn quiet() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if panic.payload_as_str() != Some(handlers::PANIC) {
                usual(panic);
            }
        }));
    });
}

/// Runs a schedule, checks it, and returns the broken promises.
fn examine(seed: u64) -> Result<(), String> {
    let ledger = catch_unwind(AssertUnwindSafe(|| run(seed))).map_err(|_| "it panicked".to_owned())?;
    let wrong = check::all(&ledger);
    if number("SCHEDULE").is_some() {
        eprintln!("{}\n", ledger.story());
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n  ")) }
}

#[test]
fn every_schedule_keeps_the_promises() {
    quiet();
    let (first, count) = match number("SCHEDULE") {
        Some(seed) => (seed, 1),
        None => (0, number("SCHEDULES").unwrap_or(SCHEDULES)),
    };
    let next = AtomicU64::new(first);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let broken: Vec<String> = std::thread::scope(|scope| {
        let work = || {
            let mut broken = Vec::new();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= first + count || broken.len() >= 5 {
                    return broken;
                }
                if let Err(wrong) = examine(seed) {
                    broken.push(format!("schedule {seed} (replay it with SCHEDULE={seed}):\n  {wrong}"));
                }
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

#[test]
fn a_seed_replays_to_the_same_story() {
    quiet();
    for seed in 0..20 {
        let (one, two) = (run(seed), run(seed));
        let mut lines = one.story().lines().zip(two.story().lines());
        assert_eq!(lines.find(|(one, two)| one != two), None, "schedule {seed}");
        assert_eq!(one.story().len(), two.story().len(), "schedule {seed}");
    }
}

#[test]
fn schedules_meet_every_kind_of_fault() {
    quiet();
    let ledgers: Vec<Ledger> = (0..60).map(run).collect();
    let sum = |what: fn(&Ledger) -> usize| ledgers.iter().map(what).sum::<usize>();
    for (what, count) in [
        ("notices", sum(|ledger| ledger.committed.len())),
        ("rolled back", sum(|ledger| ledger.rolled_back.len())),
        ("kills", sum(|ledger| ledger.kills)),
        ("crashes", sum(|ledger| ledger.ended.values().filter(|record| record.crashes > 0).count())),
        ("lost answers", sum(|ledger| ledger.lost_answers)),
        ("dead letters", sum(|ledger| ledger.dead_letters().count())),
        ("told", sum(|ledger| ledger.told.len())),
        ("refused settles", sum(|ledger| ledger.outdone)),
        ("acked", sum(|ledger| ledger.answers.len())),
        ("ticks", sum(|ledger| ledger.ticks.len())),
        ("paced", sum(|ledger| ledger.claims_of(plan::PACED).count())),
        ("open circuits", sum(|ledger| ledger.opened)),
        ("windowed", sum(|ledger| ledger.claims_of(plan::WINDOWED).count())),
        ("edited", sum(|ledger| usize::from(ledger.edited.is_some()))),
    ] {
        assert!(count >= 5, "{what}: {count}");
    }
}
