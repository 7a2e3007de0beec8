//! Options that select notices, for lists and bulk acts.

use chrono::{DateTime, Utc};
use clap::{Args, ValueEnum};
use solid_notify::{Filter, Status};

use crate::exit::{Failure, Outcome};
use crate::times;

/// Conditions on notices. All of them apply together.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Selection")]
pub(crate) struct Select {
    /// Only notices of this definition
    #[arg(long = "def", short = 'd', value_name = "NAME")]
    definition: Option<String>,
    /// Only dead letters of this error class: timeout, network, busy, …
    #[arg(long)]
    class: Option<String>,
    /// Only dead letters of this group: see `dead groups`
    #[arg(long, allow_hyphen_values = true, value_name = "NUMBER")]
    group: Option<i64>,
    /// Only notices with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Only notices with this ordering key
    #[arg(long, value_name = "KEY")]
    ordering_key: Option<String>,
    /// Only notices with this dedupe key
    #[arg(long, value_name = "KEY")]
    dedupe_key: Option<String>,
    /// Only these notices, separated by commas
    #[arg(id = "selected_ids", long = "ids", value_delimiter = ',', value_name = "IDS")]
    ids: Vec<i64>,
    /// Only ended notices that contain this text; it needs --from
    #[arg(long)]
    text: Option<String>,
    /// Only from this time on: 2026-11-21T12:00:00Z, 2026-11-21, or 2h (two hours ago)
    #[arg(long, value_parser = times::past, value_name = "TIME")]
    from: Option<DateTime<Utc>>,
    /// Only up to this time
    #[arg(long, value_parser = times::past, value_name = "TIME")]
    until: Option<DateTime<Utc>>,
}

impl Select {
    /// Adds the conditions to a filter.
    pub(crate) fn narrow(&self, mut filter: Filter) -> Filter {
        if let Some(name) = &self.definition {
            filter = filter.definition(name);
        }
        if let Some(class) = &self.class {
            filter = filter.class(class);
        }
        if let Some(group) = self.group {
            filter = filter.group(group);
        }
        if let Some(tag) = &self.tag {
            filter = filter.tag(tag);
        }
        if let Some(key) = &self.ordering_key {
            filter = filter.ordering_key(key);
        }
        if let Some(key) = &self.dedupe_key {
            filter = filter.dedupe_key(key);
        }
        if !self.ids.is_empty() {
            filter = filter.ids(self.ids.iter().copied());
        }
        if let Some(text) = &self.text {
            filter = filter.text(text);
        }
        if let Some(from) = self.from {
            filter = filter.from(from);
        }
        if let Some(until) = self.until {
            filter = filter.until(until);
        }
        filter
    }

    /// As [`Self::narrow`], for a bulk act: it needs a condition, or `--all`.
    pub(crate) fn narrow_for_act(&self, filter: Filter, all: bool) -> Outcome<Filter> {
        if self.selects_all() && !all {
            return Err(Failure::usage("a bulk act needs a condition, such as --def NAME, or --all"));
        }
        Ok(self.narrow(filter))
    }

    /// Returns true if there is no condition.
    pub(crate) fn selects_all(&self) -> bool {
        let texts = [&self.definition, &self.class, &self.tag, &self.ordering_key, &self.dedupe_key, &self.text];
        let times = [self.from, self.until];
        texts.into_iter().all(Option::is_none)
            && times.into_iter().all(|time| time.is_none())
            && self.group.is_none()
            && self.ids.is_empty()
    }
}

/// States of notices by which lists are filtered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum State {
    /// All that have not ended
    Live,
    /// All that have ended
    Ended,
    /// Live, and not being sent
    Waiting,
    NotSent,
    Failed,
    Sending,
    AwaitingAck,
    Succeeded,
    DeadLetter,
    Cancelled,
}

impl State {
    pub(crate) fn filter(self) -> Filter {
        match self {
            Self::Live => Filter::live(),
            Self::Ended => Filter::ended(),
            Self::Waiting => Filter::waiting(),
            Self::NotSent => Filter::status(Status::NotSent),
            Self::Failed => Filter::status(Status::Failed),
            Self::Sending => Filter::status(Status::Sending),
            Self::AwaitingAck => Filter::status(Status::AwaitingAck),
            Self::Succeeded => Filter::status(Status::Succeeded),
            Self::DeadLetter => Filter::status(Status::DeadLetter),
            Self::Cancelled => Filter::status(Status::Cancelled),
        }
    }
}

/// Returns a state for people.
pub(crate) fn word(status: Status) -> &'static str {
    match status {
        Status::NotSent => "not sent",
        Status::Succeeded => "succeeded",
        Status::Failed => "failed",
        Status::DeadLetter => "dead letter",
        Status::AwaitingAck => "awaiting ack",
        Status::Sending => "being sent",
        Status::Cancelled => "cancelled",
    }
}
