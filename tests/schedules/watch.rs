//! Watches the changes of the store at the moment that they happen: which node has which attempt, what an outcome changed, and
//! whether the limits over all nodes were kept. It has a second implementation of the circuit breaker, written after its docs.

use std::sync::atomic::Ordering;
use std::time::Duration;

use solid_notify::{NoticeRecord, Status};
use solid_notify_core::notice::ClaimedNotice as Given;
use solid_notify_core::store::{CRASH_LOOP, Settle, Settled};

use crate::ledger::{ClaimRecord, Fate, Ledger, Time};
use crate::plan::{AT_ONCE, FAILURES, FRAGILE, LEASE, PACED, PAUSE, PER, RATE, SWITCHED, WINDOWED, is_open};
use crate::world::{Node, World};

/// After this time an edit of a definition is in force (G6), and the claims from before it were executed.
pub const IN_FORCE: Duration = Duration::from_millis(5_100);
/// The store counts in milliseconds.
const ROUNDED: Duration = Duration::from_millis(2);
/// The time from the check of a window to the claim: two ways, which are slow when there are faults.
const ASKED: (Duration, Duration) = (Duration::from_millis(30), Duration::from_secs(13));

/// The expected circuit of the fragile definition.
#[derive(Default)]
pub struct Circuit {
    failures: u32,
    /// From this time on a probe may be sent.
    until: Option<Time>,
    probe: Option<i64>,
}

/// Whether a notice is in the state in which this outcome of it was decided.
pub fn is_held(settle: &Settle, stored: Option<&NoticeRecord>) -> bool {
    stored.is_some_and(|record| record.fence == settle.fence && record.status == settle.from)
}

impl World {
    /// The store gave this attempt to a node.
    pub async fn claimed(&self, node: &Node, given: &Given) {
        let now = self.now();
        let (id, fence) = (given.id, given.fence);
        self.tell(format_args!("node {} has {id} (attempt {fence})", node.number));
        let mut before = Vec::new();
        if let Some(key) = &given.ordering_key {
            let same: Vec<i64> = {
                let ledger = self.ledger();
                let same = ledger.committed.range(..id).filter(|(_, other)| other.key.as_ref() == Some(key));
                same.map(|(id, _)| *id).collect()
            };
            before = self.stand(same.into_iter()).await;
        }
        let definition = self.ledger().definition(id);
        let crash_looping = if given.crashes >= CRASH_LOOP { self.crash_looping(&given.worker).await } else { 0 };
        let sending = if definition == PACED { self.sending(PACED).await } else { 0 };
        let mut ledger = self.ledger();
        if node.dead.load(Ordering::Relaxed) || node.stopped.load(Ordering::Relaxed) {
            ledger.gone.insert(node.number);
        }
        if ledger.claims.iter().any(|claim| (claim.id, claim.fence) == (id, fence)) {
            ledger.broken.push(format!("G3: attempt {fence} of notice {id} was given twice"));
        }
        if let Some(first) = before.iter().flatten().find(|record| !record.status.is_final()) {
            ledger.broken.push(format!("notice {id} went before {} of its key", first.id));
        }
        // A node does not send notices of a claim whose reply was lost.
        if crash_looping > 1 && ledger.plan.faults == 0.0 {
            ledger.broken.push(format!("node {} was given {id} beside another one that may kill it", node.number));
        }
        if sending > AT_ONCE {
            ledger.broken.push(format!("{sending} of {PACED} are being sent at {now:?}"));
        }
        let calm = ledger.plan.faults == 0.0;
        for (what, since) in [(SWITCHED, &self.switched_off), ("", &self.paused)] {
            let since = *since.lock().unwrap();
            if calm && since.is_some_and(|since| now > since + IN_FORCE) && (what.is_empty() || definition == what) {
                ledger
                    .broken
                    .push(format!("G6: notice {id} was claimed at {now:?}, after {definition} or all was off"));
            }
        }
        if definition == WINDOWED && !is_open(now, if calm { ASKED.0 } else { ASKED.1 }) {
            ledger.broken.push(format!("notice {id} was claimed at {now:?}, outside of its window"));
        }
        if definition == FRAGILE {
            self.probes(&mut ledger, id);
        }
        ledger.claims.push(ClaimRecord { id, fence, node: node.number, at: now });
        if definition == PACED {
            let begun: Vec<Time> = ledger.claims_of(PACED).map(|claim| claim.at).collect();
            let first = begun.len().checked_sub(RATE + 1).map(|nth| begun[nth]);
            if first.is_some_and(|first| now + ROUNDED < first + PER) {
                ledger.broken.push(format!("more than {RATE} of {PACED} began within {PER:?} before {now:?}"));
            }
        }
    }

