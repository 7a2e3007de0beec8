//! A store that fails on purpose, around the memory store.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use solid_notify_conformance::Backend;
use solid_notify_core::alert::AlertReason;
use solid_notify_core::alert::cooldown::{AlertFacts, AlertRow};
use solid_notify_core::alert::silence::AlertChange;
use solid_notify_core::definition::StoredVersion;
use solid_notify_core::engine::Engine;
use solid_notify_core::error::FaultKind;
use solid_notify_core::error::StoreError;
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::store::{
    Advanced, AlertStep, AlertStore, Authority, Claim, Claims, ClusterView, DefinitionStore, DueTimes, Edit, Edited,
    Lease, Look, Node, PassOn, PassedOn, Purge, Purged, SendLimits, SendStore, SeriesRow, Settle, Settled, Stores,
    Tick,
};
use solid_notify_core::{AnyOutbox, NotifyDef};
use solid_notify_sweeper::{Notice, OutboxExt, SweeperBuilder};
use tokio::sync::Semaphore;

use crate::memory::MemoryBackend;
use crate::sending::Calls;

/// A fault of one call.
#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    /// The call is not carried out.
    Refused(FaultKind),
    /// The call is executed, and its reply is lost.
    AnswerLost,
}

/// A store around another one, with planned faults per method, and a list of the calls.
pub struct Faulty {
    inner: Stores,
    /// Planned faults, per method.
    pub planned: Mutex<Vec<(&'static str, VecDeque<Fault>)>>,
    /// Outcomes of this notice can never be stored, unless all its texts are ours.
    pub poison: Mutex<Option<i64>>,
    /// How often settles find this notice locked.
    pub locked: Mutex<Option<(i64, u32)>>,
    /// What was called, in order.
    pub diary: Calls<&'static str>,
    /// Returns for each settle whether and how it is refused.
    pub settle_rule: Mutex<Option<SettleRule>>,
    /// Claims of this definition are refused.
    pub refused_definition: Mutex<Option<(i64, FaultKind)>>,
    /// How long a look and a reading of the definitions take.
    pub look_takes: Mutex<Duration>,
    /// Calls of this method never return.
    pub hangs: Mutex<Option<&'static str>>,
    /// Claims are executed, and return only with a permit of this.
    pub claim_gate: Mutex<Option<Arc<Semaphore>>>,
    /// Settles return only with a permit of this.
    pub settle_gate: Mutex<Option<Arc<Semaphore>>>,
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
        if matches!(method, "due" | "definitions") {
            let takes = *self.look_takes.lock().unwrap_or_else(PoisonError::into_inner);
            tokio::time::sleep(takes).await;
        }
        let hangs = *self.hangs.lock().unwrap();
        if hangs == Some(method) {
            std::future::pending::<()>().await;
        }
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

    /// How often a method was carried out, or how many calls ended with a `fault`.
    pub fn called(&self, method: &str) -> usize {
        self.diary.all().iter().filter(|call| **call == method).count()
    }

    /// Plans faults for a method, or for `all`.
    pub fn plan(&self, method: &'static str, faults: impl IntoIterator<Item = Fault>) {
        self.planned.lock().unwrap().push((method, faults.into_iter().collect()));
    }
}

#[async_trait]
impl SendStore for Faulty {
    async fn now(&self) -> Result<DateTime<Utc>, StoreError> {
        self.pass("now", self.inner.send.now()).await
    }

    async fn due(&self, thorough: bool) -> Result<DueTimes, StoreError> {
        self.pass("due", self.inner.send.due(thorough)).await
    }

    async fn tick(&self, tick: &Tick) -> Result<Advanced, StoreError> {
        self.pass("tick", self.inner.send.tick(tick)).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claims, StoreError> {
        let refused = *self.refused_definition.lock().unwrap();
        if let Some((_, kind)) = refused.filter(|(def_id, _)| *def_id == claim.def_id) {
            return Err(StoreError::new("claim", kind, "refused on purpose"));
        }
        let gate = self.claim_gate.lock().unwrap().clone();
        let answer = self.pass("claim", self.inner.send.claim(claim)).await;
        if let Some(gate) = gate
            && answer.as_ref().is_ok_and(|claims| !claims.notices.is_empty())
        {
            self.diary.note("claimed");
            gate.acquire().await.unwrap().forget();
        }
        answer
    }

    async fn look(&self, look: &Look, limit: usize) -> Result<Vec<ClaimedNotice>, StoreError> {
        self.pass("look", self.inner.send.look(look, limit)).await
    }

    async fn param_bytes(&self, claimed: &ClaimedNotice) -> Result<Option<usize>, StoreError> {
        self.pass("param_bytes", self.inner.send.param_bytes(claimed)).await
    }

    async fn param(&self, claimed: &ClaimedNotice) -> Result<Option<String>, StoreError> {
        self.pass("param", self.inner.send.param(claimed)).await
    }

    async fn authority(&self, id: i64) -> Result<Option<Authority>, StoreError> {
        self.pass("authority", self.inner.send.authority(id)).await
    }

    async fn use_authority(&self, claimed: &ClaimedNotice) -> Result<Option<Authority>, StoreError> {
        self.pass("use_authority", self.inner.send.use_authority(claimed)).await
    }

    async fn settle(&self, batch: &[Settle]) -> Result<Vec<Settled>, StoreError> {
        self.outcomes.fetch_add(batch.len(), Ordering::SeqCst);
        let gate = self.settle_gate.lock().unwrap().clone();
        if let Some(gate) = gate {
            gate.acquire().await.unwrap().forget();
        }
        let refused =
            self.settle_rule.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(|rule| rule(batch));
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
            let (suppressed, rest): (Vec<_>, Vec<_>) = batch.iter().cloned().partition(|settle| settle.id == id);
            assert_eq!(suppressed.len(), 1);
            let mut answers = self.inner.send.settle(&rest).await?.into_iter();
            return Ok(batch
                .iter()
                .map(|settle| if settle.id == id { Settled::Locked } else { answers.next().unwrap() })
                .collect());
        }
        self.pass("settle", self.inner.send.settle(batch)).await
    }

