//! [`Link`]: one connection with its channels.
//!
//! A channel carries one message at a time, and many channels are in use at the same time. On a channel with several messages the
//! client (lapin 4.12) gives a returned message to the confirmation that comes next, which may be that of another message: that one
//! would fail, and the returned one would count as delivered.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use lapin::message::BasicGetMessage;
use lapin::options::{BasicGetOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions};
use lapin::tcp::{AsyncTcpStream, OwnedTLSConfig};
use lapin::types::ShortString;
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ErrorKind, Event};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::dispatcher::{Dispatch, set_default};

use crate::address::AllowedNetworks;
use crate::lookup;
use crate::relay::{self, Intake};

/// How long a broker may block a connection and answer nothing.
const LONGEST_BLOCK: Duration = Duration::from_secs(600);

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
    /// The broker has closed the connection because of what it got.
    is_refused: Arc<AtomicBool>,
    /// Why the connection is lost, once it is.
    lost: watch::Receiver<Option<lapin::Error>>,
    intake: Arc<Intake>,
}

impl Link {
    /// Connects to an address of the host that a row may reach.
    pub(super) fn open(uri: AMQPUri, networks: &AllowedNetworks) -> BoxFuture<'static, lapin::Result<Arc<Self>>> {
        // Here, because the lookup counts for the definition of the attempt that began it.
        let found = lookup::sockets(&uri.authority.host, uri.authority.port, Some(networks.clone()));
        async move { Self::connect(uri, found.await?).await }.boxed()
    }

    async fn connect(uri: AMQPUri, addresses: Vec<SocketAddr>) -> lapin::Result<Arc<Self>> {
        let runtime = lapin::runtime::default_runtime()?;
        let intake = Intake::of_messages();
        // The client keeps this function, and the intake is to end with the link.
        let taken = Arc::downgrade(&intake);
        let asking = Duration::from_secs(uri.query.heartbeat.filter(|seconds| *seconds > 0).map_or(10, u64::from));
        let connect = async move |uri: AMQPUri, runtime| {
            keep_thread_silent();
            let taken = taken.upgrade().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
            let relay = relay::open(&addresses, &taken).await?;
            let stream = AsyncTcpStream::connect(&runtime, relay).await?;
            Ok(match uri.scheme {
                AMQPScheme::AMQP => stream,
                AMQPScheme::AMQPS => stream.into_tls(&uri.authority.host, OwnedTLSConfig::default().as_ref()).await?,
            })
        };
        let properties = ConnectionProperties::default().with_connection_name("solid-notify".into());
        let connection = Connection::connector(uri, runtime, connect, properties).await?;
        let ((block, blocked), (lose, lost)) = (watch::channel(None), watch::channel(None));
        let (mut events, is_refused) = (connection.events_listener(), Arc::<AtomicBool>::default());
        let refused = Arc::clone(&is_refused);
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                match event {
                    // The others are those of one channel.
                    Event::Error(error) if !error.is_amqp_soft_error() => {
                        if is_refusal(&error) {
                            // Without the broker's texts, which may repeat a value or a secret.
                            tracing::warn!("the broker has closed a connection because of a message");
                            refused.store(true, Ordering::Relaxed);
                        }
                        lose.send_replace(Some(error));
                    }
                    Event::ConnectionBlocked(reason) => {
                        tracing::warn!("the broker has blocked a connection: it takes no messages");
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
        let link = Arc::new(Self { connection, idle: Mutex::default(), blocked, is_refused, lost, intake });
        tokio::spawn(ask(Arc::downgrade(&link), asking));
        Ok(link)
    }

    /// Returns false after a loss, and when the broker has sent very much over it.
    pub(super) fn is_usable(&self) -> bool {
        self.connection.status().connected() && !self.is_worn()
    }

    /// Returns whether the broker has sent so much over it that another connection is to be made.
    pub(super) fn is_worn(&self) -> bool {
        self.intake.is_worn()
    }

    /// Returns whether the error of a message may be the fault of another one, because of which the broker has closed the connection.
    pub(super) fn lost_by_a_message(&self, error: &lapin::Error) -> bool {
        let lost = matches!(
            error.kind(),
            ErrorKind::InvalidConnectionState(_) | ErrorKind::InvalidChannelState(..) | ErrorKind::IOError(_)
        );
        is_refusal(error) || (lost && self.is_refused.load(Ordering::Relaxed))
    }

    /// Returns the largest frame that the broker takes, in bytes.
    pub(super) fn frame_max(&self) -> u32 {
        self.connection.configuration().frame_max()
    }

    /// Why the broker has blocked the connection, while it has.
    pub(super) fn blocked(&self) -> watch::Receiver<Option<String>> {
        self.blocked.clone()
    }

    /// Opens a channel for a consumer.
    pub(super) async fn channel(&self) -> lapin::Result<Channel> {
        self.connection.create_channel().await
    }

    /// Takes the next message of a queue. `no_ack`: the broker forgets it at once.
    ///
    /// # Errors
    /// Why the connection or the channel failed. The client itself (lapin 4.12) waits for ever where the connection is lost within the message,
    /// as it is by one that cannot be read.
    pub(super) async fn get(
        &self,
        channel: &Channel,
        queue: &ShortString,
        no_ack: bool,
    ) -> lapin::Result<Option<BasicGetMessage>> {
        let mut lost = self.lost.clone();
        let losing = async { lost.wait_for(Option::is_some).await.ok().and_then(|error| error.clone()) };
        tokio::select! {
            biased;
            got = channel.basic_get(queue.clone(), BasicGetOptions { no_ack }) => {
                got.map_err(|error| self.lost.borrow().clone().unwrap_or(error))
            }
            error = losing => Err(error.unwrap_or_else(|| io::Error::from(io::ErrorKind::NotConnected).into())),
        }
    }

    /// Returns whether a message that cannot be read has ended the connection. `error`: what a use of it returned.
    pub(super) fn is_lost_by_unreadable(&self, error: &lapin::Error) -> bool {
        is_unreadable(error) || self.lost.borrow().as_ref().is_some_and(is_unreadable)
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

/// Asks a broker for an answer again and again, and closes the connection when there is none. The client waits for ever for the rest of a frame whose
/// head names any length, and each byte of it counts as a sign of life.
async fn ask(link: Weak<Link>, pause: Duration) {
    let mut channel = None;
    loop {
        sleep(pause).await;
        let Some(link) = link.upgrade().filter(|link| link.connection.status().connected()) else { return };
        let asked = async {
            let channel = match &mut channel {
                Some(channel) => channel,
                none => none.insert(link.channel().await?),
            };
            // It changes nothing for a channel without a consumer.
            channel.basic_qos(1, BasicQosOptions::default()).await
        };
        tokio::pin!(asked);
        let mut answer = timeout(2 * pause, &mut asked).await;
        // A broker without memory reads nothing, and says so.
        if answer.is_err() && link.blocked.borrow().is_some() {
            answer = timeout(LONGEST_BLOCK, asked).await;
        }
        if answer.is_err() {
            tracing::warn!("a broker of AMQP answers nothing; its connection is closed");
            return link.intake.cut();
        }
    }
}

/// Returns whether an error says that the broker has closed the connection because of what it got: the codes of AMQP 0-9-1 for frames and
/// methods that it does not take. Another code concerns one channel, or an operator closed the connection.
fn is_refusal(error: &lapin::Error) -> bool {
    matches!(error.kind(), ErrorKind::ProtocolError(reply) if matches!(reply.get_id(), 501..=505 | 530 | 540 | 541))
}

/// Returns whether an error says that the client cannot read what has come: a short text that is not UTF-8, such as a correlation id.
pub(super) fn is_unreadable(error: &lapin::Error) -> bool {
    matches!(error.kind(), ErrorKind::ParsingError(_))
}

/// Keeps events of the client's own thread out of the log. It logs each returned message, with its body and the token for the ack.
fn keep_thread_silent() {
    if std::thread::current().name() == Some("lapin-io-loop") {
        // For the life of the thread.
        std::mem::forget(set_default(&Dispatch::none()));
    }
}
