//! [`Alert`]: the content of an alert to an operator. It is the parameter of the notices of the built-in definition
//! [`ALERT_DEFINITION`], so any handler can send it; ready ones are in the crate `solid-notify-channels`.

pub mod advance;
pub mod cooldown;
pub mod recipients;
pub mod silence;
pub mod trigger;

use serde::{Deserialize, Serialize};

pub use crate::alarm::AlertReason;

use crate::alarm::{Alarm, Cause};
use crate::definition::NotifyDef;
use crate::notice::{rfc3339, time_from_millis};

/// The name of the built-in definition whose notices are alerts, and of its handler.
pub const ALERT_DEFINITION: &str = "notify.alert";

/// Returns the built-in definition, which sweepers create if it is missing. An existing row is not changed.
pub fn built_in() -> NotifyDef {
    NotifyDef::plain(ALERT_DEFINITION)
        .description("Alerts: tells people of what fails. Its email and alert_to hold for definitions that have none.")
        // Retries for about a day, so that a wrong password or address can be corrected meanwhile.
        .retry_interval("[10s,1m,5m,15m]")
        .max_retry_times(100)
        .retry_rules(r#"{ "auth": 101, "invalid": 101, "not_found": 101 }"#)
        .alert_trigger_type("never")
}

/// An alert as its handler receives it: the parameter of a notice of [`ALERT_DEFINITION`]. It is stored without recipients, and the
/// sweeper adds those that the rows name when it sends the notice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Alert {
    /// Whether the problem has begun, continues, or is over.
    pub kind: AlertKind,
    /// The kind of problem.
    pub reason: AlertReason,
    /// The name of the definition concerned.
    pub definition: String,
    /// The notice that caused it, if one did.
    pub notice_id: Option<i64>,
    /// The description of that notice.
    #[serde(default)]
    pub description: Option<String>,
    /// The class of the error, if there was one: the stored name of an [`crate::ErrorClass`].
    pub class: Option<String>,
    /// The error and its causes, or another description.
    pub message: String,
    /// How many tries the notice has used: failed attempts and crashes. Only when an outcome raised this alert.
    #[serde(default)]
    pub tries: Option<i64>,
    /// How many tries the notice has in all; `None`: no limit, or no outcome raised this alert.
    #[serde(default)]
    pub max_tries: Option<i64>,
    /// Why the notice ended, if it is a dead letter.
    #[serde(default)]
    pub end_reason: Option<String>,
    /// The trace id of the producer, 32 hexadecimal digits, if the notice has a W3C trace context.
    #[serde(default)]
    pub trace_id: Option<String>,
    /// The page of the notice, if the sweeper that sends the alert has a `base_url`.
    #[serde(default)]
    pub link: Option<String>,
    /// Who is responsible for the definition, as its row says now.
    #[serde(default)]
    pub owner: Option<String>,
    /// The URL of what to do, as the definition's row has it now.
    #[serde(default)]
    pub runbook: Option<String>,
    /// How many more of the same were suppressed since the last alert.
    pub more: i64,
    /// When it began, RFC 3339 in UTC, by the database's clock.
    pub since: String,
    /// How long it lasted, in milliseconds, if it is over and that is known. Without history no success is known.
    pub lasted_ms: Option<u64>,
    /// The node that noticed it.
    pub node: String,
    /// The addresses to mail to, as the definition's `email` has them now.
    pub email: Vec<String>,
    /// The names of the chat targets, as the definition's `alert_to` has them now.
    pub alert_to: Vec<String>,
}

/// Whether the problem of an [`Alert`] has begun, continues, or is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AlertKind {
    /// The first of its kind, or the first after the cool-down.
    Raised,
    /// More of the same happened meanwhile.
    Digest,
    /// Deliveries succeed again.
    Recovered,
}

