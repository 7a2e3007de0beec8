//! [`RedisStore`]: the `Store` and `Operate` of the house over Redis.
//!
//! What becomes of a notice is decided in Rust by the functions of the core; the scripts compare what was seen with what there is,
//! and write. Where a decision needs more than the script can compare by itself (limits, alerts, an operator's verb), it is read,
//! decided and written under a comparison, and made anew where somebody was faster.

mod adding;
mod alerts;
mod claim;
mod codec;
mod definitions;
mod keys;
mod look;
mod operate;
mod row;
mod sending;
mod settle;
mod verbs;

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use redis::FromRedisValue;
use solid_notify_core::StoreError;
use solid_notify_core::error::FaultKind;
use solid_notify_core::notice::duration_millis;

use crate::connection::{Redis, Script};
use keys::Keys;
pub(crate) use keys::{def_of, member, notice_id};
use row::Stored;

static INSERT: Script = Script::new(&[include_str!("lua/shared.lua"), include_str!("lua/insert.lua")]);
static CLAIM: Script = Script::new(&[include_str!("lua/shared.lua"), include_str!("lua/claim.lua")]);
static SETTLE: Script = Script::new(&[include_str!("lua/shared.lua"), include_str!("lua/settle.lua")]);
static LOOK: Script = Script::new(&[include_str!("lua/shared.lua"), include_str!("lua/look.lua")]);
static CHANGE: Script =
    Script::new(&[include_str!("lua/audit.lua"), include_str!("lua/shared.lua"), include_str!("lua/change.lua")]);
static ALERT: Script = Script::new(&[include_str!("lua/shared.lua"), include_str!("lua/alert.lua")]);
static META: Script = Script::new(&[include_str!("lua/audit.lua"), include_str!("lua/meta.lua")]);

/// How often a decision is made anew before it is left to the caller: each time somebody else has got on.
const AGAIN: usize = 200;
/// The most notices of one script: others wait while it runs.
const AT_ONCE: usize = 500;

/// Definitions and notices in Redis.
#[derive(Debug, Clone)]
pub(crate) struct RedisStore {
    redis: Redis,
    keys: Keys,
    /// How many successes of a definition are kept.
    history_limit: usize,
}

impl RedisStore {
    pub(crate) fn new(redis: Redis, history_limit: usize) -> Self {
        Self { keys: Keys::new(redis.prefix()), redis, history_limit }
    }

    /// Runs a script in the slot of a definition.
    async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        def_id: i64,
        args: &[&str],
        doing: &'static str,
    ) -> Result<T, StoreError> {
        self.run_at(script, &self.keys.of(def_id), args, doing).await
    }

    /// Runs the script of what belongs to no single definition.
    async fn common<T: FromRedisValue>(&self, args: &[&str], doing: &'static str) -> Result<T, StoreError> {
        self.run_at(&META, &self.keys.common(), args, doing).await
    }

    async fn run_at<T: FromRedisValue>(
        &self,
        script: &Script,
        key: &str,
        args: &[&str],
        doing: &'static str,
    ) -> Result<T, StoreError> {
        Ok(self.redis.run(script, &[key], args, doing).await?)
    }

    async fn time(&self) -> Result<SystemTime, StoreError> {
        Ok(self.redis.now(&self.keys.common()).await?)
    }

    async fn load(&self, id: i64) -> Result<Option<Stored>, StoreError> {
        if id <= 0 {
            return Ok(None);
        }
        let def_id = def_of(id);
        let found: (HashMap<String, Vec<u8>>, String) =
            self.run(&LOOK, def_id, &["find", &member(id)], "looking for a notice").await?;
        Ok(Stored::new(id, def_id, found.0, found.1))
    }
}

/// Somebody else was faster too often.
fn busy(doing: &'static str) -> StoreError {
    StoreError::new(doing, FaultKind::Conflict, "others change the same all the time")
}

/// An answer that none of our scripts gives.
fn unreadable(doing: &'static str, error: &impl std::fmt::Display) -> StoreError {
    StoreError::new(doing, FaultKind::Unusable, format!("an answer of another form: {error}"))
}

/// Lets the others get on.
async fn pause(round: usize) {
    if round > 2 {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..=(round as u64).min(20)))).await;
    }
}

/// A text that may be missing, as scripts take it.
fn opt(text: Option<&str>) -> String {
    text.map(|text| format!("={text}")).unwrap_or_default()
}

/// What a script tells as a text that may be missing.
fn from_opt(word: &str) -> Option<String> {
    word.strip_prefix('=').map(str::to_owned)
}

/// The longest time that a score tells exactly to the millisecond.
const LONGEST: i64 = 1 << 52;

/// A duration as scripts take it; `inf` for one that has no end.
fn millis(duration: Duration) -> String {
    let ms = duration_millis(duration);
    if ms >= LONGEST { "inf".to_owned() } else { ms.to_string() }
}
