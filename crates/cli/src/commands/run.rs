//! `run`: a sweeper with all ready channels in this process.

use std::io::IsTerminal;

use clap::Args;
use solid_notify::Filter;
use solid_notify::channels::AllowedNetworks;
use solid_notify::definition::{SecretRule, SecretRules};
use solid_notify::operate::RefusedConfig;
use solid_notify::sweeper::Tally;

use crate::exit::{Exit, Failure, Outcome, TABLES_OR_RIGHTS};
use crate::output;
use crate::sending::Sending;
use crate::session::Session;
use crate::signals::asked_to_stop;
use crate::table::Fields;

/// How to send.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Send what is due until nothing is due, then end
    #[arg(long)]
    until_idle: bool,
    /// Allow rows of definitions to reach this network of the own site: 10.0.0.0/8
    #[arg(long, value_name = "NETWORK")]
    allow_network: Vec<String>,
    /// Let rows of definitions use this secret: env:ERP_KEY, env:ERP_*, file:/etc/erp/key, file:/etc/erp/ (all files below it); NOTIFY_SECRET_* and
    /// files below /run/secrets/solid-notify are allowed without this option
    #[arg(long, value_name = "SECRET")]
    allow_secret: Vec<SecretRule>,
    /// The name of this node in tables and logs; the name of the host without this option
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
}

/// Sends notices by the channels that their definitions name, until it is asked to stop, or until nothing is due.
pub(crate) async fn run(session: &Session, run: Run) -> Outcome {
    session.change("send what is due")?;
    let secrets = run.allow_secret.iter().cloned().fold(SecretRules::default(), SecretRules::allow);
    let secrets = session.chosen.own_secret.iter().cloned().fold(secrets, SecretRules::keep);
    let networks = AllowedNetworks::new(&run.allow_network).map_err(|error| Failure::invalid(error.to_string()))?;
    let sending = Sending { networks, secrets, ..Sending::default() };
    // Replies of consumers arrive as long as this is not dropped.
    let (mut sweeper, _replies) =
        sending.sweeper(&session.outbox).map_err(|error| Failure::invalid(error.to_string()))?;
    if let Some(name) = &run.node {
        sweeper = sweeper.node_name(name);
    }
    let failed = |error: solid_notify::error::StartError| {
        let failure = Failure::new(Exit::Failed, error.to_string());
        if error.is_explained() { failure } else { failure.next(TABLES_OR_RIGHTS) }
    };
    let (tally, refused) = if run.until_idle {
        let sent = async {
            let running = sweeper.start().await?;
            let monitor = running.monitor();
            Ok((running.shutdown_when_idle().await, Some(monitor.refused())))
        };
        tokio::select! {
            sent = sent => sent.map_err(failed)?,
            () = asked_to_stop() => return Err(Failure::new(Exit::Failed, "interrupted: claimed notices are sent again after their leases")),
        }
    } else {
        let running = sweeper.start().await.map_err(failed)?;
        if std::io::stderr().is_terminal() {
            output::note(format!("the sweeper {} runs; Ctrl-C stops it", running.node_id()));
        }
        asked_to_stop().await;
        (running.shutdown().await, None)
    };
    session.out.show(&tally, || text(&tally))?;
    match refused {
        Some(refused) => unsent(session, &refused).await,
        None => Ok(Exit::Done),
    }
}

/// Reports definitions whose notices this process left alone, because their rows are invalid, or because it refused them. The store no longer
/// names its refusals, because its node has ended.
async fn unsent(session: &Session, refused: &[RefusedConfig]) -> Outcome {
    for state in session.outbox.definitions().await? {
        let refusal = refused.iter().find(|refused| refused.def_id == state.row.id);
        let is_wrong = !state.problems.is_empty() || refusal.is_some();
        if is_wrong && state.deleted().is_none() {
            let filter = Filter::live().definition(&state.row.name);
            let waiting: u64 = session.operator.counts(&filter).await?.iter().map(|class| class.count.count).sum();
            if waiting > 0 {
                let name = &state.row.name;
                let failed = |text: String| Failure::new(Exit::Failed, text);
                return Err(match refusal {
                    // It says whether all of them wait.
                    Some(refusal) => failed(format!("notices of {name} wait: {}", refusal.problem)),
                    None => failed(format!("{waiting} notices of {name} wait, because the definition is wrong"))
                        .next(format!("`solid-notify def show {name}` says why")),
                });
            }
        }
    }
    Ok(Exit::Done)
}

fn text(tally: &Tally) -> String {
    let mut fields = Fields::default();
    fields.add("succeeded", tally.succeeded).add("awaiting ack", tally.awaiting_ack);
    fields.add("failed", tally.failed).add("dead letters", tally.dead_letters);
    fields.text()
}
