//! [`Store`]: the steps that every database and Redis have in common.

use anyhow::Result;
use solid_notify::NotifyDef;

use crate::library::{AnyOutbox, NewNotice};
use crate::parameter::Parameter;

/// The definition of all notices.
pub const DEFINITION: &str = "bench";
/// How many notices one call adds when a queue is filled.
const FILL: usize = 5_000;

/// A database or a Redis with an outbox.
pub trait Store: Clone + Send + Sync + 'static {
    /// Returns the outbox, for a sweeper.
    fn outbox(&self) -> &AnyOutbox;

    /// Creates the tables and the definition.
    fn prepare(&self) -> impl Future<Output = Result<()>> + Send;

    /// Deletes all notices and all business rows.
    fn empty(&self) -> impl Future<Output = Result<()>> + Send;

    /// Adds notices of these orders in one transaction.
    fn add_many(&self, notices: Vec<NewNotice>) -> impl Future<Output = Result<()>> + Send;

    /// Brings the database into the same state before each work: statistics are read, and the log is checkpointed.
    fn settle_down(&self) -> impl Future<Output = Result<()>> + Send;

    /// Does one transaction: a business statement, where the store has any, and a notice. Returns the notice's id once it is committed.
    fn enqueue(&self, order: i64) -> impl Future<Output = Result<i64>> + Send;

    /// Queues notices.
    ///
    /// # Errors
    /// Errors of the library.
    fn fill(&self, count: usize) -> impl Future<Output = Result<()>> + Send {
        async move {
            let orders = 1..=i64::try_from(count)?;
            let notices = orders.map(|order| NewNotice::new(DEFINITION, Parameter::new(order)));
            let mut notices = notices.collect::<Result<Vec<_>, _>>()?;
            while !notices.is_empty() {
                let rest = notices.split_off(notices.len().min(FILL));
                self.add_many(notices).await?;
                notices = rest;
            }
            Ok(())
        }
    }
}

/// Returns the definition. A handler that returns at once needs the room of the node's whole limit, else it would wait for the settling of
/// each handful. A failure is retried after an hour, so that no retry is part of a work.
pub fn definition() -> NotifyDef {
    NotifyDef::new(DEFINITION).max_concurrency(2000).retry_interval("[1h]")
}
