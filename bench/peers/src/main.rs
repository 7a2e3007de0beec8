//! Other outboxes and queues, measured with the workloads of `bench`: one peer, one workload, one repetition, one line of JSON.
//!
//! `bench` builds this program, makes an empty database for each run, and puts the figures beside its own: `cargo run --release -p bench -- peers`.
//! Each peer has a file, which says what its documentation recommends. Differences between databases are in `connect`.

mod apalis;
mod connect;
mod handler;
mod hexeract;
mod pgmq;
mod river;
mod ruststream;
mod workload;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use serde::Serialize;

use connect::Product;
use workload::{Figure, Workload, measure};

/// Measures one workload of one peer once, and prints a line of JSON.
#[derive(Parser)]
struct Arguments {
    /// The peer with its setting.
    #[arg(long)]
    peer: Side,
    /// The database product.
    #[arg(long)]
    db: Product,
    /// The URL of an empty database, for SQLite a file, for Redis the server.
    #[arg(long)]
    url: String,
    /// On Redis: what the names of all keys begin with.
    #[arg(long, default_value = "bench")]
    name: String,
    /// The workload.
    #[arg(long)]
    workload: Workload,
    /// Messages; for the latency: samples.
    #[arg(long)]
    count: usize,
}

/// A peer with its setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
enum Side {
    /// ruststream-sqlx as in its guide Production.
    RuststreamGuide,
    /// The same with batches, as in its example of batches.
    RuststreamBatch,
    /// The same with LISTEN and NOTIFY, as in its example of waking.
    RuststreamNotify,
    /// hexeract as in its README.
    HexeractReadme,
    /// hexeract with larger batches and more workers.
    HexeractTuned,
    /// River as in its README.
    RiverReadme,
    /// River as in its own benchmark.
    RiverBench,
    /// apalis as in the README of apalis-redis.
    ApalisReadme,
    /// apalis with a poll each 50 ms, and more at the same time.
    ApalisInterval,
    /// pgmq with long polls and batches.
    Pgmq,
}

#[derive(Serialize)]
struct Line {
    peer: Side,
    db: Product,
    workload: Workload,
    count: usize,
    #[serde(flatten)]
    figure: Figure,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")?;
    let figure = runtime
        .block_on(run(&arguments))
        .with_context(|| format!("{:?} of {:?} on {:?}", arguments.workload, arguments.peer, arguments.db));
    // The workers of a peer run until the process ends.
    runtime.shutdown_background();
    let Arguments { peer, db, workload, count, .. } = arguments;
    println!("{}", serde_json::to_string(&Line { peer, db, workload, count, figure: figure? })?);
    Ok(())
}

async fn run(arguments: &Arguments) -> Result<Figure> {
    let Arguments { db, url, workload, count, .. } = arguments;
    macro_rules! of {
        ($peer:expr) => {
            measure(&$peer.await?, *workload, *count).await
        };
    }
    match (arguments.peer, db) {
        (Side::RuststreamNotify, Product::Postgres) => of!(ruststream::postgres(url, ruststream::Setting::Notify)),
        (side @ (Side::RuststreamGuide | Side::RuststreamBatch), db) => {
            let setting = match side {
                Side::RuststreamBatch => ruststream::Setting::Batch,
                _ => ruststream::Setting::Guide,
            };
            match db {
                Product::Postgres => of!(ruststream::postgres(url, setting)),
                Product::Mariadb | Product::Mysql => of!(ruststream::mysql(url, setting)),
                Product::Sqlite | Product::SqliteNormal => of!(ruststream::sqlite(url, *db, setting)),
                Product::Redis => bail!("ruststream-sqlx has no Redis"),
            }
        }
        (side @ (Side::HexeractReadme | Side::HexeractTuned), db) => {
            let tuned = side == Side::HexeractTuned;
            match db {
                Product::Postgres => of!(hexeract::postgres(url, tuned)),
                Product::Mariadb | Product::Mysql => of!(hexeract::mysql(url, tuned)),
                Product::Sqlite | Product::SqliteNormal => of!(hexeract::sqlite(url, *db, tuned)),
                Product::Redis => bail!("hexeract has no Redis"),
            }
        }
        (side @ (Side::RiverReadme | Side::RiverBench), db) => {
            let as_in_bench = side == Side::RiverBench;
            match db {
                Product::Postgres => of!(river::postgres(url, as_in_bench)),
                Product::Sqlite | Product::SqliteNormal => of!(river::sqlite(url, *db, as_in_bench)),
                other => bail!("River has no {other:?}"),
            }
        }
        (side @ (Side::ApalisReadme | Side::ApalisInterval), Product::Redis) => {
            of!(apalis::redis(url, &arguments.name, side == Side::ApalisInterval))
        }
        (Side::Pgmq, Product::Postgres) => of!(pgmq::postgres(url)),
        (peer, db) => bail!("{peer:?} does not run on {db:?}"),
    }
}
