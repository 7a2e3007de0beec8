//! Replies that are lost on the wire. A claim without its reply took effect, but its sweeper does not have the notices: nothing
//! was tried, so no crash may be counted. A commit without its reply must not be reported as a rollback. A third case is a
//! database that stops replying.
//!
//! SQLite has no wire. A store that fails on purpose tests that other calls survive a lost reply.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use solid_notify::sql::Dialect;
use solid_notify::{Error, FirstAttempt, HandlerResult, Notice, NotifyDef, Outbox, OutboxExt, Status, add_notice};
use solid_notify_core::error::FaultKind;
use sqlx::ConnectOptions;
use sqlx::pool::PoolOptions;
use test_support::proxy::{Proxy, Weather, Wire};
use test_support::sending::{Calls, PATIENCE, eventually};
use test_support::{Database, TestDb};

mod on_postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn postgres_claims_whose_answer_is_lost_count_nothing() {
        // The claim is one statement, committed before it is answered.
        let (db, session) = postgres().await;
        claims_whose_answer_is_lost_count_nothing(db, None, &session).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn postgres_commits_whose_answer_is_lost_are_not_reported_rolled_back() {
        let (db, session) = postgres().await;
        commits_whose_answer_is_lost_are_not_reported_rolled_back(db, &session).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn postgres_calls_that_nothing_answers_end_by_their_time_out() {
        let (db, session) = postgres().await;
        calls_that_nothing_answers_end_by_their_time_out(db, &session).await;
    }
}

mod on_mariadb {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn mariadb_claims_whose_answer_is_lost_count_nothing() {
        let db = TestDb::<test_support::MariaDb>::with_real_clock().await;
        claims_whose_answer_is_lost_count_nothing(db, Some("COMMIT"), "").await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn mariadb_commits_whose_answer_is_lost_are_not_reported_rolled_back() {
        let db = TestDb::<test_support::MariaDb>::with_real_clock().await;
        commits_whose_answer_is_lost_are_not_reported_rolled_back(db, "").await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn mariadb_calls_that_nothing_answers_end_by_their_time_out() {
        let db = TestDb::<test_support::MariaDb>::with_real_clock().await;
        calls_that_nothing_answers_end_by_their_time_out(db, "").await;
    }
}

mod on_mysql {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn mysql_claims_whose_answer_is_lost_count_nothing() {
        let db = TestDb::<test_support::MySql>::with_real_clock().await;
        claims_whose_answer_is_lost_count_nothing(db, Some("COMMIT"), "").await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn mysql_commits_whose_answer_is_lost_are_not_reported_rolled_back() {
        let db = TestDb::<test_support::MySql>::with_real_clock().await;
        commits_whose_answer_is_lost_are_not_reported_rolled_back(db, "").await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn mysql_calls_that_nothing_answers_end_by_their_time_out() {
        let db = TestDb::<test_support::MySql>::with_real_clock().await;
        calls_that_nothing_answers_end_by_their_time_out(db, "").await;
    }
}

/// `commit` is how the claim is committed, where that is a call of its own.
async fn claims_whose_answer_is_lost_count_nothing<D: Database>(
    db: TestDb<D>,
    commit: Option<&'static str>,
    session: &str,
) {
    let (far, _proxy, armed) = far(&db, commit, session).await;
    // The leases outlast the test: only their own sweeper can hand these notices back.
    db.outbox.define_if_missing(NotifyDef::new("job").timeout("1d")).await.unwrap();
    let calls: Calls<(i64, i64)> = Calls::default();
    let builder = |outbox: &Outbox<D::Db>| {
        let calls = calls.clone();
        outbox.sweeper().outage_grace(Duration::from_millis(300)).handler("job", move |notice: Notice<String>| {
            calls.note((notice.id(), notice.fence()));
            async { HandlerResult::Ok(()) }
        })
    };
    let add = async |outbox: &Outbox<D::Db>, token: &str| {
        let mut tx = outbox.begin().await.unwrap();
        let added = add_notice(&mut tx, "job", token).await.unwrap();
        tx.commit().await.unwrap();
        added.id()
    };

    let began = Instant::now();
    let far_sweeper = builder(&far).start().await.unwrap();
    // Until a claim has seen that the slice has no ordering keys, each database claims in a transaction.
    let first = add(&db.outbox, "sent").await;
    far.wake();
    eventually("the first is sent", async || calls.all().contains(&(first, 1))).await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        armed.store(true, Ordering::Relaxed);
        let id = add(&db.outbox, "lose-me").await;
        far.wake();
        eventually("the answer is lost", async || !armed.load(Ordering::Relaxed)).await;
        eventually("the claim was carried out", async || db.outbox.find(id).await.unwrap().unwrap().fence >= 1).await;
        ids.push(id);
    }
    let sent = calls.count();
    // After two seconds the sweeper may have handed these claims back and sent the notices.
    assert!(sent == 1 || began.elapsed() >= Duration::from_secs(2), "{:?}", calls.all());
    // The sweeper lives on.
    let after = add(&db.outbox, "sent").await;
    far.wake();
    eventually("the next is sent", async || calls.all().contains(&(after, 1))).await;

