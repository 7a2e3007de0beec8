//! Our side on Redis: `RedisOutbox` through its public API, with its defaults.

use anyhow::{Context, Result, ensure};
use redis::aio::ConnectionManager;
use solid_notify::redis::{Redis, RedisOutbox};
use solid_notify::{NewNotice, NotifyDef, add_notice, add_notices};

use crate::databases::DEFINITION;
use crate::notice::Parameter;

/// An outbox with its definition.
#[derive(Clone)]
pub struct Ours {
    /// The outbox that adds and sends.
    pub outbox: RedisOutbox,
    /// An outbox of another process, as far as the dispatch knows: what it adds is not handed over.
    filling: RedisOutbox,
    link: ConnectionManager,
    prefix: String,
}

impl Ours {
    /// Connects, and creates the definition under this prefix.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn connect(url: &str, prefix: &str) -> Result<Self> {
        let redis = Redis::builder(url).prefix(prefix).connect().await?;
        let outbox = RedisOutbox::new(redis.clone());
        // As on the databases.
        outbox.define_if_missing(NotifyDef::new(DEFINITION).max_concurrency(2000)).await?;
        let link = super::connect(url).await?;
        Ok(Self { outbox, filling: RedisOutbox::new(redis), link, prefix: prefix.to_owned() })
    }

    /// Adds a notice; returns its id.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn add(&mut self, order: i64) -> Result<i64> {
        Ok(add_notice(&mut self.outbox, DEFINITION, Parameter::new(order)).await?.id())
    }

    /// Queues `count` notices.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn fill(&self, count: usize) -> Result<()> {
        let (mut filling, count) = (self.filling.clone(), i64::try_from(count)?);
        for first in (1..=count).step_by(10_000) {
            let orders = first..=count.min(first + 9_999);
            let notices = orders.map(|order| NewNotice::new(DEFINITION, Parameter::new(order)));
            add_notices(&mut filling, notices.collect::<Result<Vec<_>, _>>()?).await?;
        }
        Ok(())
    }

    /// After a repetition: so many are queued, and so many in history.
    ///
    /// # Errors
    /// Fails where the numbers differ, with these.
    pub async fn check(&self, queued: usize, kept: usize) -> Result<()> {
        let definitions = self.outbox.definitions().await?;
        let own = definitions.iter().find(|definition| definition.row.name == DEFINITION);
        let id = own.context("the definition is missing")?.row.id;
        let mut found = [0_usize; 2];
        for (status, found) in ["not_sent", "succeeded"].into_iter().zip(&mut found) {
            let key = format!("{{{}#{id}}}:status:{status}", self.prefix);
            *found = redis::cmd("ZCARD").arg(key).query_async(&mut self.link.clone()).await?;
        }
        ensure!(found == [queued, kept], "{} of {queued} are queued, {} of {kept} in history", found[0], found[1]);
        Ok(())
    }
}
