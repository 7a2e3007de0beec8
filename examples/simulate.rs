//! What will the retries do when the receiver is down for two hours, and whom will they wake?
//!
//! ```text
//! cargo run --example simulate
//! ```
//!
//! Three definitions live through the same outage in virtual time, decided by the code that decides it in earnest. The hasty one
//! retries every ten seconds for as long as it takes, the brief one gives up after five minutes, the patient one waits longer and
//! longer. The tables show what each does to the receiver and to the people on duty; the pictures, whose paths are printed, show
//! it better.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use solid_notify::simulate::{Report, Scenario, simulate};
use solid_notify::{AlertKind, ErrorClass, NotifyDef};

const HOUR: Duration = Duration::from_secs(3600);

fn main() -> Result<()> {
    let outage = Scenario::new()
        .rate(5.0)
        .lasting(4 * HOUR)
        .outage(HOUR, 2 * HOUR, ErrorClass::Unavailable) // with ErrorClass::Timeout each attempt would take the whole timeout
        .failing(0.01, ErrorClass::Network)
        .nodes(2)
        .seed(7);

    let hasty = simulated(NotifyDef::new("hasty").retry_interval("10s").max_retry_times(-1), &outage)?;
    let brief = simulated(NotifyDef::new("brief").retry_interval("[10s,5m]").alert_cooldown("30m"), &outage)?;
    let patient =
        simulated(NotifyDef::new("patient").retry_interval("[5s,1m,5m,20m,1h] ~10%").max_retry_times(9), &outage)?;

    for report in [&hasty, &brief, &patient] {
        ensure!(report.totals.added == 72_000 && report.totals.live == 0, "{report}");
    }
    // The slots of the hasty one are full of retries that are bound to fail; nothing is lost.
    ensure!(hasty.totals.retries > 10 * patient.totals.retries, "{hasty}\n{patient}");
    ensure!(hasty.totals.dead_letters == 0, "{hasty}");
    // The brief one leaves its dead letters to people, who are told: once, in digests, and when it is over.
    ensure!(brief.totals.dead_letters > 30_000, "{brief}");
    ensure!(brief.alerts.last().is_some_and(|told| told.alert.kind == AlertKind::Recovered), "{brief}");
    ensure!(brief.alerts.len() < 10, "{brief}");
    // The patient one loses nothing either, but some of it is late.
    ensure!(patient.totals.dead_letters == 0 && patient.totals.alerts == 0, "{patient}");
    ensure!(patient.drained_after > hasty.drained_after, "{patient}");
    Ok(())
}

/// Simulates, prints, and draws.
fn simulated(def: NotifyDef, scenario: &Scenario) -> Result<Report> {
    let report = simulate(&def, scenario)?;
    println!("{report}");
    let path = beside_the_program(&format!("{}.svg", def.name))?;
    std::fs::write(&path, report.to_svg()).with_context(|| format!("writing {}", path.display()))?;
    println!("the picture: {}\n", path.display());
    Ok(report)
}

fn beside_the_program(name: &str) -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name(name))
}
