//! `def test|simulate`: a definition before it is trusted.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use solid_notify::simulate::{Scenario, simulate as simulated};
use solid_notify::{ErrorClass, Status};

use super::definition_edits::with_columns;
use super::notices::text;
use crate::exit::{Exit, Failure, Outcome};
use crate::read;
use crate::session::Session;
use crate::times;

/// How often the program looks at a notice that it waits for.
const LOOK: Duration = Duration::from_millis(200);

/// A marked notice.
#[derive(Debug, Args)]
pub(crate) struct Test {
    name: String,
    /// The parameter: JSON, @FILE, or - for the standard input
    #[arg(default_value = "{}")]
    param: String,
    /// How long to wait for the end
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = times::duration)]
    wait: Duration,
}

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

/// Sends a marked notice, and waits for its end.
pub(crate) async fn test(session: &Session, test: &Test) -> Outcome {
    let param = read::json(&test.param)?;
    session.change(&format!("send a test of the definition {:?} to its receiver", test.name))?;
    let id = session.operator.test_send(test.name.as_str(), param).await?;
    let end = Instant::now() + test.wait;
    loop {
        let Some(notice) = session.operator.show(id).await? else {
            // A definition that keeps no history has deleted a success.
            session
                .out
                .show(&serde_json::json!({ "id": id, "status": "succeeded" }), || format!("notice {id}: succeeded"))?;
            return Ok(Exit::Done);
        };
        let is_live = !matches!(notice.status, Status::Succeeded | Status::DeadLetter | Status::Cancelled);
        if is_live && Instant::now() < end {
            tokio::time::sleep(LOOK).await;
            continue;
        }
        session.out.show(&notice, || text(&notice))?;
        return match notice.status {
            Status::Succeeded => Ok(Exit::Done),
            _ if is_live => {
                Err(Failure::new(Exit::Unchanged, format!("notice {id} has not ended within {:?}", test.wait))
                    .next(format!("`solid-notify msg explain {id}` says why; it is sent as the definition says")))
            }
            _ => Err(Failure::new(Exit::Failed, format!("the test {id} was not delivered"))),
        };
    }
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
