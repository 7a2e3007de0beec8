//! What the scripts are given: an argument with named fields for each, which they read as `given`. `lua/` says what each means.
//!
//! Numbers are for computing. What a script stores or compares goes as a text ([`Text`]), because numbers in Lua are exact only up
//! to 2^53.

mod search;
mod sending;
mod text;
mod verb;

use std::collections::BTreeMap;

use serde::Serialize;

pub(super) use search::{After, Only, Pick, Search};
pub(super) use sending::{
    Arrived, Beside, Claim, ClaimMode, DueTime, ForTarget, Insert, KeyAnswer, New, Outcome, PassedOn, Plain, SeriesRow,
    Settle, SettleMode,
};
pub(super) use text::{Millis, Text};
pub(super) use verb::{StepVerb, Target, Verb};

#[derive(Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(super) enum Look<'a> {
    Due,
    Oldest,
    Overdue {
        status: Text<i64>,
        most: usize,
    },
    Claimed {
        worker: &'a str,
        most: usize,
    },
    Find {
        member: String,
    },
    Param {
        member: String,
        fence: Text<i64>,
        whole: bool,
    },
    List {
        set: String,
        from: String,
        to: String,
        latest_first: bool,
        most: usize,
        #[serde(flatten)]
        after: Option<After>,
    },
    Search(Search<'a>),
    Pick(Pick<'a>),
    Count {
        set: String,
        from: String,
        to: String,
    },
    Classes,
    GroupCounts {
        from: &'a str,
        to: &'a str,
        cursor: &'a str,
    },
    Groups {
        from: &'a str,
        to: &'a str,
        groups: &'a [Text<i64>],
    },
    Series {
        from: i64,
        to: i64,
        most: usize,
    },
    Counts {
        recent: i64,
    },
    Facts {
        since: Text<i64>,
    },
    Ahead {
        ordering_key: &'a str,
        member: String,
    },
    Retries {
        skipped: usize,
        most: usize,
    },
    Audit(Entries),
    Dedupe {
        dedupe_key: &'a str,
    },
    Outgoing {
        /// The targets that are left out.
        without: BTreeMap<&'a str, bool>,
    },
    Limits,
}

/// A part of a stream of audit entries.
#[derive(Clone, Serialize)]
pub(super) struct Entries {
    pub(super) last: String,
    pub(super) first: String,
    pub(super) most: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) word: Option<String>,
}

#[derive(Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(super) enum Change<'a> {
    One {
        member: String,
        status: Text<i64>,
        fence: Text<i64>,
        score: &'a str,
        #[serde(flatten)]
        verb: Verb,
        /// The new list of errors, if that changes.
        #[serde(skip_serializing_if = "Option::is_none")]
        errors: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        audit: Option<String>,
    },
    Step {
        #[serde(flatten)]
        verb: StepVerb<'a>,
        status: Text<i64>,
        notices: &'a [Target],
        /// When the lease of its act ends.
        #[serde(skip_serializing_if = "Option::is_none")]
        before: Option<i64>,
        #[serde(flatten)]
        seen: Option<SeenStep>,
    },
    Progress {
        member: String,
        fence: Text<i64>,
        text: &'a str,
    },
    PassOn {
        member: String,
        fence: Text<i64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        targets: Option<Vec<Text<i64>>>,
        /// Those that are left for the end.
        owed: BTreeMap<String, bool>,
        most: usize,
    },
    Extend {
        leases: Vec<Lease>,
    },
    Purge {
        status: Text<i64>,
        minimum_age: i64,
        most: usize,
    },
    Series {
        rows: &'a [SeriesRow],
    },
    PurgeSeries {
        minimum_age: i64,
        most: usize,
    },
    Drop,
    Erase {
        cursor: String,
    },
    Tick {
        #[serde(skip_serializing_if = "Option::is_none")]
        seen_tick: Option<Text<i64>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        seen_schedule: Option<&'a str>,
        last_tick: Text<i64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        tick_schedule: Option<&'a str>,
        notices: Vec<Plain>,
    },
    Forwarded {
        lists: Vec<Arrived>,
        answers: Vec<KeyAnswer>,
    },
    Test {
        member: String,
        param: &'a str,
        tag: &'a str,
        call: String,
        audit: String,
    },
    Limits {
        seen_limits: String,
        new_limits: String,
        audit: String,
    },
    CanAck {
        member: String,
    },
}

