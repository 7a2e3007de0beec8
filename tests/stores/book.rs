//! The SQL of the book, typed into the client programs of the databases as it stands there: `book.sql` has the statements. Its rows for
//! channels are left to `tests/channels/book.rs`.

use std::sync::Arc;

use solid_notify::cipher::{ParamKey, ParamKeys};
use solid_notify::{Failure, Notice, NotifyDef, OutboxExt, add_notice};
use test_support::book::{region, valid_rows};
use test_support::{Database, TestDb, on_each_database};

on_each_database!(
    rows_inserted_as_in_the_book_are_valid_definitions,
    rows_edited_as_in_the_book_are_valid_definitions,
    the_query_of_the_book_counts_the_notices_of_a_key,
    targets_inserted_as_in_the_book_get_what_is_passed_on,
    the_query_of_the_book_has_the_latest_dead_letter_first,
);

async fn rows_inserted_as_in_the_book_are_valid_definitions<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.shell().run(region("insert")).well();
    let mut rows = valid_rows(&db).await;
    rows.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    let [report, export, sync] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((sync.name.as_str(), sync.max_retry_times, sync.timeout.as_str()), ("sync_order", Some(10), "10s"));
    assert_eq!((export.handler.as_deref(), export.rate_limit.as_deref()), (Some("http"), Some("100/1m")));
    assert_eq!((report.need_confirm, report.max_confirm_delay.as_str()), (true, "2h"));
    let default = NotifyDef::new("other");
    assert_eq!((export.timeout.as_str(), export.enabled), (default.timeout.as_str(), default.enabled));
    db.close().await;
}

async fn rows_edited_as_in_the_book_are_valid_definitions<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    for name in ["charge_card", "report_sale"] {
        db.outbox.define_if_missing(NotifyDef::new(name)).await.unwrap();
    }
    db.shell().run([region("mask"), region("encrypt_param"), region("recipients")].concat()).well();
    let rows = valid_rows(&db).await;
    let card = rows.iter().find(|row| row.name == "charge_card").unwrap();
    assert_eq!(card.mask.as_deref(), Some(r#"["$.card.number", "$.items[*].iban", "$..password"]"#));
    assert!(card.encrypt_param);
    let sale = rows.iter().find(|row| row.name == "report_sale").unwrap();
    assert_eq!(sale.email.as_deref(), Some("final_failure=shift@example.org"));
    assert_eq!(sale.alert_to.as_deref(), Some("dead_letters=ops"));
    db.close().await;
}

async fn the_query_of_the_book_counts_the_notices_of_a_key<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("charge_card").encrypt_param(true)).await.unwrap();
    let key = |seed: u8| ParamKey::new(&[seed; 32]).unwrap();
    for (id, seed) in [("2025", 1), ("2026", 2), ("2025", 1)] {
        db.outbox.use_param_cipher(Arc::new(ParamKeys::new(id, key(seed)).unwrap()));
        let mut tx = db.outbox.begin().await.unwrap();
        add_notice(&mut tx, "charge_card", 7).await.unwrap();
        tx.commit().await.unwrap();
    }
    assert_eq!(db.shell().run(region("key_in_use")).well(), "2");
    db.close().await;
}

async fn targets_inserted_as_in_the_book_get_what_is_passed_on<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.shell().run(region("targets")).well();
    valid_rows(&db).await;
    for amount in [7, 7000] {
        let mut tx = db.outbox.begin().await.unwrap();
        add_notice(&mut tx, "order", &serde_json::json!({ "amount": amount, "country": "FR" })).await.unwrap();
        tx.commit().await.unwrap();
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    let sweeper = db.outbox.sweeper().handler("http", move |notice: Notice<serde_json::Value>| {
        sender.send((notice.target().unwrap().to_owned(), notice.param()["amount"].as_i64().unwrap())).unwrap();
        async { Ok(()) }
    });
    sweeper.run_until_idle().await.unwrap();
    let mut got: Vec<_> = receiver.try_iter().collect();
    got.sort_unstable();
    assert_eq!(got, [("customs".to_owned(), 7000), ("erp".to_owned(), 7), ("erp".to_owned(), 7000)]);
    db.close().await;
}

async fn the_query_of_the_book_has_the_latest_dead_letter_first<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    for name in ["sync_order", "other"] {
        db.outbox.define_if_missing(NotifyDef::new(name).handler("sync").alert_trigger_type("never")).await.unwrap();
    }
    let mut ids = Vec::new();
    for name in ["sync_order", "other", "sync_order"] {
        let mut tx = db.outbox.begin().await.unwrap();
        ids.push(add_notice(&mut tx, name, 7).await.unwrap().id());
        tx.commit().await.unwrap();
        let sweeper = db.outbox.sweeper().handler("sync", |_: Notice<i64>| async { Err(Failure::give_up("refused")) });
        sweeper.run_until_idle().await.unwrap();
    }
    let shown = db.shell().run(region("dead_letters")).well();
    // The clients separate columns by a bar or by a tabulator.
    let shown: Vec<&str> = shown.lines().filter_map(|line| line.split(['|', '\t']).next()).collect();
    assert_eq!(shown, [ids[2].to_string(), ids[0].to_string()]);
    db.close().await;
}

/// Runs the region twice, and asserts that the key was marked once.
async fn a_key_is_marked_once<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.shell().run(region("inbox").repeat(2)).well();
    assert_eq!(db.shell().run("SELECT receiver FROM notify_inbox;").well(), "warehouse");
    db.close().await;
}

/// Runs the region, and asserts that it added notices of these definitions.
async fn adds<D: Database>(name: &str, definitions: &[&str]) {
    let db = TestDb::<D>::with_real_clock().await;
    for name in ["remind", "sync_order"] {
        db.outbox.define_if_missing(NotifyDef::new(name)).await.unwrap();
    }
    db.shell().run(region(name)).well();
    let shown = db.shell().run("SELECT definition FROM notify_pending ORDER BY definition;").well();
    assert_eq!(shown.lines().collect::<Vec<_>>(), definitions);
    db.close().await;
}

/// Runs the region, and asserts that it shows the result for an unknown id.
async fn acks_by_a_procedure<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    assert_eq!(db.shell().run(region("ack_on_mysql")).well(), "unknown");
    db.close().await;
}

mod on_postgres {
    use super::*;

    #[tokio::test]
    async fn postgres_marks_a_key_once_and_adds_by_a_function() {
        use test_support::Postgres;
        a_key_is_marked_once::<Postgres>().await;
        adds::<Postgres>("add_on_postgres", &["remind"]).await;
    }
}

mod on_sqlite {
    use super::*;

    #[tokio::test]
    async fn sqlite_marks_a_key_once_and_adds_by_a_view() {
        use test_support::Sqlite;
        a_key_is_marked_once::<Sqlite>().await;
        adds::<Sqlite>("add_on_sqlite", &["remind"]).await;
    }
}

mod on_mariadb {
    use super::*;

    #[tokio::test]
    async fn mariadb_adds_and_acks_by_procedures() {
        adds::<test_support::MariaDb>("add_on_mysql", &["remind", "sync_order"]).await;
        acks_by_a_procedure::<test_support::MariaDb>().await;
    }
}

mod on_mysql {
    use super::*;

    #[tokio::test]
    async fn mysql_adds_and_acks_by_procedures() {
        adds::<test_support::MySql>("add_on_mysql", &["remind", "sync_order"]).await;
        acks_by_a_procedure::<test_support::MySql>().await;
    }
}
