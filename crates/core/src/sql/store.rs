//! [`SqlStore`]: the [`Store`] over a database. Each method is one or a few statements of [`super::statements`], with a
//! time-out, on a connection of our own; settling and definitions have files of their own.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use serde::Serialize;
use sqlx::Pool;

use super::alerts::{self, Wait};
use super::connections::{Connections, Purpose};
use super::dialect::Dialect;
use super::known::Known;
use super::marks::Marks;
use super::read::{ENDLESS, read_claimed, read_record, required};
use super::run::Arg;
use crate::clock::HandClock;
use crate::definition::NotifyDef;
use crate::error::{FaultKind, StoreError};
use crate::notice::{Claimed, NoticeRecord, Status, duration_from_millis, duration_millis, time_from_millis};
use crate::store::{
    Claim, Claims, DueLane, DueTimes, Edit, Edited, LastTick, Lease, Look, NODE_LIVES, Node, Pulse, Purge, Settle,
    Settled, Store, Tick,
};

/// The store of one database.
pub(super) struct SqlStore<DB: Dialect> {
    pub(super) connections: Connections<DB>,
    pub(super) clock: Option<HandClock>,
    call_timeout: Duration,
    pub(super) marks: Marks,
    pub(super) known: Arc<Known>,
    /// When a row was last met that somebody else locks.
    met_lock: Mutex<Option<Instant>>,
}

/// How often a call is tried in all when it meets a deadlock or the like.
pub(super) const CONFLICT_TRIES: u32 = 4;
/// For how long locked rows are passed over after one was met: who locks many, as an editor who has forgotten to commit does, is
/// waited for once, and not by each statement anew.
const CAREFUL: Duration = Duration::from_secs(10);
/// How many leases one transaction extends.
const LEASES_AT_ONCE: usize = 1000;
/// Nodes that were not seen for this long are forgotten.
const NODE_MEMORY: Duration = Duration::from_secs(86_400);

impl<DB: Dialect> SqlStore<DB> {
    pub(super) fn new(app: &Pool<DB>, clock: Option<HandClock>, call_timeout: Duration, known: Arc<Known>) -> Self {
        Self {
            connections: Connections::new(app, call_timeout),
            clock,
            call_timeout,
            marks: Marks::default(),
            known,
            met_lock: Mutex::default(),
        }
    }

    /// `$1` of every statement.
    pub(super) fn now(&self) -> Arg<'static> {
        Arg::Int(self.clock.as_ref().map(HandClock::now_millis))
    }

    /// A statement that waits for locks for a moment only did so in vain.
    pub(super) fn note_lock(&self) {
        *self.met_lock.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether to use statements that pass over locked rows.
    pub(super) fn met_lock_lately(&self) -> bool {
        self.met_lock.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|met| met.elapsed() < CAREFUL)
    }

    /// Runs one call under the time-out, and again, a few times with jitter, after a conflict with others.
    pub(super) async fn call<T, F>(
        &self,
        doing: &'static str,
        attempt: impl Fn() -> F + Send + Sync,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = sqlx::Result<T>> + Send,
    {
        let tries = async {
            let mut tried = 1;
            loop {
                match attempt().await {
                    Err(error) if tried < CONFLICT_TRIES && fault::<DB>(&error) == FaultKind::Conflict => {
                        tracing::debug!(doing, %error, tried, "conflict with another transaction, trying again");
                        tokio::time::sleep(conflict_pause(tried)).await;
                        tried += 1;
                    }
                    done => break done,
                }
            }
        };
        match tokio::time::timeout(self.call_timeout, tries).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                let kind = fault::<DB>(&error);
                if kind == FaultKind::Outage {
                    self.connections.forget_idle();
                }
                Err(StoreError::new(doing, kind, error))
            }
            Err(_) => {
                self.connections.forget_idle();
                let limit = humantime::format_duration(self.call_timeout);
                Err(StoreError::new(doing, FaultKind::Outage, format!("no answer from the database within {limit}")))
            }
        }
    }

    async fn try_due(&self, thorough: bool) -> sqlx::Result<DueTimes> {
        let from = json(&if thorough { Vec::new() } else { self.marks.rows() })?;
        let mut conn = self.connections.get(Purpose::Work).await?;
        let rows = DB::fetch(&mut conn, &DB::statements().due, &[self.now(), from.as_str().into()]).await?;
        let time = match rows.first() {
            Some(row) => time_from_millis(required::<DB>(row, 1)?),
            // Nothing is defined yet.
            None => self.time(&mut conn).await?,
        };
        conn.done();
        let mut marks = Vec::new();
        let mut due = DueTimes { now: time, ticks: BTreeMap::new(), lanes: Vec::new() };
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
                if let Some(next) = next.filter(|next| *next < ENDLESS) {
                    let (after, late) = (duration_from_millis(next - now), duration_from_millis(now - next));
                    due.lanes.push(DueLane { def_id, status, after, late });
                }
            }
        }
        self.marks.set(&marks, thorough);
        Ok(due)
    }

    async fn try_extend(&self, leases: &[Lease]) -> sqlx::Result<()> {
        let statements = DB::statements();
        let json = |leases: &mut dyn Iterator<Item = &Lease>| {
            let entries = leases.map(|lease| {
                serde_json::json!({ "notice_id": lease.id, "attempt": lease.attempt, "lease": duration_millis(lease.lease) })
            });
            serde_json::Value::from_iter(entries).to_string()
        };
        let all = json(&mut leases.iter());
        let mut conn = self.connections.get(Purpose::Lease).await?;
        let mut tx = conn.begin().await?;
        let rows = DB::fetch(&mut tx, &statements.extendable, &[self.now(), all.as_str().into()]).await?;
        let free = rows.iter().map(|row| required::<DB>(row, 0)).collect::<sqlx::Result<HashSet<i64>>>()?;
        if !free.is_empty() {
            let free = json(&mut leases.iter().filter(|lease| free.contains(&lease.id)));
            DB::execute(&mut tx, &statements.extend, &[self.now(), free.as_str().into()]).await?;
        }
        tx.commit().await?;
        conn.done();
        Ok(())
    }

    async fn try_beat(&self, node: &Node) -> sqlx::Result<Pulse> {
        let statements = DB::statements();
        let handlers = json(&node.handlers)?;
        let args = [self.now(), node.id.as_str().into(), handlers.as_str().into(), node.clock_offset_ms.into()];
        let mut conn = self.connections.get(Purpose::Work).await?;
        if DB::execute(&mut conn, &statements.beat, &args).await?.rows == 0 {
            DB::execute(&mut conn, &statements.first_beat, &args).await?;
            DB::execute(&mut conn, &statements.forget_nodes, &[self.now(), duration_millis(NODE_MEMORY).into()])
                .await?;
        }
        if !node.alarms.is_empty() {
            let mut tx = conn.begin().await?;
            alerts::apply::<DB>(&mut tx, self.now(), Wait::Yes, node.alarms.iter(), std::iter::empty()).await?;
            tx.commit().await?;
        }
        let lives = DB::fetch(&mut conn, &statements.nodes, &[self.now(), duration_millis(NODE_LIVES).into()]).await?;
        let now = self.time(&mut conn).await?;
        conn.done();
        // What somebody spoiled by hand tells of no handler.
        let of = |row: &DB::Row| DB::text(row, 0).ok().flatten().and_then(|list| serde_json::from_str(&list).ok());
        let handlers = lives.iter().filter_map(of).flat_map(|list: Vec<String>| list).collect();
        Ok(Pulse { now, handlers })
    }
}

