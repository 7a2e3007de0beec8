//! Implements [`Store`] in memory.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use solid_notify_core::alert::AlertReason;
use solid_notify_core::alert::cooldown::{AlertFacts, AlertRow};
use solid_notify_core::alert::silence::AlertChange;
use solid_notify_core::definition::{NotifyDef, StoredVersion, deleted_handler, deleted_name};
use solid_notify_core::error::StoreError;
use solid_notify_core::notice::{ClaimedNotice, Status, duration_from_millis, later, millis_from_time};
use solid_notify_core::store::{
    Advanced, AlertStep, AlertStore, Authority, CRASH_LOOP, Claim, ClaimWhat, Claims, ClusterView, DefinitionStore,
    DueSlice, DueTimes, Edit, Edited, LARGE_PARAM, LastTick, Lease, Look, NODE_LIVES, Node, PassOn, PassedOn, Purge,
    Purged, SeenNode, SendLimits, SendStore, SeriesRow, Settle, Settled, Tick, was_seen,
};

use super::{Live, MemoryStore};

/// Returns what claims and looks return of a notice.
fn without_large_param(notice: &ClaimedNotice) -> ClaimedNotice {
    let param_is_left = notice.param.len() > LARGE_PARAM;
    let param = if param_is_left { String::new() } else { notice.param.clone() };
    ClaimedNotice { param, param_is_left, ..notice.clone() }
}

#[async_trait]
impl SendStore for MemoryStore {
    async fn now(&self) -> Result<DateTime<Utc>, StoreError> {
        Ok(self.time())
    }

    async fn due(&self, _thorough: bool) -> Result<DueTimes, StoreError> {
        let now = self.time();
        let state = self.state();
        let mut first: BTreeMap<(i64, Status), DateTime<Utc>> = BTreeMap::new();
        for live in state.live.values().filter(|live| state.definitions.contains_key(&live.notice.def_id)) {
            let Some(next) = live.next_call_time else { continue };
            let earliest = first.entry((live.notice.def_id, live.notice.status)).or_insert(next);
            *earliest = next.min(*earliest);
        }
        let slice = |((def_id, status), next): ((i64, Status), DateTime<Utc>)| DueSlice {
            def_id,
            status,
            after: (next - now).to_std().unwrap_or_default(),
            late: (now - next).to_std().unwrap_or_default(),
        };
        let ticks = state.ticks.clone();
        let alerts =
            state.alerts_by_due_time().first().map(|(due, _)| duration_from_millis(due - millis_from_time(now)));
        Ok(DueTimes { now, alerts, ticks, slices: first.into_iter().map(slice).collect(), ..DueTimes::default() })
    }

    async fn tick(&self, tick: &Tick) -> Result<Advanced, StoreError> {
        let now = self.time();
        let mut state = self.state();
        let ticks = |row: &NotifyDef| row.enabled && row.delete_time.is_none() && row.schedule == tick.schedule;
        let seen = state.ticks.get(&tick.def_id).cloned().unwrap_or_default();
        if !state.definitions.get(&tick.def_id).is_some_and(ticks) || seen != tick.seen {
            return Ok(Advanced::Changed);
        }
        state.ticks.insert(tick.def_id, LastTick { at: Some(tick.last), schedule: tick.schedule.clone() });
        for param in &tick.params {
            match &tick.authority {
                Some(authority) => drop(state.add_with_authority(tick.def_id, param.clone(), authority, now)),
                None => {
                    let id = state.next_id();
                    state.live.insert(id, Live::of(id, tick.def_id, param.clone(), now, now));
                }
            }
        }
        Ok(Advanced::Stored)
    }

