//! Database servers that restart, crash, or end the sessions of the sweepers, under load.
//!
//! Each test has a private server of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use solid_notify::sql::Dialect;
use solid_notify::{
    Error, Failure, HandlerResult, Notice, NotifyDef, Outbox, OutboxExt, Status, SweeperBuilder, add_notice,
};
use sqlx::pool::PoolOptions;
use test_servers::servers::{Ending, Server, mariadb, mysql, postgres};
use test_support::sending::{Calls, eventually};
use tokio::task::{JoinHandle, spawn_blocking};

mod on_postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_postgres_restarted_under_load_loses_nothing() {
        nothing_is_lost::<Postgres>(Trouble::Restarts).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_postgres_that_ends_the_sessions_of_the_sweepers_loses_nothing() {
        nothing_is_lost::<Postgres>(Trouble::EndedSessions).await;
    }
}

mod on_mariadb {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_mariadb_restarted_under_load_loses_nothing() {
        nothing_is_lost::<MariaDb>(Trouble::Restarts).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_mariadb_that_ends_the_sessions_of_the_sweepers_loses_nothing() {
        nothing_is_lost::<MariaDb>(Trouble::EndedSessions).await;
    }
}

mod on_mysql {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_mysql_restarted_under_load_loses_nothing() {
        nothing_is_lost::<MySql>(Trouble::Restarts).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn private_mysql_that_ends_the_sessions_of_the_sweepers_loses_nothing() {
        nothing_is_lost::<MySql>(Trouble::EndedSessions).await;
    }
}

#[derive(Clone, Copy)]
enum Trouble {
    Restarts,
    EndedSessions,
}

async fn nothing_is_lost<P: Private>(trouble: Trouble) {
    let bench = Bench::<P>::start().await;
    let ledger = Arc::new(Ledger::default());
    let (one, other) = (bench.outbox().await, bench.outbox().await);
    one.migrate().await.unwrap();
    for name in ["job", "one", "other"] {
        // Retries follow soon, and no first sends run out of tries.
        one.define_if_missing(NotifyDef::new(name).retry_interval("100ms").max_retry_times(20)).await.unwrap();
    }
    let sweepers = [
        ledger.handling(one.sweeper(), "one").start().await.unwrap(),
        ledger.handling(other.sweeper(), "other").start().await.unwrap(),
    ];
    let producers: Vec<_> = (0..6).map(|_| ledger.produce(one.clone())).collect();

    match trouble {
        Trouble::Restarts => {
            for ending in [Ending::Graceful, Ending::Kill, Ending::Kill, Ending::Graceful] {
                ledger.flows().await;
                bench.server(move |server| server.restart(ending).unwrap()).await;
            }
        }
        Trouble::EndedSessions => {
            for _ in 0..12 {
                ledger.flows().await;
                bench.server(|server| server.query(P::END_SESSIONS).unwrap()).await;
            }
        }
    }
    both_send(&one, &ledger).await;
    ledger.flows().await;
    ledger.stop.store(true, Ordering::Relaxed);
    for producer in producers {
        producer.await.unwrap();
    }
    bench.drain().await;
    for sweeper in sweepers {
        sweeper.shutdown().await;
    }
    judge(&one, &ledger, bench.numbers("SELECT id FROM notify_msg_history").await).await;
}

/// Checks that every loop of both sweepers still works: each sends a notice that only it has a handler for.
async fn both_send<DB: Dialect>(outbox: &Outbox<DB>, ledger: &Ledger) {
    for name in ["one", "other"] {
        let token = format!("last-{name}");
        let mut tx = outbox.begin().await.unwrap();
        add_notice(&mut tx, name, json!(token)).await.unwrap();
        tx.commit().await.unwrap();
        let committed = Instant::now();
        ledger.committed.note(token.clone());
        eventually(&token, async || ledger.calls.all().iter().any(|call| call.token == token)).await;
        println!("{token} waited {:?}", committed.elapsed());
    }
}

/// Compares the tables with the records of producers and handlers.
async fn judge<DB: Dialect>(outbox: &Outbox<DB>, ledger: &Ledger, ids: Vec<i64>) {
    let mut calls: BTreeMap<i64, Vec<Call>> = BTreeMap::new();
    for call in ledger.calls.all() {
        calls.entry(call.id).or_default().push(call);
    }
    let mut tokens = BTreeSet::new();
    let mut wrong = Vec::new();
    for id in ids {
        let record = outbox.find(id).await.unwrap().expect("a row of history");
        let token: String = serde_json::from_str(&record.param).unwrap();
        let calls = calls.remove(&id).unwrap_or_default();
        let failed = calls.iter().filter(|call| call.failed).count();
        // The sweepers lived through it all and no lease ran out: each call is settled, once, as what it was.
        let right = record.status == Status::Succeeded
            && record.crashes == 0
            && record.failures == i64::try_from(failed).unwrap()
            && calls.len() == failed + 1
            && calls.iter().all(|call| call.token == token);
        if !right {
            wrong.push((record, calls));
        }
        tokens.insert(token);
    }
    assert!(wrong.is_empty(), "{} are wrong: {wrong:#?}", wrong.len());
    assert!(calls.is_empty(), "sent, but not in the tables: {calls:?}");
    let committed: BTreeSet<String> = ledger.committed.all().into_iter().collect();
    let unknown: BTreeSet<String> = ledger.unknown.all().into_iter().collect();
    println!("{} in history, {} committed, {} unknown", tokens.len(), committed.len(), unknown.len());
    assert!(committed.is_subset(&tokens), "lost: {:?}", committed.difference(&tokens));
    for token in tokens.difference(&committed) {
        assert!(unknown.contains(token), "{token} was never committed");
    }
}

#[derive(Debug, Clone)]
struct Call {
    id: i64,
    token: String,
    failed: bool,
}

/// The records of producers and handlers.
#[derive(Default)]
struct Ledger {
    /// Tokens whose commit returned `Ok`.
    committed: Calls<String>,
    /// Tokens whose commit failed, so that its effect is unknown.
    unknown: Calls<String>,
    calls: Calls<Call>,
    stop: AtomicBool,
}

impl Ledger {
    /// Returns a handler that takes a few milliseconds and fails one first try in seven.
    fn handling(self: &Arc<Self>, mut builder: SweeperBuilder, own: &str) -> SweeperBuilder {
        // All notices that there are are counted.
        builder = builder.housekeeping(false);
        for name in ["job", own] {
            let calls = self.calls.clone();
            let handle = move |notice: Notice<String>| {
                let calls = calls.clone();
                async move {
                    let failed = notice.id() % 7 == 0 && notice.attempt() == 1;
                    calls.note(Call { id: notice.id(), token: notice.param().clone(), failed });
                    tokio::time::sleep(Duration::from_millis(fastrand::u64(2..25))).await;
                    if failed { Err(Failure::retry("a real failure")) } else { HandlerResult::Ok(()) }
                }
            };
            builder = builder.handler(name, handle);
        }
        builder.outage_grace(Duration::from_secs(1))
    }

