//! The JSON of rows that are not hashes in Redis: limits, alarms, alerts, versions, audit entries, counts. JSON, so that people
//! can read them there.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use solid_notify_core::alert::AlertReason;
use solid_notify_core::alert::cooldown::AlertRow;
use solid_notify_core::definition::StoredVersion;
use solid_notify_core::limit::LimitRow;
use solid_notify_core::notice::{millis_from_time, time_from_millis};
use solid_notify_core::store::{
    Alarm, AuditEntry, Authority, Cause, Node, NoticeCounts, PauseScope, Paused, RefusedConfig, SeenNode,
};
use std::time::Duration;

use super::given::ForTarget;

/// Encodes as JSON. The rows have only texts and numbers, for which encoding never fails.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Reads a row. `None` for one that cannot be read, after an edit by hand; it is logged.
fn read<'a, T: Deserialize<'a>>(what: &'static str, text: &'a str) -> Option<T> {
    if text.is_empty() {
        return None;
    }
    let read = serde_json::from_str(text);
    read.inspect_err(|error| tracing::error!(what, %error, "ignored a row in Redis that cannot be read")).ok()
}

#[derive(Serialize, Deserialize)]
struct LimitText {
    begun: Vec<(i64, u32)>,
    failures: i64,
    open_until: Option<i64>,
    probe: Option<i64>,
}

pub(super) fn limit_text(row: &LimitRow) -> String {
    let LimitRow { begun, failures, open_until, probe } = row.clone();
    json(&LimitText { begun, failures, open_until, probe })
}

pub(super) fn limit_row(text: &str) -> Option<LimitRow> {
    let LimitText { begun, failures, open_until, probe } = read("limit", text)?;
    Some(LimitRow { begun, failures, open_until, probe })
}

#[derive(Serialize, Deserialize)]
struct AlarmText {
    alert_def: i64,
    def_id: i64,
    definition: String,
    reason: AlertReason,
    cooldown_ms: u64,
    notice_id: Option<i64>,
    description: Option<String>,
    class: Option<String>,
    message: String,
    #[serde(default)]
    cause: Cause,
    node: String,
}

pub(super) fn alarm_text(alarm: &Alarm) -> String {
    let Alarm { alert_def, def_id, definition, reason, cooldown, notice_id, description, class, message, cause, node } =
        alarm.clone();
    let cooldown_ms = u64::try_from(cooldown.as_millis()).unwrap_or(u64::MAX);
    json(&AlarmText {
        alert_def,
        def_id,
        definition,
        reason,
        cooldown_ms,
        notice_id,
        description,
        class,
        message,
        cause,
        node,
    })
}

