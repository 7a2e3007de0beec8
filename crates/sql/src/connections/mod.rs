//! The store's own few connections, apart from the application's pool. A busy application cannot delay lease extensions, and
//! the store's short writes do not queue behind long ones.
//!
//! Each [`Purpose`] has its own connections, so a burst of acknowledgements cannot delay claims, settles and leases. A call waits
//! for its turn first. That time is not part of its time-out and does not count as an outage.
//!
//! One call at a time uses a connection. It is kept only after a call that succeeded. Where a call fails or its future is
//! dropped, the connection is closed: no work is left half done on it, and a hanging connection is not used again. Kept
//! connections stay outside sqlx's pool, because that pool pings each one that is returned.

pub(crate) mod uncancelled;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use solid_notify_core::error::FaultKind;
use sqlx::pool::PoolConnection;
use sqlx::{ConnectOptions, Connection, Pool};
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::{Instant, timeout};

use crate::dialect::fault::fault;
use crate::dialect::query::Query;
use crate::dialect::statement::{Arg, Statement};
use crate::dialect::{ConnectionPlan, Dialect, SessionLimits, give_up_after};

/// What a call uses a connection for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Sending: looks, claims, settles, ticks, heartbeats. None of them waits long for a row that another session has locked.
    Work,
    /// Lease extensions, which must not wait behind anything.
    Lease,
    /// Acks and nacks.
    Ack,
    /// Operator verbs, edits, look-ups and counts.
    Operate,
}

impl Purpose {
    const ALL: [Self; 4] = [Self::Work, Self::Lease, Self::Ack, Self::Operate];

    /// How many calls of this purpose run at the same time. It is also the number of connections where the database takes
    /// several.
    const fn size(self) -> usize {
        match self {
            Self::Work => 3,
            Self::Lease => 1,
            Self::Ack | Self::Operate => 2,
        }
    }

    /// What the server ends by itself: a statement whose caller has stopped waiting, a wait for a lock, and a transaction whose
    /// process is frozen.
    fn limits(call_timeout: Duration) -> SessionLimits {
        let statement = give_up_after(call_timeout);
        SessionLimits { statement, lock: statement.min(LOCK_WAIT), idle: call_timeout }
    }
}

/// How long a statement waits for a lock. Most skip locked rows; this limit bounds the others.
const LOCK_WAIT: Duration = Duration::from_secs(1);
/// How many call time-outs a call waits for its turn. The default is five minutes in all, enough for tens of thousands of
/// acknowledgements.
const TURN_TIMEOUTS: u32 = 30;
/// How long to wait for a new connection that shows whether the database answers.
const PROBE: Duration = Duration::from_secs(2);

/// The connections of one store.
pub(crate) struct Connections<DB: Dialect> {
    turn_limit: Duration,
    turns: [(Purpose, Semaphore); 4],
    /// Counts outages, so that calls that wait for a turn fail without probing the database themselves.
    outages: watch::Sender<u64>,
    work: Share<DB>,
    /// None: all purposes use the connections of `work`.
    lease: Option<Share<DB>>,
    ack: Option<Share<DB>>,
    operate: Option<Share<DB>>,
}

/// The application's settings without sqlx's log of (slow) statements: on MySQL the store's statements have their values in the
/// text.
fn quiet<DB: Dialect>(app: &Pool<DB>) -> <DB::Connection as Connection>::Options {
    (*app.connect_options()).clone().disable_statement_logging()
}

/// The connections of one purpose, or of all purposes.
pub(crate) struct Share<DB: Dialect> {
    pool: Pool<DB>,
    app: Pool<DB>,
    /// None where the pool is the application's: its connections keep their settings, and the store keeps none of them.
    own: Option<SessionLimits>,
    permits: Semaphore,
    /// Each with the time at which the call returned it.
    idle: Mutex<Vec<(PoolConnection<DB>, Instant)>>,
    /// True where a pooler in front of the server refuses start-up settings.
    no_settings: Arc<AtomicBool>,
}

/// Why a call got no turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoTurn {
    /// The call has waited for [`Connections::turn_limit`].
    Busy,
    /// Another call found that the database does not answer.
    Outage,
}

/// The right of one call to a connection.
pub(crate) struct Turn<'a, DB: Dialect> {
    pub(crate) share: &'a Share<DB>,
    _of_purpose: SemaphorePermit<'a>,
    _of_share: SemaphorePermit<'a>,
}

