//! The order of repetitions: pairs, each side first in turn, so that drifts (the machine's other work, the disk, the heat)
//! affect both sides alike.

use anyhow::{Context, Result};
use serde::Serialize;

use crate::statistics::median;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Pairs of repetitions that count.
    pub repetitions: usize,
    /// A two-hundredth of everything, once: whether it works, not how fast it is.
    pub quick: bool,
    /// The raw side has tables like ours.
    pub like_ours: bool,
}

impl Plan {
    /// The repetitions of a run. The first one warms up, except in a quick run, which only checks that the bench works.
    pub fn numbers(&self) -> std::ops::RangeInclusive<usize> {
        usize::from(self.quick)..=self.repetitions
    }

    /// A count, scaled.
    pub fn scaled(&self, count: usize) -> usize {
        if self.quick { (count / 200).max(1) } else { count }
    }
}

/// The measured side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// solid-notify.
    Ours,
    /// The side that it is compared with.
    Raw,
}

/// A series of rates of ours.
#[derive(Debug, Clone, Serialize)]
pub struct Rate {
    /// The median, per second.
    pub ours: f64,
    /// The lower end of the median's interval.
    pub low: f64,
    /// The upper end of the median's interval.
    pub high: f64,
    /// The confidence of the interval.
    pub confidence: f64,
    /// How many repetitions counted.
    pub repetitions: usize,
}

/// Two series of rates, measured in pairs.
#[derive(Debug, Clone, Serialize)]
pub struct Compared {
    /// The other side.
    pub against: &'static str,
    /// The median of our side, per second.
    pub ours: f64,
    /// The median of the other side, per second.
    pub raw: f64,
    /// The median of the ratios within each pair.
    pub ratio: f64,
    /// The lower end of the ratio's interval.
    pub ratio_low: f64,
    /// The upper end of the ratio's interval.
    pub ratio_high: f64,
    /// The confidence of the interval.
    pub confidence: f64,
    /// How many pairs counted.
    pub repetitions: usize,
}

/// The usual other side.
pub const RAW: &str = "raw";

/// Measures rates of ours; the first one warms up and does not count.
///
/// # Errors
/// Those of `rate`.
pub async fn series(plan: Plan, mut rate: impl AsyncFnMut() -> Result<f64>) -> Result<Rate> {
    let mut rates = Vec::new();
    for repetition in plan.numbers() {
        let rate = rate().await?;
        eprintln!("    {rate:>10.0}/s{}", note(repetition));
        if repetition > 0 {
            rates.push(rate);
        }
    }
    let median = median(&rates).context("no repetition was measured")?;
    let (low, high, confidence) = (median.low, median.high, median.confidence);
    Ok(Rate { ours: median.value, low, high, confidence, repetitions: rates.len() })
}

fn note(repetition: usize) -> &'static str {
    if repetition == 0 { " (warm-up)" } else { "" }
}

/// Measures pairs of rates, ours `against` another side's; the first pair warms up and does not count.
///
/// # Errors
/// Those of `rate`.
pub async fn pairs(
    plan: Plan,
    against: &'static str,
    mut rate: impl AsyncFnMut(Side) -> Result<f64>,
) -> Result<Compared> {
    let (mut ours, mut raw, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for repetition in plan.numbers() {
        let (our, other);
        if repetition % 2 == 0 {
            our = rate(Side::Ours).await?;
            other = rate(Side::Raw).await?;
        } else {
            other = rate(Side::Raw).await?;
            our = rate(Side::Ours).await?;
        }
        eprintln!("    {our:>10.0}/s against {other:>10.0}/s: {:.3}{}", our / other, note(repetition));
        if repetition > 0 {
            ours.push(our);
            raw.push(other);
            ratios.push(our / other);
        }
    }
    let ratio = median(&ratios).context("no repetition was measured")?;
    let middle = |values: &[f64]| median(values).map_or(f64::NAN, |median| median.value);
    Ok(Compared {
        against,
        ours: middle(&ours),
        raw: middle(&raw),
        ratio: ratio.value,
        ratio_low: ratio.low,
        ratio_high: ratio.high,
        confidence: ratio.confidence,
        repetitions: ratios.len(),
    })
}
