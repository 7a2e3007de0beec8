//! The channel `webhook` against a bare loop of its HTTP client, and 1,000 targets of which 10 hang.
//!
//! `cargo run --release -p bench -- webhook`. What must be reached: 0.8 of the bare loop, and with hanging targets a median delivery time
//! of the others that is at most 5 % longer than without. Both use an outbox in memory, so that no database takes part. The first part calls
//! the channel as a sweeper does, without claiming and settling, which other workloads measure.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use serde_json::json;
use solid_notify::channels::{AllowedNetworks, AnyNotice, Channel, ChannelExt, Webhook};
use solid_notify::testkit::MemoryOutbox;
use solid_notify::{HandlerResult, NotifyDef, OutboxExt, Sweeper, add_notice};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc};

use crate::run::Plan;
use crate::statistics::{as_f64, median, quantile};

/// The notices of a repetition of the first part.
const COUNT: usize = 10_000;
/// What a definition sends at the same time by default.
const CONCURRENCY: usize = 20;
const TARGETS: usize = 1000;
const HANGING: usize = 10;
/// The notices of a repetition of the second part. Each goes to all targets.
const EVENTS: usize = 5;

/// The least throughput, to that of the bare loop.
const LEAST_THROUGHPUT: f64 = 0.8;
/// The longest median delivery time of the other targets, to that without hanging ones.
const LONGEST_DELIVERY: f64 = 1.05;

/// Measures pairs of repetitions. `quick`: a two-hundredth of everything, once. Returns whether both targets are reached.
pub async fn measure(repetitions: u16, quick: bool) -> Result<bool> {
    let repetitions = if quick { 1 } else { usize::from(repetitions) };
    let plan = Plan { repetitions, quick, like_ours: false };
    let server = Server::start().await?;
    let mut ratios = Vec::new();
    for repetition in 0..=repetitions {
        let (ours, bare) = match repetition % 2 {
            0 => (channel(&server, plan.scaled(COUNT)).await?, bare(&server, plan.scaled(COUNT)).await?),
            _ => {
                let bare = bare(&server, plan.scaled(COUNT)).await?;
                (channel(&server, plan.scaled(COUNT)).await?, bare)
            }
        };
        eprintln!("    channel {ours:>8.0}/s, bare loop {bare:>8.0}/s");
        // The first pair warms up.
        if repetition > 0 {
            ratios.push(ours / bare);
        }
    }
    let throughput = print("throughput, to the bare loop", &ratios)?;
    let others = plan.scaled(TARGETS - HANGING);
    let mut ratios = Vec::new();
    for repetition in 0..=repetitions {
        let (with, without) = match repetition % 2 {
            0 => (targets(&server, others, HANGING).await?, targets(&server, others, 0).await?),
            _ => {
                let without = targets(&server, others, 0).await?;
                (targets(&server, others, HANGING).await?, without)
            }
        };
        eprintln!("    median delivery with hanging targets {with:>8.1} ms, without {without:>8.1} ms");
        if repetition > 0 {
            ratios.push(with / without);
        }
    }
    let delivery = print("median delivery time with hanging targets, to that without", &ratios)?;
    let reached = throughput >= LEAST_THROUGHPUT && delivery <= LONGEST_DELIVERY;
    println!(
        "targets: at least {LEAST_THROUGHPUT}, at most {LONGEST_DELIVERY}: {}",
        if reached { "reached" } else { "missed" }
    );
    Ok(reached)
}

fn print(what: &str, ratios: &[f64]) -> Result<f64> {
    let ratio = median(ratios).context("no repetition")?;
    println!("{what}: {:.3} [{:.3}..{:.3}]", ratio.value, ratio.low, ratio.high);
    Ok(ratio.value)
}

/// A receiver that answers each request at once, except at paths that begin with `/hang`. It tells of all others.
struct Server {
    address: SocketAddr,
    arrived: Mutex<mpsc::UnboundedReceiver<Instant>>,
}

impl Server {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (tell, arrived) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let tell = tell.clone();
                tokio::spawn(async move {
                    // A client that closes its connection ends this.
                    let _ = answer(stream, &tell).await;
                });
            }
        });
        Ok(Self { address, arrived: Mutex::new(arrived) })
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Waits for this many requests, and returns when they came.
    async fn take(&self, count: usize) -> Result<Vec<Instant>> {
        let mut arrived = self.arrived.lock().await;
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            let next = tokio::time::timeout(Duration::from_secs(120), arrived.recv()).await;
            taken.push(next.context("not all was delivered")?.context("the server ended")?);
        }
        Ok(taken)
    }
}

async fn answer(mut stream: TcpStream, tell: &mpsc::UnboundedSender<Instant>) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut read = Vec::new();
    loop {
        let Some(head) = head(&read) else {
            ensure!(stream.read_buf(&mut read).await? > 0, "closed");
            continue;
        };
        if head.starts_with("POST /hang") {
            return std::future::pending().await;
        }
        tell.send(Instant::now())?;
        read.clear();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await?;
    }
}

