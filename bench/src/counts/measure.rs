//! Counts one work on one server: the difference of two counts of notices, so that what a start costs cancels out.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};

use super::figure::{Figure, Figures};
use super::proxy::Proxy;
use super::servers::{self, CountedServer, Counters};
use super::subject::{Running, Subject};
use super::{Product, Work};
use crate::statistics::as_f64;

/// How often a run begins again because its sweeper looked by the clock.
const TRIES: usize = 5;

/// How much is counted.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Runs of each work.
    pub runs: usize,
    /// A tenth of the notices: whether it works.
    pub quick: bool,
}

impl Plan {
    /// Returns how many notices cost the difference that is taken. A sweeper claims 500 at a time, so that is one full batch.
    pub fn notices(self, work: Work) -> usize {
        let count = if work == Work::Enqueue { 100 } else { 500 };
        if self.quick { count / 10 } else { count }
    }
}

/// A running server with its proxy, on which subjects are counted one after the other.
pub struct Site {
    product: Product,
    server: Box<dyn CountedServer>,
    proxy: Option<Proxy>,
    /// The URL through the proxy.
    url: String,
}

impl Site {
    /// Starts the server. Blocks.
    ///
    /// # Errors
    /// Fails where no server program is installed.
    pub fn start(product: Product) -> Result<Self> {
        let server = servers::start(product)?;
        let (direct, proxy) = (server.url(), server.port().map(Proxy::start).transpose()?);
        let url = match server.port().zip(proxy.as_ref()) {
            Some((port, proxy)) => direct.replace(&format!(":{port}"), &format!(":{}", proxy.port())),
            None => direct,
        };
        Ok(Self { product, server, proxy, url })
    }

    /// Returns the version of the server.
    ///
    /// # Errors
    /// Fails where it does not answer.
    pub fn version(&self) -> Result<String> {
        self.server.version()
    }

    /// Returns the product of the server.
    pub fn product(&self) -> Product {
        self.product
    }

    /// Creates the subject's tables.
    ///
    /// # Errors
    /// Errors of the subject.
    pub fn prepare(&mut self, subject: &Subject) -> Result<()> {
        self.server.empty()?;
        subject.run(self.product, &self.server.url(), &["prepare"])
    }

    /// Runs a work from the same state as always; returns what it cost in all.
    ///
    /// # Errors
    /// Errors of the subject and of the server.
    fn once(&mut self, subject: &Subject, work: Work, count: usize) -> Result<Counters> {
        for _ in 0..TRIES {
            self.empty(subject)?;
            let ended = self.server.read_ended()?;
            let mut running = self.begin(subject, subject, work, count)?;
            let (mut before, trips) = (self.server.read()?, self.round_trips());
            let Some(_) = running.go()? else { continue };
            let trips = self.round_trips() - trips;
            let mut after = self.server.read()?;
            running.end()?;
            before.extend(ended);
            after.extend(self.server.read_ended()?);
            let cost = |(name, after): (&'static str, f64)| Some((name, after - before.get(name)?));
            let mut costs: Counters = after.into_iter().filter_map(cost).collect();
            if self.proxy.is_some() {
                costs.insert("round_trips", as_f64(usize::try_from(trips)?));
            }
            return Ok(costs);
        }
        bail!(
            "{TRIES} times the subject's sweeper looked for notices before the counters were read; is the machine very busy?"
        )
    }

    /// Empties the tables.
    ///
    /// # Errors
    /// Errors of the subject.
    pub fn empty(&mut self, subject: &Subject) -> Result<()> {
        self.server.empty()?;
        subject.run(self.product, &self.server.url(), &["empty"])
    }

    /// Starts a work that waits to begin, and queues its notices by `filler`.
    ///
    /// # Errors
    /// Errors of the subject.
    pub fn begin(&mut self, subject: &Subject, filler: &Subject, work: Work, count: usize) -> Result<Running> {
        let direct = self.server.url();
        let count = count.to_string();
        let running = subject.start(self.product, &self.url, &["count", "--work", work.name(), "--count", &count])?;
        if work != Work::Enqueue {
            filler.run(self.product, &direct, &["fill", "--count", &count])?;
        }
        Ok(running)
    }

    fn round_trips(&self) -> u64 {
        self.proxy.as_ref().map_or(0, Proxy::round_trips)
    }
}

/// Counts all works of a subject; returns the figures by work.
///
/// # Errors
/// Errors of the subject and of the server.
pub fn count(site: &mut Site, subject: &Subject, works: &[Work], plan: Plan) -> Result<BTreeMap<String, Figures>> {
    site.prepare(subject)?;
    let mut all = BTreeMap::new();
    for work in works {
        eprintln!("{} {}", site.product, work.name());
        let figures = differences(plan, plan.notices(*work), |count| site.once(subject, *work, count))
            .with_context(|| format!("cannot count {} on {}", work.name(), site.product))?;
        all.insert(work.name().to_owned(), figures);
    }
    Ok(all)
}

/// Takes the difference of the costs of `notices` and of twice as many, in several runs.
///
/// # Errors
/// Those of `cost`.
pub fn differences(plan: Plan, notices: usize, mut cost: impl FnMut(usize) -> Result<Counters>) -> Result<Figures> {
    let mut runs: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for _ in 0..plan.runs {
        let (once, twice) = (cost(notices)?, cost(2 * notices)?);
        if std::env::var_os("DEBUG_COUNTS").is_some() {
            eprintln!("{once:?}\n{twice:?}");
        }
        ensure!(once.len() == twice.len(), "the counters changed from one run to the next");
        for (name, cost) in twice {
            let less = once.get(name).with_context(|| format!("the counter {name} appeared in the second run"))?;
            runs.entry(name).or_default().push((cost - less) / as_f64(notices));
        }
    }
    Ok(runs.into_iter().filter_map(|(name, runs)| Some((name.to_owned(), Figure::of(&runs)?))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_of_a_start_cancels_out() {
        let plan = Plan { runs: 3, quick: false };
        let figures = differences(plan, 200, |count| Ok(Counters::from([("rows", 17.0 + 2.5 * as_f64(count))])));
        let figure = figures.unwrap()["rows"];
        assert_eq!((figure.value, figure.spread()), (2.5, 0.0));
    }
}