    fn produce<DB: Dialect>(self: &Arc<Self>, outbox: Outbox<DB>) -> JoinHandle<()> {
        let ledger = Arc::clone(self);
        tokio::spawn(async move {
            while !ledger.stop.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(fastrand::u64(..8))).await;
                let token = format!("{:016x}", fastrand::u64(..));
                let Ok(mut tx) = outbox.begin().await else { continue };
                if add_notice(&mut tx, "job", &token).await.is_err() {
                    continue;
                }
                match tx.commit().await {
                    Ok(()) => ledger.committed.note(token),
                    Err(Error::TransactionLost { .. }) => continue,
                    Err(_) => ledger.unknown.note(token),
                };
            }
        })
    }

    /// Waits until notices are committed and sent again, and a moment more.
    async fn flows(&self) {
        let (committed, calls) = (self.committed.count(), self.calls.count());
        eventually("notices flow", async || self.committed.count() > committed + 20 && self.calls.count() > calls + 20)
            .await;
        tokio::time::sleep(Duration::from_millis(fastrand::u64(..500))).await;
    }
}

/// A private server.
struct Bench<P> {
    server: Arc<Mutex<Server>>,
    product: std::marker::PhantomData<P>,
}

impl<P: Private> Bench<P> {
    async fn start() -> Self {
        let server = spawn_blocking(|| {
            let server = P::start().unwrap();
            server.query(P::PREPARE).unwrap();
            server
        });
        Self { server: Arc::new(Mutex::new(server.await.unwrap())), product: std::marker::PhantomData }
    }

