//! `bench count`: the costs of a notice as counts, which other work of the machine does not change.
//!
//! [`measure`] takes them, [`servers`] reads the servers, [`callgrind`] the client. [`file`](mod@file) keeps them, and [`gate`] compares.

pub mod build;
pub mod callgrind;
pub mod figure;
pub mod file;
pub mod gate;
pub mod measure;
mod proxy;
pub mod servers;
pub mod subject;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use comfy_table::{Table, presets::UTF8_BORDERS_ONLY};

use figure::Figures;
use file::{CountsFile, Section};
use gate::Comparison;
use measure::{Plan, Site};
use subject::Subject;

/// A product on which notices are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Product {
    Postgres,
    Mariadb,
    Mysql,
    Sqlite,
    Redis,
}

impl Product {
    /// Returns its name in arguments and in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mariadb => "mariadb",
            Self::Mysql => "mysql",
            Self::Sqlite => "sqlite",
            Self::Redis => "redis",
        }
    }
}

impl std::fmt::Display for Product {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// A work whose costs are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Work {
    /// Transactions of a business insert and a notice.
    Enqueue,
    /// Claims, and settles of successes.
    Succeed,
    /// Claims, and settles of failures that are retried later.
    Fail,
}

impl Work {
    /// Returns its name in arguments and in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Enqueue => "enqueue",
            Self::Succeed => "succeed",
            Self::Fail => "fail",
        }
    }
}

/// What to count, and what to do with the counts.
#[derive(Args)]
pub struct Arguments {
    /// Only these databases.
    #[arg(long, value_delimiter = ',')]
    db: Vec<Product>,
    /// Only these works.
    #[arg(long, value_delimiter = ',')]
    work: Vec<Work>,
    /// Runs of each work; a counter whose runs differ is no gate. `--check` needs them only where a count grew in one run.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// A tenth of the notices: whether it works.
    #[arg(long)]
    quick: bool,
    /// Counts the client instead of the servers: instructions and allocations, by valgrind. It
    /// builds the subject in release mode.
    #[arg(long)]
    client: bool,
    /// Fails where a count grew by more than 2 % over the file.
    #[arg(long, conflicts_with = "write")]
    check: bool,
    /// Writes the counts to the file.
    #[arg(long)]
    write: bool,
    /// Why counts grew by more than 2 %; the file keeps it.
    #[arg(long, requires = "write")]
    reason: Option<String>,
    /// The file.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/counts.toml"))]
    file: PathBuf,
}

impl Arguments {
    /// True if a count that grew is a failure.
    pub fn is_check(&self) -> bool {
        self.check
    }
}

/// Counts, prints the figures, and compares them with the file or writes it. Returns false where a count grew.
///
/// # Errors
/// Errors of the servers and of the subject, and counts that grew without a reason where the file is to be written.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let mut file = CountsFile::read(&arguments.file)?;
    let plan = Plan { runs: usize::from(arguments.runs), quick: arguments.quick };
    let works = chosen(&arguments.work);
    let subject = if arguments.client {
        Subject::at(&build::compile(build::workspace()?, &build::folder()?, "new")?)
    } else {
        Subject::own()?
    };
    let (mut grown, mut refused) = (Vec::new(), Vec::new());
    for product in chosen(&arguments.db) {
        let mut site = Site::start(product)?;
        let (name, version) = section(&site, arguments.client)?;
        let compare = |figures: &_| gate::compare(&name, file.sections.get(&name), &version, figures);
        // What did not grow in one run did not grow.
        let first = if arguments.check { Plan { runs: 1, ..plan } } else { plan };
        let mut figures = counted(&mut site, &subject, &works, first, arguments.client)?;
        let mut comparison = compare(&figures);
        if arguments.check && !comparison.grown.is_empty() {
            eprintln!("{name} grew; it is counted again");
            figures = counted(&mut site, &subject, &works, plan, arguments.client)?;
            comparison = compare(&figures);
        }
        print(&name, &figures);
        report(&comparison);
        if arguments.write {
            let section = Section::new(version, &figures);
            if !gate::replace(&mut file, &name, section, &comparison.grown, arguments.reason.as_deref()) {
                refused.push(name);
            }
        }
        grown.extend(comparison.grown);
    }
    if arguments.write {
        file.write(&arguments.file)?;
    }
    if !refused.is_empty() {
        bail!("counts grew by more than 2 %: {} is not written; give --reason \"why\"", refused.join(", "));
    }
    Ok(arguments.write || grown.is_empty())
}

/// Returns the name of a section of the file, and the version of what is counted.
fn section(site: &Site, client: bool) -> Result<(String, String)> {
    let product = site.product();
    if client {
        Ok((format!("{product}_client"), callgrind::version()?))
    } else {
        Ok((product.to_string(), site.version()?))
    }
}

fn counted(
    site: &mut Site,
    subject: &Subject,
    works: &[Work],
    plan: Plan,
    client: bool,
) -> Result<BTreeMap<String, Figures>> {
    if client { callgrind::count(site, subject, works, plan) } else { measure::count(site, subject, works, plan) }
}

/// Returns the chosen values, or all of them where none is chosen.
pub fn chosen<T: ValueEnum + Copy>(values: &[T]) -> Vec<T> {
    if values.is_empty() { T::value_variants().to_vec() } else { values.to_vec() }
}

fn print(name: &str, works: &BTreeMap<String, Figures>) {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY);
    table.set_header(["", "work", "counter", "per notice", "spread", ""]);
    for (work, figures) in works {
        for (counter, figure) in figures {
            let is_gate = figure.is_steady() && !gate::depends_on_clock(work, counter);
            let gate = if is_gate { "" } else { "no gate" };
            table.add_row([
                name.to_owned(),
                work.clone(),
                counter.clone(),
                format!("{:.4}", figure.value),
                format!("{:.2} %", figure.spread() * 100.0),
                gate.to_owned(),
            ]);
        }
    }
    println!("{table}");
}

fn report(comparison: &Comparison) {
    for change in &comparison.grown {
        println!("GREW: {} was {} and is {:.4}", change.counter, change.before, change.now);
    }
    for change in &comparison.fallen {
        println!("fell: {} was {} and is {:.4}; --write keeps that", change.counter, change.before, change.now);
    }
    for line in comparison.unmatched.iter().chain(&comparison.skipped) {
        println!("{line}");
    }
}
