//! Inserting a notice through each kind of sqlx connection. All of them end in [`insert`].

use sqlx::pool::PoolConnection;
use sqlx::{Connection, Transaction};

use super::dialect::Dialect;
use super::fragment::Kind;
use super::run::{Arg, Statement};
use super::store::required;
use super::tx::{Context, NoticeTx, failed};
use crate::add::{Added, NewNotice, NoticeConnection, nearest_name};
use crate::clock::HandClock;
use crate::error::{Error, Result};
use crate::lane::{Fresh, Outcome, Report};
use crate::param::DEFAULT_PARAM_LIMIT;

impl<DB: Dialect> NoticeConnection for NoticeTx<'_, DB> {
    async fn insert(&mut self, notice: NewNotice) -> Result<Added> {
        let (conn, context) = self.parts(DOING)?;
        let (id, def_id) = insert::<DB>(conn, &notice, Caller::Ours(context)).await?;
        let (report, outcome) = Report::new();
        if notice.is_due_at_once() {
            self.added(Fresh { id, def_id, report });
        } else {
            self.added_for_later(report, notice.is_due_soon());
        }
        Ok(Added::new(id, outcome))
    }
}

impl<DB: Dialect> NoticeConnection for Transaction<'_, DB> {
    async fn insert(&mut self, notice: NewNotice) -> Result<Added> {
        plain::<DB>(self, &notice, Caller::Transaction).await
    }
}

impl<DB: Dialect> NoticeConnection for PoolConnection<DB> {
    async fn insert(&mut self, notice: NewNotice) -> Result<Added> {
        plain::<DB>(self, &notice, Caller::Connection).await
    }
}

macro_rules! connection {
    ($feature:literal, $db:ty, $connection:ty) => {
        #[cfg(feature = $feature)]
        impl NoticeConnection for $connection {
            async fn insert(&mut self, notice: NewNotice) -> Result<Added> {
                plain::<$db>(self, &notice, Caller::Connection).await
            }
        }
    };
}
connection!("postgres", sqlx::Postgres, sqlx::PgConnection);
connection!("mysql", sqlx::MySql, sqlx::MySqlConnection);
connection!("sqlite", sqlx::Sqlite, sqlx::SqliteConnection);

const DOING: &str = "adding a notice";

/// Who adds.
#[derive(Clone, Copy)]
enum Caller<'a> {
    /// A transaction of `notify.begin()`.
    Ours(&'a Context),
    /// Somebody who believes in a transaction.
    Transaction,
    /// Somebody who may just as well have none.
    Connection,
}

async fn plain<DB: Dialect>(conn: &mut DB::Connection, notice: &NewNotice, caller: Caller<'_>) -> Result<Added> {
    let (id, _) = insert::<DB>(conn, notice, caller).await?;
    Ok(Added::new(id, Outcome::not_here()))
}

/// Inserts the notice; returns its id and its definition's.
async fn insert<DB: Dialect>(conn: &mut DB::Connection, notice: &NewNotice, caller: Caller<'_>) -> Result<(i64, i64)> {
    let (param_limit, clock) = match caller {
        Caller::Ours(context) => (context.param_limit, context.clock.as_ref()),
        Caller::Transaction | Caller::Connection => (DEFAULT_PARAM_LIMIT, None),
    };
    notice.check(param_limit)?;
    // A savepoint that fails makes sqlx 0.9 roll back the transaction around it, without a word.
    if !matches!(caller, Caller::Connection) && !conn.is_in_transaction() {
        return Err(Error::TransactionLost { doing: DOING });
    }
    let statements = DB::statements();
    let failed = |error| failed::<DB>(DOING, error);
    let now = Arg::Int(clock.map(HandClock::now_millis));
    let (at, delay) = notice.send_millis();
    let values = |first: Arg<'static>| {
        [
            now,
            first,
            notice.param_json().into(),
            Arg::Text(notice.description_text()),
            Arg::Text(notice.trace_context_text()),
            Arg::Int(at),
            delay.into(),
        ]
    };
    if DB::KIND.insert_reads_freely() {
        let mut args = values(Arg::Int(None));
        args[1] = Arg::Text(Some(notice.name()));
        let rows = DB::fetch(conn, &statements.insert, &args).await.map_err(failed)?;
        if let Some(row) = rows.first() {
            return Ok((required::<DB>(row, 0).map_err(failed)?, required::<DB>(row, 1).map_err(failed)?));
        }
    } else {
        debug_assert_eq!(DB::KIND, Kind::MySql);
        let mut found = definition_id::<DB>(conn, &statements.definition_id, now, notice, caller).await?;
        if found.is_none() {
            // The caller's snapshot may be older than the definition.
            found = match caller {
                Caller::Ours(context) => look_beside(context, notice).await?,
                // Only a locking read of this connection sees what was committed since.
                _ => definition_id::<DB>(conn, &statements.definition_id_now, now, notice, caller).await?,
            };
        }
        if let Some(def_id) = found {
            let done = DB::execute(conn, &statements.insert, &values(def_id.into())).await.map_err(failed)?;
            return Ok((done.last_id, def_id));
        }
    }
    let rows = DB::fetch(conn, &statements.definition_names, &[now]).await.map_err(failed)?;
    let known = rows.iter().filter_map(|row| DB::text(row, 0).ok().flatten()).collect::<Vec<_>>();
    let nearest = nearest_name(notice.name(), known.iter().map(String::as_str));
    Err(Error::UnknownDefinition { name: notice.name().to_owned(), nearest })
}

/// The id of the notice's definition as `look` finds it.
async fn definition_id<DB: Dialect>(
    conn: &mut DB::Connection,
    look: &Statement,
    now: Arg<'_>,
    notice: &NewNotice,
    caller: Caller<'_>,
) -> Result<Option<i64>> {
    let failed = |error| failed::<DB>(DOING, error);
    let rows = DB::fetch(conn, look, &[now, notice.name().into()]).await.map_err(failed)?;
    let Some(row) = rows.first() else { return Ok(None) };
    if !matches!(caller, Caller::Connection) && DB::int(row, 1).map_err(failed)? == Some(0) {
        return Err(Error::TransactionLost { doing: DOING });
    }
    required::<DB>(row, 0).map(Some).map_err(failed)
}

/// The id of the notice's definition as a connection of our own sees it. A locking read of the caller's would make
/// operators wait for the end of its transaction, even for a name that is not there.
async fn look_beside(context: &Context, notice: &NewNotice) -> Result<Option<i64>> {
    let definitions = context.outbox.store().definitions().await?;
    let found = definitions.iter().find(|def| def.name == notice.name() && def.delete_time.is_none());
    Ok(found.map(|def| def.id))
}
