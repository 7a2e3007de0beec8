//! The workloads, a file each. `run` decides how often and in which order they run, `targets` which results are good enough.

mod add_many;
pub mod backlog;
mod dead_target;
pub mod drain;
pub mod enqueue_tx;
mod held_xmin;
pub mod latency;
pub mod producers;
pub mod steady;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use crate::databases::{Arena, DEFINITION, Product, WITHOUT_HISTORY};
use crate::raw::Measured;
use crate::run::{Compared, Plan, Rate};

pub use backlog::Backlog;
pub use latency::Latency;

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Workload {
    /// Transactions with a business statement and a notice.
    EnqueueTx,
    /// Sending what is queued.
    Drain,
    /// As `drain`, without keeping successes.
    DrainNoHistory,
    /// From the commit to the handler.
    Latency,
    /// Adding and sending at once.
    Steady,
    /// Sending a million in a process of its own.
    Backlog,
    /// Draining while an old snapshot is held.
    HeldXmin,
    /// Draining one definition while the target of another hangs.
    DeadTarget,
    /// Adding ten thousand by one call.
    AddMany,
}

/// The result of a measurement.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Figures {
    /// Rates against those of the other side.
    Compared(Compared),
    /// Times.
    Latency(Latency),
    /// Rates of ours alone.
    Rate(Rate),
    /// A rate and memory.
    Backlog(Backlog),
}

impl Workload {
    /// True if the workload exists for a database.
    pub fn runs_on(self, product: Product) -> bool {
        match product {
            Product::Postgres => true,
            Product::Redis => matches!(self, Self::EnqueueTx | Self::Drain | Self::Latency | Self::Steady),
            _ => self != Self::HeldXmin,
        }
    }

    /// Measures it.
    ///
    /// # Errors
    /// Errors of the library or the database, and a repetition that did not do all of its work.
    pub async fn measure<DB: Measured>(self, arena: &Arena<DB>, plan: Plan) -> Result<Figures> {
        Ok(match self {
            Self::EnqueueTx => Figures::Compared(enqueue_tx::measure(arena, plan).await?),
            Self::Drain => Figures::Compared(drain::measure(arena, plan, DEFINITION).await?),
            Self::DrainNoHistory => Figures::Compared(drain::measure(arena, plan, WITHOUT_HISTORY).await?),
            Self::Latency => Figures::Latency(latency::measure(arena, plan).await?),
            Self::Steady => Figures::Compared(steady::measure(arena, plan).await?),
            Self::Backlog => Figures::Backlog(backlog::measure(arena, plan).await?),
            Self::HeldXmin => Figures::Compared(held_xmin::measure(arena, plan).await?),
            Self::DeadTarget => Figures::Compared(dead_target::measure(arena, plan).await?),
            Self::AddMany => Figures::Rate(add_many::measure(arena, plan).await?),
        })
    }
}

impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.to_possible_value().as_ref().map_or("", |value| value.get_name()))
    }
}
