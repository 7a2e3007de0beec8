//! The in-memory store: maps under one lock. It implements in Rust what the SQL stores do with statements, so the
//! conformance suite compares two independent implementations.

mod ack;
mod alerts;
mod counts;
mod limits;
mod operate;
mod store;
mod versions;

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use chrono::{DateTime, Utc};
use parking_lot::{Mutex, MutexGuard};
use solid_notify_core::alert::AlertReason;
use solid_notify_core::alert::cooldown::AlertRow;
use solid_notify_core::definition::{BY_HAND, NotifyDef, StoredVersion, by_hand};
use solid_notify_core::limit::LimitRow;
use solid_notify_core::notice::{ClaimedNotice, LastResponse, NoticeRecord, Status, duration_from_millis, later};
use solid_notify_core::store::{
    AuditEntry, Authority, Edit, Edited, Kept, LastTick, NoticeCounts, PassOn, PassedOn, Paused, Purged, SeenNode,
    SeriesCounts, Settle, Settled, StoredState, TargetRow, same_targets,
};
use solid_notify_core::transition::Next;
use solid_notify_core::{HandClock, NewNotice};

/// A row of `notify_count`.
#[derive(Clone)]
struct Counted {
    taken: (NoticeCounts, DateTime<Utc>),
    next: DateTime<Utc>,
}

/// The tables.
#[derive(Default, Clone)]
pub(crate) struct State {
    definitions: BTreeMap<i64, NotifyDef>,
    pub(crate) live: BTreeMap<i64, Live>,
    history: BTreeMap<i64, Ended>,
    /// By the id of the notice, with the fence of the last claim that has used it.
    authorities: BTreeMap<i64, (Authority, i64)>,
    /// The targets to which a notice is passed on in parts, how many of them have it, and those that kept an earlier one, by the id of the
    /// notice.
    passing: BTreeMap<i64, (Vec<i64>, usize, Vec<Kept>)>,
    /// By id, each with whether it has stopped.
    nodes: BTreeMap<String, (SeenNode, bool)>,
    audit: Vec<AuditEntry>,
    counts: BTreeMap<i64, Counted>,
    alerts: BTreeMap<(i64, AlertReason), AlertRow>,
    ticks: BTreeMap<i64, LastTick>,
    limits: BTreeMap<i64, LimitRow>,
    paused: Option<Paused>,
    versions: BTreeMap<i64, Vec<StoredVersion>>,
    /// When each key of a receiver was first seen.
    pub(crate) inbox: BTreeMap<[String; 3], DateTime<Utc>>,
    /// What nodes counted, by definition, minute and node.
    series: BTreeMap<(i64, DateTime<Utc>, String), SeriesCounts>,
    last_id: i64,
    last_definition_id: i64,
    /// A random number. Ack tokens contain it.
    store_id: i64,
}

/// A row of `notify_msg`.
#[derive(Clone)]
pub(crate) struct Live {
    notice: ClaimedNotice,
    next_call_time: Option<DateTime<Utc>>,
    last_class: Option<String>,
    response: Option<String>,
    called: bool,
    dedupe_key: Option<String>,
    until_ended: bool,
    parent_id: Option<i64>,
}

#[derive(Clone)]
struct Ended {
    live: Live,
    error_group: Option<i64>,
    finish_time: DateTime<Utc>,
    reason: Option<String>,
}

impl Ended {
    fn purged(self) -> Purged {
        let Live { notice, last_class, .. } = self.live;
        let purged =
            Purged { id: notice.id, tries: notice.tries(), class: last_class, error: None, reason: self.reason };
        let errors = notice.errors.filter(|_| notice.status != Status::Succeeded);
        purged.with_errors(errors.as_deref())
    }
}

/// The store.
pub(crate) struct MemoryStore {
    clock: Option<HandClock>,
    state: Mutex<State>,
}

impl MemoryStore {
    pub(crate) fn new(clock: Option<HandClock>) -> Self {
        let random = RandomState::new().build_hasher().finish();
        let state = State { store_id: i64::try_from(random >> 1).unwrap_or(1), ..State::default() };
        Self { clock, state: Mutex::new(state) }
    }

    pub(crate) fn time(&self) -> DateTime<Utc> {
        self.clock.as_ref().map_or_else(Utc::now, HandClock::now)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// Returns the definition, or the names of the existing ones.
    pub(crate) fn definition(&self, name: &str) -> Result<&NotifyDef, Vec<String>> {
        let alive = || self.definitions.values().filter(|def| def.delete_time.is_none());
        match alive().find(|def| def.name == name) {
            Some(def) => Ok(def),
            None => Err(alive().map(|def| def.name.clone()).collect()),
        }
    }

    /// Adds a notice of a built-in definition, due at once.
    fn add_with_authority(&mut self, def_id: i64, param: String, authority: &Authority, now: DateTime<Utc>) -> i64 {
        let id = self.next_id();
        self.live.insert(id, Live::of(id, def_id, param, now, now));
        self.authorities.insert(id, (authority.clone(), 0));
        id
    }

    pub(crate) fn next_definition_id(&mut self) -> i64 {
        self.last_definition_id += 1;
        self.last_definition_id
    }

    pub(crate) fn next_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }

