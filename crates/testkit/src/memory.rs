//! The in-memory [`Store`]: two maps under one lock. What the SQL stores say in statements is said here in Rust, so that
//! the conformance suite compares two independent tellings.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use solid_notify_core::definition::NotifyDef;
use solid_notify_core::error::StoreError;
use solid_notify_core::notice::{Claimed, NoticeRecord, Status};
use solid_notify_core::store::{
    Claim, ClaimWhat, DueLane, DueTimes, Edit, Edited, Lease, Look, Node, Purge, SUSPECT_CRASHES, Settle, Settled,
    Store,
};
use solid_notify_core::transition::Next;
use solid_notify_core::{HandClock, NewNotice};

/// The tables.
#[derive(Default)]
pub(crate) struct State {
    definitions: BTreeMap<i64, NotifyDef>,
    pub(crate) live: BTreeMap<i64, Live>,
    history: BTreeMap<i64, Ended>,
    nodes: BTreeMap<String, (Node, SystemTime)>,
    last_id: i64,
}

/// A row of `notify_msg`.
#[derive(Clone)]
pub(crate) struct Live {
    notice: Claimed,
    next_call_time: Option<SystemTime>,
    last_class: Option<String>,
    called: bool,
    dedupe_key: Option<String>,
}

struct Ended {
    live: Live,
    finish_time: SystemTime,
    reason: Option<String>,
}

/// The store.
pub(crate) struct MemoryStore {
    clock: Option<HandClock>,
    state: Mutex<State>,
}

impl MemoryStore {
    pub(crate) fn new(clock: Option<HandClock>) -> Self {
        Self { clock, state: Mutex::default() }
    }

    pub(crate) fn now(&self) -> SystemTime {
        self.clock.as_ref().map_or_else(SystemTime::now, HandClock::now)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The id of the definition, or the names that there are.
    pub(crate) fn definition_id(&self, name: &str) -> Result<i64, Vec<String>> {
        let alive = || self.definitions.values().filter(|def| def.delete_time.is_none());
        match alive().find(|def| def.name == name) {
            Some(def) => Ok(def.id),
            None => Err(alive().map(|def| def.name.clone()).collect()),
        }
    }

    pub(crate) fn next_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }

    fn by_name(&self, name: &str) -> Option<&NotifyDef> {
        self.definitions.values().find(|def| def.name == name)
    }

    /// The row that is still what the editor saw, or why not.
    #[allow(clippy::result_large_err)] // Rare, and dropped at once.
    fn unchanged(&mut self, seen: &NotifyDef) -> Result<&mut NotifyDef, Edited> {
        match self.definitions.get_mut(&seen.id) {
            None => Err(Edited::Missing),
            Some(row) if row.delete_time.is_some() => Err(Edited::Missing),
            Some(row) if !row.differences(seen).is_empty() => Err(Edited::Conflict(row.clone())),
            Some(row) => Ok(row),
        }
    }

    /// True where no other notice of its ordering key is under way or stands before it.
    fn its_turn(&self, notice: &Claimed) -> bool {
        notice.ordering_key.is_none()
            || !self.live.values().map(|live| &live.notice).any(|other| {
                other.def_id == notice.def_id
                    && other.ordering_key == notice.ordering_key
                    && (other.id < notice.id
                        || (other.id != notice.id && matches!(other.status, Status::Sending | Status::AwaitingConfirm)))
            })
    }

    fn settle(&mut self, settle: &Settle, now: SystemTime) -> Settled {
        let held = self.live.get(&settle.id).is_some_and(|live| {
            live.notice.attempt == settle.attempt
                && live.notice.status == settle.from
                && (!settle.overdue || live.is_due(now))
        });
        if !held {
            return self.judge_missing(settle);
        }
        let Some(mut live) = self.live.remove(&settle.id) else { return Settled::LostLease };
        live.notice.failures = settle.transition.failures;
        live.notice.crashes = settle.transition.crashes;
        live.notice.errors.clone_from(&settle.errors);
        live.notice.description.clone_from(&settle.description);
        live.last_class.clone_from(&settle.last_class);
        match &settle.transition.next {
            Next::Wait { status, after } => {
                live.notice.status = *status;
                live.next_call_time = now.checked_add(*after);
                self.live.insert(settle.id, live);
            }
            Next::Finish { status, reason, keep } => {
                live.notice.status = *status;
                live.next_call_time = None;
                if *keep {
                    self.history.insert(settle.id, Ended { live, finish_time: now, reason: reason.clone() });
                }
            }
        }
        Settled::Done
    }

    fn judge_missing(&self, settle: &Settle) -> Settled {
        let stands = self.live.get(&settle.id).or_else(|| self.history.get(&settle.id).map(|ended| &ended.live));
        let (wanted, vanishes) = match &settle.transition.next {
            Next::Wait { status, .. } => (*status, false),
            Next::Finish { status, keep, .. } => (*status, *status == Status::Succeeded && !keep),
        };
        let done = match stands {
            None => vanishes,
            Some(live) => {
                let notice = &live.notice;
                notice.attempt == settle.attempt
                    && notice.status == wanted
                    && notice.failures == settle.transition.failures
                    && notice.crashes == settle.transition.crashes
            }
        };
        if done { Settled::Done } else { Settled::LostLease }
    }
}

