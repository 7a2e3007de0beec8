//! [`Inbox`]: the idempotency keys that a receiver has seen, so that a repeated delivery changes nothing. The stores write the marks,
//! and the built-in definition `notify.purge` deletes old ones.

use crate::add::KEY_LIMIT;
use crate::connection::NoticeConnection;
use crate::error::{Error, Result};

/// The idempotency keys that a receiver has seen.
///
/// The receiver asks [`Self::first_time`] inside the transaction of its own work. The mark and the work commit together, so a
/// delivery that is repeated, for instance after a lost response, changes nothing. The name of the receiver lets several receivers share
/// a database. Each sender has keys of its own, so none can mark those of another. The tables are those of `outbox.migrate()`.
///
/// ```
/// # use solid_notify_core::{Inbox, NoticeConnection, Result};
/// # async fn receive(tx: &mut impl NoticeConnection, key: &str) -> Result<()> {
/// if Inbox::new("warehouse", "shop").first_time(tx, key).await? {
///     // The work of this delivery, in the same transaction.
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inbox {
    receiver: String,
    sender: String,
}

impl Inbox {
    /// Creates the inbox of a receiver for the deliveries of a sender. `sender` is the name for which you have authenticated the delivery, for
    /// instance by the secret that its signature fits, and nothing that the delivery says of itself. Each name has one to 200 characters.
    pub fn new(receiver: impl Into<String>, sender: impl Into<String>) -> Self {
        Self { receiver: receiver.into(), sender: sender.into() }
    }

    /// Marks `key` as seen and returns true, or returns false where it was seen before. The mark belongs to the caller's transaction: after a
    /// rollback the key is free again. One to 200 characters, compared byte by byte.
    ///
    /// While another transaction that marked the same key is uncommitted, the call waits for its end. Then it returns false, or true after
    /// a rollback. Above READ COMMITTED the database may fail it with a serialization error: roll back and retry the transaction.
    ///
    /// On Redis a batch only looks here and writes the mark after its notices, so of two deliveries at the same moment both can get
    /// true. `RedisOutbox` itself marks at once, before the work. In memory nothing waits either.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a receiver, sender or key that not every store can keep, and for a connection without a transaction.
    /// [`Error::TransactionLost`] and errors of the database.
    pub async fn first_time<B, C: NoticeConnection<B>>(&self, connection: &mut C, key: &str) -> Result<bool> {
        check("receiver of an inbox", &self.receiver)?;
        check("sender of a delivery", &self.sender)?;
        check("idempotency key", key)?;
        connection.mark_seen(&self.receiver, &self.sender, key).await
    }
}

fn check(what: &'static str, text: &str) -> Result<()> {
    let length = text.chars().count();
    if (1..=KEY_LIMIT).contains(&length) && !text.contains('\0') {
        return Ok(());
    }
    let problem = format!(
        "it has {length} characters; it may have 1 to {KEY_LIMIT}, and no NUL character (use a hash of a longer one)"
    );
    Err(Error::Invalid { what, problem })
}