    async fn claim(&self, claim: &Claim) -> Result<Claims, StoreError> {
        let now = self.time();
        let mut state = self.state();
        let limit = match state.allowance(claim, now) {
            Ok(most) => claim.limit.min(most),
            Err(hold) => return Ok(Claims { notices: Vec::new(), stopped_by: Some(hold) }),
        };
        let wanted = |notice: &ClaimedNotice| match &claim.what {
            ClaimWhat::Slice(status) => notice.status == *status && notice.crashes < CRASH_LOOP,
            ClaimWhat::CrashLooping => notice.status == Status::Failed && notice.crashes >= CRASH_LOOP,
            ClaimWhat::Ids(ids) => notice.status == Status::NotSent && ids.contains(&notice.id),
            ClaimWhat::Keys(keys) => {
                notice.status == Status::NotSent && notice.ordering_key.as_ref().is_some_and(|key| keys.contains(key))
            }
        };
        let mut due: Vec<(Option<DateTime<Utc>>, i64)> = state
            .live
            .values()
            .filter(|live| live.notice.def_id == claim.def_id && live.is_due(now) && wanted(&live.notice))
            .filter(|live| state.its_turn(&live.notice))
            .map(|live| (live.next_call_time, live.notice.id))
            .collect();
        due.sort_unstable();
        due.truncate(limit);
        let mut claimed: Vec<ClaimedNotice> = due
            .into_iter()
            .filter_map(|(_, id)| {
                let live = state.live.get_mut(&id)?;
                live.notice.status = Status::Sending;
                live.notice.fence += 1;
                live.notice.worker.clone_from(&claim.worker);
                live.notice.last_call_time = now;
                live.next_call_time = later(now, claim.lease);
                live.called = true;
                Some(without_large_param(&live.notice))
            })
            .collect();
        claimed.sort_unstable_by_key(|notice| notice.id);
        let stopped_by = state.begun(claim, &claimed, now);
        Ok(Claims { notices: claimed, stopped_by })
    }

    async fn look(&self, look: &Look, limit: usize) -> Result<Vec<ClaimedNotice>, StoreError> {
        let now = self.time();
        let state = self.state();
        let wanted = |live: &&Live| match look {
            Look::Overdue { def_id, status } => {
                live.notice.def_id == *def_id && live.notice.status == *status && live.is_due(now)
            }
            Look::ClaimedBy { worker } => live.notice.status == Status::Sending && live.notice.worker == *worker,
        };
        let mut found: Vec<&Live> = state.live.values().filter(wanted).collect();
        found.sort_by_key(|live| live.next_call_time);
        Ok(found.into_iter().take(limit).map(|live| without_large_param(&live.notice)).collect())
    }

    async fn param_bytes(&self, claimed: &ClaimedNotice) -> Result<Option<usize>, StoreError> {
        Ok(self.param(claimed).await?.map(|param| param.len()))
    }

    async fn param(&self, claimed: &ClaimedNotice) -> Result<Option<String>, StoreError> {
        let state = self.state();
        let live = state.live.get(&claimed.id).filter(|live| live.notice.fence == claimed.fence);
        Ok(live.map(|live| live.notice.param.clone()))
    }

    async fn authority(&self, id: i64) -> Result<Option<Authority>, StoreError> {
        Ok(self.state().authorities.get(&id).map(|(authority, _)| authority.clone()))
    }

    async fn use_authority(&self, claimed: &ClaimedNotice) -> Result<Option<Authority>, StoreError> {
        let mut state = self.state();
        let used = state.authorities.get_mut(&claimed.id).filter(|(_, fence)| *fence < claimed.fence);
        Ok(used.map(|(authority, fence)| {
            *fence = claimed.fence;
            authority.clone()
        }))
    }

    async fn settle(&self, batch: &[Settle]) -> Result<Vec<Settled>, StoreError> {
        let now = self.time();
        let mut state = self.state();
        let mut stopped_by = Vec::new();
        let settled = batch.iter().map(|settle| state.settle(settle, now, &mut stopped_by)).collect();
        let opened = state.watch(&stopped_by, now);
        state.raise_all(stopped_by.iter().filter_map(|settle| settle.alarm.as_deref()).chain(opened), now);
        Ok(settled)
    }

