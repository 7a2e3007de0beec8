//! `def simulate`: a definition in virtual time, before it is trusted.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use solid_notify::ErrorClass;
use solid_notify::simulate::{Scenario, simulate as simulated};

use crate::commands::definition_edits::with_columns;
use crate::exit::{Exit, Failure, Outcome};
use crate::session::Session;
use crate::times;

/// A scenario. Its retries, limits, alerts and windows are those of the definition.
#[derive(Debug, Args)]
pub(crate) struct Simulate {
    name: String,
    /// column=value: as the definition would be after this edit
    columns: Vec<String>,
    /// Notices a second
    #[arg(long, default_value_t = 1.0)]
    rate: f64,
    /// For how long notices are added
    #[arg(long, value_name = "DURATION", default_value = "4h", value_parser = times::duration)]
    lasting: Duration,
    /// How long the receiver is down; 0s: not at all
    #[arg(long, value_name = "DURATION", default_value = "2h", value_parser = times::duration)]
    outage: Duration,
    /// When the outage begins
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = times::duration)]
    outage_after: Duration,
    /// The class of the errors of the outage
    #[arg(long, value_name = "CLASS", default_value = "unavailable")]
    class: String,
    /// Which part of all other attempts fails, from 0 to 1
    #[arg(long, default_value_t = 0.0)]
    failing: f64,
    /// How many sweepers send
    #[arg(long, default_value_t = 1)]
    nodes: usize,
    /// The same seed makes the same report
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the picture of the report to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Runs the definition through a scenario in virtual time. It sends nothing.
pub(crate) async fn simulate(session: &Session, how: &Simulate) -> Outcome {
    let class = ErrorClass::ALL.into_iter().find(|class| class.as_str() == how.class).ok_or_else(|| {
        let known = ErrorClass::ALL.map(|class| class.as_str()).join(", ");
        Failure::invalid(format!("there is no class {:?}; expected one of {known}", how.class))
    })?;
    let row = with_columns(session.operator.definition(how.name.as_str()).await?, &how.columns)?;
    let mut scenario = Scenario::new().rate(how.rate).lasting(how.lasting).nodes(how.nodes).seed(how.seed);
    scenario = scenario.failing(how.failing, ErrorClass::Network);
    if !how.outage.is_zero() {
        scenario = scenario.outage(how.outage_after, how.outage, class);
    }
    let report = simulated(&row, &scenario)?;
    if let Some(file) = &how.svg {
        std::fs::write(file, report.to_svg())
            .map_err(|error| Failure::cannot(&format!("write {}", file.display()), error))?;
    }
    let json = serde_json::json!({ "definition": report.definition, "seed": report.seed, "totals": report.totals });
    session.out.show(&json, || report.to_string())?;
    Ok(Exit::Done)
}
