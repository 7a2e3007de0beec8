//! Looks for due and overdue notices, and the ticks, purges and heartbeats that follow from looks.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use futures_util::future::try_join_all;
use solid_notify_core::StoreError;
use solid_notify_core::notice::{ClaimedNotice, Status, duration_millis, millis_from_time, time_from_millis};
use solid_notify_core::store::{
    ClusterView, DueSlice, DueTimes, LastTick, Look, NODE_LIVES, Node, Purge, Tick, Ticked, was_seen,
};

use super::row::{Words, claimed, score};
use super::{CHANGE, LOOK, RedisStore, codec, from_opt, member, notice_id, opt};

/// The script's reply for a definition: time, first due time of each queue slice in the order of [`Status::LIVE`], number of
/// waiting alarms, and the last tick.
type Due = (i64, Vec<String>, i64, (i64, String, String));

impl RedisStore {
    pub(super) async fn due_times(&self) -> Result<DueTimes, StoreError> {
        // Reads only ids, because reading 1,500 rows takes longer than looking for what is due in each definition.
        let (now, ids): (i64, Vec<i64>) = self.common(&["ids"], "looking for definitions").await?;
        let now = time_from_millis(now);
        let looks = ids.iter().map(|id| self.run::<Due>(&LOOK, *id, &["due"], "looking for what is due"));
        let (mut ticks, mut slices) = (BTreeMap::new(), Vec::new());
        for (def_id, (now, first, alarms, tick)) in ids.iter().copied().zip(try_join_all(looks).await?) {
            let now = time_from_millis(now);
            for (status, first) in Status::LIVE.into_iter().zip(first) {
                let Some(next) = score(&first).map(time_from_millis) else { continue };
                let (after, late) = ((next - now).to_std(), (now - next).to_std());
                slices.push(DueSlice {
                    def_id,
                    status,
                    after: after.unwrap_or_default(),
                    late: late.unwrap_or_default(),
                });
            }
            if let (1, at, schedule) = tick {
                let at = at.parse().ok().map(time_from_millis);
                ticks.insert(def_id, LastTick { at, schedule: from_opt(&schedule) });
            }
            if alarms > 0 {
                // The node that stored these alarms died before it forwarded them.
                self.forward(def_id).await?;
            }
        }
        slices.sort_unstable_by_key(|slice| (slice.def_id, slice.status));
        Ok(DueTimes { now, ticks, slices })
    }

