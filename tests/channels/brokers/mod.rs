//! The channels to brokers, with real servers: what a message contains, what a failure is, and that no notice is lost while a server
//! restarts or hangs.

pub mod fake;
mod hostile;
mod nats;
mod on_redis;
mod quiet;
mod rabbitmq;

use std::io::Write;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use solid_notify::channels::{Channel, ChannelExt};
use solid_notify::testkit::MemoryOutbox;
use solid_notify::{NoticeRecord, NotifyDef, OutboxExt, Status, Sweeper, TokenKeys, add_notice};
use tempfile::NamedTempFile;
use test_servers::servers::Server;
use test_support::log::Log;
use test_support::proxy::{Proxy, Weather};
use test_support::sending::{allow_secrets, eventually};

/// A parameter that no Rust value has: half a surrogate pair, and numbers that are too large, too long, or have a zero at their end.
pub fn strange_param() -> Box<RawValue> {
    let text = r#"{ "note":"cut \ud83d","x":1e400, "n":19.90,"id":12345678901234567890123,"b":1,"a":null}"#;
    RawValue::from_string(text.to_owned()).unwrap()
}

/// A sweeper with one channel.
pub struct Sending {
    pub outbox: MemoryOutbox,
    pub sweeper: Sweeper,
    /// The time-out of definitions that are created.
    pub timeout: &'static str,
    handler: &'static str,
    url: NamedTempFile,
}

impl Sending {
    /// Starts with a channel to the server of this URL.
    pub async fn start<C: Channel>(channel: C, url: &str) -> Self {
        Self::over(MemoryOutbox::new(), channel, url).await
    }

    /// The same over this outbox.
    pub async fn over<C: Channel>(outbox: MemoryOutbox, channel: C, url: &str) -> Self {
        outbox.use_token_keys(TokenKeys::new(b"a secret of a test, which has 32 bytes").unwrap());
        Self::without_token_keys(outbox, channel, url).await
    }

    /// The same over an outbox that has no keys for ack tokens, unless the caller has set them.
    pub async fn without_token_keys<C: Channel>(outbox: MemoryOutbox, channel: C, url: &str) -> Self {
        Log::start();
        allow_secrets(&outbox, &[]);
        let sweeper = outbox.sweeper().channel(channel).start().await.unwrap();
        let mut file = NamedTempFile::new().unwrap();
        writeln!(file, "{url}").unwrap();
        Self { outbox, sweeper, timeout: "10s", handler: C::NAME, url: file }
    }

    /// Creates a definition of the channel with this configuration, which retries often.
    pub async fn define(&self, name: &str, config: Value) {
        self.define_as(NotifyDef::new(name), config).await;
    }

    /// The same with other columns.
    pub async fn define_as(&self, definition: NotifyDef, mut config: Value) {
        config["url"] = self.url_reference().into();
        let definition = definition.handler(self.handler).handler_config(config.to_string());
        let definition = definition.retry_interval("200ms").max_retry_times(1000).timeout(self.timeout);
        self.outbox.define_if_missing(definition).await.unwrap();
        self.sweeper.idle().await;
    }

    /// The URL, as configurations have it.
    pub fn url_reference(&self) -> String {
        format!("file:{}", self.url.path().display())
    }

    /// Replaces the secret with the URL.
    pub fn use_url(&self, url: &str) {
        std::fs::write(self.url.path(), url).unwrap();
    }

    /// Adds a notice.
    pub async fn add(&self, name: &str, param: impl Serialize + Send) -> i64 {
        let mut tx = self.outbox.begin().await.unwrap();
        let id = add_notice(&mut tx, name, param).await.unwrap().id();
        tx.commit().await.unwrap();
        id
    }

    /// Sends a test, as an operator does, and waits until it has succeeded.
    pub async fn test(&self, name: &str, param: Value) -> NoticeRecord {
        let id = self.outbox.operator("alice").test_send(name, param).await.unwrap();
        self.reaches(id, Status::Succeeded).await
    }

    /// Adds notices whose parameters are numbers from 0 on.
    pub async fn add_many(&self, name: &str, count: u32) -> Vec<i64> {
        self.add_numbered(name, 0, count).await
    }

    /// Adds notices whose parameters are numbers from `first` on.
    pub async fn add_numbered(&self, name: &str, first: u32, count: u32) -> Vec<i64> {
        let mut ids = Vec::new();
        for number in first..first + count {
            ids.push(self.add(name, number).await);
        }
        ids
    }

    /// Returns a notice.
    pub async fn find(&self, id: i64) -> NoticeRecord {
        self.outbox.find(id).await.unwrap().expect("a notice of this id")
    }

    /// Waits until a notice has a status.
    pub async fn reaches(&self, id: i64, status: Status) -> NoticeRecord {
        eventually(&format!("notice {id} becomes {status:?}"), async || self.find(id).await.status == status).await;
        self.find(id).await
    }

    /// Waits until an attempt of a notice has failed; returns its class, its message and the response.
    pub async fn fails(&self, id: i64) -> (String, String, Option<String>) {
        eventually(&format!("an attempt of notice {id} fails"), async || !self.find(id).await.errors.is_empty()).await;
        let error = self.find(id).await.errors.remove(0);
        (error.class, error.message, error.response.map(|response| response.to_string()))
    }

    /// Waits long until all have succeeded: servers take seconds to restart.
    pub async fn all_succeed(&self, ids: &[i64]) {
        for id in ids {
            let began = std::time::Instant::now();
            loop {
                let notice = self.find(*id).await;
                if notice.status == Status::Succeeded {
                    break;
                }
                assert!(began.elapsed() < Duration::from_secs(120), "notice {id}: {notice:?}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

impl Sending {
    /// Adds notices of the definition `order`, and has the server close their connection with this last answer before it has confirmed one.
    pub async fn lose_no_try_where_a_message_closes_the_connection(&self, proxy: &Proxy, last: &'static [u8]) {
        let first = self.add("order", 1).await;
        self.reaches(first, Status::Succeeded).await;
        // Twenty messages are on their way, and no confirmation comes back.
        proxy.set(Weather::Stall);
        let ids = self.add_many("order", 20).await;
        for id in &ids {
            self.reaches(*id, Status::Sending).await;
        }
        // An attempt that has begun has not published yet, and nothing shows when it has.
        tokio::time::sleep(Duration::from_millis(100)).await;
        proxy.struck();
        proxy.set(Weather::Refuse(last));
        eventually("the connection is closed", async || proxy.struck() > 0).await;
        proxy.set(Weather::Fair);
        self.lost_no_try(&ids).await;
        assert!(proxy.accepted() > ids.len(), "each was sent again on a connection of its own");
    }

    /// Waits until all have succeeded, and checks that none of them failed before.
    pub async fn lost_no_try(&self, ids: &[i64]) {
        self.all_succeed(ids).await;
        for id in ids {
            let notice = self.find(*id).await;
            assert!(notice.failures == 0 && notice.errors.is_empty(), "{:?}", notice.errors);
        }
    }
}

/// Sends a signal to a server's process.
pub fn signal(server: &Server, name: &str) {
    let process = server.process().expect("it runs").to_string();
    assert!(std::process::Command::new("kill").args(["-s", name, &process]).status().unwrap().success());
}
