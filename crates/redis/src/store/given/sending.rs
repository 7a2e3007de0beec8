//! What the scripts of the send path are given: insert, claim, settle.

use serde::Serialize;

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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) max_tries: Option<Text<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) expires_at: Option<Text<i64>>,
    /// Why it is not sent, if it is added as skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) skipped: Option<&'a str>,
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
    pub(in crate::store) alarm: Option<String>,
}

/// True for a flag that is left out because it is not set.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_unset(flag: &bool) -> bool {
    !flag
}
