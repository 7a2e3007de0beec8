//! `Operate` over Redis. The verbs are in `verbs`, the versions in `definitions`.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures_util::future::try_join_all;
use solid_notify_core::StoreError;
use solid_notify_core::ack::{AckResult, Reply};
use solid_notify_core::definition::NotifyDef;
use solid_notify_core::finding::Finding;
use solid_notify_core::notice::{NoticeRecord, duration_millis, time_from_millis};
use solid_notify_core::store::verb::{Verb, VerbResult};
use solid_notify_core::store::{
    AuditEntry, AuditQuery, Authority, BrowseStore, BulkStep, BulkStepDone, COUNT_HOLD, DefinitionCounts, Listed,
    NoticeCounts, OperateStore, PauseScope, Paused, Position, QueueSlice, RECENT, RetryGroup, SeenNode, SeriesCounts,
    SeriesQuery, StoredGroup, Switch, next_count, was_seen,
};

use super::given::{self, Millis, Text};
use super::row::score;
use super::{AT_ONCE, CHANGE, LOOK, RedisStore, codec, def_of, member};

#[async_trait]
impl BrowseStore for RedisStore {
    async fn find(&self, id: i64) -> Result<Option<NoticeRecord>, StoreError> {
        let stored = self.load(id).await?;
        Ok(stored.and_then(|stored| stored.status().map(|status| stored.record(status))))
    }

    async fn list(&self, slice: &QueueSlice, limit: usize) -> Result<Vec<Listed>, StoreError> {
        self.list_of(slice, limit).await
    }

    async fn count(&self, slice: &QueueSlice, most: usize) -> Result<usize, StoreError> {
        self.count_of(slice, most).await
    }

    async fn classes(&self, def_ids: &[i64]) -> Result<Vec<(i64, String)>, StoreError> {
        let looks =
            def_ids.iter().map(|id| self.run::<Vec<String>>(&LOOK, *id, &given::Look::Classes, "listing classes"));
        let found = try_join_all(looks).await?.into_iter().zip(def_ids);
        let mut classes: Vec<(i64, String)> =
            found.flat_map(|(classes, id)| classes.into_iter().map(move |class| (*id, class))).collect();
        classes.sort_unstable();
        classes.dedup();
        Ok(classes)
    }

    async fn groups(&self, slice: &QueueSlice, limit: usize) -> Result<Vec<StoredGroup>, StoreError> {
        self.groups_of(slice, limit).await
    }

    async fn ahead(&self, notice: &NoticeRecord) -> Result<Option<i64>, StoreError> {
        let Some(key) = &notice.ordering_key else { return Ok(None) };
        let look = given::Look::Ahead { ordering_key: key, member: member(notice.id) };
        let ahead: String = self.run(&LOOK, notice.def_id, &look, "looking for the notice in front of another").await?;
        Ok(ahead.parse().ok())
    }

    async fn oldest_blocked(&self, def_id: i64) -> Result<Option<DateTime<Utc>>, StoreError> {
        let oldest: String = self.run(&LOOK, def_id, &given::Look::Oldest, "looking for blocked notices").await?;
        Ok(score(&oldest).map(time_from_millis))
    }

    async fn counts(&self) -> Result<Vec<DefinitionCounts>, StoreError> {
        let (now, counted): (i64, Vec<(i64, String)>) =
            self.common(&given::Common::Counts, "reading the counts").await?;
        let (_, rows) = self.rows().await?;
        let row = |row: NotifyDef| {
            let text = counted.iter().find(|(id, _)| *id == row.id).map(|(_, text)| text.as_str());
            let (next, taken) = codec::counts(text.unwrap_or_default());
            DefinitionCounts::new((row.id, row.name), taken, next, time_from_millis(now))
        };
        let mut all: Vec<DefinitionCounts> = rows.into_iter().filter_map(|seen| seen.row).map(row).collect();
        all.sort_by(|a, b| a.definition.cmp(&b.definition));
        Ok(all)
    }

    async fn refresh_counts(&self, def_id: i64, every: Duration) -> Result<bool, StoreError> {
        const DOING: &str = "counting notices";
        let ask = given::Common::MayCount { id: Text(def_id), wait: Millis(COUNT_HOLD) };
        if !every.is_zero() && self.common::<i64>(&ask, DOING).await? == 0 {
            return Ok(false);
        }
        let began = Instant::now();
        let look = given::Look::Counts { recent: duration_millis(RECENT) };
        let found: Vec<String> = self.run(&LOOK, def_id, &look, DOING).await?;
        let count = |at: usize| found.get(at).and_then(|word| word.parse::<u64>().ok()).unwrap_or_default();
        let mut counts = NoticeCounts::default();
        (counts.not_sent, counts.failed, counts.sending) = (count(2), count(3), count(4));
        (counts.awaiting_ack, counts.dead_letters, counts.cancelled) = (count(5), count(6), count(7));
        counts.recently_succeeded = count(8);
        counts.oldest_due = found.get(1).and_then(|word| score(word)).map(time_from_millis);
        let at = found.first().and_then(|word| score(word)).map_or(DateTime::UNIX_EPOCH, time_from_millis);
        let wait = Millis(next_count(began.elapsed(), every));
        let counted = given::Common::Counted { id: Text(def_id), wait, counts: codec::counts_text(&counts, at) };
        let _: i64 = self.common(&counted, DOING).await?;
        Ok(true)
    }

