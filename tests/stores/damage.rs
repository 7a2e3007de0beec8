//! Damage: tables that people or restored backups changed, and databases that are half there. A damaged row stops no other
//! notice.

use std::time::Duration;

use solid_notify::sql::Dialect;
use solid_notify::{Error, NotifyDef, Status, add_notice};
use solid_notify_conformance::succeed;
use solid_notify_core::ClaimedNotice;
use solid_notify_core::error::{FaultKind, StoreError};
use solid_notify_core::store::{Claim, ClaimWhat, Settled};
use sqlx::Connection;
use sqlx::error::{DatabaseError, ErrorKind};
use test_support::{Database, TestDb, on_each_database};

on_each_database!(
    a_row_without_a_due_time_is_refused,
    an_id_that_was_given_twice_replaces_the_ended_notice,
    an_id_that_was_given_twice_is_reported_by_the_live_notice,
    a_notice_that_is_reported_due_can_be_claimed,
    a_notice_that_comes_late_waits_for_the_claimed_one_of_its_key,
    two_of_a_key_cannot_be_under_way,
    a_missing_table_is_the_fault_of_the_store_and_not_of_the_values,
    a_notice_is_refused_after_a_failed_savepoint_ended_its_transaction,
);

pub(crate) async fn define<D: Database>(db: &TestDb<D>) -> i64 {
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    db.outbox.definitions().await.unwrap()[0].row.id
}

pub(crate) async fn claim<D: Database>(db: &TestDb<D>, def_id: i64) -> Result<Vec<ClaimedNotice>, StoreError> {
    let (what, worker) = (ClaimWhat::Slice(Status::NotSent), "worker".to_owned());
    let claim = Claim { def_id, what, limit: 100, lease: Duration::from_secs(60), worker, quota: None };
    db.outbox.engine().stores().send.claim(&claim).await.map(|claims| claims.notices)
}

async fn refused<D: Database>(db: &TestDb<D>, sql: &str) {
    let mut shell = db.pool.acquire().await.unwrap();
    let error = D::Db::script(&mut shell, sql.to_owned().into()).await.expect_err(sql);
    let kind = error.as_database_error().map(DatabaseError::kind);
    assert!(matches!(kind, Some(ErrorKind::CheckViolation | ErrorKind::NotNullViolation)), "{sql}: {error}");
}

async fn a_row_without_a_due_time_is_refused<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    let def_id = define(&db).await;
    let insert = |status, next| {
        format!(
            "INSERT INTO notify_msg (def_id, param, status, next_call_time) VALUES ({def_id}, '1', {status}, {next})"
        )
    };
    for status in [0, 2, 4, 5] {
        refused(&db, &insert(status, "NULL")).await;
    }
    db.sql(&insert(0, "'2020-01-01 00:00:00'")).await;
    db.sql(&insert(0, "'2020-01-01 00:00:00.123'")).await;
    db.sql("UPDATE notify_def SET delete_time = NULL, update_time = '2026-01-01 00:00:00'").await;
    assert_eq!(claim(&db, def_id).await.unwrap().len(), 2);
    db.close().await;
}

async fn an_id_that_was_given_twice_replaces_the_ended_notice<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    let def_id = define(&db).await;
    for param in [1, 2] {
        for id in [100, 200] {
            // The second time as after a restored sequence.
            let columns = "id, def_id, param, status";
            db.sql(&format!("INSERT INTO notify_msg ({columns}) VALUES ({id}, {def_id}, '{param}', 0)")).await;
            if param == 1 && id == 100 {
                let claimed = claim(&db, def_id).await.unwrap();
                assert_eq!(
                    db.outbox.engine().stores().send.settle(&[succeed(&claimed[0])]).await.unwrap(),
                    [Settled::Stored]
                );
            } else if param == 1 {
                db.sql("DELETE FROM notify_msg WHERE id = 200").await;
            }
        }
    }
    let claimed = claim(&db, def_id).await.unwrap();
    let batch: Vec<_> = claimed.iter().map(succeed).collect();
    assert_eq!(db.outbox.engine().stores().send.settle(&batch).await.unwrap(), vec![Settled::Stored; 2]);
    for id in [100, 200] {
        let record = db.outbox.find(id).await.unwrap().unwrap();
        assert_eq!((record.status, record.param.as_str()), (Status::Succeeded, "2"));
    }
    db.close().await;
}