impl Live {
    pub(crate) fn new(id: i64, def_id: i64, notice: &NewNotice, now: SystemTime) -> Self {
        let (at, delay) = notice.send_millis();
        let next = match at {
            Some(ms) => solid_notify_core::notice::time_from_millis(ms).max(now),
            None => now + Duration::from_millis(u64::try_from(delay).unwrap_or(0)),
        };
        let dedupe_key = notice.dedupe_key_text().map(str::to_owned);
        let notice = Claimed {
            id,
            def_id,
            param: notice.param_json().to_owned(),
            description: notice.description_text().map(str::to_owned),
            errors: None,
            status: Status::NotSent,
            attempt: 0,
            failures: 0,
            crashes: 0,
            worker: String::new(),
            last_call_time: now,
            create_time: now,
            trace_context: notice.trace_context_text().map(str::to_owned),
            ordering_key: notice.ordering_key_text().map(str::to_owned),
        };
        Self { notice, next_call_time: Some(next), last_class: None, called: false, dedupe_key }
    }

    /// True for a notice that stands for what is added with this key.
    pub(crate) fn has_dedupe_key(&self, def_id: i64, key: &str) -> bool {
        self.notice.def_id == def_id && self.dedupe_key.as_deref() == Some(key)
    }

    fn is_due(&self, now: SystemTime) -> bool {
        self.next_call_time.is_some_and(|next| next <= now)
    }

