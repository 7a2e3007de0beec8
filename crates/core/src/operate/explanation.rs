//! [`Explanation`]: what an operator is shown of why a notice is not sent yet.

use std::fmt;

use serde::Serialize;

use super::explain::Why;
use super::explain_context::ExplainContext;
use crate::notice::NoticeRecord;

/// Returned by [`super::Operator::explain`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The tag of the notice, if it has one.
    pub tag: Option<String>,
    /// Why it is not sent yet, or how it ended.
    #[serde(flatten)]
    pub why: Why,
}

impl Explanation {
    pub(super) fn of(notice: &NoticeRecord, around: &ExplainContext) -> Self {
        Self { tag: notice.tag.clone(), why: Why::of(notice, around) }
    }

    pub(super) fn not_found() -> Self {
        Self { tag: None, why: Why::NotFound }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)?;
        self.tag.as_ref().map_or(Ok(()), |tag| write!(f, "; its tag is {tag:?}"))
    }
}