async fn an_id_that_was_given_twice_is_reported_by_the_live_notice<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    let def_id = define(&db).await;
    let insert = format!("INSERT INTO notify_msg (id, def_id, param) VALUES (100, {def_id}, '1')");
    db.sql(&insert).await;
    let ended = claim(&db, def_id).await.unwrap();
    assert_eq!(db.outbox.engine().stores().send.settle(&[succeed(&ended[0])]).await.unwrap(), [Settled::Stored]);
    db.sql(&insert).await;
    db.sql("UPDATE notify_msg SET fence = 1").await;
    assert_eq!(claim(&db, def_id).await.unwrap()[0].fence, 2);
    // The end of the other notice is no outcome of this one.
    assert_eq!(db.outbox.engine().stores().send.settle(&[succeed(&ended[0])]).await.unwrap(), [Settled::LostLease]);
    db.close().await;
}

/// Two notices of one ordering key, as of transactions that overlap: the first is committed last.
async fn a_notice_that_comes_late_waits_for_the_claimed_one_of_its_key<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    let def_id = define(&db).await;
    let insert =
        |id| format!("INSERT INTO notify_msg (id, def_id, param, ordering_key) VALUES ({id}, {def_id}, '1', 'key')");
    db.sql(&insert(200)).await;
    let second = claim(&db, def_id).await.unwrap();
    db.sql(&insert(100)).await;
    assert!(claim(&db, def_id).await.unwrap().is_empty());
    assert_eq!(db.outbox.engine().stores().send.settle(&[succeed(&second[0])]).await.unwrap(), [Settled::Stored]);
    assert_eq!(claim(&db, def_id).await.unwrap()[0].id, 100);
    db.close().await;
}

async fn two_of_a_key_cannot_be_under_way<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    let def_id = define(&db).await;
    let columns = "def_id, param, status, ordering_key";
    db.sql(&format!(
        "INSERT INTO notify_msg ({columns}) VALUES ({def_id}, '1', 5, 'key'), ({def_id}, '1', 5, 'other')"
    ))
    .await;
    let mut shell = db.pool.acquire().await.unwrap();
    let third = format!("INSERT INTO notify_msg ({columns}) VALUES ({def_id}, '1', 4, 'key')");
    let error = D::Db::script(&mut shell, third.into()).await.unwrap_err();
    assert!(error.as_database_error().is_some_and(|error| error.is_unique_violation()), "{error}");
    drop(shell);
    db.close().await;
}

async fn a_notice_that_is_reported_due_can_be_claimed<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    let def_id = define(&db).await;
    let (now, plus) = match <D::Db as sqlx::Database>::NAME {
        "PostgreSQL" => ("statement_timestamp()", "+ interval '6300 microseconds'"),
        "MySQL" => ("UTC_TIMESTAMP(6)", "+ INTERVAL 6300 MICROSECOND"),
        _ => ("strftime('%Y-%m-%d %H:%M:%f', 'now'", ", '+0.006 seconds')"),
    };
    for _ in 0..20 {
        db.sql(&format!("INSERT INTO notify_msg (def_id, param, next_call_time) VALUES ({def_id}, '1', {now} {plus})"))
            .await;
        let mut looks = 0;
        loop {
            looks += 1;
            let slices = db.outbox.engine().stores().send.due(true).await.unwrap().slices;
            let first = slices.iter().find(|slice| slice.status == Status::NotSent).unwrap();
            if first.after.is_zero() {
                assert_eq!(claim(&db, def_id).await.unwrap().len(), 1, "after {looks} looks");
                break;
            }
        }
    }
    db.close().await;
}

