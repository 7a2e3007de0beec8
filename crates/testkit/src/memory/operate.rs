//! Implements [`Operate`] in memory.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use solid_notify_core::ack::{AckResult, Reply};
use solid_notify_core::error::StoreError;
use solid_notify_core::finding::Finding;
use solid_notify_core::notice::{NEVER, NoticeRecord, Status, time_from_millis};
use solid_notify_core::operate::NO_CLASS;
use solid_notify_core::store::verb::{Change, Verb, VerbResult, decide, detail, errors_of_retry};
use solid_notify_core::store::was_seen;
use solid_notify_core::store::{
    AuditEntry, AuditQuery, Authority, BrowseStore, BulkStep, BulkStepDone, BulkVerb, DefinitionCounts, Listed,
    OperateStore, Position, QueueSlice, RetryGroup, SeenNode, SeriesCounts, SeriesQuery, StoredGroup, Switch,
};
use solid_notify_core::test_mark::TEST_TAG;

use super::{Ended, Live, MemoryStore, State};

#[async_trait]
impl BrowseStore for MemoryStore {
    async fn find(&self, id: i64) -> Result<Option<NoticeRecord>, StoreError> {
        let state = self.state();
        let live = state.live.get(&id).map(|live| live.record(None));
        Ok(live.or_else(|| state.history.get(&id).map(|ended| ended.live.record(Some(ended)))))
    }

    async fn list(&self, slice: &QueueSlice, limit: usize) -> Result<Vec<Listed>, StoreError> {
        let mut found = self.state().slice(slice);
        found.retain(|listed| match &slice.after {
            None => true,
            Some(after) if slice.newest_first => listed.position < *after,
            Some(after) => listed.position > *after,
        });
        found.sort_by(|a, b| a.position.cmp(&b.position));
        if slice.newest_first {
            found.reverse();
        }
        found.truncate(limit);
        Ok(found)
    }

    async fn count(&self, slice: &QueueSlice, most: usize) -> Result<usize, StoreError> {
        Ok(self.state().slice(slice).len().min(most))
    }

    async fn classes(&self, def_ids: &[i64]) -> Result<Vec<(i64, String)>, StoreError> {
        let state = self.state();
        let dead =
            state.history.values().map(|ended| &ended.live).filter(|live| live.notice.status == Status::DeadLetter);
        let mut classes: Vec<(i64, String)> = dead
            .filter(|live| def_ids.contains(&live.notice.def_id))
            .map(|live| (live.notice.def_id, class_of(live).to_owned()))
            .collect();
        classes.sort_unstable();
        classes.dedup();
        Ok(classes)
    }

    async fn groups(&self, slice: &QueueSlice, limit: usize) -> Result<Vec<StoredGroup>, StoreError> {
        Ok(self.state().groups(slice, limit))
    }

    async fn ahead(&self, notice: &NoticeRecord) -> Result<Option<i64>, StoreError> {
        let state = self.state();
        let others = state.live.values().map(|live| &live.notice).filter(|other| {
            other.id != notice.id && other.def_id == notice.def_id && other.ordering_key == notice.ordering_key
        });
        let under_way = |status| matches!(status, Status::Sending | Status::AwaitingAck);
        let mut before: Vec<(bool, i64)> = others
            .filter(|other| notice.ordering_key.is_some() && (other.id < notice.id || under_way(other.status)))
            .map(|other| (!under_way(other.status), other.id))
            .collect();
        before.sort_unstable();
        Ok(before.first().map(|(_, id)| *id))
    }

    async fn counts(&self) -> Result<Vec<DefinitionCounts>, StoreError> {
        Ok(self.state().counted(self.time()))
    }

    async fn refresh_counts(&self, def_id: i64, every: Duration) -> Result<bool, StoreError> {
        Ok(self.state().count_anew(def_id, every, self.time()))
    }

