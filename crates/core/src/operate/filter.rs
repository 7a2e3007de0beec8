//! [`Filter`]: which notices to list or change.

use std::fmt;

use chrono::{DateTime, Utc};

use crate::add::problem_of_key;
use crate::error::{Error, Result};
pub use crate::error_group::NO_CLASS;
use crate::notice::Status;
use crate::notice::rfc3339;
use crate::store::{Only, TextSearch};

/// Selects notices by state, and optionally by definition, time, tag, keys, ids, the text of ended notices, and the class of dead letters.
/// All conditions apply together.
///
/// The time of an ended notice is when it ended; that of a live one is when it is due next.
///
/// ```
/// # use std::time::Duration;
/// # use chrono::{DateTime, Utc};
/// use solid_notify_core::operate::Filter;
///
/// let yesterday = Utc::now() - Duration::from_secs(86_400);
/// let filter = Filter::dead_letters().definition("sync_to_omp").class("timeout").from(yesterday);
/// assert!(filter.to_string().starts_with("dead letters of sync_to_omp, class timeout, from 2"));
///
/// let of_order = Filter::dead_letters().tag("order:42");
/// assert_eq!(of_order.to_string(), "dead letters of all definitions, tag order:42");
/// let refused = Filter::dead_letters().text("credit limit").from(yesterday);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    pub(super) statuses: Vec<Status>,
    pub(super) definition: Option<String>,
    pub(super) class: Option<String>,
    pub(super) group: Option<i64>,
    pub(super) from: Option<DateTime<Utc>>,
    pub(super) until: Option<DateTime<Utc>>,
    pub(super) only: Only,
}

/// The most ids of a filter.
pub const MOST_IDS: usize = 1000;
/// The longest text to search for, in characters.
const TEXT_LIMIT: usize = 1000;
/// How many ids the text of a filter names.
const SHOWN_IDS: usize = 5;

impl Filter {
    fn of(statuses: &[Status]) -> Self {
        Self {
            statuses: statuses.to_vec(),
            definition: None,
            class: None,
            group: None,
            from: None,
            until: None,
            only: Only::default(),
        }
    }

    /// Selects dead letters.
    pub fn dead_letters() -> Self {
        Self::of(&[Status::DeadLetter])
    }

    /// Selects notices that were cancelled, by an operator, a handler that skipped them or the filter of their target, or that were added as skipped.
    pub fn cancelled() -> Self {
        Self::of(&[Status::Cancelled])
    }

    /// Selects ended notices.
    pub fn ended() -> Self {
        Self::of(&[Status::Succeeded, Status::DeadLetter, Status::Cancelled])
    }

    /// Selects live notices.
    pub fn live() -> Self {
        Self::of(&Status::LIVE)
    }

    /// Selects live notices that are not being sent.
    pub fn waiting() -> Self {
        Self::of(&[Status::NotSent, Status::Failed, Status::AwaitingAck])
    }

    /// Selects notices of this state.
    pub fn status(status: Status) -> Self {
        Self::of(&[status])
    }

    /// Only of the definition with this name.
    #[must_use]
    pub fn definition(mut self, name: impl Into<String>) -> Self {
        self.definition = Some(name.into());
        self
    }

    /// Only of this class ([`NO_CLASS`]: without one). For dead letters only, because no index contains the class of other
    /// notices.
    #[must_use]
    pub fn class(mut self, class: impl Into<String>) -> Self {
        self.class = Some(class.into());
        self
    }

    /// Only of this group, as [`super::Operator::groups`] returns it; a group has one definition and one class. For dead letters only.
    #[must_use]
    pub fn group(mut self, group: i64) -> Self {
        self.group = Some(group);
        self
    }

    /// Only from this time on.
    #[must_use]
    pub fn from(mut self, time: DateTime<Utc>) -> Self {
        self.from = Some(time);
        self
    }

    /// Only up to this time.
    #[must_use]
    pub fn until(mut self, time: DateTime<Utc>) -> Self {
        self.until = Some(time);
        self
    }