async fn a_missing_table_is_the_fault_of_the_store_and_not_of_the_values<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    let def_id = define(&db).await;
    db.sql("ALTER TABLE notify_msg RENAME TO notify_msg_away").await;
    let error = claim(&db, def_id).await.unwrap_err();
    assert_eq!(error.kind, FaultKind::Unusable, "{error}");
    assert!(error.is_transient());
    db.sql("ALTER TABLE notify_msg_away RENAME TO notify_msg").await;
    assert!(claim(&db, def_id).await.unwrap().is_empty());
    db.close().await;
}

/// On Postgres a savepoint fails in an aborted transaction. On the others no error makes one fail, and the work goes on.
async fn a_notice_is_refused_after_a_failed_savepoint_ended_its_transaction<D: Database>()
where
    for<'c> sqlx::Transaction<'c, D::Db>: solid_notify::NoticeConnection<solid_notify::sql::BySqlx>,
{
    let db = TestDb::<D>::with_real_clock().await;
    define(&db).await;
    let mut tx = db.pool.begin().await.unwrap();
    D::Db::script(&mut tx, "SELECT nonsense".into()).await.unwrap_err();
    let lost = match tx.begin().await {
        Ok(inner) => {
            inner.commit().await.unwrap();
            false
        }
        Err(_) => true,
    };
    let added = add_notice(&mut tx, "sync", 1).await;
    assert_eq!(matches!(added, Err(Error::TransactionLost { .. })), lost, "{added:?}");
    assert_eq!(lost, <D::Db as sqlx::Database>::NAME == "PostgreSQL");
    drop(tx);
    db.close().await;
}

mod on_postgres {
    use super::*;

    #[tokio::test]
    async fn an_infinite_time_stops_nothing_on_postgres() {
        let db = TestDb::<test_support::Postgres>::with_real_clock().await;
        let def_id = define(&db).await;
        refused(
            &db,
            &format!("INSERT INTO notify_msg (def_id, param, next_call_time) VALUES ({def_id}, '1', '-infinity')"),
        )
        .await;
        for end in ["infinity", "-infinity"] {
            refused(&db, &format!("UPDATE notify_def SET update_time = '{end}'")).await;
        }
        refused(&db, "UPDATE notify_def SET last_tick = '294276-01-01'").await;
        // Such rows exist where the checks were added later or dropped.
        db.sql("ALTER DOMAIN notify_due DROP CONSTRAINT notify_due").await;
        db.sql("ALTER TABLE notify_def DROP CONSTRAINT notify_def_times").await;
        for end in ["infinity", "-infinity"] {
            db.sql(&format!(
                "INSERT INTO notify_msg (def_id, param, next_call_time, create_time) VALUES ({def_id}, '1', '{end}', '{end}')"
            ))
            .await;
            db.sql(&format!("INSERT INTO notify_def (name, delete_time) VALUES ('{end}', '{end}')")).await;
        }
        unreadable_times_stop_nothing(&db, def_id).await;
        db.close().await;
    }
}

test_support::on_mysql_family!(a_zero_time_stops_nothing, a_migration_that_was_cut_short_is_taken_up);

async fn a_zero_time_stops_nothing<D: Database<Db = sqlx::MySql>>() {
    let db = TestDb::<D>::with_real_clock().await;
    let def_id = define(&db).await;
    let zero = format!(
        "INSERT INTO notify_msg (def_id, param, next_call_time, create_time) VALUES
         ({def_id}, '1', '0000-00-00', '0000-00-00')"
    );
    refused(&db, &format!("SET sql_mode = ''; {zero}")).await;
    db.sql("ALTER TABLE notify_msg DROP CONSTRAINT notify_msg_times").await;
    db.sql("ALTER TABLE notify_def DROP CONSTRAINT notify_def_times").await;
    db.sql(&format!("SET sql_mode = ''; {zero}")).await;
    db.sql(
        "SET sql_mode = ''; INSERT INTO notify_def (name, delete_time) VALUES ('x', '0000-00-00'), ('y', '0000-00-00')",
    )
    .await;
    unreadable_times_stop_nothing(&db, def_id).await;
    db.close().await;
}