    /// Adds a notice; one with a reason to skip it is in history at once.
    pub(crate) fn add(&mut self, id: i64, live: Live, skipped: Option<String>, now: DateTime<Utc>) {
        self.live.insert(id, live);
        if let Some(reason) = skipped {
            self.cancel(id, &reason, now);
        }
    }

    fn by_name(&self, name: &str) -> Option<&NotifyDef> {
        self.definitions.values().find(|def| def.name == name)
    }

    /// Replaces a row that still has the values the editor saw, and keeps both versions; otherwise returns the reason.
    fn replace(&mut self, seen: &NotifyDef, mut new: NotifyDef, edit: &Edit, who: &str, now: DateTime<Utc>) -> Edited {
        let row = match self.definitions.get(&seen.id) {
            None => return Edited::Missing,
            Some(row) if row.delete_time.is_some() => return Edited::Missing,
            Some(row) if !row.differences(seen).is_empty() => return Edited::Conflict(row.clone()),
            Some(row) => row.clone(),
        };
        if let Some(other) = self.by_name(&new.name).filter(|other| other.id != row.id) {
            return Edited::Conflict(other.clone());
        }
        self.write_version(&row, (BY_HAND, None), &by_hand(who), now);
        (new.id, new.create_time, new.update_time) = (row.id, row.create_time, Some(now));
        self.definitions.insert(new.id, new.clone());
        self.write_version(&new, (&edit.act(), edit.reason()), who, now);
        self.raise_all(edit.alarm().into_iter(), now);
        Edited::Stored(new)
    }

    /// Returns true if no other notice of its ordering key is under way or comes before it.
    fn its_turn(&self, notice: &ClaimedNotice) -> bool {
        notice.ordering_key.is_none()
            || !self.live.values().map(|live| &live.notice).any(|other| {
                other.def_id == notice.def_id
                    && other.ordering_key == notice.ordering_key
                    && (other.id < notice.id
                        || (other.id != notice.id && matches!(other.status, Status::Sending | Status::AwaitingAck)))
            })
    }

    /// Settles one outcome. If this call stores it, it is added to `held_ones`.
    fn settle<'a>(&mut self, settle: &'a Settle, now: DateTime<Utc>, held_ones: &mut Vec<&'a Settle>) -> Settled {
        let holds = self.live.get(&settle.id).is_some_and(|live| {
            live.notice.fence == settle.fence
                && live.notice.status == settle.from
                && (!settle.overdue || live.is_due(now))
        });
        if !holds {
            return self.judge_missing(settle);
        }
        let rows = || self.definitions.values().map(TargetRow::new).collect::<Vec<_>>();
        if settle.decided_by.as_ref().is_some_and(|by| !by.still_holds(settle.def_id, &rows())) {
            return Settled::Changed;
        }
        let Some(mut live) = self.live.remove(&settle.id) else { return Settled::LostLease };
        let kept: Vec<Kept> = settle.pass_to.iter().filter_map(|target| self.pass_on(&live, target.id, now)).collect();
        let instead = settle.reason_with(&kept);
        live.notice.failures = settle.transition.failures;
        live.notice.crashes = settle.transition.crashes;
        live.notice.errors.clone_from(&settle.errors);
        live.notice.description.clone_from(&settle.description);
        live.last_class.clone_from(&settle.last_class);
        if settle.response.is_some() {
            live.response.clone_from(&settle.response);
        }
        match &settle.transition.next {
            Next::Wait { status, after } => {
                live.notice.status = *status;
                live.next_call_time = later(now, *after);
                self.live.insert(settle.id, live);
            }
            Next::Finish { status, reason, keep } => {
                live.notice.status = *status;
                live.next_call_time = None;
                if *keep {
                    let (error_group, reason) = (settle.error_group, instead.clone().or_else(|| reason.clone()));
                    self.history.insert(settle.id, Ended { live, error_group, finish_time: now, reason });
                }
            }
        }
        held_ones.push(settle);
        instead.map_or(Settled::Stored, Settled::PassedOn)
    }

    fn pass_on_part(&mut self, part: &PassOn, now: DateTime<Utc>) -> PassedOn {
        let is_held = |live: &&Live| live.notice.fence == part.fence && live.notice.status == Status::Sending;
        let Some(live) = self.live.get(&part.id).filter(is_held).cloned() else { return PassedOn::Busy };
        let (targets, done, mut kept) = match self.passing.get(&part.id).cloned() {
            Some(begun) => begun,
            None => {
                let rows: Vec<_> = self.definitions.values().map(TargetRow::new).collect();
                if !same_targets(&part.known, part.def_id, &rows) {
                    return PassedOn::Changed;
                }
                (part.targets.clone(), 0, Vec::new())
            }
        };
        let (targets, next) = part.step(&targets, done);
        kept.extend(targets[done..next].iter().filter_map(|target| self.pass_on(&live, *target, now)));
        self.passing.insert(part.id, (targets.clone(), next, kept.clone()));
        PassedOn::Part { targets, done: next, kept }
    }

    /// Adds a notice to a target, unless a live one of the target has its dedupe key. Returns that one, if it is of another notice.
    fn pass_on(&mut self, parent: &Live, target: i64, now: DateTime<Utc>) -> Option<Kept> {
        let holder = |key: &String| self.live.values().find(|live| live.has_dedupe_key(target, key));
        if let Some(holder) = parent.dedupe_key.as_ref().and_then(holder) {
            let is_other = holder.parent_id != Some(parent.notice.id);
            return is_other.then_some(Kept { target, notice: holder.notice.id });
        }
        let (id, of) = (self.next_id(), &parent.notice);
        let mut live = Live::of(id, target, of.param.clone(), now, now);
        live.notice.description.clone_from(&of.description);
        live.notice.trace_context.clone_from(&of.trace_context);
        live.notice.ordering_key.clone_from(&of.ordering_key);
        live.notice.own = of.own;
        (live.dedupe_key, live.until_ended) = (parent.dedupe_key.clone(), parent.until_ended);
        live.notice.tag.clone_from(&of.tag);
        live.parent_id = Some(of.id);
        self.live.insert(id, live);
        None
    }

    fn judge_missing(&self, settle: &Settle) -> Settled {
        let ended = || self.history.get(&settle.id).map(|ended| (&ended.live, ended.reason.clone()));
        let stored = self.live.get(&settle.id).map(|live| (live, None)).or_else(ended);
        let stored = stored.map(|(Live { notice, .. }, reason)| StoredState {
            fence: notice.fence,
            status: Some(notice.status),
            failures: notice.failures,
            crashes: notice.crashes,
            reason,
        });
        settle.judge(stored.as_ref())
    }
}

