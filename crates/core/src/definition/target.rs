//! [`TargetFilter`]: which notices of its definition a target gets (the column `target_filter`).
//!
//! What a target inherits is left to `in_force.rs`.

use std::fmt;
use std::str::FromStr;

use super::NotifyDef;
use crate::path::{Budget, DEEPEST, Logical, Tree, Unjudged, filter, holds};

/// The longest filter, in bytes.
const LONGEST: usize = 2000;

/// The steps of an evaluation that holds up no thread.
const QUICK: u64 = 50_000;

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
        self.judge_within(param, &mut Budget::new())
    }

    /// As [`Self::judge`] where that takes some milliseconds at most; `None`: it belongs on a thread that may block.
    pub fn judge_quickly(&self, param: &str) -> Option<Result<bool, Unjudged>> {
        match self.judge_within(param, &mut Budget::of(QUICK)) {
            Err(Unjudged::TooManySteps { .. }) => None,
            judged => Some(judged),
        }
    }

    fn judge_within(&self, param: &str, budget: &mut Budget) -> Result<bool, Unjudged> {
        holds(&self.filter, &Tree::read(param, budget)?, budget)
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