impl<DB: Dialect> Connections<DB> {
    /// Opens nothing yet. Our pools inherit the application's connect options and its `after_connect` hook.
    pub(crate) fn new(app: &Pool<DB>, call_timeout: Duration) -> Self {
        let no_settings = Arc::new(AtomicBool::new(false));
        let share = |pool: Pool<DB>, own: Option<SessionLimits>, size: usize| Share {
            pool,
            app: app.clone(),
            own,
            permits: Semaphore::new(size),
            idle: Mutex::new(Vec::new()),
            no_settings: Arc::clone(&no_settings),
        };
        let own = |size: usize| {
            // One more than there are turns, because a hanging connection takes a place until it is closed.
            let most = u32::try_from(size + 1).unwrap_or(u32::MAX);
            let options = app.options().clone().min_connections(0).max_connections(most);
            let options = options.acquire_timeout(call_timeout).test_before_acquire(false);
            let pool = options.connect_lazy_with((*app.connect_options()).clone());
            share(pool, Some(Purpose::limits(call_timeout)), size)
        };
        let of = |purpose: Purpose| own(purpose.size());
        let plan = DB::connections(app);
        let work = match plan {
            ConnectionPlan::Own => of(Purpose::Work),
            ConnectionPlan::OwnSingle => own(1),
            ConnectionPlan::Shared => share(app.clone(), None, 1),
        };
        let [lease, ack, operate] = [Purpose::Lease, Purpose::Ack, Purpose::Operate]
            .map(|purpose| matches!(plan, ConnectionPlan::Own).then(|| of(purpose)));
        let turns = Purpose::ALL.map(|purpose| (purpose, Semaphore::new(purpose.size())));
        Self {
            turn_limit: call_timeout.saturating_mul(TURN_TIMEOUTS),
            turns,
            outages: watch::Sender::new(0),
            work,
            lease,
            ack,
            operate,
        }
    }

    fn share(&self, purpose: Purpose) -> &Share<DB> {
        let own = match purpose {
            Purpose::Work => None,
            Purpose::Lease => self.lease.as_ref(),
            Purpose::Ack => self.ack.as_ref(),
            Purpose::Operate => self.operate.as_ref(),
        };
        own.unwrap_or(&self.work)
    }

    /// Waits for the turn of one call. Fails after [`Self::turn_limit`], or when another call reports an outage.
    pub(crate) async fn turn(&self, purpose: Purpose) -> Result<Turn<'_, DB>, NoTurn> {
        let mut outages = self.outages.subscribe();
        let share = self.share(purpose);
        let turn = async {
            // The purpose's own queue comes first. Where all purposes share one connection, only a few calls of each then wait
            // for it.
            let (_, of_purpose) = self.turns.iter().find(|(of, _)| *of == purpose)?;
            let of_purpose = of_purpose.acquire().await.ok()?;
            let of_share = share.permits.acquire().await.ok()?;
            Some(Turn { share, _of_purpose: of_purpose, _of_share: of_share })
        };
        tokio::select! {
            biased;
            turn = timeout(self.turn_limit, turn) => turn.ok().flatten().ok_or(NoTurn::Busy),
            _ = outages.changed() => Err(NoTurn::Outage),
        }
    }

    /// How long a call waits for its turn.
    pub(crate) fn turn_limit(&self) -> Duration {
        self.turn_limit
    }

    /// Ends all waits for turns after an outage. Otherwise each waiting call would run into its own time-out, one after the
    /// other.
    pub(crate) fn end_turns(&self) {
        self.outages.send_modify(|outages| *outages = outages.wrapping_add(1));
    }

    /// Closes the idle connections, because after an outage each of them may be broken.
    pub(crate) fn forget_idle(&self) {
        for share in Purpose::ALL.map(|purpose| self.share(purpose)) {
            let idle = std::mem::take(&mut *share.idle.lock());
            for (mut connection, _) in idle {
                connection.close_on_drop();
            }
        }
    }
}

