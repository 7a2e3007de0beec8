//! `cargo run --release -p bench -- run`: solid-notify against the raw SQL that does the same.
//!
//! Only the command line is here. The README beside it describes the measurements and why they are fair.

mod compare;
mod counts;
mod databases;
mod idle;
mod notice;
mod ours;
mod peers;
mod processor_time;
mod profile;
mod raw;
mod redis_notices;
mod report;
mod run;
mod statistics;
mod targets;
mod timed_tasks;
mod webhooks;
mod workloads;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand, ValueEnum};
use sqlx::{MySql, Postgres, Sqlite};

use databases::{Address, Arena, Product, Site};
use raw::Measured;
use report::{Environment, Line, Report};
use run::Plan;
use workloads::{Workload, backlog};

/// Measures solid-notify against the raw SQL that does the same.
#[derive(Parser)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the workloads and prints a table.
    Run(Run),
    /// Tells what Postgres did for `enqueue_tx`, `steady` and `drain`, statement by statement, on both sides.
    Profile {
        /// A two-hundredth of everything.
        #[arg(long)]
        quick: bool,
    },
    /// Measures other libraries with the same workloads, beside ours and raw SQL.
    Peers(peers::Arguments),
    /// Compares timed tasks on Redis with raw scripts.
    Redis {
        /// Pairs of repetitions that count.
        #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
        repetitions: u16,
        /// A fiftieth of everything.
        #[arg(long)]
        quick: bool,
    },
    /// Compares the channel `webhook` with a bare loop of its HTTP client, and measures targets beside ones that hang.
    Webhook {
        /// Pairs of repetitions that count.
        #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
        repetitions: u16,
        /// A two-hundredth of everything, once, and compares no target: whether it works, not how fast it is.
        #[arg(long)]
        quick: bool,
        /// Fail when a target is missed.
        #[arg(long)]
        check: bool,
    },
    /// Measures what `solid-notify serve` costs with 1,000 definitions and nothing to send.
    Idle {
        /// The program.
        #[arg(long)]
        program: PathBuf,
        /// postgres or sqlite.
        #[arg(long, default_value = "postgres")]
        db: Product,
        /// Ten definitions, for a second, and compares no target: whether it works, not what it costs.
        #[arg(long)]
        quick: bool,
        /// Fail when a target is missed.
        #[arg(long)]
        check: bool,
    },
    /// Counts what a notice costs servers and client, and compares that with the committed counts.
    Count(counts::Arguments),
    /// Compares rates and counts with those of an old revision, which it builds.
    Compare(compare::Arguments),
    /// Works on notices, for the process that counts.
    #[command(hide = true)]
    Subject(bench_subject::Arguments),
    /// Sends a backlog, for the process that measures it.
    #[command(hide = true)]
    SweepChild {
        #[arg(long)]
        db: Product,
        #[command(flatten)]
        address: Address,
    },
}

#[derive(Args)]
struct Run {
    /// Also write the results to this file, one JSON object a line.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Only these databases.
    #[arg(long, value_delimiter = ',')]
    db: Vec<Product>,
    /// Only these workloads.
    #[arg(long, value_delimiter = ',')]
    workload: Vec<Workload>,
    /// Pairs of repetitions that count.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// A two-hundredth of everything, once, and compares no target: whether it works, not how fast it is.
    #[arg(long)]
    quick: bool,
    /// Gives the raw side tables like ours, so that what is left is what the library costs; compares no target. (Not on SQLite.)
    #[arg(long)]
    like_ours: bool,
    /// Fail when a target is missed.
    #[arg(long)]
    check: bool,
}

impl Run {
    /// Returns the wanted workloads that a product has.
    fn workloads(&self, product: Product) -> impl Iterator<Item = Workload> {
        let wanted = move |it: &Workload| self.workload.is_empty() || self.workload.contains(it);
        Workload::value_variants().iter().copied().filter(wanted).filter(move |it| it.runs_on(product))
    }
}

