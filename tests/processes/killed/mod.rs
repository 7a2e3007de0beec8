//! Processes that die: killed while they send, between the commit and the send, again and again under load; and notices
//! that kill their process.
//!
//! The dying is done by `notify-child` (`child/main.rs`). Leases run by the database's clock, so to let one expire, its end
//! is moved into the past by plain SQL, while no process lives that holds it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use solid_notify::definition::ALERT_DEFINITION;
use solid_notify::{NewNotice, NoticeRecord, NotifyDef, OutboxExt, Status, add_notice, add_notices};
use sqlx::{ConnectOptions, Pool, Row};
use tempfile::TempDir;
use test_support::sending::{Calls, PATIENCE, eventually};
use test_support::{Database, TestDb, on_each_database};
use tokio::process::Command;

on_each_database!(
    a_process_killed_while_sending_counts_one_crash_and_is_retried,
    a_notice_that_kills_its_process_each_time_runs_out,
    the_neighbours_of_a_notice_that_kills_its_process_are_delivered,
    a_process_that_dies_between_commit_and_send_leaves_its_notices_due,
    a_process_that_dies_before_its_commit_leaves_nothing,
    a_process_killed_again_and_again_under_load_loses_nothing,
    processes_killed_before_their_alerts_lose_and_repeat_none,
);

mod frozen;

const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;

async fn a_process_killed_while_sending_counts_one_crash_and_is_retried<D: Reading>() {
    let (db, directory) = prepare::<D>(NotifyDef::new("job")).await;
    let id = add(&db, "first", "block").await;
    let child = Child::start(&db, "sweep", &directory).await;
    eventually("the child sends", async || lines(&directory, "calls").len() == 1).await;
    let pid = child.kill().await;

    assert!(finish(&db).await.is_empty(), "its lease still runs");
    assert_eq!(expire_leases(&db).await, [(id, 1)]);
    assert_eq!(finish(&db).await, [(id, 2)]);
    let record = record(&db, id).await;
    assert_eq!((record.status, record.fence), (Status::Succeeded, 2));
    assert_eq!((record.crashes, record.failures), (1, 0));
    let [crash] = record.errors.as_slice() else { panic!("one error: {:?}", record.errors) };
    assert_eq!((crash.fence, &*crash.class), (1, "crash"));
    assert!(crash.node.starts_with(&format!("child-{pid}-")), "{crash:?}");
    assert_eq!(lines(&directory, "calls"), [format!("{id} 1 first")]);
    db.close().await;
}

async fn a_notice_that_kills_its_process_each_time_runs_out<D: Reading>() {
    let (db, directory) = prepare::<D>(NotifyDef::new("job").retry_interval("[1s,1s]")).await;
    let culprit = add(&db, "culprit", "abort_when_told").await;
    let mut others = Vec::new();
    for round in 1..=3 {
        for _ in 0..4 {
            others.push(add(&db, "other", "deliver").await);
        }
        let child = Child::start(&db, "sweep", &directory).await;
        eventually("the culprit is called", async || calls_of(&directory, culprit) == round).await;
        for id in &others {
            reaches(&db, *id, Status::Succeeded).await;
        }
        std::fs::write(directory.path().join("go"), "").unwrap();
        assert_eq!(child.ended().await.signal(), Some(SIGABRT));
        std::fs::remove_file(directory.path().join("go")).unwrap();
        assert_eq!(expire_leases(&db).await, [(culprit, i64::try_from(round).unwrap())]);
    }
    let child = Child::start(&db, "sweep", &directory).await;
    let dead = reaches(&db, culprit, Status::DeadLetter).await;
    assert_eq!((dead.fence, dead.crashes, dead.failures), (3, 3, 0));
    assert_eq!(dead.end_reason.as_deref(), Some("all 3 tries used, in 3 of them the process died"));
    assert!(dead.errors.iter().map(|error| &*error.class).eq(["crash"; 3]), "{:?}", dead.errors);
    others.push(add(&db, "other", "deliver").await);
    for id in others {
        let other = reaches(&db, id, Status::Succeeded).await;
        assert_eq!((other.fence, other.crashes, other.failures), (1, 0, 0));
    }
    assert_eq!(calls_of(&directory, culprit), 3);
    child.kill().await;
    db.close().await;
}