impl Alert {
    /// Creates an alert with `message` for a definition; the other fields can be set.
    pub fn new(
        kind: AlertKind,
        reason: AlertReason,
        definition: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            reason,
            definition: definition.into(),
            notice_id: None,
            description: None,
            class: None,
            message: message.into(),
            tries: None,
            max_tries: None,
            end_reason: None,
            trace_id: None,
            link: None,
            owner: None,
            runbook: None,
            more: 0,
            since: String::new(),
            lasted_ms: None,
            node: String::new(),
            email: Vec::new(),
            alert_to: Vec::new(),
        }
    }

    /// Returns the JSON that is stored.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| "null".to_owned())
    }

    /// Returns one line: the subject of a mail.
    pub fn title(&self) -> String {
        let name = &self.definition;
        let notice = self.notice_id.map(|id| format!(" (notice {id})")).unwrap_or_default();
        let what = match self.reason {
            AlertReason::FinalFailure => format!("finally failed{notice}"),
            AlertReason::Failure => format!("failed{notice}"),
            AlertReason::RepeatedFailures => format!("fails repeatedly{notice}"),
            AlertReason::AckOverdue => format!("has no ack of its delivery{notice}"),
            AlertReason::Backlog => "has a backlog".to_owned(),
            AlertReason::InvalidDefinition => "has an invalid definition: its notices wait".to_owned(),
            AlertReason::NoHandler => "has no handler on any node: its notices wait".to_owned(),
            AlertReason::DeadLetters => "has many dead letters".to_owned(),
            AlertReason::Clock => "a clock is far off".to_owned(),
            AlertReason::CircuitOpen => "has an open circuit: its notices wait".to_owned(),
            AlertReason::Locked => "waits for a row that another session has locked".to_owned(),
            AlertReason::Paused => "was paused, because its receiver wants no more notices".to_owned(),
            AlertReason::NotSending => "is not sent by a node".to_owned(),
        };
        match self.kind {
            AlertKind::Raised => format!("{name}: {what}"),
            AlertKind::Digest if self.reason.is_delivery() => {
                let failures = if self.more == 1 { "failure" } else { "failures" };
                format!("{name}: {} more {failures} since {}", self.more, minute(&self.since))
            }
            AlertKind::Digest if self.reason == AlertReason::Paused => {
                format!("{name}: {what}, again since {}", minute(&self.since))
            }
            AlertKind::Digest => format!("{name}: still {what}, since {}", minute(&self.since)),
            AlertKind::Recovered if self.lasted_ms.is_none() => format!("{name}: no more failures"),
            AlertKind::Recovered => format!("{name}: recovered after {}", self.lasted()),
        }
    }

    /// Returns how long it lasted, for people: `47 min`.
    pub fn lasted(&self) -> String {
        let seconds = self.lasted_ms.unwrap_or(0).div_ceil(1000);
        match seconds {
            0..120 => format!("{seconds} s"),
            120..7200 => format!("{} min", seconds / 60),
            _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        }
    }

    /// Returns the whole alert as lines of plain text: the body of a mail or of a chat message.
    pub fn text(&self) -> String {
        let facts = self.facts().into_iter().map(|(name, value)| format!("{name}: {value}"));
        std::iter::once(self.title()).chain(facts).collect::<Vec<_>>().join("\n")
    }

    /// Returns the facts that the alert has, each with its name for people, in the order in which they are shown.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let number = |number: Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let tries = match (self.tries, self.max_tries) {
            (Some(tries), Some(most)) => format!("{tries} of {most}"),
            (tries, _) => number(tries),
        };
        let mut facts = vec![
            ("definition", self.definition.clone()),
            ("reason", self.reason.as_str().to_owned()),
            ("notice", number(self.notice_id)),
            ("description", text(&self.description)),
            ("error class", text(&self.class)),
            ("message", self.message.clone()),
            ("tries used", tries),
            ("ended because", text(&self.end_reason)),
            ("suppressed", number(Some(self.more).filter(|more| *more > 0))),
            ("since", self.since.clone()),
            ("node", self.node.clone()),
            ("trace", text(&self.trace_id)),
            ("link", text(&self.link)),
            ("owner", text(&self.owner)),
            ("runbook", text(&self.runbook)),
        ];
        facts.retain(|(_, value)| !value.is_empty());
        facts
    }
}

