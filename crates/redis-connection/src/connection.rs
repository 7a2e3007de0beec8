//! [`Redis`]: a connection to one server or to a cluster, shared by all clones, which reconnects by itself. It also runs the
//! scripts.
//!
//! The scripts belong to the crates that include them; [`Line`] connects and reconnects.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use redis::{ErrorKind, FromRedisValue, RedisResult, ServerErrorKind, Value};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::line::{Line, Target};
use crate::resolve::Resolve;
use crate::script::Script;

/// Settings of a connection; returned by [`Redis::builder`].
#[derive(Clone)]
pub struct RedisBuilder {
    urls: Vec<String>,
    prefix: String,
    timeout: Duration,
    allow_eviction: bool,
    resolve: Option<Resolve>,
}

/// Leaves out the URLs, which may contain passwords.
impl std::fmt::Debug for RedisBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = f.debug_struct("RedisBuilder");
        fields.field("prefix", &self.prefix).field("timeout", &self.timeout);
        fields.field("allow_eviction", &self.allow_eviction).finish_non_exhaustive()
    }
}

impl RedisBuilder {
    /// The prefix of all keys, in braces and before the kind; `notify` by default. Letters, digits, `_`, `-` and `.`. Two
    /// applications on one Redis need two prefixes.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Time-out of a call; 10 s by default, at most a day.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        // Bounded, because time-outs are added to points in time.
        self.timeout = timeout.min(Duration::from_secs(86_400));
        self
    }

    /// Accepts a server that deletes keys when its memory is full (`maxmemory-policy allkeys-…`). Then tasks can be lost.
    #[must_use]
    pub fn allow_eviction(mut self, allow: bool) -> Self {
        self.allow_eviction = allow;
        self
    }

    /// Resolves the names of hosts by this function instead of the operating system's, also those of the nodes that a cluster names. The
    /// connection goes to an address that it returns.
    #[doc(hidden)]
    #[must_use]
    pub fn resolver(mut self, resolve: Resolve) -> Self {
        self.resolve = Some(resolve);
        self
    }

    /// Connects. Asks the first server that responds whether it belongs to a cluster.
    ///
    /// # Errors
    /// [`Error::Prefix`], [`Error::Evicts`], and [`Error::Redis`] where no server can be reached.
    pub async fn connect(self) -> Result<Redis> {
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        if self.prefix.is_empty() || !self.prefix.chars().all(fits) {
            return Err(Error::Prefix { prefix: self.prefix });
        }
        let is_encrypted = self.urls.iter().all(|url| url.starts_with("rediss:"));
        let target = Target { urls: self.urls, timeout: self.timeout, resolve: self.resolve };
        let line = Line::open(target).await.map_err(Error::redis("connecting to Redis"))?;
        let redis = Redis { line: Arc::new(line), prefix: self.prefix, is_encrypted, clock: None };
        if !self.allow_eviction {
            redis.refuse_eviction().await?;
        }
        Ok(redis)
    }
}

/// A connection to Redis, one server or a cluster. Clones share it. After a loss it reconnects in the background, and calls
/// fail meanwhile.
#[derive(Clone)]
pub struct Redis {
    pub(crate) line: Arc<Line>,
    prefix: String,
    is_encrypted: bool,
    clock: Option<Arc<Clock>>,
}

