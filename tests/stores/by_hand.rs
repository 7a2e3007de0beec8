//! Operators' changes by SQL (edits, deletions and "send it now"), and the lines that they find in the log at error level.

use std::time::{Duration, Instant};

use solid_notify::definition::ALERT_DEFINITION;
use solid_notify::sql::BySqlx;
use solid_notify::{
    Error, Failure, NewNotice, Notice, NoticeConnection, NotifyDef, OutboxExt, Status, TokenKeys, add_notice,
};
use solid_notify_conformance::Backend;
use test_support::log::Log;
use test_support::sending::{PATIENCE, add, eventually, reaches, record};
use test_support::{Database, TestDb};

async fn an_edit_by_sql_comes_into_force_and_breaks_nothing_else<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    for name in ["sync", "other"] {
        db.outbox.define_if_missing(NotifyDef::new(name).handler("sync")).await.unwrap();
    }
    let sweeper = db.outbox.sweeper().handler("sync", |_: Notice<i64>| async { Ok(()) }).start().await.unwrap();
    db.sql("UPDATE notify_def SET retry_interval = '[5s,5x]' WHERE name = 'sync'").await;
    // The edit is in force: its notices wait.
    let began = Instant::now();
    let waiting = loop {
        let id = add(&db, "sync").await;
        sweeper.idle().await;
        if record(&db, id).await.status == Status::NotSent {
            break id;
        }
        assert!(began.elapsed() < PATIENCE, "the edit is not in force");
    };
    let other = add(&db, "other").await;
    reaches(&db, other, Status::Succeeded).await;
    let shown = db.outbox.definitions().await.unwrap();
    let problems = &shown.iter().find(|state| state.row.name == "sync").unwrap().problems;
    assert!(problems[0].to_string().contains("[5s,5x]"), "{problems:?}");
    db.sql("UPDATE notify_def SET retry_interval = '[5s,5m]' WHERE name = 'sync'").await;
    let done = reaches(&db, waiting, Status::Succeeded).await;
    assert_eq!((done.failures, done.crashes), (0, 0));
    sweeper.shutdown().await;
    db.close().await;
}

async fn a_row_deleted_by_sql_loses_nothing_and_heals_when_it_is_inserted_again<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync").enabled(false)).await.unwrap();
    db.outbox.define_if_missing(NotifyDef::new("other")).await.unwrap();
    let def_id =
        db.outbox.definitions().await.unwrap().into_iter().find(|state| state.row.name == "sync").unwrap().row.id;
    let waiting = add(&db, "sync").await;
    let sweeper = db
        .outbox
        .sweeper()
        .handler("sync", |_: Notice<i64>| async { Ok(()) })
        .handler("other", |_: Notice<i64>| async { Ok(()) })
        .start()
        .await
        .unwrap();
    db.sql("DELETE FROM notify_def WHERE name = 'sync'").await;
    // This process may use the definition a little longer. Its notices then wait like the others.
    let began = Instant::now();
    let refused = loop {
        if let Err(error) = db.add(NewNotice::new("sync", 1).unwrap()).await {
            break error;
        }
        assert!(began.elapsed() < PATIENCE, "the deletion is not in force");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert!(matches!(refused, Error::UnknownDefinition { .. }), "{refused:?}");
    let other = add(&db, "other").await;
    reaches(&db, other, Status::Succeeded).await;
    assert_eq!(record(&db, waiting).await.status, Status::NotSent);
    db.sql(&format!("INSERT INTO notify_def (id, name) VALUES ({def_id}, 'sync')")).await;
    reaches(&db, waiting, Status::Succeeded).await;
    sweeper.shutdown().await;
    db.close().await;
}

async fn everything_is_paused_by_sql<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let build = || db.outbox.sweeper().handler("sync", |_: Notice<i64>| async { Ok(()) }).start();
    let (one, other) = (build().await.unwrap(), build().await.unwrap());
    let (log, reason) = (Log::start(), format!("the target moves {:08x}", fastrand::u32(..)));
    db.sql(&format!("UPDATE notify_switch SET paused = true, who = 'bob', reason = '{reason}'")).await;
    // Each node logs it. Notices that were added before may still be sent.
    eventually("the edit is in force on both nodes", async || log.warnings_with(&reason).len() == 2).await;
    let waiting = add(&db, "sync").await;
    db.outbox.wake();
    one.idle().await;
    other.idle().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(record(&db, waiting).await.fence, 0);
    let why = db.outbox.operator("alice").explain(waiting).await.unwrap().to_string();
    assert_eq!(why, format!("everything is paused by bob: {reason}"));
    db.sql("UPDATE notify_switch SET paused = false, retries_paused = true").await;
    // It was never attempted.
    let done = reaches(&db, waiting, Status::Succeeded).await;
    assert_eq!((done.fence, done.failures), (1, 0));
    one.shutdown().await;
    other.shutdown().await;
    db.close().await;
}

