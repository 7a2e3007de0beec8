//! The targets and their reasons: a table. A workload without a row is measured and not compared.
//!
//! A target that a guarantee forbids yields to the guarantee: then what the guarantee costs any SQL that gives it is measured,
//! too, and what is left must reach the target.

use serde::Serialize;

use crate::databases::Product;
use crate::workloads::{Backlog, Figures, Latency, Workload};

/// A result that a workload must reach.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Target {
    /// The least ratio to the other side.
    Ratio(f64),
    /// The least rate per second.
    Rate {
        /// Per second.
        rate: f64,
    },
    /// The longest times.
    Latency {
        /// The longest median.
        p50_ms: f64,
        /// The longest 99th percentile.
        p99_ms: f64,
    },
    /// The cost of a large backlog, which must not grow on the way.
    Backlog {
        /// The highest peak of resident memory.
        rss_mib: f64,
        /// The mean resident memory in the last quarter may be so many times that in the second. Not the first: a process
        /// takes its memory while it starts.
        rss_growth: f64,
        /// The least rate in the last quarter, in relation to the first.
        rate_slope: f64,
    },
}

/// A target that is reached but for what a guarantee costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Yields {
    /// The guarantee.
    pub to: &'static str,
    /// The result without the cost of the guarantee: a ratio, or the median in milliseconds.
    pub left: f64,
}

/// The tables keep the order of a key, allow a dedupe key once, and refuse a status or a time that would hide a notice. The
/// raw side's tables do none of that.
const TABLES: &str = "the tables' keys and checks, which raw SQL on the same tables keeps as well";
/// Without this guarantee a crash of the server gives two senders the same attempt.
const DURABLE: &str = "a claim that is on the disk before its handler runs, which raw SQL waits for as well";

use Product::{Mariadb, Postgres, Sqlite};
use Workload::{
    AddMany, Backlog as Many, DeadTarget, Drain, DrainNoHistory, EnqueueTx, HeldXmin, Latency as Late, Steady,
};

const TARGETS: &[(Product, Workload, Target)] = &[
    // The cost inside the business transaction: a check of the definition, a returned id, a checked commit.
    (Postgres, EnqueueTx, Target::Ratio(0.90)),
    // As in a running system, adding and sending share the machine.
    (Postgres, Steady, Target::Ratio(0.90)),
    // History has more columns than the raw one, and every outcome is fenced and judged by its definition.
    (Postgres, Drain, Target::Ratio(0.70)),
    (Postgres, DrainNoHistory, Target::Ratio(0.90)),
    // "At once" for a person and for most machines; a poll would take a hundred times as long.
    (Postgres, Late, Target::Latency { p50_ms: 0.5, p99_ms: 1.5 }),
    // A sweeper reads no more than it sends; what it needs must not depend on how much waits.
    (Postgres, Many, Target::Backlog { rss_mib: 150.0, rss_growth: 1.05, rate_slope: 0.80 }),
    // A forgotten open transaction must not stop the queue.
    (Postgres, HeldXmin, Target::Ratio(0.80)),
    // A receiver that hangs must not slow down the others.
    (Postgres, DeadTarget, Target::Ratio(0.95)),
    (Mariadb, DeadTarget, Target::Ratio(0.95)),
    (Sqlite, DeadTarget, Target::Ratio(0.95)),
    // A nightly job with a million notices spends twenty seconds on them.
    (Postgres, AddMany, Target::Rate { rate: 50_000.0 }),
    // The fewer statements a driver's round trip carries, the more each of ours weighs.
    (Sqlite, EnqueueTx, Target::Ratio(0.85)),
    (Sqlite, Steady, Target::Ratio(0.85)),
    (Mariadb, EnqueueTx, Target::Ratio(0.85)),
    (Mariadb, Steady, Target::Ratio(0.85)),
];

impl Target {
    /// Returns the target of a workload on a database.
    pub fn of(product: Product, workload: Workload) -> Option<Self> {
        let mut rows = TARGETS.iter();
        rows.find(|row| (row.0, row.1) == (product, workload)).map(|row| row.2)
    }

    /// Whether it is reached.
    pub fn is_reached(self, figures: &Figures) -> bool {
        match (self, figures) {
            (Self::Ratio(least), Figures::Compared(compared)) => compared.ratio >= least,
            (Self::Latency { p50_ms, p99_ms }, Figures::Latency(Latency { p50_ms: p50, p99_ms: p99, .. })) => {
                *p50 <= p50_ms && *p99 <= p99_ms
            }
            (Self::Rate { rate }, Figures::Rate(it)) => it.ours >= rate,
            (Self::Backlog { rss_mib, rss_growth, rate_slope }, Figures::Backlog(it)) => {
                it.rss_mib < rss_mib && is_level(it, rss_growth, rate_slope)
            }
            _ => false,
        }
    }

    /// Whether it is reached without the cost of a guarantee; `like_ours`: the ratio to raw SQL on tables like ours.
    pub fn yields(self, figures: &Figures, like_ours: Option<&Figures>) -> Option<Yields> {
        match (self, figures, like_ours) {
            (Self::Ratio(least), _, Some(Figures::Compared(it))) if it.ratio >= least => {
                Some(Yields { to: TABLES, left: it.ratio })
            }
            (Self::Latency { p50_ms, p99_ms }, Figures::Latency(it), _) => {
                let left = it.p50_ms - (it.raw_p50_ms - it.raw_unforced_p50_ms?);
                (left <= p50_ms && it.p99_ms <= p99_ms).then_some(Yields { to: DURABLE, left })
            }
            _ => None,
        }
    }
}

fn is_level(backlog: &Backlog, rss_growth: f64, least_rate: f64) -> bool {
    let rss = backlog.second_quarter_rss_mib.zip(backlog.last_quarter_rss_mib);
    rss.is_some_and(|(second, last)| last <= second * rss_growth)
        && backlog.rate_slope.is_some_and(|it| it >= least_rate)
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ratio(least) => write!(f, "≥ {least:.2}"),
            Self::Rate { rate } => write!(f, "≥ {rate}/s"),
            Self::Backlog { rss_mib, .. } => write!(f, "< {rss_mib} MiB, level"),
            Self::Latency { p50_ms, p99_ms } => write!(f, "≤ {p50_ms} / {p99_ms} ms"),
        }
    }
}
