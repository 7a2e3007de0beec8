//! `def test`: a notice that is marked as a test.

use std::time::{Duration, Instant};

use clap::Args;
use solid_notify::Status;

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
