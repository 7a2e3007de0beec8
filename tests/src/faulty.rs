//! A store that fails on purpose, around the memory store.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use solid_notify::{Done, Notice, NoticeRecord, NotifyDef, Outbox, StoreError, Sweeper, SweeperBuilder};
use solid_notify_core::error::FaultKind;
use solid_notify_core::notice::Claimed;
use solid_notify_core::store::{
    Claim, Claims, DueTimes, Edit, Edited, Lease, Look, Node, Pulse, Purge, Settle, Settled, Store, Tick,
};
use solid_notify_testkit::conformance::Backend;
use tokio::sync::Semaphore;

use crate::memory::MemoryBackend;
use crate::sending::Calls;

/// What to do instead of a call, or with its answer.
#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    /// The call is not carried out.
    Refused(FaultKind),
    /// The call is carried out, and its answer lost.
    AnswerLost,
}

/// A store around another one, with faults to come per method, and a diary.
pub struct Faulty {
    inner: Arc<dyn Store>,
    /// Faults to come, per method.
    pub planned: Mutex<Vec<(&'static str, VecDeque<Fault>)>>,
    /// Outcomes of this notice can never be written, unless all its texts are ours.
    pub poison: Mutex<Option<i64>>,
    /// How often settles find this notice locked.
    pub locked: Mutex<Option<(i64, u32)>>,
    /// What was called, in order.
    pub diary: Calls<&'static str>,
    /// Says of each settle whether and how it is refused.
    pub settle_rule: Mutex<Option<SettleRule>>,
    /// Claims of this definition are refused.
    pub refused_definition: Mutex<Option<i64>>,
    /// Claims are carried out, and answered only with a permit of this.
    pub claim_gate: Mutex<Option<Arc<Semaphore>>>,
    /// How many outcomes were to be settled.
    pub outcomes: AtomicUsize,
}

/// Whether and how a settle is refused.
pub type SettleRule = Box<dyn Fn(&[Settle]) -> Option<FaultKind> + Send>;

impl Faulty {
    async fn pass<T>(
        &self,
        method: &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let fault = self.next_fault(method);
        if let Some(Fault::Refused(kind)) = fault {
            self.diary.note("fault");
            return Err(StoreError::new(method, kind, "refused on purpose"));
        }
        let answer = call.await;
        self.diary.note(method);
        match fault {
            Some(Fault::AnswerLost) => {
                Err(StoreError::new(method, FaultKind::Outage, "the answer was lost on purpose"))
            }
            _ => answer,
        }
    }

    fn next_fault(&self, method: &str) -> Option<Fault> {
        let mut planned = self.planned.lock().unwrap();
        planned
            .iter_mut()
            .find(|(name, _)| *name == method || *name == "all")
            .and_then(|(_, faults)| faults.pop_front())
    }

