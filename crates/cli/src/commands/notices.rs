//! `msg list|show|explain|retry|purge|cancel|ack|nack|edit|reschedule`: notices.

use chrono::{DateTime, Utc};
use clap::{Subcommand, ValueEnum};
use serde::Serialize;
use solid_notify::operate::Position;
use solid_notify::{AckResult, NoticeRecord, Status, VerbResult};

use crate::act::{Act, HowToAct, carry_out};
use crate::exit::{Exit, Failure, Outcome};
use crate::select::{Select, State, word};
use crate::session::Session;
use crate::table::{Fields, Rows, cell, time};
use crate::{output, read, times};

/// Commands for notices.
#[derive(Debug, Subcommand)]
pub(crate) enum Msg {
    /// List notices: live ones by their due time, ended ones by their end
    List {
        /// Which notices
        #[arg(long, short, value_enum, default_value_t = State::Live)]
        status: State,
        /// How many, at most 500
        #[arg(long, short = 'n', default_value_t = 50, value_name = "NUMBER")]
        limit: usize,
        /// Where the page before ended (`next` of --json)
        #[arg(long, value_name = "POSITION")]
        after: Option<Position>,
        #[command(flatten)]
        select: Select,
    },
    /// Show a notice, live or ended, with its failed attempts
    Show { id: i64 },
    /// Say why a notice is not sent yet, or how it ended
    Explain { id: i64 },
    /// Send notices again, by their ids (dead letters, cancelled and waiting ones) or by a selection (ended ones)
    ///
    /// A waiting notice on its last try gets one try more; `msg reschedule ID now` gives none.
    Retry {
        ids: Vec<i64>,
        /// Which notices a selection is from
        #[arg(long, short, value_enum)]
        status: Option<Retryable>,
        #[command(flatten)]
        select: Select,
        #[command(flatten)]
        how: HowToAct,
    },
    /// Delete selected notices that have ended for good
    Purge {
        /// Which notices
        #[arg(long, short, value_enum)]
        status: Purgeable,
        /// Why, for the audit
        #[arg(long, short)]
        reason: String,
        #[command(flatten)]
        select: Select,
        #[command(flatten)]
        how: HowToAct,
    },
    /// Cancel notices, by their ids or by a selection of waiting ones
    Cancel {
        ids: Vec<i64>,
        /// Why, for the audit
        #[arg(long, short)]
        reason: String,
        #[command(flatten)]
        select: Select,
        #[command(flatten)]
        how: HowToAct,
    },
    /// Ack notices whose delivery was verified
    Ack {
        #[arg(required = true)]
        ids: Vec<i64>,
    },
    /// Nack the last delivery of a notice: the attempt fails
    Nack {
        id: i64,
        /// Why, for the record of the attempt
        #[arg(long, short)]
        reason: String,
    },
    /// Replace the parameter of a notice; a dead letter is then sent with it
    Edit {
        id: i64,
        /// The parameter, JSON; @FILE reads a file, - the standard input
        param: String,
    },
    /// Make a waiting notice due at another time
    Reschedule {
        id: i64,
        /// 2026-11-21T12:00:00Z, 2h (in two hours), or now
        #[arg(value_parser = times::future)]
        at: DateTime<Utc>,
    },
}

/// States of notices that a bulk act sends again.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Retryable {
    DeadLetter,
    Cancelled,
}

/// States of notices that a bulk act deletes.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Purgeable {
    /// All that have ended
    Ended,
    Succeeded,
    DeadLetter,
    Cancelled,
}