    async fn retries(&self, def_id: i64, most: usize) -> Result<Vec<RetryGroup>, StoreError> {
        let now = self.time();
        let state = self.state();
        let waiting = |live: &&Live| live.notice.def_id == def_id && live.notice.status == Status::Failed;
        let retries = state.live.values().filter(waiting).take(most).map(|live| {
            let called = live.called.then_some(live.notice.last_call_time);
            let wait = live.next_call_time.zip(called).and_then(|(next, called)| (next - called).to_std().ok());
            let expires = live.notice.own.expires_at.zip(called);
            let expires = expires.map(|(at, called)| (at - called).to_std().unwrap_or_default());
            let up = |after: Duration| after.as_secs() + u64::from(after.subsec_millis() > 0);
            RetryGroup {
                failures: live.notice.failures,
                crashes: live.notice.crashes,
                class: live.last_class.clone(),
                max_tries: live.notice.own.max_tries,
                wait: wait.map(|wait| Duration::from_secs(wait.as_secs())),
                expires_after: expires.map(|after| Duration::from_secs(up(after))),
                due: live.is_due(now),
                count: 1,
            }
        });
        Ok(RetryGroup::grouped(retries))
    }

    async fn series(&self, query: &SeriesQuery) -> Result<Vec<(i64, SeriesCounts)>, StoreError> {
        let wanted = |def_id: i64, minute| query.def_id.is_none_or(|wanted| wanted == def_id) && query.has(minute);
        let state = self.state();
        let found = state.series.iter().filter(|((def_id, minute, _), _)| wanted(*def_id, *minute));
        Ok(found.map(|((_, minute, _), counts)| (query.step_of(*minute), *counts)).collect())
    }

    async fn nodes(&self, seen_within: Duration) -> Result<Vec<SeenNode>, StoreError> {
        let now = self.time();
        let state = self.state();
        let running = state.nodes.values().filter(|(_, stopped)| !stopped).map(|(node, _)| node);
        let alive = running.filter(|node| was_seen(node.last_seen, now, seen_within));
        Ok(alive.cloned().collect())
    }

    async fn audit(&self, query: &AuditQuery, limit: usize) -> Result<Vec<(Position, AuditEntry)>, StoreError> {
        let state = self.state();
        let placed = (0..).zip(&state.audit).map(|(place, entry)| (Position::new("0", place), entry));
        let wanted = placed.filter(|(position, entry)| {
            query.selects(entry) && query.after.as_ref().is_none_or(|after| position < after)
        });
        let mut found: Vec<_> = wanted.map(|(position, entry)| (position, entry.clone())).collect();
        found.reverse();
        found.truncate(limit);
        Ok(found)
    }

    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        Ok(vec![Finding::fine("server", "in memory: nothing is kept")])
    }
}

#[async_trait]
impl OperateStore for MemoryStore {
    async fn apply_ack(&self, reply: &Reply) -> Result<AckResult, StoreError> {
        let now = self.time();
        Ok(self.state().apply_ack(reply, now))
    }

    async fn change(&self, id: i64, verb: &Verb, who: &str) -> Result<VerbResult, StoreError> {
        let now = self.time();
        let mut state = self.state();
        let live = state.live.get(&id).map(|live| live.record(None));
        let Some(record) = live.or_else(|| state.history.get(&id).map(|ended| ended.live.record(Some(ended)))) else {
            return Ok(VerbResult::NotFound);
        };
        let result = match decide(&record, verb, now) {
            Err(result) => result,
            Ok(change) => state.carry_out(&record, &change, now),
        };
        if result.is_applied() {
            if let (Some(errors), Some(live)) = (errors_of_retry(&record, verb), state.live.get_mut(&id)) {
                live.notice.errors = Some(errors);
            }
            let mut entry = AuditEntry::new(now, who, verb.act());
            (entry.def_id, entry.notice_id) = (Some(record.def_id), Some(id));
            entry.detail = Some(detail(&record, verb));
            state.audit.push(entry);
        }
        Ok(result)
    }