    async fn pass_on(&self, part: &PassOn) -> Result<PassedOn, StoreError> {
        self.pass("pass_on", self.inner.send.pass_on(part)).await
    }

    async fn extend(&self, leases: &[Lease]) -> Result<Vec<i64>, StoreError> {
        self.pass("extend", self.inner.send.extend(leases)).await
    }

    async fn purge(&self, purge: &Purge) -> Result<Vec<Purged>, StoreError> {
        self.pass("purge", self.inner.send.purge(purge)).await
    }

    async fn write_series(&self, node: &str, rows: &[SeriesRow]) -> Result<(), StoreError> {
        self.pass("write_series", self.inner.send.write_series(node, rows)).await
    }

    async fn beat(&self, node: &Node) -> Result<ClusterView, StoreError> {
        self.pass("beat", self.inner.send.beat(node)).await
    }
}

#[async_trait]
impl DefinitionStore for Faulty {
    async fn definitions(&self) -> Result<Vec<NotifyDef>, StoreError> {
        self.pass("definitions", self.inner.definitions.definitions()).await
    }

    async fn edit(&self, edit: &Edit, who: &str) -> Result<Edited, StoreError> {
        self.inner.definitions.edit(edit, who).await
    }

    async fn versions(&self, def_id: i64, up_to: i64, limit: usize) -> Result<Vec<StoredVersion>, StoreError> {
        self.inner.definitions.versions(def_id, up_to, limit).await
    }

    async fn last_versions(&self) -> Result<Vec<StoredVersion>, StoreError> {
        self.inner.definitions.last_versions().await
    }

    async fn remember(&self, rows: &[NotifyDef], seen_by: &str) -> Result<bool, StoreError> {
        self.inner.definitions.remember(rows, seen_by).await
    }

    async fn send_limits(&self) -> Result<SendLimits, StoreError> {
        self.inner.definitions.send_limits().await
    }

    async fn store_id(&self) -> Result<Option<i64>, StoreError> {
        self.inner.definitions.store_id().await
    }
}

#[async_trait]
impl AlertStore for Faulty {
    async fn due_alerts(&self, limit: usize) -> Result<Vec<(i64, AlertReason)>, StoreError> {
        self.inner.alerts.due_alerts(limit).await
    }

    async fn alert(&self, def_id: i64, reason: AlertReason) -> Result<Option<(AlertRow, AlertFacts)>, StoreError> {
        self.inner.alerts.alert(def_id, reason).await
    }

    async fn advance_alert(&self, step: &AlertStep) -> Result<Advanced, StoreError> {
        self.pass("advance_alert", self.inner.alerts.advance_alert(step)).await
    }

    async fn alerts(&self, limit: usize) -> Result<Vec<(i64, AlertReason, AlertRow)>, StoreError> {
        self.inner.alerts.alerts(limit).await
    }

    async fn change_alerts(&self, change: &AlertChange, who: &str) -> Result<bool, StoreError> {
        self.inner.alerts.change_alerts(change, who).await
    }
}

/// A memory backend, and an outbox over it that goes through the faulty store.
pub fn faulty() -> (MemoryBackend, Arc<Faulty>, AnyOutbox) {
    let backend = MemoryBackend::default();
    let store = Arc::new(Faulty {
        inner: backend.outbox().engine().stores().clone(),
        planned: Mutex::default(),
        poison: Mutex::default(),
        locked: Mutex::default(),
        diary: Calls::default(),
        settle_rule: Mutex::default(),
        look_takes: Mutex::default(),
        hangs: Mutex::default(),
        claim_gate: Mutex::default(),
        settle_gate: Mutex::default(),
        refused_definition: Mutex::default(),
        outcomes: AtomicUsize::default(),
    });
    let outbox = AnyOutbox::over(Engine::new(
        Stores {
            send: store.clone(),
            definitions: store.clone(),
            alerts: store.clone(),
            ..backend.outbox().engine().stores().clone()
        },
        Some(backend.clock().clone()),
    ));
    (backend, store, outbox)
}

/// Builds a sweeper whose handler succeeds and records the ids.
pub fn good(outbox: &AnyOutbox) -> (SweeperBuilder, Calls<i64>) {
    let calls = Calls::default();
    let noted = calls.clone();
    let builder =
        outbox.sweeper().poll_interval(Duration::from_millis(50)).handler("sync", move |notice: Notice<i64>| {
            noted.note(notice.id());
            async { Ok(()) }
        });
    (builder, calls)
}