impl Live {
    pub(crate) fn new(id: i64, def_id: i64, notice: &NewNotice, now: DateTime<Utc>) -> Self {
        let (at, delay) = notice.send_millis();
        let next = match at {
            Some(ms) => solid_notify_core::notice::time_from_millis(ms).max(now),
            None => now + duration_from_millis(delay),
        };
        let mut live = Self::of(id, def_id, notice.param_json().to_owned(), now, next);
        live.dedupe_key = notice.dedupe_key_text().map(str::to_owned);
        live.until_ended = notice.is_unique_until_ended();
        live.notice.tag = notice.tag_text().map(str::to_owned);
        live.notice.description = notice.description_text().map(str::to_owned);
        live.notice.trace_context = notice.trace_context_text().map(str::to_owned);
        live.notice.ordering_key = notice.ordering_key_text().map(str::to_owned);
        live.notice.own = notice.own_limits();
        live
    }

    /// Creates a notice with only a parameter and a time.
    fn of(id: i64, def_id: i64, param: String, now: DateTime<Utc>, next: DateTime<Utc>) -> Self {
        let notice = ClaimedNotice::new(id, def_id, Status::NotSent, param, now);
        Self {
            notice,
            next_call_time: Some(next),
            last_class: None,
            response: None,
            called: false,
            dedupe_key: None,
            until_ended: false,
            parent_id: None,
        }
    }

    /// Returns true if the notice has this dedupe key and still reserves it.
    pub(crate) fn has_dedupe_key(&self, def_id: i64, key: &str) -> bool {
        self.notice.def_id == def_id && self.unique_key() == Some(key)
    }

    /// Returns the dedupe key that no other live notice may have while this one is live.
    fn unique_key(&self) -> Option<&str> {
        self.dedupe_key.as_deref().filter(|_| self.notice.fence == 0 || self.until_ended)
    }

    fn is_due(&self, now: DateTime<Utc>) -> bool {
        self.next_call_time.is_some_and(|next| next <= now)
    }

    fn record(&self, ended: Option<&Ended>) -> NoticeRecord {
        let notice = &self.notice;
        let mut record =
            NoticeRecord::new(notice.id, notice.def_id, notice.status, notice.param.clone(), notice.create_time);
        record.description.clone_from(&notice.description);
        let errors = notice.errors.as_deref();
        record.errors = errors.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        record.fence = notice.fence;
        record.failures = notice.failures;
        record.crashes = notice.crashes;
        record.worker = self.called.then(|| notice.worker.clone());
        record.last_call_time = self.called.then_some(notice.last_call_time);
        record.last_class.clone_from(&self.last_class);
        record.response = LastResponse::from_stored(self.response.as_deref());
        record.next_call_time = self.next_call_time;
        record.trace_context.clone_from(&notice.trace_context);
        record.ordering_key.clone_from(&notice.ordering_key);
        record.dedupe_key.clone_from(&self.dedupe_key);
        record.unique_until_ended = self.until_ended;
        record.tag.clone_from(&notice.tag);
        record.own = notice.own;
        record.parent_id = self.parent_id;
        record.finish_time = ended.map(|ended| ended.finish_time);
        record.end_reason = ended.and_then(|ended| ended.reason.clone());
        record.with_progress()
    }
}
