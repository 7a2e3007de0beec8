//! The order of a run: calm, each fault by itself, all at once, the rest sent, everything checked. It prints a line for
//! each phase.

use std::io::Write;
use std::time::{Duration, Instant};

use futures_util::future::{FutureExt, LocalBoxFuture, join_all};
use test_support::journal::Event;

use crate::faults::bench::Bench;
use crate::faults::check::check;
use crate::faults::injected::{Fault, Strikes};
use crate::faults::run::{Run, RunCounts};

/// How long each fault strikes by itself, and in any case until each of its effects has been seen.
const ALONE: Duration = Duration::from_secs(3);
/// How long all of them do.
const TOGETHER: Duration = Duration::from_secs(12);
/// The deadline for all of it, beyond the wanted time of a soak. It only ends a run that hangs.
const LIMIT: Duration = Duration::from_secs(900);

pub async fn all<B: Bench>() {
    let soak = std::env::var("NOTIFY_SOAK")
        .map(|text| humantime::parse_duration(&text).expect("NOTIFY_SOAK: a time such as 30m"));
    let soak = soak.unwrap_or_default();
    let run = Run::<B>::start().await;
    let disturbed = async {
        tokio::select! {
            () = disturb(&run, soak) => {}
            () = run.bury() => {}
            () = run.watch() => {}
            () = run.pace() => {}
        }
    };
    if tokio::time::timeout(LIMIT + soak, disturbed).await.is_err() {
        panic!("{}: not done within {:?}\n{}", B::NAME, LIMIT + soak, run.missing().await);
    }
    run.nodes.lock().await.stop().await;
    let complaints = check(&run.evidence().await);
    let mut broken = String::new();
    for (rule, wrong) in complaints.iter().filter(|(_, wrong)| !wrong.is_empty()) {
        let first: Vec<&str> = wrong.iter().take(5).map(String::as_str).collect();
        broken += &format!("{rule}: {} times, first\n  {}\n", wrong.len(), first.join("\n  "));
    }
    let logs = run.nodes.lock().await.logs();
    assert!(broken.is_empty(), "{}:\n{broken}\n{logs}", B::NAME);
}

async fn disturb<B: Bench>(run: &Run<B>, soak: Duration) {
    let began = Instant::now();
    phase(
        run,
        "calm",
        async {
            run.flows().await;
            Strikes::new()
        }
        .boxed_local(),
    )
    .await;
    let (possible, left_out): (Vec<Fault>, Vec<Fault>) = B::FAULTS.iter().partition(|fault| fault.is_possible());
    for fault in left_out {
        tell(&format!("{:8} {}: left out, not possible on this system\n", B::NAME, fault.name()));
    }
    for (round, nth) in (0..).flat_map(|round| (0..=possible.len()).map(move |nth| (round, nth))) {
        match possible.get(nth) {
            Some(fault) => {
                phase(run, fault.name(), fault.strike(run, Instant::now() + ALONE, true).boxed_local()).await
            }
            None => phase(run, "everything at once", everything(run, &possible).boxed_local()).await,
        }
        let all_struck = round > 0 || nth == possible.len();
        if all_struck && began.elapsed() >= soak {
            break;
        }
    }
    phase(
        run,
        "calm again",
        async {
            run.drain().await;
            Strikes::new()
        }
        .boxed_local(),
    )
    .await;
}

async fn everything<B: Bench>(run: &Run<B>, faults: &[Fault]) -> Strikes {
    let until = Instant::now() + TOGETHER;
    join_all(faults.iter().map(|fault| fault.strike(run, until, false))).await.concat()
}

/// Runs one phase and prints what happened in it. A fault that never struck proves nothing.
async fn phase<B: Bench>(run: &Run<B>, name: &str, strike: LocalBoxFuture<'_, Strikes>) {
    run.journal.add(&Event::Phase { name: name.to_owned() });
    let (before, began) = (run.counts().await, Instant::now());
    let strikes = strike.await;
    let RunCounts { committed, unknown, refused, delivered, failed, .. } = run.counts().await;
    let line = format!(
        "{:8} {name:26} {:5.1} s {:6} committed {:4} unknown {:4} refused {:6} delivered {:6} failed  {}\n",
        B::NAME,
        began.elapsed().as_secs_f64(),
        committed - before.committed,
        unknown - before.unknown,
        refused - before.refused,
        delivered - before.delivered,
        failed - before.failed,
        strikes.iter().map(|(what, count)| format!("{what}: {count}")).collect::<Vec<_>>().join(", "),
    );
    tell(&line);
    for (what, count) in strikes {
        assert!(count > 0, "{}: {name}: {what}: never struck", B::NAME);
    }
}

/// Prints a line also when the test passes, because the test harness hides the normal output then.
fn tell(line: &str) {
    let _ = std::io::stderr().write_all(line.as_bytes());
}
