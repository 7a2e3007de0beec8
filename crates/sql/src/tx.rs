//! [`NoticeTx`]: a transaction whose notices are sent as soon as it commits.
//!
//! It derefs to the sqlx connection, so it is used like sqlx's own transaction. A dropped one rolls back.

use std::collections::HashSet;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use solid_notify_core::dispatch::{FirstAttempt, FirstAttemptSender, Fresh};
use solid_notify_core::error::{Error, FaultKind, Result};
use sqlx::pool::PoolConnection;
use sqlx::{Acquire, Connection, Pool, SqlSafeStr, Transaction};

use crate::add::lists;
use crate::add::statements::AddStatements;
use crate::caller::Context;
use crate::connections::uncancelled::Uncancelled;
use crate::dialect::fault::{failed, fault};
use crate::dialect::kind::Kind;
use crate::dialect::statement::Statement;
use crate::dialect::{Committed, ConnectionPlan, Dialect};
use crate::shortcuts::insert_bare::BareInsertStatements;
use crate::shortcuts::insert_known::KnownInsertStatements;

/// A transaction begun by `outbox.begin()`.
///
/// The commit dispatches the notices added through it to the sweeper of this process. A savepoint is a `NoticeTx` too
/// ([`Self::begin`]). sqlx's own savepoints and those in raw SQL also work, because the claim proves which notices
/// exist.
///
/// Every method may be cancelled at any await. The outcome of a dropped commit is unknown; a committed notice is due then, and
/// the next sweep finds it. After a dropped begin, commit or rollback of an inner transaction, every later add and commit fails
/// ([`Error::TransactionLost`]) and all of it is rolled back.
pub struct NoticeTx<'c, DB: Dialect> {
    tx: Transaction<'c, DB>,
    context: Context,
    after: AfterCommit,
    parent: Option<&'c mut AfterCommit>,
    intact: TransactionIntact,
    /// True where the store's last statement found the transaction open and the connection was not used since. Then COMMIT needs
    /// no check.
    pub(crate) seen_open: bool,
}

/// Whether the transaction is in the state that sqlx assumes; all its levels share one flag. False while an inner transaction
/// begins or ends, and for ever if that was cut short. sqlx 0.9 then rolls back one level too many, or one that no longer
/// exists, and later statements would commit by themselves.
#[derive(Clone)]
struct TransactionIntact(Arc<AtomicBool>);

/// What the commit of the outermost transaction triggers.
#[derive(Default)]
struct AfterCommit {
    fresh: Vec<Fresh>,
    ids: HashSet<i64>,
    /// Each with the id of its definition.
    later: Vec<(i64, FirstAttemptSender)>,
    wake: bool,
    hooks: Vec<Box<dyn FnOnce() + Send>>,
}

impl<DB: Dialect> NoticeTx<'static, DB> {
    /// Begins a transaction and finishes that even if the caller stops waiting, because dropping the future of `pool.begin()` in
    /// sqlx 0.9 can leave the pooled connection inside a transaction. Then it is rolled back. (The wait for a connection may be
    /// cut short, and is not part of the task: its future is large and would cost more than the BEGIN.)
    pub(crate) async fn begin_on(pool: &Pool<DB>, context: Context) -> Result<Self> {
        let acquired = |acquired: sqlx::Result<PoolConnection<DB>>| {
            acquired.map_err(|error| failed::<DB>("beginning a transaction", error))
        };
        let mut conn = acquired(pool.acquire().await)?;
        // On SQLite sqlx still counts a transaction as open that a raw ROLLBACK, or SQLite itself, has ended.
        while conn.is_in_transaction() && DB::connections(pool) != ConnectionPlan::Shared {
            conn.close_on_drop();
            drop(conn);
            conn = acquired(pool.acquire().await)?;
        }
        let begun = Uncancelled::new(async move {
            DB::prepare_to_add(&mut conn, &statements_of_adds(DB::KIND)).await;
            Transaction::begin(conn, Some(DB::OPEN.into_sql_str())).await
        });
        let tx = begun.await.map_err(|error| failed::<DB>("beginning a transaction", error))?;
        let intact = TransactionIntact(Arc::new(AtomicBool::new(true)));
        Ok(Self {
            tx,
            context,
            after: AfterCommit::default(),
            parent: None,
            intact,
            seen_open: DB::KIND.begin_is_seen(),
        })
    }
}