    /// Returns how many crash-looping notices a node is sending.
    async fn crash_looping(&self, worker: &str) -> usize {
        let ids: Vec<i64> = self.ledger().committed.keys().copied().collect();
        let records = self.stand(ids.into_iter()).await;
        let is = |record: &&NoticeRecord| {
            record.crashes >= CRASH_LOOP && record.status == Status::Sending && record.worker.as_deref() == Some(worker)
        };
        records.iter().flatten().filter(is).count()
    }

    async fn sending(&self, definition: &str) -> usize {
        let ids: Vec<i64> = {
            let ledger = self.ledger();
            ledger.committed.iter().filter(|(_, other)| other.definition == definition).map(|(id, _)| *id).collect()
        };
        let records = self.stand(ids.into_iter()).await;
        records.iter().flatten().filter(|record| record.status == Status::Sending).count()
    }

    /// A claim of the fragile definition: where the circuit is open it has to be the one probe.
    fn probes(&self, ledger: &mut Ledger, id: i64) {
        let now = self.now();
        let mut circuit = self.circuit.lock().unwrap();
        let Some(until) = circuit.until else { return };
        if now + ROUNDED < until {
            let probe = circuit.probe;
            ledger
                .broken
                .push(format!("notice {id} was claimed at {now:?}, though the circuit is open (probe: {probe:?})"));
        }
        (circuit.until, circuit.probe) = (Some(now + LEASE), Some(id));
    }

    /// The states of notices.
    pub async fn stand(&self, ids: impl Iterator<Item = i64>) -> Vec<Option<NoticeRecord>> {
        let mut records = Vec::new();
        for id in ids {
            records.push(self.stores().browse.find(id).await.unwrap());
        }
        records
    }

    /// The store executed a settle: it may have changed the settled notices, and nothing else.
    pub fn settled(
        &self,
        settle: &Settle,
        answer: Settled,
        before: Option<&NoticeRecord>,
        after: Option<&NoticeRecord>,
    ) {
        let held = is_held(settle, before);
        let (id, fence) = (settle.id, settle.fence);
        let mut ledger = self.ledger();
        if matches!(answer, Settled::LostLease | Settled::Ended(_)) {
            ledger.outdone += 1;
        }
        if !held && before != after {
            ledger.broken.push(format!("G3: a late outcome of attempt {fence} changed notice {id}"));
        }
        let now = self.now();
        ledger.tell(now, format_args!("{id} (attempt {fence}) is settled: {:?}, {answer:?}", settle.transition));
        if !held || before == after || answer != Settled::Stored {
            return;
        }
        let began = ledger.claims.iter().find(|claim| (claim.id, claim.fence) == (id, fence)).map(|claim| claim.at);
        if settle.overdue && settle.from == Status::Sending && began.is_some_and(|began| now + ROUNDED < began + LEASE)
        {
            ledger
                .broken
                .push(format!("G3: attempt {fence} of notice {id} was taken for dead before its lease had ended"));
        }
        if ledger.definition(id) == FRAGILE && settle.from == Status::Sending {
            let fate = ledger.runs_of(id).find(|run| run.fence == fence).and_then(|run| run.ended);
            let failed = before.is_some_and(|before| settle.transition.failures > before.failures);
            self.shows(
                &mut ledger,
                id,
                fate.map(|(_, fate)| fate).filter(|fate| !settle.overdue && fate.fails() == failed),
            );
        }
    }

    /// The end of an attempt of the fragile definition; none where there was no real one.
    fn shows(&self, ledger: &mut Ledger, id: i64, fate: Option<Fate>) {
        let now = self.now();
        let mut circuit = self.circuit.lock().unwrap();
        let is_probe = circuit.until.is_some() && circuit.probe == Some(id);
        match fate {
            Some(Fate::Delivered) => *circuit = Circuit::default(),
            Some(fate) if fate.is_of_target() && (is_probe || circuit.until.is_none()) => {
                circuit.failures += 1;
                if circuit.failures >= FAILURES {
                    ledger.opened += usize::from(circuit.until.is_none());
                    (circuit.until, circuit.probe) = (Some(now + PAUSE), None);
                }
            }
            _ if is_probe => (circuit.until, circuit.probe) = (Some(now), None),
            _ => {}
        }
    }
}