/// The culprit dies before its neighbours of the same batch can be settled, so they crash with it at first.
async fn the_neighbours_of_a_notice_that_kills_its_process_are_delivered<D: Reading>() {
    let (db, directory) = prepare::<D>(NotifyDef::new("job").retry_interval("[1s,1s,1s]")).await;
    let (mut culprit, mut others) = (0, Vec::new());
    let mut tx = db.outbox.begin().await.unwrap();
    for n in 0..15 {
        let then = if n == 7 { "abort" } else { "deliver" };
        let id = add_notice(&mut tx, "job", json!({ "token": "t", "then": then })).await.unwrap().id();
        if n == 7 { culprit = id } else { others.push(id) }
    }
    tx.commit().await.unwrap();
    for _ in 0..20 {
        let child = Child::start(&db, "sweep", &directory).await;
        eventually("the child ends, or has sent all", async || child.has_ended() || is_drained(&db).await).await;
        child.end().await;
        expire_leases(&db).await;
        if is_drained(&db).await {
            break;
        }
    }
    let dead = reaches(&db, culprit, Status::DeadLetter).await;
    assert_eq!((dead.fence, dead.crashes, dead.failures), (4, 4, 0));
    let mut ends = Vec::new();
    for id in others {
        let other = record(&db, id).await;
        ends.push((other.status, other.crashes, other.failures));
    }
    assert!(ends.iter().all(|(status, _, failures)| (*status, *failures) == (Status::Succeeded, 0)), "{ends:?}");
    db.close().await;
}

async fn a_process_that_dies_between_commit_and_send_leaves_its_notices_due<D: Reading>() {
    let (db, directory) = prepare::<D>(NotifyDef::new("job")).await;
    let child = Child::start(&db, "commit-and-abort", &directory).await;
    assert_eq!(child.ended().await.signal(), Some(SIGABRT));
    assert_eq!(D::numbers(&db.pool, "SELECT status, fence FROM notify_msg").await, [[0, 0]; 3]);
    assert!(lines(&directory, "calls").is_empty());

    let delivered = finish(&db).await;
    assert_eq!(delivered.len(), 3);
    for (id, fence) in delivered {
        let record = record(&db, id).await;
        assert_eq!((record.status, record.crashes, fence), (Status::Succeeded, 0, 1));
    }
    db.close().await;
}

async fn a_process_that_dies_before_its_commit_leaves_nothing<D: Reading>() {
    let (db, directory) = prepare::<D>(NotifyDef::new("job")).await;
    let child = Child::start(&db, "abort-before-commit", &directory).await;
    assert_eq!(child.ended().await.signal(), Some(SIGABRT));
    assert!(finish(&db).await.is_empty());
    for table in ["notify_msg", "notify_msg_history"] {
        assert_eq!(D::numbers(&db.pool, &format!("SELECT count(*) FROM {table}")).await, [[0]], "{table}");
    }
    db.close().await;
}

async fn a_process_killed_again_and_again_under_load_loses_nothing<D: Reading>() {
    let mut def = NotifyDef::new("job").retry_interval("50ms");
    def.max_retry_times = Some(-1);
    let (db, directory) = prepare::<D>(def).await;
    let (mut killed, mut expired) = (Vec::new(), BTreeSet::new());
    // On a busy machine few attempts are under way at the moments of the kills: then it goes on until one was.
    for round in 0..50 {
        if round >= 5 && !expired.is_empty() {
            break;
        }
        let before = lines(&directory, "committed").len();
        let child = Child::start(&db, "load", &directory).await;
        eventually("load", async || lines(&directory, "committed").len() > before + 10).await;
        tokio::time::sleep(Duration::from_millis(fastrand::u64(..600))).await;
        killed.push(format!("child-{}-", child.kill().await));
        expired.extend(expire_leases(&db).await);
    }
    let mut delivered: Vec<(i64, i64)> =
        lines(&directory, "delivered").iter().map(|line| id_and_attempt(line)).collect();
    while !is_drained(&db).await {
        // The server may still execute a statement of the last killed process.
        expired.extend(expire_leases(&db).await);
        delivered.extend(finish(&db).await);
    }

    assert!(!expired.is_empty(), "nothing was being sent when the processes were killed");
    println!("{} deliveries, {} attempts cut off", delivered.len(), expired.len());
    let (mut tokens, mut crashes) = (BTreeSet::new(), BTreeSet::new());
    let mut attempts: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
    for (id, fence) in delivered {
        assert!(attempts.entry(id).or_default().insert(fence), "attempt {fence} of {id} was made twice");
    }
    for row in D::numbers(&db.pool, "SELECT id FROM notify_msg_history").await {
        let record = record(&db, row[0]).await;
        assert_eq!((record.status, record.failures, record.fence), (Status::Succeeded, 0, 1 + record.crashes));
        let delivered = attempts.remove(&record.id).unwrap_or_default();
        assert!(delivered.contains(&record.fence), "the last attempt delivered: {record:?}");
        // Its server had the outcome already when its process was killed: nothing was cut off.
        expired.remove(&(record.id, record.fence));
        for crash in &record.errors {
            assert!(killed.iter().any(|name| crash.node.starts_with(name)), "its process was not killed: {crash:?}");
            crashes.insert((record.id, crash.fence));
        }
        let param: Value = serde_json::from_str(&record.param).unwrap();
        tokens.insert(param["token"].as_str().unwrap().to_owned());
    }
    assert!(attempts.is_empty(), "delivered, but not in the tables: {attempts:?}");
    assert!(tokens.iter().all(|token| !token.starts_with("rolled-back")), "{tokens:?}");
    assert_eq!(crashes, expired, "a crash for each attempt that a kill cut off, and no other");
    let committed: BTreeSet<String> = lines(&directory, "committed").into_iter().collect();
    assert!(committed.is_subset(&tokens), "lost: {:?}", committed.difference(&tokens));
    db.close().await;
}

