//! The process whose work `bench count` counts and whose rates `bench compare` compares. It uses the public API of the library alone.
//!
//! It connects, prints `ready`, waits for a line, works on the given number of notices, prints `done` with its seconds, and ends
//! after one more line. The bench queues the notices and reads the counters of the server at `ready`, and reads them again after `done`.
//!
//! `library.rs` has everything that differs between revisions of the library. The bench starts the servers and judges the figures.

mod counted;
mod database;
mod library;
mod parameter;
mod redis;
mod steps;
mod store;
mod workloads;

pub use parameter::Parameter;

use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};

use crate::database::Relational;
use crate::redis::RedisStore;
use crate::steps::{say, wait_for_line};
use crate::store::Store;

/// What to do with which database.
#[derive(Args)]
pub struct Arguments {
    /// The product behind the URL.
    #[arg(long)]
    db: Product,
    /// The URL of a database of its own; the file, for SQLite.
    #[arg(long)]
    url: String,
    #[command(subcommand)]
    command: Command,
}

/// A database product, as the bench names it.
#[derive(Clone, Copy, ValueEnum)]
enum Product {
    Postgres,
    Mariadb,
    Mysql,
    Sqlite,
    Redis,
}

#[derive(Subcommand)]
enum Command {
    /// Creates the tables and the definitions.
    Prepare,
    /// Empties the tables.
    Empty,
    /// Queues notices.
    Fill {
        #[arg(long)]
        count: usize,
    },
    /// Does one work in one thread, to be counted.
    Count {
        #[arg(long)]
        work: counted::Work,
        #[arg(long)]
        count: usize,
    },
    /// Does one workload in many threads, to be timed.
    Run {
        #[arg(long)]
        workload: workloads::Workload,
        #[arg(long)]
        count: usize,
    },
}

impl Command {
    /// Returns the size of the application's pool: one connection where work is counted.
    fn pool(&self) -> u32 {
        if matches!(self, Self::Run { .. }) { 10 } else { 1 }
    }

    fn runtime(&self) -> Result<tokio::runtime::Runtime> {
        let mut builder = match self {
            Self::Run { .. } => tokio::runtime::Builder::new_multi_thread(),
            _ => tokio::runtime::Builder::new_current_thread(),
        };
        builder.enable_all().build().context("cannot start the runtime")
    }
}

/// Does what the arguments say.
///
/// # Errors
/// Errors of the library and of the database, and notices that were not sent.
pub fn run(arguments: Arguments) -> Result<()> {
    let Arguments { db, url, command } = arguments;
    let (runtime, pool) = (command.runtime()?, command.pool());
    runtime.block_on(async {
        match db {
            Product::Postgres => obey(&Relational::<sqlx::Postgres>::connect(&url, pool).await?, command).await,
            Product::Mariadb | Product::Mysql => {
                obey(&Relational::<sqlx::MySql>::connect(&url, pool).await?, command).await
            }
            Product::Sqlite => obey(&Relational::<sqlx::Sqlite>::connect(&url, pool).await?, command).await,
            Product::Redis => obey(&RedisStore::connect(&url).await?, command).await,
        }
    })
}

async fn obey<S: Store>(store: &S, command: Command) -> Result<()> {
    match command {
        Command::Prepare => store.prepare().await,
        Command::Empty => {
            store.empty().await?;
            store.settle_down().await
        }
        Command::Fill { count } => {
            store.fill(count).await?;
            store.settle_down().await
        }
        Command::Count { work, count } => counted::work(store, work, count).await,
        Command::Run { workload, count } => timed(async || workloads::run(store, workload, count).await).await,
    }
}

/// Waits for a line, works, prints the seconds, and waits for one more line.
async fn timed(work: impl AsyncFnOnce() -> Result<Duration>) -> Result<()> {
    say("ready")?;
    wait_for_line()?;
    say(&format!("done {}", work().await?.as_secs_f64()))?;
    wait_for_line()
}
