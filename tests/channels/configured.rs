//! A definition whose row configures a channel, in memory with a hand-turned clock.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use solid_notify::channels::{AllowedNetworks, Channel, ChannelExt};
use solid_notify::{NewNotice, NoticeRecord, NotifyDef, OutboxExt, Status, Sweeper};
use solid_notify_conformance::Backend;
use tempfile::TempDir;
use test_support::memory::MemoryBackend;
use test_support::sending::{allow_secrets, eventually, reaches, record};

use crate::desk::log;

/// The name of the definition.
pub const NAME: &str = "configured";

/// How long after a failure the next attempt is.
const INTERVAL: Duration = Duration::from_secs(3600);

/// The networks that the channels of most tests may reach: this machine.
pub fn own_machine() -> AllowedNetworks {
    AllowedNetworks::new(["127.0.0.0/8"]).unwrap()
}

/// Sends notices by a channel.
pub struct Configured {
    backend: MemoryBackend,
    sweeper: Sweeper,
}

impl Configured {
    /// Starts with this row.
    pub async fn with<C: Channel>(channel: C, config: &Value) -> Self {
        Self::with_row(channel, NotifyDef::new(NAME).handler_config(config.to_string())).await
    }

    /// The same with more columns.
    pub async fn with_row<C: Channel>(channel: C, row: NotifyDef) -> Self {
        log();
        let backend = MemoryBackend::default();
        allow_secrets(backend.outbox(), &[]);
        let row = row.handler(C::NAME).retry_interval("[1h]").max_retry_times(5);
        backend.outbox().define_if_missing(row).await.unwrap();
        let sweeper = backend.outbox().sweeper().channel(channel).start().await.unwrap();
        Self { backend, sweeper }
    }

    /// Sends one notice and waits until its first attempt has ended with this status.
    pub async fn send(&self, param: &Value, becomes: Status) -> NoticeRecord {
        let id = self.backend.add_new(NewNotice::new(NAME, param).unwrap()).await.id();
        reaches(&self.backend, id, becomes).await
    }

    /// Sends a test, as an operator does, and waits until its first attempt has ended with this status.
    pub async fn test(&self, param: &Value, becomes: Status) -> NoticeRecord {
        let id = self.backend.outbox().operator("alice").test_send(NAME, param).await.unwrap();
        reaches(&self.backend, id, becomes).await
    }

    /// Turns the clock to the next attempt and waits until it has ended with this status.
    pub async fn retry(&self, before: &NoticeRecord, becomes: Status) -> NoticeRecord {
        self.backend.clock().advance(INTERVAL + Duration::from_secs(60));
        let ended = async || {
            let now = record(&self.backend, before.id).await;
            now.fence > before.fence && now.status == becomes
        };
        eventually(&format!("the retry ends as {becomes:?}"), ended).await;
        record(&self.backend, before.id).await
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

/// What a channel says of a wrong configuration.
pub async fn refusal<C: Channel>(channel: C, config: &Value) -> String {
    let backend = MemoryBackend::default();
    let sweeper = backend.outbox().sweeper().channel(channel).start().await.unwrap();
    let row = NotifyDef::new(NAME).handler(C::NAME).handler_config(config.to_string());
    let refused = backend.outbox().define_if_missing(row).await.map(drop).unwrap_err().to_string();
    sweeper.shutdown().await;
    refused
}

/// A file with a secret.
pub struct SecretFile(TempDir);

impl SecretFile {
    pub fn new(secret: &str) -> Self {
        let file = Self(TempDir::new().unwrap());
        file.write(secret);
        file
    }

    pub fn write(&self, secret: &str) {
        std::fs::write(self.path(), secret).unwrap();
    }

    /// The reference in a configuration.
    pub fn reference(&self) -> String {
        format!("file:{}", self.path().display())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("secret")
    }
}

/// The response that a notice keeps.
pub fn response(record: &NoticeRecord) -> String {
    record.response.as_ref().map(|last| last.response.to_string()).unwrap_or_default()
}
