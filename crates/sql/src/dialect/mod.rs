//! [`Dialect`]: what the store needs of an sqlx driver beyond `sqlx::Database`, implemented once per database.
//!
//! A trait cannot imply sqlx's bounds on encodable types. So the few generic lines that talk to a driver are in the macro
//! [`driver`], which is expanded for each of the three.

pub(crate) mod fault;
pub(crate) mod kind;
#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
pub(crate) mod query;
pub(crate) mod row;
#[cfg(feature = "sqlite")]
mod sqlite;
pub(crate) mod statement;

use std::borrow::Cow;
use std::time::Duration;

use futures_util::future::BoxFuture;
use solid_notify_core::error::FaultKind;
use sqlx::error::DatabaseError;
use sqlx::{Connection, Database, Pool, Transaction};

use crate::dialect::kind::Kind;
use crate::dialect::statement::{Arg, Prepared, Statement};

/// A database that solid-notify runs on: `sqlx::Postgres`, `sqlx::MySql` (MariaDB too) and `sqlx::Sqlite`.
///
/// Sealed: its methods serve the store and may change in any release.
pub trait Dialect: Database + sealed::Sealed {
    /// The SQL family.
    #[doc(hidden)]
    const KIND: Kind;
    /// The statement that begins a transaction that writes.
    #[doc(hidden)]
    const BEGIN: &'static str;
    /// The statement that begins a transaction of the application, so that [`Self::commit`] can detect whether it is still open.
    #[doc(hidden)]
    const OPEN: &'static str = Self::BEGIN;
    /// The schema, oldest migration first: (version, name, SQL).
    #[doc(hidden)]
    const MIGRATIONS: &'static [(i64, &'static str, &'static str)];
    /// The roles of the tables, where the database has accounts.
    #[doc(hidden)]
    const ROLES: Option<&'static str>;

    /// Runs a statement and returns all its rows.
    #[doc(hidden)]
    fn fetch<'c>(
        conn: &'c mut Self::Connection,
        statement: impl Into<Prepared<'c>>,
        args: &'c [Arg<'c>],
    ) -> BoxFuture<'c, sqlx::Result<Vec<Self::Row>>>;

    /// Runs a statement. Returns how many rows it changed, and on MySQL the generated id.
    #[doc(hidden)]
    fn execute<'c>(
        conn: &'c mut Self::Connection,
        statement: impl Into<Prepared<'c>>,
        args: &'c [Arg<'c>],
    ) -> BoxFuture<'c, sqlx::Result<Changed>>;

    /// Runs SQL without parameters, which may be several statements, without preparing it.
    #[doc(hidden)]
    fn script<'c>(conn: &'c mut Self::Connection, sql: Cow<'static, str>) -> BoxFuture<'c, sqlx::Result<Changed>>;

    /// Reads a whole number; null is `None`.
    #[doc(hidden)]
    fn int(row: &Self::Row, column: usize) -> sqlx::Result<Option<i64>>;

    /// Reads a text; null is `None`.
    #[doc(hidden)]
    fn text(row: &Self::Row, column: usize) -> sqlx::Result<Option<String>>;

    /// Reads a time that was selected by [`Kind::moment`], in milliseconds since 1970; null is `None`.
    #[doc(hidden)]
    fn moment(row: &Self::Row, column: usize) -> sqlx::Result<Option<i64>> {
        Self::int(row, column)
    }

    /// Replaces the host of a URL by the address that it is. The driver looks an IPv6 address up with its brackets, as if it were a name.
    #[doc(hidden)]
    fn with_address(options: <Self::Connection as Connection>::Options) -> <Self::Connection as Connection>::Options {
        options
    }

    /// Adds the start-up settings of the store's own connections. On Postgres they include the statement time-out, which ends a
    /// statement shortly before its caller stops waiting.
    #[doc(hidden)]
    fn with_settings(
        options: <Self::Connection as Connection>::Options,
        limits: &SessionLimits,
    ) -> <Self::Connection as Connection>::Options {
        let _ = limits;
        options
    }

    /// True where the server or a pooler refused a connection because of these settings.
    #[doc(hidden)]
    fn refuses_settings(error: &sqlx::Error) -> bool {
        let _ = error;
        false
    }

    /// Prepares a new connection of the store: refuses servers that are too old, sets the isolation level, and sets the limits
    /// where [`Self::with_settings`] does not.
    #[doc(hidden)]
    fn prepare_session<'c>(
        conn: &'c mut Self::Connection,
        limits: Option<&'c SessionLimits>,
    ) -> BoxFuture<'c, sqlx::Result<()>>;

    /// How long an idle connection of the store is kept, because firewalls and servers end idle connections without notice.
    #[doc(hidden)]
    fn longest_rest(limits: &SessionLimits) -> Duration {
        let _ = limits;
        Duration::from_secs(60)
    }

    /// Prepares the statements of an add, where a call that is cut short while it prepares one would harm the connection. Leaves
    /// errors to the calls that run the statements.
    #[doc(hidden)]
    fn prepare_to_add<'c>(conn: &'c mut Self::Connection, statements: &'c [&'c Statement]) -> BoxFuture<'c, ()> {
        let _ = (conn, statements);
        Box::pin(std::future::ready(()))
    }

    /// Commits a transaction begun with [`Self::OPEN`] in one round trip, and reports whether there was one to commit. An `Ok` of
    /// sqlx's own commit proves nothing: Postgres answers the COMMIT of an aborted transaction with a rollback, and MySQL reports
    /// no error for a transaction that a deadlock has ended.
    #[doc(hidden)]
    fn commit(tx: Transaction<'_, Self>) -> BoxFuture<'_, sqlx::Result<Committed>>;

    /// True where an insert failed because the server sees no open transaction, or not the one in which the definition was looked up.
    #[doc(hidden)]
    fn is_not_open(error: &sqlx::Error) -> bool {
        let _ = error;
        false
    }

    /// Returns the kind of fault of a server's error, by its code and never by its message.
    #[doc(hidden)]
    fn fault(error: &dyn DatabaseError) -> FaultKind;

    /// Returns whether the server's disk, or the space that it may use, is full.
    #[doc(hidden)]
    fn is_full(error: &dyn DatabaseError) -> bool;

    /// Returns what the error of a call without its arguments says of a procedure.
    #[doc(hidden)]
    fn presence(error: &dyn DatabaseError) -> Presence {
        let _ = error;
        Presence::There
    }

    /// Returns which connections the store uses.
    #[doc(hidden)]
    fn connections(app: &Pool<Self>) -> ConnectionPlan;

    /// Lets one of several processes migrate at a time. The transaction or the session holds the lock.
    #[doc(hidden)]
    const MIGRATION_LOCK: MigrationLock;
}

