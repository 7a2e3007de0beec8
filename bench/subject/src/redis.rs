//! Redis, which has no transaction to take part in: a work enqueues a notice alone.

use anyhow::Result;

use crate::library::{AnyOutbox, NewNotice, Redis, RedisOutbox, define, enqueue_on_redis, fill_redis};
use crate::parameter::Parameter;
use crate::store::{DEFINITION, Store, definition};

/// An outbox on Redis.
#[derive(Clone)]
pub struct RedisStore {
    outbox: RedisOutbox,
}

impl RedisStore {
    /// Connects.
    ///
    /// # Errors
    /// Errors of the library.
    pub async fn connect(url: &str) -> Result<Self> {
        Ok(Self { outbox: RedisOutbox::new(Redis::connect(url).await?) })
    }
}

impl Store for RedisStore {
    fn outbox(&self) -> &AnyOutbox {
        &self.outbox
    }

    async fn prepare(&self) -> Result<()> {
        define(&self.outbox, definition()).await
    }

    /// The bench empties the server, because the library has no call for that. The definition is stored again.
    async fn empty(&self) -> Result<()> {
        self.prepare().await
    }

    async fn add_many(&self, notices: Vec<NewNotice>) -> Result<()> {
        fill_redis(&self.outbox, notices).await
    }

    async fn settle_down(&self) -> Result<()> {
        Ok(())
    }

    async fn enqueue(&self, order: i64) -> Result<i64> {
        enqueue_on_redis(&self.outbox, DEFINITION, Parameter::new(order)).await
    }
}
