//! The views for people and reports: each notice is in one of them, with its status in words and without its parameter.

use std::time::Duration;

use chrono::Utc;
use solid_notify::{Failure, NewNotice, Notice, NotifyDef, OutboxExt, Response, add_notice};
use test_support::{Database, TestDb, on_each_database};

on_each_database!(
    each_notice_is_in_one_view_with_its_status_in_words,
    each_status_has_its_word,
    what_a_notice_has_not_is_null,
    a_damaged_list_of_errors_breaks_no_view,
    each_view_shows_retries_and_the_last_change,
);

async fn rows<D: Database>(db: &TestDb<D>, columns: &str, view: &str) -> Vec<String> {
    let query = format!("SELECT {columns} FROM {view} ORDER BY id;");
    let output = db.shell().run(&query);
    // The clients separate columns by a bar or by a tabulator.
    output.well().lines().map(|line| line.replace('\t', "|")).collect()
}

/// Adds a notice per parameter and sends them: parameter 0 succeeds, 1 is skipped, 2 fails for good, 3 is retried in an hour.
async fn sent<D: Database>() -> (TestDb<D>, Vec<i64>) {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync").retry_interval("1h").alert_trigger_type("never")).await.unwrap();
    let mut ids = Vec::new();
    for param in 0..4 {
        let mut tx = db.outbox.begin().await.unwrap();
        ids.push(add_notice(&mut tx, "sync", param).await.unwrap().id());
        tx.commit().await.unwrap();
    }
    let sweeper = db.outbox.sweeper().housekeeping(false).handler("sync", |notice: Notice<i64>| async move {
        match notice.param() {
            0 => {
                notice.set_response(Response::new(201));
                Ok(())
            }
            1 => Err(Failure::skip("a test order")),
            2 => Err(Failure::give_up("refused")),
            _ => Err(Failure::retry("down")),
        }
    });
    sweeper.run_until_idle().await.unwrap();
    let mut tx = db.outbox.begin().await.unwrap();
    ids.push(add_notice(&mut tx, "sync", 4).await.unwrap().id());
    tx.commit().await.unwrap();
    (db, ids)
}

async fn each_notice_is_in_one_view_with_its_status_in_words<D: Database>() {
    let (db, ids) = sent::<D>().await;
    let [succeeded, skipped, dead, retried, waiting] = ids[..] else { panic!("{ids:?}") };
    let line = |parts: &[&str]| parts.join("|");
    let text = |id: i64| id.to_string();
    let shown = rows(&db, "id, definition, status, failures", "notify_pending").await;
    assert_eq!(
        shown,
        [line(&[&text(retried), "sync", "failed", "1"]), line(&[&text(waiting), "sync", "not sent", "0"])]
    );
    let shown = rows(&db, "id, definition, status, coalesce(end_reason, '-')", "notify_done").await;
    assert_eq!(
        shown,
        [
            line(&[&text(succeeded), "sync", "succeeded", "-"]),
            line(&[&text(skipped), "sync", "cancelled", "a test order"])
        ]
    );
    let shown = rows(&db, "coalesce(response_status, '-')", "notify_done").await;
    assert_eq!(shown, ["201", "-"]);
    let shown = rows(&db, "id, definition, status, last_error", "notify_error").await;
    assert_eq!(shown, [line(&[&text(dead), "sync", "dead letter", "refused"])]);
    db.close().await;
}

/// The columns that may be null, those of the live notices first.
const OPTIONAL: [&str; 10] = [
    "max_tries",
    "expires_at",
    "definition",
    "last_class",
    "last_error",
    "description",
    "ordering_key",
    "dedupe_key",
    "worker",
    "last_call_time",
];

/// Adds a notice that no sweeper sends.
async fn added<D: Database>(db: &TestDb<D>, notice: NewNotice) -> i64 {
    let mut tx = db.outbox.begin().await.unwrap();
    let id = notice.add(&mut tx).await.unwrap().id();
    tx.commit().await.unwrap();
    id
}

