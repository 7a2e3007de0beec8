//! The link between a node and the database: calls are late, refused, executed without a reply, or executed long after their
//! error. It shows each executed call to the watch.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use fastrand::Rng;
use solid_notify::NotifyDef;
use solid_notify::error::StoreError;
use solid_notify_core::alert::AlertReason;
use solid_notify_core::alert::cooldown::{AlertFacts, AlertRow};
use solid_notify_core::alert::silence::AlertChange;
use solid_notify_core::definition::StoredVersion;
use solid_notify_core::error::FaultKind;
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::store::{
    Advanced, AlertStep, AlertStore, Authority, Claim, Claims, ClusterView, DefinitionStore, DueTimes, Edit, Edited,
    Lease, Look, Node as Beat, PassOn, PassedOn, Purge, Purged, SendLimits, SendStore, SeriesRow, Settle, Settled,
    Stores, Tick,
};

use crate::watch::is_held;
use crate::world::{Node, World};

/// A handler is entered this much before its start is written down, at most.
pub const SOONER: Duration = Duration::from_millis(2);
/// How late a retry may be without faults: a look, a claim and their ways.
pub const LATE: Duration = Duration::from_millis(1_200);

pub struct Link {
    pub store: Stores,
    pub world: Arc<World>,
    pub node: Arc<Node>,
}

/// The fault that a link adds to a call.
enum Weather {
    Fine,
    Refused(FaultKind),
    AnswerLost,
    /// The call returns an error, and is executed so much later.
    Late(Duration),
    /// The call is executed, and once more so much later.
    Twice(Duration),
}

impl Link {
    /// Executes a call with the fault of this moment. `again`: whether it may be executed twice (a driver never repeats a
    /// claim by itself; the sweeper settles an outcome again).
    async fn pass<T, F>(
        &self,
        doing: &'static str,
        again: bool,
        call: impl Fn(Stores) -> F + Send + Sync + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send,
    {
        let lost = |kind| Err(StoreError::new(doing, kind, "as planned"));
        let (before, weather, after) = self.world.draw(|rng, plan| {
            let pause = |rng: &mut Rng| match rng.f64() < plan.slow {
                true => Duration::from_millis(rng.u64(500..6000)),
                false => Duration::from_millis(rng.u64(0..20)),
            };
            // Some are carried out when the notice is being sent again.
            let latest = if again && rng.u8(..) < 80 { 40_000 } else { 6_000 };
            let later = Duration::from_millis(rng.u64(100..latest));
            let weather = match rng.u8(0..5) {
                _ if rng.f64() >= plan.faults => Weather::Fine,
                0 => Weather::Refused(FaultKind::Outage),
                1 => Weather::Refused(FaultKind::Conflict),
                2 => Weather::AnswerLost,
                3 if again => Weather::Twice(later),
                _ => Weather::Late(later),
            };
            (pause(rng), weather, pause(rng))
        });
        self.node.lives().await;
        tokio::time::sleep(before).await;
        self.node.lives().await;
        if self.world.is_down() {
            return lost(FaultKind::Outage);
        }
        let weather = if self.world.is_clear() { Weather::Fine } else { weather };
        let store = self.store.clone();
        let answer = match weather {
            Weather::Refused(kind) => return lost(kind),
            Weather::Late(later) => {
                self.world.ledger().lost_answers += 1;
                let world = Arc::clone(&self.world);
                tokio::spawn(async move {
                    tokio::time::sleep(later).await;
                    if !world.is_down() {
                        let _ = call(store).await;
                    }
                });
                return lost(FaultKind::Outage);
            }
            Weather::AnswerLost => {
                self.world.ledger().lost_answers += 1;
                let _ = call(store).await;
                lost(FaultKind::Outage)
            }
            Weather::Twice(later) => {
                let answer = call(store.clone()).await;
                tokio::spawn(async move {
                    tokio::time::sleep(later).await;
                    let _ = call(store).await;
                });
                answer
            }
            Weather::Fine => call(store).await,
        };
        tokio::time::sleep(after).await;
        self.node.lives().await;
        answer
    }
}

#[async_trait]
impl SendStore for Link {
    async fn now(&self) -> Result<DateTime<Utc>, StoreError> {
        self.pass("now", false, |store| async move { store.send.now().await }).await
    }