/// What is forwarded to another slot.
#[derive(Debug, PartialEq)]
pub(super) enum Outgoing {
    /// An alarm.
    Alarm(Alarm),
    /// A notice for the target with this id.
    Notice(i64, ForTarget),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OutgoingText {
    Notice { target: i64, notice: ForTarget },
    Alarm(AlarmText),
}

/// Reads what is forwarded, and its number, which the scripts write as the first field. The number is read as the scripts read it, also
/// where the rest cannot be read, so that they delete it.
pub(super) fn outgoing(text: &str) -> (i64, Option<Outgoing>) {
    let digits = text.strip_prefix("{\"number\":").unwrap_or_default();
    let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
    let number = digits[..end].parse().unwrap_or_default();
    let outgoing = read("outgoing", text).map(|text: OutgoingText| match text {
        OutgoingText::Notice { target, notice } => Outgoing::Notice(target, notice.numbered(number)),
        OutgoingText::Alarm(text) => Outgoing::Alarm(text.alarm()),
    });
    (number, outgoing)
}

impl AlarmText {
    fn alarm(self) -> Alarm {
        let Self { alert_def, def_id, definition, reason, cooldown_ms, .. } = self;
        let Self { notice_id, description, class, message, cause, node, .. } = self;
        let cooldown = Duration::from_millis(cooldown_ms);
        Alarm { alert_def, def_id, definition, reason, cooldown, notice_id, description, class, message, cause, node }
    }
}

#[derive(Serialize, Deserialize)]
struct AlertText {
    opened: i64,
    last_notified: Option<i64>,
    suppressed: i64,
    last_seen: i64,
    due: Option<i64>,
    notice_id: Option<i64>,
    description: Option<String>,
    class: Option<String>,
    message: Option<String>,
    node: Option<String>,
    silenced_until: Option<i64>,
    acknowledged_at: Option<i64>,
    acknowledged_by: Option<String>,
}

pub(super) fn alert_text(row: &AlertRow) -> String {
    json(&AlertText::from(row.clone()))
}

pub(super) fn alert_row(text: &str) -> Option<AlertRow> {
    read::<AlertText>("alert", text).map(AlertRow::from)
}

/// Both types have the same fields; the core's is not made for JSON.
macro_rules! same_fields {
    ($($field:ident),+) => {
        impl From<AlertRow> for AlertText {
            fn from(AlertRow { $($field),+ }: AlertRow) -> Self {
                Self { $($field),+ }
            }
        }

        impl From<AlertText> for AlertRow {
            fn from(AlertText { $($field),+ }: AlertText) -> Self {
                Self { $($field),+ }
            }
        }
    };
}
same_fields!(
    opened,
    last_notified,
    suppressed,
    last_seen,
    due,
    notice_id,
    description,
    class,
    message,
    node,
    silenced_until,
    acknowledged_at,
    acknowledged_by
);

#[derive(Serialize, Deserialize)]
struct VersionText {
    version: i64,
    time: i64,
    who: String,
    act: String,
    definition: String,
}

pub(super) fn version_text(version: &StoredVersion) -> String {
    let StoredVersion { version, time, who, act, definition, .. } = version.clone();
    json(&VersionText { version, time: millis_from_time(time), who, act, definition })
}

pub(super) fn version(def_id: i64, text: &str) -> Option<StoredVersion> {
    let VersionText { version, time, who, act, definition } = read("version", text)?;
    Some(StoredVersion { def_id, version, time: time_from_millis(time), who, act, definition })
}

#[derive(Serialize, Deserialize)]
struct AuditText {
    who: String,
    act: String,
    def_id: Option<i64>,
    notice_id: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notice_ids: Vec<i64>,
    detail: Option<String>,
}

/// Without the time, which the scripts write beside it.
pub(super) fn audit_text(entry: &AuditEntry) -> String {
    let AuditEntry { who, act, def_id, notice_id, notice_ids, detail, .. } = entry.clone();
    json(&AuditText { who, act, def_id, notice_id, notice_ids, detail })
}

pub(super) fn authority_text(authority: &Authority) -> String {
    json(authority)
}

pub(super) fn authority(text: &str) -> Option<Authority> {
    read("authority", text)
}

pub(super) fn audit(time: DateTime<Utc>, text: &str) -> Option<AuditEntry> {
    let AuditText { who, act, def_id, notice_id, notice_ids, detail } = read("audit", text)?;
    let mut entry = AuditEntry::new(time, who, act);
    (entry.def_id, entry.notice_id, entry.notice_ids, entry.detail) = (def_id, notice_id, notice_ids, detail);
    Some(entry)
}

#[derive(Serialize, Deserialize)]
struct PausedText {
    #[serde(default)]
    scope: PauseScope,
    who: Option<String>,
    since: Option<i64>,
    reason: Option<String>,
}

pub(super) fn paused_text(paused: &Paused) -> String {
    let Paused { scope, who, since, reason } = paused.clone();
    json(&PausedText { scope, who, since: since.map(millis_from_time), reason })
}

/// Any text there pauses everything, also one written by hand: `SET …:switch paused`; only `{"scope":"retries"}` pauses less.
pub(super) fn paused(text: &str) -> Option<Paused> {
    if text.is_empty() {
        return None;
    }
    let read = serde_json::from_str::<PausedText>(text).ok();
    Some(read.map_or_else(Paused::default, |PausedText { scope, who, since, reason }| Paused {
        scope,
        who,
        since: since.map(time_from_millis),
        reason,
    }))
}

#[derive(Serialize, Deserialize)]
struct NodeText {
    /// Written by the script.
    #[serde(default, skip_serializing)]
    last_seen: i64,
    /// Written by the script.
    #[serde(default, skip_serializing)]
    start_time: i64,
    handlers: Vec<String>,
    version: String,
    clock_offset_ms: i64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    refused: Vec<RefusedConfig>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    param_keys: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    stopped: bool,
}

pub(super) fn node_text(node: &Node) -> String {
    let Node { id: _, handlers, version, clock_offset_ms, refused, problems, param_keys, alarms: _, stopped } =
        node.clone();
    let (last_seen, start_time) = (0, 0);
    json(&NodeText {
        last_seen,
        start_time,
        handlers,
        version,
        clock_offset_ms,
        refused,
        problems,
        param_keys,
        stopped,
    })
}

/// Returns a node, and whether it has stopped.
pub(super) fn node(id: String, text: &str) -> Option<(SeenNode, bool)> {
    let NodeText { last_seen, start_time, handlers, version, clock_offset_ms, refused, problems, param_keys, stopped } =
        read("node", text)?;
    let node = Node { version, clock_offset_ms, refused, problems, param_keys, ..Node::new(id, handlers) };
    Some((SeenNode::new(node, time_from_millis(start_time), time_from_millis(last_seen)), stopped))
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct CountsText {
    /// When to count next, written by the scripts.
    #[serde(skip_serializing)]
    next_time: Option<i64>,
    /// `None`: not counted yet.
    taken_at: Option<i64>,
    not_sent: u64,
    failed: u64,
    sending: u64,
    awaiting_ack: u64,
    dead_letters: u64,
    cancelled: u64,
    recently_succeeded: u64,
    oldest_due: Option<i64>,
}

pub(super) fn counts_text(counts: &NoticeCounts, at: DateTime<Utc>) -> String {
    json(&CountsText {
        next_time: None,
        taken_at: Some(millis_from_time(at)),
        not_sent: counts.not_sent,
        failed: counts.failed,
        sending: counts.sending,
        awaiting_ack: counts.awaiting_ack,
        dead_letters: counts.dead_letters,
        cancelled: counts.cancelled,
        recently_succeeded: counts.recently_succeeded,
        oldest_due: counts.oldest_due.map(millis_from_time),
    })
}

/// Counts, and when they were taken.
type Taken = (NoticeCounts, DateTime<Utc>);

/// Returns when to count next, and the last counts.
pub(super) fn counts(text: &str) -> (Option<DateTime<Utc>>, Option<Taken>) {
    let text: CountsText = read("counts", text).unwrap_or_default();
    let taken = text.taken_at.map(|taken_at| {
        let mut counts = NoticeCounts::default();
        (counts.not_sent, counts.failed, counts.sending) = (text.not_sent, text.failed, text.sending);
        (counts.awaiting_ack, counts.dead_letters) = (text.awaiting_ack, text.dead_letters);
        (counts.cancelled, counts.recently_succeeded) = (text.cancelled, text.recently_succeeded);
        counts.oldest_due = text.oldest_due.map(time_from_millis);
        (counts, time_from_millis(taken_at))
    });
    (text.next_time.map(time_from_millis), taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outgoing_that_cannot_be_read_still_has_its_number() {
        for (text, number) in [(r#"{"number":12,"oops"#, 12), (r#"{"number":7}"#, 7), ("oops", 0), ("", 0)] {
            assert_eq!(outgoing(text), (number, None), "{text}");
        }
    }
}