fn main() -> Result<ExitCode> {
    match CommandLine::parse().command {
        Command::Run(arguments) => {
            let wanted = |product: &Product| arguments.db.is_empty() || arguments.db.contains(product);
            let products = Product::value_variants().iter().copied().filter(wanted);
            // Before the runtime: starting a server blocks.
            let sites = products.map(Site::open).collect::<Result<Vec<_>>>()?;
            runtime()?.block_on(measure(&sites, &arguments))
        }
        Command::Profile { quick } => {
            let site = Site::open_with_statement_statistics()?;
            runtime()?.block_on(profile::profile(&site, Plan { repetitions: 1, quick, like_ours: false }))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Peers(arguments) => {
            peers::measure(&runtime()?, &arguments)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Redis { repetitions, quick } => {
            timed_tasks::measure(&runtime()?, repetitions, quick)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Webhook { repetitions, quick, check } => {
            let reached = runtime()?.block_on(webhooks::measure(repetitions, quick))?;
            Ok(if check && !reached && !quick { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        Command::Idle { program, db, quick, check } => {
            let site = Site::open(db)?;
            let reached = runtime()?.block_on(idle::measure(&site, &program, quick))?;
            Ok(if check && !reached && !quick { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        Command::Count(arguments) => {
            let passed = counts::run(&arguments)?;
            Ok(if arguments.is_check() && !passed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        Command::Compare(arguments) => {
            let passed = compare::run(&arguments)?;
            Ok(if arguments.is_check() && !passed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        Command::Subject(arguments) => {
            bench_subject::run(arguments)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::SweepChild { db, address } => {
            let sweep = async {
                match db {
                    Product::Postgres => backlog::sweep::<Postgres>(&address).await,
                    Product::Mariadb | Product::Mysql => backlog::sweep::<MySql>(&address).await,
                    Product::Sqlite | Product::SqliteNormal => backlog::sweep::<Sqlite>(&address).await,
                    Product::Redis => anyhow::bail!("the backlog is not measured on redis"),
                }
            };
            runtime()?.block_on(sweep)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")
}

async fn measure(sites: &[Site], arguments: &Run) -> Result<ExitCode> {
    let plan = Plan {
        repetitions: if arguments.quick { 1 } else { usize::from(arguments.repetitions) },
        quick: arguments.quick,
        like_ours: arguments.like_ours,
    };
    let mut settings = BTreeMap::new();
    for site in sites {
        let told = match site.product {
            Product::Postgres => site.settings::<Postgres>().await?,
            Product::Mariadb | Product::Mysql => site.settings::<MySql>().await?,
            Product::Sqlite | Product::SqliteNormal => site.settings::<Sqlite>().await?,
            Product::Redis => redis_notices::settings(&site.url).await?,
        };
        settings.insert(site.product.to_string(), told.into_iter().collect());
    }
    let mut report = Report::begin(arguments.json.as_deref(), &Environment::new(plan, settings))?;
    for site in sites {
        match site.product {
            Product::Postgres => measure_on::<Postgres>(site, arguments, plan, &mut report).await?,
            Product::Mariadb | Product::Mysql => measure_on::<MySql>(site, arguments, plan, &mut report).await?,
            Product::Sqlite | Product::SqliteNormal => {
                measure_on::<Sqlite>(site, arguments, plan, &mut report).await?;
            }
            Product::Redis => measure_on_redis(site, arguments, plan, &mut report).await?,
        }
    }
    let missed = report.end();
    Ok(if arguments.check && missed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn measure_on<DB: Measured>(site: &Site, arguments: &Run, plan: Plan, report: &mut Report) -> Result<()> {
    let arena = Arena::<DB>::create(site, plan.like_ours).await?;
    for workload in arguments.workloads(site.product) {
        eprintln!("{} {workload}", site.product);
        let figures =
            workload.measure(&arena, plan).await.with_context(|| format!("{workload} on {}", site.product))?;
        let line = Line::new(site.product, workload, figures, plan);
        let mut like_ours = None;
        if line.misses_ratio() && DB::LIKE_OURS.is_some() {
            eprintln!("{} {workload}, to raw SQL on tables like ours", site.product);
            let arena = Arena::<DB>::create(site, true).await?;
            like_ours = Some(workload.measure(&arena, plan).await?);
            arena.drop().await?;
        }
        report.add(line.yielding(like_ours.as_ref()))?;
    }
    arena.drop().await
}

async fn measure_on_redis(site: &Site, arguments: &Run, plan: Plan, report: &mut Report) -> Result<()> {
    for workload in arguments.workloads(site.product) {
        eprintln!("{} {workload}", site.product);
        let figures = redis_notices::measure(&site.url, workload, plan).await;
        if let Some(figures) = figures.with_context(|| format!("{workload} on redis"))? {
            report.add(Line::new(site.product, workload, figures, plan))?;
        }
    }
    Ok(())
}