/// Returns the time of a clock that tests turn by hand.
type Clock = dyn Fn() -> DateTime<Utc> + Send + Sync;

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redis").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl Redis {
    /// Connects with the default settings. `url` is `redis://host:port` or, with the feature `tls`, `rediss://…`. For a cluster,
    /// give a few of its nodes, separated by commas. `?prefix=shop` at the end of a URL is the [prefix](RedisBuilder::prefix).
    ///
    /// # Errors
    /// As [`RedisBuilder::connect`].
    pub async fn connect(url: &str) -> Result<Self> {
        Self::builder(url).connect().await
    }

    /// Returns the settings of a connection to `url`.
    pub fn builder(url: &str) -> RedisBuilder {
        let mut prefix = None;
        let urls = url.split(',').map(|url| without_prefix(url.trim(), &mut prefix)).collect();
        let prefix = prefix.unwrap_or_else(|| "notify".to_owned());
        RedisBuilder { urls, prefix, timeout: Duration::from_secs(10), allow_eviction: false, resolve: None }
    }

    /// Returns the prefix of the keys.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns whether each of its URLs demands TLS.
    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// Returns the same connection, whose scripts use the time of this clock instead of the server's.
    #[doc(hidden)]
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> DateTime<Utc> + Send + Sync + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Returns the time of the server that has this key.
    #[doc(hidden)]
    pub async fn now(&self, key: &str) -> Result<DateTime<Utc>> {
        const DOING: &str = "asking for the time";
        let ms: i64 = self.run_with_values(&NOW, &[key], &[], DOING).await?;
        DateTime::from_timestamp_millis(ms)
            .ok_or_else(|| Error::Reply { doing: DOING, problem: format!("no time: {ms}") })
    }

    /// Runs a script. It gets what it is given as JSON with named fields, and the time of a hand-turned clock among them.
    #[doc(hidden)]
    pub async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[impl AsRef<str>],
        given: &impl Serialize,
        doing: &'static str,
    ) -> Result<T> {
        // Only texts, numbers and flags are given, for which encoding never fails.
        let given = serde_json::to_string(&Given { now: self.hand_time(), given }).unwrap_or_default();
        self.call(script, keys, &given, &[], doing).await
    }

    /// Runs a script that is given nothing but a list of values, for the one script in which JSON costs too much.
    #[doc(hidden)]
    pub async fn run_with_values<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[impl AsRef<str>],
        values: &[&str],
        doing: &'static str,
    ) -> Result<T> {
        let given = self.hand_time().map(|now| format!("{{\"now\":{now}}}")).unwrap_or_default();
        self.call(script, keys, &given, values, doing).await
    }

    /// Runs a command, whose first argument is its key.
    #[doc(hidden)]
    pub async fn command<T: FromRedisValue>(
        &self,
        name: &str,
        arguments: &[impl AsRef<str>],
        doing: &'static str,
    ) -> Result<T> {
        let mut command = redis::cmd(name);
        for argument in arguments {
            command.arg(argument.as_ref());
        }
        let reply = self.line.send(&command).await.map_err(Error::redis(doing))?;
        redis::from_redis_value(reply).map_err(|_| Error::unreadable(doing))
    }

    fn hand_time(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock().timestamp_millis())
    }

    async fn call<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[impl AsRef<str>],
        given: &str,
        values: &[&str],
        doing: &'static str,
    ) -> Result<T> {
        let reply = self.evaluate(script, keys, given, values).await.map_err(Error::redis(doing))?;
        redis::from_redis_value(reply).map_err(|_| Error::unreadable(doing))
    }

    /// Calls the script by its hash. A server that does not have it (restarted, failed over, SCRIPT FLUSH) gets the text and
    /// keeps it.
    async fn evaluate(
        &self,
        script: &Script,
        keys: &[impl AsRef<str>],
        given: &str,
        values: &[&str],
    ) -> RedisResult<Value> {
        let command = |name: &str, body: &str| {
            let mut command = redis::cmd(name);
            command.arg(body).arg(keys.len());
            for key in keys {
                command.arg(key.as_ref());
            }
            command.arg(given).arg(values);
            command
        };
        let source = script.source();
        match self.line.send(&command("EVALSHA", &source.hash)).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.line.send(&command("EVAL", &source.text)).await
            }
            answered => answered,
        }
    }

    /// Checks every master, because each may have its own setting.
    async fn refuse_eviction(&self) -> Result<()> {
        let policies = self.server_info("maxmemory_policy").await?;
        // The other policies delete only keys that expire, and none of this crate's keys does.
        match policies.into_iter().find(|policy| policy.starts_with("allkeys")) {
            Some(policy) => Err(Error::Evicts { policy }),
            None => Ok(()),
        }
    }

    /// Returns a field of INFO, of each server.
    ///
    /// # Errors
    /// [`Error::Redis`].
    pub async fn server_info(&self, field: &str) -> Result<Vec<String>> {
        let reply =
            self.line.send(&redis::cmd("INFO")).await.map_err(Error::redis("reading the state of the server"))?;
        let mut texts = Vec::new();
        collect(reply, &mut texts);
        let values = texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.split_once(':'));
        Ok(values.filter(|(name, _)| *name == field).map(|(_, value)| value.trim().to_owned()).collect())
    }
}

/// Returns a URL without the parameter `prefix` of its query, which the client does not know.
fn without_prefix(url: &str, prefix: &mut Option<String>) -> String {
    let (url, fragment) = url.split_at(url.find('#').unwrap_or(url.len()));
    let Some((place, query)) = url.split_once('?') else { return format!("{url}{fragment}") };
    let mut kept = Vec::new();
    for parameter in query.split('&') {
        match parameter.strip_prefix("prefix=") {
            Some(name) => *prefix = Some(name.to_owned()),
            None => kept.push(parameter),
        }
    }
    let query = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
    format!("{place}{query}{fragment}")
}

/// All that a script is given.
#[derive(Serialize)]
struct Given<'a, T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<i64>,
    #[serde(flatten)]
    given: &'a T,
}

/// Collects all texts of a reply: a cluster returns one for each node.
fn collect(value: Value, texts: &mut Vec<String>) {
    match value {
        Value::BulkString(bytes) => texts.push(String::from_utf8_lossy(&bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => texts.push(text),
        Value::Array(values) | Value::Set(values) => values.into_iter().for_each(|value| collect(value, texts)),
        Value::Map(pairs) => pairs.into_iter().for_each(|(_, value)| collect(value, texts)),
        _ => {}
    }
}

static NOW: Script = Script::new(&[include_str!("now.lua")]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_may_be_a_parameter_of_the_url() {
        let read = |url: &str| {
            let builder = Redis::builder(url);
            (builder.urls, builder.prefix)
        };
        let one = |url: &str| vec![url.to_owned()];
        assert_eq!(read("redis://db/1?prefix=shop"), (one("redis://db/1"), "shop".to_owned()));
        assert_eq!(read("redis://db?protocol=resp3&prefix=a.b"), (one("redis://db?protocol=resp3"), "a.b".to_owned()));
        assert_eq!(read("redis://db?protocol=resp3"), (one("redis://db?protocol=resp3"), "notify".to_owned()));
        assert_eq!(read("rediss://db?prefix=shop#insecure"), (one("rediss://db#insecure"), "shop".to_owned()));
        assert_eq!(read("rediss://db#insecure").0, one("rediss://db#insecure"));
        let cluster = vec!["redis://a".to_owned(), "redis://b".to_owned()];
        assert_eq!(read("redis://a,redis://b?prefix=shop"), (cluster, "shop".to_owned()));
        // An empty one is refused by `connect`.
        assert_eq!(read("redis://db?prefix=").1, "");
    }

    #[test]
    fn debug_output_of_the_builder_shows_no_password() {
        let shown = format!("{:?}", Redis::builder("redis://user:secret@host:6379").timeout(Duration::MAX));
        assert!(!shown.contains("secret") && shown.contains("notify"), "{shown}");
    }
}
