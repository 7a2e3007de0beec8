//! The rows of the book for channels are accepted by their channels. `tests/stores/book.sql` has the statements.

use solid_notify::OutboxExt;
use solid_notify::channels::{AmqpConfig, ChannelExt, Chat, Mail, NatsConfig, RedisStreamsConfig, Webhook};
use solid_notify::definition::{Updated, read_config};
use test_support::book::{region, valid_rows};
use test_support::{Database, TestDb, on_each_database};

on_each_database!(
    rows_of_channels_as_in_the_book_are_accepted_by_their_channels,
    brokers_of_the_book_are_valid_configurations,
    webhooks_inserted_as_in_the_book_are_configured,
);

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
