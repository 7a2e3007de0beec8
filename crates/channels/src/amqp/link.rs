//! [`Link`]: one connection with its channels.
//!
//! A channel carries one message at a time, and many channels are in use at the same time. On a channel with several messages the
//! client (lapin 4.12) gives a returned message to the confirmation that comes next, which may be that of another message: that one
//! would fail, and the returned one would count as delivered.

use std::sync::Arc;

use futures_util::StreamExt;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::tcp::{AMQPUriTcpExt, OwnedTLSConfig};
use lapin::types::ShortString;
use lapin::uri::AMQPUri;
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Event};
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::dispatcher::{Dispatch, set_default};

/// A message and where it goes.
pub(super) struct Message {
    pub(super) exchange: ShortString,
    pub(super) routing_key: ShortString,
    pub(super) mandatory: bool,
    pub(super) properties: BasicProperties,
    pub(super) body: String,
}

/// A connection.
pub(super) struct Link {
    connection: Connection,
    /// Channels without a message.
    idle: Mutex<Vec<Channel>>,
    /// Why the broker has blocked the connection, while it has.
    blocked: watch::Receiver<Option<String>>,
}

impl Link {
    /// Connects.
    pub(super) async fn open(uri: AMQPUri) -> lapin::Result<Arc<Self>> {
        let runtime = lapin::runtime::default_runtime()?;
        let connect = async |uri: AMQPUri, runtime| {
            keep_thread_silent();
            Ok(uri.connect_with_config_async(OwnedTLSConfig::default().as_ref(), &runtime).await?)
        };
        let properties = ConnectionProperties::default().with_connection_name("solid-notify".into());
        let connection = Connection::connector(uri, runtime, connect, properties).await?;
        let (block, blocked) = watch::channel(None);
        let mut events = connection.events_listener();
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                match event {
                    Event::ConnectionBlocked(reason) => {
                        tracing::warn!(reason, "the broker has blocked a connection: it takes no messages");
                        block.send_replace(Some(reason));
                    }
                    Event::ConnectionUnblocked => {
                        tracing::info!("the broker takes messages again");
                        block.send_replace(None);
                    }
                    _ => {}
                }
            }
        });
        Ok(Arc::new(Self { connection, idle: Mutex::default(), blocked }))
    }

    /// Returns false after a loss.
    pub(super) fn is_connected(&self) -> bool {
        self.connection.status().connected()
    }

    /// Why the broker has blocked the connection, while it has.
    pub(super) fn blocked(&self) -> watch::Receiver<Option<String>> {
        self.blocked.clone()
    }

    /// Opens a channel for a consumer.
    pub(super) async fn channel(&self) -> lapin::Result<Channel> {
        self.connection.create_channel().await
    }

    /// Publishes a message and waits for its confirmation. Where the caller stops waiting, the channel is closed, so that a late
    /// confirmation meets no other message.
    pub(super) async fn publish(&self, message: Message) -> lapin::Result<Confirmation> {
        let channel = self.idle_channel().await?;
        let Message { exchange, routing_key, mandatory, properties, body } = message;
        let options = BasicPublishOptions { mandatory, ..BasicPublishOptions::default() };
        let confirmation =
            channel.basic_publish(exchange, routing_key, options, body.as_bytes(), properties).await?.await?;
        self.idle.lock().push(channel);
        Ok(confirmation)
    }

    async fn idle_channel(&self) -> lapin::Result<Channel> {
        while let Some(channel) = self.pop_idle() {
            if channel.status().connected() {
                return Ok(channel);
            }
        }
        let channel = self.connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(channel)
    }

    fn pop_idle(&self) -> Option<Channel> {
        self.idle.lock().pop()
    }
}

/// Keeps events of the client's own thread out of the log. It logs each returned message, with its body and the token for the ack.
fn keep_thread_silent() {
    if std::thread::current().name() == Some("lapin-io-loop") {
        // For the life of the thread.
        std::mem::forget(set_default(&Dispatch::none()));
    }
}
