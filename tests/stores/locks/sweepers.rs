//! Another session holds a lock, and all other work goes on: a row locked by an open transaction, a slow or refused
//! statement of one definition, a burst of acks, a frozen process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use solid_notify::sql::Dialect;
use solid_notify::{AckResult, Failure, NewNotice, Notice, NotifyDef, OutboxExt, Status, SweeperBuilder, add_notices};
use solid_notify_conformance::Backend;
use sqlx::{AssertSqlSafe, Executor};
use test_support::log::Log;
use test_support::sending::{Calls, PATIENCE, add, definition, eventually, reaches};
use test_support::{Database, TestDb};

use super::lock;

test_support::on_each_server!(
    locked_scheduled_definition_stops_no_other,
    locked_built_in_definition_stops_no_other,
    locked_limit_stops_no_other_and_is_reported,
    locked_alert_stops_no_other,
    locked_switch_and_node_stop_no_other,
    slow_claim_of_one_definition_stops_no_other,
    refused_claim_of_one_definition_stops_no_other,
    unwritable_outcomes_of_one_definition_stop_no_other,
    burst_of_acks_fails_none_and_stops_no_sending,
);

/// The time-out of calls, which is longer than any test waits: sending that waits for a lock hangs until the test ends it.
const LONG: Duration = Duration::from_secs(3600);

/// The log of this process.
static LOG: LazyLock<Log> = LazyLock::new(Log::start);

/// A database whose time is turned by hand or not, with such a time-out.
async fn database<D: Database>(by_hand: bool) -> TestDb<D> {
    TestDb::build(8, by_hand, |builder| builder.call_timeout(LONG)).await
}

/// Starts a sweeper that finds notices only by its sweeps, like those of other processes.
fn sweeper<D: Database>(db: &TestDb<D>) -> SweeperBuilder {
    db.outbox
        .sweeper()
        .first_send(false)
        .handler("sync", |_: Notice<i64>| async { Ok(()) })
        .handler("fails", |_: Notice<i64>| async { Err(Failure::give_up("no such customer")) })
}

/// A notice of `sync` is sent.
async fn sync_is_sent<D: Database>(db: &TestDb<D>) {
    let id = add(db, "sync").await;
    db.outbox.wake();
    reaches(db, id, Status::Succeeded).await;
}

/// Notices of `sync` are sent, one after the other, while the lock is held.
async fn sync_goes_on<D: Database>(db: &TestDb<D>, times: usize) {
    for _ in 0..times {
        sync_is_sent(db).await;
    }
}

async fn locked_scheduled_definition_stops_no_other<D: Database>() {
    locked_timetable_stops_no_other::<D>("SELECT id FROM notify_def WHERE name = 'clock' FOR UPDATE").await;
}

async fn locked_built_in_definition_stops_no_other<D: Database>() {
    locked_timetable_stops_no_other::<D>("SELECT id FROM notify_def WHERE name LIKE 'notify.%' FOR UPDATE").await;
}

/// Ticks are due all the time and cannot be stored until the lock is released.
async fn locked_timetable_stops_no_other<D: Database>(sql: &str) {
    let db = database::<D>(true).await;
    db.outbox.define_if_missing(NotifyDef::new("clock").schedule("0 0 * * * *").handler("elsewhere")).await.unwrap();
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let sweeper = sweeper(&db).start().await.unwrap();
    sync_goes_on(&db, 1).await;
    let ticks = async |db: &TestDb<D>| db.outbox.engine().stores().send.due(true).await.unwrap().ticks;
    eventually("every timetable has begun", async || ticks(&db).await.len() == 3).await;
    let before = ticks(&db).await;
    let other = lock(&db, sql).await;
    db.clock().advance(Duration::from_secs(25 * 3600));
    sync_goes_on(&db, 5).await;
    other.rollback().await.unwrap();
    eventually("every timetable ticks", async || {
        let now = ticks(&db).await;
        before.iter().all(|(def_id, before)| now.get(def_id).is_some_and(|tick| tick.at > before.at))
    })
    .await;
    sweeper.shutdown().await;
    db.close().await;
}

