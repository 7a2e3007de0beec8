//! Values that would stop others, inserted by SQL: texts without a limit, keys that fit only some indexes, and rows of a session that has
//! switched the checks off.

use serde_json::Value;
use solid_notify::sql::Dialect;
use solid_notify::{Filter, Notice, OutboxExt, add_notice};
use solid_notify_conformance::succeed;
use solid_notify_core::param::MOST_STORED;
use solid_notify_core::store::Settled;
use sqlx::error::{DatabaseError, ErrorKind};
use test_support::sending::eventually;
use test_support::{Database, TestDb, on_each_database, on_mysql_family};

use crate::damage::{claim, define};

on_each_database!(a_text_that_is_too_long_for_a_definition_is_refused);
on_mysql_family!(a_notice_of_a_session_without_checks_stops_no_other);

async fn a_text_that_is_too_long_for_a_definition_is_refused<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    define(&db).await;
    let mut shell = db.pool.acquire().await.unwrap();
    for column in ["description", "handler_config", "mask", "runbook", "owner", "email", "alert_to", "target_filter"] {
        let update = |length: usize| format!("UPDATE notify_def SET {column} = '{}'", "x".repeat(length));
        db.sql(&update(65_535)).await;
        let error = D::Db::script(&mut shell, update(65_536).into()).await.expect_err(column);
        // MySQL has a type for it.
        let kind = error.as_database_error().map(DatabaseError::kind);
        assert!(kind == Some(ErrorKind::CheckViolation) || error.to_string().contains("too long"), "{column}: {error}");
    }
    drop(shell);
    db.close().await;
}

/// MySQL and MariaDB take no such text with their usual limit of a packet.
async fn parameter_that_is_larger_than_any_is_a_dead_letter_unread<D: Database>(text: &str) {
    let db = TestDb::<D>::with_real_clock().await;
    let def_id = define(&db).await;
    for (column, length, refused) in [
        ("description", 65_535, false),
        ("description", 65_536, true),
        ("trace_context", 1_000, false),
        ("trace_context", 1_001, true),
    ] {
        let value = "x".repeat(length);
        let insert = format!("INSERT INTO notify_msg (def_id, param, {column}) VALUES ({def_id}, '1', '{value}')");
        let mut shell = db.pool.acquire().await.unwrap();
        assert_eq!(D::Db::script(&mut shell, insert.into()).await.is_err(), refused, "{column}, {length}");
    }
    db.sql(&format!("INSERT INTO notify_msg (def_id, param, tag) SELECT {def_id}, {text}, 'large'")).await;
    let sweeper = db.outbox.sweeper().handler("sync", async |_: Notice<Value>| Ok(())).start().await.unwrap();
    let dead = Filter::dead_letters().tag("large");
    let list = async || db.outbox.operator("alice").list(&dead, None, 10).await.unwrap().notices;
    eventually("it is a dead letter", async || !list().await.is_empty()).await;
    let error = db.outbox.find(list().await[0].id).await.unwrap().unwrap().errors.remove(0);
    assert_eq!(error.class, "invalid");
    assert_eq!(error.message, format!("its parameter has 24000002 bytes; one of at most {MOST_STORED} is sent"));
    sweeper.shutdown().await;
    db.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameter_that_is_larger_than_any_is_a_dead_letter_unread_on_sqlite() {
    let text = "printf('\"%.*c\"', 24000000, 'x')";
    parameter_that_is_larger_than_any_is_a_dead_letter_unread::<test_support::Sqlite>(text).await;
}

/// Each of these notices could be neither claimed nor changed with others, nor become an ended one.
async fn a_notice_of_a_session_without_checks_stops_no_other<D: Database<Db = sqlx::MySql>>() {
    let db = TestDb::<D>::with_real_clock().await;
    let def_id = define(&db).await;
    // MySQL has no such variable, so only what its checks accept can be damaged there.
    let version: String = sqlx::query_scalar("SELECT version()").fetch_one(&db.pool).await.unwrap();
    let is_mariadb = version.contains("MariaDB");
    let without_checks = if is_mariadb { "SET check_constraint_checks = 0;" } else { "" };
    let mut damaged = vec![("expires_at", "2026-00-00"), ("create_time", "2026-00-00"), ("expires_at", "0000-00-00")];
    if is_mariadb {
        damaged.extend([("create_time", "0000-00-00"), ("next_call_time", "0000-00-00")]);
        damaged.extend(["ordering_key", "dedupe_key", "tag"].map(|column| (column, "")));
    }
    for (column, value) in &damaged {
        db.sql(&format!(
            "SET sql_mode = ''; {without_checks} INSERT INTO notify_msg (def_id, param, {column}) VALUES ({def_id}, '1', '{value}')"
        ))
        .await;
    }
    let mut tx = db.outbox.begin().await.unwrap();
    add_notice(&mut tx, "sync", 2).await.unwrap();
    tx.commit().await.unwrap();
    let claimed = claim(&db, def_id).await.unwrap();
    assert_eq!(claimed.len(), damaged.len() + 1);
    let batch: Vec<_> = claimed.iter().map(succeed).collect();
    let settled = db.outbox.engine().stores().send.settle(&batch).await.unwrap();
    assert!(settled.iter().all(|settled| matches!(settled, Settled::Stored)), "{settled:?}");
    db.close().await;
}

mod on_postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn parameter_that_is_larger_than_any_is_a_dead_letter_unread() {
        let text = "('\"' || repeat('x', 24000000) || '\"')::json";
        super::parameter_that_is_larger_than_any_is_a_dead_letter_unread::<test_support::Postgres>(text).await;
    }

    /// A b-tree of PostgreSQL takes a third of a page, and the indexes of ended notices have a column more.
    #[tokio::test]
    async fn a_key_that_fits_only_the_live_indexes_is_refused() {
        let db = TestDb::<test_support::Postgres>::with_real_clock().await;
        let def_id = define(&db).await;
        for column in ["tag", "ordering_key", "dedupe_key"] {
            // Not compressible.
            let long = "SELECT string_agg(md5(n::text), '') FROM generate_series(1, 70) n";
            let insert = |length: usize| {
                format!(
                    "INSERT INTO notify_msg (def_id, param, {column}) SELECT {def_id}, '1', left(({long}), {length})"
                )
            };
            db.sql(&insert(200)).await;
            let mut shell = db.pool.acquire().await.unwrap();
            for length in [201, 2_150] {
                let refused = sqlx::Postgres::script(&mut shell, insert(length).into()).await;
                assert!(refused.unwrap_err().to_string().contains("too long"), "{column}, {length}");
            }
        }
        let claimed = claim(&db, def_id).await.unwrap();
        let batch: Vec<_> = claimed.iter().map(succeed).collect();
        let settled = db.outbox.engine().stores().send.settle(&batch).await.unwrap();
        assert!(settled.len() == 3 && settled.iter().all(|settled| matches!(settled, Settled::Stored)), "{settled:?}");
        db.close().await;
    }
}
