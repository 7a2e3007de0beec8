//! The log has names and ids, and neither parameters nor settings, because they may have secrets. `tests/receivers/ack_http/logs.rs` looks for
//! ack tokens.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use solid_notify::{Failure, NewNotice, Notice, NotifyDef, OutboxExt, Status, add_notices};
use solid_notify_conformance::Backend;
use test_support::log::Log;
use test_support::sending::reaches;
use test_support::{Database, TestDb, on_each_database};

on_each_database!(
    define_logs_changed_columns_without_their_values,
    statements_of_the_store_are_not_logged,
    statements_on_the_application_s_connection_have_no_values,
);

/// The tests of this program share a log, in which each finds its own words.
fn unique(word: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{word}-{}-end", COUNT.fetch_add(1, Ordering::Relaxed))
}

async fn define_logs_changed_columns_without_their_values<D: Database>() {
    let log = Log::with_statements();
    let db = TestDb::<D>::with_real_clock().await;
    let (name, stored, changed) = (unique("sync"), unique("stored"), unique("changed"));
    db.outbox.define_if_missing(NotifyDef::new(&name).handler_config(&stored)).await.unwrap();
    db.outbox.define_if_missing(NotifyDef::new(&name).handler_config(&changed)).await.unwrap();
    let lines = log.all();
    assert!(lines.iter().any(|line| line.contains(&name) && line.contains("handler_config")));
    assert!(!lines.iter().any(|line| line.contains(&stored) || line.contains(&changed)));
    db.close().await;
}

async fn statements_of_the_store_are_not_logged<D: Database>() {
    let log = Log::with_statements();
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync").retry_interval("1h")).await.unwrap();
    let secret = unique("secret");
    let error = secret.clone();
    let sweeper = db
        .outbox
        .sweeper()
        .poll_interval(Duration::from_millis(20))
        .handler("sync", move |_: Notice<String>| {
            let error = error.clone();
            async { Err(Failure::retry(error)) }
        })
        .start()
        .await
        .unwrap();
    let id = db.add_new(NewNotice::new("sync", &secret).unwrap()).await.id();
    reaches(&db, id, Status::Failed).await;
    sweeper.shutdown().await;
    let is_statement = |line: &String| line.contains("db.statement=");
    // Those of a migration begin with a comment; it runs on the application's connections.
    let is_migration = |line: &String| line.starts_with("summary=\"-- ");
    let statements =
        || log.all().into_iter().filter(|line| is_statement(line) && !is_migration(line)).collect::<Vec<_>>();
    let told = statements().into_iter().find(|line| line.contains(&secret) || line.contains("UPDATE notify_msg"));
    assert_eq!(told, None);
    // The application's connections follow its own log settings.
    let own = unique("application");
    db.sql(&format!("SELECT '{own}'")).await;
    assert!(statements().iter().any(|line| line.contains(&own)));
    db.close().await;
}

/// Adds as many notices as fill each form of the insert, with keys and without, in a transaction of sqlx.
async fn statements_on_the_application_s_connection_have_no_values<D: Database>() {
    let log = Log::with_statements();
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let secret = unique("added");
    let notice = |n: usize| {
        let text = |of: &str| format!("{of}-{n}-{secret}");
        let notice = NewNotice::new("sync", text("param")).unwrap().description(text("description")).tag(text("tag"));
        if n.is_multiple_of(2) { notice.ordering_key(text("order")).unique_until_ended(text("key")) } else { notice }
    };
    let mut tx = db.pool.begin().await.unwrap();
    for count in [1, 2, 300] {
        let added = add_notices(&mut tx, (count * 1000..count * 1001).map(notice)).await.unwrap();
        let again = add_notices(&mut tx, (count * 1000..count * 1001).map(notice)).await.unwrap();
        assert_eq!((added.len(), again.len()), (count, count));
    }
    tx.commit().await.unwrap();
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let spellings = [secret.clone(), hex(&secret), hex(&secret).to_uppercase()];
    let told = log.all().into_iter().find(|line| spellings.iter().any(|spelling| line.contains(spelling)));
    assert_eq!(told, None);
    assert!(log.all().iter().any(|line| line.contains("INSERT INTO notify_msg")), "statements are logged");
    db.close().await;
}