async fn locked_limit_stops_no_other_and_is_reported<D: Database>() {
    LazyLock::force(&LOG);
    // The log is that of all databases.
    let name = format!("limited {:08x}", fastrand::u32(..));
    let reports = || {
        let lines = LOG.all();
        lines.iter().filter(|line| line.contains("notify_limit") && line.contains(&name)).count()
    };
    let db = database::<D>(false).await;
    db.outbox.define_if_missing(NotifyDef::new(&name).handler("sync").max_concurrency_total(5)).await.unwrap();
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let sweeper = sweeper(&db).start().await.unwrap();
    let first = add(&db, &name).await;
    reaches(&db, first, Status::Succeeded).await;
    let other = lock(&db, "SELECT def_id FROM notify_limit FOR UPDATE").await;
    let held = add(&db, &name).await;
    sync_goes_on(&db, 3).await;
    eventually("it is reported", async || reports() >= 1).await;
    other.rollback().await.unwrap();
    reaches(&db, held, Status::Succeeded).await;
    sweeper.shutdown().await;
    db.close().await;
}

async fn locked_alert_stops_no_other<D: Database>() {
    let db = database::<D>(false).await;
    db.outbox.define_if_missing(NotifyDef::new("fails")).await.unwrap();
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let sweeper = sweeper(&db).maintenance_interval(Duration::from_millis(200)).start().await.unwrap();
    let first = add(&db, "fails").await;
    reaches(&db, first, Status::DeadLetter).await;
    let other = lock(&db, "SELECT def_id FROM notify_alert FOR UPDATE").await;
    let held = add(&db, "fails").await;
    sync_goes_on(&db, 5).await;
    other.rollback().await.unwrap();
    reaches(&db, held, Status::DeadLetter).await;
    sweeper.shutdown().await;
    db.close().await;
}

async fn locked_switch_and_node_stop_no_other<D: Database>() {
    let db = database::<D>(false).await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let sweeper = sweeper(&db).maintenance_interval(Duration::from_millis(200)).start().await.unwrap();
    sync_goes_on(&db, 1).await;
    let node = lock(&db, "SELECT id FROM notify_node FOR UPDATE").await;
    let switch = lock(&db, "SELECT id FROM notify_switch FOR UPDATE").await;
    let count = lock(&db, "SELECT def_id FROM notify_count FOR UPDATE").await;
    sync_goes_on(&db, 5).await;
    for other in [node, switch, count] {
        other.rollback().await.unwrap();
    }
    sweeper.shutdown().await;
    db.close().await;
}

/// A trigger that `act`s when a notice of this definition is claimed.
async fn trigger<D: Database>(db: &TestDb<D>, name: &str, on_postgres: &str, on_mysql: &str) {
    let def_id = definition(db, name).await.id;
    let script = match <D::Db as sqlx::Database>::NAME {
        "PostgreSQL" => format!(
            "CREATE FUNCTION act() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS $$ BEGIN
                 IF new.def_id = {def_id} THEN {on_postgres}; END IF;
                 RETURN new;
             END $$;
             CREATE TRIGGER act BEFORE UPDATE ON notify_msg FOR EACH ROW EXECUTE FUNCTION act()"
        ),
        _ => format!(
            "CREATE TRIGGER act BEFORE UPDATE ON notify_msg FOR EACH ROW BEGIN
                 IF new.def_id = {def_id} THEN {on_mysql}; END IF;
             END"
        ),
    };
    db.sql(&script).await;
}

