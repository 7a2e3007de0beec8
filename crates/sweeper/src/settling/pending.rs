//! [`Outcome`]: the result of one attempt, or of an overdue lease or ack; and how outcomes wait to be written, in batches.
//!
//! Outcomes that cannot be written, because another session has locked a row that they need, are kept apart by definition, so
//! that no outcome of another definition waits for them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::ErrorClass;
use solid_notify_core::notice::{ClaimedNotice, Response};
use solid_notify_core::store::{DecidedBy, NamedTarget, Settle, Shape};
use solid_notify_core::transition::Event;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::definitions::Ready;
use crate::sleep::pause_after;

/// The most outcomes of one batch.
pub(crate) const SETTLE_BATCH: usize = 500;
/// The most text of one batch, in bytes: less than the smallest default packet or statement limit of the servers.
const BATCH_BYTES: usize = 2 << 20;
/// What a row is counted as beside its texts, in bytes.
const ROW: usize = 300;
/// After this many transient failures a batch is halved, because one row or the size may be the cause.
const PATIENCE: u32 = 3;

/// The result of one attempt, to be settled.
pub(crate) struct Outcome {
    pub(crate) claimed: ClaimedNotice,
    /// The definition at the claim, used if its row is missing or invalid when the outcome is judged.
    pub(crate) ready: Arc<Ready>,
    pub(crate) event: Event,
    pub(crate) duration: Duration,
    /// How long the notice has waited for its ack, if that matters to the decision.
    pub(crate) waited: Duration,
    /// The class and the message of a failed attempt or of a crash.
    pub(crate) trouble: Option<(ErrorClass, String)>,
    /// The name of the error's type, if it has one of its own.
    pub(crate) error_type: Option<&'static str>,
    /// What the receiver answered, as people see it.
    pub(crate) response: Option<Response>,
    /// True if this is an overdue notice that this node judges without having claimed it.
    pub(crate) overdue: bool,
    /// True if its receiver is one of many, for which the circuit in the memory of this node has counted it.
    pub(crate) is_one_of_many: bool,
    /// The permit for a crash-looping notice, released when the outcome is stored.
    pub(crate) crash_loop_permit: Option<OwnedSemaphorePermit>,
    /// The targets to which it is passed on.
    pub(crate) pass_to: Vec<NamedTarget>,
    /// The rows of targets by which it was decided.
    pub(crate) decided_by: Option<Box<DecidedBy>>,
    /// The bytes of the parameter that each of them gets.
    pub(crate) passed: usize,
}

impl Outcome {
    pub(crate) fn new(claimed: ClaimedNotice, ready: Arc<Ready>, event: Event) -> Self {
        let (duration, waited) = (Duration::ZERO, Duration::ZERO);
        let (trouble, error_type, response, crash_loop_permit) = (None, None, None, None);
        let (overdue, is_one_of_many, pass_to, passed) = (false, false, Vec::new(), 0);
        Self {
            claimed,
            ready,
            event,
            duration,
            waited,
            trouble,
            error_type,
            response,
            overdue,
            is_one_of_many,
            crash_loop_permit,
            pass_to,
            decided_by: None,
            passed,
        }
    }

    /// Returns the outcome of a notice that is judged again, because the rows by which it was decided have changed.
    pub(super) fn judged_again(self) -> Self {
        let (event, pass_to) = (Event::HandedBack(Duration::ZERO), Vec::new());
        Self { event, pass_to, decided_by: None, trouble: None, ..self }
    }

    /// Returns the class of its error.
    pub(crate) fn class(&self) -> Option<ErrorClass> {
        self.trouble.as_ref().map(|(class, _)| *class)
    }
}

/// An outcome with its decision.
pub(super) struct Decided {
    pub(super) settle: Settle,
    pub(super) outcome: Outcome,
    /// It could not be written, and is counted for its definition ([`super::OutcomeQueue::mark_delayed`]).
    pub(super) delayed: bool,
}

impl Decided {
    pub(super) fn new(settle: Settle, outcome: Outcome) -> Self {
        Self { settle, outcome, delayed: false }
    }

    pub(super) fn def_id(&self) -> i64 {
        self.outcome.claimed.def_id
    }

    /// Returns the name of its definition when the attempt began.
    pub(super) fn definition(&self) -> &str {
        &self.outcome.ready.policy.name
    }
}

/// Decisions that are written together.
pub(super) struct Batch {
    pub(super) decided: Vec<Decided>,
    failures: u32,
    not_before: Instant,
    /// The definition of all of them, if that one's outcomes cannot be written.
    pub(super) of: Option<i64>,
}

impl Batch {
    pub(super) fn new(decided: Vec<Decided>) -> Self {
        Self { decided, failures: 0, not_before: Instant::now(), of: None }
    }

    /// Returns a batch of the remaining decisions, each of which waits for a row of its own.
    pub(super) fn with(self, decided: Vec<Decided>) -> Self {
        Self { decided, of: None, ..self }
    }

    /// Returns the batch to be tried again after a pause.
    pub(super) fn again(self) -> Self {
        let not_before = Instant::now() + pause_after(self.failures);
        Self { failures: self.failures + 1, not_before, ..self }
    }