    async fn pass_on(&self, part: &PassOn) -> Result<PassedOn, StoreError> {
        let now = self.time();
        Ok(self.state().pass_on_part(part, now))
    }

    async fn extend(&self, leases: &[Lease]) -> Result<Vec<i64>, StoreError> {
        let now = self.time();
        let mut state = self.state();
        let mut extended = Vec::new();
        for lease in leases {
            if let Some(live) = state.live.get_mut(&lease.id)
                && live.notice.fence == lease.fence
                && live.notice.status == Status::Sending
            {
                live.next_call_time = later(now, lease.lease);
                extended.push(lease.id);
            }
        }
        Ok(extended)
    }

    async fn purge(&self, purge: &Purge) -> Result<Vec<Purged>, StoreError> {
        let now = self.time();
        let mut state = self.state();
        let old = |time: DateTime<Utc>, age: Duration| (now - time).to_std().is_ok_and(|passed| passed >= age);
        Ok(match purge {
            Purge::History { def_id, status, older_than, limit } => {
                let mut ended: Vec<(DateTime<Utc>, i64)> = state
                    .history
                    .values()
                    .filter(|ended| ended.live.notice.def_id == *def_id && ended.live.notice.status == *status)
                    .filter(|ended| old(ended.finish_time, *older_than))
                    .map(|ended| (ended.finish_time, ended.live.notice.id))
                    .collect();
                ended.sort_unstable();
                ended.truncate(*limit);
                ended.into_iter().filter_map(|(_, id)| state.history.remove(&id)).map(|ended| ended.purged()).collect()
            }
            Purge::Orphans { limit } => {
                let gone = |id: &&i64| !state.live.contains_key(id) && !state.history.contains_key(id);
                let gone: Vec<i64> = state.authorities.keys().filter(gone).take(*limit).copied().collect();
                gone.iter().for_each(|id| drop(state.authorities.remove(id)));
                let super::State { live, history, passing, .. } = &mut *state;
                passing.retain(|id, _| live.contains_key(id) || history.contains_key(id));
                vec![Purged::default(); gone.len()]
            }
            Purge::Inbox { older_than, limit } => {
                let aged = state.inbox.iter().filter(|(_, seen)| old(**seen, *older_than));
                let mut aged: Vec<_> = aged.map(|(key, seen)| (*seen, key.clone())).collect();
                aged.sort_unstable();
                aged.truncate(*limit);
                aged.iter().filter_map(|(_, key)| state.inbox.remove(key)).map(|_| Purged::default()).collect()
            }
            Purge::Series { older_than, limit } => {
                let aged = state.series.keys().filter(|(_, minute, _)| old(*minute, *older_than)).take(*limit);
                let aged: Vec<_> = aged.cloned().collect();
                aged.iter().filter_map(|key| state.series.remove(key)).map(|_| Purged::default()).collect()
            }
            Purge::Definition { def_id, older_than } => {
                let referred = state.live.values().any(|live| live.notice.def_id == *def_id)
                    || state.history.values().any(|ended| ended.live.notice.def_id == *def_id)
                    || state.definitions.values().any(|def| def.target_of == Some(*def_id));
                let deleted = state.definitions.get(def_id).and_then(|def| def.delete_time);
                if referred || !deleted.is_some_and(|time| old(time, *older_than)) {
                    return Ok(Vec::new());
                }
                state.definitions.remove(def_id);
                state.ticks.remove(def_id);
                state.limits.remove(def_id);
                state.counts.remove(def_id);
                state.versions.remove(def_id);
                vec![Purged { id: *def_id, ..Purged::default() }]
            }
        })
    }

    async fn write_series(&self, node: &str, rows: &[SeriesRow]) -> Result<(), StoreError> {
        let mut state = self.state();
        for row in rows {
            state.series.entry((row.def_id, row.minute, node.to_owned())).or_default().grow(&row.counts);
        }
        Ok(())
    }