async fn processes_killed_before_their_alerts_lose_and_repeat_none<D: Reading>() {
    const FAILURES: i64 = 300;
    // Alerts stay in the table, so that the test can count them.
    let (db, directory) = prepare::<D>(NotifyDef::new("job").max_retry_times(0).alert_cooldown("1h")).await;
    db.outbox.define_if_missing(NotifyDef::new(ALERT_DEFINITION).enabled(false)).await.unwrap();
    let failures = (0..FAILURES).map(|_| NewNotice::new("job", json!({ "token": "t", "then": "fail" })).unwrap());
    let mut tx = db.outbox.begin().await.unwrap();
    add_notices(&mut tx, failures).await.unwrap();
    tx.commit().await.unwrap();
    let unfinished = "SELECT count(*), count(CASE status WHEN 0 THEN 1 END) FROM notify_msg \
        WHERE def_id = (SELECT id FROM notify_def WHERE name = 'job')";
    loop {
        let before = D::numbers(&db.pool, unfinished).await;
        if before == [[0, 0]] {
            break;
        }
        // Two at a time, so that they also meet at the cool-down.
        let children = [Child::start(&db, "sweep", &directory).await, Child::start(&db, "sweep", &directory).await];
        // A child that is killed before its first claim shows nothing.
        eventually("a child claims", async || D::numbers(&db.pool, unfinished).await != before).await;
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..30))).await;
        for child in children {
            child.kill().await;
        }
        expire_leases(&db).await;
    }
    let dead = D::numbers(&db.pool, "SELECT count(*) FROM notify_msg_history WHERE status = 3").await;
    assert_eq!(dead, [[FAILURES]]);
    // One alert was added at once, and the others were suppressed.
    assert_eq!(D::numbers(&db.pool, "SELECT suppressed FROM notify_alert").await, [[FAILURES - 1]]);
    assert_eq!(D::numbers(&db.pool, "SELECT count(*) FROM notify_msg").await, [[1]]);
    db.close().await;
}

/// A notify-child.
struct Child(std::sync::Mutex<tokio::process::Child>);

impl Child {
    async fn start<D: Reading>(db: &TestDb<D>, job: &str, directory: &TempDir) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_notify-child"))
            .arg(job)
            .env("NOTIFY_CHILD_URL", D::url(&db.pool).await)
            .current_dir(directory.path())
            .stdin(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self(std::sync::Mutex::new(child))
    }

    /// Stops it by SIGSTOP, and returns when no thread of it runs any more: on a busy machine that is later than the signal.
    async fn freeze(&self) {
        let pid = self.0.lock().unwrap().id().expect("a process that runs").to_string();
        assert!(std::process::Command::new("kill").args(["-s", "STOP", &pid]).status().unwrap().success());
        // Elsewhere than on Linux there is no such folder, and it is only likely that they stand.
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return };
        let states: Vec<_> = threads.map(|thread| thread.unwrap().path().join("stat")).collect();
        let stands = |stat: &PathBuf| std::fs::read_to_string(stat).is_ok_and(|stat| stat.contains(") T "));
        eventually("its threads stand still", async || states.iter().all(stands)).await;
    }

    /// Kills it by SIGKILL and returns its process number.
    async fn kill(self) -> u32 {
        let pid = self.0.lock().unwrap().id().expect("a process that runs");
        assert_eq!(self.end().await.signal(), Some(SIGKILL));
        pid
    }

    /// Ends it and waits for its end.
    async fn end(self) -> ExitStatus {
        let mut child = self.0.into_inner().unwrap();
        child.kill().await.unwrap();
        child.wait().await.unwrap()
    }

    /// Waits until it ends by itself.
    async fn ended(self) -> ExitStatus {
        let mut child = self.0.into_inner().unwrap();
        // Waiting would close it, and the child ends when it is closed.
        let _stdin = child.stdin.take();
        tokio::time::timeout(PATIENCE, child.wait()).await.expect("the child ends").unwrap()
    }

    fn has_ended(&self) -> bool {
        self.0.lock().unwrap().try_wait().unwrap().is_some()
    }
}