    /// Only of this tag ([`NewNotice::tag`](crate::NewNotice::tag)).
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.only.tag = Some(tag.into());
        self
    }

    /// Only of this ordering key.
    #[must_use]
    pub fn ordering_key(mut self, key: impl Into<String>) -> Self {
        self.only.ordering_key = Some(key.into());
        self
    }

    /// Only those that were added with this dedupe key, also if it is no longer unique.
    #[must_use]
    pub fn dedupe_key(mut self, key: impl Into<String>) -> Self {
        self.only.dedupe_key = Some(key.into());
        self
    }

    /// Only these notices, 1 to [`MOST_IDS`]. An id that selects nothing, because its notice is in another state or gone, is no error.
    #[must_use]
    pub fn ids(mut self, ids: impl IntoIterator<Item = i64>) -> Self {
        let mut ids: Vec<i64> = ids.into_iter().collect();
        ids.sort_unstable();
        ids.dedup();
        self.only.ids = Some(ids);
        self
    }

    /// Only those with this text, as it is written, in the message of their last failed attempt or in the JSON of their parameter. For
    /// ended notices only, and only with [`Self::from`], because each notice of that time is read.
    ///
    /// It finds nothing that people must not see. Parameters of a definition with a mask are not searched, and the masked values are not
    /// found in its errors.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.only.text = Some(TextSearch { text: text.into(), in_param: true });
        self
    }

    /// Rejects filters that no index serves, values that nothing can have, and statuses outside `allowed`.
    pub(super) fn check(&self, allowed: &[Status], otherwise: &str) -> Result<()> {
        let wrong = |problem: String| Err(Error::Invalid { what: "filter", problem });
        if self.class.is_some() && self.statuses != [Status::DeadLetter] {
            return wrong(
                "only dead letters can be filtered by class, because no index has the class of others".to_owned(),
            );
        }
        if self.group.is_some() && (self.statuses != [Status::DeadLetter] || self.class.is_some()) {
            return wrong("a group is one of dead letters, and has one class: filter by the group alone".to_owned());
        }
        if let Some(problem) = self.problem_of_only() {
            return wrong(problem);
        }
        match self.statuses.iter().find(|status| !allowed.contains(status)) {
            Some(status) => wrong(format!("{}: {otherwise}", name_of(*status))),
            None => Ok(()),
        }
    }

    fn problem_of_only(&self) -> Option<String> {
        let Only { ids, tag, ordering_key, dedupe_key, text } = &self.only;
        let keys = [("tag", tag), ("ordering key", ordering_key), ("dedupe key", dedupe_key)];
        if let Some(problem) = keys.into_iter().find_map(|(part, key)| problem_of_key(part, key.as_deref()?)) {
            return Some(format!("its {problem}"));
        }
        if let Some(ids) = ids
            && !(1..=MOST_IDS).contains(&ids.len())
        {
            return Some(format!("it has {} ids; it may have 1 to {MOST_IDS}", ids.len()));
        }
        let TextSearch { text, .. } = text.as_ref()?;
        let length = text.chars().count();
        if !(1..=TEXT_LIMIT).contains(&length) || text.contains('\0') {
            return Some(format!(
                "its text has {length} characters; it may have 1 to {TEXT_LIMIT}, and no NUL character"
            ));
        }
        if let Some(live) = self.statuses.iter().find(|status| !status.is_final()) {
            let live = name_of(*live);
            return Some(format!(
                "a text is searched in ended notices only, not in those {live}; use `Filter::ended()`"
            ));
        }
        let problem =
            "a text is searched only within a range of time, because each notice of it is read; add `from(time)`";
        self.from.is_none().then(|| problem.to_owned())
    }
}

