//! What the retries of three definitions do when the receiver is down for two hours, and which alerts they raise.
//!
//! ```text
//! cargo run --example simulate
//! ```
//!
//! The definitions go through the same outage in virtual time; the code of the real system decides each outcome. The
//! hasty one retries every ten seconds without a limit. The brief one gives up after five minutes. The patient one waits
//! longer each time. The tables show the effect on the receiver and on the people on duty; the pictures, whose paths are
//! printed, show it better.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
// [imports]
use solid_notify::alert::AlertKind;
use solid_notify::simulate::{Report, Scenario, simulate};
use solid_notify::{ErrorClass, NotifyDef};
// [end]

const HOUR: Duration = Duration::from_secs(3600);

fn main() -> Result<()> {
    // [scenario]
    let outage = Scenario::new()
        .rate(5.0)
        .lasting(4 * HOUR)
        .outage(HOUR, 2 * HOUR, ErrorClass::Unavailable) // with ErrorClass::Timeout each attempt would take the whole timeout
        .failing(0.01, ErrorClass::Network)
        .nodes(2)
        .seed(7);
    // [end]

    let hasty = simulated(NotifyDef::new("hasty").retry_interval("10s").max_retry_times(-1), &outage)?;
    let brief = simulated(NotifyDef::new("brief").retry_interval("[10s,5m]").alert_cooldown("30m"), &outage)?;
    let patient =
        simulated(NotifyDef::new("patient").retry_interval("[5s,1m,5m,20m,1h] ~10%").max_retry_times(9), &outage)?;

    // [report]
    for report in [&hasty, &brief, &patient] {
        ensure!(report.totals.added == 72_000 && report.totals.live == 0, "{report}");
    }
    // The slots of the hasty one are full of retries that must fail; no notice is lost.
    ensure!(hasty.totals.retries > 10 * patient.totals.retries, "{hasty}\n{patient}");
    ensure!(hasty.totals.dead_letters == 0, "{hasty}");
    ensure!(patient.peak_retries.is_some_and(|peak| peak.count < 100), "{patient}");
    // [end]
    // The brief one makes dead letters, which people must handle. Alerts report them: once, in digests, and at the
    // recovery.
    ensure!(brief.totals.dead_letters > 30_000, "{brief}");
    ensure!(brief.alerts.last().is_some_and(|told| told.alert.kind == AlertKind::Recovered), "{brief}");
    ensure!(brief.alerts.len() < 10, "{brief}");
    // The patient one loses no notice either, but some are late.
    ensure!(patient.totals.dead_letters == 0 && patient.totals.alerts == 0, "{patient}");
    ensure!(patient.drained_after > hasty.drained_after, "{patient}");
    Ok(())
}

// [simulated]
/// Simulates a scenario, prints the report and draws it.
fn simulated(def: NotifyDef, scenario: &Scenario) -> Result<Report> {
    let report = simulate(&def, scenario)?;
    println!("{report}");
    let path = beside_the_program(&format!("{}.svg", def.name))?;
    std::fs::write(&path, report.to_svg()).with_context(|| format!("writing {}", path.display()))?;
    println!("the picture: {}\n", path.display());
    Ok(report)
}
// [end]

fn beside_the_program(name: &str) -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name(name))
}
