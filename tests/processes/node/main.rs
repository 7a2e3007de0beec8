//! `notify-node`: one process of the application that the fault suite (`tests/processes/faults/`) disturbs.
//!
//! `notify-node NAME producer` commits notices and sends them; `notify-node NAME sweeper` only sends. Both sweep the
//! database at `NOTIFY_NODE_URL`, whose tables and definitions exist, write what they do to `journal` in the current
//! directory, and read further commands from their input: `exhaust MILLISECONDS`, `hold`, `go`, `quiet`,
//! `stop`. The faults are deliberate, and none of them may end this process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod produce;

use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use solid_notify::sql::Dialect;
use solid_notify::{Failure, HandlerResult, Notice, Outbox, OutboxExt};
use sqlx::pool::{PoolConnection, PoolOptions};
use test_support::journal::{Event, Journal};
use tokio::sync::mpsc;

/// The connections of the application's pool.
const CONNECTIONS: u32 = 6;
/// How many attempts of a hundred fail.
const FAILING: u32 = 30;

/// The state that the parts of this process share.
pub struct Node {
    name: String,
    journal: Journal,
    /// No more notices are to be produced.
    quiet: AtomicBool,
    /// No more transactions for now.
    held: AtomicBool,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (name, role) = (arguments.next().expect("a name"), arguments.next().expect("a role"));
    let url = std::env::var("NOTIFY_NODE_URL").expect("NOTIFY_NODE_URL");
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(std::io::stderr).with_ansi(false).init();
    let journal = Journal::open(Path::new("journal"));
    let node = Arc::new(Node { name, journal, quiet: AtomicBool::new(false), held: AtomicBool::new(false) });
    let orders = listen();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    match url.split_once(':').expect("a URL").0 {
        "sqlite" => {
            // Shorter than the harness holds the writer's lock.
            let impatient = options::<sqlx::Sqlite>().after_connect(|conn, _| {
                Box::pin(async move {
                    sqlx::Executor::execute(conn, "PRAGMA busy_timeout = 500").await?;
                    Ok(())
                })
            });
            runtime.block_on(run(impatient, &url, &role, node, orders));
        }
        "postgres" => runtime.block_on(run(options::<sqlx::Postgres>(), &url, &role, node, orders)),
        "mysql" => runtime.block_on(run(options::<sqlx::MySql>(), &url, &role, node, orders)),
        other => panic!("no database is called {other}"),
    }
}

fn options<DB: Dialect>() -> PoolOptions<DB> {
    PoolOptions::new().max_connections(CONNECTIONS).acquire_timeout(Duration::from_secs(1))
}

/// The lines of our input. The harness holds its other end: when it closes, this process ends.
fn listen() -> mpsc::UnboundedReceiver<String> {
    let (tell, orders) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let _ = tell.send(line);
        }
        std::process::exit(1);
    });
    orders
}

async fn run<DB: Dialect>(
    pool: PoolOptions<DB>,
    url: &str,
    role: &str,
    node: Arc<Node>,
    mut orders: mpsc::UnboundedReceiver<String>,
) {
    let outbox = Outbox::builder(pool.connect_lazy(url).unwrap()).call_timeout(Duration::from_secs(2)).build();
    let sweeper = loop {
        let mut builder = outbox
            .sweeper()
            .node_name(&node.name)
            .first_send(role == "producer")
            .maintenance_interval(Duration::from_millis(500))
            // The checker would judge its notices with the others.
            .housekeeping(false)
            .outage_grace(Duration::from_secs(1));
        for name in ["plain", "keyed", "edited"] {
            builder = builder.handler(name, handler(&node));
        }
        match builder.start().await {
            Ok(sweeper) => break sweeper,
            // The database may be down just now.
            Err(error) => tracing::warn!(%error, "not started"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let producers = match role {
        "producer" => produce::start(&outbox, &node),
        "sweeper" => Vec::new(),
        other => panic!("no role is called {other}"),
    };
    while let Some(order) = orders.recv().await {
        match order.split_once(' ') {
            Some(("exhaust", time)) => {
                let time = Duration::from_millis(time.parse().unwrap());
                tokio::spawn(exhaust(outbox.pool().clone(), Arc::clone(&node), time));
            }
            None if order == "hold" => node.held.store(true, Ordering::Relaxed),
            None if order == "go" => node.held.store(false, Ordering::Relaxed),
            None if order == "quiet" => node.quiet.store(true, Ordering::Relaxed),
            None if order == "stop" => break,
            _ => panic!("an order that is not understood: {order:?}"),
        }
    }
    node.quiet.store(true, Ordering::Relaxed);
    for producer in producers {
        producer.await.unwrap();
    }
    sweeper.shutdown().await;
}

/// A handler that records its begin and its end, and fails now and then.
fn handler(
    node: &Arc<Node>,
) -> impl Fn(Notice<String>) -> futures_util::future::BoxFuture<'static, HandlerResult> + use<> {
    let node = Arc::clone(node);
    move |notice| {
        let node = Arc::clone(&node);
        Box::pin(async move {
            let (id, fence, token) = (notice.id(), notice.fence(), notice.param().clone());
            node.journal.add(&Event::Called { token, id, fence, node: node.name.clone() });
            tokio::time::sleep(Duration::from_millis(fastrand::u64(1..8))).await;
            let ok = fastrand::u32(..100) >= FAILING;
            node.journal.add(&Event::Ended { id, fence, ok });
            if ok { Ok(()) } else { Err(Failure::retry("the receiver is out")) }
        })
    }
}

/// Holds every connection of the application's pool for some time.
async fn exhaust<DB: Dialect>(pool: sqlx::Pool<DB>, node: Arc<Node>, time: Duration) {
    let mut held: Vec<PoolConnection<DB>> = Vec::new();
    for _ in 0..CONNECTIONS {
        match pool.acquire().await {
            Ok(connection) => held.push(connection),
            // Another fault of the database is under way.
            Err(_) => return,
        }
    }
    node.journal.add(&Event::Exhausted { node: node.name.clone() });
    tokio::time::sleep(time).await;
}
