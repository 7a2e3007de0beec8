//! Inserting a notice through each kind of sqlx connection. All of them end in [`insert`].

use sqlx::Transaction;
use sqlx::pool::PoolConnection;

use super::dialect::Dialect;
use super::fragment::Kind;
use super::run::Arg;
use super::store::required;
use super::tx::{NoticeTx, failed};
use crate::add::{Added, NewNotice, NoticeConnection, nearest_name};
use crate::clock::HandClock;
use crate::error::{Error, Result};
use crate::lane::{Fresh, Outcome, Report};
use crate::param::DEFAULT_PARAM_LIMIT;

impl<DB: Dialect> NoticeConnection for NoticeTx<'_, DB> {
    async fn insert(&mut self, notice: NewNotice) -> Result<Added> {
        let (conn, context) = self.parts();
        let (limit, clock) = (context.param_limit, context.clock.clone());
        let (id, def_id) = insert::<DB>(conn, &notice, limit, clock.as_ref(), Caller::Transaction).await?;
        let (report, outcome) = Report::new();
        if notice.is_due_at_once() {
            self.added(Fresh { id, def_id, report });
        } else {
            self.added_for_later(report);
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

/// Whether the caller believes in a transaction, or may just as well have none.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caller {
    Transaction,
    Connection,
}

async fn plain<DB: Dialect>(conn: &mut DB::Connection, notice: &NewNotice, caller: Caller) -> Result<Added> {
    let (id, _) = insert::<DB>(conn, notice, DEFAULT_PARAM_LIMIT, None, caller).await?;
    Ok(Added::new(id, Outcome::not_here()))
}

/// Inserts the notice; returns its id and its definition's.
async fn insert<DB: Dialect>(
    conn: &mut DB::Connection,
    notice: &NewNotice,
    param_limit: usize,
    clock: Option<&HandClock>,
    caller: Caller,
) -> Result<(i64, i64)> {
    notice.check(param_limit)?;
    let statements = DB::statements();
    let doing = "adding a notice";
    let failed = |error| failed::<DB>(doing, error);
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
        for look in [&statements.definition_id, &statements.definition_id_now] {
            let rows = DB::fetch(conn, look, &[now, notice.name().into()]).await.map_err(failed)?;
            let Some(row) = rows.first() else { continue };
            if caller == Caller::Transaction && DB::int(row, 1).map_err(failed)? == Some(0) {
                return Err(Error::TransactionLost { doing });
            }
            let def_id = required::<DB>(row, 0).map_err(failed)?;
            let done = DB::execute(conn, &statements.insert, &values(def_id.into())).await.map_err(failed)?;
            return Ok((done.last_id, def_id));
        }
    }
    let rows = DB::fetch(conn, &statements.definition_names, &[now]).await.map_err(failed)?;
    let known = rows.iter().filter_map(|row| DB::text(row, 0).ok().flatten()).collect::<Vec<_>>();
    let nearest = nearest_name(notice.name(), known.iter().map(String::as_str));
    Err(Error::UnknownDefinition { name: notice.name().to_owned(), nearest })
}
