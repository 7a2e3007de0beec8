//! The SQL of the book, typed into the client programs of the databases as it stands there: `book.sql` has the statements.

use std::sync::Arc;

use solid_notify::channels::{AmqpConfig, ChannelExt, Chat, Mail, NatsConfig, RedisStreamsConfig, Webhook};
use solid_notify::cipher::{ParamKey, ParamKeys};
use solid_notify::definition::{Updated, read_config};
use solid_notify::{Failure, Notice, NotifyDef, OutboxExt, add_notice};
use solid_notify_tests::{Database, TestDb, on_each_database};

on_each_database!(
    rows_inserted_as_in_the_book_are_valid_definitions,
    rows_edited_as_in_the_book_are_valid_definitions,
    rows_of_channels_as_in_the_book_are_accepted_by_their_channels,
    the_query_of_the_book_counts_the_notices_of_a_key,
    brokers_of_the_book_are_valid_configurations,
    targets_inserted_as_in_the_book_get_what_is_passed_on,
    webhooks_inserted_as_in_the_book_are_configured,
    the_query_of_the_book_has_the_latest_dead_letter_first,
);

/// Returns the statements of a region of `book.sql`.
fn region(name: &str) -> &'static str {
    let (_, rest) = include_str!("book.sql").split_once(&format!("-- [{name}]\n")).unwrap();
    rest.split_once("-- [end]").unwrap().0
}

/// Returns the rows without those of the library. Fails when one is invalid.
async fn valid_rows<D: Database>(db: &TestDb<D>) -> Vec<NotifyDef> {
    let states = db.outbox.definitions().await.unwrap();
    for state in &states {
        assert!(state.problems.is_empty(), "{}: {:?}", state.row.name, state.problems);
    }
    states.into_iter().map(|state| state.row).filter(|row| !row.name.starts_with("notify.")).collect()
}

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

async fn rows_of_channels_as_in_the_book_are_accepted_by_their_channels<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.shell().run([region("payslip"), region("approval")].concat()).well();
    let channels = db.outbox.sweeper().channel(Mail::new().attachments_from("/srv/payslips")).channel(Chat::new());
    let sweeper = channels.start().await.unwrap();
    let rows = valid_rows(&db).await;
    assert_eq!(rows.len(), 4);
    for seen in rows.into_iter().filter(|row| row.handler_config.is_some()) {
        // An edit is refused where the channel refuses the configuration.
        let edited = db.outbox.update(&seen, seen.clone().description("as in the book")).await.unwrap();
        assert!(matches!(edited, Updated::Stored(_)), "{edited:?}");
        let mut wrong: serde_json::Value = serde_json::from_str(seen.handler_config.as_deref().unwrap()).unwrap();
        wrong["misspelt"] = 1.into();
        let Updated::Stored(seen) = edited else { unreachable!() };
        let refused = db.outbox.update(&seen, seen.clone().handler_config(wrong.to_string())).await;
        assert!(refused.unwrap_err().to_string().contains("misspelt"));
    }
    sweeper.shutdown().await;
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

async fn brokers_of_the_book_are_valid_configurations<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.shell().run([region("to_rabbitmq"), region("to_nats"), region("to_redis_streams")].concat()).well();
    for row in valid_rows(&db).await {
        let config = row.handler_config.as_deref();
        let checked = match row.handler_name() {
            "amqp" => read_config::<AmqpConfig>(config).map(drop),
            "nats" => read_config::<NatsConfig>(config).map(drop),
            "redis_stream" => read_config::<RedisStreamsConfig>(config).map(drop),
            other => panic!("no channel to a broker: {other}"),
        };
        checked.unwrap();
    }
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

async fn webhooks_inserted_as_in_the_book_are_configured<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.shell().run([region("webhook"), region("sms")].concat()).well();
    let webhook = Webhook::builder().build().unwrap();
    let sweeper = db.outbox.sweeper().channel(webhook).start().await.unwrap();
    sweeper.idle().await;
    assert_eq!(valid_rows(&db).await.len(), 2);
    sweeper.shutdown().await;
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
#[cfg(any(postgres, sqlite))]
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
#[cfg(any(mariadb, mysql))]
async fn acks_by_a_procedure<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    assert_eq!(db.shell().run(region("ack_on_mysql")).well(), "unknown");
    db.close().await;
}

#[cfg(postgres)]
#[tokio::test]
async fn postgres_marks_a_key_once_and_adds_by_a_function() {
    use solid_notify_tests::Postgres;
    a_key_is_marked_once::<Postgres>().await;
    adds::<Postgres>("add_on_postgres", &["remind"]).await;
}

#[cfg(sqlite)]
#[tokio::test]
async fn sqlite_marks_a_key_once_and_adds_by_a_view() {
    use solid_notify_tests::Sqlite;
    a_key_is_marked_once::<Sqlite>().await;
    adds::<Sqlite>("add_on_sqlite", &["remind"]).await;
}

#[cfg(mariadb)]
#[tokio::test]
async fn mariadb_adds_and_acks_by_procedures() {
    adds::<solid_notify_tests::MariaDb>("add_on_mysql", &["remind", "sync_order"]).await;
    acks_by_a_procedure::<solid_notify_tests::MariaDb>().await;
}

#[cfg(mysql)]
#[tokio::test]
async fn mysql_adds_and_acks_by_procedures() {
    adds::<solid_notify_tests::MySql>("add_on_mysql", &["remind", "sync_order"]).await;
    acks_by_a_procedure::<solid_notify_tests::MySql>().await;
}