    async fn beat(&self, node: &Node) -> Result<ClusterView, StoreError> {
        let now = self.time();
        let mut state = self.state();
        let start_time = state.nodes.get(&node.id).map_or(now, |(seen, _)| seen.start_time);
        state.nodes.insert(node.id.clone(), (SeenNode::new(node.clone(), start_time, now), node.stopped));
        state.raise_all(node.alarms.iter(), now);
        let lives = state.nodes.values().map(|(node, _)| node).filter(|node| was_seen(node.last_seen, now, NODE_LIVES));
        let handlers = lives.flat_map(|node| node.handlers.iter().cloned()).collect();
        Ok(ClusterView { now, handlers, alarms_left: 0 })
    }
}

#[async_trait]
impl DefinitionStore for MemoryStore {
    async fn definitions(&self) -> Result<Vec<NotifyDef>, StoreError> {
        Ok(self.state().definitions.values().cloned().collect())
    }

    async fn edit(&self, edit: &Edit, who: &str) -> Result<Edited, StoreError> {
        let now = self.time();
        let mut state = self.state();
        Ok(match edit {
            Edit::Create(def) => {
                if let Some(row) = state.by_name(&def.name) {
                    return Ok(Edited::Conflict(row.clone()));
                }
                let mut row = def.clone();
                row.id = state.next_definition_id();
                (row.create_time, row.update_time, row.delete_time) = (Some(now), Some(now), None);
                state.definitions.insert(row.id, row.clone());
                state.write_version(&row, (&edit.act(), None), who, now);
                Edited::Stored(row)
            }
            Edit::Replace { seen, new } | Edit::RollBack { seen, new, .. } | Edit::Pause { seen, new, .. } => {
                let mut new = new.clone();
                new.delete_time = None;
                state.replace(seen, new, edit, who, now)
            }
            Edit::Delete { seen } => {
                let mut new = seen.clone();
                new.handler = deleted_handler(seen).map(str::to_owned);
                new.name = deleted_name(seen);
                new.delete_time = Some(now);
                state.replace(seen, new, edit, who, now)
            }
        })
    }

    async fn versions(&self, def_id: i64, up_to: i64, limit: usize) -> Result<Vec<StoredVersion>, StoreError> {
        Ok(self.state().versions(def_id, up_to, limit))
    }

    async fn last_versions(&self) -> Result<Vec<StoredVersion>, StoreError> {
        Ok(self.state().versions.values().filter_map(|all| all.last().cloned()).collect())
    }

    async fn remember(&self, _rows: &[NotifyDef], seen_by: &str) -> Result<bool, StoreError> {
        let now = self.time();
        self.state().remember(seen_by, now);
        Ok(true)
    }

    async fn send_limits(&self) -> Result<SendLimits, StoreError> {
        Ok(self.state().send_limits())
    }

    async fn store_id(&self) -> Result<Option<i64>, StoreError> {
        Ok(Some(self.state().store_id))
    }
}

#[async_trait]
impl AlertStore for MemoryStore {
    async fn due_alerts(&self, limit: usize) -> Result<Vec<(i64, AlertReason)>, StoreError> {
        let now = millis_from_time(self.time());
        let due = self.state().alerts_by_due_time();
        Ok(due.into_iter().take_while(|(due, _)| *due <= now).map(|(_, key)| key).take(limit).collect())
    }

    async fn alert(&self, def_id: i64, reason: AlertReason) -> Result<Option<(AlertRow, AlertFacts)>, StoreError> {
        Ok(self.state().alert((def_id, reason), self.time()))
    }

    async fn advance_alert(&self, step: &AlertStep) -> Result<Advanced, StoreError> {
        Ok(self.state().advance_alert(step, self.time()))
    }

    async fn alerts(&self, limit: usize) -> Result<Vec<(i64, AlertReason, AlertRow)>, StoreError> {
        Ok(self.state().alert_rows(limit))
    }

    async fn change_alerts(&self, change: &AlertChange, who: &str) -> Result<bool, StoreError> {
        Ok(self.state().change_alerts(change, who, self.time()))
    }
}
