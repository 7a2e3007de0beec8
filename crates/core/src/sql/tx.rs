//! [`NoticeTx`]: a transaction whose notices are sent as soon as it commits.
//!
//! It derefs to the sqlx connection, so it is used like sqlx's own transaction. Dropped, it rolls back.

use std::collections::HashSet;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::pool::PoolConnection;
use sqlx::{Acquire, Connection, Pool, SqlSafeStr, Transaction};

use super::dialect::{Committed, Dialect, Plan};
use super::known::Known;
use super::store::fault;
use super::to_the_end::ToTheEnd;
use crate::clock::HandClock;
use crate::error::{Error, FaultKind, Result, StoreError};
use crate::lane::{FirstAttempt, Fresh, Report};
use crate::outbox::Outbox;

/// A transaction begun by `notify.begin()`.
///
/// Notices added through it are handed to the sweeper of this process right after the commit. A savepoint is a
/// `NoticeTx` too ([`Self::begin`]); sqlx's own and raw SQL savepoints also work, since the claim proves which notices
/// exist.
///
/// Every method may be cancelled at any await. A dropped commit is unknown to us; a notice that was committed is due then
/// and found by the next sweep. After a dropped begin, commit or rollback of an inner transaction nothing can be added or
/// committed any more ([`Error::TransactionLost`]): all of it is rolled back.
pub struct NoticeTx<'c, DB: Dialect> {
    tx: Transaction<'c, DB>,
    context: Context,
    after: AfterCommit,
    parent: Option<&'c mut AfterCommit>,
    whole: Whole,
    /// Our last statement found the transaction open, and nobody has used the connection since: a commit proves itself.
    pub(super) seen_open: bool,
}

/// Whether the transaction is what sqlx believes it to be; one answer for all its levels. It is not while an inner
/// transaction begins or ends, and never again where that was cut short: sqlx 0.9 then rolls back one level too many, or
/// one that is no longer there, and what follows would be committed by itself.
#[derive(Clone)]
struct Whole(Arc<AtomicBool>);

/// What a transaction knows of the outbox that it belongs to.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) outbox: Outbox,
    pub(super) known: Arc<Known>,
    pub(super) clock: Option<HandClock>,
    pub(super) param_limit: usize,
}

/// What happens once the outermost transaction is committed.
#[derive(Default)]
struct AfterCommit {
    fresh: Vec<Fresh>,
    ids: HashSet<i64>,
    /// With the ids of their definitions.
    later: Vec<(i64, Report)>,
    wake: bool,
    hooks: Vec<Box<dyn FnOnce() + Send>>,
}