    // Each sweeper may send what was handed back.
    let near_sweeper = builder(&db.outbox).start().await.unwrap();
    eventually("all are sent", async || ids.iter().all(|id| calls.all().iter().any(|(sent, _)| sent == id))).await;
    near_sweeper.shutdown().await;
    far_sweeper.shutdown().await;
    for id in ids {
        let record = db.outbox.find(id).await.unwrap().unwrap();
        assert_eq!((record.status, record.failures, record.crashes), (Status::Succeeded, 0, 0), "{record:?}");
    }
    far.pool().close().await;
    db.close().await;
}

async fn commits_whose_answer_is_lost_are_not_reported_rolled_back<D: Database>(db: TestDb<D>, session: &str) {
    let (far, _proxy, armed) = far(&db, Some("COMMIT"), session).await;
    db.outbox.define_if_missing(NotifyDef::new("job")).await.unwrap();
    let mut tx = far.begin().await.unwrap();
    let added = add_notice(&mut tx, "job", 1).await.unwrap();
    let id = added.id();
    armed.store(true, Ordering::Relaxed);
    D::Db::script(&mut tx, "SELECT 'lose-me'".into()).await.unwrap();
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(&error, Error::Store(error) if error.kind == FaultKind::Outage), "{error}");
    assert_eq!(added.first_attempt(Duration::ZERO).await, FirstAttempt::StillDue);
    eventually("it is committed", async || db.outbox.find(id).await.unwrap().is_some()).await;
    far.pool().close().await;
    db.close().await;
}

async fn calls_that_nothing_answers_end_by_their_time_out<D: Database>(db: TestDb<D>, session: &str) {
    let (far, proxy, _) = far(&db, None, session).await;
    let far = Outbox::builder(far.pool().clone()).call_timeout(Duration::from_millis(500)).build();
    // The time-out may end a call on a slow machine, too.
    let answers = async || eventually("it answers", async || far.definitions().await.is_ok()).await;
    answers().await;
    proxy.set(Weather::Stall);
    let error = tokio::time::timeout(PATIENCE, far.definitions()).await.expect("it ends").unwrap_err();
    assert!(matches!(&error, Error::Store(error) if error.kind == FaultKind::Outage), "{error}");
    proxy.set(Weather::Fair);
    answers().await;
    db.close().await;
}

test_support::on_mysql_family!(migrations_that_waited_too_long_change_nothing_and_fail);

/// The proxy makes a second of the minute that a migration waits for its turn.
async fn migrations_that_waited_too_long_change_nothing_and_fail<D: Database<Db = sqlx::MySql>>() {
    let db = TestDb::<D>::with_real_clock().await;
    let mut other = db.pool.acquire().await.unwrap();
    let lock = "SELECT GET_LOCK(concat('solid-notify ', left(sha2(database(), 256), 32)), 0)";
    let taken: i64 = sqlx::query_scalar(lock).fetch_one(&mut *other).await.unwrap();
    assert_eq!(taken, 1);
    // A migration is pending.
    db.sql("DELETE FROM notify_schema WHERE version >= 3").await;
    let (far, _proxy, _) = far(&db, None, "").await;
    let error = far.migrate().await.unwrap_err().to_string();
    assert!(error.contains("another process has been migrating"), "{error}");
    sqlx::Connection::close(other.detach()).await.unwrap();
    far.migrate().await.unwrap();
    far.pool().close().await;
    db.close().await;
}

/// A database, and what a session of another address needs to find its tables.
async fn postgres() -> (TestDb<test_support::Postgres>, String) {
    let db = TestDb::<test_support::Postgres>::with_real_clock().await;
    let schema: String = sqlx::query_scalar("SELECT current_schema()::text").fetch_one(&db.pool).await.unwrap();
    (db, format!("&options[search_path]={schema}"))
}

/// An outbox that reaches the database through a proxy, which loses an answer each time it is armed.
async fn far<D: Database>(
    db: &TestDb<D>,
    commit: Option<&'static str>,
    session: &str,
) -> (Outbox<D::Db>, Proxy, Arc<AtomicBool>) {
    let mut url = db.pool.connect_options().to_url_lossy();
    let armed = Arc::new(AtomicBool::new(false));
    let loser = Loser { armed: Arc::clone(&armed), mark: "lose-me", commit };
    let server = (Ipv4Addr::LOCALHOST, url.port().unwrap()).into();
    let proxy = Proxy::start(server, move || loser.on_a_connection()).await;
    url.set_port(Some(proxy.port)).unwrap();
    (Outbox::new(PoolOptions::<D::Db>::new().connect_lazy(&format!("{url}{session}")).unwrap()), proxy, armed)
}

/// Loses one answer each time it is armed: the one that contains `mark`, or else the answer to the `commit` that follows.
#[derive(Clone)]
struct Loser {
    armed: Arc<AtomicBool>,
    mark: &'static str,
    commit: Option<&'static str>,
}

impl Loser {
    /// Returns the wire of one more connection.
    fn on_a_connection(&self) -> LosingWire {
        LosingWire { loser: self.clone(), marked: AtomicBool::new(false), cut: AtomicBool::new(false) }
    }
}

struct LosingWire {
    loser: Loser,
    /// The answer with the marked notice went by; its commit comes.
    marked: AtomicBool,
    /// The next answer is to be lost.
    cut: AtomicBool,
}

impl Wire for LosingWire {
    fn asks(&self, chunk: &mut [u8]) {
        // A migration waits for a minute, which is too long for a test.
        replace(chunk, b", 60), 0)", b",  1), 0)");
        if self.marked.load(Ordering::Relaxed) && self.loser.commit.is_some_and(|commit| contains(chunk, commit)) {
            self.cut.store(true, Ordering::Relaxed);
        }
    }

    fn answers(&self, chunk: &mut [u8]) -> bool {
        let Loser { armed, mark, commit } = &self.loser;
        if armed.load(Ordering::Relaxed) && contains(chunk, mark) {
            self.marked.store(true, Ordering::Relaxed);
            self.cut.store(commit.is_none(), Ordering::Relaxed);
        }
        let lost = self.cut.load(Ordering::Relaxed);
        if lost {
            armed.store(false, Ordering::Relaxed);
        }
        !lost
    }
}

fn contains(chunk: &[u8], text: &str) -> bool {
    chunk.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Writes `by` where `what` stands, which is as long.
fn replace(chunk: &mut [u8], what: &[u8], by: &[u8]) {
    if let Some(at) = chunk.windows(what.len()).position(|window| window == what) {
        chunk[at..at + by.len()].copy_from_slice(by);
    }
}
