//! A database with the healthy definitions, their receivers, and the file of `serve`.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use solid_notify::{NewNotice, NoticeRecord, NotifyDef};
use solid_notify_conformance::Backend;
use sqlx::ConnectOptions;
use tempfile::TempDir;
use test_support::databases::server_url;
use test_support::sending::eventually;
use test_support::smtp::SmtpServer;
use test_support::{Database, MariaDb, Postgres, Sqlite, TestDb};

use crate::brokers::Brokers;
use crate::healthy::{self, Urls};
use crate::http::Http;
use crate::served::GRACE;

/// The slots of the process. One neighbour has work for more.
pub const SLOTS: usize = 200;

/// A database that the program serves.
pub trait Store: Database + Sized {
    const NAME: &str;
    /// Whether another session can lock single rows.
    const HAS_ROW_LOCKS: bool = true;

    /// The URL for the program.
    fn url(db: &TestDb<Self>) -> String {
        db.pool.connect_options().to_url_lossy().to_string()
    }
}

impl Store for Postgres {
    const NAME: &str = "PostgreSQL";

    /// A test has a schema of its own there, which the URL has to name.
    fn url(db: &TestDb<Self>) -> String {
        let options = db.pool.connect_options();
        let mut url = options.to_url_lossy();
        url.query_pairs_mut().append_pair("options", options.get_options().unwrap());
        url.to_string()
    }
}

impl Store for MariaDb {
    const NAME: &str = "MariaDB";
}

impl Store for Sqlite {
    const NAME: &str = "SQLite";
    const HAS_ROW_LOCKS: bool = false;
}

pub struct Site<D: Store> {
    pub db: TestDb<D>,
    pub folder: TempDir,
    pub http: Http,
    pub smtp: SmtpServer,
    pub brokers: Brokers,
}

impl<D: Store> Site<D> {
    pub async fn new() -> Self {
        let (db, folder) = (TestDb::<D>::with_real_clock().await, tempfile::tempdir().unwrap());
        let (http, smtp, brokers) = (Http::start().await, SmtpServer::start().await, Brokers::start().await);
        let site = Self { db, folder, http, smtp, brokers };
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
            site.db.outbox.define_if_missing(def).await.unwrap();
        }
        // Another process adds, so notices wait for a poll. One of each second would hide what a neighbour does.
        let file = format!(
            "[channels]\nallow_networks = ['127.0.0.0/8', '::1/128']\n\
             [sweeper]\nshutdown_grace = '{}s'\nmax_running = {SLOTS}\npoll_interval = '100ms'\n\
             [secrets.all]\nallow = ['file:{}/', 'file:/dev/zero']\n\
             [databases.shop]\nurl = '{}'\ntoken_keys = ['file:{}']\n",
            GRACE.as_secs(),
            site.path("secrets").display(),
            D::url(&site.db),
            site.path("key").display(),
        );
        std::fs::write(site.path("serve.toml"), file).unwrap();
        site
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
        self.db.outbox.define_if_missing(def).await.unwrap();
    }

    /// The id of a definition.
    pub async fn definition(&self, name: &str) -> i64 {
        let all = self.db.outbox.definitions().await.unwrap();
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
            ids.extend(self.db.add_many(some).await.unwrap().iter().map(|receipt| receipt.id()));
        }
        ids
    }

    /// A notice.
    pub async fn find(&self, id: i64) -> NoticeRecord {
        self.db.outbox.find(id).await.unwrap().expect("a notice of this id")
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

    /// Deletes the bad definitions and all live notices.
    pub async fn clean(&self) {
        self.db.sql("DELETE FROM notify_msg").await;
        self.db.sql("DELETE FROM notify_def WHERE name LIKE 'bad%'").await;
    }

    pub async fn close(self) {
        self.brokers.close().await;
        self.db.close().await;
    }
}
