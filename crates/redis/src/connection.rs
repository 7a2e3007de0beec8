//! [`Redis`]: a connection to one server or to a cluster, shared by all clones, that comes back by itself; and how scripts run.
//!
//! What the scripts do is left to the modules that have them, and how a connection is made and left to [`Line`]. The client
//! crate is `redis`; nothing of it but its error is part of this crate's interface.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use redis::{ErrorKind, FromRedisValue, RedisResult, ServerErrorKind, Value};
use solid_notify_core::HandClock;

use crate::error::{Error, Result};
use crate::line::{Line, Target};

/// Settings of a connection; made by [`Redis::builder`].
#[derive(Debug, Clone)]
pub struct RedisBuilder {
    urls: Vec<String>,
    prefix: String,
    timeout: Duration,
    allow_eviction: bool,
    clock: Option<HandClock>,
}

impl RedisBuilder {
    /// What all keys begin with, in braces and before the kind: `notify` unless given. Letters, digits, `_`, `-` and `.`. Two
    /// applications on one Redis need two prefixes.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How long a call may take: 10 s unless given.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Runs also where the server deletes keys when its memory is full (`maxmemory-policy allkeys-…`). Then tasks can be lost.
    #[must_use]
    pub fn allow_eviction(mut self, allow: bool) -> Self {
        self.allow_eviction = allow;
        self
    }

    /// Goes by a clock that tests turn by hand, instead of the server's.
    #[must_use]
    pub fn clock(mut self, clock: HandClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Connects. Whether it is a cluster is asked of the first server that answers.
    ///
    /// # Errors
    /// [`Error::Prefix`], [`Error::Evicts`], and [`Error::Redis`] where no server can be reached.
    pub async fn connect(self) -> Result<Redis> {
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        if self.prefix.is_empty() || !self.prefix.chars().all(fits) {
            return Err(Error::Prefix { prefix: self.prefix });
        }
        let target = Target { urls: self.urls, timeout: self.timeout };
        let line = Line::open(target).await.map_err(Error::redis("connecting to Redis"))?;
        let redis = Redis { line: Arc::new(line), prefix: self.prefix, clock: self.clock };
        if !self.allow_eviction {
            redis.refuse_eviction().await?;
        }
        Ok(redis)
    }
}

/// A connection to Redis, one server or a cluster. Clones share it; after a loss it is made anew in the background, and calls
/// meanwhile fail.
#[derive(Clone)]
pub struct Redis {
    line: Arc<Line>,
    prefix: String,
    clock: Option<HandClock>,
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redis").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl Redis {
    /// Connects with the settings that fit most; `url` is `redis://host:port` or, with the feature `tls`, `rediss://…`. Of a
    /// cluster a few of its nodes, separated by commas.
    ///
    /// # Errors
    /// As [`RedisBuilder::connect`].
    pub async fn connect(url: &str) -> Result<Self> {
        Self::builder(url).connect().await
    }

    /// Settings of a connection to `url`.
    pub fn builder(url: &str) -> RedisBuilder {
        let urls = url.split(',').map(|url| url.trim().to_owned()).collect();
        let timeout = Duration::from_secs(10);
        RedisBuilder { urls, prefix: "notify".to_owned(), timeout, allow_eviction: false, clock: None }
    }

    /// The prefix of its keys.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The clock that is turned by hand, where there is one.
    pub fn hand_clock(&self) -> Option<&HandClock> {
        self.clock.as_ref()
    }

    /// What every script gets as its time: that of the hand-turned clock, or nothing, and then it asks the server for its own.
    fn time(&self) -> String {
        self.clock.as_ref().map(|clock| clock.now_millis().to_string()).unwrap_or_default()
    }

    /// The server's time, of the node that has this key.
    pub(crate) async fn now(&self, key: &str) -> Result<SystemTime> {
        let ms: i64 = self.run(&NOW, &[key], &[], "asking for the time").await?;
        Ok(solid_notify_core::notice::time_from_millis(ms))
    }

    /// Runs a script with these keys and, behind the time, these arguments.
    pub(crate) async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[impl AsRef<str>],
        args: &[&str],
        doing: &'static str,
    ) -> Result<T> {
        let answer = self.evaluate(script, keys, args).await.map_err(Error::redis(doing))?;
        redis::from_redis_value(answer)
            .map_err(|error| Error::Answer { doing, problem: format!("an answer of another form: {error}") })
    }

    /// By its hash; a server that does not know it (restarted, failed over, SCRIPT FLUSH) is given the text, which it keeps.
    async fn evaluate(&self, script: &Script, keys: &[impl AsRef<str>], args: &[&str]) -> RedisResult<Value> {
        let command = |name: &str, body: &str| {
            let mut command = redis::cmd(name);
            command.arg(body).arg(keys.len());
            for key in keys {
                command.arg(key.as_ref());
            }
            command.arg(self.time()).arg(args);
            command
        };
        let told = script.told();
        match self.line.send(&command("EVALSHA", &told.hash)).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.line.send(&command("EVAL", &told.text)).await
            }
            answered => answered,
        }
    }

    /// Looks at every master: each of them may have its own setting.
    async fn refuse_eviction(&self) -> Result<()> {
        let mut command = redis::cmd("INFO");
        command.arg("memory");
        let answer = self.line.send(&command).await.map_err(Error::redis("asking for the maxmemory-policy"))?;
        let mut texts = Vec::new();
        collect(answer, &mut texts);
        let policies =
            texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.strip_prefix("maxmemory_policy:"));
        // The other policies delete only keys that expire, and none of ours does.
        match policies.map(str::trim).find(|policy| policy.starts_with("allkeys")) {
            Some(policy) => Err(Error::Evicts { policy: policy.to_owned() }),
            None => Ok(()),
        }
    }
}

/// All texts of an answer: a cluster answers with one for each node.
fn collect(value: Value, texts: &mut Vec<String>) {
    match value {
        Value::BulkString(bytes) => texts.push(String::from_utf8_lossy(&bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => texts.push(text),
        Value::Array(values) | Value::Set(values) => values.into_iter().for_each(|value| collect(value, texts)),
        Value::Map(pairs) => pairs.into_iter().for_each(|(_, value)| collect(value, texts)),
        _ => {}
    }
}

/// A Lua script: these texts behind [`CLOCK`]. It never changes, so that each server compiles it once.
pub(crate) struct Script {
    parts: &'static [&'static str],
    told: std::sync::OnceLock<Told>,
}

/// A script as servers are told it: by its hash, or whole.
struct Told {
    hash: String,
    text: String,
}

/// What every script begins with.
const CLOCK: &str = include_str!("clock.lua");

impl Script {
    pub(crate) const fn new(parts: &'static [&'static str]) -> Self {
        Self { parts, told: std::sync::OnceLock::new() }
    }

    fn told(&self) -> &Told {
        self.told.get_or_init(|| {
            let text = CLOCK.to_owned() + &self.parts.concat();
            Told { hash: redis::Script::new(&text).get_hash().to_owned(), text }
        })
    }
}

static NOW: Script = Script::new(&[include_str!("now.lua")]);
