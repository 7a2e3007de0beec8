//! A store with the healthy definitions, their receivers, and the file of `serve`.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use solid_notify::operate::Listed;
use solid_notify::{Filter, NewNotice, NoticeRecord, NotifyDef};
use tempfile::TempDir;
use test_support::databases::server_url;
use test_support::sending::eventually;
use test_support::smtp::SmtpServer;
use tokio::sync::OnceCell;

use crate::brokers::Brokers;
use crate::healthy::{self, Urls};
use crate::http::Http;
use crate::settings::{GRACE, NETWORKS, POLL, SLOTS};
use crate::store::Store;

pub struct Site<S: Store> {
    pub store: S,
    /// Another store of the process, which a neighbour cuts off.
    other: OnceCell<S>,
    /// The file of `serve`, without that other store.
    config: String,
    pub folder: TempDir,
    pub http: Http,
    pub smtp: SmtpServer,
    pub brokers: Brokers,
}

impl<S: Store> Site<S> {
    pub async fn new() -> Self {
        let (store, folder) = (S::create().await, tempfile::tempdir().unwrap());
        let (http, smtp, brokers) = (Http::start().await, SmtpServer::start().await, Brokers::start().await);
        let mut site = Self { store, other: OnceCell::new(), config: String::new(), folder, http, smtp, brokers };
        std::fs::create_dir(site.path("secrets")).unwrap();
        std::fs::write(site.path("key"), "a secret of a test, which has 32 bytes").unwrap();
        let urls = Urls {
            amqp: site.secret("amqp", &server_url("AMQP_URL")),
            nats: site.secret("nats", &server_url("NATS_URL")),
            redis: site.secret("redis", &server_url("REDIS_URL")),
            smtp: site.secret("smtp", &site.smtp.url()),
            chat: site.secret("chat", &site.http.url("/chat")),
        };
        for def in healthy::definitions(&site.http, &site.brokers, &urls) {
            site.store.outbox().define_if_missing(def).await.unwrap();
        }
        site.config = format!(
            "[channels]\nallow_networks = {NETWORKS:?}\n\
             [sweeper]\nshutdown_grace = '{}ms'\nmax_running = {SLOTS}\npoll_interval = '{}ms'\n\
             [secrets.all]\nallow = ['file:{}/', 'file:/dev/zero']\n\
             [databases.shop]\nurl = '{}'\ntoken_keys = ['file:{}']\n",
            GRACE.as_millis(),
            POLL.as_millis(),
            site.path("secrets").display(),
            site.store.url(),
            site.path("key").display(),
        );
        site
    }

    /// Writes the file of `serve`, with another store where there is one.
    pub fn configure(&self, other: Option<&str>) {
        let other = other.map(|url| format!("[databases.other]\nurl = '{url}'\n")).unwrap_or_default();
        std::fs::write(self.path("serve.toml"), format!("{}{other}", self.config)).unwrap();
    }

    /// The other store.
    pub async fn other(&self) -> &S {
        self.other.get_or_init(S::create).await
    }

    /// A path in its folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a secret. Returns the reference to it.
    pub fn secret(&self, name: &str, value: &str) -> String {
        let path = self.path("secrets").join(name);
        std::fs::write(&path, value).unwrap();
        format!("file:{}", path.display())
    }

    /// Creates a bad definition, which retries often and without an end.
    pub async fn define(&self, def: NotifyDef) {
        let def = def.retry_interval("100ms").max_retry_times(-1);
        self.store.outbox().define_if_missing(def).await.unwrap();
    }

    /// The id of a definition.
    pub async fn definition(&self, name: &str) -> i64 {
        let all = self.store.outbox().definitions().await.unwrap();
        all.into_iter().find(|state| state.row.name == name).expect("a definition of this name").row.id
    }

    /// Adds notices that are due one after the other within this time. Returns their ids.
    pub async fn feed(&self, name: &str, count: u32, within: Duration, param: impl Fn(u32) -> Value) -> Vec<i64> {
        let notice = |number| NewNotice::new(name, param(number)).unwrap().delay(within * number / count);
        self.add(count, notice).await
    }

    /// Adds many notices. Returns their ids.
    pub async fn add(&self, count: u32, notice: impl Fn(u32) -> NewNotice) -> Vec<i64> {
        let mut ids = Vec::new();
        // Few in each call, because some have large parameters.
        for first in (0..count).step_by(100) {
            let some = (first..count.min(first + 100)).map(&notice).collect();
            ids.extend(self.store.add_many(some).await.unwrap().iter().map(|receipt| receipt.id()));
        }
        ids
    }

    /// A notice.
    pub async fn find(&self, id: i64) -> NoticeRecord {
        self.store.outbox().find(id).await.unwrap().expect("a notice of this id")
    }

    /// The live notices of a definition, at most 500.
    pub async fn live(&self, name: &str) -> Vec<Listed> {
        let operator = self.store.outbox().operator("alice");
        operator.list(&Filter::live().definition(name), None, 500).await.unwrap().notices
    }

    /// How many notices of a filter the definitions have whose names begin so.
    pub async fn count(&self, begin: &str, filter: &Filter) -> usize {
        let counts = self.store.outbox().operator("alice").counts(filter).await.unwrap();
        let of_them = counts.iter().filter(|of_one| of_one.definition.starts_with(begin));
        of_them.map(|of_one| usize::try_from(of_one.count.count).unwrap()).sum()
    }

    /// The notices of these ids.
    pub async fn all(&self, ids: &[i64]) -> Vec<NoticeRecord> {
        let mut all = Vec::new();
        for id in ids {
            all.push(self.find(*id).await);
        }
        all
    }

    /// Waits until this is true of one of the notices.
    pub async fn one_is(&self, ids: &[i64], what: &str, is: impl Fn(&NoticeRecord) -> bool) {
        eventually(what, async || self.all(ids).await.iter().any(&is)).await;
    }

    /// Deletes the bad definitions, all live notices and all timed tasks.
    pub async fn clean(&self) {
        self.store.clean().await;
        if let Some(other) = self.other.get() {
            other.clean().await;
        }
        self.brokers.delete_tasks();
    }

    pub async fn close(self) {
        self.brokers.close().await;
        self.store.close().await;
        if let Some(other) = self.other.into_inner() {
            other.close().await;
        }
    }
}