    async fn retries(&self, def_id: i64, most: usize) -> Result<Vec<RetryGroup>, StoreError> {
        let mut retries: Vec<RetryGroup> = Vec::new();
        let mut at = 0;
        while at < most {
            let page = AT_ONCE.min(most - at);
            type Raw = (i64, i64, Option<String>, Option<i64>, Option<i64>, Option<i64>, String);
            let look = given::Look::Retries { skipped: at, most: page };
            let (now, found): (i64, Vec<Raw>) = self.run(&LOOK, def_id, &look, "looking at retries").await?;
            for (failures, crashes, class, max_tries, expires_at, called, due) in &found {
                let due = score(due).unwrap_or(i64::MAX);
                let after = |time: i64| called.map(|called| u64::try_from(time.saturating_sub(called)).unwrap_or(0));
                let wait = called.and_then(|called| u64::try_from(due.saturating_sub(called)).ok());
                retries.push(RetryGroup {
                    failures: *failures,
                    crashes: *crashes,
                    class: class.clone(),
                    max_tries: *max_tries,
                    wait: wait.map(|ms| Duration::from_secs(ms / 1000)),
                    expires_after: expires_at.and_then(after).map(|ms| Duration::from_secs(ms.div_ceil(1000))),
                    due: due <= now,
                    count: 1,
                });
            }
            if found.len() < page {
                break;
            }
            at += page;
        }
        Ok(RetryGroup::grouped(retries))
    }

    async fn series(&self, query: &SeriesQuery) -> Result<Vec<(i64, SeriesCounts)>, StoreError> {
        self.read_series(query).await
    }

    async fn nodes(&self, seen_within: Duration) -> Result<Vec<SeenNode>, StoreError> {
        let (now, nodes) = self.nodes_seen(None).await?;
        let running = nodes.into_iter().filter(|(_, stopped)| !stopped).map(|(node, _)| node);
        Ok(running.filter(|node| was_seen(node.last_seen, now, seen_within)).collect())
    }

    async fn audit(&self, query: &AuditQuery, limit: usize) -> Result<Vec<(Position, AuditEntry)>, StoreError> {
        self.read_audit(query, limit).await
    }

    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        self.examine_servers().await
    }
}

#[async_trait]
impl OperateStore for RedisStore {
    async fn apply_ack(&self, reply: &Reply) -> Result<AckResult, StoreError> {
        self.apply(reply).await
    }

    async fn can_ack(&self) -> Result<(), StoreError> {
        self.try_ack().await
    }

    async fn change(&self, id: i64, verb: &Verb, who: &str) -> Result<VerbResult, StoreError> {
        self.change_one(id, verb, who).await
    }

    async fn change_step(&self, step: &BulkStep) -> Result<BulkStepDone, StoreError> {
        self.change_some(step).await
    }

    async fn add(&self, def_id: i64, param: &str, authority: &Authority) -> Result<i64, StoreError> {
        self.add_act(def_id, param, authority).await
    }

    async fn add_test(&self, def_id: i64, param: &str, who: &str) -> Result<i64, StoreError> {
        self.add_marked(def_id, param, who).await
    }

    async fn note_progress(&self, id: i64, fence: i64, param: &str) -> Result<bool, StoreError> {
        let noted = given::Change::Progress { member: member(id), fence: Text(fence), text: param };
        let noted: i64 = self.run(&CHANGE, def_of(id), &noted, "storing the progress of a bulk act").await?;
        Ok(noted == 1)
    }

    async fn switch(&self, switch: &Switch, who: &str) -> Result<bool, StoreError> {
        let now = self.time().await?;
        let reason = switch.reason().map(str::to_owned);
        let mut entry = AuditEntry::new(now, who, switch.act());
        entry.detail.clone_from(&reason);
        let text = |scope| codec::paused_text(&Paused { scope, who: Some(who.to_owned()), since: Some(now), reason });
        let scope = switch.scope();
        let (paused, scope) = (scope.map(text), scope.map(PauseScope::as_str));
        let switch = given::Common::Switch { paused, scope, audit: codec::audit_text(&entry) };
        let turned: i64 = self.common(&switch, "turning the pause switch").await?;
        Ok(turned == 1)
    }

    async fn close_circuit(&self, def_id: i64, who: &str) -> Result<bool, StoreError> {
        self.close(def_id, who).await
    }
}
