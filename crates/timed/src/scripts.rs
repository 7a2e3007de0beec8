//! The scripts of the timed tasks, what they are given ([`given`]), and the keys that they work on.

use solid_notify_redis_connection::script::{CLAIMING, Script};

use crate::error::Result;
use crate::names::check_kind;

const KEYS: &str = include_str!("lua/keys.lua");
const BURY: &str = include_str!("lua/bury.lua");
const CHECK: &str = include_str!("lua/check.lua");

pub(crate) static ADD: Script = Script::new(&[include_str!("lua/add.lua")]);
pub(crate) static ADD_AS: Script = Script::new(&[KEYS, include_str!("lua/add_as.lua")]);
pub(crate) static REPLACE: Script = Script::new(&[KEYS, include_str!("lua/replace.lua")]);
pub(crate) static DUE: Script = Script::new(&[KEYS, CLAIMING, include_str!("lua/due.lua")]);
pub(crate) static CLAIM: Script = Script::new(&[KEYS, CLAIMING, BURY, CHECK, include_str!("lua/claim.lua")]);
pub(crate) static SETTLE: Script = Script::new(&[KEYS, CLAIMING, BURY, include_str!("lua/settle.lua")]);
pub(crate) static CHANGE: Script = Script::new(&[KEYS, CLAIMING, include_str!("lua/change.lua")]);
pub(crate) static LOOK: Script = Script::new(&[KEYS, CLAIMING, CHECK, include_str!("lua/look.lua")]);
pub(crate) static IMPORT: Script = Script::new(&[KEYS, include_str!("lua/import.lua")]);
/// Works on one key of the older layout, and on none of [`Keys`].
pub(crate) static OLDER: Script = Script::new(&[include_str!("lua/older.lua")]);

/// The keys of a kind.
pub(crate) type Keys = [String; 11];

/// Returns the keys of a kind, in the order in which the scripts expect them. A cluster hashes only the part in braces, so they are in
/// one slot. A prefix has no colon, so the keys of two prefixes differ. After `{prefix:kind}`:
///
/// | key | type | what it holds |
/// |---|---|---|
/// | `due` | sorted set | ids of tasks by their due time, or by the end of their lease |
/// | `values` | hash | id to the value of each task, JSON |
/// | `claims` | hash | id to the fence of each claimed task |
/// | `tries` | hash | id to how often the task was claimed, without a claim that is in `claims` |
/// | `dead` | sorted set | ids of dead tasks by the time of their death |
/// | `reasons` | hash | id to the reason of each dead task |
/// | `aside` | hash | id to JSON (`reason`, `time`, `value`) of what cannot be used |
/// | `last_number` | string | the last number of an id or of a fence |
/// | `check` | hash | `cursor` and `next_time` of the check for entries without a score |
/// | `targets` | hash | id to the target URL of each task that has one |
/// | `import` | hash | `batches`: how many batches of an import are complete; `task:<id>`: score and SHA-1 of a task under way |
///
/// # Errors
/// [`crate::Error::Kind`].
pub(crate) fn keys(prefix: &str, kind: &str) -> Result<Keys> {
    let names =
        ["due", "values", "claims", "tries", "dead", "reasons", "aside", "last_number", "check", "targets", "import"];
    check_kind(kind)?;
    Ok(names.map(|name| key(prefix, kind, name)))
}

/// The keys of [`ADD`], the last one only for tasks with a target URL.
///
/// # Errors
/// [`crate::Error::Kind`].
pub(crate) fn keys_to_add(prefix: &str, kind: &str, has_target: bool) -> Result<Vec<String>> {
    check_kind(kind)?;
    let names = ["due", "values", "last_number", "targets"];
    Ok(names[..if has_target { 4 } else { 3 }].iter().map(|name| key(prefix, kind, name)).collect())
}

fn key(prefix: &str, kind: &str, name: &str) -> String {
    format!("{{{prefix}:{kind}}}:{name}")
}

/// What the scripts are given. `lua/` says what each field means.
pub(crate) mod given {
    use serde::Serialize;

    use crate::model::{TaskOutcome, TaskSettled, When, duration_millis, millis_from_time};

    /// A due time, in milliseconds.
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    pub(crate) enum DueTime {
        Delay(i64),
        At(i64),
    }

    impl From<When> for DueTime {
        fn from(when: When) -> Self {
            match when {
                When::After(delay) => Self::Delay(duration_millis(delay)),
                When::At(time) => Self::At(millis_from_time(time)),
            }
        }
    }

