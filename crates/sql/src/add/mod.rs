//! Inserting a notice through each kind of sqlx connection. The plain path of all of them ends in [`insert`] or, for many notices at
//! once, in [`insert_many`].

mod find;
pub(crate) mod known_ids;
pub(crate) mod lists;
mod many;
mod new_row;
mod one;
mod skipped;
pub(crate) mod statements;

use solid_notify_core::ack::{AckResult, Reply};
use solid_notify_core::add::NewNotice;
use solid_notify_core::connection::Insert;
use solid_notify_core::dispatch::{FirstAttemptSender, Fresh, Receipt};
use solid_notify_core::error::{Error, Result};
use sqlx::pool::PoolConnection;
use sqlx::{Connection, Transaction};

use crate::ack::apply_ack;
use crate::add::many::{insert_many, insert_one};
use crate::add::one::insert;
use crate::caller::{Caller, DOING, Inserted};
use crate::dialect::Dialect;
use crate::dialect::fault::failed;
use crate::dialect::statement::Arg;
use crate::inbox::{MARKING, mark_seen};
use crate::shortcuts::insert_known::insert_known;
use crate::tx::NoticeTx;

impl<DB: Dialect> Insert for NoticeTx<'_, DB> {
    async fn insert(&mut self, notice: NewNotice) -> Result<Receipt> {
        let seen_open = self.seen_open;
        let (conn, context) = self.parts(DOING)?;
        let inserted = match insert_known::<DB>(conn, context, seen_open, &notice).await? {
            Some(inserted) => {
                self.seen_open();
                inserted
            }
            None => insert_one::<DB>(conn, &notice, Caller::Ours(context)).await?,
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

    async fn mark_seen(&mut self, receiver: &str, sender: &str, key: &str) -> Result<bool> {
        let (conn, context) = self.parts(MARKING)?;
        mark_seen::<DB>(conn, Caller::Ours(context), [receiver, sender, key]).await
    }
}

impl<DB: Dialect> NoticeTx<'_, DB> {
    /// Records a notice that was inserted, for the dispatch after the commit.
    fn remember(&mut self, notice: &NewNotice, inserted: Inserted) -> Receipt {
        let (id, def_id) = match inserted {
            Inserted::New { id, def_id } => (id, def_id),
            Inserted::Duplicate(id) => return Receipt::duplicate(id),
        };
        if notice.skip_reason().is_some() {
            return inserted.not_followed();
        }
        let (report, first_attempt) = FirstAttemptSender::new();
        let fresh = Fresh { id, def_id, report };
        match notice.is_due_at_once() {
            true => self.added(notice.name(), fresh),
            false => self.added_for_later(notice.name(), fresh, notice.is_due_soon()),
        }
        Receipt::added(id, first_attempt)
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

            async fn mark_seen(&mut self, receiver: &str, sender: &str, key: &str) -> Result<bool> {
                mark_seen::<$db>(self, Caller::$caller, [receiver, sender, key]).await
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

const ACKING: &str = "storing the ack or nack of a notice";

/// Stores an ack or nack in the caller's transaction. It takes several statements, so the transaction must be open.
async fn ack_through<DB: Dialect>(conn: &mut DB::Connection, reply: &Reply, caller: Caller<'_>) -> Result<AckResult> {
    if !conn.is_in_transaction() {
        return Err(Error::TransactionLost { doing: ACKING });
    }
    let now = Arg::Int(caller.now_millis());
    apply_ack::<DB>(conn, now, reply).await.map_err(|error| failed::<DB>(ACKING, error))
}