/// Returns the head of a request that is complete. The client sends the next one when it has the response.
fn head(read: &[u8]) -> Option<&str> {
    let (head, body) = std::str::from_utf8(read).ok()?.split_once("\r\n\r\n")?;
    let length: usize = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
    (body.len() >= length).then_some(head)
}

fn webhook() -> Result<Webhook> {
    Ok(Webhook::builder().allow_networks(&AllowedNetworks::new(["127.0.0.0/8"])?).build()?)
}

/// Starts a sweeper with the channel.
async fn sweeper(outbox: &MemoryOutbox) -> Result<Sweeper> {
    Ok(outbox.sweeper().channel(webhook()?).shutdown_grace(Duration::ZERO).start().await?)
}

/// The channel, called many times for one notice, as often as the bare loop calls its client: no store and no sweeper take part, which have
/// figures of their own.
struct Repeated {
    webhook: Webhook,
    count: usize,
}

impl Channel for Repeated {
    const NAME: &'static str = Webhook::NAME;
    type Config = <Webhook as Channel>::Config;
    type Prepared = <Webhook as Channel>::Prepared;

    fn prepare(&self, config: Self::Config) -> Result<Self::Prepared, String> {
        self.webhook.prepare(config)
    }

    async fn send(&self, prepared: &Self::Prepared, notice: &AnyNotice) -> HandlerResult {
        at_once(self.count, || self.webhook.send(prepared, notice)).await
    }
}

/// Calls `send` until `count` calls have ended, [`CONCURRENCY`] of them at a time.
async fn at_once<F, E>(count: usize, send: impl Fn() -> F) -> Result<(), E>
where
    F: Future<Output = Result<(), E>>,
{
    let left = AtomicUsize::new(count);
    let worker = || async {
        while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            send().await?;
        }
        Ok(())
    };
    try_join_all((0..CONCURRENCY).map(|_| worker())).await.map(drop)
}

/// Sends by the channel. Returns requests per second, from the first request to the last.
async fn channel(server: &Server, count: usize) -> Result<f64> {
    let outbox = MemoryOutbox::builder().build();
    let config = json!({ "url": server.url("/hook") }).to_string();
    outbox.define_if_missing(NotifyDef::new("hook").handler("webhook").handler_config(config)).await?;
    let sweeper = outbox.sweeper().channel(Repeated { webhook: webhook()?, count }).start().await?;
    let mut tx = outbox.begin().await?;
    add_notice(&mut tx, "hook", body()).await?;
    tx.commit().await?;
    let rate = rate(&server.take(count).await?)?;
    sweeper.shutdown().await;
    Ok(rate)
}

/// Returns requests per second.
fn rate(arrived: &[Instant]) -> Result<f64> {
    let (first, last) = arrived.first().zip(arrived.last()).context("no request")?;
    Ok(as_f64(arrived.len() - 1) / (*last - *first).as_secs_f64())
}

fn body() -> serde_json::Value {
    json!({ "event": 0, "text": "sixty bytes of a task, more or less" })
}

/// The same requests by the bare client, as many at a time.
async fn bare(server: &Server, count: usize) -> Result<f64> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let (url, body) = (server.url("/hook"), body().to_string());
    let send = || {
        let request = client.post(&url).header("content-type", "application/json").body(body.clone());
        async move { request.send().await?.error_for_status()?.bytes().await.map(drop) }
    };
    let (sent, arrived) = tokio::join!(at_once(count, send), server.take(count));
    sent?;
    rate(&arrived?)
}

/// Sends events to `others` targets and to `hanging` ones that do not answer until their time-out. Returns the median time from the commit
/// to the request of the others, in milliseconds.
async fn targets(server: &Server, others: usize, hanging: usize) -> Result<f64> {
    let outbox = MemoryOutbox::builder().build();
    outbox.define_if_missing(NotifyDef::new("order")).await?;
    for target in 0..others + hanging {
        let path = if target < hanging { format!("/hang/{target}") } else { format!("/target/{target}") };
        let config = json!({ "url": server.url(&path) }).to_string();
        let definition = NotifyDef::target("order", &target.to_string()).handler("webhook").handler_config(config);
        outbox.define_if_missing(definition).await?;
    }
    let sweeper = sweeper(&outbox).await?;
    sweeper.idle().await;
    let mut times = Vec::new();
    for event in 0..EVENTS {
        let mut tx = outbox.begin().await?;
        add_notice(&mut tx, "order", &json!({ "event": event })).await?;
        tx.commit().await?;
        let began = Instant::now();
        for came in server.take(others).await? {
            times.push((came - began).as_secs_f64() * 1000.0);
        }
    }
    sweeper.shutdown().await;
    quantile(&times, 0.5).context("nothing was delivered")
}