async fn each_status_has_its_word<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let live = added(&db, NewNotice::new("sync", 1).unwrap()).await;
    for (status, word) in [(0, "not sent"), (2, "failed"), (4, "awaiting ack"), (5, "being sent")] {
        db.sql(&format!("UPDATE notify_msg SET status = {status} WHERE id = {live}")).await;
        assert_eq!(rows(&db, "status", "notify_pending").await, [word]);
    }
    let ended = added(&db, NewNotice::new("sync", 1).unwrap().skipped("a test order")).await;
    for (status, view, word) in
        [(1, "notify_done", "succeeded"), (6, "notify_done", "cancelled"), (3, "notify_error", "dead letter")]
    {
        db.sql(&format!("UPDATE notify_msg_history SET status = {status} WHERE id = {ended}")).await;
        for other in ["notify_done", "notify_error"] {
            let expected = if other == view { vec![format!("{ended}|{word}|a test order")] } else { Vec::new() };
            assert_eq!(rows(&db, "id, status, end_reason", other).await, expected, "{status}");
        }
    }
    assert_eq!(rows(&db, "id", "notify_pending").await, [live.to_string()]);
    db.close().await;
}

async fn what_a_notice_has_not_is_null<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let nulls = async |view: &str| {
        let columns = if view == "notify_pending" { &OPTIONAL[..] } else { &OPTIONAL[2..] };
        let flags = columns.iter().map(|column| format!("CASE WHEN {column} IS NULL THEN 'null' ELSE 'value' END"));
        rows(&db, &flags.collect::<Vec<_>>().join(", "), view).await
    };
    let line = |flags: [&str; 10]| flags.join("|");
    let bare = || NewNotice::new("sync", 1).unwrap();
    let full = || {
        let expiry = Utc::now() + Duration::from_secs(3600);
        let named = bare().description("order 7").ordering_key("customer 3").unique_until_ended("order 7");
        named.max_tries(3).expires_at(expiry)
    };
    let (null, value) = ("null", "value");
    added(&db, bare()).await;
    let not_tried = [null, null, value, null, null, null, null, null, null, null];
    assert_eq!(nulls("notify_pending").await, [line(not_tried)]);
    let id = added(&db, full()).await;
    let with_texts = [value, value, value, null, null, value, value, value, null, null];
    assert_eq!(nulls("notify_pending").await, [line(not_tried), line(with_texts)]);
    for (view, status) in [("notify_done", 6), ("notify_error", 3)] {
        added(&db, bare().skipped("a test order")).await;
        added(&db, full().skipped("a test order")).await;
        db.sql(&format!("UPDATE notify_msg_history SET status = {status}")).await;
        let expected = [not_tried, with_texts].map(|flags| flags[2..].join("|"));
        assert_eq!(nulls(view).await, expected, "{view}");
        db.sql("DELETE FROM notify_msg_history").await;
    }
    db.sql("DELETE FROM notify_def").await;
    let shown = rows(&db, "id, coalesce(definition, '-')", "notify_pending").await;
    assert_eq!(shown[1], format!("{id}|-"), "its row was deleted by SQL");
    db.close().await;
}

async fn a_damaged_list_of_errors_breaks_no_view<D: Database>() {
    let (db, ids) = sent::<D>().await;
    for damaged in ["'[]'", "'{}'", "'7'", "NULL"] {
        db.sql(&format!(
            "UPDATE notify_msg_history SET errors = {damaged}, response = {damaged} WHERE id = {}",
            ids[2]
        ))
        .await;
        let shown = rows(&db, "coalesce(last_error, response_status, '-')", "notify_error").await;
        assert_eq!(shown, ["-"], "{damaged}");
    }
    db.close().await;
}

async fn each_view_shows_retries_and_the_last_change<D: Database>() {
    let (db, ids) = sent::<D>().await;
    let [succeeded, _, dead, retried, waiting] = ids[..] else { panic!("{ids:?}") };
    let columns = "id, retry_times, CASE WHEN update_time = last_call_time THEN 'called' WHEN update_time = create_time THEN 'added' END";
    let shown = rows(&db, columns, "notify_pending").await;
    assert_eq!(shown, [format!("{retried}|1|called"), format!("{waiting}|0|added")]);
    let ended = "id, retry_times, CASE WHEN update_time = finish_time THEN 'ended' END";
    assert_eq!(rows(&db, ended, "notify_error").await, [format!("{dead}|0|ended")]);
    assert_eq!(rows(&db, ended, "notify_done").await[0], format!("{succeeded}|0|ended"));
    for (failures, crashes, of_dead) in [(2, 1, 2), (0, 0, 0), (0, 1, 0)] {
        db.sql(&format!("UPDATE notify_msg_history SET failures = {failures}, crashes = {crashes}")).await;
        assert_eq!(rows(&db, "id, retry_times", "notify_error").await, [format!("{dead}|{of_dead}")]);
        let tries = failures + crashes;
        assert_eq!(rows(&db, "id, retry_times", "notify_done").await[0], format!("{succeeded}|{tries}"));
    }
    db.close().await;
}
