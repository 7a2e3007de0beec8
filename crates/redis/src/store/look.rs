//! Looks for due and overdue notices, and the ticks, purges and heartbeats that follow from looks.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::join_all;
use solid_notify_core::StoreError;
use solid_notify_core::notice::{
    ClaimedNotice, Status, duration_from_millis, duration_millis, millis_from_time, time_from_millis,
};
use solid_notify_core::store::{
    Advanced, ClusterView, DueSlice, DueTimes, LastTick, Look, NODE_LIVES, Node, Purge, Purged, SeenNode, Tick,
    was_seen,
};

use super::definitions::SeenRow;
use super::given::{self, Plain, Text};
use super::row::{Words, claimed, number, score, word};
use super::{CHANGE, LOOK, Readable, RedisStore, codec, member, notice_id, readable};

/// The script's reply for a definition: time, first due time of each queue slice in the order of [`Status::LIVE`], number of
/// alarms and notices that are to be forwarded, and the last tick.
type Due = (i64, Vec<String>, i64, (i64, String, Option<String>));

impl RedisStore {
    /// Returns the parameter of a claimed notice, or how many bytes it has.
    pub(super) async fn left_param(&self, claimed: &ClaimedNotice, whole: bool) -> Result<Option<String>, StoreError> {
        let look = given::Look::Param { member: member(claimed.id), fence: Text(claimed.fence), whole };
        self.run(&LOOK, claimed.def_id, &look, "reading a large parameter").await
    }

