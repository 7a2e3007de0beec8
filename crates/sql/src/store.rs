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

/// The pause between two looks for a row, or for the file of SQLite, that another session has locked.
const LOCKED_PAUSE: Duration = Duration::from_millis(50);
/// The first pause of a call that needs the file of SQLite for itself. Each further one is twice as long, up to [`LOCKED_PAUSE`].
const FIRST_FILE_PAUSE: Duration = Duration::from_millis(5);
/// The error of a call whose row was locked for too long.
const ROW_LOCKED: &str = "another session has locked its row; repeat it when that session has ended its transaction";
/// A call that took longer is not repeated.
const TRIED_AGAIN: Duration = Duration::from_millis(900);

/// How long a call is repeated while a lock is in its way, and after which pause it is repeated first.
struct Within {
    limit: Duration,
    first_pause: Duration,
}

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
    /// database reported at once, and on SQLite for as long as a call may take. Each try gets a share of the connections, and `$1` of its
    /// statements.
    pub(crate) async fn call<'s, T, F>(
        &'s self,
        doing: &'static str,
        purpose: Purpose,
        once: impl Fn(&'s Share<DB>, Arg<'static>) -> F + Send + Sync,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = sqlx::Result<T>> + Send,
    {
        let within = Within { limit: self.call_timeout, first_pause: FIRST_FILE_PAUSE };
        self.tries(doing, purpose, within, |on, now| {
            let done = once(on, now);
            async move { done.await.map(Some) }
        })
        .await
    }

    /// Runs a call once, with its turn.
    async fn attempt<'s, T, F>(
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
            // Not after a wait for a lock, because the next try would only wait again. Nor where the whole file is locked: all other calls
            // would wait for this turn.
            .when(|error| {
                !DB::KIND.locks_file() && fault::<DB>(error) == FaultKind::Conflict && began.elapsed() < TRIED_AGAIN
            })
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
        self.tries(doing, purpose, Within { limit, first_pause: LOCKED_PAUSE }, once).await
    }

    /// Makes a call again and again while another session has locked what it needs: it returns `None`, or reports a conflict on SQLite, where
    /// any other writer locks the file. Between the tries it holds neither a connection nor a turn, so it delays no other call.
    async fn tries<'s, T, F>(
        &'s self,
        doing: &'static str,
        purpose: Purpose,
        Within { limit, first_pause }: Within,
        once: impl Fn(&'s Share<DB>, Arg<'static>) -> F + Send + Sync,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = sqlx::Result<Option<T>>> + Send,
    {
        let began = tokio::time::Instant::now();
        let mut pause = first_pause;
        loop {
            let locked = match self.attempt(doing, purpose, &once).await {
                Ok(Some(done)) => return Ok(done),
                Ok(None) => StoreError::new(doing, FaultKind::Conflict, ROW_LOCKED),
                Err(error) if DB::KIND.locks_file() && error.kind == FaultKind::Conflict => error,
                Err(error) => return Err(error),
            };
            if began.elapsed() >= limit {
                return Err(locked);
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(LOCKED_PAUSE);
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
