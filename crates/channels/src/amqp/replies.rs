//! [`Replies`]: receives what consumers reply, and passes it on to the outbox.
//!
//! A reply is acked only after the outbox has stored it. While the outbox cannot, the reply waits here, unacked; the broker delivers it again after
//! a loss. One that can never be stored is rejected, so that the broker dead-letters it where the queue says so. One that the client cannot read
//! costs the connection, and is removed over another one.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicQosOptions, BasicRejectOptions};
use lapin::protocol::constants::REPLY_SUCCESS;
use lapin::types::{FieldTable, ShortString};
use parking_lot::Mutex;
use solid_notify_core::definition::{SecretRef, in_force, read_config};
use solid_notify_core::error::BoxError;
use solid_notify_core::secret::{Destination, Hidden, SecretString};
use solid_notify_core::{AnyOutbox, NotifyDef};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::broker::Broker;
use super::config::{AmqpConfig, NAME, Name};
use super::link::{Link, is_unreadable};
use super::reply::{Handled, Reply};
use super::trouble::Trouble;
use crate::address::AllowedNetworks;
use crate::brokers::{Clients, Current};

/// Time between two readings of the definitions. A sweeper in this process announces a queue before that, so this is for rows whose
/// notices another process sends, and for queues that no row names any more.
const READ_INTERVAL: Duration = Duration::from_secs(30);
/// The same after a reading that failed.
const READ_AGAIN: Duration = Duration::from_secs(5);
/// The first and the longest wait after a failure.
const WAITS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));
/// A consumer that has lasted for so long had no trouble.
const LASTING: Duration = Duration::from_secs(60);
/// How long a broker may take to put back what was delivered over a connection that is lost.
const PUT_BACK: Duration = Duration::from_millis(250);
/// How many replies a consumer gets before it has acked one. All of them may be in work, so one that cannot be stored yet delays no other. That
/// is more than an operator's transaction locks as a rule: while as many wait for locked notices, the queue stands still. The store itself
/// limits how many it stores at the same time.
const PREFETCH: u16 = 1000;
/// How many replies of a queue are tried again at the same time. A try for a locked notice takes a second and asks the store some twenty times,
/// so a thousand of them would delay the others.
const TRIED_AGAIN: usize = 16;
/// The largest body of a reply, in bytes. A larger one is rejected when it has come; how much the broker may send meanwhile, `relay.rs` limits. A
/// reply that waits keeps less of it.
const REPLY_BYTES: usize = 64 * 1024;

/// Receives replies until it is dropped; returned by [`super::Amqp::replies`].
#[derive(Debug)]
#[must_use = "dropped, it receives no more replies"]
pub struct Replies {
    _task: Running,
}

