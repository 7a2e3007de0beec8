//! A large backlog, sent by a process of its own that does nothing else: how fast, with how much memory, and whether
//! either gets worse on the way.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::databases::{Address, Arena, DEFINITION, Table};
use crate::ours;
use crate::raw::Measured;
use crate::run::Plan;
use crate::statistics::{as_f64, mean};

const COUNT: usize = 1_000_000;
const SAMPLING: Duration = Duration::from_millis(50);

/// How a process sent a backlog.
#[derive(Debug, Clone, Serialize)]
pub struct Backlog {
    /// Notices per second.
    pub rate: f64,
    /// The peak of the process's resident memory.
    pub rss_mib: f64,
    /// The mean resident memory while the process sent the second quarter of the notices.
    pub second_quarter_rss_mib: Option<f64>,
    /// The same for the last quarter.
    pub last_quarter_rss_mib: Option<f64>,
    /// The mean of the last quarter less that of the second.
    pub rss_slope_mib: Option<f64>,
    /// The rate of the last quarter in relation to that of the first.
    pub rate_slope: Option<f64>,
    /// The number of notices.
    pub notices: usize,
}

/// A sample of the process.
#[derive(Debug, Clone, Copy)]
struct Sample {
    seconds: f64,
    sent: usize,
    /// None once it has ended, while its last lines are being read.
    rss_mib: Option<f64>,
}

pub async fn measure<DB: Measured>(arena: &Arena<DB>, plan: Plan) -> Result<Backlog> {
    let count = plan.scaled(COUNT);
    arena.reset().await?;
    eprintln!("    filling");
    arena.fill(Table::Ours, arena.definition(DEFINITION).await?, count).await?;

    let mut child = Command::new(std::env::current_exe()?)
        .args(["sweep-child", "--db", &DB::PRODUCT.to_string()])
        .args(arena.address().arguments())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let process = child.id().context("the sweeping process is gone")?;
    let mut lines = BufReader::new(child.stdout.take().context("the sweeping process has no output")?).lines();
    let (mut samples, mut peak) = (Vec::new(), 0.0_f64);
    while let Some(line) = lines.next_line().await? {
        let (micros, sent) = line.split_once(' ').context("cannot parse a line of the sweeping process")?;
        let seconds = micros.parse::<f64>()? / 1e6;
        let memory = memory(process)?;
        peak = memory.map_or(peak, |(_, highest)| peak.max(highest));
        samples.push(Sample { seconds, sent: sent.parse()?, rss_mib: memory.map(|(now, _)| now) });
    }
    ensure!(child.wait().await?.success(), "the sweeping process failed");
    ours::check(arena, count, true).await?;
    let last = samples.last().context("the sweeping process printed no line")?;
    let backlog = judge(&samples, count, last.seconds, peak);
    eprintln!("    {:.0}/s, {:.0} MiB", backlog.rate, backlog.rss_mib);
    Ok(backlog)
}

/// Runs the process that sends until nothing is left. It prints, now and then, the microseconds since its start and how many
/// notices it has sent.
///
/// # Errors
/// Errors of the library.
pub async fn sweep<DB: Measured>(address: &Address) -> Result<()> {
    let arena = Arena::<DB>::open(address).await?;
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let began = Instant::now();
    let tell = || println!("{} {}", began.elapsed().as_micros(), sent.load(Ordering::Relaxed));
    let called = move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    };
    let sweeper = ours::sweeper(&arena.outbox, called).start().await?;
    let mut clock = tokio::time::interval(SAMPLING);
    {
        let mut idle = std::pin::pin!(sweeper.idle());
        loop {
            tokio::select! {
                () = &mut idle => break,
                _ = clock.tick() => tell(),
            }
        }
    }
    tell();
    sweeper.shutdown().await;
    Ok(())
}

/// The resident memory of a process, now and at its peak, in MiB; `None` when it has ended.
fn memory(process: u32) -> Result<Option<(f64, f64)>> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))
        .context("the memory of a process is read from /proc, which only Linux has")?;
    let mib = |name: &str| {
        let kib = status.lines().find_map(|line| line.strip_prefix(name))?.trim().strip_suffix(" kB")?;
        kib.parse::<f64>().ok().map(|kib| kib / 1024.0)
    };
    Ok(mib("VmRSS:").zip(mib("VmHWM:")))
}

fn judge(samples: &[Sample], count: usize, seconds: f64, rss_mib: f64) -> Backlog {
    let second = rss_of_quarter(samples, count, 2);
    let last = rss_of_quarter(samples, count, 4);
    let rates = (rate_of_quarter(samples, count, 1), rate_of_quarter(samples, count, 4));
    Backlog {
        rate: as_f64(count) / seconds,
        rss_mib,
        second_quarter_rss_mib: second,
        last_quarter_rss_mib: last,
        rss_slope_mib: last.zip(second).map(|(last, second)| last - second),
        rate_slope: rates.1.zip(rates.0).map(|(last, first)| last / first),
        notices: count,
    }
}

/// Returns the samples while the n-th quarter of the notices was sent, from 1.
fn quarter(samples: &[Sample], count: usize, n: usize) -> Vec<Sample> {
    let range = count * (n - 1) / 4..=count * n / 4;
    // Samples after the last notice show nothing of the rate.
    let mut ended = false;
    let within = samples.iter().filter(|sample| {
        let counts = range.contains(&sample.sent) && !ended;
        ended |= sample.sent >= count;
        counts
    });
    within.copied().collect()
}

fn rss_of_quarter(samples: &[Sample], count: usize, n: usize) -> Option<f64> {
    mean(&quarter(samples, count, n).iter().filter_map(|sample| sample.rss_mib).collect::<Vec<_>>())
}

fn rate_of_quarter(samples: &[Sample], count: usize, n: usize) -> Option<f64> {
    let quarter = quarter(samples, count, n);
    let (first, last) = (quarter.first()?, quarter.last()?);
    let seconds = last.seconds - first.seconds;
    (seconds > 0.0).then(|| as_f64(last.sent - first.sent) / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steadily(rss_mib: impl Fn(usize) -> f64, seconds: impl Fn(usize) -> f64) -> Backlog {
        let sample = |n: usize| Sample { seconds: seconds(n), sent: n * 10, rss_mib: Some(rss_mib(n)) };
        let mut samples: Vec<Sample> = (0..=100).map(sample).collect();
        // It is settling the last ones.
        samples.push(Sample { seconds: seconds(100) + 5.0, sent: 1000, rss_mib: Some(500.0) });
        judge(&samples, 1000, seconds(100), 60.0)
    }

    #[test]
    fn constant_values_have_no_slope() {
        let backlog = steadily(|_| 50.0, as_f64);
        assert_eq!((backlog.rss_slope_mib, backlog.rate_slope), (Some(0.0), Some(1.0)));
        assert_eq!((backlog.rate, backlog.rss_mib), (10.0, 60.0));
    }

    #[test]
    fn growth_and_slowness_are_seen() {
        let backlog = steadily(|n| 50.0 + as_f64(n), |n| if n <= 75 { as_f64(n) } else { 75.0 + 2.0 * as_f64(n - 75) });
        assert_eq!(backlog.rate_slope, Some(0.5));
        // From the middle of the second quarter to that of the last.
        assert_eq!(backlog.rss_slope_mib, Some(50.0));
    }

    #[test]
    fn too_few_samples_have_no_slope() {
        let backlog = judge(&[Sample { seconds: 0.1, sent: 20, rss_mib: None }], 20, 0.1, 9.0);
        assert_eq!((backlog.rss_slope_mib, backlog.rate_slope), (None, None));
    }
}