/// Runs a command for notices.
pub(crate) async fn run(session: &Session, command: Msg) -> Outcome {
    let operator = &session.operator;
    match command {
        Msg::List { status, select, limit, after } => list(session, status, &select, limit, after).await,
        Msg::Show { id } => match operator.show(id).await? {
            Some(notice) => {
                session.out.show(&notice, || text(&notice))?;
                Ok(Exit::Done)
            }
            None => Err(Failure::no_notice(id)),
        },
        Msg::Explain { id } => {
            let explanation = operator.explain(id).await?;
            if matches!(explanation.why, solid_notify::operate::Why::NotFound) {
                return Err(Failure::no_notice(id));
            }
            session.out.show(&explanation, || explanation.to_string())?;
            Ok(Exit::Done)
        }
        Msg::Retry { ids, status, select, how } if ids.is_empty() => {
            let state = match status {
                Some(Retryable::DeadLetter) => State::DeadLetter,
                Some(Retryable::Cancelled) => State::Cancelled,
                None => {
                    return Err(Failure::usage(
                        "which notices? name their ids, or a selection with --status dead-letter or cancelled",
                    ));
                }
            };
            carry_out(session, Act::Retry, &select.narrow_for_act(state.filter(), how.all)?, &how).await
        }
        Msg::Retry { ids, status, select, how } => {
            no_selection(&select, how.all || status.is_some())?;
            let mut last = Vec::new();
            for id in &ids {
                if operator.is_on_last_try(*id).await? {
                    last.push(id.to_string());
                }
            }
            let more = match &last[..] {
                [] => String::new(),
                ids => format!("; on its last try, and getting one more: {}", ids.join(" ")),
            };
            session.change(&format!("retry {}{more}", named(&ids)))?;
            if !last.is_empty() && !session.out.json {
                output::note(format!("on its last try, so it gets one more: {}", last.join(" ")));
            }
            each(session, &ids, async |id| Ok(of_verb(id, operator.retry(id).await?))).await
        }
        Msg::Cancel { ids, reason, select, how } if ids.is_empty() => {
            let filter = select.narrow_for_act(solid_notify::Filter::waiting(), how.all)?;
            carry_out(session, Act::Cancel { reason }, &filter, &how).await
        }
        Msg::Purge { status, reason, select, how } => {
            let state = match status {
                Purgeable::Ended => State::Ended,
                Purgeable::Succeeded => State::Succeeded,
                Purgeable::DeadLetter => State::DeadLetter,
                Purgeable::Cancelled => State::Cancelled,
            };
            carry_out(session, Act::Purge { reason }, &select.narrow_for_act(state.filter(), how.all)?, &how).await
        }
        Msg::Cancel { ids, reason, select, how } => {
            no_selection(&select, how.all)?;
            session.change(&format!("cancel {}", named(&ids)))?;
            each(session, &ids, async |id| Ok(of_verb(id, operator.cancel(id, &reason).await?))).await
        }
        Msg::Ack { ids } => {
            session.change(&format!("ack {}", named(&ids)))?;
            each(session, &ids, async |id| Ok(of_ack(id, operator.ack(id).await?))).await
        }
        Msg::Nack { id, reason } => {
            session.change(&format!("nack {}", named(&[id])))?;
            each(session, &[id], async |id| Ok(of_ack(id, operator.nack(id, &reason).await?))).await
        }
        Msg::Edit { id, param } => {
            let param = read::json(&param)?;
            session.change(&format!("replace the parameter of {}", named(&[id])))?;
            each(session, &[id], async |id| Ok(of_verb(id, operator.edit(id, &param).await?))).await
        }
        Msg::Reschedule { id, at } => {
            session.change(&format!("reschedule {}", named(&[id])))?;
            each(session, &[id], async |id| Ok(of_verb(id, operator.reschedule(id, at).await?))).await
        }
    }
}

/// Fails if there is a selection beside ids.
fn no_selection(select: &Select, other: bool) -> Outcome<()> {
    if other || !select.selects_all() {
        return Err(Failure::usage("ids and a selection exclude each other; --ids narrows a selection"));
    }
    Ok(())
}

fn named(ids: &[i64]) -> String {
    match ids {
        [id] => format!("notice {id}"),
        ids => format!("{} notices", ids.len()),
    }
}

/// What became of one notice.
#[derive(Serialize)]
struct Changed<T> {
    id: i64,
    #[serde(flatten)]
    result: T,
    #[serde(skip)]
    exit: Exit,
    #[serde(skip)]
    text: String,
}

/// The shape of an ack's result beside an id.
#[derive(Serialize)]
struct Acked {
    result: AckResult,
}

fn of_verb(id: i64, result: VerbResult) -> Changed<VerbResult> {
    let exit = match result {
        result if result.is_applied() => Exit::Done,
        VerbResult::NotFound => Exit::NotFound,
        _ => Exit::Unchanged,
    };
    Changed { id, result, exit, text: result.to_string() }
}

