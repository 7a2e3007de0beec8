//! [`NoticeTx`]: a transaction whose notices are sent as soon as it commits.
//!
//! It derefs to the sqlx connection, so it is used like sqlx's own transaction. Dropped, it rolls back.

use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};

use sqlx::{Acquire, Pool, Transaction};

use super::dialect::{Committed, Dialect};
use super::store::fault;
use crate::clock::HandClock;
use crate::error::{Error, FaultKind, Result, StoreError};
use crate::lane::{Fresh, Report};
use crate::outbox::Outbox;

/// A transaction begun by `notify.begin()`.
///
/// Notices added through it are handed to the sweeper of this process right after the commit. A savepoint is a
/// `NoticeTx` too ([`Self::begin`]); sqlx's own and raw SQL savepoints also work, since the claim proves which notices
/// exist.
///
/// Every method may be cancelled at any await: dropping the future leaves the transaction rolled back, or its commit
/// unknown to us; a notice that was committed is due then and found by the next sweep.
pub struct NoticeTx<'c, DB: Dialect> {
    tx: Transaction<'c, DB>,
    context: Context,
    after: AfterCommit,
    parent: Option<&'c mut AfterCommit>,
}

/// What a transaction knows of the outbox that it belongs to.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) outbox: Outbox,
    pub(super) clock: Option<HandClock>,
    pub(super) param_limit: usize,
}

/// What happens once the outermost transaction is committed.
#[derive(Default)]
struct AfterCommit {
    fresh: Vec<Fresh>,
    later: Vec<Report>,
    hooks: Vec<Box<dyn FnOnce() + Send>>,
}

impl<DB: Dialect> NoticeTx<'static, DB> {
    /// Begins on a task of its own: dropping the future of `pool.begin()` in sqlx 0.9 can leave the pooled connection
    /// inside a transaction. Here the task goes on to the end, and a transaction that nobody waits for is rolled back.
    pub(super) async fn begin_on(pool: &Pool<DB>, context: Context) -> Result<Self> {
        let pool = pool.clone();
        let begun = tokio::spawn(async move { pool.begin_with(DB::BEGIN).await }).await;
        let tx = match begun {
            Ok(begun) => begun.map_err(|error| failed::<DB>("beginning a transaction", error))?,
            Err(error) => return Err(StoreError::new("beginning a transaction", FaultKind::Outage, error).into()),
        };
        Ok(Self { tx, context, after: AfterCommit::default(), parent: None })
    }
}

impl<'c, DB: Dialect> NoticeTx<'c, DB> {
    /// Commits; at the outermost level also hands the notices over and runs the hooks.
    ///
    /// # Errors
    /// [`Error::TransactionLost`] where the database had already given the transaction up (an SQL error that was
    /// swallowed, a deadlock, a raw ROLLBACK): all of it is rolled back and no hook runs. [`Error::Store`] is what the
    /// database said; after a lost connection the outcome is unknown, and the notices are sent if they exist.
    pub async fn commit(self) -> Result<()> {
        let Self { tx, mut after, parent, .. } = self;
        if let Some(parent) = parent {
            // A savepoint: its notices now share the fate of the transaction around it.
            tx.commit().await.map_err(|error| failed::<DB>("releasing a savepoint", error))?;
            parent.fresh.append(&mut after.fresh);
            parent.later.append(&mut after.later);
            parent.hooks.append(&mut after.hooks);
            return Ok(());
        }
        Err(match DB::commit(tx).await {
            Ok(Committed::Yes) => {
                self.context.run(after);
                return Ok(());
            }
            Ok(Committed::Lost) => Error::TransactionLost { doing: "committing" },
            Err(error) => {
                if !matches!(error, sqlx::Error::Database(_)) {
                    // Nobody knows whether it was committed.
                    after.committed();
                }
                failed::<DB>("committing", error)
            }
        })
    }

    /// Rolls back (at an inner level: to the savepoint). Dropping it does the same without telling of errors.
    ///
    /// # Errors
    /// What the database said.
    pub async fn rollback(self) -> Result<()> {
        self.tx.rollback().await.map_err(|error| failed::<DB>("rolling back", error))
    }

    /// Begins an inner transaction, a savepoint. Its notices and hooks vanish with its rollback.
    ///
    /// # Errors
    /// What the database said.
    pub async fn begin(&mut self) -> Result<NoticeTx<'_, DB>> {
        let tx = Acquire::begin(&mut self.tx).await.map_err(|error| failed::<DB>("setting a savepoint", error))?;
        let (context, parent) = (self.context.clone(), Some(&mut self.after));
        Ok(NoticeTx { tx, context, after: AfterCommit::default(), parent })
    }

    /// Runs `hook` after the outermost transaction has committed, never after a rollback. A hook that panics is logged;
    /// the commit and the other hooks stand.
    pub fn after_commit(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.after.hooks.push(Box::new(hook));
    }

    pub(super) fn added(&mut self, fresh: Fresh) {
        // An id that comes twice (SQLite, after a savepoint was rolled back) means that the first one does not exist.
        self.after.fresh.retain(|earlier| earlier.id != fresh.id);
        self.after.fresh.push(fresh);
    }

    /// A notice that is not due at once: nothing is handed over for it.
    pub(super) fn added_for_later(&mut self, report: Report) {
        self.after.later.push(report);
    }

    pub(super) fn parts(&mut self) -> (&mut DB::Connection, &Context) {
        (&mut self.tx, &self.context)
    }
}

impl AfterCommit {
    /// From now on nobody is told "rolled back".
    fn committed(&mut self) {
        let fresh = self.fresh.iter_mut().map(|fresh| &mut fresh.report);
        fresh.chain(&mut self.later).for_each(Report::committed);
    }
}

impl Context {
    fn run(&self, mut after: AfterCommit) {
        after.committed();
        let AfterCommit { fresh, hooks, .. } = after;
        if !fresh.is_empty() {
            self.outbox.lane().hand(fresh);
        }
        for hook in hooks {
            if catch_unwind(AssertUnwindSafe(hook)).is_err() {
                tracing::error!("an after-commit hook panicked; the commit stands");
            }
        }
    }
}

impl<DB: Dialect> Deref for NoticeTx<'_, DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &Self::Target {
        &self.tx
    }
}

impl<DB: Dialect> DerefMut for NoticeTx<'_, DB> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.tx
    }
}

impl<DB: Dialect> std::fmt::Debug for NoticeTx<'_, DB> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NoticeTx").field("notices", &self.after.fresh.len()).finish_non_exhaustive()
    }
}

pub(super) fn failed<DB: Dialect>(doing: &'static str, error: sqlx::Error) -> Error {
    StoreError::new(doing, fault::<DB>(&error), error).into()
}