    pub(super) async fn due_times(&self) -> Result<DueTimes, StoreError> {
        // Reads only ids, because reading 1,500 rows takes longer than looking for what is due in each definition.
        let (now, ids, due_alert) = self.ids_and_alert().await?;
        let alerts = score(&due_alert).map(|due| duration_from_millis(due - now));
        // The latest time of all looks: where the clock was set between two of them, the caller must see that.
        let mut latest = time_from_millis(now);
        let looks = ids.iter().map(|id| self.run::<Due>(&LOOK, *id, &given::Look::Due, "looking for what is due"));
        let Readable { read: looks, damaged } = readable(ids.iter().copied().zip(join_all(looks).await))?;
        // Their claims fail for the same reason, and the sweeper reports that.
        let at_once =
            |def_id| DueSlice { def_id, status: Status::NotSent, after: Duration::ZERO, late: Duration::ZERO };
        let (mut ticks, mut slices) = (BTreeMap::new(), damaged.into_iter().map(at_once).collect::<Vec<_>>());
        let mut outgoing = Vec::new();
        for (def_id, (now, first, stored, tick)) in looks {
            let now = time_from_millis(now);
            latest = latest.max(now);
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
                ticks.insert(def_id, LastTick { at, schedule });
            }
            if stored > 0 {
                outgoing.push(def_id);
            }
        }
        // It is on its way, or the node that stored it died before.
        let is_forwarding = !outgoing.is_empty() && self.forward_soon(outgoing.iter().copied()).await;
        let problem = |def_id| Some((def_id, self.forwarding.of(def_id).problem.lock().clone()?));
        let not_forwarded = outgoing.into_iter().filter_map(problem).collect();
        slices.sort_unstable_by_key(|slice| (slice.def_id, slice.status));
        Ok(DueTimes { now: latest, alerts, ticks, slices, is_forwarding, not_forwarded })
    }

    /// Returns the ids of all definitions.
    pub(super) async fn ids(&self) -> Result<Vec<i64>, StoreError> {
        Ok(self.ids_and_alert().await?.1)
    }

    /// Returns the time, the ids of all definitions, and when the first alert is due.
    async fn ids_and_alert(&self) -> Result<(i64, Vec<i64>, String), StoreError> {
        self.common(&given::Common::Ids, "looking for definitions").await
    }

    /// The row is in another slot than the tick: an edit at the same moment may be followed by one more tick of the old
    /// timetable.
    pub(super) async fn note_tick(&self, tick: &Tick) -> Result<Advanced, StoreError> {
        let (_, rows) = self.rows().await?;
        let row = rows.into_iter().find(|seen| seen.id == tick.def_id).and_then(|seen| seen.row);
        let ticks = row.is_some_and(|row| row.enabled && row.delete_time.is_none() && row.schedule == tick.schedule);
        if !ticks {
            return Ok(Advanced::Changed);
        }
        let number: i64 = match tick.params.len() {
            0 => 0,
            wanted => self.common(&given::Common::Numbers { wanted }, "numbering notices").await?,
        };
        let notice = |(number, param): (i64, &String)| {
            let member = member(notice_id(number, tick.def_id));
            Plain { member, param: param.clone(), authority: tick.authority.as_ref().map(codec::authority_text) }
        };
        let change = given::Change::Tick {
            seen_tick: tick.seen.at.map(|at| Text(millis_from_time(at))),
            seen_schedule: tick.seen.schedule.as_deref(),
            last_tick: Text(millis_from_time(tick.last)),
            tick_schedule: tick.schedule.as_deref(),
            notices: (number..).zip(&tick.params).map(notice).collect(),
        };
        let done: i64 = self.run(&CHANGE, tick.def_id, &change, "storing a tick").await?;
        Ok(if done == 1 { Advanced::Stored } else { Advanced::Changed })
    }

    pub(super) async fn look_for(&self, look: &Look, limit: usize) -> Result<Vec<ClaimedNotice>, StoreError> {
        match look {
            Look::Overdue { def_id, status } => {
                let overdue = given::Look::Overdue { status: (*status).into(), most: limit };
                let found: Vec<Words> = self.run(&LOOK, *def_id, &overdue, "looking for overdue notices").await?;
                Ok(found.iter().map(|words| claimed(*def_id, words)).collect())
            }
            Look::ClaimedBy { worker } => {
                let ids = self.ids().await?;
                let by_worker = given::Look::Claimed { worker, most: limit };
                let looks =
                    ids.iter().map(|id| self.run::<Vec<Words>>(&LOOK, *id, &by_worker, "looking for claimed notices"));
                let looks = ids.iter().copied().zip(join_all(looks).await);
                let of_one = |(def_id, found): (i64, Vec<Words>)| {
                    found.iter().map(|words| claimed(def_id, words)).collect::<Vec<_>>()
                };
                Ok(readable(looks)?.read.into_iter().flat_map(of_one).take(limit).collect())
            }
        }
    }

    pub(super) async fn purge_some(&self, purge: &Purge) -> Result<Vec<Purged>, StoreError> {
        const DOING: &str = "purging";
        match purge {
            Purge::History { def_id, status, older_than, limit } => {
                let (status, minimum_age) = ((*status).into(), duration_millis(*older_than));
                let purge = given::Change::Purge { status, minimum_age, most: *limit };
                let purged: Vec<Words> = self.run(&CHANGE, *def_id, &purge, DOING).await?;
                Ok(purged.iter().map(purged_row).collect())
            }
            Purge::Series { older_than, limit } => self.purge_series(*older_than, *limit).await,
            Purge::Inbox { older_than, limit } => self.purge_inbox(*older_than, *limit).await,
            // It is a field of its notice.
            Purge::Orphans { .. } => Ok(Vec::new()),
            Purge::Definition { def_id, older_than } => {
                let (now, rows) = self.rows().await?;
                let is_target = |seen: &SeenRow| seen.row.as_ref().is_some_and(|row| row.target_of == Some(*def_id));
                let is_parent = rows.iter().any(is_target);
                let row = rows.into_iter().find(|seen| seen.id == *def_id).and_then(|seen| seen.row);
                let old = |time: DateTime<Utc>| (now - time).to_std().is_ok_and(|ago| ago >= *older_than);
                // Its targets inherit from it.
                if is_parent || !row.and_then(|row| row.delete_time).is_some_and(old) {
                    return Ok(Vec::new());
                }
                loop {
                    let dropped: String = self.run(&CHANGE, *def_id, &given::Change::Drop, DOING).await?;
                    match dropped.as_str() {
                        "kept" => return Ok(Vec::new()),
                        "more" => continue,
                        "damaged" => self.erase(*def_id).await?,
                        _ => {}
                    }
                    break;
                }
                let _: String = self.common(&given::Common::Forget { id: Text(*def_id) }, DOING).await?;
                Ok(vec![Purged { id: *def_id, ..Purged::default() }])
            }
        }
    }

    /// Deletes all keys of a dropped definition, in steps over all keys of its server.
    async fn erase(&self, def_id: i64) -> Result<(), StoreError> {
        let mut cursor = "0".to_owned();
        loop {
            let erase = given::Change::Erase { cursor };
            cursor = self.run(&CHANGE, def_id, &erase, "erasing a purged definition").await?;
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    pub(super) async fn note_beat(&self, node: &Node) -> Result<ClusterView, StoreError> {
        let text = codec::node_text(node);
        let (now, nodes) = self.nodes_seen(Some(given::Node { node: &node.id, row: &text })).await?;
        let mut alarms = node.alarms.clone();
        alarms.sort_by_key(|alarm| (alarm.def_id, alarm.reason));
        for same in alarms.chunk_by(|a, b| (a.def_id, a.reason) == (b.def_id, b.reason)) {
            let same: Vec<_> = same.iter().map(|alarm| (0, alarm)).collect();
            self.raise(&same, None).await?;
        }
        let lives = nodes.into_iter().map(|(node, _)| node).filter(|node| was_seen(node.last_seen, now, NODE_LIVES));
        Ok(ClusterView { now, handlers: lives.flat_map(|node| node.handlers).collect(), alarms_left: 0 })
    }

    /// Returns the time, and all nodes, by id, each with whether it has stopped. `node` is the one that reports now.
    pub(super) async fn nodes_seen(
        &self,
        node: Option<given::Node<'_>>,
    ) -> Result<(DateTime<Utc>, Vec<(SeenNode, bool)>), StoreError> {
        let (now, raw): (i64, Vec<(String, String)>) =
            self.common(&given::Common::Beat { node }, "storing a heartbeat").await?;
        let mut nodes: Vec<_> = raw.into_iter().filter_map(|(id, text)| codec::node(id, &text)).collect();
        nodes.sort_unstable_by(|(a, _), (b, _)| a.id.cmp(&b.id));
        Ok((time_from_millis(now), nodes))
    }
}

/// What the script returns of a notice that it deleted.
pub(super) fn purged_row(words: &Words) -> Purged {
    let tries = number(words, 1).saturating_add(number(words, 2));
    let purged = Purged { id: number(words, 0), tries, class: word(words, 3), error: None, reason: word(words, 5) };
    purged.with_errors(word(words, 4).as_deref())
}
