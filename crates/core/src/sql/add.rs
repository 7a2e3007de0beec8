//! Inserting a notice through each kind of sqlx connection. All of them end in [`insert`] or, for many notices at once,
//! in [`super::add_many`].

use std::collections::HashMap;

use sqlx::pool::PoolConnection;
use sqlx::{Connection, Transaction};

use super::add_many::{Key, definition_ids, duplicates, insert_many};
use super::confirm::confirm;
use super::definitions::is_unique_violation;
use super::dialect::Dialect;
use super::fragment::Kind;
use super::read::required;
use super::run::{Arg, Statement};
use super::tx::{Context, NoticeTx, failed};
use crate::add::{Added, NewNotice, NoticeConnection, Receipt, nearest_name};
use crate::clock::HandClock;
use crate::confirm::{Confirmation, Confirmed};
use crate::error::{Error, Result};
use crate::lane::{Fresh, Outcome, Report};
use crate::param::DEFAULT_PARAM_LIMIT;

impl<DB: Dialect> NoticeConnection for NoticeTx<'_, DB> {
    async fn insert(&mut self, notice: NewNotice) -> Result<Added> {
        let inserted = match self.insert_known(&notice).await? {
            Some(inserted) => inserted,
            None => {
                let (conn, context) = self.parts(DOING)?;
                insert::<DB>(conn, &notice, Caller::Ours(context)).await?
            }
        };
        Ok(self.remember(&notice, inserted))
    }

    async fn insert_many(&mut self, notices: Vec<NewNotice>) -> Result<Vec<Added>> {
        let (conn, context) = self.parts(DOING)?;
        let inserted = insert_many::<DB>(conn, &notices, Caller::Ours(context)).await?;
        Ok(notices.iter().zip(inserted).map(|(notice, inserted)| self.remember(notice, inserted)).collect())
    }

    async fn confirm(&mut self, given: &Confirmation) -> Result<Confirmed> {
        let (conn, context) = self.parts(ANSWERING)?;
        let answered = confirm_through::<DB>(conn, given, Caller::Ours(context)).await?;
        // What waits behind it, or its retry, is due.
        self.wake_after_commit();
        Ok(answered)
    }
}

impl<DB: Dialect> NoticeTx<'_, DB> {
    /// Remembers a notice for the time after the commit.
    fn remember(&mut self, notice: &NewNotice, inserted: Inserted) -> Added {
        let (id, def_id) = match inserted {
            Inserted::New { id, def_id } => (id, def_id),
            Inserted::Duplicate(id) => return Added::Duplicate(id),
        };
        let (report, outcome) = Report::new();
        let fresh = Fresh { id, def_id, report };
        match notice.is_due_at_once() {
            true => self.added(notice.name(), fresh),
            false => self.added_for_later(notice.name(), fresh, notice.is_due_soon()),
        }
        Added::New(Receipt::new(id, outcome))
    }
}

macro_rules! connection {
    ([$($generics:tt)*] $db:ty, $connection:ty, $caller:ident) => {
        impl<$($generics)*> NoticeConnection for $connection {
            async fn insert(&mut self, notice: NewNotice) -> Result<Added> {
                Ok(insert::<$db>(self, &notice, Caller::$caller).await?.not_followed())
            }

            async fn insert_many(&mut self, notices: Vec<NewNotice>) -> Result<Vec<Added>> {
                let inserted = insert_many::<$db>(self, &notices, Caller::$caller).await?;
                Ok(inserted.into_iter().map(Inserted::not_followed).collect())
            }

            async fn confirm(&mut self, given: &Confirmation) -> Result<Confirmed> {
                confirm_through::<$db>(self, given, Caller::$caller).await
            }
        }
    };
}
connection!([DB: Dialect] DB, Transaction<'_, DB>, Transaction);
connection!([DB: Dialect] DB, PoolConnection<DB>, Connection);
#[cfg(feature = "postgres")]
connection!([] sqlx::Postgres, sqlx::PgConnection, Connection);
#[cfg(feature = "mysql")]
connection!([] sqlx::MySql, sqlx::MySqlConnection, Connection);
#[cfg(feature = "sqlite")]
connection!([] sqlx::Sqlite, sqlx::SqliteConnection, Connection);

pub(super) const DOING: &str = "adding a notice";
const ANSWERING: &str = "answering a notice";

/// Who adds.
#[derive(Clone, Copy)]
pub(super) enum Caller<'a> {
    /// A transaction of `notify.begin()`.
    Ours(&'a Context),
    /// Somebody who believes in a transaction.
    Transaction,
    /// Somebody who may just as well have none.
    Connection,
}

impl Caller<'_> {
    pub(super) fn param_limit(&self) -> usize {
        match self {
            Self::Ours(context) => context.param_limit,
            Self::Transaction | Self::Connection => DEFAULT_PARAM_LIMIT,
        }
    }

    /// `$1` of every statement.
    pub(super) fn now_millis(&self) -> Option<i64> {
        match self {
            Self::Ours(context) => context.clock.as_ref().map(HandClock::now_millis),
            Self::Transaction | Self::Connection => None,
        }
    }

    /// A savepoint that fails makes sqlx 0.9 roll back the transaction around it, without a word.
    pub(super) fn check<DB: Dialect>(&self, conn: &DB::Connection) -> Result<()> {
        if matches!(self, Self::Connection) || conn.is_in_transaction() {
            return Ok(());
        }
        Err(Error::TransactionLost { doing: DOING })
    }
}

