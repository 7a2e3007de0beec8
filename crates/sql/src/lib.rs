//! The stores on PostgreSQL, MySQL/MariaDB and SQLite, and [`Outbox`], the handle that an application holds.
//!
//! All SQL of the library is in this crate, in layers. A file imports only files of its own layer and of those before it:
//!
//! 1. `dialect/` has the drivers and the differences between the databases; `connections/` has the store's own connections.
//! 2. A topic has its statements, most in Rust yet and some in a `.sql` file, and the calls that run them: `add/`, `claim/`, `settle/`, `definitions/`, `inbox/`, `operate/`, `shortcuts/`,
//!    and the files `ack.rs`, `alerts.rs`, `fence.rs`, `limits.rs`, `migrate.rs`, `nodes.rs`, `ordering.rs`, `record.rs`,
//!    `tx.rs`.
//! 3. `store.rs` runs the calls of the topics, and `roles.rs` assigns them to the traits of a store. `statements.rs` lists all statements.
//! 4. This file has the handle.

mod ack;
mod add;
mod alerts;
mod audit;
mod caller;
mod claim;
mod connections;
mod definitions;
mod dialect;
mod examine;
mod fence;
mod inbox;
mod large;
mod limits;
mod migrate;
mod nodes;
mod operate;
mod ordering;
mod own;
mod record;
mod repair;
mod restore;
mod roles;
mod series;
mod settle;
mod shortcuts;
mod sql;
mod statements;
mod store;
mod tx;

/// The build script, for its tests.
#[cfg(test)]
#[allow(dead_code)]
#[path = "../build/sql/mod.rs"]
mod build;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use backon::BackoffBuilder;
use sqlx::Pool;

pub use add::BySqlx;
pub use dialect::Dialect;
#[doc(hidden)]
pub use dialect::SessionLimits;
pub use tx::NoticeTx;

use add::known_ids::KnownIds;
use caller::Context;
use dialect::ConnectionPlan;
use dialect::fault::{CONFLICT_PAUSES, failed, fault};
use solid_notify_core::clock::HandClock;
use solid_notify_core::engine::Engine;
use solid_notify_core::error::{FaultKind, Result};
use solid_notify_core::outbox::AnyOutbox;
use solid_notify_core::store::Stores;

/// The outbox of an application: its own pool, and through `Deref` all methods of [`AnyOutbox`].
///
/// The store's own work (claims, settles, definitions) runs on a few connections beside the application's pool: up to six
/// on Postgres and MySQL (three for sending, one for leases, two for acknowledgements, operators and look-ups), one on SQLite.
/// They are opened when first needed.
///
/// A call waits for one of them for at most 30 call time-outs (five minutes by default); then it fails with
/// [`FaultKind::Busy`].
///
/// ```no_run
/// # #[cfg(feature = "postgres")]
/// # async fn example(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// use solid_notify_core::{NotifyDef, add_notice};
/// use solid_notify_sql::Outbox;
///
/// let outbox = Outbox::new(pool);
/// outbox.migrate().await?;
/// outbox.define_if_missing(NotifyDef::new("sync_to_omp").retry_interval("[5s,5m,1h,1d]")).await?;
///
/// let mut tx = outbox.begin().await?;
/// sqlx::query("UPDATE dsp SET state = 'booked'").execute(&mut *tx).await?;
/// add_notice(&mut tx, "sync_to_omp", serde_json::json!({ "dsp": 7 })).await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
pub struct Outbox<DB: Dialect> {
    pool: Pool<DB>,
    context: Context,
}

impl<DB: Dialect> Clone for Outbox<DB> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), context: self.context.clone() }
    }
}

impl<DB: Dialect> std::fmt::Debug for Outbox<DB> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").field("database", &DB::NAME).finish_non_exhaustive()
    }
}

impl<DB: Dialect> Outbox<DB> {
    /// Creates an outbox in the database of `pool`, with the defaults.
    pub fn new(pool: Pool<DB>) -> Self {
        Self::builder(pool).build()
    }

    /// Connects to the database of `url` and creates an outbox there, with the defaults of the pool and of the outbox.
    ///
    /// # Errors
    /// An error of the database, as [`sqlx::Pool::connect`] returns it.
    pub async fn connect(url: &str) -> Result<Self> {
        let failed = |error| failed::<DB>("connecting to the database", error);
        let options = url.parse::<<DB::Connection as sqlx::Connection>::Options>().map_err(failed)?;
        let pool = Pool::connect_with(DB::with_address(options)).await.map_err(failed)?;
        Ok(Self::new(pool))
    }

    /// Returns a builder for an outbox with other settings than the defaults.
    pub fn builder(pool: Pool<DB>) -> OutboxBuilder<DB> {
        OutboxBuilder { pool, clock: None, call_timeout: Duration::from_secs(10) }
    }

