//! [`EditPreview`]: the effect of an edit of a definition on its live notices. A pure function of both rows and of counts,
//! which uses the same code that decides when notices are sent.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::decided::{decided, moved};
use super::listing::Counted;
use crate::alert::trigger::trigger;
use crate::definition::{ColumnValue, Difference, NotifyDef, Policy};
use crate::notice::OwnLimits;
use crate::store::RetryGroup;
use crate::transition::{Event, Next, Transition};

/// The live notices of a definition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InFlight {
    /// The notices that wait for their retry.
    pub retries: Vec<RetryGroup>,
    /// True if there may be more of them.
    pub more: bool,
    /// The notices that were not attempted yet.
    pub not_sent: Counted,
    /// The notices that are being sent.
    pub sending: Counted,
    /// The notices that await their ack.
    pub awaiting_ack: Counted,
    /// The handlers of all living nodes.
    pub handlers: BTreeSet<String>,
}

/// The effect of an edit. It applies to every later decision, and changes no earlier one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EditPreview {
    /// The columns that change.
    #[serde(serialize_with = "crate::definition::as_changes")]
    pub changes: Vec<Difference>,
    /// The notices that wait for their retry, and keep their times. All following numbers count these, and are lower bounds if
    /// there are more.
    pub retries: Counted,
    /// The changes after their next failure, if that has the class of the last one; the most frequent first.
    pub steps: Vec<IntervalChange>,
    /// How many no longer have a try left, and become dead letters when they are due.
    pub out_of_tries: u64,
    /// How many have fewer tries left than before, including those with none left.
    pub fewer_tries: u64,
    /// How many have more tries left than before.
    pub more_tries: u64,
    /// How many of their next failures would raise an alert: before, and after the edit.
    #[serde(serialize_with = "crate::json::before_after")]
    pub alerts: (u64, u64),
    /// How many notices [`super::Operator::retime`] would then move to an earlier time.
    pub earlier: u64,
    /// How many notices it would move to a later time.
    pub later: u64,
    /// The targets that inherit a changed column. The effect on their notices is in no other field: preview the same edit of a target.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inherited_by: Vec<String>,
    /// The notices that were not attempted yet.
    pub not_sent: Counted,
    /// The notices that are being sent; they keep the time-out with which they began.
    pub sending: Counted,
    /// The notices that await their ack, and keep their deadlines.
    pub awaiting_ack: Counted,
    /// The new value of `enabled`, if it changes.
    pub enabled: Option<bool>,
    /// The change of the handler, if there is one.
    pub handler: Option<HandlerChange>,
}

/// A change of what follows the next failure of some waiting retries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IntervalChange {
    /// Before the edit; `None`: the row was invalid, and nothing was sent.
    pub from: Option<NextStep>,
    /// After the edit.
    pub to: NextStep,
    /// The number of retries concerned.
    pub count: u64,
}

/// What follows a failure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
#[serde(tag = "next", content = "detail", rename_all = "snake_case")]
pub enum NextStep {
    /// A retry after this delay, without its jitter.
    Retry(#[serde(serialize_with = "crate::json::duration")] Duration),
    /// A retry after the delay of a named strategy.
    Strategy(String),
    /// No retry: a dead letter.
    DeadLetter,
}

/// A change of the handler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HandlerChange {
    /// The handler before the edit.
    pub from: String,
    /// The handler after the edit.
    pub to: String,
    /// Whether a living node has the new handler.
    pub known: bool,
}