impl<DB: Dialect> NoticeTx<'static, DB> {
    /// Begins, to the end even where nobody waits for it any more: dropping the future of `pool.begin()` in sqlx 0.9 can
    /// leave the pooled connection inside a transaction. One that nobody waits for is rolled back. (Waiting for a connection
    /// can be cut short. Its future is large, and would cost more than the BEGIN.)
    pub(super) async fn begin_on(pool: &Pool<DB>, context: Context) -> Result<Self> {
        let acquired = |acquired: sqlx::Result<PoolConnection<DB>>| {
            acquired.map_err(|error| failed::<DB>("beginning a transaction", error))
        };
        let mut conn = acquired(pool.acquire().await)?;
        // On SQLite sqlx goes on counting a transaction that a raw ROLLBACK, or SQLite itself, has ended.
        while conn.is_in_transaction() && DB::connections(pool) != Plan::Shared {
            conn.close_on_drop();
            drop(conn);
            conn = acquired(pool.acquire().await)?;
        }
        let begun = ToTheEnd::new(async move {
            DB::prepare_to_add(&mut conn).await;
            Transaction::begin(conn, Some(DB::OPEN.into_sql_str())).await
        });
        let tx = begun.await.map_err(|error| failed::<DB>("beginning a transaction", error))?;
        let whole = Whole(Arc::new(AtomicBool::new(true)));
        Ok(Self {
            tx,
            context,
            after: AfterCommit::default(),
            parent: None,
            whole,
            seen_open: DB::KIND.begin_is_seen(),
        })
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
        let Self { tx, context, mut after, parent, whole, seen_open } = self;
        whole.check("committing")?;
        if let Some(parent) = parent {
            // A savepoint: its notices now share the fate of the transaction around it.
            let released = whole.unless_cut(tx.commit()).await;
            released.map_err(|error| failed::<DB>("releasing a savepoint", error))?;
            parent.take_over(after);
            return Ok(());
        }
        // Should this future be dropped, or the connection break: nobody knows whether it was committed.
        after.committed();
        let committed = match seen_open {
            true => tx.commit().await.map(|()| Committed::Yes),
            false => DB::commit(tx).await,
        };
        Err(match committed {
            Ok(Committed::Yes) => {
                context.run(after);
                return Ok(());
            }
            Ok(Committed::Lost) => {
                after.rolled_back();
                Error::TransactionLost { doing: "committing" }
            }
            Err(error) => {
                // A server that shuts down answers, too, and may have committed before.
                if matches!(error, sqlx::Error::Database(_)) && fault::<DB>(&error) != FaultKind::Outage {
                    after.rolled_back();
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
        let rolled_back = match self.parent {
            Some(_) => self.whole.unless_cut(self.tx.rollback()).await,
            None => self.tx.rollback().await,
        };
        rolled_back.map_err(|error| failed::<DB>("rolling back", error))
    }

    /// Begins an inner transaction, a savepoint. Its notices and hooks vanish with its rollback.
    ///
    /// # Errors
    /// What the database said.
    pub async fn begin(&mut self) -> Result<NoticeTx<'_, DB>> {
        let doing = "setting a savepoint";
        self.whole.check(doing)?;
        // A failure counts as a cut: sqlx rolls back the outer transaction then.
        self.whole.set(false);
        self.seen_open = false;
        let tx = Acquire::begin(&mut self.tx).await.map_err(|error| failed::<DB>(doing, error))?;
        self.whole.set(true);
        let (context, parent, whole) = (self.context.clone(), Some(&mut self.after), self.whole.clone());
        Ok(NoticeTx { tx, context, after: AfterCommit::default(), parent, whole, seen_open: false })
    }

    /// Runs `hook` after the outermost transaction has committed, never after a rollback. A hook that panics is logged;
    /// the commit and the other hooks stand.
    pub fn after_commit(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.after.hooks.push(Box::new(hook));
    }

    pub(super) fn added(&mut self, name: &str, fresh: Fresh) {
        self.context.outbox.commits().learn(fresh.def_id, name);
        self.after.added(fresh);
    }

    /// A notice that is not due at once: nothing is handed over for it.
    pub(super) fn added_for_later(&mut self, name: &str, Fresh { def_id, report, .. }: Fresh, due_soon: bool) {
        self.context.outbox.commits().learn(def_id, name);
        self.after.later.push((def_id, report));
        self.after.wake |= due_soon;
    }

    pub(super) fn wake_after_commit(&mut self) {
        self.after.wake = true;
    }

    /// What an insert needs.
    pub(super) fn parts(&mut self, doing: &'static str) -> Result<(&mut DB::Connection, &Context)> {
        self.whole.check(doing)?;
        self.seen_open = false;
        Ok((&mut self.tx, &self.context))
    }

    /// The insert just found that this transaction is still the one that was begun.
    pub(super) fn seen_open(&mut self) {
        self.seen_open = self.context.known.sees_open();
    }
}

impl Whole {
    fn set(&self, whole: bool) {
        self.0.store(whole, Ordering::Relaxed);
    }

    fn check(&self, doing: &'static str) -> Result<()> {
        if self.0.load(Ordering::Relaxed) { Ok(()) } else { Err(Error::TransactionLost { doing }) }
    }

    async fn unless_cut<T>(&self, step: impl Future<Output = T>) -> T {
        let whole = self.0.swap(false, Ordering::Relaxed);
        let done = step.await;
        self.set(whole);
        done
    }
}

impl AfterCommit {
    fn added(&mut self, fresh: Fresh) {
        // An id that comes twice (SQLite, after a savepoint was rolled back) means that the first one does not exist.
        if !self.ids.insert(fresh.id) {
            self.fresh.retain(|earlier| earlier.id != fresh.id);
        }
        self.fresh.push(fresh);
    }

    fn take_over(&mut self, mut inner: Self) {
        inner.fresh.into_iter().for_each(|fresh| self.added(fresh));
        self.later.append(&mut inner.later);
        self.wake |= inner.wake;
        self.hooks.append(&mut inner.hooks);
    }

    /// From now on nobody is told "rolled back".
    fn committed(&mut self) {
        let fresh = self.fresh.iter_mut().map(|fresh| &mut fresh.report);
        let later = self.later.iter_mut().map(|(_, report)| report);
        fresh.chain(later).for_each(Report::committed);
    }

    fn rolled_back(self) {
        let reports = self.fresh.into_iter().map(|fresh| fresh.report);
        let later = self.later.into_iter().map(|(_, report)| report);
        reports.chain(later).for_each(|report| report.tell(FirstAttempt::RolledBack));
    }
}

impl Context {
    fn run(&self, after: AfterCommit) {
        let AfterCommit { fresh, later, hooks, wake, .. } = after;
        let added = fresh.iter().map(|fresh| fresh.def_id).chain(later.iter().map(|(def_id, _)| *def_id));
        self.outbox.commits().count(added);
        if wake {
            self.outbox.wake();
        }
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
        self.seen_open = false;
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
