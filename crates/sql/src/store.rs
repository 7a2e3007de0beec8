//! [`SqlStore`]: the [`Store`] over a database. It runs each call in turn, with a time-out, on one of the store's connections, and
//! repeats it after a conflict. The topics have the calls and their statements.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::Serialize;
use solid_notify_core::clock::HandClock;
use solid_notify_core::error::{FaultKind, StoreError};
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::store::{
    Advanced, Claim, Claims, ClusterView, DueTimes, Lease, Look, Node, Purge, SendStore, Settle, Settled, Tick,
};
use sqlx::Pool;

use crate::claim::blocked::Unordered;
use crate::claim::marks::Marks;
use crate::connections::{Connections, NoTurn, Purpose, Share};
use crate::dialect::Dialect;
use crate::dialect::statement::{Arg, Statement};
use crate::operate::purge::Purged;
use crate::shortcuts::MetLock;
use crate::shortcuts::known::Known;

/// The store of one database.
pub(crate) struct SqlStore<DB: Dialect> {
    pub(crate) connections: Connections<DB>,
    pub(crate) clock: Option<HandClock>,
    call_timeout: Duration,
    pub(crate) marks: Marks,
    pub(crate) purged: Purged,
    pub(crate) known: Arc<Known>,
    pub(crate) unordered: Unordered,
    pub(crate) met_lock: MetLock,
}

/// Maximum number of tries of a call that meets a conflict, such as a deadlock.
pub(crate) const CONFLICT_TRIES: u32 = 4;
/// A try that took longer is not repeated.
const TRIED_AGAIN: Duration = Duration::from_millis(900);
/// How many leases one transaction extends.
const LEASES_AT_ONCE: usize = 1000;

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
            met_lock: MetLock::default(),
        }
    }

    /// `$1` of every statement.
    pub(crate) fn now(&self) -> Arg<'static> {
        Arg::Int(self.clock.as_ref().map(HandClock::now_millis))
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

    /// Runs one statement that reads.
    pub(crate) async fn rows(
        &self,
        on: &Share<DB>,
        statement: &Statement,
        args: &[Arg<'_>],
    ) -> sqlx::Result<Vec<DB::Row>> {
        let mut conn = on.get().await?;
        let rows = DB::fetch(&mut conn, statement, args).await?;
        conn.done();
        Ok(rows)
    }
}

#[async_trait]
impl<DB: Dialect> SendStore for SqlStore<DB> {
    async fn now(&self) -> Result<DateTime<Utc>, StoreError> {
        self.call("reading the database's time", Purpose::Work, |on| self.try_now(on)).await
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
        self.call("looking for expired leases and missing acks", Purpose::Work, |on| self.try_look(on, look, limit))
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
