//! The log has names and ids, and neither parameters nor settings, because they may have secrets. `tests/receivers/ack_http/logs.rs` looks for
//! ack tokens.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use solid_notify::{Failure, NewNotice, Notice, NotifyDef, OutboxExt, Status};
use solid_notify_conformance::Backend;
use test_support::log::Log;
use test_support::sending::reaches;
use test_support::{Database, TestDb, on_each_database};

on_each_database!(define_logs_changed_columns_without_their_values, statements_of_the_store_are_not_logged,);

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
    let told = statements().into_iter().find(|line| line.contains(&secret) || line.contains("notify_msg m"));
    assert_eq!(told, None);
    // The application's connections follow its own log settings.
    let own = unique("application");
    db.sql(&format!("SELECT '{own}'")).await;
    assert!(statements().iter().any(|line| line.contains(&own)));
    db.close().await;
}
