//! The connections that stay open without a request: many to a host that the row names, few in all to the hosts that templates make. A receiver
//! that restarts under load.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use solid_notify::{NewNotice, NotifyDef, Status};
use solid_notify_conformance::Backend;
use test_support::raw::read_request;
use test_support::sending::{eventually, record};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinHandle;

use crate::webhooks::sender::Sender;

/// Far more hosts than keep connections.
const HOSTS: usize = 100;

/// The most connections that are kept to the hosts of templates, and to one of them.
const KEPT: usize = 32;
const KEPT_TO_ONE: usize = 4;

/// A receiver with all addresses of this machine, which keeps connections open. It ends when dropped.
struct Keeping {
    port: u16,
    /// How many connections are open, and were made.
    open: Arc<AtomicUsize>,
    made: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Keeping {
    /// `together`: it answers when it has this many requests.
    async fn start(together: usize) -> Self {
        Self::listening(TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap(), together)
    }

    /// Breaks all connections and starts again at the same port, with new counts.
    async fn restart(mut self) -> Self {
        self.task.abort();
        let _ = (&mut self.task).await;
        // The connections of the old one keep the port for a while, which is no obstacle to a listener.
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind((Ipv4Addr::UNSPECIFIED, self.port).into()).unwrap();
        Self::listening(socket.listen(1024).unwrap(), 1)
    }

    fn listening(listener: TcpListener, together: usize) -> Self {
        let port = listener.local_addr().unwrap().port();
        let (open, made) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (counts, barrier) = ((Arc::clone(&open), Arc::clone(&made)), Arc::new(Barrier::new(together)));
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                counts.1.fetch_add(1, Ordering::Relaxed);
                connections.spawn(answer(stream, Arc::clone(&counts.0), Arc::clone(&barrier)));
            }
        });
        Self { port, open, made, task }
    }

    fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// A configuration whose URL has a host with this number, which stands in the row or is a template.
    fn config(&self, host: &str) -> Value {
        let hosts: Vec<String> = (1..=HOSTS).map(|number| format!("127.0.0.{number}")).collect();
        json!({ "url": format!("http://127.0.0.{host}:{}/hook", self.port), "allow_hosts": hosts, "timeout": "50s" })
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Answers the requests of a connection until the client closes it.
async fn answer(mut stream: TcpStream, open: Arc<AtomicUsize>, barrier: Arc<Barrier>) {
    open.fetch_add(1, Ordering::Relaxed);
    // The first byte of a request tells it from the end.
    while let Ok(1..) = stream.read(&mut [0; 1]).await {
        read_request(&mut stream).await;
        barrier.wait().await;
        if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.is_err() {
            break;
        }
    }
    open.fetch_sub(1, Ordering::Relaxed);
}

/// Sends notices at the same time.
async fn send(sender: &Sender, params: impl Iterator<Item = Value>) {
    let mut ids = Vec::new();
    for param in params {
        ids.push(sender.backend.add_new(NewNotice::new("hook", param).unwrap()).await.id());
    }
    for id in ids {
        eventually("it is sent", async || record(&sender.backend, id).await.status == Status::Succeeded).await;
    }
}

#[tokio::test]
async fn hosts_of_a_template_keep_few_connections_in_all() {
    let (sender, receiver) = (Sender::local().await, Keeping::start(1).await);
    sender.define("hook", &receiver.config("{{ param }}")).await;
    let each = |number: usize| json!(number + 1);
    send(&sender, (0..KEPT).map(each)).await;
    assert_eq!((receiver.made(), receiver.open()), (KEPT, KEPT));
    send(&sender, (0..KEPT).map(each)).await;
    assert_eq!(receiver.made(), KEPT, "they are used again");
    send(&sender, (0..HOSTS).map(each)).await;
    eventually("those of further hosts are closed", async || receiver.open() <= KEPT).await;
    assert_eq!(receiver.made(), HOSTS);
    send(&sender, (0..KEPT).map(each)).await;
    assert_eq!(receiver.made(), HOSTS, "the first ones are kept");
    sender.close().await;
}

#[tokio::test]
async fn host_of_a_template_keeps_fewer_connections_than_one_that_the_row_names() {
    for (host, kept) in [("{{ param }}", KEPT_TO_ONE), ("1", 2 * KEPT)] {
        let (sender, receiver) = (Sender::local().await, Keeping::start(2 * KEPT).await);
        let definition = NotifyDef::new("hook").timeout("1d").max_concurrency(200);
        sender.define_as(definition, &receiver.config(host)).await;
        send(&sender, (0..2 * KEPT).map(|_| json!(1))).await;
        eventually("the others are closed", async || receiver.open() <= kept).await;
        assert_eq!(receiver.open(), kept, "{host}");
        sender.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receiver_that_restarts_under_load_gets_all_over_few_connections() {
    const NOTICES: usize = 300;
    const AT_ONCE: i64 = 8;
    /// A request that finds no free connection makes one, and may use another one that gets free meanwhile.
    const FEW: usize = 3 * AT_ONCE.unsigned_abs() as usize;

    let (sender, mut receiver) = (Sender::local().await, Keeping::start(1).await);
    let definition = NotifyDef::new("hook").timeout("1d").max_concurrency(AT_ONCE).max_retry_times(20);
    sender.define_as(definition, &receiver.config("1")).await;
    let mut ids = Vec::new();
    for number in 0..NOTICES {
        ids.push(sender.backend.add_new(NewNotice::new("hook", number).unwrap()).await.id());
    }
    let statuses = async || {
        let records = ids.iter().map(|id| record(&sender.backend, *id));
        futures_util::future::join_all(records).await.into_iter().map(|record| record.status).collect::<Vec<_>>()
    };
    let sent = async || statuses().await.iter().filter(|status| **status == Status::Succeeded).count();
    eventually("a third is sent", async || sent().await > NOTICES / 3).await;
    assert!(receiver.made() <= FEW, "{} connections", receiver.made());
    receiver = receiver.restart().await;
    assert!(sent().await < NOTICES, "it restarts under load");

    let attempted = async || statuses().await.iter().all(|status| matches!(status, Status::Succeeded | Status::Failed));
    eventually("all are tried", attempted).await;
    sender.backend.clock().advance(Duration::from_secs(2 * 3600));
    eventually("all are sent", async || sent().await == NOTICES).await;
    assert!((1..=FEW).contains(&receiver.made()), "{} connections", receiver.made());
    sender.close().await;
}
