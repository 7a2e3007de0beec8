//! What happens inside the caller's transaction: [`add_notice`], [`add_notices`], [`ack_notice`], [`nack_notice`], and
//! [`NoticeConnection`], through which each kind of transaction takes them.

use serde::Serialize;

use crate::ack::{AckResult, Reply};
use crate::add::NewNotice;
use crate::dispatch::Receipt;
use crate::error::{FaultKind, Result, StoreError};
use crate::typed::DefinitionName;

/// Adds a notice of the definition `name` with the JSON parameter `param`, inside the caller's transaction: it
/// exists if and only if that transaction commits.
///
/// `connection` is a `NoticeTx` (from `outbox.begin()`: sent right after its commit), or a plain sqlx transaction
/// or connection (found by the next sweep; `outbox.wake()` after the commit removes the wait). `param` is anything
/// that serializes: a `serde_json::Value`, `null` included, a type of your own, or a `Box<RawValue>` whose bytes are
/// kept as they are. `name` is a text or a [`Definition`](crate::Definition), which fixes the type of the parameter.
///
/// # Errors
/// [`crate::Error::UnknownDefinition`] names the nearest known name. [`crate::Error::InvalidNotice`] for NUL, nesting beyond 24 levels or a
/// size beyond 1 MiB ([`NewNotice::param_limit`] changes that). Both leave the transaction unchanged. [`crate::Error::Store`] carries the error of
/// the database.
pub async fn add_notice<B, C: NoticeConnection<B>, P: Serialize>(
    connection: &mut C,
    name: impl DefinitionName<P>,
    param: P,
) -> Result<Receipt> {
    NewNotice::new(name, param)?.add(connection).await
}

/// Adds many notices in a few statements: all of them, or none if one cannot be added. Returns one [`Receipt`] per
/// notice, in their order.
///
/// They may be of several definitions. Notices of the same ordering key are sent in the order given here; a dedupe key
/// that comes twice is added once.
///
/// ```
/// # use solid_notify_core::{NewNotice, NoticeConnection, Result, add_notices};
/// # async fn add(tx: &mut impl NoticeConnection, orders: Vec<i64>) -> Result<()> {
/// let notices = orders.iter().map(|order| NewNotice::new("sync_to_omp", order)).collect::<Result<Vec<_>>>()?;
/// let receipts = add_notices(tx, notices).await?;
/// assert_eq!(receipts.len(), orders.len());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`add_notice`], for the first notice that has one. Then nothing is added, except where the database rejected one of
/// several statements ([`crate::Error::Store`]): roll back after that. On a connection without a transaction, [`crate::Error::InvalidNotice`]
/// for more than 2,000 notices (2 MiB), on MySQL and MariaDB for more than one, because they need several statements.
pub async fn add_notices<B, C: NoticeConnection<B>>(
    connection: &mut C,
    notices: impl IntoIterator<Item = NewNotice>,
) -> Result<Vec<Receipt>> {
    let current = crate::trace::current();
    let notices = notices.into_iter().map(|notice| notice.within(|| current.clone()));
    connection.insert_many(notices.collect()).await
}

/// Acks a notice inside the caller's transaction: it takes effect if and only if that commits. `outbox.ack(id)` uses its own
/// transaction.
///
/// Keep that transaction short: it locks the notice's row. While it is open, the lease of an attempt that still runs cannot be
/// extended. If it lasts longer than the lease and is then rolled back, another node may count a crash and send the notice
/// again.
///
/// # Errors
/// [`crate::Error::TransactionLost`] and errors of the database. A race is no error: see [`AckResult`].
pub async fn ack_notice<B, C: NoticeConnection<B>>(connection: &mut C, id: i64) -> Result<AckResult> {
    connection.apply_ack(&Reply::ack(id)).await
}

/// Nacks a delivery inside the caller's transaction: the attempt fails with this reason.
///
/// # Errors
/// As [`ack_notice`].
pub async fn nack_notice<B, C: NoticeConnection<B>>(
    connection: &mut C,
    id: i64,
    reason: impl Into<String>,
) -> Result<AckResult> {
    connection.apply_ack(&Reply::nack(id, reason)).await
}

impl NewNotice {
    /// Adds the notice through `connection`; see [`add_notice`].
    ///
    /// # Errors
    /// Those of [`add_notice`].
    pub async fn add<B, C: NoticeConnection<B>>(self, connection: &mut C) -> Result<Receipt> {
        connection.insert(self.within(crate::trace::current)).await
    }
}

impl Reply {
    /// Applies it through `connection`, in its transaction.
    ///
    /// # Errors
    /// As [`ack_notice`].
    pub async fn apply<B, C: NoticeConnection<B>>(&self, connection: &mut C) -> Result<AckResult> {
        Ok(self.known(connection.apply_ack(self).await?))
    }
}

/// A transaction or connection through which notices can be added and acked. On a bare connection each insert commits by
/// itself.
///
/// Implemented for the transactions of every outbox, for sqlx's `Transaction`, `PoolConnection` and the connections of the
/// three databases. It has no methods; use it as a bound, and [`add_notice`] or [`NewNotice::add`]. Only a type
/// that implements [`Insert`] implements it, and `Insert` is for authors of stores (module `spi` of `solid_notify`).
///
/// `B` tells who began the transaction: [`ByOutbox`], the default, for the transactions of `outbox.begin()` on every store; `BySqlx`
/// for those of sqlx. The functions infer it. A generic function that takes only the transactions of an outbox is bound by
/// `NoticeConnection`; one that takes both is generic over `B`, too.
pub trait NoticeConnection<B = ByOutbox>: Insert<B> {}

impl<B, C: Insert<B>> NoticeConnection<B> for C {}

/// Marks the transactions that an outbox has begun: see [`NoticeConnection`].
#[derive(Debug)]
pub enum ByOutbox {}

/// What a connection of a store does for [`NoticeConnection`].
///
/// The parameter lets a crate implement the trait for a type of another crate: Rust allows that if the parameter is its own type.
#[diagnostic::on_unimplemented(
    message = "notices cannot be added through `{Self}`",
    note = "pass a transaction of `outbox.begin()`, or a transaction or connection of sqlx",
    note = "a function that is to take both is generic: `async fn book<B>(tx: &mut impl NoticeConnection<B>)`"
)]
pub trait Insert<B = ByOutbox>: Send {
    /// Inserts the notice.
    fn insert(&mut self, notice: NewNotice) -> impl Future<Output = Result<Receipt>> + Send {
        async {
            let receipt = self.insert_many(vec![notice]).await?.pop();
            let missing = || StoreError::new("adding a notice", FaultKind::Permanent, "the store returned no receipt");
            Ok(receipt.ok_or_else(missing)?)
        }
    }

    /// Inserts all of them, or none if one cannot be inserted; returns one [`Receipt`] per notice, in their order.
    fn insert_many(&mut self, notices: Vec<NewNotice>) -> impl Future<Output = Result<Vec<Receipt>>> + Send;

    /// Applies an ack or nack of a notice.
    fn apply_ack(&mut self, reply: &Reply) -> impl Future<Output = Result<AckResult>> + Send;

    /// Marks the idempotency key of a sender as seen by a receiver; returns false if it was seen before. See [`crate::Inbox::first_time`].
    fn mark_seen(&mut self, receiver: &str, sender: &str, key: &str) -> impl Future<Output = Result<bool>> + Send;
}
