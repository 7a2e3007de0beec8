//! The workloads of both revisions in alternating pairs, on one server with the durability that it has by default.

use anyhow::{Context, Result};
use clap::ValueEnum;
use redis::Commands;
use tempfile::TempDir;
use test_servers::servers::{self, Durability};

use crate::counts::Product;
use crate::counts::subject::Subject;
use crate::statistics::{Median, as_f64, median};

/// A workload of the public bench, without its raw side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Workload {
    /// Eight tasks that each do transactions of a business insert and a notice.
    EnqueueTx,
    /// The same while a sweeper sends them.
    Steady,
    /// Sending what is queued.
    Drain,
    /// From the commit to the handler.
    Latency,
}

impl Workload {
    /// Returns how many notices a repetition has.
    fn count(self, product: Product, quick: bool) -> usize {
        let count = match self {
            Self::EnqueueTx | Self::Steady if product == Product::Sqlite => 3_000,
            Self::EnqueueTx => 10_000,
            Self::Steady => 20_000,
            Self::Drain => 50_000,
            Self::Latency => 300,
        };
        if quick { count / 10 } else { count }
    }

    /// Returns a figure as people read it: a rate, or a time.
    pub fn shown(self, figure: f64) -> String {
        if self == Self::Latency { format!("{:.3} ms", figure * 1000.0) } else { format!("{figure:.0}/s") }
    }
}

impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.to_possible_value().as_ref().map_or("", |value| value.get_name()))
    }
}

/// Two series of rates, or of latencies in seconds.
pub struct Ratio {
    is_latency: bool,
    /// The median of the old revision.
    pub old: f64,
    /// The median of the new one.
    pub new: f64,
    /// The median of the ratios within the pairs, new to old.
    pub median: Median,
}

impl Ratio {
    /// True if the interval means something: few pairs give one that misses the true median too often.
    pub fn is_certain(&self) -> bool {
        self.median.confidence >= CERTAIN
    }

    /// True if the whole interval is on the bad side: rates below those of the old revision, latencies above.
    pub fn is_loss(&self) -> bool {
        self.is_certain() && if self.is_latency { self.median.low > 1.0 } else { self.median.high < 1.0 }
    }
}

/// Five pairs give 93.8 %, four 87.5 %.
const CERTAIN: f64 = 0.9;

/// A server with a database for each revision.
pub struct Server {
    product: Product,
    /// Of the old revision, then of the new one.
    urls: [String; 2],
    _server: Option<servers::Server>,
    _directory: Option<TempDir>,
}

impl Server {
    /// Starts it. Blocks.
    ///
    /// # Errors
    /// Fails where no server program is installed.
    pub fn start(product: Product) -> Result<Self> {
        let start = match product {
            Product::Postgres => servers::postgres::start_with,
            Product::Mariadb => servers::mariadb::start_with,
            Product::Mysql => servers::mysql::start_with,
            Product::Redis => servers::redis::start_with,
            Product::Sqlite => {
                let directory = tempfile::tempdir().context("cannot make a folder for the databases")?;
                let urls = ["old", "new"].map(|name| directory.path().join(name).to_string_lossy().into_owned());
                return Ok(Self { product, urls, _server: None, _directory: Some(directory) });
            }
        };
        let server = start(Durability::Default)?;
        let urls = match product {
            // Databases by number.
            Product::Redis => ["0", "1"].map(|name| format!("{}/{name}", server.url())),
            _ => {
                for name in ["old", "new"] {
                    server.query(&format!("CREATE DATABASE {name}_revision"))?;
                }
                ["old", "new"].map(|name| server.url().replace("/notify", &format!("/{name}_revision")))
            }
        };
        Ok(Self { product, urls, _server: Some(server), _directory: None })
    }

    /// Creates the tables of both revisions.
    ///
    /// # Errors
    /// Errors of the subjects.
    pub fn prepare(&self, subjects: [&Subject; 2]) -> Result<()> {
        for (subject, url) in subjects.iter().zip(&self.urls) {
            subject.run(self.product, url, &["prepare"])?;
        }
        Ok(())
    }

    /// Runs a workload in pairs, each side first in turn. The first pair warms up and does not count.
    ///
    /// # Errors
    /// Errors of the subjects.
    pub fn compare(&self, subjects: [&Subject; 2], workload: Workload, pairs: usize, quick: bool) -> Result<Ratio> {
        let count = workload.count(self.product, quick);
        let (mut old, mut new, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for pair in 0..=pairs {
            let mut figures = [0.0; 2];
            for side in if pair % 2 == 0 { [0, 1] } else { [1, 0] } {
                let seconds = self.once(subjects[side], &self.urls[side], workload, count)?;
                figures[side] = if workload == Workload::Latency { seconds } else { as_f64(count) / seconds };
            }
            let note = if pair == 0 { " (warm-up)" } else { "" };
            let [before, now] = figures;
            eprintln!(
                "{} {workload}: {} old, {} new: {:.3}{note}",
                self.product,
                workload.shown(before),
                workload.shown(now),
                now / before
            );
            if pair > 0 {
                old.push(before);
                new.push(now);
                ratios.push(now / before);
            }
        }
        let middle = |values: &[f64]| median(values).map(|median| median.value).context("no pair was measured");
        Ok(Ratio {
            is_latency: workload == Workload::Latency,
            old: middle(&old)?,
            new: middle(&new)?,
            median: median(&ratios).context("no pair was measured")?,
        })
    }

    fn once(&self, subject: &Subject, url: &str, workload: Workload, count: usize) -> Result<f64> {
        if self.product == Product::Redis {
            let mut connection = redis::Client::open(url)?.get_connection()?;
            let _: () = connection.flushdb()?;
        }
        subject.run(self.product, url, &["empty"])?;
        if workload == Workload::Drain {
            subject.run(self.product, url, &["fill", "--count", &count.to_string()])?;
        }
        let name = workload.to_string();
        let mut running =
            subject.start(self.product, url, &["run", "--workload", &name, "--count", &count.to_string()])?;
        let seconds = running.go()?.context("the subject began too early")?;
        running.end()?;
        Ok(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(is_latency: bool, ratios: &[f64]) -> Ratio {
        Ratio { is_latency, old: 1.0, new: 1.0, median: median(ratios).unwrap() }
    }

    #[test]
    fn interval_that_contains_one_is_no_loss() {
        assert!(!ratio(false, &[0.9, 0.92, 0.93, 0.97, 1.01]).is_loss());
        assert!(ratio(false, &[0.9, 0.92, 0.93, 0.97, 0.99]).is_loss());
        assert!(!ratio(true, &[0.9, 1.05, 1.06, 1.1, 1.2]).is_loss());
        assert!(ratio(true, &[1.01, 1.05, 1.06, 1.1, 1.2]).is_loss());
    }

    #[test]
    fn few_pairs_are_no_loss() {
        let few = ratio(false, &[0.7, 0.8, 0.9]);
        assert!(!few.is_loss() && !few.is_certain());
    }
}
