//! [`Look`]: what one look at the store finds, in few statements however many definitions there are.

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use solid_notify::definition::DefinitionState;
use solid_notify::operate::{DefinitionCounts, NoticeCounts, OpenAlert, Paused, SeenNode, SeriesPoint};

use crate::contexts::shown;
use crate::exit::Outcome;
use crate::session::Session;
use crate::table::{Rows, cell};

/// How far the chart goes back.
const CHART: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

/// The state of the store at one time.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Look {
    pub(super) store: String,
    pub(super) time: DateTime<Utc>,
    pub(super) paused: Option<Paused>,
    pub(super) nodes: Vec<SeenNode>,
    pub(super) open_alerts: Vec<OpenAlert>,
    pub(super) definitions: Vec<Line>,
    /// Attempts of all definitions in each of the last 60 minutes.
    pub(super) series: Vec<SeriesPoint>,
}

/// A definition.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Line {
    #[serde(flatten)]
    pub(super) counts: DefinitionCounts,
    /// Why nothing of it is sent: `paused`, `invalid`, `refused` or `no handler`.
    pub(super) state: Option<&'static str>,
}

impl Look {
    pub(super) async fn take(session: &Session) -> Outcome<Self> {
        let operator = &session.operator;
        let nodes = operator.nodes().await?;
        let states = session.outbox.definitions().await?;
        let obstacles: HashMap<i64, Option<&str>> =
            states.iter().map(|state| (state.row.id, obstacle(state, &nodes))).collect();
        let line = |counts: DefinitionCounts| Line { state: obstacles.get(&counts.def_id).copied().flatten(), counts };
        let definitions = operator.snapshot().await?.into_iter().map(line).collect();
        let time = Utc::now();
        Ok(Self {
            store: shown(&session.chosen.url),
            time,
            paused: operator.paused().await?,
            open_alerts: operator.open_alerts(1000).await?,
            definitions,
            series: operator.series(None, time - CHART + MINUTE, time, MINUTE).await?,
            nodes,
        })
    }

    /// Returns the look as text.
    pub(super) fn text(&self) -> String {
        let mut rows = Rows::new(&COLUMNS);
        for line in &self.definitions {
            rows.row(line.cells());
        }
        format!("{}\n\n{}", self.summary(), rows.text("no definitions"))
    }

    /// Returns the line above the table.
    pub(super) fn summary(&self) -> String {
        let sum = |of: fn(&Line) -> u64| self.definitions.iter().map(of).sum::<u64>();
        let count = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
        let parts = [
            count(self.nodes.len(), "node"),
            count(self.open_alerts.iter().filter(|alert| alert.since.is_some()).count(), "open alert"),
            format!("{} live", sum(|line| line.counted(NoticeCounts::live))),
            format!("{} dead", sum(|line| line.counted(|counts| counts.dead_letters))),
        ];
        let paused = self.paused.as_ref().map(|paused| format!("  PAUSED {paused}")).unwrap_or_default();
        format!("{}  {}{paused}", self.store, parts.join(", "))
    }
}

/// The header of the table. Columns of numbers begin with `#`.
pub(super) const COLUMNS: [&str; 8] =
    ["definition", "#not sent", "#failed", "#sending", "#awaiting ack", "#dead", "#oldest due", "state"];

impl Line {
    /// Returns a number of its counts; 0 for what no node has counted yet.
    pub(super) fn counted(&self, of: fn(&NoticeCounts) -> u64) -> u64 {
        self.counts.taken.as_ref().map_or(0, |(counts, _)| of(counts))
    }

    /// Returns the texts of its columns. A dash stands for what no node has counted yet.
    pub(super) fn cells(&self) -> [String; 8] {
        let counts = self.counts.taken.as_ref().map(|(counts, _)| counts);
        let number = |of: fn(&NoticeCounts) -> u64| cell(counts.map(of));
        let oldest = counts.and_then(|counts| counts.oldest_due).map(|_| age(self.counts.oldest_due_for()));
        [
            self.counts.definition.clone(),
            number(|counts| counts.not_sent),
            number(|counts| counts.failed),
            number(|counts| counts.sending),
            number(|counts| counts.awaiting_ack),
            number(|counts| counts.dead_letters),
            cell(oldest),
            self.state.unwrap_or_default().to_owned(),
        ]
    }
}

/// Returns a duration in whole seconds: `2m 5s`.
fn age(age: Duration) -> String {
    humantime::format_duration(Duration::from_secs(age.as_secs())).to_string()
}

fn obstacle(state: &DefinitionState, nodes: &[SeenNode]) -> Option<&'static str> {
    match () {
        () if !state.in_force().enabled => Some("paused"),
        () if !state.problems.is_empty() => Some("invalid"),
        () if !state.refused_by.is_empty() => Some("refused"),
        () if !state.is_handled_by(nodes) => Some("no handler"),
        () => None,
    }
}
