//! An operator's changes of notices, as `change.lua` is given them.

use serde::Serialize;

use super::text::Text;

/// A change of one notice.
#[derive(Serialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub(in crate::store) enum Verb {
    Revive {
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    End {
        text: String,
    },
    Retime {
        time: i64,
    },
    Recount {
        failures: Text<i64>,
        crashes: Text<i64>,
    },
    Rewrite {
        text: String,
    },
    Late {
        text: String,
    },
    Refuse {
        text: String,
    },
    Nothing,
}

#[derive(Clone, Copy, Serialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub(in crate::store) enum StepVerb<'a> {
    Revive,
    End { reason: &'a str },
    Retime,
    Purge,
}

#[derive(Serialize)]
pub(in crate::store) struct Target {
    pub(in crate::store) member: String,
    pub(in crate::store) fence: Text<i64>,
    pub(in crate::store) time: i64,
}
