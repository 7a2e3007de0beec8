//! Inserting a notice through each kind of sqlx connection. All of them end in [`insert`] or, for many notices at once,
//! in [`crate::add::many`].

pub(crate) mod many;
pub(crate) mod statements;

use std::collections::HashMap;

use solid_notify_core::ack::{AckResult, Reply};
use solid_notify_core::add::{NewNotice, nearest_name};
use solid_notify_core::clock::HandClock;
use solid_notify_core::connection::Insert;
use solid_notify_core::dispatch::{FirstAttemptReceiver, FirstAttemptSender, Fresh};
use solid_notify_core::error::{Error, Result};
use solid_notify_core::receipt::Receipt;
use sqlx::pool::PoolConnection;
use sqlx::{Connection, Transaction};

use crate::ack::apply_ack;
use crate::add::many::{Key, definition_ids, duplicates, insert_many};
use crate::definitions::is_unique_violation;
use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::required;
use crate::dialect::statement::{Arg, Statement};
use crate::shortcuts;
use crate::tx::{Context, NoticeTx, failed};

impl<DB: Dialect> Insert for NoticeTx<'_, DB> {
    async fn insert(&mut self, notice: NewNotice) -> Result<Receipt> {
        let inserted = if let Some(inserted) = shortcuts::insert_known(self, &notice).await? {
            inserted
        } else {
            let (conn, context) = self.parts(DOING)?;
            insert::<DB>(conn, &notice, Caller::Ours(context)).await?
        };
        Ok(self.remember(&notice, inserted))
    }

    async fn insert_many(&mut self, notices: Vec<NewNotice>) -> Result<Vec<Receipt>> {
        let (conn, context) = self.parts(DOING)?;
        let inserted = insert_many::<DB>(conn, &notices, Caller::Ours(context)).await?;
        Ok(notices.iter().zip(inserted).map(|(notice, inserted)| self.remember(notice, inserted)).collect())
    }

    async fn apply_ack(&mut self, reply: &Reply) -> Result<AckResult> {
        let (conn, context) = self.parts(ACKING)?;
        let result = ack_through::<DB>(conn, reply, Caller::Ours(context)).await?;
        // The commit makes the retry due, or the next notice of the ordering key.
        self.wake_after_commit();
        Ok(result)
    }
}

impl<DB: Dialect> NoticeTx<'_, DB> {
    /// Records a notice that was inserted, for the dispatch after the commit.
    fn remember(&mut self, notice: &NewNotice, inserted: Inserted) -> Receipt {
        let (id, def_id) = match inserted {
            Inserted::New { id, def_id } => (id, def_id),
            Inserted::Duplicate(id) => return Receipt::duplicate(id),
        };
        let (report, outcome) = FirstAttemptSender::new();
        let fresh = Fresh { id, def_id, report };
        match notice.is_due_at_once() {
            true => self.added(notice.name(), fresh),
            false => self.added_for_later(notice.name(), fresh, notice.is_due_soon()),
        }
        Receipt::added(id, outcome)
    }
}

/// Marks the transactions and connections of sqlx itself: see [`NoticeConnection`](solid_notify_core::NoticeConnection).
#[derive(Debug)]
pub enum BySqlx {}

