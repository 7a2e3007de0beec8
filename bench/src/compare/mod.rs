//! `bench compare REV`: the rates and the counts of this tree against those of an old revision, on the same servers.
//!
//! [`revision`] builds both subjects, [`rates`] runs them in pairs. The counts are those of [`crate::counts`].

mod rates;
mod revision;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use clap::Args;
use comfy_table::{Table, presets::UTF8_BORDERS_ONLY};

use crate::counts::figure::{Figure, Figures};
use crate::counts::gate::{depends_on_clock, is_above};
use crate::counts::measure::{Plan, Site, count};
use crate::counts::subject::Subject;
use crate::counts::{Product, Work, callgrind, chosen};
use rates::{Ratio, Server, Workload};

/// What to compare with which revision.
#[derive(Args)]
pub struct Arguments {
    /// The old revision.
    revision: String,
    /// The databases.
    #[arg(long, value_delimiter = ',', default_value = "postgres")]
    db: Vec<Product>,
    /// Only these workloads.
    #[arg(long, value_delimiter = ',')]
    workload: Vec<Workload>,
    /// Pairs of repetitions that count; 0 compares the counts alone.
    #[arg(long, default_value_t = 7)]
    pairs: u16,
    /// Runs of each counted work.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Also counts the client's instructions and allocations by valgrind.
    #[arg(long)]
    client: bool,
    /// A tenth of everything: whether it works.
    #[arg(long)]
    quick: bool,
    /// Fails where anything is a loss.
    #[arg(long)]
    check: bool,
}

impl Arguments {
    /// True if a loss is a failure.
    pub fn is_check(&self) -> bool {
        self.check
    }
}

/// The two sides.
struct Sides {
    old: Subject,
    new: Subject,
}

/// Compares, prints the results, and returns true if nothing is a loss.
///
/// # Errors
/// A revision that cannot be built, and errors of the servers and of the subjects.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let built = revision::build(&arguments.revision)?;
    println!("old: {}\nnew: {}", built.old_name, built.new_name);
    let sides = Sides { old: Subject::at(&built.old), new: Subject::at(&built.new) };
    let plan = Plan { runs: usize::from(arguments.runs), quick: arguments.quick };
    let mut losses = Vec::new();
    for product in &arguments.db {
        losses.extend(counts(&sides, *product, plan, arguments.client)?);
        if arguments.pairs > 0 {
            losses.extend(ratios(&sides, *product, arguments)?);
        }
    }
    println!("losses: {}", if losses.is_empty() { "none".to_owned() } else { losses.join(", ") });
    Ok(losses.is_empty())
}

/// Counts both sides on one server after the other; returns the losses.
fn counts(sides: &Sides, product: Product, plan: Plan, client: bool) -> Result<Vec<String>> {
    let works = chosen::<Work>(&[]);
    let take = |subject: &Subject| {
        // A server of its own, because the tables of the two revisions differ.
        let mut figures = count(&mut Site::start(product)?, subject, &works, plan)?;
        if client {
            let client = callgrind::count(&mut Site::start(product)?, subject, &works, plan)?;
            for (work, counters) in client {
                figures.entry(work).or_default().extend(counters);
            }
        }
        anyhow::Ok(figures)
    };
    let old = take(&sides.old).context("the old revision")?;
    let new = take(&sides.new).context("the new revision")?;
    let (mut table, mut losses) = (Table::new(), Vec::new());
    table.load_style(UTF8_BORDERS_ONLY);
    table.set_header(["", "work", "counter per notice", "old", "new", "difference", ""]);
    for row in differences(&old, &new) {
        let verdict = row.verdict();
        if verdict == "LOSS" {
            losses.push(format!("{product} {} {}", row.work, row.counter));
        }
        let (old, new) = (cell(row.old), cell(row.new));
        let difference = row.difference().map_or_else(String::new, |share| format!("{:+.1} %", share * 100.0));
        table.add_row([product.to_string(), row.work, row.counter, old, new, difference, verdict.to_owned()]);
    }
    println!("{table}");
    Ok(losses)
}

fn cell(figure: Option<Figure>) -> String {
    figure.map_or_else(String::new, |figure| format!("{:.4}", figure.value))
}

