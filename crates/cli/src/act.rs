//! Bulk acts: the preview, the question, the start, and the wait for the end.

use std::time::Duration;

use clap::Args;
use solid_notify::operate::{Bulk, BulkHandle, BulkProgress, Counted, Preview, Rate};
use solid_notify::{Filter, Status};

use crate::bar::Bar;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::select::word;
use crate::session::{Session, done_if};
use crate::table::{Fields, Rows, cell, time};

/// The rate where none is given: careful with the receiver, and fast enough for some ten thousand notices.
const RATE: &str = "20/1s";

/// How a bulk act is executed.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Bulk act")]
pub(crate) struct HowToAct {
    /// Select all, without a condition
    #[arg(long)]
    pub(crate) all: bool,
    /// How many notices per period: 100/1m, 5 (per second), or "at once"
    #[arg(long, default_value = RATE, value_parser = |text: &str| text.parse::<Rate>().map_err(|error| error.to_string()))]
    rate: Rate,
    /// Wait for the end of the act. With --here, the command waits in any case
    #[arg(long)]
    wait: bool,
    /// Let this process execute the act, and not the sweepers; the command ends when the act has ended
    #[arg(long)]
    here: bool,
}

/// What a bulk act does.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Retry,
    Cancel { reason: String },
    Purge { reason: String },
}

impl Act {
    fn verb(&self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Cancel { .. } => "cancel",
            Self::Purge { .. } => "delete for good",
        }
    }
}

/// Carries out a bulk act: shows what it selects, asks, and starts it.
pub(crate) async fn carry_out(session: &Session, act: Act, filter: &Filter, how: &HowToAct) -> Outcome {
    let preview = session.operator.preview(filter).await?;
    if preview.total.count == 0 {
        return session.changed(&preview, Exit::Unchanged, format!("no notice is selected: {filter}"));
    }
    if !session.out.json {
        output::note(format!("selected: {filter}\n{}", text_of_preview(&preview)));
    }
    let notices =
        if preview.total.count == 1 { "1 notice".to_owned() } else { format!("{} notices", counted(preview.total)) };
    session.great_change(&format!("{} {notices}", act.verb()))?;
    if how.here {
        let done = match &act {
            Act::Retry => session.operator.retry_all(filter, how.rate).await?,
            Act::Cancel { reason } => session.operator.cancel_all(filter, reason).await?,
            Act::Purge { reason } => session.operator.purge_all(filter, reason).await?,
        };
        return session.changed(&done, done_if(done.changed > 0), text_of_bulk(&done));
    }
    let started = match &act {
        Act::Retry => session.operator.start_retry_all(filter, how.rate).await?,
        Act::Cancel { reason } => session.operator.start_cancel_all(filter, reason, how.rate).await?,
        Act::Purge { reason } => session.operator.start_purge_all(filter, reason, how.rate).await?,
    };
    if session.operator.nodes().await?.is_empty() {
        output::warn("no sweeper runs, so the act begins when one starts; --here executes it in this process");
    }
    if how.wait {
        return wait(session, &started, Some(preview.total)).await;
    }
    let Some(progress) = started.progress().await? else { return Err(Failure::no_notice(started.id())) };
    session.out.show(&progress, || {
        let id = progress.id;
        format!("started the bulk act {id}; `solid-notify bulk show {id} --wait` shows its progress, `solid-notify bulk pause {id}` stops it")
    })?;
    Ok(Exit::Done)
}

/// Waits for the end of an act, with a bar on a terminal.
pub(crate) async fn wait(session: &Session, act: &BulkHandle, total: Option<Counted>) -> Outcome {
    let bar = Bar::new(total, session.out.json);
    let ended = loop {
        let Some(progress) = act.progress().await? else { return Err(Failure::no_notice(act.id())) };
        if let Some(running) = &progress.act {
            let done = &running.done;
            bar.show(done.changed + done.dedupe_key_taken + done.passed_over);
        }
        if progress.status.is_final() {
            break progress;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    };
    bar.clear();
    let exit = match ended.status {
        Status::Succeeded => Exit::Done,
        Status::Cancelled => Exit::Unchanged,
        _ => Exit::Failed,
    };
    session.changed(&ended, exit, text_of_progress(&ended))
}

/// Returns a number that may be a lower bound.
pub(crate) fn counted(counted: Counted) -> String {
    if counted.more { format!("{} or more", counted.count) } else { counted.count.to_string() }
}

/// Returns a preview for people.
pub(crate) fn text_of_preview(preview: &Preview) -> String {
    let mut rows = Rows::new(&["definition", "status", "class", "#count"]);
    for class in &preview.by_class {
        let status = word(class.status).to_owned();
        rows.row([class.definition.clone(), status, cell(&class.class), counted(class.count)]);
    }
    let mut text = rows.text("no notices");
    if let (Some(oldest), Some(newest)) = (preview.oldest, preview.newest) {
        let ids: Vec<String> = preview.first.iter().map(i64::to_string).collect();
        text = format!("{text}\nfrom {} to {}, first ids {}", time(oldest), time(newest), ids.join(" "));
    }
    text
}

/// Returns what a bulk verb has done, for people.
pub(crate) fn text_of_bulk(done: &Bulk) -> String {
    let mut fields = Fields::default();
    fields.add("changed", done.changed);
    fields.add("dedupe key taken", Some(done.dedupe_key_taken).filter(|count| *count > 0));
    fields.add("passed over", Some(done.passed_over).filter(|count| *count > 0));
    fields.add("last due", done.last_due);
    fields.text()
}

/// Returns how far an act is, for people.
pub(crate) fn text_of_progress(progress: &BulkProgress) -> String {
    let mut fields = Fields::default();
    fields.add("id", progress.id).add("status", word(progress.status)).add("end reason", &progress.end_reason);
    if let Some(act) = &progress.act {
        let (order, done) = (&act.order, &act.done);
        fields.add("verb", order.verb.name()).add("filter", order.filter.to_string()).add("reason", &order.reason);
        fields.add("by", &act.who).add("changed", done.changed);
        fields.add("dedupe key taken", Some(done.dedupe_key_taken).filter(|count| *count > 0));
        fields.add("passed over", Some(done.passed_over).filter(|count| *count > 0));
    }
    fields.text()
}
