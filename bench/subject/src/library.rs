//! The library's names at this revision. `bench compare` puts another file here (`adapters/`) where an old revision has other names.

use anyhow::Result;
use solid_notify::{Failure, HandlerResult, NotifyDef, OutboxExt};

pub use solid_notify::redis::{Redis, RedisOutbox};
pub use solid_notify::sql::Dialect;
pub use solid_notify::{AnyOutbox, NewNotice, Notice, Outbox, SweeperBuilder, add_notice, add_notices};

use crate::parameter::Parameter;

/// Stores a definition unless it exists.
///
/// # Errors
/// Errors of the library.
pub async fn define(outbox: &AnyOutbox, definition: NotifyDef) -> Result<()> {
    outbox.define_if_missing(definition).await?;
    Ok(())
}

/// Returns the builder of a sweeper.
pub fn sweeper(outbox: &AnyOutbox) -> SweeperBuilder {
    outbox.sweeper()
}

/// Returns what a handler returns after a delivery.
pub fn delivered() -> HandlerResult {
    Ok(())
}

/// Returns what a handler returns after a failure.
pub fn failed() -> HandlerResult {
    Err(Failure::retry("the receiver of the bench is out"))
}

/// Adds one notice to an outbox on Redis and commits it.
///
/// # Errors
/// Errors of the library.
pub async fn enqueue_on_redis(outbox: &RedisOutbox, definition: &str, parameter: Parameter) -> Result<i64> {
    let mut batch = outbox.begin().await?;
    let id = add_notice(&mut batch, definition, parameter).await?.id();
    batch.commit().await?;
    Ok(id)
}

/// Adds many notices to an outbox on Redis and commits them.
///
/// # Errors
/// Errors of the library.
pub async fn fill_redis(outbox: &RedisOutbox, notices: Vec<NewNotice>) -> Result<()> {
    let mut batch = outbox.begin().await?;
    add_notices(&mut batch, notices).await?;
    batch.commit().await?;
    Ok(())
}