/// What became of a notice.
#[derive(Debug, Clone, Copy)]
pub(super) enum Inserted {
    New { id: i64, def_id: i64 },
    Duplicate(Option<i64>),
}

impl Inserted {
    /// What its producer is told where this process does not follow it.
    fn not_followed(self) -> Added {
        match self {
            Self::New { id, .. } => Added::New(Receipt::new(id, Outcome::not_here())),
            Self::Duplicate(id) => Added::Duplicate(id),
        }
    }
}

/// Carries out an answer in the caller's transaction. It has several steps, so there must be one.
async fn confirm_through<DB: Dialect>(
    conn: &mut DB::Connection,
    given: &Confirmation,
    caller: Caller<'_>,
) -> Result<Confirmed> {
    if !conn.is_in_transaction() {
        return Err(Error::TransactionLost { doing: ANSWERING });
    }
    let now = Arg::Int(caller.now_millis());
    confirm::<DB>(conn, now, given).await.map_err(|error| failed::<DB>(ANSWERING, error))
}

/// Inserts one notice.
pub(super) async fn insert<DB: Dialect>(
    conn: &mut DB::Connection,
    notice: &NewNotice,
    caller: Caller<'_>,
) -> Result<Inserted> {
    notice.check(caller.param_limit())?;
    caller.check::<DB>(conn)?;
    let statements = DB::statements();
    let failed = |error| failed::<DB>(DOING, error);
    let now = Arg::Int(caller.now_millis());
    if DB::KIND.insert_reads_freely() {
        let args = values(now, notice.name().into(), notice);
        let rows = match notice.dedupe_key_text() {
            None if is_plain(notice, now) => DB::fetch(conn, &statements.insert_plain, &args[1..3]).await,
            None => DB::fetch(conn, &statements.insert, &args).await,
            Some(_) => DB::fetch(conn, &statements.insert_keyed, &args).await,
        };
        let rows = rows.map_err(failed)?;
        if let Some(row) = rows.first() {
            let (id, def_id) = (required::<DB>(row, 0).map_err(failed)?, required::<DB>(row, 1).map_err(failed)?);
            return Ok(Inserted::New { id, def_id });
        }
        // Nothing was inserted: a duplicate, where the definition exists.
        if notice.dedupe_key_text().is_some()
            && let Some(def_id) = definition_ids::<DB>(conn, &[notice.name()], caller).await?.get(notice.name())
        {
            return Ok(Inserted::Duplicate(duplicate_of::<DB>(conn, *def_id, notice, now).await.map_err(failed)?));
        }
    } else {
        debug_assert_eq!(DB::KIND, Kind::MySql);
        if let Some(def_id) = definition_id::<DB>(conn, now, notice, caller).await? {
            return insert_of::<DB>(conn, def_id, notice, now).await.map_err(failed);
        }
    }
    Err(unknown_definition::<DB>(conn, notice.name(), now).await)
}

