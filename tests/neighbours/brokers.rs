//! The brokers' side of the definitions: queues, a stream of NATS, a key of Redis, timed tasks, with names of their own.

use std::sync::{Arc, Mutex};

use async_nats::jetstream::stream::{Config, StorageType};
use async_nats::jetstream::{self, Context};
use futures_util::StreamExt;
use lapin::options::{BasicConsumeOptions, BasicPublishOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable, LongInt};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use redis::Commands;
use solid_notify::timed::{Redis, TimedTasks};
use test_support::databases::{fresh_name, server_url};
use tokio::task::JoinSet;

/// A queue that a failed test leaves is deleted after this time without use, in milliseconds.
const UNUSED: LongInt = 600_000;

pub struct Brokers {
    /// The name of the queue, of the stream of NATS, whose subjects are below it, of the key, and of the prefix of timed tasks.
    pub name: String,
    /// The queue whose messages are confirmed at once, the one whose messages are not, and the one for the replies of both.
    pub confirmed: String,
    pub kept: String,
    pub replies: String,
    pub tasks: TimedTasks,
    /// The tokens of the messages that are not confirmed.
    tokens: Arc<Mutex<Vec<String>>>,
    // The queues of messages are dropped with their connection.
    _rabbitmq: Connection,
    channel: Channel,
    nats: Context,
    _consumers: JoinSet<()>,
}

impl Brokers {
    pub async fn start() -> Self {
        let name = fresh_name();
        let rabbitmq = Connection::connect(&server_url("AMQP_URL"), ConnectionProperties::default()).await.unwrap();
        let channel = rabbitmq.create_channel().await.unwrap();
        let [confirmed, kept, replies] = ["confirmed", "kept", "replies"].map(|part| format!("{name}_{part}"));
        for queue in [&name, &confirmed, &kept] {
            let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
            channel.queue_declare(queue.as_str().into(), options, FieldTable::default()).await.unwrap();
        }
        // The process consumes these, so they belong to no connection.
        let mut arguments = FieldTable::default();
        arguments.insert("x-expires".into(), AMQPValue::LongInt(UNUSED));
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(replies.as_str().into(), options, arguments).await.unwrap();
        let nats = jetstream::new(async_nats::connect(&server_url("NATS_URL")).await.unwrap());
        let (subjects, storage) = (vec![format!("{name}.*")], StorageType::Memory);
        nats.create_stream(Config { name: name.clone(), subjects, storage, ..Config::default() }).await.unwrap();
        let redis = Redis::builder(&server_url("REDIS_URL")).prefix(name.as_str()).connect().await.unwrap();
        let (tokens, mut consumers) = (Arc::<Mutex<Vec<String>>>::default(), JoinSet::new());
        let (replier, to) = (channel.clone(), replies.clone());
        consumers.spawn(consume(channel.clone(), confirmed.clone(), async move |token: String| {
            publish_ack(&replier, &to, &token).await;
        }));
        let keeping = Arc::clone(&tokens);
        consumers.spawn(consume(channel.clone(), kept.clone(), async move |token: String| {
            keeping.lock().unwrap().push(token);
        }));
        let tasks = TimedTasks::new(redis);
        Self {
            name,
            confirmed,
            kept,
            replies,
            tasks,
            tokens,
            _rabbitmq: rabbitmq,
            channel,
            nats,
            _consumers: consumers,
        }
    }

    /// Returns the tokens of the messages that were not confirmed since the last call.
    pub fn take_tokens(&self) -> Vec<String> {
        std::mem::take(&mut self.tokens.lock().unwrap())
    }

    /// Confirms a message.
    pub async fn ack(&self, token: &str) {
        publish_ack(&self.channel, &self.replies, token).await;
    }

    /// Deletes all timed tasks.
    pub fn delete_tasks(&self) {
        let mut redis = redis::Client::open(server_url("REDIS_URL")).unwrap().get_connection().unwrap();
        let of_tasks: Vec<String> =
            redis.scan_match(format!("{{{}*", self.name)).unwrap().collect::<Result<_, _>>().unwrap();
        for key in of_tasks {
            let _: () = redis.del(key).unwrap();
        }
    }

    /// Deletes what they have stored.
    pub async fn close(self) {
        self.delete_tasks();
        self.nats.delete_stream(&self.name).await.unwrap();
        let mut redis = redis::Client::open(server_url("REDIS_URL")).unwrap().get_connection().unwrap();
        let _: () = redis.del(&self.name).unwrap();
        self.channel.queue_delete(self.replies.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
    }
}

/// Gives the token of each message of a queue to a function.
async fn consume(channel: Channel, queue: String, take: impl AsyncFn(String)) {
    let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
    let mut messages = channel.basic_consume(queue.into(), "".into(), options, FieldTable::default()).await.unwrap();
    while let Some(Ok(message)) = messages.next().await {
        let token = message.properties.correlation_id().as_ref().expect("a token");
        take(token.to_string()).await;
    }
}

async fn publish_ack(channel: &Channel, queue: &str, token: &str) {
    let properties = BasicProperties::default().with_correlation_id(token.into());
    let body = br#"{"result":"ack"}"#;
    channel.basic_publish("".into(), queue.into(), BasicPublishOptions::default(), body, properties).await.unwrap();
}
