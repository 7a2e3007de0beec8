//! [`SqlStore`]: the [`Store`] over a database. Each method runs one or a few statements of [`crate::statements`], with a
//! time-out, on one of the store's connections. Settling and definitions have files of their own.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::Serialize;
use solid_notify_core::clock::HandClock;
use solid_notify_core::error::{FaultKind, StoreError};
use solid_notify_core::notice::{
    ClaimedNotice, NEVER, Status, duration_from_millis, duration_millis, time_from_millis,
};
use solid_notify_core::store::{
    Advanced, Alarm, Claim, Claims, ClusterView, DueSlice, DueTimes, LastTick, Lease, Look, NODE_LIVES, Node, Purge,
    SendStore, Settle, Settled, Tick,
};
use sqlx::Pool;

use crate::add::known::Known;
use crate::alerts;
use crate::claim::blocked::Unordered;
use crate::claim::marks::Marks;
use crate::connections::{Borrowed, Connections, NoTurn, Purpose, Share};
use crate::dialect::Dialect;
use crate::dialect::row::{read_claimed, required};
use crate::dialect::statement::Arg;
use crate::operate::purge::Purged;

/// The store of one database.
pub(crate) struct SqlStore<DB: Dialect> {
    pub(crate) connections: Connections<DB>,
    pub(crate) clock: Option<HandClock>,
    call_timeout: Duration,
    pub(crate) marks: Marks,
    pub(crate) purged: Purged,
    pub(crate) known: Arc<Known>,
    pub(crate) unordered: Unordered,
    /// When a statement last met a row that another session locks.
    met_lock: Mutex<Option<Instant>>,
}

/// Maximum number of tries of a call that meets a conflict, such as a deadlock.
pub(crate) const CONFLICT_TRIES: u32 = 4;
/// A try that took longer is not repeated.
const TRIED_AGAIN: Duration = Duration::from_millis(900);
/// How long statements skip locked rows after one of them met a lock. A session that keeps many rows locked, such as an open
/// transaction in an editor, then delays one statement and not all of them.
const CAREFUL: Duration = Duration::from_secs(10);
/// How long the alarms of a heartbeat wait for their rows in all.
const ALARMS_WAIT: Duration = Duration::from_millis(500);
/// How many leases one transaction extends.
const LEASES_AT_ONCE: usize = 1000;
/// Nodes that were not seen for this long are deleted.
const NODE_MEMORY: Duration = Duration::from_secs(86_400);

impl<DB: Dialect> SqlStore<DB> {
    pub(crate) fn new(app: &Pool<DB>, clock: Option<HandClock>, call_timeout: Duration, known: Arc<Known>) -> Self {
        Self {
            connections: Connections::new(app, call_timeout),
            clock,
            call_timeout,
            marks: Marks::default(),
            purged: Purged::default(),
            known,
            unordered: Unordered::default(),
            met_lock: Mutex::default(),
        }
    }

