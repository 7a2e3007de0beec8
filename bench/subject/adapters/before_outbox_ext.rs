//! The library's names before `OutboxExt` existed (22 November 2026): `Notify` is an outbox, and `Outbox` is today's `AnyOutbox`.
//!
//! `bench compare` puts this file in the place of `src/library.rs`. The workspace does not compile it.

use anyhow::Result;
use solid_notify::{Done, Failure, HandlerResult, NotifyDef, Sweeper};

pub use solid_notify::redis::{Redis, RedisNotify as RedisOutbox};
pub use solid_notify::{
    Dialect, NewNotice, Notice, Notify as Outbox, Outbox as AnyOutbox, SweeperBuilder, add_notice, add_notices,
};

use crate::parameter::Parameter;

/// Stores a definition unless it exists.
///
/// # Errors
/// Errors of the library.
pub async fn define(outbox: &AnyOutbox, definition: NotifyDef) -> Result<()> {
    outbox.define(definition).await?;
    Ok(())
}

/// Returns the builder of a sweeper.
pub fn sweeper(outbox: &AnyOutbox) -> SweeperBuilder {
    Sweeper::builder(outbox)
}

/// Returns what a handler returns after a delivery.
pub fn delivered() -> HandlerResult {
    Ok(Done::Ok)
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
    let mut batch = outbox.begin();
    let id = add_notice(&mut batch, definition, parameter).await?.id();
    batch.commit().await?;
    Ok(id)
}

/// Adds many notices to an outbox on Redis and commits them.
///
/// # Errors
/// Errors of the library.
pub async fn fill_redis(outbox: &RedisOutbox, notices: Vec<NewNotice>) -> Result<()> {
    let mut batch = outbox.begin();
    add_notices(&mut batch, notices).await?;
    batch.commit().await?;
    Ok(())
}