/// A task that ends with this value. A reply in work then stays unacked, and is delivered again.
#[derive(Debug)]
struct Running(JoinHandle<()>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Replies {
    /// Reads the definitions now, and whenever a configuration with a `reply_queue` was read.
    pub(super) fn start(outbox: AnyOutbox, networks: AllowedNetworks, has_read: watch::Receiver<()>) -> Self {
        Self { _task: Running(tokio::spawn(receive(outbox, networks, has_read))) }
    }
}

/// Where replies come from: the reference to the URL, and the queue.
type Source = (String, Name);

/// Keeps a consumer for each source that the definitions name.
async fn receive(outbox: AnyOutbox, networks: AllowedNetworks, mut has_read: watch::Receiver<()>) {
    let (mut consumers, mut trouble) = (BTreeMap::<Source, Running>::new(), Trouble::default());
    loop {
        let mut pause = READ_INTERVAL;
        match outbox.definitions().await {
            Ok(definitions) => {
                if trouble.end() {
                    tracing::info!("read again which definitions have a queue for replies");
                }
                let rows = in_force(definitions.into_iter().map(|definition| definition.row).collect());
                let rules = outbox.engine().secret_rules();
                let may = |(_, (definition, url)): &(Source, (String, SecretRef))| {
                    rules.check(definition, url, Destination::Later).is_ok()
                };
                let sources: BTreeMap<Source, (String, SecretRef)> =
                    rows.iter().filter_map(|row| source(&row.row)).filter(may).collect();
                consumers.retain(|source, _| sources.contains_key(source));
                for (source, (definition, url)) in sources {
                    let queue = source.1.clone();
                    consumers.entry(source).or_insert_with(|| {
                        // A connection of its own, so that the trouble of one queue ends no other consumer.
                        let (outbox, networks, clients) = (outbox.clone(), networks.clone(), Clients::default());
                        let (storing, trying_again) = (Mutex::default(), Semaphore::new(TRIED_AGAIN));
                        let consumer =
                            Consumer { outbox, networks, clients, definition, url, queue, storing, trying_again };
                        Running(tokio::spawn(consumer.run()))
                    });
                }
            }
            Err(error) => {
                pause = READ_AGAIN;
                // Most programs have no such definition, and the sweeper reports the outage.
                if consumers.is_empty() {
                    tracing::debug!(%error, "cannot read which definitions have a queue for replies");
                } else if trouble.is_to_report(&error.to_string()) {
                    tracing::warn!(%error, "cannot read which definitions have a queue for replies");
                }
            }
        }
        if let Ok(Err(_)) = timeout(pause, has_read.changed()).await {
            // The channel is gone, and with it the sweeper in this process.
            sleep(pause).await;
        }
    }
}

/// Returns where the replies to a definition's messages come from, and its name.
fn source(row: &NotifyDef) -> Option<(Source, (String, SecretRef))> {
    if row.handler_name() != NAME {
        return None;
    }
    // A mistake is reported where the row is used.
    let config: AmqpConfig = read_config(row.handler_config.as_deref()).ok()?;
    Some(((config.url.to_string(), config.reply_queue?), (row.name.clone(), config.url)))
}

/// Returns how many replies of a queue come before one that the client cannot read; all go back to their places. `None`: there is none among
/// those that a consumer may get.
async fn readable_before(broker: &Broker, queue: &ShortString) -> Result<Option<u16>, BoxError> {
    let link = broker.link().await?;
    let channel = link.channel().await?;
    for before in 0..2 * PREFETCH {
        match link.get(&channel, queue, false).await {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(error) if is_unreadable(&error) => return Ok(Some(before)),
            Err(error) => return Err(error.into()),
        }
    }
    channel.close(REPLY_SUCCESS, "OK".into()).await?;
    Ok(None)
}

/// Why a consumer has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    ByTheBroker,
    /// Its connection has taken in nearly as many bytes as it may, and another one replaces it.
    Worn,
    /// By a reply that the client could not read, which is removed.
    Unreadable,
}

/// The consumer of a queue.
struct Consumer {
    outbox: AnyOutbox,
    networks: AllowedNetworks,
    clients: Clients<Broker>,
    /// One of those that may use the URL.
    definition: String,
    url: SecretRef,
    queue: Name,
    /// Whether replies can be stored.
    storing: Mutex<Trouble>,
    /// The places of replies that are tried again.
    trying_again: Semaphore,
}

impl Consumer {
    /// Consumes for ever; connects anew after each loss.
    async fn run(self) {
        let (broker, mut wait, mut trouble) = (Current::default(), WAITS.0, Trouble::default());
        loop {
            let (queue, began) = (&self.queue.0, Instant::now());
            let ended = self.consume(&broker).await;
            if began.elapsed() >= LASTING {
                wait = WAITS.0;
                trouble.end();
            }
            match ended {
                Ok(Ended::Worn | Ended::Unreadable) => continue,
                Ok(Ended::ByTheBroker) => {
                    if trouble.is_to_report("ended") {
                        tracing::warn!(queue, "the broker has ended the consumer of a queue for replies");
                    }
                }
                Err(error) => {
                    if trouble.is_to_report(&error.to_string()) {
                        tracing::warn!(%error, queue, "cannot receive replies; is the queue declared?");
                    }
                }
            }
            sleep(wait).await;
            wait = (2 * wait).min(WAITS.1);
        }
    }

    /// Consumes until the connection or the queue is lost.
    async fn consume(&self, broker: &Current<Broker>) -> Result<Ended, BoxError> {
        let secrets =
            self.outbox.engine().secrets(&self.definition, vec![self.url.clone()], Destination::Later).await?;
        let url = secrets.first().ok_or("no URL was read")?;
        // A broker's text may repeat the password.
        let consumed = self.consume_from(url, broker).await;
        consumed.map_err(|error| Hidden::of([url]).clean(&error.to_string()).into())
    }

    async fn consume_from(&self, url: &SecretString, broker: &Current<Broker>) -> Result<Ended, BoxError> {
        let broker = Broker::of(&self.clients, broker, &self.networks, &self.url, url);
        let broker = broker.map_err(|failure| failure.error().to_string())?;
        let rules = self.outbox.engine().secret_rules();
        rules.check(&self.definition, &self.url, Destination::Host(broker.host()))?;
        let (link, queue) = (broker.link().await?, self.queue.short()?);
        let consumed = self.consume_over(&link, &queue).await;
        let unreadable = consumed.as_ref().is_err_and(|error| link.is_lost_by_unreadable(error));
        if unreadable && self.remove_unreadable(&broker, &queue).await? {
            return Ok(Ended::Unreadable);
        }
        Ok(consumed?)
    }

