//! Runs without and with a neighbour on one store. It prints a line for each run.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::Write;
use std::time::{Duration, Instant};

use crate::healthy;
use crate::judge::{self, P99, RATE, Run};
use crate::neighbours::{AtWork, Neighbour};
use crate::plan::Plan;
use crate::served::{Program, Served, Start};
use crate::site::Site;
use crate::store::Store;
use crate::window::{Rate, send};

/// The most windows of a run. A pause of a busy machine within one window lowers its rate; a slow sender has the same rate in all.
const MOST_WINDOWS: usize = 3;

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
            Entry::Vacant(place) => place.insert(run(site, program, None, plan.rate(), None).await),
        };
        let with = run(site, program, Some(*neighbour), plan.rate(), Some(without)).await;
        disturbed.extend(complaints(*neighbour, without, &with));
    }
    disturbed
}

/// Each neighbour in pairs, without and with it.
async fn in_pairs<S: Store>(site: &Site<S>, plan: &Plan) -> Vec<String> {
    let mut disturbed = Vec::new();
    for neighbour in &plan.neighbours {
        let (program, mut ratios) = (neighbour.program(), Vec::new());
        for _ in 0..plan.pairs {
            let without = run(site, program, None, plan.rate(), None).await;
            let with = run(site, program, Some(*neighbour), plan.rate(), Some(&without)).await;
            ratios.push(judge::p99(&with) / judge::p99(&without));
            disturbed.extend(complaints(*neighbour, &without, &with));
        }
        let median = judge::median(ratios.clone());
        say::<S>(&format!(
            "{}: the 99th percentiles have the ratios {ratios:.2?}, median {median:.2}",
            neighbour.name()
        ));
        if median > P99 {
            disturbed.push(format!("{}: the 99th percentile is {median:.2} of that without it", neighbour.name()));
        }
    }
    disturbed
}

/// A complaint for each limit that a run exceeds.
fn complaints(neighbour: Neighbour, without: &Run, with: &Run) -> Vec<String> {
    judge::complaints(without, with).into_iter().map(|text| format!("{}: {text}", neighbour.name())).collect()
}

/// One run of the process: it has sent one notice of each definition before the neighbour begins. A run whose rate is too low goes on.
async fn run<S: Store>(
    site: &Site<S>,
    program: Program,
    neighbour: Option<Neighbour>,
    rate: Rate,
    without: Option<&Run>,
) -> Run {
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
    let mut windows = vec![send(site, rate).await];
    while without.is_some_and(|without| judge::rate(&windows) < RATE * judge::rate(&without.windows))
        && windows.len() < MOST_WINDOWS
    {
        windows.push(send(site, rate).await);
    }
    if let Some(neighbour) = neighbour {
        neighbour.prove(site, &at_work).await;
    }
    let memory = served.peak_memory();
    let (stop, exit_code) = served.stop().await;
    drop(at_work);
    site.clean().await;
    let after_grace = neighbour.map_or(judge::AFTER_GRACE, Neighbour::after_grace);
    let run = Run { windows, memory, stop, exit_code, after_grace };
    let without = without.unwrap_or(&run);
    let complaints = judge::baseline_complaints(without);
    assert!(complaints.is_empty(), "{}: without a neighbour:\n{}", S::KIND.name(), complaints.join("\n"));
    say::<S>(&format!(
        "{name:22} {:5.1} s  latest {:+6.2} s  rate {:.2}  p99 {:.2} s  memory {:+5} of {} KiB  SIGTERM {:.2} s  windows {}",
        began.elapsed().as_secs_f64(),
        judge::latest(without, &run),
        judge::rate(&run.windows) / judge::rate(&without.windows),
        judge::p99(&run),
        i128::from(run.memory) - i128::from(without.memory),
        run.memory,
        run.stop.as_secs_f64(),
        run.windows.len(),
    ));
    run
}

/// Prints a line also when the test passes, because the test harness hides the normal output then.
fn say<S: Store>(line: &str) {
    let _ = std::io::stderr().write_all(format!("{:10} {line}\n", S::KIND.name()).as_bytes());
}
