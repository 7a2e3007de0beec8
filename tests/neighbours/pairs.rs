//! Runs without and with a neighbour on one store. It prints a line for each run.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::Write;
use std::time::{Duration, Instant};

use crate::healthy;
use crate::judge::{self, Difference, P99, Run};
use crate::neighbours::{AtWork, Neighbour};
use crate::plan::{AGAIN, Plan};
use crate::served::{Program, Served, Start};
use crate::site::Site;
use crate::store::Store;
use crate::window::{Rate, send};

/// Runs the neighbours of this store.
pub async fn all<S: Store>() {
    let plan = Plan::of(S::KIND);
    say::<S>(&plan.text());
    let site = Site::<S>::new().await;
    let disturbed = if plan.is_night { in_pairs(&site, &plan).await } else { once(&site, &plan).await };
    site.close().await;
    assert!(disturbed.is_empty(), "{}:\n{}", S::KIND.name(), disturbed.join("\n"));
}

/// Each neighbour once, compared with one run of its program without a neighbour.
async fn once<S: Store>(site: &Site<S>, plan: &Plan) -> Vec<String> {
    let (mut disturbed, mut baselines) = (Vec::new(), BTreeMap::new());
    for neighbour in &plan.neighbours {
        let program = neighbour.program();
        let without = match baselines.entry(program) {
            Entry::Occupied(run) => run.into_mut(),
            Entry::Vacant(place) => place.insert(run(site, program, None, plan.rate).await),
        };
        let with = run(site, program, Some(*neighbour), plan.rate).await;
        disturbed.extend(of(*neighbour, judge::failures(&with)));
        let exceeded = compare::<S>(*neighbour, without, &with).complaints();
        if !exceeded.is_empty() {
            say::<S>(&format!("{} is measured again: {}", neighbour.name(), exceeded.join("; ")));
            disturbed.extend(of(*neighbour, again(site, *neighbour).await));
        }
    }
    disturbed
}

/// Measures a neighbour again that has exceeded a limit, in pairs with longer windows, until two of them agree: a pause of a busy machine is not in
/// most of them, and a neighbour is. Returns the complaints.
async fn again<S: Store>(site: &Site<S>, neighbour: Neighbour) -> Vec<String> {
    let (mut failures, mut well, mut ill) = (Vec::new(), 0, 0);
    loop {
        let (difference, failed) = pair(site, neighbour, AGAIN).await;
        failures.extend(failed);
        let exceeded = difference.complaints();
        *(if exceeded.is_empty() { &mut well } else { &mut ill }) += 1;
        if well == 2 || ill == 2 {
            failures.extend(exceeded);
            return failures;
        }
    }
}

/// A run without the neighbour, and one with it. Returns how they differ, and what has failed.
async fn pair<S: Store>(site: &Site<S>, neighbour: Neighbour, rate: Rate) -> (Difference, Vec<String>) {
    let without = run(site, neighbour.program(), None, rate).await;
    let with = run(site, neighbour.program(), Some(neighbour), rate).await;
    (compare::<S>(neighbour, &without, &with), judge::failures(&with))
}

/// Each neighbour in pairs, without and with it.
async fn in_pairs<S: Store>(site: &Site<S>, plan: &Plan) -> Vec<String> {
    let mut disturbed = Vec::new();
    for neighbour in &plan.neighbours {
        let (mut complaints, mut differences) = (Vec::new(), Vec::new());
        for _ in 0..plan.pairs {
            let (difference, failed) = pair(site, *neighbour, plan.rate).await;
            complaints.extend(failed);
            differences.push(difference);
        }
        let median = Difference::median(&differences);
        say::<S>(&format!("{}: medians: {}", neighbour.name(), text(&median)));
        complaints.extend(median.complaints());
        if median.p99 > P99 {
            complaints.push(format!("the 99th percentile is {:.2} of that without it", median.p99));
        }
        disturbed.extend(of(*neighbour, complaints));
    }
    disturbed
}

/// The complaints with the name of their neighbour.
fn of(neighbour: Neighbour, complaints: Vec<String>) -> Vec<String> {
    complaints.into_iter().map(|text| format!("{}: {text}", neighbour.name())).collect()
}

/// Compares a run with the one without its neighbour, and prints how they differ.
fn compare<S: Store>(neighbour: Neighbour, without: &Run, with: &Run) -> Difference {
    let difference = Difference::of(without, with);
    say::<S>(&format!("{:22} {}", neighbour.name(), text(&difference)));
    difference
}

fn text(difference: &Difference) -> String {
    let Difference { latest, rate, p99, memory, overtime } = difference;
    format!("latest {latest:+.2} s  rate {rate:.2}  p99 {p99:.2}  memory {memory:+} KiB  overtime {overtime:+.2} s")
}

/// One run of the process: it has sent one notice of each definition before the neighbour begins.
async fn run<S: Store>(site: &Site<S>, program: Program, neighbour: Option<Neighbour>, rate: Rate) -> Run {
    let name = neighbour.map_or("without a neighbour", Neighbour::name);
    let began = Instant::now();
    let (mut start, mut at_work) = (Start { program, ..Start::default() }, AtWork::default());
    if let Some(neighbour) = neighbour {
        neighbour.prepare(site, &mut start, &mut at_work).await;
    }
    let served = Served::start(site, &start).await;
    site.http.ack_to(served.address);
    let warmed_up = send(site, Rate { count: healthy::COUNT, gap: Duration::from_millis(1) }).await;
    assert!(warmed_up.iter().all(|sent| sent.ended.is_some()), "{}: {name}: {warmed_up:#?}", S::KIND.name());
    if let Some(neighbour) = neighbour {
        neighbour.begin(site, &served, rate.window(), &mut at_work).await;
    }
    let begun = began.elapsed();
    let sent = send(site, rate).await;
    if let Some(neighbour) = neighbour {
        neighbour.prove(site, &at_work).await;
    }
    let memory = served.peak_memory();
    let proved = began.elapsed();
    let (stop, exit_code) = served.stop().await;
    drop(at_work);
    site.clean().await;
    let after_grace = neighbour.map_or(judge::AFTER_GRACE, Neighbour::after_grace);
    let run = Run { sent, memory, stop, exit_code, after_grace };
    if neighbour.is_none() {
        let failures = judge::failures(&run);
        assert!(failures.is_empty(), "{}: without a neighbour:\n{}", S::KIND.name(), failures.join("\n"));
    }
    say::<S>(&format!(
        "{name:22} {:.1} s to begin, {:.1} s to the proof, {:.1} s to end;  p99 {:.2} s  {memory} KiB",
        begun.as_secs_f64(),
        (proved - begun).as_secs_f64(),
        (began.elapsed() - proved).as_secs_f64(),
        judge::p99(&run.sent),
    ));
    run
}

/// Prints a line also when the test passes, because the test harness hides the normal output then.
fn say<S: Store>(line: &str) {
    let _ = std::io::stderr().write_all(format!("{:10} {line}\n", S::KIND.name()).as_bytes());
}