    /// Begins a transaction whose notices are sent as soon as it commits. On SQLite it is `BEGIN IMMEDIATE`.
    ///
    /// Safe to cancel: no pooled connection is left inside a transaction.
    ///
    /// # Errors
    /// An error of the pool or of the database.
    pub async fn begin(&self) -> Result<NoticeTx<'static, DB>> {
        NoticeTx::begin_on(&self.pool, self.context.clone()).await
    }

    /// Returns the schema as one SQL script, bookkeeping included, for users who migrate with their own tool.
    pub fn schema() -> String {
        migrate::printed::<DB>()
    }

    /// Returns a SQL script that creates the roles `notify_owner`, `notify_producer`, `notify_sweeper` and `notify_reader` with the rights
    /// of their tasks, for the database that has the tables; its first lines say how to run it. `None` for SQLite, which has no accounts.
    pub fn roles() -> Option<&'static str> {
        DB::ROLES
    }

    /// Returns the application's pool.
    pub fn pool(&self) -> &Pool<DB> {
        &self.pool
    }

    /// Creates the tables, or brings them up to date. It creates again what a restore has lost: functions, procedures, views, triggers and
    /// indexes; and it moves the next ids behind those that were given. Any number of processes may call it at once, at every start. It leaves a
    /// database as it is that a newer release has already changed. Where nothing is to be done it needs only SELECT on
    /// `notify_schema`. On Postgres it uses the tables that the search path finds, else it creates them in `current_schema()`.
    ///
    /// # Errors
    /// An error of the database. A server that is too old is refused (PostgreSQL 13, MariaDB 10.6, MySQL 8.0, SQLite 3.42 are the
    /// oldest), and a Postgres database whose encoding is not UTF8. Tables that an open transaction locks for more than 15 s are
    /// a [`FaultKind::Conflict`]: retry when that transaction has ended.
    pub async fn migrate(&self) -> Result<()> {
        let failed = |error| failed::<DB>("migrating the notice tables", error);
        let mut conn = self.pool.acquire().await.map_err(failed)?;
        if DB::connections(&self.pool) != ConnectionPlan::Shared {
            // The application's pool must not get back a connection with our session settings and locks.
            conn.close_on_drop();
        }
        let (began, mut pauses) = (tokio::time::Instant::now(), CONFLICT_PAUSES.without_max_times().build());
        loop {
            match migrate::migrate::<DB>(&mut conn).await {
                // Another process migrates (SQLite does not always wait for it by itself), or a transaction locks a table.
                Err(error) if fault::<DB>(&error) == FaultKind::Conflict => {
                    if began.elapsed() >= migrate::PATIENCE {
                        return Err(migrate::locked(error).into());
                    }
                    tokio::time::sleep(pauses.next().unwrap_or_default()).await;
                }
                done => return done.map_err(failed),
            }
        }
    }
}

impl<DB: Dialect> Deref for Outbox<DB> {
    type Target = AnyOutbox;

    fn deref(&self) -> &AnyOutbox {
        &self.context.outbox
    }
}

/// Settings of a [`Outbox`].
pub struct OutboxBuilder<DB: Dialect> {
    pool: Pool<DB>,
    clock: Option<HandClock>,
    call_timeout: Duration,
}

impl<DB: Dialect> OutboxBuilder<DB> {
    /// Time-out of one internal database call; 10 s by default, at most a day.
    #[must_use]
    pub fn call_timeout(mut self, limit: Duration) -> Self {
        // Bounded, because time-outs are added to points in time.
        self.call_timeout = limit.min(Duration::from_secs(86_400));
        self
    }

    /// For tests: uses the time of `clock` instead of the database's.
    #[must_use]
    pub fn clock(mut self, clock: HandClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Builds the outbox. Opens no connection yet.
    pub fn build(self) -> Outbox<DB> {
        let known = Arc::new(KnownIds::new(DB::connections(&self.pool) != ConnectionPlan::Shared));
        let store = store::SqlStore::new(&self.pool, self.clock.clone(), self.call_timeout, Arc::clone(&known));
        let store = Arc::new(store);
        let outbox = AnyOutbox::over(Engine::new(Stores::of(&store), self.clock.clone()));
        let context = Context { outbox, known, clock: self.clock };
        Outbox { pool: self.pool, context }
    }
}

/// Compiles what is generic over the database once for each database, with this crate. Programs that are not optimised share it, instead of
/// compiling it again: a small one compiles in a third of the time, and most tests in half of it.
macro_rules! compiled {
    ($($feature:literal, $name:ident, $db:ty;)+) => {
        $(
            // The unit tests would compile it a second time.
            #[cfg(all(feature = $feature, not(test)))]
            #[doc(hidden)]
            pub async fn $name(builder: OutboxBuilder<$db>) -> Result<()> {
                let outbox = builder.build();
                outbox.migrate().await?;
                outbox.begin().await?.commit().await?;
                Ok(())
            }
        )+
    };
}
compiled! {
    "postgres", compiled_for_postgres, sqlx::Postgres;
    "mysql", compiled_for_mysql, sqlx::MySql;
    "sqlite", compiled_for_sqlite, sqlx::Sqlite;
}

/// Returns the name and the text of every statement, with numbered placeholders, for tests of the query plans.
#[doc(hidden)]
pub fn statement_texts<DB: Dialect>() -> Vec<(&'static str, String)> {
    statements::texts(DB::KIND)
}