macro_rules! connection {
    ([$($generics:tt)*] $db:ty, $connection:ty, $caller:ident) => {
        impl<$($generics)*> Insert<BySqlx> for $connection {
            async fn insert(&mut self, notice: NewNotice) -> Result<Receipt> {
                Ok(insert::<$db>(self, &notice, Caller::$caller).await?.not_followed())
            }

            async fn insert_many(&mut self, notices: Vec<NewNotice>) -> Result<Vec<Receipt>> {
                let inserted = insert_many::<$db>(self, &notices, Caller::$caller).await?;
                Ok(inserted.into_iter().map(Inserted::not_followed).collect())
            }

            async fn apply_ack(&mut self, reply: &Reply) -> Result<AckResult> {
                ack_through::<$db>(self, reply, Caller::$caller).await
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

pub(crate) const DOING: &str = "adding a notice";
const ACKING: &str = "storing the ack or nack of a notice";

/// The kind of connection that the application passes.
#[derive(Clone, Copy)]
pub(crate) enum Caller<'a> {
    /// A transaction of `outbox.begin()`.
    Ours(&'a Context),
    /// A transaction of sqlx. The application expects it to be open.
    Transaction,
    /// A connection that may have no open transaction.
    Connection,
}

impl Caller<'_> {
    /// `$1` of every statement.
    pub(crate) fn now_millis(&self) -> Option<i64> {
        match self {
            Self::Ours(context) => context.clock.as_ref().map(HandClock::now_millis),
            Self::Transaction | Self::Connection => None,
        }
    }

    /// Returns an error where the transaction is gone. sqlx 0.9 rolls the outer transaction back without an error when a
    /// savepoint fails.
    pub(crate) fn check<DB: Dialect>(&self, conn: &DB::Connection) -> Result<()> {
        if matches!(self, Self::Connection) || conn.is_in_transaction() {
            return Ok(());
        }
        Err(Error::TransactionLost { doing: DOING })
    }
}

/// The result of one insert.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Inserted {
    New { id: i64, def_id: i64 },
    Duplicate(i64),
}

impl Inserted {
    /// Returns the id of the notice that has the dedupe key now, or that was inserted.
    pub(crate) fn id(self) -> i64 {
        match self {
            Self::New { id, .. } | Self::Duplicate(id) => id,
        }
    }

    /// The result for a caller whose notices are not dispatched to this process.
    fn not_followed(self) -> Receipt {
        match self {
            Self::New { id, .. } => Receipt::added(id, FirstAttemptReceiver::not_here()),
            Self::Duplicate(id) => Receipt::duplicate(id),
        }
    }
}

/// Stores an ack or nack in the caller's transaction. It takes several statements, so the transaction must be open.
async fn ack_through<DB: Dialect>(conn: &mut DB::Connection, reply: &Reply, caller: Caller<'_>) -> Result<AckResult> {
    if !conn.is_in_transaction() {
        return Err(Error::TransactionLost { doing: ACKING });
    }
    let now = Arg::Int(caller.now_millis());
    apply_ack::<DB>(conn, now, reply).await.map_err(|error| failed::<DB>(ACKING, error))
}

/// Inserts one notice.
pub(crate) async fn insert<DB: Dialect>(
    conn: &mut DB::Connection,
    notice: &NewNotice,
    caller: Caller<'_>,
) -> Result<Inserted> {
    notice.check()?;
    caller.check::<DB>(conn)?;
    let statements = &DB::statements().add;
    let failed = |error| failed::<DB>(DOING, error);
    let now = Arg::Int(caller.now_millis());
    if DB::KIND.insert_reads_freely() {
        let definition = (notice.name().into(), "");
        let (statement, args) = if let Some(plain) = shortcuts::insert_plain::<DB>(now, definition, notice) {
            plain
        } else {
            let keyed = notice.dedupe_key_text().is_some();
            let statement = if keyed { &statements.insert_keyed } else { &statements.insert };
            (statement, values(now, definition, notice))
        };
        for _ in 0..ROUNDS {
            let rows = DB::fetch(conn, statement, &args).await.map_err(failed)?;
            if let Some(row) = rows.first() {
                let (id, def_id) = (required::<DB>(row, 0).map_err(failed)?, required::<DB>(row, 1).map_err(failed)?);
                return Ok(Inserted::New { id, def_id });
            }
            // No row was inserted: the notice is a duplicate, or the definition does not exist.
            let keyed = notice.dedupe_key_text().is_some();
            let def_ids =
                if keyed { definition_ids::<DB>(conn, &[notice.name()], caller).await?.0 } else { HashMap::new() };
            let Some(def_id) = def_ids.get(notice.name()) else {
                return Err(unknown_definition::<DB>(conn, notice.name(), now).await);
            };
            let hold = !notice.is_unique_until_ended();
            if let Some(id) = duplicate_of::<DB>(conn, *def_id, notice, now, hold).await.map_err(failed)? {
                return Ok(Inserted::Duplicate(id));
            }
        }
        Err(failed(lost_again()))
    } else {
        debug_assert_eq!(DB::KIND, Kind::MySql);
        match definition_id::<DB>(conn, now, notice, caller).await? {
            Some((def_id, tables)) => insert_of::<DB>(conn, (def_id, &tables), notice, now).await.map_err(failed),
            None => Err(unknown_definition::<DB>(conn, notice.name(), now).await),
        }
    }
}

/// Inserts a notice whose definition is known.
///
/// Searches for a duplicate first. An insert that fails for a duplicate keeps a lock on it until the caller's transaction ends,
/// so its outcome could not be settled. The unique index catches only a duplicate that this transaction does not see.
pub(crate) async fn insert_of<DB: Dialect>(
    conn: &mut DB::Connection,
    (def_id, tables): (i64, &str),
    notice: &NewNotice,
    now: Arg<'_>,
) -> sqlx::Result<Inserted> {
    if notice.dedupe_key_text().is_some()
        && let Some(id) = duplicate_of::<DB>(conn, def_id, notice, now, false).await?
    {
        // The lock is taken only where a row was seen, because a locking read that finds no row would lock the gap.
        let id = match notice.is_unique_until_ended() {
            true => Some(id),
            false => duplicate_of::<DB>(conn, def_id, notice, now, true).await?,
        };
        if let Some(id) = id {
            return Ok(Inserted::Duplicate(id));
        }
    }
    let definition = (def_id.into(), tables);
    let (statement, args) = if let Some(plain) = shortcuts::insert_plain::<DB>(now, definition, notice) {
        plain
    } else {
        (&DB::statements().add.insert, values(now, definition, notice))
    };
    for _ in 0..ROUNDS {
        match DB::execute(conn, statement, &args).await {
            Ok(done) => return Ok(Inserted::New { id: done.last_id, def_id }),
            Err(error) if notice.dedupe_key_text().is_some() && is_unique_violation(&error) => {}
            Err(error) if DB::is_not_open(&error) => return Err(other_tables(tables)),
            Err(error) => return Err(error),
        }
        // Only a locking read sees a notice that is newer than the snapshot. The insert that failed has locked it already.
        if let Some(id) = duplicate_of::<DB>(conn, def_id, notice, now, true).await? {
            return Ok(Inserted::Duplicate(id));
        }
    }
    Err(lost_again())
}

/// Maximum number of inserts of one notice with a dedupe key. A round is lost when the duplicate loses its key (it is claimed, or
/// ends) before it is read.
pub(crate) const ROUNDS: usize = 10;

/// Error on MySQL after a `USE` between two statements of one insert, or while statements were already prepared.
fn other_tables(tables: &str) -> sqlx::Error {
    let why = format!(
        "the id of the definition was read in the database {tables:?}, and the insert is prepared for another one: after `USE` close the \
         connection, and use one pool for each database"
    );
    sqlx::Error::Configuration(why.into())
}

pub(crate) fn lost_again() -> sqlx::Error {
    let why =
        format!("gave up after {ROUNDS} inserts: each met another notice with the same dedupe key that then lost it");
    sqlx::Error::Configuration(why.into())
}

/// The arguments of an insert. `definition` is its name, or its id and the tables in which the id was read.
fn values<'a>(now: Arg<'a>, (definition, tables): (Arg<'a>, &'a str), notice: &'a NewNotice) -> Vec<Arg<'a>> {
    let (at, delay) = notice.send_millis();
    vec![
        now,
        definition,
        notice.param_json().into(),
        Arg::Text(notice.description_text()),
        Arg::Text(notice.trace_context_text()),
        Arg::Text(notice.ordering_key_text()),
        Arg::Text(notice.dedupe_key_text()),
        Arg::Int(notice.is_unique_until_ended().then_some(1)),
        Arg::Int(at),
        delay.into(),
        tables.into(),
    ]
}

/// Returns the id of the notice that has the dedupe key, if this transaction sees one. `hold` locks it: where the key lasts until
/// the claim, no sweeper may claim the notice before this transaction ends, because the handler would not see this transaction's
/// changes.
async fn duplicate_of<DB: Dialect>(
    conn: &mut DB::Connection,
    def_id: i64,
    notice: &NewNotice,
    now: Arg<'_>,
    hold: bool,
) -> sqlx::Result<Option<i64>> {
    let key = notice.dedupe_key_text().map(|own_key| Key { owner: def_id, own_key });
    Ok(duplicates::<DB>(conn, key.into_iter(), now, hold).await?.into_values().next())
}

/// The error for a definition that does not exist. It names the most similar definition.
pub(crate) async fn unknown_definition<DB: Dialect>(conn: &mut DB::Connection, name: &str, now: Arg<'_>) -> Error {
    let rows = match DB::fetch(conn, &DB::statements().add.definition_names, &[now]).await {
        Ok(rows) => rows,
        Err(error) => return failed::<DB>(DOING, error),
    };
    let known = rows.iter().filter_map(|row| DB::text(row, 0).ok().flatten()).collect::<Vec<_>>();
    let nearest = nearest_name(name, known.iter().map(String::as_str));
    Error::UnknownDefinition { name: name.to_owned(), nearest }
}

/// Reads the id of the notice's definition in a statement of its own, and the tables in which it was read.
async fn definition_id<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    notice: &NewNotice,
    caller: Caller<'_>,
) -> Result<Option<(i64, String)>> {
    let statements = &DB::statements().add;
    let found = look::<DB>(conn, &statements.definition_id, now, notice, caller).await?;
    match (found, caller) {
        (Some(found), _) => Ok(Some(found)),
        // The caller's snapshot may be older than the definition.
        (None, Caller::Ours(context)) => {
            let id = definitions_beside(context).await?.remove(notice.name());
            Ok(id.map(|id| (id, context.known.tables().to_string())))
        }
        // Only a locking read on this connection sees what was committed since the snapshot.
        (None, _) => look::<DB>(conn, &statements.definition_id_now, now, notice, caller).await,
    }
}

async fn look<DB: Dialect>(
    conn: &mut DB::Connection,
    look: &Statement,
    now: Arg<'_>,
    notice: &NewNotice,
    caller: Caller<'_>,
) -> Result<Option<(i64, String)>> {
    let failed = |error| failed::<DB>(DOING, error);
    let rows = DB::fetch(conn, look, &[now, notice.name().into()]).await.map_err(failed)?;
    let Some(row) = rows.first() else { return Ok(None) };
    if !matches!(caller, Caller::Connection) && DB::int(row, 1).map_err(failed)? == Some(0) {
        return Err(Error::TransactionLost { doing: DOING });
    }
    let id = required::<DB>(row, 0).map_err(failed)?;
    Ok(Some((id, DB::text(row, 2).map_err(failed)?.unwrap_or_default())))
}

/// Reads the ids of all definitions on a connection of the store. A locking read on the caller's connection would make operators
/// wait for the end of its transaction, even for a name that does not exist.
pub(crate) async fn definitions_beside(context: &Context) -> Result<HashMap<String, i64>> {
    let definitions = context.outbox.engine().stores().definitions.definitions().await?;
    let alive = definitions.into_iter().filter(|def| def.delete_time.is_none());
    Ok(alive.map(|def| (def.name, def.id)).collect())
}
