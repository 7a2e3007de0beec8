//! `circuit list|close`: circuits of definitions that have `breaker_failures`.

use clap::Subcommand;

use crate::exit::{Exit, Outcome};
use crate::session::{Session, done_if};
use crate::table::{Rows, cell};

/// Commands for circuits.
#[derive(Debug, Subcommand)]
pub(crate) enum Circuit {
    /// List the circuits of all definitions that have one
    List,
    /// Close an open circuit: its failures count from zero again
    Close { definition: String },
}

/// Runs a command for circuits.
pub(crate) async fn run(session: &Session, command: Circuit) -> Outcome {
    match command {
        Circuit::List => {
            let circuits = session.operator.circuits().await?;
            session.out.show(&circuits, || {
                let mut rows = Rows::new(&["definition", "circuit", "#failures", "#opens at", "probe from", "probe"]);
                for circuit in &circuits {
                    let (failures, opens_at) = (circuit.failures.to_string(), circuit.breaker_failures.to_string());
                    let state = if circuit.open { "open" } else { "closed" }.to_owned();
                    let (from, probe) = (cell(circuit.probe_from), cell(circuit.probe));
                    rows.row([circuit.definition.clone(), state, failures, opens_at, from, probe]);
                }
                rows.text("no definition has a circuit (breaker_failures)")
            })?;
            Ok(Exit::Done)
        }
        Circuit::Close { definition } => {
            session.change(&format!("close the circuit of {definition:?}"))?;
            let closed = session.operator.close_circuit(&definition).await?;
            let result = serde_json::json!({ "result": if closed { "applied" } else { "unchanged" } });
            let text = if closed { "the circuit is closed" } else { "the circuit is not open" };
            session.changed(&result, done_if(closed), text.to_owned())
        }
    }
}
