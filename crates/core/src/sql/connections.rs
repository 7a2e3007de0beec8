//! The store's own few connections, kept apart from the application's pool: a busy application cannot keep leases from
//! being extended, and our short writes do not queue behind long ones.
//!
//! A connection is used by one call at a time and goes back only after a call that ended well. Where a call failed or
//! its future was dropped, the connection is closed: nothing can be left half done on it, and none that hangs is met
//! again. Connections that went well are kept out of sqlx's pool, which pings each one that is returned.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{Connection, Pool};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::dialect::{Dialect, Plan};

/// What a connection is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Claims, settles, everything.
    Work,
    /// Lease extensions, which must not wait behind anything.
    Lease,
}

/// The connections of one store.
pub(super) struct Connections<DB: Dialect> {
    pool: Pool<DB>,
    app: Pool<DB>,
    call_timeout: Duration,
    /// False where the pool is the application's: then nothing is kept from it.
    own: bool,
    work: Slots<DB>,
    /// None: lease extensions share the work's.
    lease: Option<Slots<DB>>,
    /// A pooler between us and the server takes no settings with a connection.
    no_settings: AtomicBool,
}

/// A connection that rests longer is closed: firewalls forget it, and servers end it, without telling.
const LONGEST_REST: Duration = Duration::from_secs(60);

struct Slots<DB: Dialect> {
    permits: Semaphore,
    /// Each with the time at which it was given back.
    idle: Mutex<Vec<(PoolConnection<DB>, Instant)>>,
}

impl<DB: Dialect> Slots<DB> {
    fn new(size: usize) -> Self {
        Self { permits: Semaphore::new(size), idle: Mutex::new(Vec::new()) }
    }

    /// The connection that rests since the shortest time; those that rested too long are closed.
    fn rested(&self) -> Option<PoolConnection<DB>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // The last one was given back last, so the first ones are the stale ones.
        let stale = idle.iter().take_while(|(_, since)| since.elapsed() > LONGEST_REST).count();
        idle.drain(..stale).for_each(|(mut connection, _)| connection.close_on_drop());
        idle.pop().map(|(connection, _)| connection)
    }
}

impl<DB: Dialect> Connections<DB> {
    /// Opens nothing yet. Our pool inherits the application's connect options and its `after_connect` hook.
    pub(super) fn new(app: &Pool<DB>, call_timeout: Duration) -> Self {
        let plan = DB::connections(app);
        let own_pool = |size: usize| {
            let size = u32::try_from(size).unwrap_or(u32::MAX);
            let options = app.options().clone().min_connections(0).max_connections(size);
            let options = options.acquire_timeout(call_timeout).test_before_acquire(false);
            options.connect_lazy_with((*app.connect_options()).clone())
        };
        let (pool, own, work, lease) = match plan {
            Plan::Own(size) => (own_pool(size + 1), true, size, Some(Slots::new(1))),
            Plan::OwnSingle => (own_pool(1), true, 1, None),
            Plan::Shared => (app.clone(), false, 1, None),
        };
        Self {
            pool,
            app: app.clone(),
            call_timeout,
            own,
            work: Slots::new(work),
            lease,
            no_settings: AtomicBool::new(false),
        }
    }

    /// A connection for one call; waits for its turn.
    pub(super) async fn get(&self, purpose: Purpose) -> sqlx::Result<Borrowed<'_, DB>> {
        let slots = match (&self.lease, purpose) {
            (Some(lease), Purpose::Lease) => lease,
            _ => &self.work,
        };
        let permit = slots.permits.acquire().await.map_err(|_| sqlx::Error::PoolClosed)?;
        let connection = match slots.rested() {
            Some(connection) => connection,
            None => {
                let mut fresh = self.fresh().await?;
                // The application's own connections keep their session settings.
                if self.own
                    && let Err(error) = DB::greet(&mut fresh, Some(self.call_timeout)).await
                {
                    fresh.close_on_drop();
                    return Err(error);
                }
                fresh
            }
        };
        Ok(Borrowed { connection: Some(connection), slots, keep: self.own, _permit: permit })
    }

    /// A new connection.
    async fn fresh(&self) -> sqlx::Result<PoolConnection<DB>> {
        if !self.own {
            return self.pool.acquire().await;
        }
        // The application may have been given other credentials since.
        let options = || (*self.app.connect_options()).clone();
        if !self.no_settings.load(Ordering::Relaxed) {
            self.pool.set_connect_options(DB::with_settings(options()));
            match self.pool.acquire().await {
                Err(error) if DB::refuses_settings(&error) => self.no_settings.store(true, Ordering::Relaxed),
                done => return done,
            }
        }
        self.pool.set_connect_options(options());
        self.pool.acquire().await
    }

    /// Closes what is idle: after an outage every kept connection is suspect.
    pub(super) fn forget_idle(&self) {
        for slots in [Some(&self.work), self.lease.as_ref()].into_iter().flatten() {
            let idle = std::mem::take(&mut *slots.idle.lock().unwrap_or_else(PoisonError::into_inner));
            for (mut connection, _) in idle {
                connection.close_on_drop();
            }
        }
    }
}

/// A connection that is used by one call. It is kept only if [`Self::done`] is reached.
pub(super) struct Borrowed<'a, DB: Dialect> {
    connection: Option<PoolConnection<DB>>,
    slots: &'a Slots<DB>,
    keep: bool,
    _permit: SemaphorePermit<'a>,
}

impl<DB: Dialect> Borrowed<'_, DB> {
    /// Gives the connection back: the call ended well, nothing is open on it.
    pub(super) fn done(mut self) {
        if self.keep
            && let Some(connection) = self.connection.take()
        {
            self.slots.idle.lock().unwrap_or_else(PoisonError::into_inner).push((connection, Instant::now()));
        } else {
            // Dropped as it is, it goes back to the application's pool.
            self.connection.take();
        }
    }

    /// Begins a transaction that writes.
    pub(super) async fn begin(&mut self) -> sqlx::Result<sqlx::Transaction<'_, DB>> {
        match self.connection.as_mut() {
            Some(connection) => connection.begin_with(DB::BEGIN).await,
            None => Err(sqlx::Error::PoolClosed),
        }
    }
}

impl<DB: Dialect> Drop for Borrowed<'_, DB> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.as_mut()
            && self.keep
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
