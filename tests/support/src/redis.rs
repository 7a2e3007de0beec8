//! Redis under test: one server, and a cluster of three masters. A test has a prefix of its own, whose keys go at its end.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use redis::{Client, Commands};
use solid_notify_conformance::Backend;
use solid_notify_core::ack::Reply;
use solid_notify_core::{AckResult, AnyOutbox, Error, HandClock, Inbox, NewNotice, Receipt, add_notices};
use solid_notify_redis::{Redis, RedisBuilder, RedisOutbox};
use solid_notify_timed::TimedTasks;

use crate::databases::server_url;
use crate::hand_clock;

/// Where Redis is.
pub trait RedisServer: Send + Sync + 'static {
    /// The variable with its URL, or with those of its nodes.
    const VARIABLE: &'static str;
}

/// The server at `REDIS_URL`.
pub struct SingleRedis;
/// The nodes at `REDIS_CLUSTER_URL`.
pub struct RedisCluster;

impl RedisServer for SingleRedis {
    const VARIABLE: &'static str = "REDIS_URL";
}

impl RedisServer for RedisCluster {
    const VARIABLE: &'static str = "REDIS_CLUSTER_URL";
}

/// A prefix of a test's own.
pub struct OwnPrefix {
    urls: String,
    /// The prefix.
    pub prefix: String,
    /// The clock of its connections.
    pub clock: HandClock,
}

impl OwnPrefix {
    /// A fresh one.
    pub fn of<R: RedisServer>() -> Self {
        let prefix = crate::databases::fresh_name();
        Self { urls: server_url(R::VARIABLE), prefix, clock: hand_clock() }
    }

    /// The URL for a program.
    pub fn url(&self) -> String {
        format!("{}?prefix={}", self.urls, self.prefix)
    }

    /// Settings of a connection.
    pub fn builder(&self) -> RedisBuilder {
        Redis::builder(&self.urls).prefix(self.prefix.as_str())
    }

    async fn connect(&self) -> Redis {
        self.builder().connect().await.expect("Redis must be reachable")
    }

    /// An outbox that goes by the hand-turned clock.
    pub async fn outbox(&self) -> RedisOutbox {
        RedisOutbox::builder(self.connect().await).clock(self.clock.clone()).build()
    }

    /// Timed tasks that go by the hand-turned clock.
    pub async fn tasks(&self) -> TimedTasks {
        let clock = self.clock.clone();
        TimedTasks::new(self.connect().await).clock(move || clock.now())
    }

    /// As [`Self::tasks`], over a connection that calls `before` with the number of each of its scripts, from 0 on, before it runs.
    pub async fn tasks_with_calls(&self, before: impl Fn(usize) + Send + Sync + 'static) -> TimedTasks {
        TimedTasks::new(self.connect().await).clock(self.clock_with_calls(before))
    }

    /// As [`Self::outbox`], over such a connection.
    pub async fn outbox_with_calls(&self, before: impl Fn(usize) + Send + Sync + 'static) -> RedisOutbox {
        RedisOutbox::new(self.connect().await.with_clock(self.clock_with_calls(before)))
    }

