//! The views for people and reports: each notice is in one of them, with its status in words and without its parameter.

use solid_notify::{Failure, Notice, NotifyDef, OutboxExt, Response, add_notice};
use solid_notify_tests::{Database, TestDb, on_each_database};

on_each_database!(each_notice_is_in_one_view_with_its_status_in_words, a_damaged_list_of_errors_breaks_no_view);

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
    let sweeper = db.outbox.sweeper().handler("sync", |notice: Notice<i64>| async move {
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
