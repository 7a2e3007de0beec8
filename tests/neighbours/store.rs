//! The stores that the process serves, and what other sessions do to them: locks, damage, an end of all answers.

use std::any::Any;
use std::collections::BTreeSet;

use redis::Commands;
use serde_json::Value;
use solid_notify::NewNotice;
use solid_notify::sql::Dialect;
use solid_notify_conformance::Backend;
use sqlx::ConnectOptions;
use test_support::proxy::{Proxy, Weather};
use test_support::redis::RedisBackend;
use test_support::{Database, MariaDb, Postgres, SingleRedis, Sqlite, TestDb};
use url::Url;

/// A store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Postgres,
    MariaDb,
    Sqlite,
    Redis,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Postgres, Self::MariaDb, Self::Sqlite, Self::Redis];

    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::MariaDb => "MariaDB",
            Self::Sqlite => "SQLite",
            Self::Redis => "Redis",
        }
    }

    /// Whether another session can lock single rows.
    pub fn has_row_locks(self) -> bool {
        matches!(self, Self::Postgres | Self::MariaDb)
    }
}

/// A lock or an open transaction, which ends when this is dropped.
pub type Held = Box<dyn Any>;

/// A store of a kind.
pub trait Store: Backend + Sized + 'static {
    const KIND: Kind;

    /// Creates a fresh, empty one. Its time is its own.
    async fn create() -> Self;

    /// The URL for the process.
    fn url(&self) -> String;

    /// Locks the row of a definition.
    async fn lock_definition(&self, definition: i64) -> Held;

    /// Locks notices.
    async fn lock_notices(&self, ids: &[i64]) -> Held;

    /// Adds notices in a transaction that stays open.
    async fn add_uncommitted(&self, notices: Vec<NewNotice>) -> Held;

    /// Sets the parameter of each live notice of a definition.
    async fn set_params(&self, definition: i64, param: &Value);

    /// Overwrites a key of a definition, in Redis, by one of another type.
    async fn damage(&self, definition: i64, key: &str);

    /// Returns a URL by which the process can be cut off from it, and the proxy there, where the store has a network.
    async fn breakable(&self) -> (String, Option<Proxy>) {
        if Self::KIND == Kind::Sqlite {
            return (self.url(), None);
        }
        let (url, proxy) = behind_proxy(&self.url()).await;
        (url, Some(proxy))
    }

    /// Cuts the process off: no call is answered.
    async fn break_off(&self, proxy: Option<&Proxy>) -> Held {
        proxy.expect("it is behind a proxy").set(Weather::Stall);
        Box::new(())
    }

    /// Deletes the bad definitions and all live notices.
    async fn clean(&self);

    async fn close(self);
}

/// Starts a proxy to the server of a URL. Returns the URL that leads through it.
pub async fn behind_proxy(url: &str) -> (String, Proxy) {
    let mut url = Url::parse(url).unwrap();
    let proxy = Proxy::start(url.socket_addrs(|| None).unwrap()[0], || ()).await;
    url.set_host(Some("127.0.0.1")).unwrap();
    url.set_port(Some(proxy.port)).unwrap();
    (url.to_string(), proxy)
}

/// A SQL database.
pub trait Sql: Database + Sized {
    const KIND: Kind;

    fn url(db: &TestDb<Self>) -> Url {
        db.pool.connect_options().to_url_lossy()
    }

    /// Locks a database without a network for all others.
    async fn lock_all(_db: &TestDb<Self>) -> Held {
        unreachable!("it has a network")
    }
}

impl Sql for Postgres {
    const KIND: Kind = Kind::Postgres;

    /// A test has a schema of its own there, which the URL has to name.
    fn url(db: &TestDb<Self>) -> Url {
        let options = db.pool.connect_options();
        let mut url = options.to_url_lossy();
        url.query_pairs_mut().append_pair("options", options.get_options().unwrap());
        url
    }
}

impl Sql for MariaDb {
    const KIND: Kind = Kind::MariaDb;
}

impl Sql for Sqlite {
    const KIND: Kind = Kind::Sqlite;

    async fn lock_all(db: &TestDb<Self>) -> Held {
        // Closed by its drop, and with it the transaction.
        let mut other = db.pool.acquire().await.unwrap().detach();
        sqlx::raw_sql("BEGIN EXCLUSIVE").execute(&mut other).await.unwrap();
        Box::new(other)
    }
}