impl Alarm {
    /// Returns the alert that is sent if the alarm is not suppressed. `now`: when it is raised, in milliseconds since 1970.
    pub fn to_alert(&self, now: i64) -> Alert {
        let mut alert = Alert::new(AlertKind::Raised, self.reason, &self.definition, &self.message);
        alert.notice_id = self.notice_id;
        alert.description.clone_from(&self.description);
        alert.class.clone_from(&self.class);
        let Cause { tries, max_tries, end_reason, trace_id } = self.cause.clone();
        (alert.tries, alert.max_tries, alert.end_reason, alert.trace_id) = (tries, max_tries, end_reason, trace_id);
        alert.node.clone_from(&self.node);
        alert.since = rfc3339(time_from_millis(now));
        alert
    }
}

/// Returns the minute of a time: `2026-11-21 10:42 UTC` of `2026-11-21T10:42:07.123Z`.
fn minute(time: &str) -> String {
    time.get(..16).map_or_else(|| time.to_owned(), |minute| format!("{} UTC", minute.replace('T', " ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_say_what_an_operator_wants_to_know() {
        let mut alert = Alert::new(AlertKind::Raised, AlertReason::FinalFailure, "sync", "connection refused");
        alert.notice_id = Some(7);
        assert_eq!(alert.title(), "sync: finally failed (notice 7)");
        (alert.kind, alert.more, alert.since) = (AlertKind::Digest, 812, "2026-11-21T10:42:07.123Z".to_owned());
        assert_eq!(alert.title(), "sync: 812 more failures since 2026-11-21 10:42 UTC");
        alert.more = 1;
        assert_eq!(alert.title(), "sync: 1 more failure since 2026-11-21 10:42 UTC");
        (alert.kind, alert.lasted_ms) = (AlertKind::Recovered, Some(47 * 60_000));
        assert_eq!(alert.title(), "sync: recovered after 47 min");
        assert_eq!(Alert { lasted_ms: None, ..alert.clone() }.title(), "sync: no more failures");
        let paused = |kind| Alert { kind, reason: AlertReason::Paused, ..alert.clone() }.title();
        let why = "sync: was paused, because its receiver wants no more notices";
        assert_eq!(paused(AlertKind::Raised), why);
        assert_eq!(paused(AlertKind::Digest), format!("{why}, again since 2026-11-21 10:42 UTC"));
        assert!(alert.text().contains("message: connection refused"), "{}", alert.text());
    }

    #[test]
    fn text_has_a_line_for_each_fact_that_there_is() {
        let mut alert = Alert::new(AlertKind::Raised, AlertReason::FinalFailure, "sync", "refused");
        let bare = "sync: finally failed\ndefinition: sync\nreason: final_failure\nmessage: refused";
        assert_eq!(alert.text(), bare);
        (alert.tries, alert.end_reason) = (Some(5), Some("all 5 tries failed".to_owned()));
        (alert.trace_id, alert.link) = (Some("4bf9".to_owned()), Some("https://ops/notices/7".to_owned()));
        let ends = "\nended because: all 5 tries failed\ntrace: 4bf9\nlink: https://ops/notices/7";
        assert_eq!(alert.text(), format!("{bare}\ntries used: 5{ends}"));
        alert.max_tries = Some(5);
        assert_eq!(alert.text(), format!("{bare}\ntries used: 5 of 5{ends}"));
        (alert.owner, alert.runbook) = (Some("team orders".to_owned()), Some("https://wiki/orders".to_owned()));
        let whom = "\nowner: team orders\nrunbook: https://wiki/orders";
        assert_eq!(alert.text(), format!("{bare}\ntries used: 5 of 5{ends}{whom}"));
        let stored = r#"{"kind":"raised","reason":"failure","definition":"a","notice_id":null,"class":null,"message":"","more":0,"since":"","lasted_ms":null,"node":"","email":[],"alert_to":[]}"#;
        assert!(serde_json::from_str::<Alert>(stored).is_ok(), "an alert of an application need not have them");
    }

    #[test]
    fn the_built_in_definition_is_valid() {
        assert!(built_in().policy().is_ok());
    }

    #[test]
    fn every_reason_has_its_stored_name() {
        for reason in AlertReason::ALL {
            assert_eq!(AlertReason::from_name(reason.as_str()), Some(reason));
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }
}
