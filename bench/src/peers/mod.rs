//! `peers`: other libraries with the same workloads, in the same rounds as ours and raw SQL.
//!
//! Their program is `bench/peers`, a workspace of its own, which this command builds. It is run once for each repetition, on an empty database
//! that `place` makes. `list` has the peers with what each of them runs on and how much it is given; `ours` measures our side and the raw one; `table` has the figures.

mod list;
mod ours;
mod place;
mod table;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use serde::Deserialize;
use sqlx::{MySql, Postgres, Sqlite};
use tokio::process::Command;

use crate::databases::{Product, Site};
use crate::raw::Measured;
use crate::run::{Plan, Side};
use crate::workloads::Workload;
use list::{PEERS, Peer};
use ours::Both;
use place::Place;
use table::{Row, Table};

/// A repetition of a peer takes at most this long; the program itself gives up after ten minutes.
const LONGEST: Duration = Duration::from_secs(660);
/// The workloads that peers have.
const WORKLOADS: &[Workload] = &[Workload::EnqueueTx, Workload::Drain, Workload::Steady, Workload::Latency];

/// Arguments of `peers`.
#[derive(Args)]
pub struct Arguments {
    /// Also write the results to this file, one JSON object a line.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Only these databases.
    #[arg(long, value_delimiter = ',')]
    db: Vec<Product>,
    /// Only these workloads: enqueue_tx, drain, steady, latency.
    #[arg(long, value_delimiter = ',')]
    workload: Vec<Workload>,
    /// Only peers whose name begins with one of these, for example `river` or `hexeract_readme`.
    #[arg(long, value_delimiter = ',')]
    peer: Vec<String>,
    /// Rounds that count.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// A two-hundredth of everything, once: whether it works, not how fast it is.
    #[arg(long)]
    quick: bool,
    /// A program that is built already.
    #[arg(long)]
    program: Option<PathBuf>,
}

impl Arguments {
    fn plan(&self) -> Plan {
        let repetitions = if self.quick { 1 } else { usize::from(self.repetitions) };
        Plan { repetitions, quick: self.quick, like_ours: false }
    }

    fn peers(&self, product: Product) -> Vec<&'static Peer> {
        let wanted =
            |peer: &&Peer| self.peer.is_empty() || self.peer.iter().any(|it| peer.name.starts_with(it.as_str()));
        PEERS.iter().filter(wanted).filter(|peer| peer.runs_on(product)).collect()
    }
}

/// Measures the peers, and prints a table for each database and workload. Starts servers and builds the peers' program.
///
/// # Errors
/// Fails where a server or the program cannot be had, and with errors of our side. A peer that fails is reported in the table.
pub fn measure(runtime: &tokio::runtime::Runtime, arguments: &Arguments) -> Result<()> {
    for name in &arguments.peer {
        ensure!(
            PEERS.iter().any(|peer| peer.name.starts_with(name.as_str())),
            "there is no peer {name:?}; the peers are {}",
            PEERS.iter().map(|peer| peer.name).collect::<Vec<_>>().join(", ")
        );
    }
    let wanted = |product: &Product| arguments.db.is_empty() || arguments.db.contains(product);
    let products: Vec<Product> = Product::value_variants().iter().copied().filter(wanted).collect();
    let program = match &arguments.program {
        Some(program) => program.clone(),
        None => build()?,
    };
    let mut table = Table::begin(arguments.json.as_deref())?;
    for product in products {
        let peers = arguments.peers(product);
        if peers.is_empty() {
            eprintln!("{product}: no peer runs on it");
            continue;
        }
        // Outside of the runtime: starting a server blocks.
        let site = Site::open(product)?;
        let mut run = Run { peers: &peers, program: &program, arguments, plan: arguments.plan(), table: &mut table };
        runtime.block_on(async {
            match product {
                Product::Postgres => on_sql::<Postgres>(&site, &mut run).await,
                Product::Mariadb | Product::Mysql => on_sql::<MySql>(&site, &mut run).await,
                Product::Sqlite | Product::SqliteNormal => on_sql::<Sqlite>(&site, &mut run).await,
                Product::Redis => run.workloads(&ours::Redis::new(&site), &site).await,
            }
        })?;
    }
    Ok(())
}

/// Builds the peers' program; returns its path.
fn build() -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = folder.with_file_name("target").join("peers");
    eprintln!("building the peers, for some minutes at the first time");
    let status = std::process::Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
        .args(["build", "--release", "--locked", "--manifest-path"])
        .arg(folder.join("peers").join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "the peers could not be built ({status})");
    Ok(target.join("release").join("bench-peers"))
}