impl<'c, DB: Dialect> NoticeTx<'c, DB> {
    /// Commits. At the outermost level it also dispatches the notices and runs the hooks.
    ///
    /// # Errors
    /// [`Error::TransactionLost`] where the database had already ended the transaction (an SQL error that was ignored, a
    /// deadlock, a raw ROLLBACK): all of it is rolled back and no hook runs. [`Error::Store`] is an error of the database. After
    /// a lost connection the outcome is unknown, and the notices are sent if they exist.
    pub async fn commit(self) -> Result<()> {
        let Self { tx, context, mut after, parent, intact, seen_open } = self;
        intact.check("committing")?;
        if let Some(parent) = parent {
            // A savepoint: its notices are now part of the transaction around it.
            let released = intact.unless_cut(tx.commit()).await;
            released.map_err(|error| failed::<DB>("releasing a savepoint", error))?;
            parent.take_over(after);
            return Ok(());
        }
        // If this future is dropped or the connection breaks, it is unknown whether the transaction was committed.
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
                // A server that shuts down also reports an error, and may have committed before.
                if matches!(error, sqlx::Error::Database(_))
                    && !matches!(fault::<DB>(&error), FaultKind::Outage | FaultKind::Slow)
                {
                    after.rolled_back();
                }
                failed::<DB>("committing", error)
            }
        })
    }

    /// Rolls back (at an inner level: to the savepoint). Dropping it does the same, but reports no errors.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn rollback(self) -> Result<()> {
        let rolled_back = match self.parent {
            Some(_) => self.intact.unless_cut(self.tx.rollback()).await,
            None => self.tx.rollback().await,
        };
        rolled_back.map_err(|error| failed::<DB>("rolling back", error))
    }

    /// Begins an inner transaction, a savepoint. Its rollback discards its notices and hooks.
    ///
    /// # Errors
    /// An error of the database.
    pub async fn begin(&mut self) -> Result<NoticeTx<'_, DB>> {
        let doing = "setting a savepoint";
        self.intact.check(doing)?;
        // A failure leaves the flag false, because sqlx rolls back the outer transaction then.
        self.intact.set(false);
        self.seen_open = false;
        let tx = Acquire::begin(&mut self.tx).await.map_err(|error| failed::<DB>(doing, error))?;
        self.intact.set(true);
        let (context, parent, intact) = (self.context.clone(), Some(&mut self.after), self.intact.clone());
        Ok(NoticeTx { tx, context, after: AfterCommit::default(), parent, intact, seen_open: false })
    }

    /// Runs `hook` after the outermost transaction has committed, never after a rollback. A panic of a hook is logged; the commit
    /// stands and the other hooks run.
    pub fn after_commit(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.after.hooks.push(Box::new(hook));
    }

    pub(crate) fn added(&mut self, name: &str, fresh: Fresh) {
        self.context.outbox.engine().commits().learn(fresh.def_id, name);
        self.after.added(fresh);
    }

    /// Records a notice that is not due at once: it is not dispatched.
    pub(crate) fn added_for_later(&mut self, name: &str, Fresh { def_id, report, .. }: Fresh, due_soon: bool) {
        self.context.outbox.engine().commits().learn(def_id, name);
        self.after.later.push((def_id, report));
        self.after.wake |= due_soon;
    }

    pub(crate) fn wake_after_commit(&mut self) {
        self.after.wake = true;
    }

    /// Returns the connection and the context that an insert needs.
    pub(crate) fn parts(&mut self, doing: &'static str) -> Result<(&mut DB::Connection, &Context)> {
        self.intact.check(doing)?;
        self.seen_open = false;
        Ok((&mut self.tx, &self.context))
    }

    /// Records that the insert found this transaction still open.
    pub(crate) fn seen_open(&mut self) {
        self.seen_open = self.context.known.sees_open();
    }
}

impl TransactionIntact {
    fn set(&self, intact: bool) {
        self.0.store(intact, Ordering::Relaxed);
    }

    fn check(&self, doing: &'static str) -> Result<()> {
        if self.0.load(Ordering::Relaxed) { Ok(()) } else { Err(Error::TransactionLost { doing }) }
    }

    async fn unless_cut<T>(&self, step: impl Future<Output = T>) -> T {
        let intact = self.0.swap(false, Ordering::Relaxed);
        let done = step.await;
        self.set(intact);
        done
    }
}

impl AfterCommit {
    fn added(&mut self, fresh: Fresh) {
        // The same id twice (SQLite, after the rollback of a savepoint) means that the first notice no longer exists.
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

    /// From now on the receipts no longer report "rolled back" when they are dropped.
    fn committed(&mut self) {
        let fresh = self.fresh.iter_mut().map(|fresh| &mut fresh.report);
        let later = self.later.iter_mut().map(|(_, report)| report);
        fresh.chain(later).for_each(FirstAttemptSender::committed);
    }

    fn rolled_back(self) {
        let reports = self.fresh.into_iter().map(|fresh| fresh.report);
        let later = self.later.into_iter().map(|(_, report)| report);
        reports.chain(later).for_each(|report| report.tell(FirstAttempt::RolledBack));
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

impl Context {
    fn run(&self, after: AfterCommit) {
        let AfterCommit { fresh, later, hooks, wake, .. } = after;
        let added = fresh.iter().map(|fresh| fresh.def_id).chain(later.iter().map(|(def_id, _)| *def_id));
        self.outbox.engine().commits().count(added);
        if wake {
            self.outbox.wake();
        }
        if !fresh.is_empty() {
            self.outbox.engine().dispatch().hand(fresh);
        }
        for hook in hooks {
            if catch_unwind(AssertUnwindSafe(hook)).is_err() {
                tracing::error!("an after-commit hook panicked; the commit stands");
            }
        }
    }
}

/// The statements that adds prepare on a connection of the application.
fn statements_of_adds(kind: Kind) -> Vec<&'static Statement> {
    let add = AddStatements::of(kind);
    let of_all = [
        &BareInsertStatements::of(kind).insert_bare,
        &KnownInsertStatements::of(kind).insert_known,
        &add.insert,
        &add.definition_ids,
        &add.duplicates,
        &add.lock_duplicates,
        &add.definition_names,
    ];
    of_all.into_iter().chain(&add.definition_id).chain(&add.id_step).chain(lists::statements(kind)).collect()
}