/// What a look saw, and the audit entry of the change that follows.
#[derive(Serialize)]
pub(super) struct SeenStep {
    pub(super) seen: String,
    pub(super) audit: String,
}

#[derive(Serialize)]
pub(super) struct Lease {
    pub(super) member: String,
    pub(super) fence: Text<i64>,
    pub(super) lease: Millis,
}

#[derive(Serialize)]
pub(super) struct Alert<'a> {
    pub(super) common: &'a str,
    pub(super) field: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<Text<i64>>,
    #[serde(flatten)]
    pub(super) what: AlertWhat<'a>,
}

#[derive(Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(super) enum AlertWhat<'a> {
    Look,
    Write {
        seen_row: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        new_row: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        due: Option<i64>,
        seen_arrived: &'a str,
        new_arrived: Text<i64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        notice: Option<Plain>,
        #[serde(skip_serializing_if = "Option::is_none")]
        edit: Option<Box<Edit<'a>>>,
    },
}

#[derive(Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(super) enum Common<'a> {
    Names {
        wanted: usize,
        names: Vec<Name<'a>>,
    },
    Ids,
    Targets {
        id: i64,
    },
    Numbers {
        wanted: usize,
    },
    Definitions,
    Number {
        counter: &'a str,
    },
    Edit(Edit<'a>),
    Forget {
        id: Text<i64>,
    },
    Versions {
        id: Text<i64>,
    },
    Beat {
        #[serde(flatten)]
        node: Option<Node<'a>>,
    },
    Counts,
    MayCount {
        id: Text<i64>,
        wait: Millis,
    },
    Counted {
        id: Text<i64>,
        wait: Millis,
        counts: String,
    },
    Switch {
        #[serde(skip_serializing_if = "Option::is_none")]
        paused: Option<String>,
        /// The name of [`solid_notify_core::store::PauseScope`].
        #[serde(skip_serializing_if = "Option::is_none")]
        scope: Option<&'static str>,
        audit: String,
    },
    Paused,
    StoreId {
        random: Text<i64>,
    },
    Numbered {
        number: i64,
    },
    Audit(Entries),
    Alert {
        field: &'a str,
    },
    DueAlerts {
        most: usize,
    },
    Alerts,
    ChangeAlerts {
        rows: &'a [ChangedAlert],
        audit: String,
    },
    IsSeen {
        mark: &'a str,
    },
    MarkSeen {
        marks: &'a [String],
        call: &'a str,
    },
    PurgeInbox {
        minimum_age: i64,
        most: usize,
    },
}

/// A change of a definition.
#[derive(Serialize)]
pub(super) struct Edit<'a> {
    pub(super) id: Text<i64>,
    pub(super) seen_fingerprint: &'a str,
    pub(super) seen_versions: i64,
    pub(super) versions: Vec<String>,
    pub(super) audit: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) row: Option<BTreeMap<String, String>>,
}

/// A row of an alert that an operator changes.
#[derive(Serialize)]
pub(super) struct ChangedAlert {
    pub(super) field: String,
    pub(super) seen_row: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) new_row: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) due: Option<i64>,
}

/// The name of a definition, and the id that it had last.
#[derive(Serialize)]
pub(super) struct Name<'a> {
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<Text<i64>>,
}

/// A node that reports, and its row.
#[derive(Serialize)]
pub(super) struct Node<'a> {
    pub(super) node: &'a str,
    pub(super) row: &'a str,
}
