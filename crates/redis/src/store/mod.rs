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
}

impl RedisStore {
    pub(crate) fn new(redis: Redis, history_limit: usize) -> Self {
        Self { keys: Keys::new(redis.prefix()), redis, history_limit, ids: Arc::default() }
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
        Error::Redis { source, .. } => StoreError::new(doing, kind, source),
        other => StoreError::new(doing, kind, other),
    }
}

/// Waits after repeated conflicts, so that other clients can finish.
async fn pause(round: usize) {
    if round > 2 {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..=(round as u64).min(20)))).await;
    }
}