fn of_ack(id: i64, result: AckResult) -> Changed<Acked> {
    let (exit, text) = match result {
        AckResult::Applied => (Exit::Done, "applied"),
        AckResult::DeadLetterAcked => (Exit::Done, "the dead letter is a success now"),
        AckResult::AlreadySucceeded => (Exit::Unchanged, "it had succeeded already"),
        AckResult::NotAwaitingAck => (Exit::Unchanged, "its last attempt has failed already, or it was never sent"),
        AckResult::Cancelled => (Exit::Unchanged, "it was cancelled"),
        AckResult::Unknown | AckResult::Purged => (Exit::NotFound, "there is no such notice"),
        _ => (Exit::Unchanged, "nothing was changed"),
    };
    Changed { id, result: Acked { result }, exit, text: text.to_owned() }
}

/// Changes notices one after the other. The exit code is that of the first one that was not changed.
async fn each<T: Serialize>(
    session: &Session,
    ids: &[i64],
    change: impl AsyncFn(i64) -> Outcome<Changed<T>>,
) -> Outcome {
    let mut exit = Exit::Done;
    let mut all = Vec::with_capacity(ids.len());
    for id in ids {
        let changed = change(*id).await?;
        if !session.out.json {
            let text = format!("notice {id}: {}", changed.text);
            match changed.exit {
                Exit::Done => output::line(&text)?,
                _ => output::note(text),
            }
        }
        if exit == Exit::Done {
            exit = changed.exit;
        }
        all.push(changed);
    }
    if session.out.json {
        session.out.show(&all, String::new)?;
    }
    Ok(exit)
}

async fn list(session: &Session, state: State, select: &Select, limit: usize, after: Option<Position>) -> Outcome {
    let page = session.operator.list(&select.narrow(state.filter()), after, limit).await?;
    session.out.show(&page, || {
        let mut rows = Rows::new(&["#id", "definition", "status", "time", "#failures", "class", "description"]);
        for notice in &page.notices {
            let class = cell(&notice.last_class);
            let about = notice.description.clone().or_else(|| notice.tag.clone());
            let (status, failures) = (word(notice.status).to_owned(), notice.failures.to_string());
            let due = due(notice.status, notice.time);
            rows.row([notice.id.to_string(), cell(&notice.definition), status, due, failures, class, cell(about)]);
        }
        let text = rows.text("no notices");
        match &page.next {
            Some(next) => format!("{text}\nmore: --after {next}"),
            None => text,
        }
    })?;
    Ok(Exit::Done)
}

/// Returns the time of a notice in a list; a wait for an ack may have no end.
fn due(status: Status, at: DateTime<Utc>) -> String {
    if status == Status::AwaitingAck && at.timestamp() > 100_000_000_000 { "-".to_owned() } else { time(at) }
}

pub(crate) fn text(notice: &NoticeRecord) -> String {
    let mut fields = Fields::default();
    fields.add("id", notice.id).add("status", word(notice.status)).add("definition id", notice.def_id);
    fields.add("description", &notice.description).add("tag", &notice.tag);
    fields.add("param", &notice.param);
    fields.add("added", notice.create_time).add("last attempt", notice.last_call_time);
    fields.add("due", notice.next_call_time.map(|at| due(notice.status, at)));
    fields.add("ended", notice.finish_time).add("end reason", &notice.end_reason);
    fields.add("updated", notice.update_time).add("retries", notice.retry_times);
    fields.add("failures", notice.failures).add("crashes", Some(notice.crashes).filter(|count| *count > 0));
    fields.add("last class", &notice.last_class).add("worker", &notice.worker);
    fields.add("ordering key", &notice.ordering_key).add("dedupe key", &notice.dedupe_key);
    fields.add("max tries", notice.own.max_tries).add("expires at", notice.own.expires_at);
    fields.add("parent", notice.parent_id);
    fields.add("response", notice.response.as_ref().map(|last| last.response.to_string()));
    for record in &notice.errors {
        let (attempt, at, class, message) = (record.attempt, &record.time, &record.class, &record.message);
        fields.add("attempt", format!("{attempt} at {at}, {} ms, {class}: {message}", record.duration_ms));
    }
    fields.text()
}
