//! [`Finding`]: what an examination of a store found, what it means, and what mends it.

use serde::Serialize;

/// One result of an examination. A list of them is sorted with the worst first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The check, in words that do not change: `synchronous_commit`, `indexes`.
    pub check: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What was found.
    pub found: String,
    /// What follows from it. Empty if all is well.
    pub meaning: &'static str,
    /// What mends it: a command, or a sentence. Empty if nothing needs mending.
    pub remedy: String,
}

/// How bad a finding is. The worst is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// All is well.
    Fine,
    /// It could not be examined: a right is missing, for instance.
    Unknown,
    /// It costs speed or comfort, or will become a problem.
    Warning,
    /// A promise is broken, or notices are not sent.
    Problem,
}

impl Severity {
    /// Returns the word that JSON has.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

impl Finding {
    /// All is well.
    pub fn fine(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, severity: Severity::Fine, found: found.into(), meaning: "", remedy: String::new() }
    }

    /// The check could not be done.
    pub fn unknown(check: &'static str, error: impl Into<String>) -> Self {
        let meaning = "this check could not be done, so it proves nothing";
        Self { check, severity: Severity::Unknown, found: error.into(), meaning, remedy: String::new() }
    }

    /// Something to know of.
    pub fn warning(
        check: &'static str,
        found: impl Into<String>,
        meaning: &'static str,
        remedy: impl Into<String>,
    ) -> Self {
        Self { check, severity: Severity::Warning, found: found.into(), meaning, remedy: remedy.into() }
    }

    /// Something to mend.
    pub fn problem(
        check: &'static str,
        found: impl Into<String>,
        meaning: &'static str,
        remedy: impl Into<String>,
    ) -> Self {
        Self { check, severity: Severity::Problem, found: found.into(), meaning, remedy: remedy.into() }
    }
}
