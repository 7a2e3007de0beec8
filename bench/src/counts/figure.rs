//! [`Figure`]: a counter per notice over several runs, and whether it is steady enough to be a gate.

use std::collections::BTreeMap;

use crate::statistics::median;

/// The figures of one work, by counter.
pub type Figures = BTreeMap<String, Figure>;

/// How far the runs of a gate may differ, as a share of their median.
const STEADY: f64 = 0.005;

/// A counter per notice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// The median of the runs.
    pub value: f64,
    /// The least of them.
    pub least: f64,
    /// The greatest of them.
    pub greatest: f64,
}

impl Figure {
    /// Returns the figure of these runs; `None` without any.
    pub fn of(runs: &[f64]) -> Option<Self> {
        let value = median(runs)?.value;
        let least = runs.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = runs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Self { value, least, greatest })
    }

    /// Returns the spread of the runs, as a share of their median. Runs that are all zero have none.
    pub fn spread(&self) -> f64 {
        let width = self.greatest - self.least;
        if width == 0.0 { 0.0 } else { width / self.value.abs() }
    }

    /// True if the runs agree well enough to compare this counter with a later one. A negative difference of two runs is an accident.
    pub fn is_steady(&self) -> bool {
        self.value >= 0.0 && self.spread() <= STEADY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_is_steady_up_to_half_a_percent() {
        let figure = Figure::of(&[1000.0, 1004.0, 1001.0]).unwrap();
        assert_eq!((figure.value, figure.least, figure.greatest), (1001.0, 1000.0, 1004.0));
        assert!(figure.is_steady());
        assert!(!Figure::of(&[1000.0, 1006.0, 1001.0]).unwrap().is_steady());
    }

    #[test]
    fn runs_that_are_all_zero_are_steady() {
        assert!(Figure::of(&[0.0, 0.0]).unwrap().is_steady());
        assert!(!Figure::of(&[0.0, 0.0, 0.1]).unwrap().is_steady());
        assert!(!Figure::of(&[-0.002, -0.002]).unwrap().is_steady());
        assert!(Figure::of(&[]).is_none());
    }
}