/// What a statement changed.
#[derive(Debug, Clone, Copy)]
pub struct Changed {
    /// Number of changed rows.
    pub rows: u64,
    /// The generated id of an insert, where the driver reports it.
    pub last_id: i64,
}

/// Result of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// The transaction is committed.
    Yes,
    /// The transaction was aborted or no longer open; all of it is rolled back.
    Lost,
}

/// What the server ends by itself on a connection of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// Maximum duration of a statement.
    pub statement: Duration,
    /// Maximum wait for a lock.
    pub lock: Duration,
    /// Maximum time that a session leaves its transaction idle. Beyond it, its process is frozen or its host is lost.
    pub idle: Duration,
}

/// Which connections the store uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionPlan {
    /// Own connections for each purpose.
    Own,
    /// One own connection for everything, because the database has one writer.
    OwnSingle,
    /// The application's pool, because another connection would see another (in-memory) database.
    Shared,
}

/// Whether a procedure exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    There,
    Missing,
    /// This account may not see it.
    Hidden,
}

/// How processes that migrate at the same time exclude each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationLock {
    /// DDL is transactional: the statement that limits how long the transaction waits for a lock, and the one that takes the lock.
    Transaction(&'static str, &'static str),
    /// DDL commits by itself: session settings, then the statement that takes a session lock (it returns 1) and the one that
    /// releases it.
    Session(&'static str, &'static str, &'static str),
}

/// Returns the address that a host of a URL is, if it is one of IPv6.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) fn address(host: &str) -> Option<&str> {
    host.strip_prefix('[')?.strip_suffix(']')
}

/// When the server ends a statement whose caller waits for `limit`: a little earlier, so that its error still arrives.
pub(crate) fn give_up_after(limit: Duration) -> Duration {
    (limit.saturating_sub(limit / 10)).clamp(Duration::from_millis(1), Duration::from_secs(86_400))
}

pub(crate) mod sealed {
    /// Keeps [`crate::Dialect`] from being implemented outside this crate.
    pub trait Sealed {}
}

/// The generic part of a [`Dialect`]. The file that uses it defines `changed`, which reads the driver's result of a statement.
macro_rules! driver {
    ($db:ty) => {
        fn fetch<'c>(
            conn: &'c mut <$db as sqlx::Database>::Connection,
            statement: impl Into<Prepared<'c>>,
            args: &'c [Arg<'c>],
        ) -> BoxFuture<'c, sqlx::Result<Vec<<$db as sqlx::Database>::Row>>> {
            let statement: Prepared<'c> = statement.into();
            Box::pin(async move {
                match statement.spelled_out(Self::KIND, args)? {
                    Some(text) => sqlx::raw_sql(sqlx::AssertSqlSafe(text)).fetch_all(conn).await,
                    None => {
                        let arguments = statement.arguments::<$db>(Self::KIND, args)?;
                        sqlx::query_with(statement.sql, arguments).fetch_all(conn).await
                    }
                }
            })
        }

        fn execute<'c>(
            conn: &'c mut <$db as sqlx::Database>::Connection,
            statement: impl Into<Prepared<'c>>,
            args: &'c [Arg<'c>],
        ) -> BoxFuture<'c, sqlx::Result<Changed>> {
            let statement: Prepared<'c> = statement.into();
            Box::pin(async move {
                let done = match statement.spelled_out(Self::KIND, args)? {
                    Some(text) => sqlx::raw_sql(sqlx::AssertSqlSafe(text)).execute(conn).await?,
                    None => {
                        let arguments = statement.arguments::<$db>(Self::KIND, args)?;
                        sqlx::query_with(statement.sql, arguments).execute(conn).await?
                    }
                };
                Ok(changed(&done))
            })
        }

        fn script<'c>(
            conn: &'c mut <$db as sqlx::Database>::Connection,
            sql: std::borrow::Cow<'static, str>,
        ) -> BoxFuture<'c, sqlx::Result<Changed>> {
            Box::pin(async move {
                let done = sqlx::raw_sql(sqlx::AssertSqlSafe(sql.into_owned())).execute(conn).await?;
                Ok(changed(&done))
            })
        }

        fn int(row: &<$db as sqlx::Database>::Row, column: usize) -> sqlx::Result<Option<i64>> {
            sqlx::Row::try_get_unchecked(row, column)
        }

        fn text(row: &<$db as sqlx::Database>::Row, column: usize) -> sqlx::Result<Option<String>> {
            sqlx::Row::try_get_unchecked(row, column)
        }
    };
}
pub(crate) use driver;