    /// A connection asks for the time before each script.
    fn clock_with_calls(
        &self,
        before: impl Fn(usize) + Send + Sync + 'static,
    ) -> impl Fn() -> DateTime<Utc> + Send + Sync + 'static {
        let (clock, calls) = (self.clock.clone(), AtomicUsize::new(0));
        move || {
            before(calls.fetch_add(1, Ordering::SeqCst));
            clock.now()
        }
    }

    /// Runs a command as `redis-cli` does, on the node that has the key.
    pub fn by_hand(&self, words: &[&str]) -> redis::Value {
        let mut command = redis::cmd(words[0]);
        words[1..].iter().for_each(|word| {
            command.arg(word);
        });
        let mut moved = None;
        for url in self.urls.split(',') {
            let mut connection = Client::open(url).unwrap().get_connection().unwrap();
            match command.query(&mut connection) {
                Ok(value) => return value,
                Err(error) => moved = Some(error),
            }
        }
        panic!("{words:?}: {moved:?}");
    }

    /// Every node.
    pub fn on_each_node(&self, mut work: impl FnMut(&mut redis::Connection)) {
        for url in self.urls.split(',') {
            work(&mut Client::open(url).unwrap().get_connection().unwrap());
        }
    }

    /// The stored keys that match a pattern, sorted.
    pub fn keys(&self, pattern: &str) -> Vec<String> {
        let mut keys = Vec::new();
        self.on_each_node(|connection| {
            keys.extend(connection.scan_match::<_, String>(pattern).unwrap().map(Result::unwrap));
        });
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Deletes the keys that match a pattern.
    pub fn delete(&self, pattern: &str) {
        self.on_each_node(|connection| {
            let keys: Vec<String> = connection.scan_match(pattern).unwrap().collect::<Result<_, _>>().unwrap();
            for key in keys {
                let _: () = connection.del(key).unwrap();
            }
        });
    }

    /// Deletes its keys. They stay after a failure, for an inspection.
    pub fn close(self) {
        self.delete(&format!("{{{}*", self.prefix));
    }
}

/// A store on Redis as a [`Backend`].
pub struct RedisBackend {
    /// Its keys.
    pub own: OwnPrefix,
    outbox: RedisOutbox,
}

impl RedisBackend {
    /// A fresh one with a hand-turned clock. It counts on from 200,000,000,000 notices, so that all cases have ids that no
    /// number of Lua can distinguish.
    pub async fn new<R: RedisServer>() -> Self {
        let own = OwnPrefix::of::<R>();
        own.by_hand(&["SET", &format!("{{{}#}}:last_notice", own.prefix), "200000000000"]);
        let outbox = own.outbox().await;
        Self { own, outbox }
    }

    /// A fresh one whose time is that of Redis.
    pub async fn with_real_clock<R: RedisServer>() -> Self {
        let own = OwnPrefix::of::<R>();
        let outbox = RedisOutbox::new(own.connect().await);
        Self { own, outbox }
    }

    /// Deletes its keys.
    pub fn close(self) {
        self.own.close();
    }

    fn definition(&self, def_id: i64) -> String {
        format!("{{{}#}}:definition:{def_id}", self.own.prefix)
    }
}

#[async_trait]
impl Backend for RedisBackend {
    fn outbox(&self) -> &AnyOutbox {
        &self.outbox
    }

    fn clock(&self) -> &HandClock {
        &self.own.clock
    }

    async fn add(&self, notice: NewNotice) -> Result<Receipt, Error> {
        notice.add(&mut self.outbox.clone()).await
    }

    async fn add_many(&self, notices: Vec<NewNotice>) -> Result<Vec<Receipt>, Error> {
        add_notices(&mut self.outbox.clone(), notices).await
    }

    async fn add_and_roll_back(&self, notice: NewNotice) -> Result<Receipt, Error> {
        let mut batch = self.outbox.begin().await.unwrap();
        let added = notice.add(&mut batch).await?;
        batch.rollback().await.unwrap();
        Ok(added)
    }

    async fn apply_ack(&self, answer: &Reply, commit: bool) -> AckResult {
        let mut batch = self.outbox.begin().await.unwrap();
        let answered = answer.apply(&mut batch).await.unwrap();
        match commit {
            true => batch.commit().await.unwrap(),
            false => batch.rollback().await.unwrap(),
        }
        answered
    }

    async fn first_time(&self, inbox: &Inbox, key: &str, commit: bool) -> Result<bool, Error> {
        let mut batch = self.outbox.begin().await?;
        let first = inbox.first_time(&mut batch, key).await?;
        match commit {
            true => batch.commit().await?,
            false => batch.rollback().await?,
        }
        Ok(first)
    }

    async fn edit_by_hand(&self, def_id: i64, column: &str, value: &str) {
        self.own.by_hand(&["HSET", &self.definition(def_id), column, value]);
    }

    async fn delete_by_hand(&self, def_id: i64) {
        self.own.by_hand(&["DEL", &self.definition(def_id)]);
    }
}
