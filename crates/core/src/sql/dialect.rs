//! [`Dialect`]: what the store needs of an sqlx driver beyond `sqlx::Database`, implemented once per database.
//!
//! sqlx's bounds on encodable types cannot be implied by a trait, so the few generic lines that talk to a driver are
//! written in the macro [`driver`] and made for each of the three.

use std::borrow::Cow;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::error::DatabaseError;
use sqlx::{Connection, Database, Pool, Transaction};

use super::fragment::Kind;
use super::run::{Arg, Statement};
use super::statements::Statements;
use crate::error::FaultKind;

/// A database that solid-notify runs on: `sqlx::Postgres`, `sqlx::MySql` (MariaDB too) and `sqlx::Sqlite`.
///
/// Sealed: its methods are what the store needs and no promise to anybody else.
pub trait Dialect: Database + sealed::Sealed {
    /// The family of its SQL.
    #[doc(hidden)]
    const KIND: Kind;
    /// How a transaction that writes begins.
    #[doc(hidden)]
    const BEGIN: &'static str;
    /// How a transaction of the application begins: so that [`Self::commit`] can tell whether it still is that one.
    #[doc(hidden)]
    const OPEN: &'static str = Self::BEGIN;
    /// The schema, oldest migration first: (version, name, SQL).
    #[doc(hidden)]
    const MIGRATIONS: &'static [(i64, &'static str, &'static str)];

    /// Its statements, made once.
    #[doc(hidden)]
    fn statements() -> &'static Statements;

    /// Runs a statement and reads all its rows.
    #[doc(hidden)]
    fn fetch<'c>(
        conn: &'c mut Self::Connection,
        statement: &'c Statement,
        args: &'c [Arg<'c>],
    ) -> BoxFuture<'c, sqlx::Result<Vec<Self::Row>>>;

    /// Runs a statement; tells how many rows it changed, and on MySQL the id that it gave.
    #[doc(hidden)]
    fn execute<'c>(
        conn: &'c mut Self::Connection,
        statement: &'c Statement,
        args: &'c [Arg<'c>],
    ) -> BoxFuture<'c, sqlx::Result<Changed>>;

    /// Runs SQL without parameters, perhaps several statements, and prepares nothing for it.
    #[doc(hidden)]
    fn script<'c>(conn: &'c mut Self::Connection, sql: Cow<'static, str>) -> BoxFuture<'c, sqlx::Result<Changed>>;

    /// A whole number of a row, null as `None`.
    #[doc(hidden)]
    fn int(row: &Self::Row, column: usize) -> sqlx::Result<Option<i64>>;

    /// A text of a row, null as `None`.
    #[doc(hidden)]
    fn text(row: &Self::Row, column: usize) -> sqlx::Result<Option<String>>;

    /// A time of a row, selected by [`Kind::moment`], in milliseconds since 1970; null as `None`.
    #[doc(hidden)]
    fn moment(row: &Self::Row, column: usize) -> sqlx::Result<Option<i64>> {
        Self::int(row, column)
    }

    /// The settings that a connection of our own begins with.
    #[doc(hidden)]
    fn with_settings(options: <Self::Connection as Connection>::Options) -> <Self::Connection as Connection>::Options {
        options
    }

    /// Whether a connection was refused because of them.
    #[doc(hidden)]
    fn refuses_settings(error: &sqlx::Error) -> bool {
        let _ = error;
        false
    }

    /// Prepares a new connection of our own: refuses servers that are too old, sets the isolation level, and makes the
    /// server give up a statement shortly before `limit`, when nobody waits for its end any more.
    #[doc(hidden)]
    fn greet(conn: &mut Self::Connection, limit: Option<Duration>) -> BoxFuture<'_, sqlx::Result<()>>;

    /// Does what must not be cut short later, while a notice is being added. Errors are left to the statements themselves.
    #[doc(hidden)]
    fn prepare_to_add(conn: &mut Self::Connection) -> BoxFuture<'_, ()> {
        let _ = conn;
        Box::pin(std::future::ready(()))
    }

    /// Commits, in one round trip, a transaction begun with [`Self::OPEN`], and tells whether there was one to commit: an
    /// `Ok` of sqlx's own commit proves nothing, because Postgres answers the COMMIT of an aborted transaction with a
    /// rollback, and MySQL that of one which a deadlock ended with nothing at all.
    #[doc(hidden)]
    fn commit(tx: Transaction<'_, Self>) -> BoxFuture<'_, sqlx::Result<Committed>>;

    /// Whether a known insert (`known.rs`) failed because no transaction is seen to be open.
    #[doc(hidden)]
    fn is_not_open(error: &sqlx::Error) -> bool {
        let _ = error;
        false
    }

    /// What sort of fault an error of the server is: by its code, never by its message.
    #[doc(hidden)]
    fn fault(error: &dyn DatabaseError) -> FaultKind;

    /// How our own work is spread over connections.
    #[doc(hidden)]
    fn connections(app: &Pool<Self>) -> Plan;

    /// Keeps ten processes that migrate at once apart; held by the transaction or the session.
    #[doc(hidden)]
    const MIGRATION_LOCK: MigrationLock;
}