    async fn consume_over(&self, link: &Link, queue: &ShortString) -> lapin::Result<Ended> {
        let channel = link.channel().await?;
        channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
        let options = BasicConsumeOptions::default();
        let replies = channel.basic_consume(queue.clone(), "".into(), options, FieldTable::default()).await?;
        tracing::debug!(queue = self.queue.0, "receives replies");
        let (tag, mut ended) = (replies.tag(), Ended::ByTheBroker);
        let handled = replies.map(|delivery| async move { self.handle(delivery?).await });
        let mut handled = handled.buffer_unordered(usize::from(PREFETCH));
        while let Some(handled) = handled.next().await {
            handled?;
            if ended == Ended::ByTheBroker && link.is_worn() {
                // What has come is still handled.
                channel.basic_cancel(tag.clone(), BasicCancelOptions::default()).await?;
                ended = Ended::Worn;
            }
        }
        Ok(ended)
    }

    /// Removes the reply that the client cannot read, which the broker would deliver for ever. Returns whether it did.
    async fn remove_unreadable(&self, broker: &Broker, queue: &ShortString) -> Result<bool, BoxError> {
        sleep(PUT_BACK).await;
        let Some(before) = readable_before(broker, queue).await? else { return Ok(false) };
        sleep(PUT_BACK).await;
        let link = broker.link().await?;
        let channel = link.channel().await?;
        for _ in 0..before {
            // Those before it are held back until the connection ends.
            link.get(&channel, queue, false).await?;
        }
        match link.get(&channel, queue, true).await {
            Ok(got) => {
                channel.close(REPLY_SUCCESS, "OK".into()).await?;
                // Another process has held back others, so it is one that can be read, and the broker has forgotten it.
                if let Some(mut reply) = got {
                    let body = std::mem::take(&mut reply.data);
                    if let Handled::Useless(problem) = self.read(&reply.properties, body).await {
                        tracing::warn!(queue = self.queue.0, problem, "dropped a reply");
                    }
                }
                Ok(false)
            }
            Err(error) if is_unreadable(&error) => {
                tracing::warn!(
                    queue = self.queue.0,
                    "removed a reply whose properties are not UTF-8; the client cannot read it"
                );
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Stores a reply and acks it, or rejects it.
    async fn handle(&self, mut delivery: Delivery) -> lapin::Result<()> {
        let (queue, body) = (&self.queue.0, std::mem::take(&mut delivery.data));
        match self.read(&delivery.properties, body).await {
            Handled::Stored(result) => {
                tracing::debug!(queue, ?result, "stored a reply");
                delivery.acker.ack(BasicAckOptions::default()).await?;
            }
            Handled::Useless(problem) => {
                tracing::warn!(queue, problem, "rejected a reply");
                delivery.acker.reject(BasicRejectOptions { requeue: false }).await?;
            }
        }
        Ok(())
    }

    /// Reads a reply and stores it.
    async fn read(&self, properties: &BasicProperties, body: Vec<u8>) -> Handled {
        let token = properties.correlation_id().as_ref().map(|token| token.as_str());
        match Reply::read(token, &body) {
            _ if body.len() > REPLY_BYTES => Handled::Useless("its body has more than 64 KiB"),
            Ok(reply) => {
                drop(body);
                self.stored(&reply).await
            }
            Err(problem) => Handled::Useless(problem),
        }
    }

    /// Stores a reply, as soon as the outbox can.
    async fn stored(&self, reply: &Reply) -> Handled {
        let (mut wait, mut turn) = (WAITS.0, None);
        loop {
            match reply.store(&self.outbox).await {
                Ok(handled) => {
                    if self.storing.lock().end() {
                        tracing::info!(queue = self.queue.0, "stores replies again");
                    }
                    return handled;
                }
                Err(error) => {
                    // Many replies may wait at the same time.
                    let is_to_report = self.storing.lock().is_to_report(&error.to_string());
                    if is_to_report {
                        tracing::warn!(%error, queue = self.queue.0, "cannot store a reply yet");
                    } else {
                        tracing::debug!(%error, queue = self.queue.0, "cannot store a reply yet");
                    }
                }
            }
            drop(turn.take());
            sleep(wait).await;
            wait = (2 * wait).min(WAITS.1);
            turn = self.trying_again.acquire().await.ok();
        }
    }
}
