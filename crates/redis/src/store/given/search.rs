//! What the script `look.lua` is given for lists that are narrowed.

use serde::Serialize;

use super::text::Text;

/// Where a page begins.
#[derive(Clone, Serialize)]
pub(in crate::store) struct After {
    pub(in crate::store) after_score: String,
    pub(in crate::store) after_member: String,
}

/// A part of a sorted set, of which only some notices are listed.
#[derive(Serialize)]
pub(in crate::store) struct Search<'a> {
    pub(in crate::store) set: &'a str,
    pub(in crate::store) from: String,
    pub(in crate::store) to: &'a str,
    pub(in crate::store) latest_first: bool,
    pub(in crate::store) most: usize,
    pub(in crate::store) read: usize,
    pub(in crate::store) only: Only<'a>,
    #[serde(flatten)]
    pub(in crate::store) after: Option<After>,
}

/// Notices by their members.
#[derive(Serialize)]
pub(in crate::store) struct Pick<'a> {
    pub(in crate::store) members: Vec<String>,
    pub(in crate::store) status: Text<i64>,
    pub(in crate::store) only: Only<'a>,
}

/// The conditions that a notice must meet.
#[derive(Serialize)]
pub(in crate::store) struct Only<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) tag: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) ordering_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) dedupe_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) class: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) group: Option<Text<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) text: Option<&'a str>,
    pub(in crate::store) in_param: bool,
}
