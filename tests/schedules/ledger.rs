//! The record of a schedule, as seen from outside of the product.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use solid_notify::{Alert, NoticeRecord, Status};

use crate::link::SOONER;
use crate::plan::{GRACE, Plan, TIMEOUT};

/// Times are of the schedule: since its start.
pub type Time = Duration;

pub struct Ledger {
    pub plan: Plan,
    pub committed: BTreeMap<i64, Committed>,
    pub rolled_back: BTreeSet<i64>,
    /// Every call of a handler, in order.
    pub runs: Vec<Run>,
    /// Every attempt that the store gave to a node.
    pub claims: Vec<ClaimRecord>,
    /// Nodes that were killed, or ended without the reply to a claim.
    pub gone: BTreeSet<usize>,
    pub kills: usize,
    /// Nodes that were killed.
    pub killed: BTreeSet<usize>,
    /// When the shutdown of a node began.
    pub shut_down: BTreeMap<usize, Duration>,
    pub lost_answers: usize,
    /// Settles of notices that another node had claimed meanwhile.
    pub outdone: usize,
    /// Acks that the store took.
    pub answers: BTreeSet<i64>,
    pub cancelled: BTreeSet<i64>,
    /// Notices of which an attempt met its time-out and the end of a shutdown's grace in the same moment: either may have ended it.
    pub ended_by_either: BTreeSet<i64>,
    /// Alerts by the id of their notice, each as it was sent last.
    pub told: BTreeMap<i64, Alert>,
    /// The notices of each tick of the timetable, as their handler saw them, by the tick's second.
    pub ticks: BTreeMap<u64, BTreeSet<i64>>,
    /// How often the circuit was opened.
    pub opened: usize,
    /// From when on the edited definition has no more retries on any node.
    pub edited: Option<Time>,
    /// When the shutdown of the last sweepers began.
    pub lasted: Time,
    /// Promises that broke during the schedule.
    pub broken: Vec<String>,
    /// The state of each notice and each alert at the end, if its row exists.
    pub ended: BTreeMap<i64, NoticeRecord>,
    pub alerts: BTreeMap<i64, NoticeRecord>,
    story: String,
}

/// A notice that was committed.
pub struct Committed {
    pub definition: &'static str,
    pub key: Option<String>,
    pub dedupe: Option<String>,
    pub at: Time,
}

/// One call of a handler.
pub struct Run {
    pub id: i64,
    pub fence: i64,
    pub node: usize,
    pub began: Time,
    /// When and how it ended, unless its process was killed.
    pub ended: Option<(Time, Fate)>,
}

/// An attempt that the store gave to a node.
pub struct ClaimRecord {
    pub id: i64,
    pub fence: i64,
    pub node: usize,
    pub at: Time,
}

/// How a call of a handler ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Delivered,
    Failed,
    /// It asks to be retried at a time of its own.
    Postponed,
    GaveUp,
    /// Of a class that is not retried by default.
    Refused,
    /// Of a class of its own.
    Busy,
    Skipped,
    Panicked,
    /// It does not return within its time-out.
    Hangs,
}

impl Fate {
    /// True for an attempt that failed.
    pub fn fails(self) -> bool {
        !matches!(self, Self::Delivered | Self::Skipped)
    }

    /// True where the next notice would fail, too: such failures count for a circuit breaker.
    pub fn is_of_target(self) -> bool {
        self.fails() && self != Self::GaveUp
    }
}

impl Ledger {
    pub fn new(plan: Plan) -> Self {
        Self {
            plan,
            committed: BTreeMap::new(),
            rolled_back: BTreeSet::new(),
            runs: Vec::new(),
            claims: Vec::new(),
            gone: BTreeSet::new(),
            kills: 0,
            killed: BTreeSet::new(),
            shut_down: BTreeMap::new(),
            lost_answers: 0,
            outdone: 0,
            answers: BTreeSet::new(),
            cancelled: BTreeSet::new(),
            ended_by_either: BTreeSet::new(),
            told: BTreeMap::new(),
            ticks: BTreeMap::new(),
            opened: 0,
            edited: None,
            lasted: Time::ZERO,
            broken: Vec::new(),
            ended: BTreeMap::new(),
            alerts: BTreeMap::new(),
            story: String::new(),
        }
    }

    /// Notes a run that hangs, if its time-out comes in the same moment as the end of a shutdown's grace.
    pub fn note_end_by_either(&mut self, run: usize) {
        let Run { id, node, began, .. } = self.runs[run];
        let given_up = self.shut_down.get(&node).map(|began| *began + GRACE);
        if given_up.is_some_and(|given_up| given_up.abs_diff(began + TIMEOUT) <= 2 * SOONER) {
            self.ended_by_either.insert(id);
        }
    }

    /// Writes down what happened.
    pub fn tell(&mut self, at: Time, what: impl std::fmt::Display) {
        writeln!(self.story, "{:>9.3} {what}", at.as_secs_f64()).unwrap();
    }

    pub fn story(&self) -> &str {
        &self.story
    }

    pub fn dead_letters(&self) -> impl Iterator<Item = (&i64, &NoticeRecord)> {
        self.ended.iter().filter(|(_, record)| record.status == Status::DeadLetter)
    }

    /// The definition of a committed notice.
    pub fn definition(&self, id: i64) -> &'static str {
        self.committed.get(&id).map_or("", |committed| committed.definition)
    }

    /// The attempts of a definition that the store gave, in order.
    pub fn claims_of(&self, definition: &str) -> impl Iterator<Item = &ClaimRecord> {
        self.claims.iter().filter(move |claim| self.definition(claim.id) == definition)
    }

    pub fn runs_of(&self, id: i64) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.id == id)
    }
}
