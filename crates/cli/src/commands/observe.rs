//! `audit`, `nodes`, `stats`, `series`: what people look at.

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Args;
use solid_notify::operate::{AuditFilter, DefRef, Position};

use crate::exit::{Exit, Outcome};
use crate::session::Session;
use crate::table::{Rows, cell, time};
use crate::times;

/// Which entries of the audit.
#[derive(Debug, Args)]
pub(crate) struct Audit {
    /// Only about this definition, or its notices
    #[arg(long = "def", short = 'd', value_name = "NAME")]
    definition: Option<String>,
    /// Only about this notice
    #[arg(long, value_name = "ID")]
    notice: Option<i64>,
    /// Only by this operator
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Only of this act: retry, cancel, edited, …
    #[arg(long)]
    act: Option<String>,
    /// Only from this time on: 2026-11-21T12:00:00Z, 2026-11-21, or 2h (two hours ago)
    #[arg(long, value_parser = times::past, value_name = "TIME")]
    from: Option<DateTime<Utc>>,
    /// Only up to this time
    #[arg(long, value_parser = times::past, value_name = "TIME")]
    until: Option<DateTime<Utc>>,
    /// How many, at most 500
    #[arg(long, short = 'n', default_value_t = 50, value_name = "NUMBER")]
    limit: usize,
    /// Where the page before ended (`next` of --json)
    #[arg(long, value_name = "POSITION")]
    after: Option<Position>,
}

/// Shows who did what, the latest first.
pub(crate) async fn audit(session: &Session, audit: Audit) -> Outcome {
    let mut filter = AuditFilter::all();
    if let Some(name) = audit.definition {
        filter = filter.definition(DefRef::Name(name));
    }
    if let Some(id) = audit.notice {
        filter = filter.notice(id);
    }
    if let Some(who) = audit.by {
        filter = filter.who(who);
    }
    if let Some(act) = audit.act {
        filter = filter.act(act);
    }
    if let Some(from) = audit.from {
        filter = filter.from(from);
    }
    if let Some(until) = audit.until {
        filter = filter.until(until);
    }
    let page = session.operator.audit(&filter, audit.after, audit.limit).await?;
    // JSON has the ids.
    let states = if session.out.json { Vec::new() } else { session.outbox.definitions().await? };
    let names: HashMap<i64, String> = states.into_iter().map(|state| (state.row.id, state.row.name)).collect();
    let name_of = |id: i64| names.get(&id).cloned().unwrap_or_else(|| id.to_string());
    session.out.show(&page, || {
        let mut rows = Rows::new(&["time", "by", "act", "definition", "notice", "detail"]);
        for entry in &page.entries {
            let notice = match entry.notice_ids.len() {
                0 => cell(entry.notice_id),
                ids => format!("{ids} notices"),
            };
            let definition = cell(entry.def_id.map(name_of));
            let (who, act) = (entry.who.clone(), entry.act.clone());
            rows.row([time(entry.time), who, act, definition, notice, cell(&entry.detail)]);
        }
        let text = rows.text("no entries");
        match &page.next {
            Some(next) => format!("{text}\nmore: --after {next}"),
            None => text,
        }
    })?;
    Ok(Exit::Done)
}

/// Lists the living nodes.
pub(crate) async fn nodes(session: &Session) -> Outcome {
    let nodes = session.operator.nodes().await?;
    session.out.show(&nodes, || {
        let mut rows = Rows::new(&["node", "version", "since", "last seen", "#clock ms", "handlers"]);
        for node in &nodes {
            let (since, seen) = (time(node.start_time), time(node.last_seen));
            let (offset, handlers) = (node.clock_offset_ms.to_string(), node.handlers.join(", "));
            rows.row([node.id.clone(), node.version.clone(), since, seen, offset, handlers]);
        }
        rows.text("no sweeper runs")
    })?;
    Ok(Exit::Done)
}

/// Shows the counts of each definition, as a node has taken them.
pub(crate) async fn stats(session: &Session) -> Outcome {
    let snapshot = session.operator.snapshot().await?;
    session.out.show(&snapshot, || {
        let mut rows = Rows::new(&[
            "definition",
            "#not sent",
            "#failed",
            "#sending",
            "#awaiting ack",
            "#dead",
            "#cancelled",
            "oldest due",
            "counted",
        ]);
        for row in &snapshot {
            let Some((counts, at)) = &row.taken else {
                let none = || "-".to_owned();
                let name = row.definition.clone();
                rows.row([name, none(), none(), none(), none(), none(), none(), none(), "not yet".to_owned()]);
                continue;
            };
            rows.row([
                row.definition.clone(),
                counts.not_sent.to_string(),
                counts.failed.to_string(),
                counts.sending.to_string(),
                counts.awaiting_ack.to_string(),
                counts.dead_letters.to_string(),
                counts.cancelled.to_string(),
                cell(counts.oldest_due),
                time(*at),
            ]);
        }
        rows.text("no definitions")
    })?;
    Ok(Exit::Done)
}

/// Which series.
#[derive(Debug, Args)]
pub(crate) struct Series {
    /// The definition; all of them without a name
    definition: Option<String>,
    /// From when on: 2026-11-21T12:00:00Z, or 2h (two hours ago)
    #[arg(long, value_parser = times::past, default_value = "1h", value_name = "TIME")]
    from: DateTime<Utc>,
    /// Up to when
    #[arg(long, value_parser = times::past, default_value = "now", value_name = "TIME")]
    until: DateTime<Utc>,
    /// The length of a step, of whole minutes
    #[arg(long, value_parser = times::duration, default_value = "5m", value_name = "DURATION")]
    step: Duration,
}

/// Shows counts and durations of attempts in steps of time.
pub(crate) async fn series(session: &Session, series: Series) -> Outcome {
    let Series { definition, from, until, step } = series;
    let points = session.operator.series(definition.as_deref(), from, until, step).await?;
    session.out.show(&points, || {
        let mut rows = Rows::new(&[
            "time",
            "#succeeded",
            "#awaiting ack",
            "#failed",
            "#dead",
            "#unacked",
            "#mean ms",
            "#longest ms",
        ]);
        for point in &points {
            let counts = &point.counts;
            let mean = counts.duration_ms.checked_div(counts.timed);
            rows.row([
                time(point.time),
                counts.succeeded.to_string(),
                counts.awaiting_ack.to_string(),
                counts.failed.to_string(),
                counts.dead_letters.to_string(),
                counts.unacked.to_string(),
                cell(mean),
                counts.duration_max_ms.to_string(),
            ]);
        }
        rows.text("no steps")
    })?;
    Ok(Exit::Done)
}