/// Inserts a notice whose definition is known.
///
/// A duplicate is looked for first: the insert that fails for one keeps a lock on it until the caller's transaction ends, and
/// nobody could settle it. What is left to the index is a duplicate that this transaction does not see.
pub(super) async fn insert_of<DB: Dialect>(
    conn: &mut DB::Connection,
    def_id: i64,
    notice: &NewNotice,
    now: Arg<'_>,
) -> sqlx::Result<Inserted> {
    if notice.dedupe_key_text().is_some()
        && let Some(id) = duplicate_of::<DB>(conn, def_id, notice, now).await?
    {
        return Ok(Inserted::Duplicate(Some(id)));
    }
    let args = values(now, def_id.into(), notice);
    let inserted = match is_plain(notice, now) {
        true => DB::execute(conn, &DB::statements().insert_plain, &args[1..3]).await,
        false => DB::execute(conn, &DB::statements().insert, &args).await,
    };
    match inserted {
        Ok(done) => Ok(Inserted::New { id: done.last_id, def_id }),
        Err(error) if notice.dedupe_key_text().is_some() && is_unique_violation(&error) => {
            Ok(Inserted::Duplicate(duplicate_of::<DB>(conn, def_id, notice, now).await?))
        }
        Err(error) => Err(error),
    }
}

/// True where nothing is said but the definition and the parameter, and the time is the database's.
pub(super) fn is_plain(notice: &NewNotice, now: Arg<'_>) -> bool {
    matches!(now, Arg::Int(None)) && notice.is_plain()
}

/// The arguments of an insert; `first` is the definition's name or id.
fn values<'a>(now: Arg<'a>, first: Arg<'a>, notice: &'a NewNotice) -> [Arg<'a>; 9] {
    let (at, delay) = notice.send_millis();
    [
        now,
        first,
        notice.param_json().into(),
        Arg::Text(notice.description_text()),
        Arg::Text(notice.trace_context_text()),
        Arg::Text(notice.ordering_key_text()),
        Arg::Text(notice.dedupe_key_text()),
        Arg::Int(at),
        delay.into(),
    ]
}

/// The id of the live notice with the same dedupe key, if this transaction sees one.
async fn duplicate_of<DB: Dialect>(
    conn: &mut DB::Connection,
    def_id: i64,
    notice: &NewNotice,
    now: Arg<'_>,
) -> sqlx::Result<Option<i64>> {
    let key = notice.dedupe_key_text().map(|own_key| Key { owner: def_id, own_key });
    Ok(duplicates::<DB>(conn, key.into_iter(), now).await?.into_values().next())
}

/// That there is no such definition, and which name was perhaps meant.
pub(super) async fn unknown_definition<DB: Dialect>(conn: &mut DB::Connection, name: &str, now: Arg<'_>) -> Error {
    let rows = match DB::fetch(conn, &DB::statements().definition_names, &[now]).await {
        Ok(rows) => rows,
        Err(error) => return failed::<DB>(DOING, error),
    };
    let known = rows.iter().filter_map(|row| DB::text(row, 0).ok().flatten()).collect::<Vec<_>>();
    let nearest = nearest_name(name, known.iter().map(String::as_str));
    Error::UnknownDefinition { name: name.to_owned(), nearest }
}

/// The id of the notice's definition, read by itself.
async fn definition_id<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    notice: &NewNotice,
    caller: Caller<'_>,
) -> Result<Option<i64>> {
    let statements = DB::statements();
    let found = look::<DB>(conn, &statements.definition_id, now, notice, caller).await?;
    match (found, caller) {
        (Some(id), _) => Ok(Some(id)),
        // The caller's snapshot may be older than the definition.
        (None, Caller::Ours(context)) => Ok(definitions_beside(context).await?.remove(notice.name())),
        // Only a locking read of this connection sees what was committed since.
        (None, _) => look::<DB>(conn, &statements.definition_id_now, now, notice, caller).await,
    }
}

async fn look<DB: Dialect>(
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

/// The ids of the definitions as a connection of our own sees them. A locking read of the caller's would make operators wait
/// for the end of its transaction, even for a name that is not there.
pub(super) async fn definitions_beside(context: &Context) -> Result<HashMap<String, i64>> {
    let definitions = context.outbox.store().definitions().await?;
    let alive = definitions.into_iter().filter(|def| def.delete_time.is_none());
    Ok(alive.map(|def| (def.name, def.id)).collect())
}
