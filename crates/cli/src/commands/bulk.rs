//! `bulk list|show|pause|resume|cancel`: bulk acts that sweepers execute.

use clap::Subcommand;
use solid_notify::VerbResult;

use crate::act::{text_of_progress, wait};
use crate::exit::{Exit, Failure, Outcome};
use crate::select::word;
use crate::session::Session;
use crate::table::Rows;

/// Commands for bulk acts.
#[derive(Debug, Subcommand)]
pub(crate) enum BulkCommand {
    /// List bulk acts: live ones, then the latest 100 that have ended
    List,
    /// Show how far an act is
    Show {
        id: i64,
        /// Wait for its end
        #[arg(long)]
        wait: bool,
    },
    /// Stop an act after its present step, to be resumed later
    Pause { id: i64 },
    /// Continue an act that was stopped or gave up, where it was
    Resume { id: i64 },
    /// Stop an act after its present step
    Cancel {
        id: i64,
        /// Why, for the audit
        #[arg(long, short)]
        reason: String,
    },
}

/// Runs a command for bulk acts.
pub(crate) async fn run(session: &Session, command: BulkCommand) -> Outcome {
    match command {
        BulkCommand::List => {
            let acts = session.operator.bulks().await?;
            session.out.show(&acts, || {
                let mut rows = Rows::new(&["#id", "verb", "status", "#changed", "by", "filter"]);
                for progress in &acts {
                    let status = word(progress.status).to_owned();
                    let (verb, changed, who, filter) = match &progress.act {
                        Some(act) => {
                            let (order, changed) = (&act.order, act.done.changed.to_string());
                            (order.verb.name(), changed, act.who.clone(), order.filter.to_string())
                        }
                        None => ("?", "?".to_owned(), "?".to_owned(), "it is no act, or unreadable".to_owned()),
                    };
                    rows.row([progress.id.to_string(), verb.to_owned(), status, changed, who, filter]);
                }
                rows.text("no bulk acts")
            })?;
            Ok(Exit::Done)
        }
        BulkCommand::Show { id, wait: waits } => {
            let (act, progress) = found(session, id).await?;
            if waits {
                return wait(session, &act, None).await;
            }
            session.out.show(&progress, || text_of_progress(&progress))?;
            Ok(Exit::Done)
        }
        BulkCommand::Pause { id } => {
            found(session, id).await?;
            session.change(&format!("stop the bulk act {id}"))?;
            let result = session.operator.cancel(id, "paused by an operator").await?;
            report(session, id, result, "stopped; `solid-notify bulk resume` continues it")
        }
        BulkCommand::Resume { id } => {
            found(session, id).await?;
            session.change(&format!("continue the bulk act {id}"))?;
            let result = session.operator.retry(id).await?;
            report(session, id, result, "continues")
        }
        BulkCommand::Cancel { id, reason } => {
            found(session, id).await?;
            session.change(&format!("stop the bulk act {id}"))?;
            let result = session.operator.cancel(id, &reason).await?;
            report(session, id, result, "stopped")
        }
    }
}

/// Returns an act. A notice that is none is not found, so that no verb changes it by mistake.
async fn found(
    session: &Session,
    id: i64,
) -> Outcome<(solid_notify::operate::BulkHandle, solid_notify::operate::BulkProgress)> {
    let act = session.operator.bulk(id);
    match act.progress().await? {
        Some(progress) if progress.act.is_some() => Ok((act, progress)),
        _ => Err(Failure::new(Exit::NotFound, format!("there is no bulk act {id}"))
            .next("`solid-notify bulk list` lists bulk acts")),
    }
}

fn report(session: &Session, id: i64, result: VerbResult, done: &str) -> Outcome {
    let (exit, text) = match result {
        result if result.is_applied() => (Exit::Done, done.to_owned()),
        VerbResult::NotFound => (Exit::NotFound, result.to_string()),
        _ => (Exit::Unchanged, result.to_string()),
    };
    session.changed(&result, exit, format!("bulk act {id}: {text}"))
}