    /// `$1` of every statement.
    pub(crate) fn now(&self) -> Arg<'static> {
        Arg::Int(self.clock.as_ref().map(HandClock::now_millis))
    }

    /// Notes that a statement waited for a lock and failed.
    pub(crate) fn note_lock(&self) {
        *self.met_lock.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// True where statements should skip locked rows.
    pub(crate) fn met_lock_lately(&self) -> bool {
        self.met_lock.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|met| met.elapsed() < CAREFUL)
    }

    /// Waits for a turn, then runs one call under the time-out. Repeats it a few times, with jitter, after a conflict that the
    /// database reported at once.
    pub(crate) async fn call<'s, T, F>(
        &'s self,
        doing: &'static str,
        purpose: Purpose,
        attempt: impl Fn(&'s Share<DB>) -> F + Send + Sync,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = sqlx::Result<T>> + Send,
    {
        let turn = match self.connections.turn(purpose).await {
            Ok(turn) => turn,
            Err(NoTurn::Outage) => {
                let problem = "another call found that the database does not answer";
                return Err(StoreError::new(doing, FaultKind::Outage, problem));
            }
            Err(NoTurn::Busy) => {
                let limit = humantime::format_duration(self.connections.turn_limit());
                let problem = format!("too many calls at once: no connection of the store was free within {limit}");
                return Err(StoreError::new(doing, FaultKind::Busy, problem));
            }
        };
        let tries = async {
            let mut tried = 1;
            loop {
                let began = Instant::now();
                match attempt(turn.share).await {
                    // Not after a wait for a lock, because the next try would only wait again.
                    Err(error)
                        if tried < CONFLICT_TRIES
                            && fault::<DB>(&error) == FaultKind::Conflict
                            && began.elapsed() < TRIED_AGAIN =>
                    {
                        tracing::debug!(doing, %error, tried, "retrying after a conflict with another transaction");
                        tokio::time::sleep(conflict_pause(tried)).await;
                        tried += 1;
                    }
                    done => break done,
                }
            }
        };
        let error = match tokio::time::timeout(self.call_timeout, tries).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => StoreError::new(doing, fault::<DB>(&error), error),
            Err(_) => {
                let limit = humantime::format_duration(self.call_timeout);
                let (kind, problem) = match turn.share.answers().await {
                    true => (FaultKind::Slow, format!("the call took longer than {limit}; the database answers")),
                    false => (FaultKind::Outage, format!("no answer from the database within {limit}")),
                };
                StoreError::new(doing, kind, problem)
            }
        };
        if error.kind != FaultKind::Outage {
            return Err(error);
        }
        self.connections.forget_idle();
        // Finds out whether only one connection was lost, or the database is down.
        if !turn.share.answers().await {
            self.connections.end_turns();
        }
        Err(error)
    }

    async fn try_due(&self, on: &Share<DB>, thorough: bool) -> sqlx::Result<DueTimes> {
        let from = json(&if thorough { Vec::new() } else { self.marks.rows() })?;
        let mut conn = on.get().await?;
        let rows = DB::fetch(&mut conn, &DB::statements().due, &[self.now(), from.as_str().into()]).await?;
        let time = match rows.first() {
            Some(row) => time_from_millis(required::<DB>(row, 1)?),
            // There is no definition yet.
            None => self.time(&mut conn).await?,
        };
        conn.done();
        let mut marks = Vec::new();
        let mut due = DueTimes { now: time, alerts: None, ticks: BTreeMap::new(), slices: Vec::new() };
        if let Some(row) = rows.first() {
            let (next, now) = (DB::int(row, 8)?, required::<DB>(row, 1)?);
            due.alerts = next.map(|next| duration_from_millis(next - now));
        }
        for row in &rows {
            let (def_id, now) = (required::<DB>(row, 0)?, required::<DB>(row, 1)?);
            let last = LastTick { schedule: DB::text(row, 6)?, at: DB::int(row, 7)?.map(time_from_millis) };
            if last != LastTick::default() {
                due.ticks.insert(def_id, last);
            }
            // In the order of the statement's columns.
            for (column, status) in (2..).zip(Status::LIVE) {
                let next = DB::int(row, column)?;
                marks.push((def_id, status, next.unwrap_or(now).min(now)));
                if let Some(next) = next.filter(|next| *next < NEVER) {
                    let (after, late) = (duration_from_millis(next - now), duration_from_millis(now - next));
                    due.slices.push(DueSlice { def_id, status, after, late });
                }
            }
        }
        self.marks.set(&marks, thorough);
        Ok(due)
    }

    async fn try_extend(&self, on: &Share<DB>, leases: &[Lease]) -> sqlx::Result<HashSet<i64>> {
        let statements = DB::statements();
        let json = |leases: &mut dyn Iterator<Item = &Lease>| {
            let entries = leases.map(|lease| {
                serde_json::json!({ "notice_id": lease.id, "fence": lease.fence, "lease": duration_millis(lease.lease) })
            });
            serde_json::Value::from_iter(entries).to_string()
        };
        let all = json(&mut leases.iter());
        let mut conn = on.get().await?;
        let mut tx = conn.begin().await?;
        let rows = DB::fetch(&mut tx, &statements.extendable, &[self.now(), all.as_str().into()]).await?;
        let free = rows.iter().map(|row| required::<DB>(row, 0)).collect::<sqlx::Result<HashSet<i64>>>()?;
        if !free.is_empty() {
            let free = json(&mut leases.iter().filter(|lease| free.contains(&lease.id)));
            DB::execute(&mut tx, &statements.extend, &[self.now(), free.as_str().into()]).await?;
        }
        tx.commit().await?;
        conn.done();
        Ok(free)
    }

    /// Returns false where another session has locked the alert's row.
    async fn try_alarm(&self, conn: &mut Borrowed<'_, DB>, alarm: &Alarm) -> sqlx::Result<bool> {
        let mut tx = conn.begin().await?;
        match alerts::apply::<DB>(&mut tx, self.now(), std::iter::once(alarm)).await {
            Err(error) if fault::<DB>(&error) == FaultKind::Conflict => tx.rollback().await.map(|()| false),
            Err(error) => Err(error),
            Ok(()) => tx.commit().await.map(|()| true),
        }
    }

    async fn try_beat(&self, on: &Share<DB>, node: &Node) -> sqlx::Result<ClusterView> {
        let statements = DB::statements();
        let handlers = json(&node.handlers)?;
        let args = [self.now(), node.id.as_str().into(), handlers.as_str().into(), node.clock_offset_ms.into()];
        let mut conn = on.get().await?;
        if DB::execute(&mut conn, &statements.beat, &args).await?.rows == 0 {
            DB::execute(&mut conn, &statements.first_beat, &args).await?;
            DB::execute(&mut conn, &statements.forget_nodes, &[self.now(), duration_millis(NODE_MEMORY).into()])
                .await?;
        }
        // One by one. Other nodes lock such a row for a moment; the next heartbeat raises an alarm again whose row stays locked.
        let until = Instant::now() + ALARMS_WAIT;
        for alarm in &node.alarms {
            while !self.try_alarm(&mut conn, alarm).await? && Instant::now() < until {
                tokio::time::sleep(conflict_pause(1)).await;
            }
        }
        let lives = DB::fetch(&mut conn, &statements.nodes, &[self.now(), duration_millis(NODE_LIVES).into()]).await?;
        let now = self.time(&mut conn).await?;
        conn.done();
        // A list that an edit by hand made unreadable counts as no handlers.
        let of = |row: &DB::Row| DB::text(row, 0).ok().flatten().and_then(|list| serde_json::from_str(&list).ok());
        let handlers = lives.iter().filter_map(of).flat_map(|list: Vec<String>| list).collect();
        Ok(ClusterView { now, handlers })
    }
}

