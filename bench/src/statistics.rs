//! The figures of a series of repetitions: the median and an interval for it that assumes nothing about the distribution.
//!
//! The workloads decide what is measured, and `targets` which results are good enough.

use serde::Serialize;

/// A median with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Median {
    /// The median itself.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
    /// The probability that the interval contains the true median.
    pub confidence: f64,
}

/// The confidence that an interval must have before a narrower one is taken.
const WANTED_CONFIDENCE: f64 = 0.95;

/// The median of `values` with an interval from order statistics; `None` without any values.
///
/// Each value lies below the true median with probability 1/2, so the number of those that do is binomial: the interval
/// from the k-th smallest to the k-th largest of n misses it with probability `2 · P(Bin(n, 1/2) < k)`. Taken is the
/// narrowest interval of at least 95 %, or the widest one where so few values give less (7 values: 98.4 %).
pub fn median(values: &[f64]) -> Option<Median> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let value = middle(&sorted)?;
    let n = sorted.len();
    let narrowest = (1..=n.div_ceil(2)).rev().find(|k| confidence(n, *k) >= WANTED_CONFIDENCE);
    let k = narrowest.unwrap_or(1);
    Some(Median { value, low: *sorted.get(k - 1)?, high: *sorted.get(n - k)?, confidence: confidence(n, k) })
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    Some(if sorted.len() % 2 == 1 { upper } else { (sorted[sorted.len() / 2 - 1] + upper) / 2.0 })
}

/// Returns the confidence of the interval from the k-th smallest to the k-th largest of n values.
fn confidence(n: usize, k: usize) -> f64 {
    let mut probability = 0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    let mut below = 0.0;
    for i in 0..k {
        below += probability;
        // From the probability of i values below the median to that of i + 1.
        probability *= as_f64(n - i) / as_f64(i + 1);
    }
    (1.0 - 2.0 * below).max(0.0)
}

/// The smallest value that is at least as large as `share` of the values; `None` without any values.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A rank, not negative.
    let rank = (share * as_f64(sorted.len())).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// The mean; `None` without any values.
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() { None } else { Some(values.iter().sum::<f64>() / as_f64(values.len())) }
}

/// A count as a number to reckon with. Counts are far below 2^52.
#[allow(clippy::cast_precision_loss)]
pub fn as_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_pairs_give_their_whole_range_with_98_4_percent() {
        let median = median(&[1.0, 0.9, 0.8, 1.1, 0.95, 0.7, 1.2]).unwrap();
        assert_eq!((median.value, median.low, median.high), (0.95, 0.7, 1.2));
        assert!((median.confidence - 0.984_375).abs() < 1e-9);
    }

    #[test]
    fn more_values_give_a_narrower_interval_of_at_least_95_percent() {
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        let median = median(&values).unwrap();
        // From the tables: 20 values, sixth smallest to sixth largest, 95.86 %.
        assert_eq!((median.value, median.low, median.high), (10.5, 6.0, 15.0));
        assert!((median.confidence - 0.9586).abs() < 1e-4);
    }

    #[test]
    fn interval_of_few_values_has_a_low_confidence() {
        let one = median(&[2.0]).unwrap();
        assert_eq!((one.value, one.low, one.high, one.confidence), (2.0, 2.0, 2.0, 0.0));
        let three = median(&[1.0, 2.0, 3.0]).unwrap();
        assert!((three.confidence - 0.75).abs() < 1e-9);
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let values: Vec<f64> = (1..=300).rev().map(f64::from).collect();
        assert_eq!(quantile(&values, 0.5), Some(150.0));
        assert_eq!(quantile(&values, 0.99), Some(297.0));
        assert_eq!(quantile(&[7.0], 0.99), Some(7.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn the_mean_of_nothing_is_none() {
        assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
        assert_eq!(mean(&[]), None);
    }
}