/// Returns the effect of replacing the row `seen` by `new` on the live notices. If a row is invalid only the changed columns
/// are known.
pub fn preview(seen: &NotifyDef, new: &NotifyDef, in_flight: &InFlight) -> EditPreview {
    let handler = |def: &NotifyDef| def.handler_name().to_owned();
    let mut preview = EditPreview {
        changes: seen.differences(new),
        not_sent: in_flight.not_sent,
        sending: in_flight.sending,
        awaiting_ack: in_flight.awaiting_ack,
        enabled: (seen.enabled != new.enabled).then_some(new.enabled),
        handler: (handler(seen) != handler(new)).then(|| HandlerChange {
            from: handler(seen),
            to: handler(new),
            known: in_flight.handlers.contains(new.handler_name()),
        }),
        ..EditPreview::default()
    };
    let (old, Ok(new)) = (seen.policy().ok(), new.policy()) else { return preview };
    for group in &in_flight.retries {
        preview.add(group, old.as_ref(), &new);
    }
    preview.retries.more = in_flight.more;
    preview.steps.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| (&a.from, &a.to).cmp(&(&b.from, &b.to))));
    preview
}

impl EditPreview {
    fn add(&mut self, group: &RetryGroup, old: Option<&Policy>, new: &Policy) {
        let (count, own) = (group.count, OwnLimits::new(group.max_tries, None));
        let (old, new) = (old.map(|old| old.within(&own)), &*new.within(&own));
        let old = old.as_deref();
        self.retries.count += count;
        let left = tries_left(new, group);
        let left_before = old.map(|old| tries_left(old, group));
        // No limit counts as more than any number.
        let many = |left: Option<u64>| left.unwrap_or(u64::MAX);
        if let Some(before) = left_before {
            self.fewer_tries += if many(left) < many(before) { count } else { 0 };
            self.more_tries += if many(left) > many(before) { count } else { 0 };
        }
        if left == Some(0) {
            self.out_of_tries += if left_before == Some(Some(0)) { 0 } else { count };
        } else {
            let (from, to) = (old.map(|old| next_step(old, group)), next_step(new, group));
            if from.as_ref() != Some(&to) {
                match self.steps.iter_mut().find(|step| step.from == from && step.to == to) {
                    Some(step) => step.count += count,
                    None => self.steps.push(IntervalChange { from, to, count }),
                }
            }
        }
        let alerts = |policy: &Policy| if raises_alert(policy, group) { count } else { 0 };
        self.alerts.0 += old.map_or(0, alerts);
        self.alerts.1 += alerts(new);
        if new.interval.strategy().is_none()
            && let (Some(delay), Some(wait)) = (moved(new, group, 0.0), group.wait)
        {
            *(if delay < wait { &mut self.earlier } else { &mut self.later }) += count;
        }
    }

    fn differs_in(&self, columns: &[&str]) -> bool {
        self.changes.iter().any(|(column, ..)| columns.contains(column))
    }
}

/// Returns how many more attempts there are if each fails as the last one did; `None`: no limit.
pub(super) fn tries_left(policy: &Policy, group: &RetryGroup) -> Option<u64> {
    let (class, tries) = (group.error_class(), group.tries());
    if group.expires_first() || policy.is_exhausted_in_all(tries) {
        return Some(0);
    }
    let exhausted = |more: i64| policy.is_exhausted_in(class, tries.saturating_add(more));
    if !exhausted(i64::MAX) {
        return None;
    }
    // Once exhausted, a class stays so with more tries. Binary search for the first such number.
    let (mut left, mut enough) = (0, i64::MAX);
    while enough - left > 1 {
        let middle = left + (enough - left) / 2;
        if exhausted(middle) { enough = middle } else { left = middle }
    }
    u64::try_from(enough).ok()
}

fn next_step(policy: &Policy, group: &RetryGroup) -> NextStep {
    match after_next_failure(policy, group, &group.failure()).next {
        Next::Finish { .. } => NextStep::DeadLetter,
        Next::Wait { after, .. } => match policy.interval_in(group.error_class()).strategy() {
            Some(name) => NextStep::Strategy(name.to_owned()),
            None => NextStep::Retry(after),
        },
    }
}

/// Returns whether the next failure of these raises an alert.
fn raises_alert(policy: &Policy, group: &RetryGroup) -> bool {
    let event = group.failure();
    trigger(policy, &event, &after_next_failure(policy, group, &event)).is_some()
}

/// Returns the decision on their next failure, if that attempt begins when it is due.
fn after_next_failure(policy: &Policy, group: &RetryGroup, event: &Event) -> Transition {
    decided(policy, group, event, 0.0, group.wait.unwrap_or_default())
}