#[async_trait]
impl<DB: Dialect> SendStore for SqlStore<DB> {
    async fn now(&self) -> Result<DateTime<Utc>, StoreError> {
        self.call("reading the database's time", Purpose::Work, |on| async move {
            let mut conn = on.get().await?;
            let now = self.time(&mut conn).await?;
            conn.done();
            Ok(now)
        })
        .await
    }

    async fn due(&self, thorough: bool) -> Result<DueTimes, StoreError> {
        self.call("looking for due notices", Purpose::Work, |on| self.try_due(on, thorough)).await
    }

    async fn tick(&self, tick: &Tick) -> Result<Advanced, StoreError> {
        self.call("storing the ticks of a timetable", Purpose::Work, |on| self.try_tick(on, tick)).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claims, StoreError> {
        self.call("claiming notices", Purpose::Work, |on| self.claim_in_turn(on, claim)).await
    }

    async fn look(&self, look: &Look, limit: usize) -> Result<Vec<ClaimedNotice>, StoreError> {
        self.call("looking for expired leases and missing acks", Purpose::Work, |on| async move {
            let statements = DB::statements();
            let limit = int(limit).into();
            let mut conn = on.get().await?;
            let rows = match look {
                Look::Overdue { def_id, status } => {
                    let mark = Arg::Int(self.marks.of(*def_id, *status));
                    let args = [self.now(), (*def_id).into(), status.code().into(), limit, mark];
                    DB::fetch(&mut conn, &statements.overdue, &args).await?
                }
                Look::ClaimedBy { worker } => {
                    DB::fetch(&mut conn, &statements.held_by, &[self.now(), worker.as_str().into(), limit]).await?
                }
            };
            conn.done();
            let status = match look {
                Look::Overdue { status, .. } => *status,
                Look::ClaimedBy { .. } => Status::Sending,
            };
            Ok(read_claimed::<DB>(&rows, status))
        })
        .await
    }

    async fn settle(&self, batch: &[Settle]) -> Result<Vec<Settled>, StoreError> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.call("settling notices", Purpose::Work, |on| self.try_settle(on, batch)).await
    }

    async fn extend(&self, leases: &[Lease]) -> Result<Vec<i64>, StoreError> {
        let mut extended = Vec::with_capacity(leases.len());
        for chunk in leases.chunks(LEASES_AT_ONCE) {
            extended.extend(self.call("extending leases", Purpose::Lease, |on| self.try_extend(on, chunk)).await?);
        }
        Ok(extended)
    }

    async fn purge(&self, purge: &Purge) -> Result<Vec<i64>, StoreError> {
        self.call("purging", Purpose::Operate, |on| self.try_purge(on, purge)).await
    }

    async fn beat(&self, node: &Node) -> Result<ClusterView, StoreError> {
        self.call("storing the heartbeat of this node", Purpose::Work, |on| self.try_beat(on, node)).await
    }
}

/// Returns the kind of fault of a driver's error.
pub(crate) fn fault<DB: Dialect>(error: &sqlx::Error) -> FaultKind {
    match error {
        sqlx::Error::Database(error) => DB::fault(error.as_ref()),
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::BeginFailed => FaultKind::Outage,
        sqlx::Error::Encode(_) | sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. } => FaultKind::Permanent,
        // A server that is too old, or a reply of another shape: a row's values are not the cause.
        _ => FaultKind::Unusable,
    }
}

/// A few milliseconds, longer with each try, with jitter from the clock's low digits, so that two transactions in conflict do not
/// meet again.
pub(crate) fn conflict_pause(tried: u32) -> Duration {
    let noise = (Utc::now() - DateTime::UNIX_EPOCH).to_std().map_or(0, |now| now.subsec_nanos());
    Duration::from_millis(u64::from(2_u32 << tried)) + Duration::from_micros(u64::from(noise / 1000 % 8000))
}

pub(crate) fn json(values: &impl Serialize) -> sqlx::Result<String> {
    serde_json::to_string(values).map_err(|error| sqlx::Error::Encode(error.into()))
}

pub(crate) fn int(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