mod on_sqlite {
    use super::*;

    #[tokio::test]
    async fn an_unreadable_time_or_number_stops_nothing_on_sqlite() {
        let db = TestDb::<test_support::Sqlite>::with_real_clock().await;
        let def_id = define(&db).await;
        for time in ["unixepoch()", "'soon'", "''", "'2026-01-01'"] {
            refused(
                &db,
                &format!("INSERT INTO notify_msg (def_id, param, next_call_time) VALUES ({def_id}, '1', {time})"),
            )
            .await;
            refused(&db, &format!("UPDATE notify_def SET update_time = {time}")).await;
        }
        refused(&db, "INSERT INTO notify_switch (id) VALUES (2)").await;
        for column in [
            "max_retry_times",
            "max_concurrency",
            "alert_trigger_fail_times",
            "dead_alert_count",
            "max_concurrency_total",
            "breaker_failures",
        ] {
            refused(&db, &format!("UPDATE notify_def SET {column} = 'many'")).await;
        }
        db.sql("PRAGMA ignore_check_constraints = ON; INSERT INTO notify_msg (def_id, param, next_call_time, create_time)
             VALUES (1, '1', '', '2026-01-01 00:00:00'), (1, '1', 'soon', 'soon'); INSERT INTO notify_def (name, delete_time) VALUES ('x', 'soon'), ('y', '');
             INSERT INTO notify_msg (def_id, param, next_call_time, errors) VALUES (1, x'ff', '', x'fe')")
            .await;
        unreadable_times_stop_nothing(&db, def_id).await;
        db.close().await;
    }
}

/// One notice whose time can be claimed and perhaps one whose cannot, and two definitions marked as deleted.
async fn unreadable_times_stop_nothing<D: Database>(db: &TestDb<D>, def_id: i64) {
    let definitions = db.outbox.definitions().await.unwrap();
    assert_eq!(definitions.iter().filter(|state| state.deleted().is_some()).count(), 2);
    let mut tx = db.outbox.begin().await.unwrap();
    let good = add_notice(&mut tx, "sync", 2).await.unwrap().id();
    tx.commit().await.unwrap();
    let due = |slices: Vec<solid_notify_core::store::DueSlice>| slices.iter().any(|slice| slice.after.is_zero());
    assert!(due(db.outbox.engine().stores().send.due(true).await.unwrap().slices));
    let claimed = claim(db, def_id).await.unwrap();
    assert!(claimed.iter().any(|notice| notice.id == good) && claimed.len() == 2, "{claimed:?}");
    assert!(
        !due(db.outbox.engine().stores().send.due(true).await.unwrap().slices),
        "a notice that cannot be claimed is not reported as due"
    );
    let batch: Vec<_> = claimed.iter().map(succeed).collect();
    let settled = db.outbox.engine().stores().send.settle(&batch).await;
    assert!(settled.is_ok() || settled.unwrap_err().kind == FaultKind::Permanent);
}

/// On MySQL each statement of a migration is committed by itself.
async fn a_migration_that_was_cut_short_is_taken_up<D: Database<Db = sqlx::MySql>>() {
    let (pool, cleanup) = D::create(2).await;
    let schema = solid_notify::Outbox::<sqlx::MySql>::schema();
    let tables: Vec<&str> = schema.split("ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;").collect();
    let outbox = solid_notify::Outbox::new(pool.clone());
    D::sql(&pool, &format!("{} ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;", tables[0])).await;
    outbox.migrate().await.unwrap();
    outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let mut tx = outbox.begin().await.unwrap();
    add_notice(&mut tx, "sync", 1).await.unwrap();
    tx.commit().await.unwrap();
    if let test_support::databases::Cleanup::Database(_, name) = cleanup {
        D::sql(&pool, &format!("DROP DATABASE {name}")).await;
    }
}