    async fn due(&self, thorough: bool) -> Result<DueTimes, StoreError> {
        self.pass("due", false, move |store| async move { store.send.due(thorough).await }).await
    }

    async fn tick(&self, tick: &Tick) -> Result<Advanced, StoreError> {
        let tick = tick.clone();
        self.pass("tick", true, move |store| {
            let tick = tick.clone();
            async move { store.send.tick(&tick).await }
        })
        .await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claims, StoreError> {
        let (claim, world, node) = (claim.clone(), Arc::clone(&self.world), Arc::clone(&self.node));
        self.pass("claim", false, move |store| {
            let (claim, world, node) = (claim.clone(), Arc::clone(&world), Arc::clone(&node));
            async move {
                let claimed = store.send.claim(&claim).await?;
                for notice in &claimed.notices {
                    world.claimed(&node, notice).await;
                }
                Ok(claimed)
            }
        })
        .await
    }

    async fn look(&self, look: &Look, limit: usize) -> Result<Vec<ClaimedNotice>, StoreError> {
        let look = look.clone();
        self.pass("look", false, move |store| {
            let look = look.clone();
            async move { store.send.look(&look, limit).await }
        })
        .await
    }

    async fn param_bytes(&self, claimed: &ClaimedNotice) -> Result<Option<usize>, StoreError> {
        let claimed = claimed.clone();
        self.pass("param_bytes", false, move |store| {
            let claimed = claimed.clone();
            async move { store.send.param_bytes(&claimed).await }
        })
        .await
    }

    async fn param(&self, claimed: &ClaimedNotice) -> Result<Option<String>, StoreError> {
        let claimed = claimed.clone();
        self.pass("param", false, move |store| {
            let claimed = claimed.clone();
            async move { store.send.param(&claimed).await }
        })
        .await
    }

    async fn authority(&self, id: i64) -> Result<Option<Authority>, StoreError> {
        self.pass("authority", false, move |store| async move { store.send.authority(id).await }).await
    }

    async fn use_authority(&self, claimed: &ClaimedNotice) -> Result<Option<Authority>, StoreError> {
        let claimed = claimed.clone();
        self.pass("use_authority", false, move |store| {
            let claimed = claimed.clone();
            async move { store.send.use_authority(&claimed).await }
        })
        .await
    }

    async fn settle(&self, batch: &[Settle]) -> Result<Vec<Settled>, StoreError> {
        let (batch, world) = (batch.to_vec(), Arc::clone(&self.world));
        self.pass("settle", true, move |store| {
            let (batch, world) = (batch.clone(), Arc::clone(&world));
            async move {
                let before = world.stand(batch.iter().map(|settle| settle.id)).await;
                let settled = store.send.settle(&batch).await?;
                let after = world.stand(batch.iter().map(|settle| settle.id)).await;
                for (n, settle) in batch.iter().enumerate() {
                    // A rescuer that was slower than others, and then sent the notice itself, settles both at once. At most one
                    // of them is of the current attempt; the others find the state that it left.
                    let carried_out = |m: &usize| {
                        let (other, stored) = (&batch[*m], before[*m].as_ref());
                        other.id == settle.id && settled[*m] == Settled::Stored && is_held(other, stored)
                    };
                    let by_another = (0..batch.len()).find(carried_out).is_some_and(|m| m != n);
                    let met = if by_another { &after[n] } else { &before[n] };
                    world.settled(settle, settled[n].clone(), met.as_ref(), after[n].as_ref());
                }
                Ok(settled)
            }
        })
        .await
    }

    async fn pass_on(&self, part: &PassOn) -> Result<PassedOn, StoreError> {
        let part = part.clone();
        self.pass("pass_on", true, move |store| {
            let part = part.clone();
            async move { store.send.pass_on(&part).await }
        })
        .await
    }

    async fn extend(&self, leases: &[Lease]) -> Result<Vec<i64>, StoreError> {
        let leases = leases.to_vec();
        self.pass("extend", true, move |store| {
            let leases = leases.clone();
            async move { store.send.extend(&leases).await }
        })
        .await
    }

    async fn purge(&self, purge: &Purge) -> Result<Vec<Purged>, StoreError> {
        let purge = purge.clone();
        self.pass("purge", true, move |store| {
            let purge = purge.clone();
            async move { store.send.purge(&purge).await }
        })
        .await
    }

    async fn write_series(&self, node: &str, rows: &[SeriesRow]) -> Result<(), StoreError> {
        let (node, rows) = (node.to_owned(), rows.to_vec());
        self.pass("write_series", true, move |store| {
            let (node, rows) = (node.clone(), rows.clone());
            async move { store.send.write_series(&node, &rows).await }
        })
        .await
    }

    async fn beat(&self, beat: &Beat) -> Result<ClusterView, StoreError> {
        let beat = beat.clone();
        self.pass("beat", true, move |store| {
            let beat = beat.clone();
            async move { store.send.beat(&beat).await }
        })
        .await
    }
}

#[async_trait]
impl DefinitionStore for Link {
    async fn definitions(&self) -> Result<Vec<NotifyDef>, StoreError> {
        self.pass("definitions", false, |store| async move { store.definitions.definitions().await }).await
    }