/// What a statement changed.
#[derive(Debug, Clone, Copy)]
pub struct Changed {
    /// Rows.
    pub rows: u64,
    /// The id that an insert gave, where the driver tells.
    pub last_id: i64,
}

/// Whether a commit had anything to commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// It is committed.
    Yes,
    /// The transaction was no longer open, or aborted; all of it is rolled back.
    Lost,
}

/// How our own work is spread over connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// So many connections of our own, and one more for lease extensions.
    Own(usize),
    /// One connection of our own for everything: the database has one writer.
    OwnSingle,
    /// The application's pool: another connection would see another (in-memory) database.
    Shared,
}

/// How processes that migrate at the same time are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationLock {
    /// Statements around a transaction in which DDL is transactional: (in the transaction, first).
    Transaction(&'static str),
    /// DDL commits by itself: a lock of the session, taken (the answer is 1) and released by these.
    Session(&'static str, &'static str),
}

/// When a server gives a statement up whose caller waits for `limit`: a little earlier, so that its answer still comes.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(super) fn give_up_after(limit: Duration) -> Duration {
    (limit.saturating_sub(limit / 10)).clamp(Duration::from_millis(1), Duration::from_secs(86_400))
}

pub(super) mod sealed {
    /// Keeps [`super::Dialect`] ours.
    pub trait Sealed {}
}

/// The generic part of a [`Dialect`]. The file that uses it says in `changed` what its driver tells of a statement.
macro_rules! driver {
    ($db:ty) => {
        fn statements() -> &'static crate::sql::statements::Statements {
            static STATEMENTS: std::sync::LazyLock<crate::sql::statements::Statements> =
                std::sync::LazyLock::new(|| crate::sql::statements::Statements::new(<$db as Dialect>::KIND));
            &STATEMENTS
        }

        fn fetch<'c>(
            conn: &'c mut <$db as sqlx::Database>::Connection,
            statement: &'c Statement,
            args: &'c [Arg<'c>],
        ) -> BoxFuture<'c, sqlx::Result<Vec<<$db as sqlx::Database>::Row>>> {
            Box::pin(async move {
                match statement.spelled_out(args)? {
                    Some(text) => sqlx::raw_sql(sqlx::AssertSqlSafe(text)).fetch_all(conn).await,
                    None => sqlx::query_with(statement.sql(), statement.arguments::<$db>(args)?).fetch_all(conn).await,
                }
            })
        }

        fn execute<'c>(
            conn: &'c mut <$db as sqlx::Database>::Connection,
            statement: &'c Statement,
            args: &'c [Arg<'c>],
        ) -> BoxFuture<'c, sqlx::Result<Changed>> {
            Box::pin(async move {
                let done = match statement.spelled_out(args)? {
                    Some(text) => sqlx::raw_sql(sqlx::AssertSqlSafe(text)).execute(conn).await?,
                    None => sqlx::query_with(statement.sql(), statement.arguments::<$db>(args)?).execute(conn).await?,
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
pub(super) use driver;
