//! A thread that sees whether the loop of the beats runs. Handlers that block the threads of the runtime can stop it, as all loops, and
//! nothing that the runtime runs could report that. Where other threads are free, it keeps them going.

use std::collections::BTreeSet;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use solid_notify_core::metrics::SENDING;
use solid_notify_core::store::BEAT;
use tokio::runtime::Handle;

use super::health::ROUND;
use crate::handlers::under_way::Call;
use crate::supervise::report;
use crate::worker::Worker;

/// Without a sign of life for so long the loop hangs: the pause between two beats, and one call.
const HANGS: Duration = Duration::from_secs(BEAT.as_secs() + ROUND.as_secs());
/// After how many looks in a row that see this it is an error, and how often it is logged again. One look sees it, too, after the process
/// itself was stopped for a while.
const LOOKS: u32 = 2;
const AGAIN: u32 = 12;
/// How many calls the log names.
const NAMED: usize = 10;
/// How often the runtime is woken while a call goes on for as long.
const WAKE: Duration = Duration::from_millis(100);

/// The thread runs until this is dropped.
pub(crate) struct Watch(#[expect(dead_code, reason = "its drop ends the thread")] mpsc::Sender<()>);

impl Watch {
    /// Watches the loop of the beats, on the runtime of the caller.
    pub(crate) fn start(worker: &Arc<Worker>) -> Self {
        let (end, ended) = mpsc::channel();
        let (worker, runtime) = (Arc::downgrade(worker), Handle::current());
        let started = std::thread::Builder::new().name("notify-watch".to_owned()).spawn(move || {
            // The clock is that of the runtime, and what belongs to the runtime may be dropped here.
            let _context = runtime.enter();
            let (mut looks, mut next_look) = (0, Instant::now() + BEAT);
            while ended.recv_timeout(WAKE) == Err(RecvTimeoutError::Timeout) {
                let is_time = Instant::now() >= next_look;
                if is_time || has_long_call(&worker) {
                    // A thread that blocks may be the one that polled the sockets and timers of the runtime, and tokio lets no other thread do
                    // that until a task wakes one.
                    runtime.spawn(async {});
                }
                if is_time {
                    next_look = Instant::now() + BEAT;
                    report(|| looks = look(&worker, looks));
                }
            }
        });
        if let Err(error) = started {
            tracing::warn!(%error, "no thread watches the runtime: handlers that block it are not reported");
        }
        Self(end)
    }
}

fn has_long_call(worker: &Weak<Worker>) -> bool {
    worker.upgrade().is_some_and(|worker| worker.calls().iter().any(|call| call.began.elapsed() >= WAKE))
}

/// Logs that the loop hangs, and that it runs again. `before`: how many looks in a row have seen that it hangs. Returns that number with
/// this look.
fn look(worker: &Weak<Worker>, before: u32) -> u32 {
    let Some(worker) = worker.upgrade().filter(|worker| !worker.signals.is_stopped()) else { return 0 };
    let silent = worker.health.seen().beating.elapsed();
    if silent <= HANGS {
        if before >= LOOKS {
            tracing::info!("the loops of the sweeper run again");
        }
        return 0;
    }
    let looks = before + 1;
    if looks % AGAIN == LOOKS {
        metrics::gauge!(SENDING).set(0.0);
        let (seconds, calls) = (silent.as_secs(), longest(&worker));
        tracing::error!(
            "the loops of the sweeper have not run for {seconds} s, because handlers block the threads of its runtime; calls under way: \
             {calls}"
        );
    }
    looks
}

/// Names the longest call of each definition, the longest first.
fn longest(worker: &Worker) -> String {
    let mut calls = worker.calls();
    calls.sort_unstable_by_key(|call| call.began);
    let mut named = BTreeSet::new();
    let calls = calls.iter().filter(|call| named.insert(call.def_id)).take(NAMED);
    let text = |call: &Call| {
        let (definition, seconds) = (worker.name_of(call.def_id), call.began.elapsed().as_secs());
        format!("{definition} (notice {}, for {seconds} s)", call.id)
    };
    calls.map(text).collect::<Vec<_>>().join(", ")
}