    #[derive(Serialize)]
    pub(crate) struct Task<'a> {
        pub(crate) id: &'a str,
        #[serde(flatten)]
        pub(crate) due: DueTime,
        pub(crate) value: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) target: Option<&'a str>,
    }

    #[derive(Serialize)]
    pub(crate) struct Due<'a> {
        pub(crate) limit: usize,
        #[serde(flatten)]
        pub(crate) after: Option<After<'a>>,
    }

    /// The last task of the page before. The score is a text, because JSON has no infinity.
    #[derive(Serialize)]
    pub(crate) struct After<'a> {
        pub(crate) score: String,
        pub(crate) id: &'a str,
    }

    #[derive(Serialize)]
    pub(crate) struct Claim {
        pub(crate) limit: usize,
        pub(crate) lease: i64,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) max_tries: Option<u32>,
    }

    #[derive(Serialize)]
    pub(crate) struct Settle<'a> {
        pub(crate) runs: Vec<Run<'a>>,
    }

    /// Equal outcomes of one claim.
    #[derive(Serialize)]
    pub(crate) struct Run<'a> {
        fence: String,
        #[serde(flatten)]
        outcome: Outcome<'a>,
        ids: Vec<&'a str>,
    }

    #[derive(Serialize)]
    #[serde(tag = "outcome", rename_all = "snake_case")]
    enum Outcome<'a> {
        Finish,
        Retry(DueTime),
        Dead { reason: &'a str },
        Extend { lease: i64 },
        Aside { reason: &'a str },
        Release,
    }

    impl<'a> Run<'a> {
        /// `None` for no outcomes.
        pub(crate) fn new(settled: &'a [TaskSettled]) -> Option<Self> {
            let first = settled.first()?;
            let outcome = match &first.outcome {
                TaskOutcome::Finish => Outcome::Finish,
                TaskOutcome::Retry(when) => Outcome::Retry((*when).into()),
                TaskOutcome::Dead(reason) => Outcome::Dead { reason },
                TaskOutcome::Extend(lease) => Outcome::Extend { lease: duration_millis(*lease) },
                TaskOutcome::Aside(reason) => Outcome::Aside { reason },
                TaskOutcome::Release => Outcome::Release,
            };
            let ids = settled.iter().map(|settled| settled.id.as_str()).collect();
            Some(Self { fence: first.fence.to_string(), outcome, ids })
        }
    }

    #[derive(Serialize)]
    pub(crate) struct Change<'a> {
        #[serde(flatten)]
        pub(crate) verb: &'a Verb<'a>,
        pub(crate) ids: &'a [&'a str],
    }

    #[derive(Serialize)]
    #[serde(tag = "what", rename_all = "snake_case")]
    pub(crate) enum Verb<'a> {
        Delete,
        Revive,
        SetAside { reason: &'a str },
        Reschedule(DueTime),
    }

    #[derive(Serialize)]
    #[serde(tag = "what", rename_all = "snake_case")]
    pub(crate) enum Look<'a> {
        Count,
        NextDue,
        IsScheduled { id: &'a str },
        Dead { limit: usize },
        Purge { minimum_age: i64 },
        Aside { cursor: &'a str },
        Check { cursor: &'a str },
    }

    #[derive(Serialize)]
    #[serde(tag = "what", rename_all = "snake_case")]
    pub(crate) enum Import<'a> {
        Begin,
        Add { batches: &'a str, tasks: &'a [OlderTask<'a>] },
        Done { marks: &'a [Mark] },
    }

    #[derive(Serialize)]
    #[serde(tag = "what", rename_all = "snake_case")]
    pub(crate) enum Older<'a> {
        Scan { cursor: &'a str },
        Contents { ids: &'a [String] },
        RemoveScores { marks: &'a [Mark] },
        RemoveContents { marks: &'a [Mark] },
        RestoreScores { marks: &'a [&'a Mark] },
    }

    /// A task of the older layout. `due` is in milliseconds; `score` is the same as it is stored.
    #[derive(Serialize)]
    pub(crate) struct OlderTask<'a> {
        pub(crate) id: &'a str,
        pub(crate) score: &'a str,
        pub(crate) due: i64,
        pub(crate) value: &'a str,
    }

    /// What was read of a task of the older layout.
    #[derive(Serialize)]
    pub(crate) struct Mark {
        pub(crate) id: String,
        pub(crate) score: String,
        pub(crate) sha1: String,
    }
}