#[async_trait]
impl<DB: Dialect> Store for SqlStore<DB> {
    async fn definitions(&self) -> Result<Vec<NotifyDef>, StoreError> {
        self.call("reading the definitions", || self.try_definitions()).await
    }

    async fn edit(&self, edit: &Edit, who: &str) -> Result<Edited, StoreError> {
        self.call("editing a definition", || self.try_edit(edit, who)).await
    }

    async fn due(&self, thorough: bool) -> Result<DueTimes, StoreError> {
        self.call("looking for due notices", || self.try_due(thorough)).await
    }

    async fn tick(&self, tick: &Tick) -> Result<bool, StoreError> {
        self.call("noting that a timetable ticked", || self.try_tick(tick)).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claims, StoreError> {
        self.call("claiming notices", || self.claim_in_turn(claim)).await
    }

    async fn look(&self, look: &Look, limit: usize) -> Result<Vec<Claimed>, StoreError> {
        self.call("looking for notices to judge", || async move {
            let statements = DB::statements();
            let limit = int(limit).into();
            let mut conn = self.connections.get(Purpose::Work).await?;
            let rows = match look {
                Look::Overdue { def_id, status } => {
                    let mark = Arg::Int(self.marks.of(*def_id, *status));
                    let args = [self.now(), (*def_id).into(), status.code().into(), limit, mark];
                    DB::fetch(&mut conn, &statements.overdue, &args).await?
                }
                Look::HeldBy { worker } => {
                    DB::fetch(&mut conn, &statements.held_by, &[self.now(), worker.as_str().into(), limit]).await?
                }
            };
            conn.done();
            let status = match look {
                Look::Overdue { status, .. } => *status,
                Look::HeldBy { .. } => Status::Sending,
            };
            Ok(read_claimed::<DB>(&rows, status))
        })
        .await
    }

    async fn settle(&self, batch: &[Settle]) -> Result<Vec<Settled>, StoreError> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.call("settling notices", || self.try_settle(batch)).await
    }

    async fn extend(&self, leases: &[Lease]) -> Result<(), StoreError> {
        for chunk in leases.chunks(LEASES_AT_ONCE) {
            self.call("extending leases", || self.try_extend(chunk)).await?;
        }
        Ok(())
    }

    async fn find(&self, id: i64) -> Result<Option<NoticeRecord>, StoreError> {
        self.call("looking for a notice", || async move {
            let mut conn = self.connections.get(Purpose::Work).await?;
            let rows = DB::fetch(&mut conn, &DB::statements().find, &[self.now(), id.into()]).await?;
            conn.done();
            rows.first().map(read_record::<DB>).transpose()
        })
        .await
    }

    async fn purge(&self, purge: &Purge) -> Result<Vec<i64>, StoreError> {
        self.call("purging", || self.try_purge(purge)).await
    }

    async fn beat(&self, node: &Node) -> Result<Pulse, StoreError> {
        self.call("telling that this node lives", || self.try_beat(node)).await
    }
}

/// What sort of fault an error of the driver is.
pub(super) fn fault<DB: Dialect>(error: &sqlx::Error) -> FaultKind {
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
        // A server that is too old, an answer of another shape: not the fault of a row's values.
        _ => FaultKind::Unusable,
    }
}

/// A few milliseconds, longer from try to try, with jitter from the clock's low digits, so that two that met do not
/// meet again.
pub(super) fn conflict_pause(tried: u32) -> Duration {
    let noise = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
    Duration::from_millis(u64::from(2_u32 << tried)) + Duration::from_micros(u64::from(noise / 1000 % 8000))
}

pub(super) fn json(values: &impl Serialize) -> sqlx::Result<String> {
    serde_json::to_string(values).map_err(|error| sqlx::Error::Encode(error.into()))
}

pub(super) fn int(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