impl<D: Sql> Store for TestDb<D> {
    const KIND: Kind = D::KIND;

    async fn create() -> Self {
        Self::with_real_clock().await
    }

    fn url(&self) -> String {
        D::url(self).to_string()
    }

    async fn lock_definition(&self, definition: i64) -> Held {
        lock(self, format!("SELECT id FROM notify_def WHERE id = {definition} FOR UPDATE")).await
    }

    /// One by one: a statement for several would also lock the gaps between them on MariaDB, where others insert.
    async fn lock_notices(&self, ids: &[i64]) -> Held {
        let locks = ids.iter().map(|id| format!("SELECT id FROM notify_msg WHERE id = {id} FOR UPDATE;")).collect();
        lock(self, locks).await
    }

    async fn add_uncommitted(&self, notices: Vec<NewNotice>) -> Held {
        let mut other = self.outbox.begin().await.unwrap();
        for notice in notices {
            notice.add(&mut other).await.unwrap();
        }
        Box::new(other)
    }

    async fn set_params(&self, definition: i64, param: &Value) {
        self.sql(&format!("UPDATE notify_msg SET param = '{param}' WHERE def_id = {definition}")).await;
    }

    async fn damage(&self, _definition: i64, _key: &str) {
        unreachable!("it has no keys")
    }

    async fn break_off(&self, proxy: Option<&Proxy>) -> Held {
        match proxy {
            Some(proxy) => {
                proxy.set(Weather::Stall);
                Box::new(())
            }
            None => D::lock_all(self).await,
        }
    }

    async fn clean(&self) {
        self.sql("DELETE FROM notify_msg").await;
        self.sql("DELETE FROM notify_def WHERE name LIKE 'bad%'").await;
    }

    async fn close(self) {
        Self::close(self).await;
    }
}

async fn lock<D: Sql>(db: &TestDb<D>, sql: String) -> Held {
    let mut other = db.pool.begin().await.unwrap();
    D::Db::script(&mut other, sql.into()).await.unwrap();
    Box::new(other)
}

impl Store for RedisBackend {
    const KIND: Kind = Kind::Redis;

    async fn create() -> Self {
        Self::with_real_clock::<SingleRedis>().await
    }

    fn url(&self) -> String {
        self.own.url()
    }

    async fn lock_definition(&self, _definition: i64) -> Held {
        unreachable!("{NO_LOCKS}")
    }

    async fn lock_notices(&self, _ids: &[i64]) -> Held {
        unreachable!("{NO_LOCKS}")
    }

    async fn add_uncommitted(&self, _notices: Vec<NewNotice>) -> Held {
        unreachable!("{NO_LOCKS}")
    }

    async fn set_params(&self, definition: i64, param: &Value) {
        let keys = self.own.keys(&format!("{{{}#{definition}}}:notice:*", self.own.prefix));
        let param = param.to_string();
        self.own.on_each_node(|connection| {
            for key in &keys {
                let _: () = connection.hset(key, "param", &param).unwrap();
            }
        });
    }

    async fn damage(&self, definition: i64, key: &str) {
        self.own.by_hand(&["SET", &format!("{{{}#{definition}}}:{key}", self.own.prefix), "damaged"]);
    }

    async fn clean(&self) {
        let all = self.outbox().definitions().await.unwrap();
        let bad = all.iter().filter(|state| state.row.name.starts_with("bad")).map(|state| state.row.id);
        let bad: BTreeSet<String> = bad.map(|id| id.to_string()).collect();
        let prefix = format!("{{{}#", self.own.prefix);
        for id in &bad {
            self.own.by_hand(&["SREM", &format!("{prefix}}}:definitions"), id]);
        }
        // The common keys of one end with its id; its own ones have it in their slot.
        let is_bad = |key: &String| {
            let (slot, name) = key[prefix.len()..].split_once('}').unwrap();
            bad.contains(if slot.is_empty() { name.rsplit(':').next().unwrap() } else { slot })
        };
        for key in self.own.keys(&format!("{prefix}*")).iter().filter(|key| is_bad(key)) {
            self.own.by_hand(&["DEL", key]);
        }
    }

    async fn close(self) {
        self.close();
    }
}

/// Why no neighbour asks for one.
const NO_LOCKS: &str = "Redis has no locks that another session holds";