async fn a_retry_time_moved_by_sql_is_obeyed<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync").retry_interval("1d")).await.unwrap();
    let sweeper = db
        .outbox
        .sweeper()
        .handler("sync", |notice: Notice<i64>| async move {
            if notice.attempt() == 1 { Err(Failure::retry("once")) } else { Ok(()) }
        })
        .start()
        .await
        .unwrap();
    let id = add(&db, "sync").await;
    reaches(&db, id, Status::Failed).await;
    // Long ago, so that no dialect's "now" is needed.
    db.sql("UPDATE notify_msg SET next_call_time = '2020-01-01 00:00:00' WHERE status = 2").await;
    reaches(&db, id, Status::Succeeded).await;
    sweeper.shutdown().await;
    db.close().await;
}

async fn a_row_marked_as_deleted_by_sql_takes_no_notices<D: Database>()
where
    for<'c> sqlx::Transaction<'c, D::Db>: NoticeConnection<BySqlx>,
{
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    db.sql("UPDATE notify_def SET delete_time = '2020-01-01 00:00:00' WHERE name = 'sync'").await;
    let refused = db.add(NewNotice::new("sync", 1).unwrap()).await.unwrap_err();
    assert!(matches!(refused, Error::UnknownDefinition { .. }), "{refused}");
    let refused = db.add_many(vec![NewNotice::new("sync", 1).unwrap(), NewNotice::new("sync", 2).unwrap()]).await;
    assert!(matches!(refused, Err(Error::UnknownDefinition { .. })), "{refused:?}");
    let mut plain = db.pool.begin().await.unwrap();
    let refused = add_notice(&mut plain, "sync", 1).await.unwrap_err();
    assert!(matches!(refused, Error::UnknownDefinition { .. }), "{refused}");
    drop(plain);
    db.close().await;
}

test_support::on_each_database!(
    an_edit_by_sql_comes_into_force_and_breaks_nothing_else,
    a_row_deleted_by_sql_loses_nothing_and_heals_when_it_is_inserted_again,
    everything_is_paused_by_sql,
    a_retry_time_moved_by_sql_is_obeyed,
    a_row_marked_as_deleted_by_sql_takes_no_notices,
);

#[tokio::test]
async fn final_failures_and_invalid_rows_are_logged_once_as_errors() {
    let b = test_support::memory::MemoryBackend::default();
    let log = Log::start();
    let secret = "a-card-number-that-no-log-may-show";
    b.outbox().define_if_missing(NotifyDef::new("logged_failure").max_retry_times(0)).await.unwrap();
    b.outbox().define_if_missing(NotifyDef::new("logged_unreadable")).await.unwrap();
    b.outbox().define_if_missing(NotifyDef::new("logged_invalid")).await.unwrap();
    // Alerts without a handler would be logged as well.
    b.outbox().define_if_missing(NotifyDef::new(ALERT_DEFINITION).enabled(false)).await.unwrap();
    test_support::sending::edit_by_hand(&b, "logged_invalid", |def| def.timeout("soon")).await;
    let sweeper = b
        .outbox()
        .sweeper()
        .poll_interval(Duration::from_millis(10))
        .handler("logged_failure", |_: Notice<String>| async { Err(Failure::retry("refused")) })
        .handler("logged_unreadable", |_: Notice<i64>| async { Ok(()) })
        .start()
        .await
        .unwrap();
    for name in ["logged_failure", "logged_unreadable"] {
        let id = b.add_new(NewNotice::new(name, secret).unwrap()).await.id();
        reaches(&b, id, Status::DeadLetter).await;
    }
    // Several readings of the definitions later.
    for _ in 0..5 {
        b.outbox().wake();
        tokio::time::sleep(Duration::from_millis(120)).await;
    }
    eventually("the log", async || log.errors_with("logged_failure").len() == 1).await;
    assert!(log.errors_with("logged_failure")[0].contains("refused"), "{:?}", log.errors_with("logged_failure"));
    assert_eq!(log.errors_with("logged_unreadable").len(), 1);
    let invalid = log.errors_with("logged_invalid");
    assert_eq!(invalid.len(), 1, "once per change: {invalid:?}");
    assert!(invalid[0].contains("soon") && invalid[0].contains("timeout"), "{invalid:?}");
    assert!(log.all().iter().all(|line| !line.contains(secret)), "a parameter is in the log");
    sweeper.shutdown().await;
}

#[tokio::test]
async fn missing_token_keys_are_reported_where_acks_are_needed() {
    let b = test_support::memory::MemoryBackend::default();
    let log = Log::start();
    b.outbox().define_if_missing(NotifyDef::new("unsigned").need_confirm(true)).await.unwrap();
    let start_and_stop = async || {
        let sweeper =
            b.outbox().sweeper().handler("unsigned", |_: Notice<i64>| async { Ok(()) }).start().await.unwrap();
        sweeper.shutdown().await;
        let reported = |line: &&String| line.contains("unsigned") && line.contains("no token keys are set");
        log.all().iter().filter(reported).count()
    };
    assert_eq!(start_and_stop().await, 1);
    b.outbox().use_token_keys(TokenKeys::new(&[7; 32]).unwrap());
    assert_eq!(start_and_stop().await, 1, "the keys are set now");
}