/// A counter of both sides.
struct Row {
    work: String,
    counter: String,
    old: Option<Figure>,
    new: Option<Figure>,
}

impl Row {
    fn difference(&self) -> Option<f64> {
        let (old, new) = (self.old?.value, self.new?.value);
        (old != 0.0).then(|| new / old - 1.0)
    }

    /// A count is a loss if each run of the new side is beyond the limit above each of the old one.
    fn verdict(&self) -> &'static str {
        let Some((old, new)) = self.old.zip(self.new) else { return "one side" };
        if depends_on_clock(&self.work, &self.counter) {
            "by the clock"
        } else if is_above(&self.work, new.least, old.greatest) {
            "LOSS"
        } else if is_above(&self.work, old.least, new.greatest) {
            "gain"
        } else if !old.is_steady() || !new.is_steady() {
            "unsteady"
        } else {
            ""
        }
    }
}

fn differences(old: &BTreeMap<String, Figures>, new: &BTreeMap<String, Figures>) -> Vec<Row> {
    let mut rows = Vec::new();
    for work in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
        let sides = [old, new].map(|side| side.get(work));
        for counter in sides.iter().flatten().flat_map(|figures| figures.keys()).collect::<BTreeSet<_>>() {
            let [old, new] = sides.map(|figures| figures.and_then(|figures| figures.get(counter)).copied());
            rows.push(Row { work: work.clone(), counter: counter.clone(), old, new });
        }
    }
    rows
}

/// Runs the workloads in pairs; returns the losses.
fn ratios(sides: &Sides, product: Product, arguments: &Arguments) -> Result<Vec<String>> {
    let server = Server::start(product)?;
    server.prepare([&sides.old, &sides.new])?;
    let (mut table, mut losses) = (Table::new(), Vec::new());
    table.load_style(UTF8_BORDERS_ONLY);
    table.set_header(["", "workload", "old", "new", "new to old [low..high]", ""]);
    for workload in chosen(&arguments.workload) {
        let ratio = server
            .compare([&sides.old, &sides.new], workload, usize::from(arguments.pairs), arguments.quick)
            .with_context(|| format!("{workload} on {product}"))?;
        if ratio.is_loss() {
            losses.push(format!("{product} {workload}"));
        }
        let verdict = match (ratio.is_certain(), ratio.is_loss()) {
            (false, _) => "too few pairs",
            (true, true) => "LOSS",
            (true, false) => "",
        };
        let Ratio { old, new, median, .. } = &ratio;
        table.add_row([
            product.to_string(),
            workload.to_string(),
            workload.shown(*old),
            workload.shown(*new),
            format!("{:.3} [{:.3}..{:.3}] {:.1} %", median.value, median.low, median.high, median.confidence * 100.0),
            verdict.to_owned(),
        ]);
    }
    println!("{table}");
    Ok(losses)
}

#[cfg(test)]
mod tests {
    use super::*;
    fn row(old: &[f64], new: &[f64]) -> Row {
        Row { work: String::new(), counter: String::new(), old: Figure::of(old), new: Figure::of(new) }
    }

    #[test]
    fn count_is_a_loss_only_where_every_run_is_above() {
        assert_eq!(row(&[100.0], &[103.0]).verdict(), "LOSS");
        assert_eq!(row(&[100.0], &[102.0]).verdict(), "");
        assert_eq!(row(&[100.0, 101.0], &[102.5, 110.0]).verdict(), "unsteady");
        assert_eq!(row(&[100.0], &[90.0]).verdict(), "gain");
        assert_eq!(row(&[100.0], &[]).verdict(), "one side");
    }

    #[test]
    fn counters_of_either_side_have_a_row() {
        let figures = |name: &str| {
            BTreeMap::from([("enqueue".to_owned(), Figures::from([(name.to_owned(), Figure::of(&[1.0]).unwrap())]))])
        };
        let rows = differences(&figures("rows"), &figures("statements"));
        assert_eq!(rows.iter().map(|row| row.counter.as_str()).collect::<Vec<_>>(), ["rows", "statements"]);
    }
}