    async fn change_step(&self, step: &BulkStep) -> Result<BulkStepDone, StoreError> {
        let now = self.time();
        let mut state = self.state();
        let mut done = BulkStepDone::default();
        if let Some(act) = &step.act {
            let is_claimed = |live: &Live| live.notice.fence == act.fence && live.notice.status == Status::Sending;
            if !state.live.get(&act.id).is_some_and(is_claimed) {
                done.is_late = true;
                return Ok(done);
            }
        }
        let slices = step.slices.iter().filter(|slice| step.verb.applies_to(slice.status));
        for (slice, target) in slices.flat_map(|slice| slice.notices.iter().map(move |target| (slice, target))) {
            let seen = |live: &Live| live.notice.fence == target.fence && live.notice.status == slice.status;
            let ended = state.history.get(&target.id).is_some_and(|ended| seen(&ended.live));
            let live = state.live.get(&target.id).is_some_and(seen);
            match &step.verb {
                BulkVerb::Retry if ended => match state.revive(target.id, None, target.due.max(now)) {
                    Some(_) => done.dedupe_key_taken.push(target.id),
                    None => done.changed.push(target.id),
                },
                BulkVerb::Reschedule if live => {
                    if let Some(live) = state.live.get_mut(&target.id) {
                        live.next_call_time = Some(target.due.max(now));
                    }
                    done.changed.push(target.id);
                }
                BulkVerb::Cancel { reason } if live => {
                    state.cancel(target.id, reason, now);
                    done.changed.push(target.id);
                }
                BulkVerb::Purge { .. } if ended => {
                    done.purged.extend(state.history.remove(&target.id).map(Ended::purged));
                    done.changed.push(target.id);
                }
                _ => {}
            }
        }
        state.audit.extend(done.entries(step, now));
        Ok(done)
    }

    async fn add(&self, def_id: i64, param: &str, authority: &Authority) -> Result<i64, StoreError> {
        let now = self.time();
        Ok(self.state().add_with_authority(def_id, param.to_owned(), authority, now))
    }

    async fn add_test(&self, def_id: i64, param: &str, who: &str) -> Result<i64, StoreError> {
        let now = self.time();
        let mut state = self.state();
        let id = state.next_id();
        let mut live = Live::of(id, def_id, param.to_owned(), now, now);
        live.notice.tag = Some(TEST_TAG.to_owned());
        state.live.insert(id, live);
        state.audit.push(AuditEntry::of_test(now, who, def_id, id));
        Ok(id)
    }

    async fn note_progress(&self, id: i64, fence: i64, param: &str) -> Result<bool, StoreError> {
        let mut state = self.state();
        let sent = |live: &&mut Live| live.notice.fence == fence && live.notice.status == Status::Sending;
        let notice = state.live.get_mut(&id).filter(sent);
        Ok(notice.map(|live| param.clone_into(&mut live.notice.param)).is_some())
    }

    async fn switch(&self, switch: &Switch, who: &str) -> Result<bool, StoreError> {
        let now = self.time();
        Ok(self.state().switch(switch, who, now))
    }

    async fn close_circuit(&self, def_id: i64, who: &str) -> Result<bool, StoreError> {
        let now = self.time();
        Ok(self.state().close_circuit(def_id, who, now))
    }
}

impl State {
    /// Returns all notices of a queue slice, in no order.
    pub(super) fn slice(&self, slice: &QueueSlice) -> Vec<Listed> {
        let ended = self.history.values().map(|ended| (&ended.live, Some(ended)));
        let all = self.live.values().map(|live| (live, None)).chain(ended);
        let wanted = |(live, ended): &(&Live, Option<&Ended>)| {
            live.notice.def_id == slice.def_id
                && live.notice.status == slice.status
                && slice.class.as_deref().is_none_or(|class| class == class_of(live))
                && (slice.only.selects_all() || slice.only.selects(&live.record(None)))
                && slice.group.is_none_or(|group| ended.and_then(|ended| ended.error_group) == Some(group))
        };
        let within = |listed: &Listed| {
            slice.from.is_none_or(|from| listed.time >= from) && slice.until.is_none_or(|until| listed.time <= until)
        };
        all.filter(wanted).map(|(live, ended)| listed(live, ended)).filter(within).collect()
    }

