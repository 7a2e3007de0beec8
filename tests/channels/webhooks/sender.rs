//! The sender of webhooks in these tests: an outbox in memory with a hand-turned clock, and a sweeper with the channel.

use std::time::Duration;

use crate::configured::own_machine;
use serde::Serialize;
use serde_json::{Value, json};
use solid_notify::channels::{ChannelExt, Webhook, WebhookBuilder};
use solid_notify::{NewNotice, NoticeRecord, NotifyDef, OutboxExt, Status, Sweeper};
use solid_notify_conformance::Backend;
use test_support::memory::MemoryBackend;
use test_support::sending::{allow_secrets, eventually, record};

/// Only ends a test that hangs, where the test is not about time-outs.
const TIMEOUT: &str = "50s";

/// Sends webhooks.
pub struct Sender {
    pub backend: MemoryBackend,
    sweeper: Sweeper,
}

/// A channel that may send to this machine.
pub fn local() -> WebhookBuilder {
    Webhook::builder().allow_networks(&own_machine())
}

impl Sender {
    /// Starts with the channel that may send to this machine.
    pub async fn local() -> Self {
        Self::with(local()).await
    }

    /// Starts with this channel.
    pub async fn with(webhook: WebhookBuilder) -> Self {
        let backend = MemoryBackend::default();
        allow_secrets(backend.outbox(), &[]);
        let sweeper = backend.outbox().sweeper().channel(webhook.build().unwrap()).start().await.unwrap();
        Self { backend, sweeper }
    }

    /// Adds a definition with this configuration and waits until the sweeper has read it. Its own time-out ends no attempt.
    pub async fn define(&self, name: &str, config: &Value) {
        self.define_as(NotifyDef::new(name).timeout("1d"), config).await;
    }

    /// The same with other columns.
    pub async fn define_as(&self, definition: NotifyDef, config: &Value) {
        let definition = definition.handler("webhook").handler_config(config.to_string()).retry_interval("[1h]");
        self.backend.outbox().define_if_missing(definition).await.unwrap();
        self.sweeper.idle().await;
    }

    /// Adds a notice and returns it after its first attempt.
    pub async fn attempt(&self, name: &str, param: &(impl Serialize + Sync)) -> NoticeRecord {
        let id = self.backend.add_new(NewNotice::new(name, param).unwrap()).await.id();
        let ended = async || !matches!(record(&self.backend, id).await.status, Status::NotSent | Status::Sending);
        eventually("the attempt ends", ended).await;
        record(&self.backend, id).await
    }

    /// Sends one notice of a definition with this configuration, and returns it after its attempt.
    pub async fn send(&self, mut config: Value, param: &(impl Serialize + Sync)) -> NoticeRecord {
        if config.get("timeout").is_none() {
            config["timeout"] = json!(TIMEOUT);
        }
        static NAMES: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let name = format!("hook-{}", NAMES.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        self.define(&name, &config).await;
        self.attempt(&name, param).await
    }

    /// How long the next attempt is to wait.
    pub fn wait(&self, record: &NoticeRecord) -> Duration {
        (record.next_call_time.unwrap() - self.backend.clock().now()).to_std().unwrap()
    }

    /// Ends it.
    pub async fn close(self) {
        self.sweeper.shutdown().await;
    }
}

/// The class, the message and the response of the last attempt.
pub fn failure(record: &NoticeRecord) -> (&str, &str) {
    let last = record.errors.last().expect("an error");
    (&last.class, &last.message)
}

/// The response that the notice keeps: status and body.
pub fn response(record: &NoticeRecord) -> (&str, Option<&str>) {
    let last = record.response.as_ref().expect("a response");
    (last.response.status(), last.response.body_text())
}

/// A secret in a file of this directory, as a reference.
pub fn secret(directory: &tempfile::TempDir, name: &str, value: &str) -> String {
    let path = directory.path().join(name);
    std::fs::write(&path, value).unwrap();
    format!("file:{}", path.display())
}
