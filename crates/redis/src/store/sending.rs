//! `SendStore` over Redis. The other files do the work.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use solid_notify_core::StoreError;
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::store::{
    Advanced, Authority, Claim, Claims, ClusterView, DueTimes, Lease, Look, Node, PassOn, PassedOn, Purge, Purged,
    SendStore, SeriesRow, Settle, Settled, Tick,
};

use super::given::{self, Millis, Text};
use super::{AT_ONCE, CHANGE, RedisStore, codec, def_of, member};

#[async_trait]
impl SendStore for RedisStore {
    async fn now(&self) -> Result<DateTime<Utc>, StoreError> {
        self.time().await
    }

    async fn due(&self, _thorough: bool) -> Result<DueTimes, StoreError> {
        self.due_times().await
    }

    async fn tick(&self, tick: &Tick) -> Result<Advanced, StoreError> {
        self.note_tick(tick).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claims, StoreError> {
        self.claim_some(claim).await
    }

    async fn look(&self, look: &Look, limit: usize) -> Result<Vec<ClaimedNotice>, StoreError> {
        self.look_for(look, limit).await
    }

    async fn param_bytes(&self, claimed: &ClaimedNotice) -> Result<Option<usize>, StoreError> {
        Ok(self.left_param(claimed, false).await?.and_then(|bytes| bytes.parse().ok()))
    }

    async fn param(&self, claimed: &ClaimedNotice) -> Result<Option<String>, StoreError> {
        self.left_param(claimed, true).await
    }

    async fn authority(&self, id: i64) -> Result<Option<Authority>, StoreError> {
        Ok(self.load(id).await?.and_then(|stored| codec::authority(&stored.authority()?)))
    }

    async fn use_authority(&self, claimed: &ClaimedNotice) -> Result<Option<Authority>, StoreError> {
        // It is a field of the notice itself.
        self.authority(claimed.id).await
    }

    async fn settle(&self, batch: &[Settle]) -> Result<Vec<Settled>, StoreError> {
        self.settle_all(batch).await
    }

    async fn pass_on(&self, part: &PassOn) -> Result<PassedOn, StoreError> {
        self.pass_on_part(part).await
    }

    async fn extend(&self, leases: &[Lease]) -> Result<Vec<i64>, StoreError> {
        let (mut leases, mut extended) = (leases.to_vec(), Vec::new());
        leases.sort_by_key(|lease| def_of(lease.id));
        for same in leases.chunk_by(|a, b| def_of(a.id) == def_of(b.id)) {
            for chunk in same.chunks(AT_ONCE) {
                let lease = |lease: &Lease| {
                    let (member, fence) = (member(lease.id), Text(lease.fence));
                    given::Lease { member, fence, lease: Millis(lease.lease) }
                };
                let extend = given::Change::Extend { leases: chunk.iter().map(lease).collect() };
                let members: Vec<String> = self.run(&CHANGE, def_of(chunk[0].id), &extend, "extending leases").await?;
                extended.extend(members.iter().filter_map(|member| member.parse::<i64>().ok()));
            }
        }
        Ok(extended)
    }

    async fn purge(&self, purge: &Purge) -> Result<Vec<Purged>, StoreError> {
        self.purge_some(purge).await
    }

    async fn write_series(&self, node: &str, rows: &[SeriesRow]) -> Result<(), StoreError> {
        self.store_series(node, rows).await
    }

    async fn beat(&self, node: &Node) -> Result<ClusterView, StoreError> {
        self.note_beat(node).await
    }
}
