//! Our side and the raw one in the rounds of the peers.

use anyhow::{Result, bail};

use super::table::Row;
use crate::databases::{Arena, DEFINITION, Site};
use crate::raw::Measured;
use crate::redis_notices;
use crate::run::{Plan, Side};
use crate::workloads::{Latency, Workload, drain, enqueue_tx, latency, steady};

/// Both sides on one database.
pub trait Both {
    /// Does one repetition; returns how many messages it had, and the rate.
    async fn rate(&self, workload: Workload, side: Side, plan: Plan) -> Result<(usize, f64)>;
    /// Measures the latency of both.
    async fn latency(&self, plan: Plan) -> Result<Vec<Row>>;
}

/// Both sides on a database with SQL.
pub struct Sql<DB: Measured>(Arena<DB>);

impl<DB: Measured> Sql<DB> {
    /// Makes their tables.
    ///
    /// # Errors
    /// Errors of the database.
    pub async fn create(site: &Site) -> Result<Self> {
        Ok(Self(Arena::create(site, false).await?))
    }

    /// Drops their tables.
    ///
    /// # Errors
    /// Errors of the database.
    pub async fn drop(self) -> Result<()> {
        self.0.drop().await
    }
}

impl<DB: Measured> Both for Sql<DB> {
    async fn rate(&self, workload: Workload, side: Side, plan: Plan) -> Result<(usize, f64)> {
        let arena = &self.0;
        arena.reset().await?;
        match workload {
            Workload::EnqueueTx => {
                let count = plan.scaled(enqueue_tx::count::<DB>());
                Ok((count, enqueue_tx::once(arena, side, count).await?))
            }
            Workload::Drain => {
                let count = plan.scaled(drain::COUNT);
                drain::fill(arena, side, DEFINITION, count).await?;
                Ok((count, drain::once(arena, side, DEFINITION, count).await?))
            }
            Workload::Steady => {
                let count = plan.scaled(steady::count::<DB>());
                Ok((count, steady::once(arena, side, count).await?))
            }
            other => bail!("{other} has no rate of a peer"),
        }
    }

    async fn latency(&self, plan: Plan) -> Result<Vec<Row>> {
        Ok(rows(&latency::measure(&self.0, plan).await?))
    }
}

/// Both sides on Redis.
pub struct Redis {
    url: String,
}

impl Redis {
    /// On the server of `site`.
    pub fn new(site: &Site) -> Self {
        Self { url: site.url.clone() }
    }
}

impl Both for Redis {
    async fn rate(&self, workload: Workload, side: Side, plan: Plan) -> Result<(usize, f64)> {
        let count = plan.scaled(redis_notices::count(workload));
        Ok((count, redis_notices::once(&self.url, workload, side, count).await?))
    }

    async fn latency(&self, plan: Plan) -> Result<Vec<Row>> {
        Ok(rows(&redis_notices::latency(&self.url, plan).await?))
    }
}

fn rows(figures: &Latency) -> Vec<Row> {
    let row = |name, times| Row { count: figures.samples, times: Some(times), ..Row::new(name) };
    vec![row("ours", (figures.p50_ms, figures.p99_ms)), row("raw", (figures.raw_p50_ms, figures.raw_p99_ms))]
}