    fn groups(&self, slice: &QueueSlice, limit: usize) -> Vec<StoredGroup> {
        let mut groups = BTreeMap::<i64, Vec<Listed>>::new();
        for listed in self.slice(slice) {
            if let Some(group) = self.history.get(&listed.id).and_then(|ended| ended.error_group) {
                groups.entry(group).or_default().push(listed);
            }
        }
        let group = |(group, all): (i64, Vec<Listed>)| {
            let example = all.iter().map(|listed| listed.id).max()?;
            let ended = self.history.get(&example)?;
            Some(StoredGroup {
                group,
                count: all.len() as u64,
                first: all.iter().map(|listed| listed.time).min()?,
                last: all.iter().map(|listed| listed.time).max()?,
                example,
                class: ended.live.last_class.clone(),
                errors: ended.live.notice.errors.clone(),
                end_reason: ended.reason.clone(),
            })
        };
        let mut groups: Vec<StoredGroup> = groups.into_iter().filter_map(group).collect();
        groups.sort_by_key(|group| (std::cmp::Reverse(group.count), group.group));
        groups.truncate(limit);
        groups
    }

    fn carry_out(&mut self, record: &NoticeRecord, change: &Change, now: DateTime<Utc>) -> VerbResult {
        let id = record.id;
        match change {
            Change::Revive { param } => {
                if let Some(other) = self.revive(id, param.clone(), now) {
                    return VerbResult::DedupeKeyTaken(other);
                }
            }
            Change::End { reason, .. } => self.cancel(id, reason, now),
            Change::Retime { at } => {
                if let Some(live) = self.live.get_mut(&id) {
                    live.next_call_time = Some((*at).max(now));
                }
            }
            Change::Recount { failures, crashes } => {
                if let Some(live) = self.live.get_mut(&id) {
                    live.next_call_time = Some(now);
                    (live.notice.failures, live.notice.crashes) = (*failures, *crashes);
                }
            }
            Change::Rewrite { param } => {
                if let Some(live) = self.live.get_mut(&id) {
                    live.notice.param.clone_from(param);
                }
            }
            Change::Nothing => {}
        }
        change.result()
    }

    /// Moves an ended notice back to the live ones. If another notice has its dedupe key, returns that one's id.
    fn revive(&mut self, id: i64, param: Option<String>, due: DateTime<Utc>) -> Option<i64> {
        let ended = self.history.get(&id)?;
        let def_id = ended.live.notice.def_id;
        if let Some(key) = ended.live.unique_key()
            && let Some((other, _)) = self.live.iter().find(|(_, live)| live.has_dedupe_key(def_id, key))
        {
            return Some(*other);
        }
        let mut live = self.history.remove(&id)?.live;
        let notice = &mut live.notice;
        notice.status = if notice.fence > 0 { Status::Failed } else { Status::NotSent };
        (notice.failures, notice.crashes) = (0, 0);
        notice.own.expires_at = notice.own.expires_at.filter(|expires_at| *expires_at > due);
        if let Some(param) = param {
            notice.param = param;
        }
        live.next_call_time = Some(due);
        self.live.insert(id, live);
        None
    }

    pub(super) fn cancel(&mut self, id: i64, reason: &str, now: DateTime<Utc>) {
        if let Some(mut live) = self.live.remove(&id) {
            live.notice.status = Status::Cancelled;
            live.next_call_time = None;
            let reason = Some(reason.to_owned());
            self.history.insert(id, Ended { live, error_group: None, finish_time: now, reason });
        }
    }
}

fn class_of(live: &Live) -> &str {
    live.last_class.as_deref().filter(|class| !class.is_empty()).unwrap_or(NO_CLASS)
}

fn listed(live: &Live, ended: Option<&Ended>) -> Listed {
    let record = live.record(ended);
    let cut = |text: Option<String>, limit: usize| text.map(|text| text.chars().take(limit).collect::<String>());
    let time = record.finish_time.or(record.next_call_time).unwrap_or(time_from_millis(NEVER));
    let nanos = (time - DateTime::UNIX_EPOCH).to_std().unwrap_or_default().as_nanos();
    let position = Position::new(format!("{nanos:026}"), record.id);
    let mut listed = Listed::new(record.id, record.def_id, record.status, record.create_time, time, position);
    (listed.fence, listed.failures, listed.crashes) = (record.fence, record.failures, record.crashes);
    listed.last_call_time = record.last_call_time;
    listed.last_class = record.last_class;
    listed.description = cut(record.description, 200);
    listed.end_reason = cut(record.end_reason, 500);
    (listed.ordering_key, listed.dedupe_key, listed.tag) = (record.ordering_key, record.dedupe_key, record.tag);
    listed.own = record.own;
    listed.with_progress()
}
