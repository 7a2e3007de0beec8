//! The stores on PostgreSQL, MySQL/MariaDB and SQLite, and [`Notify`], the front that an application uses.
//!
//! Read `statements.rs` for what is asked of the database and `fragment.rs` for what differs; the rest is plumbing. SQL
//! stands in this folder and nowhere else.

mod add;
mod add_many;
mod alerts;
mod claim;
pub(crate) mod class;
mod confirm;
mod connections;
mod counts;
mod definition_statements;
mod definitions;
mod dialect;
mod fragment;
mod insert_statements;
mod known;
mod limits;
mod marks;
mod migrate;
#[cfg(feature = "mysql")]
mod mysql;
mod operate;
mod operate_fragment;
mod operate_statements;
#[cfg(feature = "postgres")]
mod postgres;
mod purge;
mod read;
mod run;
mod settle;
mod settle_statements;
#[cfg(feature = "sqlite")]
mod sqlite;
mod statements;
mod store;
mod tick;
mod to_the_end;
mod tx;
mod verbs;
mod version_statements;
mod versions;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use sqlx::Pool;

pub use dialect::Dialect;
pub use tx::NoticeTx;

use crate::clock::HandClock;
use crate::error::{FaultKind, Result};
use crate::outbox::Outbox;
use crate::param::DEFAULT_PARAM_LIMIT;
use dialect::Plan;
use known::Known;
use tx::Context;

/// The outbox of an application: its own pool, and through `Deref` everything of [`Outbox`].
///
/// Work of our own (claims, settles, definitions) runs on a few connections beside the application's pool: four on
/// Postgres and MySQL, one on SQLite, opened when first needed.
///
/// ```no_run
/// # #[cfg(feature = "postgres")]
/// # async fn example(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// use solid_notify_core::{Notify, NotifyDef, add_notice};
///
/// let notify = Notify::new(pool);
/// notify.migrate().await?;
/// notify.define(NotifyDef::new("sync_to_omp").retry_interval("[5s,5m,1h,1d]")).await?;
///
/// let mut tx = notify.begin().await?;
/// sqlx::query("UPDATE dsp SET state = 'booked'").execute(&mut *tx).await?;
/// add_notice(&mut tx, "sync_to_omp", serde_json::json!({ "dsp": 7 })).await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
pub struct Notify<DB: Dialect> {
    pool: Pool<DB>,
    context: Context,
}

impl<DB: Dialect> Clone for Notify<DB> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), context: self.context.clone() }
    }
}

impl<DB: Dialect> std::fmt::Debug for Notify<DB> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notify").field("database", &DB::NAME).finish_non_exhaustive()
    }
}

impl<DB: Dialect> Notify<DB> {
    /// An outbox in the database of `pool`, with the defaults.
    pub fn new(pool: Pool<DB>) -> Self {
        Self::builder(pool).build()
    }

    /// An outbox with other settings than the defaults.
    pub fn builder(pool: Pool<DB>) -> NotifyBuilder<DB> {
        NotifyBuilder { pool, clock: None, param_limit: DEFAULT_PARAM_LIMIT, call_timeout: Duration::from_secs(10) }
    }

    /// Begins a transaction whose notices are sent as soon as it commits. On SQLite it is `BEGIN IMMEDIATE`.
    ///
    /// Safe to cancel: no pooled connection is left inside a transaction.
    ///
    /// # Errors
    /// What the pool or the database said.
    pub async fn begin(&self) -> Result<NoticeTx<'static, DB>> {
        NoticeTx::begin_on(&self.pool, self.context.clone()).await
    }

    /// The schema as one SQL script, bookkeeping included, for people who migrate with a tool of their own.
    pub fn schema() -> String {
        migrate::printed::<DB>()
    }

    /// The application's pool.
    pub fn pool(&self) -> &Pool<DB> {
        &self.pool
    }

    /// Creates the tables, or brings them up to date. Any number of processes may call it at once, at every start; a
    /// database that a newer release has already changed is left as it is.
    ///
    /// # Errors
    /// What the database said; a server that is too old is refused (PostgreSQL 13, MariaDB 10.6, MySQL 8.0, SQLite 3.42).
    pub async fn migrate(&self) -> Result<()> {
        let failed = |error| tx::failed::<DB>("migrating the notice tables", error);
        let mut conn = self.pool.acquire().await.map_err(failed)?;
        if DB::connections(&self.pool) != Plan::Shared {
            // Session settings and locks must not go back to the application's pool.
            conn.close_on_drop();
        }
        let mut tried = 1;
        loop {
            match migrate::migrate::<DB>(&mut conn).await {
                // Another process migrates: SQLite does not always wait for it by itself.
                Err(error) if tried < 40 && store::fault::<DB>(&error) == FaultKind::Conflict => {
                    tokio::time::sleep(store::conflict_pause(tried.min(6))).await;
                    tried += 1;
                }
                done => return done.map_err(failed),
            }
        }
    }
}

impl<DB: Dialect> Deref for Notify<DB> {
    type Target = Outbox;

    fn deref(&self) -> &Outbox {
        &self.context.outbox
    }
}

/// Settings of a [`Notify`].
pub struct NotifyBuilder<DB: Dialect> {
    pool: Pool<DB>,
    clock: Option<HandClock>,
    param_limit: usize,
    call_timeout: Duration,
}

impl<DB: Dialect> NotifyBuilder<DB> {
    /// The largest parameter in bytes of JSON; 1 MiB unless set. For notices added through [`Notify::begin`].
    #[must_use]
    pub fn param_limit(mut self, bytes: usize) -> Self {
        self.param_limit = bytes;
        self
    }

    /// How long one internal database call may take; 10 s unless set.
    #[must_use]
    pub fn call_timeout(mut self, limit: Duration) -> Self {
        self.call_timeout = limit;
        self
    }

    /// For tests: time is what `clock` shows, not the database's.
    #[must_use]
    pub fn clock(mut self, clock: HandClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The outbox. Connects to nothing yet.
    pub fn build(self) -> Notify<DB> {
        let known = Arc::new(Known::new(DB::connections(&self.pool) != Plan::Shared));
        let store = store::SqlStore::new(&self.pool, self.clock.clone(), self.call_timeout, Arc::clone(&known));
        let store = Arc::new(store);
        let outbox = Outbox::new(store.clone(), store, self.clock.clone()).with_param_limit(self.param_limit);
        let context = Context { outbox, known, clock: self.clock, param_limit: self.param_limit };
        Notify { pool: self.pool, context }
    }
}

/// The name and the text of every statement, with numbered placeholders: for tests that look at the plans.
#[doc(hidden)]
pub fn statement_texts<DB: Dialect>() -> Vec<(&'static str, String)> {
    DB::statements().texts()
}