    /// Halves the batch if it keeps failing.
    fn halved(mut self) -> impl Iterator<Item = Self> {
        let mut half = None;
        if self.failures >= PATIENCE && self.decided.len() > 1 {
            let decided = self.decided.split_off(self.decided.len() / 2);
            self.failures -= 1;
            half = Some(Self { decided, failures: self.failures, not_before: self.not_before, of: self.of });
        }
        half.into_iter().chain([self])
    }
}

/// All batches.
#[derive(Default)]
pub(super) struct Pending {
    batches: VecDeque<Batch>,
    /// The batches that were put apart, by definition. One batch of each is tried at a time, because the cause that blocks one
    /// usually blocks all of them.
    apart: BTreeMap<i64, Apart>,
}

struct Apart {
    batches: VecDeque<Batch>,
    failures: u32,
    not_before: Instant,
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Returns how many outcomes there are.
    pub(super) fn count(&self) -> usize {
        let apart = self.apart.values().flat_map(|apart| &apart.batches);
        self.batches.iter().chain(apart).map(|batch| batch.decided.len()).sum()
    }

    /// Returns when to try the next batch.
    pub(super) fn next_at(&self) -> Option<Instant> {
        let batches = self.batches.iter().map(|batch| batch.not_before);
        let apart = self.apart.values().filter(|apart| !apart.batches.is_empty());
        batches.chain(apart.map(|apart| apart.not_before)).min()
    }

    /// Takes a batch that is to be tried now; those that have not failed come first.
    pub(super) fn next(&mut self) -> Option<Batch> {
        let now = Instant::now();
        if let Some(at) = self.batches.iter().position(|batch| batch.not_before <= now) {
            return self.batches.remove(at);
        }
        let due = self.apart.values_mut().filter(|apart| apart.not_before <= now && !apart.batches.is_empty());
        due.min_by_key(|apart| apart.not_before).and_then(|apart| apart.batches.pop_front())
    }

    /// Adds decided outcomes, in batches that are written in the same way. Outcomes that raise an alert or are watched by a
    /// circuit breaker may have to wait for other nodes. Most outcomes are successes, which cost much less if a batch holds
    /// nothing else.
    pub(super) fn add(&mut self, fresh: impl Iterator<Item = Decided>) {
        let mut alike = BTreeMap::<(Shape, Option<i64>), Vec<Decided>>::new();
        for decided in fresh {
            let apart = Some(decided.def_id()).filter(|def_id| self.apart.contains_key(def_id));
            alike.entry((decided.settle.shape(), apart)).or_default().push(decided);
        }
        self.batches.extend(alike.into_values().flat_map(|decided| cut(decided.into_iter())));
    }

    /// Puts back a batch, or the rest of it, after a failure that concerns any outcome.
    pub(super) fn put_back(&mut self, batch: Batch) {
        match batch.of {
            Some(def_id) => self.put_apart(def_id, batch),
            None => self.batches.extend(batch.halved()),
        }
    }

    /// Puts back a batch whose outcomes cannot be written although the store answers, split by definition.
    pub(super) fn put_back_apart(&mut self, mut batch: Batch) {
        let mut by_def = BTreeMap::<i64, Vec<Decided>>::new();
        for decided in std::mem::take(&mut batch.decided) {
            by_def.entry(decided.def_id()).or_default().push(decided);
        }
        let (failures, not_before) = (batch.failures, batch.not_before);
        for (def_id, decided) in by_def {
            self.put_apart(def_id, Batch { decided, failures, not_before, of: Some(def_id) });
        }
    }

    fn put_apart(&mut self, def_id: i64, batch: Batch) {
        let now = Instant::now();
        let apart =
            self.apart.entry(def_id).or_insert(Apart { batches: VecDeque::new(), failures: 0, not_before: now });
        apart.not_before = now + pause_after(apart.failures);
        apart.failures += 1;
        apart.batches.extend(batch.halved());
    }

    /// Records that a batch of a definition put apart was written: its other batches may succeed too.
    pub(super) fn goes_on(&mut self, def_id: i64) {
        if let Some(apart) = self.apart.get_mut(&def_id) {
            (apart.failures, apart.not_before) = (0, Instant::now());
        }
        self.apart.retain(|_, apart| !apart.batches.is_empty());
    }

    /// Puts decisions before all others.
    pub(super) fn put_first(&mut self, decided: Vec<Decided>) {
        self.batches.push_front(Batch::new(decided));
    }
}

/// Cuts decisions into batches of a bounded number and size.
fn cut(decided: impl Iterator<Item = Decided>) -> Vec<Batch> {
    let mut batches = Vec::new();
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for decided in decided {
        let Settle { errors, description, response, .. } = &decided.settle;
        let texts = [errors, description, response].into_iter().flatten().map(String::len).sum::<usize>();
        // Each target gets a notice.
        let size = ROW + texts + decided.settle.pass_to.len() * (ROW + decided.outcome.passed);
        if !batch.is_empty() && (batch.len() == SETTLE_BATCH || bytes + size > BATCH_BYTES) {
            batches.push(Batch::new(std::mem::take(&mut batch)));
            bytes = 0;
        }
        bytes += size;
        batch.push(decided);
    }
    if !batch.is_empty() {
        batches.push(Batch::new(batch));
    }
    batches
}