    fn record(&self, ended: Option<&Ended>) -> NoticeRecord {
        let notice = &self.notice;
        let mut record =
            NoticeRecord::new(notice.id, notice.def_id, notice.status, notice.param.clone(), notice.create_time);
        record.description.clone_from(&notice.description);
        let errors = notice.errors.as_deref();
        record.errors = errors.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        record.attempt = notice.attempt;
        record.failures = notice.failures;
        record.crashes = notice.crashes;
        record.worker = self.called.then(|| notice.worker.clone());
        record.last_call_time = self.called.then_some(notice.last_call_time);
        record.last_class.clone_from(&self.last_class);
        record.next_call_time = self.next_call_time;
        record.trace_context.clone_from(&notice.trace_context);
        record.ordering_key.clone_from(&notice.ordering_key);
        record.dedupe_key.clone_from(&self.dedupe_key);
        record.finish_time = ended.map(|ended| ended.finish_time);
        record.end_reason = ended.and_then(|ended| ended.reason.clone());
        record
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn definitions(&self) -> Result<Vec<NotifyDef>, StoreError> {
        Ok(self.state().definitions.values().cloned().collect())
    }

    async fn edit(&self, edit: &Edit) -> Result<Edited, StoreError> {
        let now = self.now();
        let mut state = self.state();
        Ok(match edit {
            Edit::Create(def) => {
                if let Some(row) = state.by_name(&def.name) {
                    return Ok(Edited::Conflict(row.clone()));
                }
                let mut row = def.clone();
                row.id = state.next_id();
                (row.create_time, row.update_time, row.delete_time) = (Some(now), Some(now), None);
                state.definitions.insert(row.id, row.clone());
                Edited::Done(row)
            }
            Edit::Replace { seen, new } => {
                let taken = state.by_name(&new.name).filter(|row| row.id != seen.id).cloned();
                match (state.unchanged(seen), taken) {
                    (Err(other), _) => other,
                    (Ok(_), Some(row)) => Edited::Conflict(row),
                    (Ok(row), None) => {
                        let (id, created) = (row.id, row.create_time);
                        *row = new.clone();
                        (row.id, row.create_time, row.update_time, row.delete_time) = (id, created, Some(now), None);
                        Edited::Done(row.clone())
                    }
                }
            }
            Edit::Delete { seen } => match state.unchanged(seen) {
                Err(other) => other,
                Ok(row) => {
                    row.handler = Some(row.handler_name().to_owned());
                    row.name = solid_notify_core::definition::deleted_name(row);
                    (row.update_time, row.delete_time) = (Some(now), Some(now));
                    Edited::Done(row.clone())
                }
            },
        })
    }

    async fn due(&self, _thorough: bool) -> Result<DueTimes, StoreError> {
        let now = self.now();
        let state = self.state();
        let mut first: BTreeMap<(i64, Status), SystemTime> = BTreeMap::new();
        for live in state.live.values().filter(|live| state.definitions.contains_key(&live.notice.def_id)) {
            let Some(next) = live.next_call_time else { continue };
            let earliest = first.entry((live.notice.def_id, live.notice.status)).or_insert(next);
            *earliest = next.min(*earliest);
        }
        let lane = |((def_id, status), next): ((i64, Status), SystemTime)| DueLane {
            def_id,
            status,
            after: next.duration_since(now).unwrap_or_default(),
            late: now.duration_since(next).unwrap_or_default(),
        };
        Ok(DueTimes { lanes: first.into_iter().map(lane).collect() })
    }

    async fn claim(&self, claim: &Claim) -> Result<Vec<Claimed>, StoreError> {
        let now = self.now();
        let mut state = self.state();
        let wanted = |notice: &Claimed| match &claim.what {
            ClaimWhat::Lane(status) => notice.status == *status && notice.crashes < SUSPECT_CRASHES,
            ClaimWhat::Suspects => notice.status == Status::Failed && notice.crashes >= SUSPECT_CRASHES,
            ClaimWhat::Ids(ids) => notice.status == Status::NotSent && ids.contains(&notice.id),
            ClaimWhat::Keys(keys) => {
                notice.status == Status::NotSent && notice.ordering_key.as_ref().is_some_and(|key| keys.contains(key))
            }
        };
        let mut due: Vec<(Option<SystemTime>, i64)> = state
            .live
            .values()
            .filter(|live| live.notice.def_id == claim.def_id && live.is_due(now) && wanted(&live.notice))
            .filter(|live| state.its_turn(&live.notice))
            .map(|live| (live.next_call_time, live.notice.id))
            .collect();
        due.sort_unstable();
        due.truncate(claim.limit);
        let mut claimed: Vec<Claimed> = due
            .into_iter()
            .filter_map(|(_, id)| {
                let live = state.live.get_mut(&id)?;
                live.notice.status = Status::Sending;
                live.notice.attempt += 1;
                live.notice.worker.clone_from(&claim.worker);
                live.notice.last_call_time = now;
                live.next_call_time = now.checked_add(claim.lease);
                live.called = true;
                Some(live.notice.clone())
            })
            .collect();
        claimed.sort_unstable_by_key(|notice| notice.id);
        Ok(claimed)
    }

    async fn look(&self, look: &Look, limit: usize) -> Result<Vec<Claimed>, StoreError> {
        let now = self.now();
        let state = self.state();
        let wanted = |live: &&Live| match look {
            Look::Overdue { def_id, status } => {
                live.notice.def_id == *def_id && live.notice.status == *status && live.is_due(now)
            }
            Look::HeldBy { worker } => live.notice.status == Status::Sending && live.notice.worker == *worker,
        };
        let mut found: Vec<&Live> = state.live.values().filter(wanted).collect();
        found.sort_by_key(|live| live.next_call_time);
        Ok(found.into_iter().take(limit).map(|live| live.notice.clone()).collect())
    }

    async fn settle(&self, batch: &[Settle]) -> Result<Vec<Settled>, StoreError> {
        let now = self.now();
        let mut state = self.state();
        Ok(batch.iter().map(|settle| state.settle(settle, now)).collect())
    }

    async fn extend(&self, leases: &[Lease]) -> Result<(), StoreError> {
        let now = self.now();
        let mut state = self.state();
        for lease in leases {
            if let Some(live) = state.live.get_mut(&lease.id)
                && live.notice.attempt == lease.attempt
                && live.notice.status == Status::Sending
            {
                live.next_call_time = now.checked_add(lease.lease);
            }
        }
        Ok(())
    }

    async fn find(&self, id: i64) -> Result<Option<NoticeRecord>, StoreError> {
        let state = self.state();
        let live = state.live.get(&id).map(|live| live.record(None));
        Ok(live.or_else(|| state.history.get(&id).map(|ended| ended.live.record(Some(ended)))))
    }

    async fn purge(&self, purge: &Purge) -> Result<Vec<i64>, StoreError> {
        let now = self.now();
        let mut state = self.state();
        let old = |time: SystemTime, age: Duration| now.duration_since(time).is_ok_and(|passed| passed >= age);
        Ok(match purge {
            Purge::History { def_id, status, older_than, limit } => {
                let mut ended: Vec<(SystemTime, i64)> = state
                    .history
                    .values()
                    .filter(|ended| ended.live.notice.def_id == *def_id && ended.live.notice.status == *status)
                    .filter(|ended| old(ended.finish_time, *older_than))
                    .map(|ended| (ended.finish_time, ended.live.notice.id))
                    .collect();
                ended.sort_unstable();
                ended.truncate(*limit);
                let ids: Vec<i64> = ended.into_iter().map(|(_, id)| id).collect();
                state.history.retain(|id, _| !ids.contains(id));
                ids
            }
            Purge::Definition { def_id, older_than } => {
                let referred = state.live.values().any(|live| live.notice.def_id == *def_id)
                    || state.history.values().any(|ended| ended.live.notice.def_id == *def_id);
                let deleted = state.definitions.get(def_id).and_then(|def| def.delete_time);
                if referred || !deleted.is_some_and(|time| old(time, *older_than)) {
                    return Ok(Vec::new());
                }
                state.definitions.remove(def_id);
                vec![*def_id]
            }
        })
    }

    async fn beat(&self, node: &Node) -> Result<SystemTime, StoreError> {
        let now = self.now();
        self.state().nodes.insert(node.id.clone(), (node.clone(), now));
        Ok(now)
    }
}
