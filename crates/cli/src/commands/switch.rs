//! `pause-all`, `resume-all`: the switch, which pauses everything or all retries.

use solid_notify::operate::PauseScope;

use crate::exit::Outcome;
use crate::session::{Session, done_if};

/// Pauses all definitions, or the retries of all.
pub(crate) async fn pause_all(session: &Session, retries: bool, reason: &str) -> Outcome {
    let before = session.operator.paused().await?;
    let (question, applied) = match (retries, &before) {
        (false, _) => ("pause all definitions on every node", "everything is paused within 5 s"),
        (true, Some(before)) if before.scope == PauseScope::Everything => (
            "let first attempts go on, and pause only the retries of all definitions on every node",
            "within 5 s first attempts go on, and retries stay paused",
        ),
        (true, _) => (
            "pause the retries of all definitions on every node",
            "retries are paused within 5 s; first attempts go on",
        ),
    };
    session.great_change(question)?;
    let paused = match retries {
        false => session.operator.pause_all(reason).await?,
        true => session.operator.pause_retries(reason).await?,
    };
    let result = serde_json::json!({ "result": if paused { "applied" } else { "unchanged" } });
    let text = match session.operator.paused().await? {
        Some(before) if !paused => before.to_string(),
        _ => format!("{applied}; `solid-notify resume-all` ends it"),
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
