//! The channel `amqp` to RabbitMQ. This file has RabbitMQ as a test sees it: its queues and their messages.

mod messages;
mod outages;
mod replies;

use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicGetOptions, BasicPublishOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};

/// A connection of a test.
pub struct Rabbit {
    _connection: Connection,
    pub channel: Channel,
}

impl Rabbit {
    pub async fn connect(url: &str) -> Self {
        let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        Self { _connection: connection, channel }
    }

    /// Declares a durable queue of a fresh name.
    pub async fn queue(&self) -> String {
        self.queue_with(&[]).await
    }

    /// The same with these arguments.
    pub async fn queue_with(&self, arguments: &[(&str, AMQPValue)]) -> String {
        let name = test_support::databases::fresh_name();
        let mut table = FieldTable::default();
        for (key, value) in arguments {
            table.insert((*key).into(), value.clone());
        }
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(name.as_str().into(), options, table).await.unwrap();
        name
    }

    /// Takes the next message of a queue.
    pub async fn take(&self, queue: &str) -> Option<Delivery> {
        let message = self.channel.basic_get(queue.into(), BasicGetOptions::default()).await.unwrap()?;
        message.acker.ack(BasicAckOptions::default()).await.unwrap();
        Some(message.delivery)
    }

    /// Takes all messages of a queue.
    pub async fn take_all(&self, queue: &str) -> Vec<Delivery> {
        let mut all = Vec::new();
        while let Some(message) = self.take(queue).await {
            all.push(message);
        }
        all
    }

    /// Returns how many messages of a queue no client has.
    pub async fn ready(&self, queue: &str) -> u32 {
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(queue.into(), passive, FieldTable::default()).await.unwrap().message_count()
    }

    /// Waits for the next message of a queue.
    pub async fn next(&self, queue: &str) -> Delivery {
        let began = std::time::Instant::now();
        loop {
            if let Some(message) = self.take(queue).await {
                return message;
            }
            assert!(began.elapsed() < test_support::sending::PATIENCE, "no message in {queue}");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    /// Sends a reply as a consumer does.
    pub async fn reply(&self, to: &Delivery, body: &str) {
        let queue = to.properties.reply_to().clone().expect("a queue for replies");
        let token = to.properties.correlation_id().clone().expect("a token");
        self.publish(queue.as_str(), BasicProperties::default().with_correlation_id(token), body).await;
    }

    /// Publishes to a queue.
    pub async fn publish(&self, queue: &str, properties: BasicProperties, body: &str) {
        let options = BasicPublishOptions::default();
        self.channel.basic_publish("".into(), queue.into(), options, body.as_bytes(), properties).await.unwrap();
    }
}

/// Returns the id of a message.
pub fn message_id(message: &Delivery) -> String {
    message.properties.message_id().as_ref().expect("an id").to_string()
}
