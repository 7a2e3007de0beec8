//! pgmq 0.33 on PostgreSQL, installed by its SQL, which the crate embeds (the README of the crate: "Install using the scripts embedded in the crate").
//!
//! It is a queue without workers: one loop here reads with a long poll (the documented `read_with_poll`, with its defaults), calls the handler, and archives the batch, as
//! its README says for what shall be kept. Batches have 500 messages, as in ours and in raw SQL; they are invisible for 30 s meanwhile.

use std::time::Duration;

use anyhow::{Context, Result};
use pgmq::{Message, PGMQueueExt};
use sqlx08::PgPool;

use crate::connect::sqlx08 as connect;
use crate::handler::{Parameter, handle};
use crate::workload::{Counts, Peer};

const QUEUE: &str = "bench";
const BATCH: i32 = 500;
const INVISIBLE: i32 = 30;
const CHUNK: i64 = 1000;

/// The peer on PostgreSQL.
#[derive(Clone)]
pub struct OnPostgres {
    pool: PgPool,
    queue: PGMQueueExt,
}

/// Opens the peer, installs its SQL, and creates the queue.
///
/// # Errors
/// Errors of the database.
pub async fn postgres(url: &str) -> Result<OnPostgres> {
    let pool = connect::postgres(url).await?;
    let queue = PGMQueueExt::new_with_pool(pool.clone()).await;
    queue.install_sql_from_embedded().await?;
    queue.create(QUEUE).await?;
    Ok(OnPostgres { pool, queue })
}

impl OnPostgres {
    async fn work(self) -> Result<()> {
        loop {
            let read = self.queue.read_batch_with_poll::<Parameter>(QUEUE, INVISIBLE, BATCH, None, None).await?;
            let messages: Vec<Message<Parameter>> = read.unwrap_or_default();
            messages.iter().for_each(|message| handle(&message.message));
            let ids: Vec<i64> = messages.iter().map(|message| message.msg_id).collect();
            if !ids.is_empty() {
                self.queue.archive_batch(QUEUE, &ids).await?;
            }
        }
    }
}

impl Peer for OnPostgres {
    async fn enqueue(&self, order: i64) -> Result<()> {
        let mut tx = self.pool.begin().await?;
        connect::book_postgres(&mut tx, order).await?;
        self.queue.send_with_cxn(QUEUE, &Parameter::new(order), &mut *tx).await?;
        tx.commit().await?;
        Ok(())
    }

    async fn fill(&self, count: usize) -> Result<()> {
        let count = i64::try_from(count)?;
        for first in (0..count).step_by(usize::try_from(CHUNK)?) {
            let parameters: Vec<_> = (first..count.min(first + CHUNK)).map(Parameter::new).collect();
            self.queue.send_batch(QUEUE, &parameters).await?;
        }
        sqlx08::query("VACUUM ANALYZE pgmq.q_bench").execute(&self.pool).await?;
        Ok(())
    }

    async fn start(&self) -> Result<()> {
        let worker = self.clone();
        tokio::spawn(async move {
            if let Err(error) = worker.work().await.context("the worker of pgmq") {
                eprintln!("{error:#}");
            }
        });
        Ok(())
    }

    async fn counts(&self) -> Result<Counts> {
        let sql = "SELECT (SELECT count(*) FROM pgmq.q_bench), (SELECT count(*) FROM pgmq.a_bench)";
        let (queued, kept) = sqlx08::query_as(sql).fetch_one(&self.pool).await?;
        Ok(Counts { queued, kept })
    }

    fn poll(&self) -> Duration {
        // The default of the crate.
        Duration::from_millis(250)
    }
}
