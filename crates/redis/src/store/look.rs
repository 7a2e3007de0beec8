//! What is due, and what is kept: reading that changes nothing but what is no longer kept.

use std::collections::BTreeMap;
use std::time::SystemTime;

use futures_util::future::try_join_all;
use solid_notify_core::StoreError;
use solid_notify_core::notice::{Claimed, Status, duration_millis, millis_from_time, time_from_millis};
use solid_notify_core::store::{DueLane, DueTimes, LastTick, Look, NODE_LIVES, Node, Pulse, Purge, Tick};

use super::row::{Words, claimed, score};
use super::{CHANGE, LOOK, RedisStore, codec, from_opt, member, notice_id, opt};

/// What the script tells of a definition: its time, the first of each lane in the order of [`Status::LIVE`], how many alarms wait, and the last tick.
type Due = (i64, Vec<String>, i64, (i64, String, String));

impl RedisStore {
    pub(super) async fn due_times(&self) -> Result<DueTimes, StoreError> {
        let (now, rows) = self.rows().await?;
        let ids: Vec<i64> = rows.iter().filter(|seen| seen.row.is_some()).map(|seen| seen.id).collect();
        let looks = ids.iter().map(|id| self.run::<Due>(&LOOK, *id, &["due"], "looking for what is due"));
        let (mut ticks, mut lanes) = (BTreeMap::new(), Vec::new());
        for (def_id, (now, first, alarms, tick)) in ids.iter().copied().zip(try_join_all(looks).await?) {
            let now = time_from_millis(now);
            for (status, first) in Status::LIVE.into_iter().zip(first) {
                let Some(next) = score(&first).map(time_from_millis) else { continue };
                let (after, late) = (next.duration_since(now), now.duration_since(next));
                lanes.push(DueLane {
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
                // Whoever stored them has died before they were told.
                self.forward(def_id).await?;
            }
        }
        lanes.sort_unstable_by_key(|lane| (lane.def_id, lane.status));
        Ok(DueTimes { now, ticks, lanes })
    }

    /// The row is in another slot than the tick: an edit at this very moment may meet one more tick of the old timetable.
    pub(super) async fn note_tick(&self, tick: &Tick) -> Result<bool, StoreError> {
        let (_, rows) = self.rows().await?;
        let row = rows.into_iter().find(|seen| seen.id == tick.def_id).and_then(|seen| seen.row);
        let ticks = row.is_some_and(|row| row.enabled && row.delete_time.is_none() && row.schedule == tick.schedule);
        if !ticks {
            return Ok(false);
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
        let done: i64 = self.run(&CHANGE, tick.def_id, &args, "noting a tick").await?;
        Ok(done == 1)
    }

    pub(super) async fn look_for(&self, look: &Look, limit: usize) -> Result<Vec<Claimed>, StoreError> {
        let limit = limit.to_string();
        match look {
            Look::Overdue { def_id, status } => {
                let args = ["overdue", &status.code().to_string(), &limit];
                let found: Vec<Words> = self.run(&LOOK, *def_id, &args, "looking for overdue notices").await?;
                Ok(found.iter().map(|words| claimed(*def_id, words)).collect())
            }
            Look::HeldBy { worker } => {
                let (_, rows) = self.rows().await?;
                let args = ["held", worker.as_str(), &limit];
                let looks = rows.iter().map(|seen| {
                    let look = self.run::<Vec<Words>>(&LOOK, seen.id, &args, "looking for held notices");
                    async {
                        look.await.map(|found| found.iter().map(|words| claimed(seen.id, words)).collect::<Vec<_>>())
                    }
                });
                let mut found: Vec<Claimed> = try_join_all(looks).await?.into_iter().flatten().collect();
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
                let old = |time: SystemTime| now.duration_since(time).is_ok_and(|ago| ago >= *older_than);
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

    pub(super) async fn note_beat(&self, node: &Node) -> Result<Pulse, StoreError> {
        let text = codec::node_text(&node.handlers, node.clock_offset_ms);
        let (now, nodes) = self.nodes_seen(&node.id, &text).await?;
        let mut alarms = node.alarms.clone();
        alarms.sort_by_key(|alarm| (alarm.def_id, alarm.reason));
        for same in alarms.chunk_by(|a, b| (a.def_id, a.reason) == (b.def_id, b.reason)) {
            let same: Vec<_> = same.iter().map(|alarm| (0, alarm)).collect();
            self.raise(&same, None).await?;
        }
        let lives =
            nodes.into_iter().filter(|(_, seen, _)| now.duration_since(*seen).is_ok_and(|ago| ago < NODE_LIVES));
        Ok(Pulse { now, handlers: lives.flat_map(|(_, _, handlers)| handlers).collect() })
    }

    /// The time, and each node with when it was last seen and its handlers; `id`: the one that says so now, or none.
    pub(super) async fn nodes_seen(
        &self,
        id: &str,
        text: &str,
    ) -> Result<(SystemTime, Vec<(String, SystemTime, Vec<String>)>), StoreError> {
        let (now, raw): (i64, Vec<(String, String)>) = self.common(&["beat", id, text], "noting a node").await?;
        let nodes = raw.into_iter().filter_map(|(id, text)| codec::node(&text).map(|(seen, has)| (id, seen, has)));
        Ok((time_from_millis(now), nodes.collect()))
    }
}
