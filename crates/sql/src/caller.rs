//! Who adds: the kind of connection, the parts of the outbox that it needs, and the result of an insert.

use std::sync::Arc;

use solid_notify_core::AnyOutbox;
use solid_notify_core::add::NewNotice;
use solid_notify_core::cipher::ParamCipher;
use solid_notify_core::clock::HandClock;
use solid_notify_core::dispatch::{FirstAttemptReceiver, Receipt};
use solid_notify_core::error::{Error, Result};
use sqlx::Connection;

use crate::add::known_ids::{Found, KnownIds};
use crate::dialect::Dialect;

pub(crate) const DOING: &str = "adding a notice";

/// The parts of the outbox that a transaction needs.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) outbox: AnyOutbox,
    pub(crate) known: Arc<KnownIds>,
    pub(crate) clock: Option<HandClock>,
}

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
    /// The time of the hand-turned clock, `$1` of the statements.
    pub(crate) fn now_millis(&self) -> Option<i64> {
        match self {
            Self::Ours(context) => context.clock.as_ref().map(HandClock::now_millis),
            Self::Transaction | Self::Connection => None,
        }
    }

    /// The cipher of the outbox.
    pub(crate) fn cipher(&self) -> Option<Arc<dyn ParamCipher>> {
        match self {
            Self::Ours(context) => context.outbox.engine().param_cipher(),
            Self::Transaction | Self::Connection => None,
        }
    }

    /// Encrypts the parameter of a notice before its definition is looked up, if this process has cached that the definition demands it.
    pub(crate) fn encrypted_early(&self, notice: &NewNotice) -> Result<Option<NewNotice>> {
        let Self::Ours(context) = self else { return Ok(None) };
        let Some(cipher) = self.cipher() else { return Ok(None) };
        context.known.encrypting(notice.name()).map(|id| notice.encrypted(id, Some(cipher))).transpose()
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

impl Found {
    /// Returns the notice with its parameter encrypted, if this definition demands it and it is not encrypted for this one.
    pub(crate) fn encrypted(self, notice: &NewNotice, caller: Caller<'_>) -> Result<Option<NewNotice>> {
        let missing = self.encrypts && notice.encrypted_for() != Some(self.id);
        missing.then(|| notice.encrypted(self.id, caller.cipher())).transpose()
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
    pub(crate) fn not_followed(self) -> Receipt {
        match self {
            Self::New { id, .. } => Receipt::added(id, FirstAttemptReceiver::not_here()),
            Self::Duplicate(id) => Receipt::duplicate(id),
        }
    }
}
