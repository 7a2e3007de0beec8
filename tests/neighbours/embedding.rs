//! `notify-embedding URL ADDRESS FOLDER PREFIX`: an application with the library in its own runtime. It has all ready channels, as `serve`,
//! handlers of its own, which are as bad as handlers can be, timed tasks in Redis under this prefix, and acks over HTTP.
//!
//! The runtime is that of `#[tokio::main]`, so a handler that blocks takes a thread from everything else.
#![allow(clippy::panic)]

mod settings;

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use serde_json::Value;
use solid_notify::ack_http::AckRouter;
use solid_notify::channels::{AllowedNetworks, Amqp, ChannelExt, Chat, Mail, Nats, RedisStreams, Webhook};
use solid_notify::definition::{SecretRule, SecretRules};
use solid_notify::sweeper::{Batch, SweeperMonitor};
use solid_notify::timed::{ClaimedTask, Redis, TaskRun, TimedTasks};
use solid_notify::{ConnectedOutbox, Notice, OutboxExt, SweeperBuilder, TokenKeys};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::settings::{
    BATCHES, BLOCKS, GRACE, HANGING_TASKS, HANGS, NETWORKS, PANICS, POISON, POLL, SLOTS, STEADY_TASKS,
};

/// Longer than any run.
const FOR_EVER: Duration = Duration::from_secs(3600);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, address, folder, prefix] = arguments.as_slice() else { return Err("four arguments are needed".into()) };
    let (address, folder): (SocketAddr, PathBuf) = (address.parse()?, folder.into());
    let mut terminated = signal(SignalKind::terminate())?;

    let outbox = ConnectedOutbox::connect(url).await?;
    outbox.use_token_keys(TokenKeys::new(&std::fs::read(folder.join("key"))?)?);
    let secrets = SecretRule::new(&format!("file:{}/", folder.join("secrets").display()))?;
    outbox.use_secret_rules(SecretRules::default().allow(secrets));
    let networks = AllowedNetworks::new(NETWORKS)?;
    let amqp = Amqp::new().allow_networks(&networks);
    let replies = amqp.replies(&outbox);
    let builder = outbox.sweeper().channel(amqp).channel(Webhook::builder().allow_networks(&networks).build()?);
    let builder = builder.channel(Chat::new().allow_networks(&networks)).channel(Mail::new().allow_networks(&networks));
    let builder = builder.channel(Nats::new().allow_networks(&networks));
    let builder = with_own_handlers(builder.channel(RedisStreams::new().allow_networks(&networks)));
    let sweeper = builder.poll_interval(POLL).max_running(SLOTS).shutdown_grace(GRACE).start().await?;

    let redis = Redis::builder(&std::env::var("REDIS_URL")?).prefix(prefix.as_str()).connect().await?;
    let tasks = TimedTasks::new(redis);
    let hangs = tasks.run(HANGING_TASKS, |_: ClaimedTask<u32>| std::future::pending());
    let hanging = with_settings(hangs.time_limit(Duration::from_secs(1)).retry_delay(|_| Duration::ZERO)).start()?;
    let steady = with_settings(tasks.run(STEADY_TASKS, |_: ClaimedTask<u32>| async { Ok(()) })).start()?;

    let monitor = sweeper.monitor();
    let acks = AckRouter::new(&outbox).into_router();
    let routes = Router::new().route("/readyz/shop", get(async move || readiness(&monitor))).nest("/shop", acks);
    let listener = TcpListener::bind(address).await?;
    let server = axum::serve(listener, routes.into_make_service_with_connect_info::<SocketAddr>());
    let server = tokio::spawn(server.into_future());

    terminated.recv().await;
    drop(replies);
    tokio::join!(sweeper.shutdown(), hanging.shutdown(), steady.shutdown());
    server.abort();
    // The end of the runtime would wait for a handler that blocks its thread.
    std::process::exit(0)
}

fn with_own_handlers(builder: SweeperBuilder) -> SweeperBuilder {
    builder
        .handler(BLOCKS, |_: Notice<Value>| async {
            std::thread::sleep(FOR_EVER);
            Ok(())
        })
        .handler(HANGS, |_: Notice<Value>| std::future::pending())
        .handler(PANICS, |notice: Notice<Value>| async move { panic!("a handler that panics: {}", notice.param()) })
        .batch_handler(BATCHES, Batch::up_to(20), |notices: Vec<Notice<Value>>| async move {
            assert!(notices.iter().all(|notice| notice.param() != POISON), "a batch with a poison notice");
            Ok(notices.iter().map(|_| Ok(())).collect())
        })
}

fn with_settings(run: TaskRun) -> TaskRun {
    run.poll(POLL).shutdown_grace(GRACE)
}

fn readiness(monitor: &SweeperMonitor) -> (StatusCode, String) {
    match monitor.health().not_ready {
        None => (StatusCode::OK, "ready".to_owned()),
        Some(problem) => (StatusCode::SERVICE_UNAVAILABLE, problem),
    }
}