/// The claim waits at a gate of the test in a trigger.
async fn slow_claim_of_one_definition_stops_no_other<D: Database>()
where
    for<'c> &'c sqlx::Pool<D::Db>: Executor<'c, Database = D::Db>,
{
    let db = database::<D>(false).await;
    for name in ["slow", "sync"] {
        db.outbox.define_if_missing(NotifyDef::new(name).handler("sync")).await.unwrap();
    }
    let key = fastrand::i64(..);
    let passes_on_postgres = format!("PERFORM pg_advisory_xact_lock_shared({key})");
    let passes_on_mysql = format!("DO GET_LOCK('{key}', 3600); DO RELEASE_LOCK('{key}')");
    trigger(&db, "slow", &passes_on_postgres, &passes_on_mysql).await;
    let (close, waits, open) = match <D::Db as sqlx::Database>::NAME {
        "PostgreSQL" => (
            format!("SELECT pg_advisory_lock({key})"),
            format!(
                "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                 AND (classid::bigint << 32) | objid::bigint = {key}"
            ),
            format!("SELECT pg_advisory_unlock({key})"),
        ),
        _ => (
            format!("DO GET_LOCK('{key}', 0)"),
            "SELECT 1 FROM information_schema.processlist WHERE state = 'User lock' AND db = database()".to_owned(),
            format!("DO RELEASE_LOCK('{key}')"),
        ),
    };
    let mut gate = db.pool.acquire().await.unwrap();
    D::Db::script(&mut gate, close.into()).await.unwrap();
    let slow = add(&db, "slow").await;
    // On MySQL and MariaDB a claim also locks the index entry behind its rows: here it is this one.
    db.add_new(NewNotice::new("slow", 2).unwrap().delay(Duration::from_secs(3600))).await;
    let sweeper = sweeper(&db).start().await.unwrap();
    let is_waiting = async || !db.pool.fetch_all(AssertSqlSafe(waits.clone())).await.unwrap().is_empty();
    eventually("the claim waits", is_waiting).await;
    sync_goes_on(&db, 10).await;
    assert!(is_waiting().await, "the claim has waited all the time");
    D::Db::script(&mut gate, open.into()).await.unwrap();
    reaches(&db, slow, Status::Succeeded).await;
    sweeper.shutdown().await;
    drop(gate);
    db.close().await;
}

async fn refused_claim_of_one_definition_stops_no_other<D: Database>() {
    let db = database::<D>(false).await;
    for name in ["refused", "sync"] {
        db.outbox.define_if_missing(NotifyDef::new(name).handler("sync")).await.unwrap();
    }
    let (on_postgres, on_mysql) =
        ("RAISE 'no right' USING ERRCODE = '42501'", "SIGNAL SQLSTATE '42000' SET MYSQL_ERRNO = 1142");
    trigger(&db, "refused", on_postgres, on_mysql).await;
    add(&db, "refused").await;
    let sweeper = sweeper(&db).start().await.unwrap();
    let began = Instant::now();
    // Many notices, because the definitions take turns: every other look begins with the good one.
    sync_goes_on(&db, 10).await;
    let so_far = began.elapsed();
    let health = sweeper.health();
    assert!(
        health.database_answers && health.database_for >= so_far,
        "since {so_far:?} the refusal is no outage: {health:?}"
    );
    sweeper.shutdown().await;
    db.close().await;
}

/// More of them than a node keeps unsettled in all.
async fn unwritable_outcomes_of_one_definition_stop_no_other<D: Database>() {
    let db = database::<D>(false).await;
    db.outbox.define_if_missing(NotifyDef::new("fails").handler("noted").max_concurrency(500)).await.unwrap();
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let fails = move |_: Notice<i64>| {
        noted.note(());
        async { Err(Failure::give_up("no such customer")) }
    };
    let sweeper = sweeper(&db).handler("noted", fails).start().await.unwrap();
    let first = add(&db, "fails").await;
    reaches(&db, first, Status::DeadLetter).await;
    let other = lock(&db, "SELECT def_id FROM notify_alert FOR UPDATE").await;
    let mut tx = db.outbox.begin().await.unwrap();
    add_notices(&mut tx, (0..2500).map(|n| NewNotice::new("fails", n).unwrap())).await.unwrap();
    tx.commit().await.unwrap();
    // As many outcomes as are kept of one definition wait for the lock.
    eventually("many are not stored", async || calls.count() >= 500).await;
    // A stop would last as long as the lock.
    sync_goes_on(&db, 10).await;
    other.rollback().await.unwrap();
    let fails = definition(&db, "fails").await.id;
    eventually("all are written", async || {
        db.outbox.engine().stores().send.due(true).await.unwrap().slices.iter().all(|slice| slice.def_id != fails)
    })
    .await;
    sweeper.shutdown().await;
    db.close().await;
}