    async fn edit(&self, edit: &Edit, who: &str) -> Result<Edited, StoreError> {
        self.store.definitions.edit(edit, who).await
    }

    async fn versions(&self, def_id: i64, up_to: i64, limit: usize) -> Result<Vec<StoredVersion>, StoreError> {
        self.store.definitions.versions(def_id, up_to, limit).await
    }

    async fn last_versions(&self) -> Result<Vec<StoredVersion>, StoreError> {
        self.store.definitions.last_versions().await
    }

    async fn remember(&self, rows: &[NotifyDef], seen_by: &str) -> Result<bool, StoreError> {
        self.store.definitions.remember(rows, seen_by).await
    }

    async fn send_limits(&self) -> Result<SendLimits, StoreError> {
        self.store.definitions.send_limits().await
    }

    async fn store_id(&self) -> Result<Option<i64>, StoreError> {
        self.store.definitions.store_id().await
    }
}

#[async_trait]
impl AlertStore for Link {
    async fn due_alerts(&self, limit: usize) -> Result<Vec<(i64, AlertReason)>, StoreError> {
        self.pass("due_alerts", false, move |store| async move { store.alerts.due_alerts(limit).await }).await
    }

    async fn alert(&self, def_id: i64, reason: AlertReason) -> Result<Option<(AlertRow, AlertFacts)>, StoreError> {
        self.pass("alert", false, move |store| async move { store.alerts.alert(def_id, reason).await }).await
    }

    async fn advance_alert(&self, step: &AlertStep) -> Result<Advanced, StoreError> {
        let step = step.clone();
        self.pass("advance_alert", true, move |store| {
            let step = step.clone();
            async move { store.alerts.advance_alert(&step).await }
        })
        .await
    }

    async fn alerts(&self, limit: usize) -> Result<Vec<(i64, AlertReason, AlertRow)>, StoreError> {
        self.pass("alerts", false, move |store| async move { store.alerts.alerts(limit).await }).await
    }

    async fn change_alerts(&self, change: &AlertChange, who: &str) -> Result<bool, StoreError> {
        let (change, who) = (change.clone(), who.to_owned());
        self.pass("change_alerts", true, move |store| {
            let (change, who) = (change.clone(), who.clone());
            async move { store.alerts.change_alerts(&change, &who).await }
        })
        .await
    }
}
