//! `Store` over Redis: the methods of the send path. The other files do the work.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use solid_notify_core::StoreError;
use solid_notify_core::alert::AlertReason;
use solid_notify_core::alert::cooldown::{AlertFacts, AlertRow};
use solid_notify_core::definition::NotifyDef;
use solid_notify_core::notice::{ClaimedNotice, NoticeRecord};
use solid_notify_core::store::{
    Advanced, AlertStep, Claim, Claims, ClusterView, DueTimes, Edit, Edited, Lease, Look, Node, Purge, Settle, Settled,
    Store, Tick,
};

use super::given::{self, Millis, Text};
use super::{AT_ONCE, CHANGE, RedisStore, def_of, member};

#[async_trait]
impl Store for RedisStore {
    async fn now(&self) -> Result<DateTime<Utc>, StoreError> {
        self.time().await
    }

    async fn definitions(&self) -> Result<Vec<NotifyDef>, StoreError> {
        let (_, rows) = self.rows().await?;
        Ok(rows.into_iter().filter_map(|seen| seen.row).collect())
    }

    async fn edit(&self, edit: &Edit, who: &str) -> Result<Edited, StoreError> {
        self.edit_row(edit, who).await
    }

    async fn due(&self, _thorough: bool) -> Result<DueTimes, StoreError> {
        self.due_times().await
    }

    async fn tick(&self, tick: &Tick) -> Result<Advanced, StoreError> {
        self.note_tick(tick).await
    }

    async fn due_alerts(&self, limit: usize) -> Result<Vec<(i64, AlertReason)>, StoreError> {
        self.due_alert_keys(limit).await
    }

    async fn alert(&self, def_id: i64, reason: AlertReason) -> Result<Option<(AlertRow, AlertFacts)>, StoreError> {
        self.alert_and_facts(def_id, reason).await
    }

    async fn advance_alert(&self, step: &AlertStep) -> Result<Advanced, StoreError> {
        self.store_alert_step(step).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claims, StoreError> {
        self.claim_some(claim).await
    }

    async fn look(&self, look: &Look, limit: usize) -> Result<Vec<ClaimedNotice>, StoreError> {
        self.look_for(look, limit).await
    }

    async fn settle(&self, batch: &[Settle]) -> Result<Vec<Settled>, StoreError> {
        self.settle_all(batch).await
    }

    async fn extend(&self, leases: &[Lease]) -> Result<Vec<i64>, StoreError> {
        let (mut leases, mut extended) = (leases.to_vec(), Vec::new());
        leases.sort_by_key(|lease| def_of(lease.id));
        for same in leases.chunk_by(|a, b| def_of(a.id) == def_of(b.id)) {
            for window in same.chunks(AT_ONCE) {
                let lease = |lease: &Lease| {
                    let (member, fence) = (member(lease.id), Text(lease.fence));
                    given::Lease { member, fence, lease: Millis(lease.lease) }
                };
                let extend = given::Change::Extend { leases: window.iter().map(lease).collect() };
                let members: Vec<String> = self.run(&CHANGE, def_of(window[0].id), &extend, "extending leases").await?;
                extended.extend(members.iter().filter_map(|member| member.parse::<i64>().ok()));
            }
        }
        Ok(extended)
    }

    async fn find(&self, id: i64) -> Result<Option<NoticeRecord>, StoreError> {
        let stored = self.load(id).await?;
        Ok(stored.and_then(|stored| stored.status().map(|status| stored.record(status))))
    }

    async fn purge(&self, purge: &Purge) -> Result<Vec<i64>, StoreError> {
        self.purge_some(purge).await
    }

    async fn beat(&self, node: &Node) -> Result<ClusterView, StoreError> {
        self.note_beat(node).await
    }
}
