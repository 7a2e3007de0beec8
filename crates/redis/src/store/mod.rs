//! [`RedisStore`]: `Store` and `Operate` of solid-notify over Redis.
//!
//! Functions of the core decide in Rust; the scripts compare what was read with what is stored, and write. Where a script cannot
//! compare enough by itself (limits, alerts, an operator's verb), the store reads, decides, and writes under a comparison. It
//! repeats that where another client wrote in between.

mod adding;
mod alerts;
mod audit;
mod claim;
mod codec;
mod definitions;
mod examine;
mod forward;
mod forwarding;
mod given;
mod groups;
mod inbox;
mod keys;
mod list;
mod look;
mod operate;
mod row;
mod sending;
mod series;
mod settle;
mod verbs;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use redis::FromRedisValue;
use serde::Serialize;
use solid_notify_core::StoreError;
use solid_notify_core::error::FaultKind;
use solid_notify_redis_connection::script::{CLAIMING, Script};
use solid_notify_redis_connection::{Error, Redis};

pub(crate) use inbox::mark;
use keys::Keys;
pub(crate) use keys::{def_of, member, notice_id};
use row::Stored;

const KEYS: &str = include_str!("lua/keys.lua");
const SHARED: &str = include_str!("lua/shared.lua");
const FORWARD: &str = include_str!("lua/forward.lua");
const AUDIT: &str = include_str!("lua/audit.lua");
const DEFINITION: &str = include_str!("lua/definition.lua");

static INSERT: Script = Script::new(&[KEYS, CLAIMING, SHARED, include_str!("lua/insert.lua")]);
static CLAIM: Script = Script::new(&[KEYS, CLAIMING, SHARED, include_str!("lua/claim.lua")]);
static SETTLE: Script = Script::new(&[AUDIT, KEYS, CLAIMING, SHARED, FORWARD, include_str!("lua/settle.lua")]);
static LOOK: Script = Script::new(&[AUDIT, KEYS, CLAIMING, SHARED, include_str!("lua/look.lua")]);
static CHANGE: Script = Script::new(&[AUDIT, KEYS, CLAIMING, SHARED, FORWARD, include_str!("lua/change.lua")]);
static ALERT: Script = Script::new(&[AUDIT, DEFINITION, KEYS, CLAIMING, SHARED, include_str!("lua/alert.lua")]);
static META: Script = Script::new(&[AUDIT, DEFINITION, include_str!("lua/meta.lua")]);

/// How often a decision is repeated after conflicts with other clients, before the call fails.
const AGAIN: usize = 200;
/// Maximum number of notices in one script, because all other calls wait while it runs.
const AT_ONCE: usize = 500;

/// Definitions and notices in Redis.
#[derive(Debug, Clone)]
pub(crate) struct RedisStore {
    redis: Redis,
    keys: Keys,
    /// How many successes of a definition are kept.
    history_limit: usize,
    /// The id of each definition, by name, at the last insert of its notices.
    ids: Arc<Mutex<HashMap<String, i64>>>,
    forwarding: forwarding::Forwarding,
}

impl RedisStore {
    pub(crate) fn new(redis: Redis, history_limit: usize) -> Self {
        Self {
            keys: Keys::new(redis.prefix()),
            redis,
            history_limit,
            ids: Arc::default(),
            forwarding: forwarding::Forwarding::default(),
        }
    }

    /// Runs a script in the slot of a definition.
    async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        def_id: i64,
        given: &impl Serialize,
        doing: &'static str,
    ) -> Result<T, StoreError> {
        self.run_at(script, &self.keys.of(def_id), given, doing).await
    }

    /// Runs the script for what belongs to no single definition.
    async fn common<T: FromRedisValue>(&self, given: &given::Common<'_>, doing: &'static str) -> Result<T, StoreError> {
        self.run_at(&META, &self.keys.common(), given, doing).await
    }

    async fn run_at<T: FromRedisValue>(
        &self,
        script: &Script,
        key: &str,
        given: &impl Serialize,
        doing: &'static str,
    ) -> Result<T, StoreError> {
        self.redis.run(script, &[key], given, doing).await.map_err(|error| fault(doing, error))
    }

    async fn time(&self) -> Result<DateTime<Utc>, StoreError> {
        let now = self.redis.now(&self.keys.common()).await;
        now.map_err(|error| fault("asking for the time", error))
    }

    async fn load(&self, id: i64) -> Result<Option<Stored>, StoreError> {
        if id <= 0 {
            return Ok(None);
        }
        let def_id = def_of(id);
        let found: (HashMap<String, Vec<u8>>, String) =
            self.run(&LOOK, def_id, &given::Look::Find { member: member(id) }, "looking for a notice").await?;
        Ok(Stored::new(id, def_id, found.0, found.1))
    }
}

