//! The evidence at the end of a run: the records of producers and handlers, and the final rows.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;

use serde::Deserialize;
use test_support::journal::Event;

/// A row of history.
#[derive(Debug, Clone)]
pub struct Row {
    pub id: i64,
    pub status: i64,
    pub fence: i64,
    pub failures: i64,
    pub crashes: i64,
    pub token: String,
    pub errors: Vec<Recorded>,
}

/// An attempt that did not succeed, from the row.
#[derive(Debug, Clone, Deserialize)]
pub struct Recorded {
    pub fence: i64,
    pub class: String,
    /// The worker's id, which begins with the name of its process.
    pub node: String,
}

impl Recorded {
    pub fn is_crash(&self) -> bool {
        self.class == "crash"
    }

    /// The process that made the attempt.
    pub fn process(&self) -> &str {
        self.node.split('-').next().unwrap_or_default()
    }
}

/// The producer's record of a notice.
#[derive(Debug, Clone)]
pub struct Made {
    pub token: String,
    pub def: String,
    pub key: Option<String>,
    pub fate: Fate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// With its id.
    Committed(i64),
    RolledBack,
    /// The reply to the commit was lost, or the process was killed before it recorded the end.
    Maybe,
}

impl Made {
    /// The transaction: notices of one share their fate.
    pub fn transaction(&self) -> &str {
        self.token.rsplit_once('.').map_or("", |(transaction, _)| transaction)
    }
}

/// A call of a handler. Moments are places in the journal.
#[derive(Debug, Clone)]
pub struct Call {
    pub fence: i64,
    pub token: String,
    pub node: String,
    pub began: usize,
    /// The verdict, and when; none where the process was killed during the call.
    pub ended: Option<(usize, bool)>,
}

#[derive(Debug)]
pub struct Evidence {
    /// In the order in which they were begun.
    pub made: Vec<Made>,
    /// By the notice's id, in the order in which they began.
    pub calls: BTreeMap<i64, Vec<Call>>,
    /// The killed processes, and when each was dead.
    pub killed: HashMap<String, usize>,
    pub history: Vec<Row>,
    /// Ids that are still in `notify_msg`.
    pub live: Vec<i64>,
    /// The least and the highest `max_retry_times` that each definition had, by its first name.
    pub limits: HashMap<String, RangeInclusive<i64>>,
    /// Contradictions: a handler's end without its begin.
    pub nonsense: Vec<String>,
}

impl Evidence {
    pub fn new(
        journal: &[Event],
        history: Vec<Row>,
        live: Vec<i64>,
        limits: HashMap<String, RangeInclusive<i64>>,
    ) -> Self {
        let mut evidence = Self {
            made: Vec::new(),
            calls: BTreeMap::new(),
            killed: HashMap::new(),
            history,
            live,
            limits,
            nonsense: Vec::new(),
        };
        let mut places = HashMap::new();
        for (now, event) in journal.iter().enumerate() {
            evidence.read(now, event, &mut places);
        }
        evidence
    }

    fn read(&mut self, now: usize, event: &Event, places: &mut HashMap<String, usize>) {
        match event.clone() {
            Event::Begun { token, def, key } => {
                places.insert(token.clone(), self.made.len());
                self.made.push(Made { token, def, key, fate: Fate::Maybe });
            }
            Event::Committed { token, id } => self.made[places[&token]].fate = Fate::Committed(id),
            Event::RolledBack { token } => self.made[places[&token]].fate = Fate::RolledBack,
            Event::Called { token, id, fence, node } => {
                self.calls.entry(id).or_default().push(Call { fence, token, node, began: now, ended: None });
            }
            Event::Ended { id, fence, ok } => {
                let calls = self.calls.entry(id).or_default();
                match calls.iter_mut().rev().find(|call| call.fence == fence && call.ended.is_none()) {
                    Some(call) => call.ended = Some((now, ok)),
                    None => self.nonsense.push(format!("attempt {fence} of notice {id} ended and was not begun")),
                }
            }
            Event::Killed { node } => {
                self.killed.insert(node, now);
            }
            Event::Unknown { .. } | Event::Refused { .. } | Event::Exhausted { .. } | Event::Phase { .. } => {}
        }
    }

    pub fn calls_of(&self, id: i64) -> &[Call] {
        self.calls.get(&id).map_or(&[], Vec::as_slice)
    }

    /// When a call was over: when its handler ended, or its process. None: it may be going on.
    pub fn end_of(&self, call: &Call) -> Option<usize> {
        call.ended.map(|(end, _)| end).or_else(|| self.killed.get(&call.node).copied())
    }

    /// The tokens of what is in history.
    pub fn tokens(&self) -> HashSet<&str> {
        self.history.iter().map(|row| &*row.token).collect()
    }
}
