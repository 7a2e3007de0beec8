//! The brokers' side of the healthy definitions: a queue, a stream of NATS, a key of Redis, with names of their own.

use async_nats::jetstream::stream::{Config, StorageType};
use async_nats::jetstream::{self, Context};
use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties};
use redis::Commands;
use test_support::databases::{fresh_name, server_url};

pub struct Brokers {
    /// The name of the queue, of the stream of NATS, whose subjects are below it, and of the key.
    pub name: String,
    // The queue is dropped with its connection.
    _rabbitmq: (Connection, Channel),
    nats: Context,
}

impl Brokers {
    pub async fn start() -> Self {
        let name = fresh_name();
        let rabbitmq = Connection::connect(&server_url("AMQP_URL"), ConnectionProperties::default()).await.unwrap();
        let channel = rabbitmq.create_channel().await.unwrap();
        let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(name.as_str().into(), options, FieldTable::default()).await.unwrap();
        let nats = jetstream::new(async_nats::connect(&server_url("NATS_URL")).await.unwrap());
        let (subjects, storage) = (vec![format!("{name}.*")], StorageType::Memory);
        nats.create_stream(Config { name: name.clone(), subjects, storage, ..Config::default() }).await.unwrap();
        Self { name, _rabbitmq: (rabbitmq, channel), nats }
    }

    /// Deletes what they have stored.
    pub async fn close(self) {
        self.nats.delete_stream(&self.name).await.unwrap();
        let mut redis = redis::Client::open(server_url("REDIS_URL")).unwrap().get_connection().unwrap();
        let _: () = redis.del(&self.name).unwrap();
    }
}