/// The time that calls wait for each other is no time in which the database does not answer. A trigger makes each ack take 250 ms. The
/// store has three connections for them, so the last of 90 waits longer than the time-out of a call on a machine of any speed.
async fn burst_of_acks_fails_none_and_stops_no_sending<D: Database>()
where
    for<'c> &'c sqlx::Pool<D::Db>: Executor<'c, Database = D::Db>,
{
    const ACKS: i64 = 90;
    const CALL: Duration = Duration::from_secs(5);
    let db = TestDb::<D>::build(8, false, |builder| builder.call_timeout(CALL)).await;
    db.outbox.define_if_missing(NotifyDef::new("asks").handler("sync").need_confirm(true)).await.unwrap();
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let mut tx = db.outbox.begin().await.unwrap();
    let added = add_notices(&mut tx, (0..ACKS).map(|n| NewNotice::new("asks", n).unwrap())).await.unwrap();
    tx.commit().await.unwrap();
    let sweeper = sweeper(&db).start().await.unwrap();
    let ids: Vec<i64> = added.iter().map(solid_notify::Receipt::id).collect();
    let last = ids[ids.len() - 1];
    reaches(&db, last, Status::AwaitingAck).await;
    eventually("all await their ack", async || {
        let slices = db.outbox.engine().stores().send.due(true).await.unwrap().slices;
        slices.iter().all(|slice| slice.status == Status::AwaitingAck)
    })
    .await;
    let asks = definition(&db, "asks").await.id;
    let trigger = match <D::Db as sqlx::Database>::NAME {
        "PostgreSQL" => format!(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 IF new.def_id = {asks} THEN PERFORM pg_sleep(0.25); END IF;
                 RETURN new;
             END $$;
             CREATE TRIGGER slow BEFORE INSERT ON notify_msg_history FOR EACH ROW EXECUTE FUNCTION slow()"
        ),
        _ => format!(
            "CREATE TRIGGER slow BEFORE INSERT ON notify_msg_history FOR EACH ROW
             SET @slow = IF(new.def_id = {asks}, SLEEP(0.25), 0)"
        ),
    };
    db.sql(&trigger).await;
    let began = Instant::now();
    let answered = Arc::new(AtomicUsize::new(0));
    let acks = ids.iter().map(|id| {
        let (outbox, id, answered) = (db.outbox.clone(), *id, Arc::clone(&answered));
        tokio::spawn(async move {
            let done = outbox.ack(id).await;
            answered.fetch_add(1, Ordering::Relaxed);
            done
        })
    });
    let acks = join_all(acks);
    let sending = async {
        let mut sent = 0;
        while answered.load(Ordering::Relaxed) < ids.len() {
            let id = add(&db, "sync").await;
            let began = Instant::now();
            db.outbox.wake();
            let is_sent = format!("SELECT 1 FROM notify_msg_history WHERE id = {id}");
            // By the application's pool, because a look-up of ours would wait behind the acks.
            while db.pool.fetch_all(AssertSqlSafe(is_sent.clone())).await.unwrap().is_empty() {
                assert!(began.elapsed() < PATIENCE, "it hangs, after {PATIENCE:?}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            sent += 1;
        }
        sent
    };
    let (acks, sent) = tokio::join!(acks, sending);
    let failed = acks.into_iter().filter_map(|ack| match ack.unwrap() {
        Ok(AckResult::Applied) => None,
        other => Some(format!("{other:?}")),
    });
    let failed: Vec<String> = failed.collect();
    assert!(began.elapsed() > CALL + CALL / 4, "{:?}", began.elapsed());
    assert_eq!(failed.len(), 0, "{:?}", failed.first());
    assert!(sent > 0);
    sweeper.shutdown().await;
    db.close().await;
}