impl fmt::Display for NextStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retry(after) => write!(f, "{}", humantime::format_duration(*after)),
            Self::Strategy(name) => write!(f, "strategy:{name}"),
            Self::DeadLetter => f.write_str("a dead letter"),
        }
    }
}

/// The maximum number of interval changes that the text lists.
const TOLD: usize = 5;

impl fmt::Display for EditPreview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.changes.is_empty() {
            return f.write_str("nothing changes");
        }
        for (n, (column, before, after)) in self.changes.iter().enumerate() {
            f.write_str(if n == 0 { "" } else { "; " })?;
            match *column {
                // It may contain a secret, and this text stands in logs.
                "handler_config" => write!(f, "{column}: changed")?,
                _ => write!(f, "{column}: {} -> {}", Shown(before), Shown(after))?,
            }
        }
        let waiting =
            Counted { count: self.retries.count + self.not_sent.count, more: self.retries.more || self.not_sent.more };
        match self.enabled {
            Some(false) => write!(f, "\n{waiting} notices wait until it is enabled again; what is being sent ends")?,
            Some(true) => write!(f, "\n{waiting} notices may be sent again")?,
            None => {}
        }
        if let Some(HandlerChange { from, to, known }) = &self.handler {
            let unknown = if *known { "" } else { ", which no living node has: they wait" };
            write!(f, "\n{waiting} notices go to the handler {to:?} instead of {from:?}{unknown}")?;
        }
        if self.retries.count > 0 {
            write!(
                f,
                "\nwaiting retries, which keep their times: {}{}",
                if self.retries.more { "at least " } else { "" },
                self.retries.count
            )?;
        }
        if self.earlier + self.later > 0 {
            write!(f, "; `retime` would move {} to an earlier time, {} to a later one", self.earlier, self.later)?;
        }
        for IntervalChange { from, to, count } in self.steps.iter().take(TOLD) {
            match from {
                Some(from) => write!(f, "\nafter the next failure of {count}: {to} instead of {from}")?,
                None => write!(f, "\nafter the next failure of {count}: {to}")?,
            }
        }
        if let Some(rest) = self.steps.get(TOLD..).filter(|rest| !rest.is_empty()) {
            write!(f, "\nand other changes of {}", rest.iter().map(|step| step.count).sum::<u64>())?;
        }
        for (count, what) in [
            (self.out_of_tries, "without a try left, dead letters when they are due"),
            (self.fewer_tries - self.out_of_tries.min(self.fewer_tries), "with fewer tries left"),
            (self.more_tries, "with more tries left"),
        ] {
            if count > 0 {
                write!(f, "\n{what}: {count}")?;
            }
        }
        if self.alerts.0 != self.alerts.1 {
            write!(f, "\n{} of the next failures alert instead of {}", self.alerts.1, self.alerts.0)?;
        }
        if self.awaiting_ack.count > 0 && self.differs_in(&["need_confirm", "max_confirm_delay"]) {
            write!(f, "\n{} that await their ack keep their deadlines", self.awaiting_ack)?;
        }
        if self.sending.count > 0 && self.differs_in(&["timeout"]) {
            write!(f, "\n{} that are being sent keep their time-out", self.sending)?;
        }
        if !self.inherited_by.is_empty() {
            let names = self.inherited_by.join(", ");
            write!(f, "\ninherited by {names}: preview the same edit there to see its effect on their notices")?;
        }
        Ok(())
    }
}

/// A value as stored in the row.
struct Shown<'a>(&'a ColumnValue);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ColumnValue::Text(Some(text)) => write!(f, "{text:?}"),
            ColumnValue::Int(Some(number)) => write!(f, "{number}"),
            ColumnValue::Bool(flag) => write!(f, "{flag}"),
            ColumnValue::Text(None) | ColumnValue::Int(None) => f.write_str("null"),
        }
    }
}

#[cfg(test)]
#[path = "edit_preview_tests.rs"]
mod tests;
