//! [`TargetFilter`]: which notices of its definition a target gets (the column `target_filter`).
//!
//! What a target inherits is left to `in_force.rs`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::NotifyDef;
use crate::path::{Budget, DEEPEST, Logical, QUICK, STEPS, Tree, Unjudged, filter, holds};

/// The longest filter, in bytes.
const LONGEST: usize = 2000;

const EXPECTED: &str = "a filter expression of JSONPath (RFC 9535) in which `@` is the parameter, such as `@.amount > 100 && @.country == 'DE'`";

/// Which parameters a target gets: the column `target_filter`, a filter expression of JSONPath (RFC 9535), without `$[?` and `]`.
/// `@` is the parameter.
///
/// Numbers are compared exactly, whatever their size, and texts as they are written.
///
/// ```
/// use solid_notify_core::definition::TargetFilter;
/// let filter: TargetFilter = "@.amount >= 100 && @.country == 'DE'".parse()?;
/// assert_eq!(filter.judge(r#"{"amount":250,"country":"DE"}"#), Ok(true));
/// assert_eq!(filter.judge(r#"{"amount":250}"#), Ok(false));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone)]
pub struct TargetFilter {
    text: String,
    filter: Logical,
}

impl FromStr for TargetFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            let bytes = text.len();
            return Err(format!(
                "{EXPECTED}; at most {LONGEST} bytes, with at most {DEEPEST} brackets in one another; it has {bytes} bytes"
            ));
        }
        let filter = filter(text).map_err(|problem| format!("{EXPECTED}; {problem}"))?;
        Ok(Self { text: text.to_owned(), filter })
    }
}

impl TargetFilter {
    /// Returns whether it lets a parameter through.
    ///
    /// # Errors
    /// [`Unjudged`], if that takes more steps than one evaluation may take, or the parameter is too long, too deep or not JSON.
    pub fn judge(&self, param: &str) -> Result<bool, Unjudged> {
        let mut budget = Budget::default();
        holds(&self.filter, &Tree::read(param, &mut budget)?, &mut budget)
    }

    /// Returns for the first of these filters whether they let a parameter through: for those that can be judged in some milliseconds together.
    pub fn judge_quickly(filters: &[Arc<Self>], param: &str) -> Vec<Result<bool, Unjudged>> {
        let mut budget = Budget::of(QUICK);
        let tree = match Tree::read(param, &mut budget) {
            Ok(tree) => tree,
            Err(Unjudged::TooManySteps { .. }) => return Vec::new(),
            Err(unjudged) => return vec![Err(unjudged); filters.len()],
        };
        let judge = |filter: &Arc<Self>| match holds(&filter.filter, &tree, &mut budget) {
            Err(Unjudged::TooManySteps { .. }) => None,
            judged => Some(judged),
        };
        filters.iter().map_while(judge).collect()
    }

    /// The same where that may take a processor for as long as one evaluation, at most twice: for at least one of them.
    pub fn judge_some(filters: &[Arc<Self>], param: &str) -> Vec<Result<bool, Unjudged>> {
        let mut reading = Budget::default();
        let tree = match Tree::read(param, &mut reading) {
            Ok(tree) => tree,
            Err(unjudged) => return vec![Err(unjudged); filters.len()],
        };
        let (mut judged, mut used) = (Vec::new(), STEPS - reading.left());
        for filter in filters {
            // As if it were judged by itself.
            let mut budget = Budget::of(reading.left());
            judged.push(holds(&filter.filter, &tree, &mut budget));
            used += reading.left() - budget.left();
            if used >= STEPS {
                break;
            }
        }
        judged
    }
}

impl PartialEq for TargetFilter {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Display for TargetFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for TargetFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TargetFilter").field(&self.text).finish()
    }
}

impl NotifyDef {
    /// Returns the filter of a target that has one.
    pub fn filter(&self) -> Option<Result<TargetFilter, String>> {
        self.target_filter.as_deref().filter(|text| !text.trim().is_empty()).map(str::parse)
    }
}

#[cfg(test)]
#[path = "target_tests.rs"]
mod tests;