impl<DB: Dialect> Share<DB> {
    /// Returns a connection to a call that has its turn.
    pub(crate) async fn get(&self) -> sqlx::Result<Borrowed<'_, DB>> {
        let connection = match self.rested() {
            Some(connection) => connection,
            None => self.prepared().await?,
        };
        Ok(Borrowed { connection: Some(connection), share: self, is_untouched: false })
    }

    /// Runs one query on a connection of its own.
    pub(crate) async fn read(&self, query: &impl Query) -> sqlx::Result<Vec<DB::Row>> {
        let mut conn = self.get().await?;
        let rows = query.fetch::<DB>(&mut conn).await?;
        conn.done();
        Ok(rows)
    }

    /// Runs one statement that reads, on a connection of its own.
    pub(crate) async fn rows(&self, statement: &Statement, args: &[Arg<'_>]) -> sqlx::Result<Vec<DB::Row>> {
        let mut conn = self.get().await?;
        let rows = DB::fetch(&mut conn, statement, args).await?;
        conn.done();
        Ok(rows)
    }

    /// True where the database answers on a new connection. Then a call that took too long is not an outage.
    pub(crate) async fn answers(&self) -> bool {
        let Ok(Ok(connection)) = timeout(PROBE, self.prepared()).await else { return false };
        Borrowed { connection: Some(connection), share: self, is_untouched: false }.done();
        self.own.is_some()
    }

    /// Returns the idle connection that was used last, and closes those that were idle for too long.
    fn rested(&self) -> Option<PoolConnection<DB>> {
        let longest = DB::longest_rest(self.own.as_ref()?);
        let mut idle = self.idle.lock();
        // The list is in the order of return, so the stale ones come first.
        let stale = idle.iter().take_while(|(_, since)| since.elapsed() > longest).count();
        idle.drain(..stale).for_each(|(mut connection, _)| connection.close_on_drop());
        idle.pop().map(|(connection, _)| connection)
    }

    /// Opens a connection, with the store's settings where the pool is the store's.
    async fn prepared(&self) -> sqlx::Result<PoolConnection<DB>> {
        let Some(limits) = &self.own else { return self.pool.acquire().await };
        let mut fresh = self.fresh(limits).await?;
        if let Err(error) = DB::prepare_session(&mut fresh, Some(limits)).await {
            fresh.close_on_drop();
            return Err(error);
        }
        Ok(fresh)
    }

    async fn fresh(&self, limits: &SessionLimits) -> sqlx::Result<PoolConnection<DB>> {
        // The application may have changed the pool's credentials.
        let options = || quiet(&self.app);
        if !self.no_settings.load(Ordering::Relaxed) {
            self.pool.set_connect_options(DB::with_settings(options(), limits));
            match self.pool.acquire().await {
                Err(error) if DB::refuses_settings(&error) => self.no_settings.store(true, Ordering::Relaxed),
                done => return done,
            }
        }
        self.pool.set_connect_options(options());
        self.pool.acquire().await
    }
}

/// A connection that one call uses. It is kept only if the call reaches [`Self::done`], or its transaction did not begin, because another
/// writer has locked the file.
pub(crate) struct Borrowed<'a, DB: Dialect> {
    connection: Option<PoolConnection<DB>>,
    share: &'a Share<DB>,
    is_untouched: bool,
}

impl<DB: Dialect> Borrowed<'_, DB> {
    /// Returns the connection for reuse: the call succeeded and no transaction is open on it.
    pub(crate) fn done(mut self) {
        self.keep();
    }

    fn keep(&mut self) {
        // Dropping it returns it to the application's pool.
        if let Some(connection) = self.connection.take()
            && self.share.own.is_some()
        {
            self.share.idle.lock().push((connection, Instant::now()));
        }
    }

    /// Begins a transaction that writes.
    pub(crate) async fn begin(&mut self) -> sqlx::Result<sqlx::Transaction<'_, DB>> {
        let Some(connection) = self.connection.as_mut() else { return Err(sqlx::Error::PoolClosed) };
        match connection.begin_with(DB::BEGIN).await {
            Err(error) => {
                self.is_untouched = DB::KIND.locks_file() && fault::<DB>(&error) == FaultKind::Conflict;
                Err(error)
            }
            begun => begun,
        }
    }
}

impl<DB: Dialect> Drop for Borrowed<'_, DB> {
    fn drop(&mut self) {
        if self.is_untouched {
            self.keep();
        }
        if let Some(connection) = self.connection.as_mut()
            && self.share.own.is_some()
        {
            connection.close_on_drop();
        }
    }
}

impl<DB: Dialect> Deref for Borrowed<'_, DB> {
    type Target = PoolConnection<DB>;

    #[allow(clippy::expect_used)] // Taken only by `done`, which consumes it.
    fn deref(&self) -> &Self::Target {
        self.connection.as_ref().expect("a borrowed connection")
    }
}

impl<DB: Dialect> DerefMut for Borrowed<'_, DB> {
    #[allow(clippy::expect_used)] // Taken only by `done`, which consumes it.
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.connection.as_mut().expect("a borrowed connection")
    }
}