    /// Calls the server on a thread for blocking work.
    async fn server<R: Send + 'static>(&self, talk: impl FnOnce(&mut Server) -> R + Send + 'static) -> R {
        let server = Arc::clone(&self.server);
        spawn_blocking(move || talk(&mut server.lock().unwrap())).await.unwrap()
    }

    async fn numbers(&self, sql: &'static str) -> Vec<i64> {
        let lines = self.server(move |server| server.query(sql).unwrap()).await;
        lines.lines().map(|line| line.parse().unwrap()).collect()
    }

    /// An outbox with a pool of its own, whose sessions [`Private::END_SESSIONS`] ends.
    async fn outbox(&self) -> Outbox<P::Db> {
        let url = P::sweepers(self.server.lock().unwrap().url());
        Outbox::new(PoolOptions::new().max_connections(5).connect(&url).await.unwrap())
    }

    /// Waits until all is sent. Where the reply to a claim was lost, no sweeper has the notice before its lease expires:
    /// the test moves the end of the lease instead of waiting.
    async fn drain(&self) {
        let looks = Mutex::new(BTreeMap::<i64, usize>::new());
        let orphans = Mutex::new(BTreeSet::new());
        eventually("all is sent", async || {
            let seen = self.numbers(P::SENDING_FOR_LONG).await;
            looks.lock().unwrap().retain(|id, _| seen.contains(id));
            for id in seen {
                let looks = *looks.lock().unwrap().entry(id).and_modify(|looks| *looks += 1).or_insert(1);
                // No handler takes that long. In the time of so many looks also a process that was paused has written what it had.
                if looks == 40 {
                    orphans.lock().unwrap().insert(id);
                    let expire =
                        "UPDATE notify_msg SET next_call_time = '2020-01-01 00:00:00' WHERE status = 5 AND id =";
                    self.server(move |server| server.query(&format!("{expire} {id}")).unwrap()).await;
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            self.numbers("SELECT count(*) FROM notify_msg").await == [0]
        })
        .await;
        println!("claims whose answer was lost: {:?}", orphans.lock().unwrap());
    }
}

/// A database product whose programs are installed.
trait Private: 'static {
    type Db: Dialect;
    /// Gives the sweepers sessions that a statement can select.
    const PREPARE: &str;
    const END_SESSIONS: &str;
    const SENDING_FOR_LONG: &str;

    fn start() -> anyhow::Result<Server>;
    fn sweepers(url: &str) -> String;
}

struct Postgres;

impl Private for Postgres {
    type Db = sqlx::Postgres;
    const PREPARE: &str = "SELECT 1";
    const END_SESSIONS: &str =
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'sweeper'";
    const SENDING_FOR_LONG: &str =
        "SELECT id FROM notify_msg WHERE status = 5 AND last_call_time < now() - interval '3' second";

    fn start() -> anyhow::Result<Server> {
        postgres::start()
    }

    fn sweepers(url: &str) -> String {
        format!("{url}?application_name=sweeper")
    }
}

struct MariaDb;

impl Private for MariaDb {
    type Db = sqlx::MySql;
    const PREPARE: &str = "CREATE USER sweeper@'127.0.0.1'; GRANT ALL ON notify.* TO sweeper@'127.0.0.1'";
    const END_SESSIONS: &str = "KILL CONNECTION USER sweeper";
    const SENDING_FOR_LONG: &str =
        "SELECT id FROM notify_msg WHERE status = 5 AND last_call_time < UTC_TIMESTAMP(6) - INTERVAL '3' SECOND";

    fn start() -> anyhow::Result<Server> {
        mariadb::start()
    }

    fn sweepers(url: &str) -> String {
        url.replace("root@", "sweeper@")
    }
}

struct MySql;

impl Private for MySql {
    type Db = sqlx::MySql;
    const PREPARE: &str = test_support::prepare_mysql!("sweeper");
    const END_SESSIONS: &str = "CALL end_sessions('sweeper')";
    const SENDING_FOR_LONG: &str = MariaDb::SENDING_FOR_LONG;

    fn start() -> anyhow::Result<Server> {
        mysql::start()
    }

    fn sweepers(url: &str) -> String {
        MariaDb::sweepers(url)
    }
}
