//! `pause-all`, `resume-all`: the switch of everything.

use crate::exit::Outcome;
use crate::session::{Session, done_if};

/// Pauses all definitions.
pub(crate) async fn pause_all(session: &Session, reason: &str) -> Outcome {
    session.great_change("pause all definitions on every node")?;
    let paused = session.operator.pause_all(reason).await?;
    let result = serde_json::json!({ "result": if paused { "applied" } else { "unchanged" } });
    let text = match session.operator.paused().await? {
        Some(before) if !paused => before.to_string(),
        _ => "everything is paused within 5 s; `solid-notify resume-all` ends it".to_owned(),
    };
    session.changed(&result, done_if(paused), text)
}

/// Ends the pause.
pub(crate) async fn resume_all(session: &Session) -> Outcome {
    session.change("resume all definitions on every node")?;
    let resumed = session.operator.resume_all().await?;
    let result = serde_json::json!({ "result": if resumed { "applied" } else { "unchanged" } });
    let text = if resumed { "sending goes on within 5 s" } else { "nothing was paused" };
    session.changed(&result, done_if(resumed), text.to_owned())
}
