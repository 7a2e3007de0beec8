//! [`SqlStore`]: what the calls of a store share. A call waits until one of the store's connections is free, runs on it with a time-out,
//! and is repeated after a conflict. The topics have the calls and their statements; `roles.rs` assigns them to the traits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use backon::{ConstantBuilder, Retryable};
use solid_notify_core::clock::HandClock;
use solid_notify_core::error::{FaultKind, StoreError};
use sqlx::Pool;

use crate::add::known_ids::KnownIds;
use crate::claim::hints::ClaimHints;
use crate::connections::{Connections, NoTurn, Purpose, Share};
use crate::dialect::Dialect;
use crate::dialect::fault::{CONFLICT_PAUSES, fault, is_unique_violation, store_error};
use crate::dialect::statement::Arg;
use crate::operate::purge::PurgeEnds;
use crate::repair::{may_be_damage, repair};

/// The store of one database.
pub(crate) struct SqlStore<DB: Dialect> {
    connections: Connections<DB>,
    clock: Option<HandClock>,
    pub(crate) call_timeout: Duration,
    pub(crate) hints: ClaimHints,
    pub(crate) purge_ends: PurgeEnds,
    pub(crate) known: Arc<KnownIds>,
}

/// The pause between two looks for a row that another session has locked.
const LOCKED_PAUSE: Duration = Duration::from_millis(50);
/// A call that took longer is not repeated.
const TRIED_AGAIN: Duration = Duration::from_millis(900);

impl<DB: Dialect> SqlStore<DB> {
    pub(crate) fn new(app: &Pool<DB>, clock: Option<HandClock>, call_timeout: Duration, known: Arc<KnownIds>) -> Self {
        Self {
            connections: Connections::new(app, call_timeout),
            clock,
            call_timeout,
            hints: ClaimHints::default(),
            purge_ends: PurgeEnds::default(),
            known,
        }
    }

    /// Waits for a free connection, then runs one call under the time-out. Repeats it a few times, with jitter, after a conflict that the
    /// database reported at once. Each try gets a share of the connections, and `$1` of its statements.
    pub(crate) async fn call<'s, T, F>(
        &'s self,
        doing: &'static str,
        purpose: Purpose,
        once: impl Fn(&'s Share<DB>, Arg<'static>) -> F + Send + Sync,
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
        let began = Instant::now();
        let now = || Arg::Int(self.clock.as_ref().map(HandClock::now_millis));
        let tries = (|| once(turn.share, now()))
            .retry(CONFLICT_PAUSES)
            // Not after a wait for a lock, because the next try would only wait again.
            .when(|error| fault::<DB>(error) == FaultKind::Conflict && began.elapsed() < TRIED_AGAIN)
            .notify(|error, _| tracing::debug!(doing, %error, "retrying after a conflict with another transaction"));
        let tries = async {
            match tries.await {
                Err(error) if may_be_damage(&error) && repair(turn.share, now()).await? => {
                    once(turn.share, now()).await
                }
                tried => tried,
            }
        };
        let error = match tokio::time::timeout(self.call_timeout, tries).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => store_error::<DB>(doing, error),
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

    /// Makes a call that needs the lock of a row, again and again for `limit` while it returns `None`: another session has locked the row.
    /// Between the tries it holds neither a connection nor a turn, so it delays no other call.
    pub(crate) async fn call_when_free<'s, T, F>(
        &'s self,
        doing: &'static str,
        purpose: Purpose,
        limit: Duration,
        once: impl Fn(&'s Share<DB>, Arg<'static>) -> F + Send + Sync,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = sqlx::Result<Option<T>>> + Send,
    {
        let began = tokio::time::Instant::now();
        loop {
            if let Some(done) = self.call(doing, purpose, &once).await? {
                return Ok(done);
            }
            if began.elapsed() >= limit {
                let problem =
                    "another session has locked its row; repeat it when that session has ended its transaction";
                return Err(StoreError::new(doing, FaultKind::Conflict, problem));
            }
            tokio::time::sleep(LOCKED_PAUSE).await;
        }
    }
}

/// Repeats a transaction that inserted a unique value at the same moment as another session, up to three times. The next try sees
/// that value.
pub(crate) async fn past_collisions<T, F>(transaction: impl Fn() -> F) -> sqlx::Result<T>
where
    F: Future<Output = sqlx::Result<T>>,
{
    transaction
        .retry(ConstantBuilder::new().with_delay(Duration::ZERO).with_max_times(3))
        .when(is_unique_violation)
        .await
}
