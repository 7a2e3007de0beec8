//! apalis 1.0 on Redis.
//!
//! `readme`: as in the README of apalis-redis: a storage with its defaults (batches of 10, leases, results and events), and one worker without concurrency. A worker that
//! found the queue empty looks again at its next heartbeat, after up to 30 s. The `RedisStorageFactory` of that README, which messages of Redis wake, waits as long: in
//! version 1.0.0 a push puts each task among the scheduled ones and publishes nothing. `interval`: a look each 50 ms by `poll_with_interval`, batches of 100, and 100 tasks
//! at the same time, each as a task of tokio, by `concurrency` and `parallelize` as in the README of apalis. What was sent stays in the set of finished tasks, with its data and its
//! result. Redis has no transaction with a business statement, so none is measured.

use std::time::Duration;

use ::apalis::prelude::*;
use anyhow::{Context, Result};
use apalis_redis::{Config, RedisStorage};
use redis::aio::ConnectionManager;

use crate::handler::{Parameter, handle};
use crate::workload::{Counts, Peer};

const BATCH: usize = 100;
const AT_ONCE: usize = 100;
const POLL: Duration = Duration::from_millis(50);

/// The peer on Redis.
#[derive(Clone)]
pub struct OnRedis {
    storage: RedisStorage<Parameter>,
    link: ConnectionManager,
    interval: bool,
}

/// Opens the peer; the names of its keys begin with `name`.
///
/// # Errors
/// Errors of the server.
pub async fn redis(url: &str, name: &str, interval: bool) -> Result<OnRedis> {
    let config = Config::default().queue(name);
    let config = if interval { config.batch_size(BATCH) } else { config };
    let storage = RedisStorage::new(apalis_redis::connect(url).await?).with_config(config);
    let link = ::redis::Client::open(url)?.get_connection_manager().await?;
    Ok(OnRedis { storage, link, interval })
}

async fn send(parameter: Parameter) -> Result<(), BoxDynError> {
    handle(&parameter);
    Ok(())
}

impl Peer for OnRedis {
    async fn enqueue(&self, order: i64) -> Result<()> {
        let mut storage = self.storage.clone();
        storage.push(Parameter::new(order)).await.map_err(|error| anyhow::anyhow!("{error}"))
    }

    async fn fill(&self, count: usize) -> Result<()> {
        for order in 0..i64::try_from(count)? {
            self.enqueue(order).await?;
        }
        Ok(())
    }

    async fn start(&self) -> Result<()> {
        let (storage, interval) = (self.storage.clone(), self.interval);
        // As in `main` of the README: the worker itself is not a task.
        let runtime = tokio::runtime::Handle::current();
        tokio::task::spawn_blocking(move || {
            let worker = WorkerBuilder::new("bench");
            let ended = if interval {
                let worker = worker.backend(storage.poll_with_interval(POLL));
                runtime.block_on(worker.concurrency(AT_ONCE).parallelize(tokio::spawn).build(send).run())
            } else {
                runtime.block_on(worker.backend(storage).build(send).run())
            };
            if let Err(error) = ended.context("the worker of apalis") {
                eprintln!("{error:#}");
            }
        });
        Ok(())
    }

    async fn counts(&self) -> Result<Counts> {
        let config = self.storage.get_config();
        let mut pipe = ::redis::pipe();
        pipe.cmd("HLEN").arg(config.job_data_hash()).cmd("SCARD").arg(config.done_jobs_set());
        let (all, kept): (i64, i64) = pipe.query_async(&mut self.link.clone()).await?;
        Ok(Counts { queued: all - kept, kept })
    }

    fn poll(&self) -> Duration {
        if self.interval { POLL } else { Duration::from_secs(30) }
    }
}