pub(super) fn name_of(status: Status) -> &'static str {
    match status {
        Status::NotSent => "not sent",
        Status::Succeeded => "succeeded",
        Status::Failed => "failed",
        Status::DeadLetter => "dead letters",
        Status::AwaitingAck => "awaiting ack",
        Status::Sending => "being sent",
        Status::Cancelled => "cancelled",
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.statuses.iter().map(|status| name_of(*status)).collect();
        f.write_str(&names.join(", "))?;
        match &self.definition {
            Some(name) => write!(f, " of {name}")?,
            None => f.write_str(" of all definitions")?,
        }
        if let Some(class) = &self.class {
            write!(f, ", class {class}")?;
        }
        if let Some(group) = &self.group {
            write!(f, ", group {group}")?;
        }
        let Only { ids, tag, ordering_key, dedupe_key, text } = &self.only;
        for (word, value) in [("tag", tag), ("ordering key", ordering_key), ("dedupe key", dedupe_key)] {
            if let Some(value) = value {
                write!(f, ", {word} {value}")?;
            }
        }
        if let Some(ids) = ids {
            let shown: Vec<String> = ids.iter().take(SHOWN_IDS).map(i64::to_string).collect();
            let more = ids.len().saturating_sub(SHOWN_IDS);
            write!(f, ", ids {}", shown.join(" "))?;
            if more > 0 {
                write!(f, " and {more} more")?;
            }
        }
        if let Some(text) = text {
            // Not the text itself, which may be what its operator must not show to all readers of the audit.
            write!(f, ", a text of {} characters", text.text.chars().count())?;
        }
        for (word, time) in [("from", self.from), ("until", self.until)] {
            if let Some(time) = time {
                write!(f, ", {word} {}", rfc3339(time))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_known_of_dead_letters_only() {
        assert!(Filter::dead_letters().class("timeout").check(&[Status::DeadLetter], "").is_ok());
        assert!(Filter::cancelled().class("timeout").check(&[Status::Cancelled], "").is_err());
        assert!(Filter::dead_letters().group(-7).check(&[Status::DeadLetter], "").is_ok());
        assert!(Filter::ended().group(-7).check(&Filter::ended().statuses, "").is_err());
        assert!(Filter::dead_letters().group(-7).class("timeout").check(&[Status::DeadLetter], "").is_err());
        assert_eq!(Filter::dead_letters().group(-7).to_string(), "dead letters of all definitions, group -7");
        let error = Filter::live().check(&[Status::DeadLetter], "they have not ended").unwrap_err().to_string();
        assert!(error.contains("not sent: they have not ended"), "{error}");
    }

    fn problem(filter: &Filter) -> String {
        filter.check(&filter.statuses, "").unwrap_err().to_string()
    }

    #[test]
    fn bad_conditions_are_refused_with_what_would_be_right() {
        let ended = Filter::ended;
        let dated = || Filter::ended().from(DateTime::UNIX_EPOCH);
        for (filter, expected) in [
            (ended().tag(""), "its tag has 0 characters; it may have 1 to 200"),
            (ended().ordering_key("k".repeat(201)), "its ordering key has 201 characters; it may have 1 to 200"),
            (ended().dedupe_key("a\0"), "its dedupe key has 2 characters; it may have 1 to 200, and no NUL"),
            (ended().ids(0..1001), "it has 1001 ids; it may have 1 to 1000"),
            (ended().ids([]), "it has 0 ids; it may have 1 to 1000"),
            (dated().text(""), "its text has 0 characters; it may have 1 to 1000"),
            (
                ended().text("refused"),
                "only within a range of time, because each notice of it is read; add `from(time)`",
            ),
            (
                Filter::live().from(DateTime::UNIX_EPOCH).text("refused"),
                "a text is searched in ended notices only, not in those not sent; use `Filter::ended()`",
            ),
        ] {
            let problem = problem(&filter);
            assert!(problem.contains(expected), "{problem}");
        }
        let most = ended().ids((0..1000).chain(0..1000)).tag("ü".repeat(200));
        assert!(most.check(&most.statuses, "").is_ok(), "an id twice counts once");
        let text = dated().text("refused");
        assert!(text.check(&text.statuses, "").is_ok());
    }

    #[test]
    fn text_of_a_filter_names_its_conditions_and_not_the_searched_text() {
        let filter = Filter::cancelled().tag("order:42").ordering_key("o").dedupe_key("d").ids(1..=7).text("4111");
        let expected = "cancelled of all definitions, tag order:42, ordering key o, dedupe key d, ids 1 2 3 4 5 and 2 more, \
                        a text of 4 characters";
        assert_eq!(filter.to_string(), expected);
    }
}
