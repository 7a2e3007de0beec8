//! Runs without and with a neighbour on one database. It prints a line for each run.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::healthy;
use crate::judge::{self, P99, RATE, Run};
use crate::neighbours::{ALL, AtWork, Neighbour};
use crate::served::{Served, Start};
use crate::site::{Site, Store};
use crate::window::{Rate, send};

/// The rate of CI: each healthy definition has a notice in each second.
const CI: Rate = Rate { count: 60, gap: Duration::from_millis(50) };
/// The rate of the night, at which the 99th percentile is not the worst notice.
const NIGHT: Rate = Rate { count: 200, gap: Duration::from_millis(25) };
/// The pairs of the night.
const PAIRS: usize = 5;
/// The most windows of a run. A pause of a busy machine within one window lowers its rate; a slow sender has the same rate in all.
const MOST_WINDOWS: usize = 3;

/// Runs the neighbours of this database.
pub async fn all<D: Store>() {
    let night = match std::env::var("NOTIFY_NEIGHBOURS").as_deref() {
        Ok("night") => true,
        Ok(other) => panic!("NOTIFY_NEIGHBOURS is {other:?}; set it to \"night\", or not at all"),
        Err(_) => false,
    };
    let only = std::env::var("NOTIFY_NEIGHBOUR").ok();
    let site = Site::<D>::new().await;
    let chosen = ALL.iter().filter(|neighbour| neighbour.is_possible::<D>());
    let chosen = chosen.filter(|neighbour| match &only {
        Some(part) => neighbour.name().contains(part),
        None => night || neighbour.is_in_ci::<D>(),
    });
    let disturbed = if night { in_pairs(&site, chosen).await } else { once(&site, chosen).await };
    site.close().await;
    assert!(disturbed.is_empty(), "{}:\n{}", D::NAME, disturbed.join("\n"));
}

/// Each neighbour once, compared with one run without a neighbour.
async fn once<D: Store>(site: &Site<D>, chosen: impl Iterator<Item = &Neighbour>) -> Vec<String> {
    let without = run(site, None, CI, None).await;
    let mut disturbed = Vec::new();
    for neighbour in chosen {
        let with = run(site, Some(*neighbour), CI, Some(&without)).await;
        disturbed.extend(complaints(*neighbour, &without, &with));
    }
    disturbed
}

/// Each neighbour in pairs, without and with it.
async fn in_pairs<D: Store>(site: &Site<D>, chosen: impl Iterator<Item = &Neighbour>) -> Vec<String> {
    let mut disturbed = Vec::new();
    for neighbour in chosen {
        let mut ratios = Vec::new();
        for _ in 0..PAIRS {
            let without = run(site, None, NIGHT, None).await;
            let with = run(site, Some(*neighbour), NIGHT, Some(&without)).await;
            ratios.push(judge::p99(&with) / judge::p99(&without));
            disturbed.extend(complaints(*neighbour, &without, &with));
        }
        let median = judge::median(ratios.clone());
        say::<D>(&format!(
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
async fn run<D: Store>(site: &Site<D>, neighbour: Option<Neighbour>, rate: Rate, without: Option<&Run>) -> Run {
    let name = neighbour.map_or("without a neighbour", Neighbour::name);
    let began = Instant::now();
    let (mut start, mut at_work) = (Start::default(), AtWork::default());
    if let Some(neighbour) = neighbour {
        neighbour.prepare(site, &mut start, &mut at_work).await;
    }
    let served = Served::start(site.folder.path(), &start).await;
    site.http.ack_to(served.address);
    let warmed_up = send(site, Rate { count: healthy::COUNT, gap: Duration::from_millis(1) }).await;
    assert!(warmed_up.iter().all(|sent| sent.ended.is_some()), "{}: {name}: {warmed_up:#?}", D::NAME);
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
    assert!(complaints.is_empty(), "{}: without a neighbour:\n{}", D::NAME, complaints.join("\n"));
    say::<D>(&format!(
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
fn say<D: Store>(line: &str) {
    let _ = std::io::stderr().write_all(format!("{:10} {line}\n", D::NAME).as_bytes());
}