async fn on_sql<DB: Measured>(site: &Site, run: &mut Run<'_>) -> Result<()> {
    let both = ours::Sql::<DB>::create(site).await?;
    let measured = run.workloads(&both, site).await;
    both.drop().await?;
    measured
}

/// What is measured on a database.
struct Run<'a> {
    peers: &'a [&'static Peer],
    program: &'a Path,
    arguments: &'a Arguments,
    plan: Plan,
    table: &'a mut Table,
}

impl Run<'_> {
    async fn workloads(&mut self, both: &impl Both, site: &Site) -> Result<()> {
        let wanted = |it: &Workload| self.arguments.workload.is_empty() || self.arguments.workload.contains(it);
        for workload in WORKLOADS.iter().copied().filter(wanted) {
            eprintln!("{} {workload}", site.product);
            let rows = match workload {
                Workload::Latency => self.latencies(both, site).await?,
                _ => self.rounds(both, site, workload).await?,
            };
            self.table.add(site.product, workload, &rows)?;
        }
        Ok(())
    }

    /// Measures the rates of all sides in rounds, each side first in turn. A peer that fails is left out of the later rounds.
    async fn rounds(&self, both: &impl Both, site: &Site, workload: Workload) -> Result<Vec<Row>> {
        let mut rows = vec![Row::new("ours"), Row::new("raw")];
        rows.extend(self.peers.iter().map(|peer| Row::new(peer.name)));
        for round in self.plan.numbers() {
            for turn in 0..rows.len() {
                let at = (round + turn) % rows.len();
                let row = &mut rows[at];
                if row.error.is_some() {
                    continue;
                }
                let (count, rate) = match at {
                    0 => both
                        .rate(workload, Side::Ours, self.plan)
                        .await
                        .with_context(|| format!("{workload} of ours"))?,
                    1 => {
                        both.rate(workload, Side::Raw, self.plan).await.with_context(|| format!("{workload} of raw"))?
                    }
                    _ => match self.once(site, workload, self.peers[at - 2]).await {
                        Ok((count, Line { rate: Some(rate), .. })) => (count, rate),
                        Ok(_) => bail!("{} printed no rate", row.name),
                        Err(error) => {
                            eprintln!("    {:>18} failed: {error:#}", row.name);
                            row.error = Some(format!("{error:#}"));
                            continue;
                        }
                    },
                };
                eprintln!("    {:>18} {rate:>10.0}/s{}", row.name, if round == 0 { " (warm-up)" } else { "" });
                row.count = count;
                if round > 0 {
                    row.rates.push(rate);
                }
            }
        }
        Ok(rows)
    }

    /// Measures the latency of all sides, one after the other.
    async fn latencies(&self, both: &impl Both, site: &Site) -> Result<Vec<Row>> {
        let mut rows = both.latency(self.plan).await?;
        for peer in self.peers {
            let mut row = Row::new(peer.name);
            match self.once(site, Workload::Latency, peer).await {
                Ok((count, line)) => (row.count, row.times) = (count, line.p50_ms.zip(line.p99_ms)),
                Err(error) => row.error = Some(format!("{error:#}")),
            }
            rows.push(row);
        }
        Ok(rows)
    }

    /// Runs a workload of a peer once; returns how many messages it had, and its figures.
    async fn once(&self, site: &Site, workload: Workload, peer: &Peer) -> Result<(usize, Line)> {
        let count = peer.count(site.product, workload, self.plan);
        let (database, workload, messages) = (site.product.to_string(), workload.to_string(), count.to_string());
        let place = Place::create(site).await?;
        let mut command = Command::new(self.program);
        command.args(["--peer", peer.name, "--db", &database, "--url", place.url(), "--name", place.name()]);
        command.args(["--workload", &workload, "--count", &messages]).kill_on_drop(true);
        let output = tokio::time::timeout(LONGEST, command.output()).await;
        place.drop().await?;
        let output = output.with_context(|| format!("no result within {LONGEST:?}"))?;
        let output = output.context("cannot run the peers' program")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        let line = serde_json::from_slice(&output.stdout);
        let printed = || format!("no figure; it printed {:?}", String::from_utf8_lossy(&output.stdout));
        Ok((count, line.with_context(printed)?))
    }
}

/// A line of the peers' program.
#[derive(Deserialize)]
struct Line {
    rate: Option<f64>,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
}