/// The error after too many conflicts with other clients.
fn busy(doing: &'static str) -> StoreError {
    StoreError::new(doing, FaultKind::Conflict, "gave up after repeated conflicts with other clients; try again")
}

/// The error of a call to Redis.
fn fault(doing: &'static str, error: Error) -> StoreError {
    let kind = if error.is_outage() { FaultKind::Outage } else { FaultKind::Unusable };
    match error {
        Error::Redis { source, .. } => {
            let reason = source.code().and_then(reason);
            let error = StoreError::new(doing, kind, source);
            reason.into_iter().fold(error, StoreError::explained)
        }
        other => StoreError::new(doing, kind, other),
    }
}

/// Returns what a code of the server means to an operator. Nothing of it is a missing table, which Redis does not have.
fn reason(code: &str) -> Option<&'static str> {
    Some(match code {
        "OOM" => "; the memory of the server is full (`maxmemory`): raise the limit, or delete what is not needed",
        "MISCONF" => {
            "; the server cannot write its data to its disk and takes no changes: see its log, and whether its disk is full"
        }
        "NOPERM" => {
            "; the account of the URL has no right to this: see the chapter on Redis for the rights that it needs"
        }
        "NOAUTH" | "WRONGPASS" => "; the server refuses the user or the password of the URL",
        "WRONGTYPE" => "; a key below the prefix was changed by hand or belongs to another program",
        "READONLY" => "; this server is a replica, or is becoming one: it passes with the end of the failover",
        "LOADING" => "; the server has just started and reads its data",
        "MASTERDOWN" => "; this replica has lost its master",
        "CLUSTERDOWN" => "; a part of the cluster has no master",
        "NOREPLICAS" => "; fewer replicas are connected than the server asks for (`min-replicas-to-write`)",
        _ => return None,
    })
}

/// What was read of several definitions.
struct Readable<T> {
    read: Vec<(i64, T)>,
    /// The definitions whose keys people have damaged. These make the calls of their definition fail, and no others.
    damaged: Vec<i64>,
}

/// Separates the definitions that were read from the damaged ones.
///
/// # Errors
/// An outage, and an error that all definitions have, such as a missing right.
fn readable<T>(looks: impl Iterator<Item = (i64, Result<T, StoreError>)>) -> Result<Readable<T>, StoreError> {
    let (mut read, mut damaged, mut problem) = (Vec::new(), Vec::new(), None);
    for (def_id, look) in looks {
        match look {
            Ok(found) => read.push((def_id, found)),
            Err(error) if error.kind == FaultKind::Unusable => {
                damaged.push(def_id);
                problem = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    match problem {
        Some(error) if read.is_empty() => Err(error),
        _ => Ok(Readable { read, damaged }),
    }
}

/// Waits after repeated conflicts, so that other clients can finish.
async fn pause(round: usize) {
    if round > 2 {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..=(round as u64).min(20)))).await;
    }
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;

    /// Returns the error of a call to which the server replies this.
    fn refused(line: &str) -> StoreError {
        let reply = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).and_then(Value::extract_error);
        fault("adding a notice", Error::Redis { doing: "adding a notice", source: reply.unwrap_err() })
    }

    #[test]
    fn reply_of_an_operators_matter_says_what_is_wrong() {
        for (line, kind, words) in [
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                FaultKind::Unusable,
                "memory of the server is full",
            ),
            (
                "MISCONF Errors writing to the AOF file: No space left on device",
                FaultKind::Unusable,
                "cannot write its data",
            ),
            ("NOPERM this user has no permissions to run the 'evalsha' command", FaultKind::Unusable, "no right"),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", FaultKind::Unusable, "by hand"),
            ("READONLY You can't write against a read only replica.", FaultKind::Outage, "is a replica"),
            ("LOADING Redis is loading the dataset in memory", FaultKind::Outage, "has just started"),
            ("NOREPLICAS Not enough good replicas to write.", FaultKind::Outage, "min-replicas-to-write"),
        ] {
            let error = refused(line);
            assert!(error.kind == kind && error.is_explained(), "{line}: {error:?}");
            assert!(error.to_string().contains(words), "{error}");
        }
        assert!(!refused("ERR something else").is_explained());
    }
}