    /// Plans faults for a method, or for `all`.
    pub fn plan(&self, method: &'static str, faults: impl IntoIterator<Item = Fault>) {
        self.planned.lock().unwrap().push((method, faults.into_iter().collect()));
    }
}

#[async_trait]
impl Store for Faulty {
    async fn definitions(&self) -> Result<Vec<NotifyDef>, StoreError> {
        self.pass("definitions", self.inner.definitions()).await
    }
    async fn edit(&self, edit: &Edit, who: &str) -> Result<Edited, StoreError> {
        self.inner.edit(edit, who).await
    }
    async fn due(&self, thorough: bool) -> Result<DueTimes, StoreError> {
        self.pass("due", self.inner.due(thorough)).await
    }
    async fn tick(&self, tick: &Tick) -> Result<bool, StoreError> {
        self.inner.tick(tick).await
    }
    async fn claim(&self, claim: &Claim) -> Result<Claims, StoreError> {
        if *self.refused_definition.lock().unwrap() == Some(claim.def_id) {
            return Err(StoreError::new("claim", FaultKind::Permanent, "refused on purpose"));
        }
        let gate = self.claim_gate.lock().unwrap().clone();
        let answer = self.pass("claim", self.inner.claim(claim)).await;
        if let Some(gate) = gate
            && answer.as_ref().is_ok_and(|claims| !claims.notices.is_empty())
        {
            self.diary.note("claimed");
            gate.acquire().await.unwrap().forget();
        }
        answer
    }
    async fn look(&self, look: &Look, limit: usize) -> Result<Vec<Claimed>, StoreError> {
        self.pass("look", self.inner.look(look, limit)).await
    }
    async fn settle(&self, batch: &[Settle]) -> Result<Vec<Settled>, StoreError> {
        self.outcomes.fetch_add(batch.len(), Ordering::SeqCst);
        let refused = self.settle_rule.lock().unwrap().as_ref().and_then(|rule| rule(batch));
        if let Some(kind) = refused {
            return Err(StoreError::new("settle", kind, "refused on purpose"));
        }
        let poison = *self.poison.lock().unwrap();
        let poisoned = |settle: &&Settle| Some(settle.id) == poison && settle.errors.is_some();
        if batch.iter().find(poisoned).is_some() {
            self.diary.note("poison");
            return Err(StoreError::new("settle", FaultKind::Permanent, "invalid byte sequence"));
        }
        let locked = match &mut *self.locked.lock().unwrap() {
            Some((id, times)) if *times > 0 && batch.iter().any(|settle| settle.id == *id) => {
                *times -= 1;
                Some(*id)
            }
            _ => None,
        };
        if let Some(id) = locked {
            let (held_back, rest): (Vec<_>, Vec<_>) = batch.iter().cloned().partition(|settle| settle.id == id);
            assert_eq!(held_back.len(), 1);
            let mut answers = self.inner.settle(&rest).await?.into_iter();
            return Ok(batch
                .iter()
                .map(|settle| if settle.id == id { Settled::Locked } else { answers.next().unwrap() })
                .collect());
        }
        self.pass("settle", self.inner.settle(batch)).await
    }
    async fn extend(&self, leases: &[Lease]) -> Result<(), StoreError> {
        self.pass("extend", self.inner.extend(leases)).await
    }
    async fn find(&self, id: i64) -> Result<Option<NoticeRecord>, StoreError> {
        self.inner.find(id).await
    }
    async fn purge(&self, purge: &Purge) -> Result<Vec<i64>, StoreError> {
        self.pass("purge", self.inner.purge(purge)).await
    }
    async fn beat(&self, node: &Node) -> Result<Pulse, StoreError> {
        self.pass("beat", self.inner.beat(node)).await
    }
}

/// A memory backend, and an outbox over it that goes through the faulty store.
pub fn faulty() -> (MemoryBackend, Arc<Faulty>, Outbox) {
    let backend = MemoryBackend::default();
    let store = Arc::new(Faulty {
        inner: backend.outbox().store().clone(),
        planned: Mutex::default(),
        poison: Mutex::default(),
        locked: Mutex::default(),
        diary: Calls::default(),
        settle_rule: Mutex::default(),
        refused_definition: Mutex::default(),
        claim_gate: Mutex::default(),
        outcomes: AtomicUsize::default(),
    });
    let outbox = Outbox::new(store.clone(), Arc::clone(backend.outbox().operate()), Some(backend.clock().clone()));
    (backend, store, outbox)
}

/// A sweeper whose handler succeeds and notes the ids.
pub fn good(outbox: &Outbox) -> (SweeperBuilder, Calls<i64>) {
    let calls = Calls::default();
    let noted = calls.clone();
    let builder = Sweeper::builder(outbox).poll_interval(Duration::from_millis(50)).handler(
        "sync",
        move |notice: Notice<i64>| {
            noted.note(notice.id());
            async { Ok(Done::Ok) }
        },
    );
    (builder, calls)
}