    /// The row is in another slot than the tick: an edit at the same moment may be followed by one more tick of the old
    /// timetable.
    pub(super) async fn note_tick(&self, tick: &Tick) -> Result<Ticked, StoreError> {
        let (_, rows) = self.rows().await?;
        let row = rows.into_iter().find(|seen| seen.id == tick.def_id).and_then(|seen| seen.row);
        let ticks = row.is_some_and(|row| row.enabled && row.delete_time.is_none() && row.schedule == tick.schedule);
        if !ticks {
            return Ok(Ticked::Changed);
        }
        let number: i64 = match tick.params.len() {
            0 => 0,
            many => self.common(&["numbers", &many.to_string()], "numbering notices").await?,
        };
        let mut args = vec!["tick".to_owned()];
        args.push(tick.seen.at.map(|at| millis_from_time(at).to_string()).unwrap_or_default());
        args.push(opt(tick.seen.schedule.as_deref()));
        args.push(millis_from_time(tick.last).to_string());
        args.push(opt(tick.schedule.as_deref()));
        for (at, param) in (number..).zip(&tick.params) {
            args.extend([member(notice_id(at, tick.def_id)), param.clone()]);
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let done: i64 = self.run(&CHANGE, tick.def_id, &args, "storing a tick").await?;
        Ok(if done == 1 { Ticked::Done } else { Ticked::Changed })
    }

    pub(super) async fn look_for(&self, look: &Look, limit: usize) -> Result<Vec<ClaimedNotice>, StoreError> {
        let limit = limit.to_string();
        match look {
            Look::Overdue { def_id, status } => {
                let args = ["overdue", &status.code().to_string(), &limit];
                let found: Vec<Words> = self.run(&LOOK, *def_id, &args, "looking for overdue notices").await?;
                Ok(found.iter().map(|words| claimed(*def_id, words)).collect())
            }
            Look::ClaimedBy { worker } => {
                let (_, rows) = self.rows().await?;
                let args = ["held", worker.as_str(), &limit];
                let looks = rows.iter().map(|seen| {
                    let look = self.run::<Vec<Words>>(&LOOK, seen.id, &args, "looking for held notices");
                    async {
                        look.await.map(|found| found.iter().map(|words| claimed(seen.id, words)).collect::<Vec<_>>())
                    }
                });
                let mut found: Vec<ClaimedNotice> = try_join_all(looks).await?.into_iter().flatten().collect();
                found.truncate(limit.parse().unwrap_or(usize::MAX));
                Ok(found)
            }
        }
    }

    pub(super) async fn purge_some(&self, purge: &Purge) -> Result<Vec<i64>, StoreError> {
        const DOING: &str = "purging";
        match purge {
            Purge::History { def_id, status, older_than, limit } => {
                let older = duration_millis(*older_than).to_string();
                let args = ["purge", &status.code().to_string(), &older, &limit.to_string()];
                let purged: Vec<String> = self.run(&CHANGE, *def_id, &args, DOING).await?;
                Ok(purged.iter().filter_map(|member| member.parse().ok()).collect())
            }
            Purge::Definition { def_id, older_than } => {
                let (now, rows) = self.rows().await?;
                let row = rows.into_iter().find(|seen| seen.id == *def_id).and_then(|seen| seen.row);
                let old = |time: DateTime<Utc>| (now - time).to_std().is_ok_and(|ago| ago >= *older_than);
                if !row.and_then(|row| row.delete_time).is_some_and(old) {
                    return Ok(Vec::new());
                }
                let dropped: i64 = self.run(&CHANGE, *def_id, &["drop"], DOING).await?;
                if dropped == 0 {
                    return Ok(Vec::new());
                }
                let _: String = self.common(&["forget", &def_id.to_string()], DOING).await?;
                Ok(vec![*def_id])
            }
        }
    }

    pub(super) async fn note_beat(&self, node: &Node) -> Result<ClusterView, StoreError> {
        let text = codec::node_text(&node.handlers, node.clock_offset_ms);
        let (now, nodes) = self.nodes_seen(&node.id, &text).await?;
        let mut alarms = node.alarms.clone();
        alarms.sort_by_key(|alarm| (alarm.def_id, alarm.reason));
        for same in alarms.chunk_by(|a, b| (a.def_id, a.reason) == (b.def_id, b.reason)) {
            let same: Vec<_> = same.iter().map(|alarm| (0, alarm)).collect();
            self.raise(&same, None).await?;
        }
        let lives = nodes.into_iter().filter(|(_, seen, _)| was_seen(*seen, now, NODE_LIVES));
        Ok(ClusterView { now, handlers: lives.flat_map(|(_, _, handlers)| handlers).collect() })
    }

    /// Returns the time, and for each node, by id, when it was last seen and its handlers. `id` is the node that reports now; empty for
    /// none.
    pub(super) async fn nodes_seen(
        &self,
        id: &str,
        text: &str,
    ) -> Result<(DateTime<Utc>, Vec<(String, DateTime<Utc>, Vec<String>)>), StoreError> {
        let (now, raw): (i64, Vec<(String, String)>) = self.common(&["beat", id, text], "storing a heartbeat").await?;
        let nodes = raw.into_iter().filter_map(|(id, text)| codec::node(&text).map(|(seen, has)| (id, seen, has)));
        let mut nodes: Vec<_> = nodes.collect();
        nodes.sort_unstable();
        Ok((time_from_millis(now), nodes))
    }
}
