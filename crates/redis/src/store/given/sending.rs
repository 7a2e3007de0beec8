//! What the scripts of the send path are given: insert, claim, settle.

use serde::{Deserialize, Serialize};

use super::text::{Millis, Text};

#[derive(Serialize)]
pub(in crate::store) struct Insert<'a> {
    pub(in crate::store) call: &'a str,
    pub(in crate::store) notices: Vec<New<'a>>,
}

#[derive(Default, Serialize)]
pub(in crate::store) struct New<'a> {
    pub(in crate::store) member: String,
    #[serde(flatten)]
    pub(in crate::store) due: DueTime,
    pub(in crate::store) param: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) trace_context: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) ordering_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) dedupe_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) dedupe_until_ended: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) tag: Option<&'a str>,
    /// What lets a notice of a built-in definition act, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) authority: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) max_tries: Option<Text<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) expires_at: Option<Text<i64>>,
    /// Why it is not sent, if it is added as skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) skipped: Option<&'a str>,
}

/// Notices that are passed on to a target.
#[derive(Serialize)]
pub(in crate::store) struct PassedOn {
    pub(in crate::store) source: Text<i64>,
    pub(in crate::store) notices: Vec<ForTarget>,
}

/// What has arrived of a target's list; an empty text: of alarms.
#[derive(Serialize)]
pub(in crate::store) struct Arrived {
    pub(in crate::store) target: String,
    pub(in crate::store) arrived: i64,
}

/// What a target answered about the dedupe key of a notice that was passed on to it.
#[derive(Serialize)]
pub(in crate::store) struct KeyAnswer {
    /// The notice that was passed on.
    pub(in crate::store) member: String,
    pub(in crate::store) target: String,
    /// The notice that the target kept; empty: none, so it has got this one.
    pub(in crate::store) kept: String,
}

/// A notice for a target, as the settle script stores it, and its number within the definition that passes it on.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::store) struct ForTarget {
    #[serde(default)]
    number: i64,
    member: String,
    parent_id: String,
    param: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_context: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ordering_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dedupe_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dedupe_until_ended: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tries: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

impl ForTarget {
    /// Returns what the target answered about its dedupe key, if it has one. `kept`: the notice that has the key instead, or an empty text.
    pub(in crate::store) fn answer(&self, target: &str, kept: &str) -> Option<KeyAnswer> {
        self.dedupe_key.as_ref()?;
        let kept = kept.trim_start_matches('0').to_owned();
        Some(KeyAnswer { member: self.parent_id.clone(), target: target.to_owned(), kept })
    }

    pub(in crate::store) fn numbered(self, number: i64) -> Self {
        Self { number, ..self }
    }
}

/// When a notice is due, in milliseconds.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::store) enum DueTime {
    Delay(i64),
    At(i64),
}

impl Default for DueTime {
    fn default() -> Self {
        Self::Delay(0)
    }
}

/// A notice without optional texts.
#[derive(Serialize)]
pub(in crate::store) struct Plain {
    pub(in crate::store) member: String,
    pub(in crate::store) param: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) authority: Option<String>,
}

#[derive(Serialize)]
pub(in crate::store) struct Claim<'a> {
    pub(in crate::store) what: &'a str,
    pub(in crate::store) most: usize,
    pub(in crate::store) lease: Millis,
    pub(in crate::store) worker: &'a str,
    #[serde(flatten)]
    pub(in crate::store) mode: ClaimMode<'a>,
    pub(in crate::store) members: &'a [String],
    pub(in crate::store) keys: &'a [String],
}

#[derive(Clone, Copy, Serialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub(in crate::store) enum ClaimMode<'a> {
    Free,
    Look,
    Take { seen_limits: &'a str, new_limits: &'a str, most_sending: usize },
}

#[derive(Serialize)]
pub(in crate::store) struct Settle<'a> {
    #[serde(flatten)]
    pub(in crate::store) mode: SettleMode<'a>,
    pub(in crate::store) outcomes: Vec<Outcome<'a>>,
    pub(in crate::store) history_limit: usize,
}

#[derive(Clone, Copy, Serialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub(in crate::store) enum SettleMode<'a> {
    Free,
    Once {
        #[serde(skip_serializing_if = "Option::is_none")]
        audit: Option<&'a str>,
    },
    Look,
    Take(&'a Beside),
}

/// What is written beside the outcomes, and what must be unchanged for it.
#[derive(Default, Serialize)]
pub(in crate::store) struct Beside {
    pub(in crate::store) seen_limits: String,
    pub(in crate::store) new_limits: String,
    pub(in crate::store) seen_mask: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) alarm: Option<String>,
}

#[derive(Serialize)]
pub(in crate::store) struct Outcome<'a> {
    pub(in crate::store) member: String,
    pub(in crate::store) fence: Text<i64>,
    pub(in crate::store) from: Text<i64>,
    pub(in crate::store) status: Text<i64>,
    #[serde(skip_serializing_if = "is_unset")]
    pub(in crate::store) overdue: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) delay: Option<Millis>,
    #[serde(skip_serializing_if = "is_unset")]
    pub(in crate::store) keep: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) reason: Option<&'a str>,
    pub(in crate::store) failures: Text<i64>,
    pub(in crate::store) crashes: Text<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) errors: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) last_class: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) response: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) error_group: Option<Text<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) alarm: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::store) pass_to: Vec<i64>,
}

/// True for a flag that is left out because it is not set.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_unset(flag: &bool) -> bool {
    !flag
}

/// The counters of a node and minute.
#[derive(Serialize)]
pub(in crate::store) struct SeriesRow {
    pub(in crate::store) hour: String,
    pub(in crate::store) begin: i64,
    pub(in crate::store) field: String,
    pub(in crate::store) counts: Vec<u64>,
}