/// A database with a definition, and a directory for what the children write.
async fn prepare<D: Reading>(def: NotifyDef) -> (TestDb<D>, TempDir) {
    let db = TestDb::with_real_clock().await;
    db.outbox.define_if_missing(def).await.unwrap();
    (db, tempfile::tempdir().unwrap())
}

async fn add<D: Reading>(db: &TestDb<D>, token: &str, then: &str) -> i64 {
    let mut tx = db.outbox.begin().await.unwrap();
    let added = add_notice(&mut tx, "job", json!({ "token": token, "then": then })).await.unwrap();
    tx.commit().await.unwrap();
    added.id()
}

/// Sends what is due from this process; returns the ids and attempts.
async fn finish<D: Reading>(db: &TestDb<D>) -> Vec<(i64, i64)> {
    let calls = Calls::default();
    let handler = calls.clone();
    let builder = db.outbox.sweeper().outage_grace(Duration::ZERO).housekeeping(false);
    let sweeper = builder.handler("job", move |notice: solid_notify::Notice<Value>| {
        handler.note((notice.id(), notice.fence()));
        async { Ok(()) }
    });
    sweeper.run_until_idle().await.unwrap();
    calls.all()
}

/// Lets the leases of the dead expire; returns their notices and attempts. Read after that: a server may just be
/// committing what a dead process asked for last.
async fn expire_leases<D: Reading>(db: &TestDb<D>) -> Vec<(i64, i64)> {
    db.sql("UPDATE notify_msg SET next_call_time = '2020-01-01 00:00:00' WHERE status = 5").await;
    let expired = "SELECT id, fence FROM notify_msg WHERE status = 5 AND next_call_time < '2020-01-02' ORDER BY id";
    D::numbers(&db.pool, expired).await.iter().map(|row| (row[0], row[1])).collect()
}

async fn is_drained<D: Reading>(db: &TestDb<D>) -> bool {
    // No process sends alerts, so those of a dead letter wait.
    let live = "SELECT count(*) FROM notify_msg WHERE def_id IN (SELECT id FROM notify_def WHERE name = 'job')";
    D::numbers(&db.pool, live).await == [[0]]
}

async fn record<D: Reading>(db: &TestDb<D>, id: i64) -> NoticeRecord {
    db.outbox.find(id).await.unwrap().expect("a notice of this id")
}

async fn reaches<D: Reading>(db: &TestDb<D>, id: i64, status: Status) -> NoticeRecord {
    eventually(&format!("{id} becomes {status:?}"), async || record(db, id).await.status == status).await;
    record(db, id).await
}

/// The whole lines of a file that a child writes.
fn lines(directory: &TempDir, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(directory.path().join(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn calls_of(directory: &TempDir, id: i64) -> usize {
    lines(directory, "calls").iter().filter(|line| id_and_attempt(line).0 == id).count()
}

fn id_and_attempt(line: &str) -> (i64, i64) {
    let mut numbers = line.split(' ').map(|number| number.parse());
    (numbers.next().unwrap().unwrap(), numbers.next().unwrap().unwrap())
}

/// The calls of these tests that the library lacks, and the variables with which a child finds the same database.
#[allow(async_fn_in_trait)]
trait Reading: Database {
    async fn numbers(pool: &Pool<Self::Db>, sql: &str) -> Vec<Vec<i64>>;
    async fn url(pool: &Pool<Self::Db>) -> String;
}

macro_rules! reading {
    ($($database:ident: |$pool:ident| $more:expr;)+) => {
        $(impl Reading for test_support::$database {
            async fn numbers(pool: &Pool<Self::Db>, sql: &str) -> Vec<Vec<i64>> {
                let rows = sqlx::query(sqlx::AssertSqlSafe(sql.to_owned())).fetch_all(pool).await.unwrap();
                let row = |row: &<Self::Db as sqlx::Database>::Row| {
                    (0..row.len()).map(|column| row.try_get_unchecked(column).unwrap()).collect()
                };
                rows.iter().map(row).collect()
            }

            async fn url($pool: &Pool<Self::Db>) -> String {
                format!("{}{}", $pool.connect_options().to_url_lossy(), $more)
            }
        })+
    };
}
reading! {
    Sqlite: |pool| "";
    // The test's own schema is an option of the session, which the URL leaves out.
    Postgres: |pool| {
        let schema: String = sqlx::query_scalar("SELECT current_schema()::text").fetch_one(pool).await.unwrap();
        format!("&options[search_path]={schema}")
    };
    MariaDb: |pool| "";
    MySql: |pool| "";
}
