//! The answer to a claim is lost on the wire: the claim took effect, and its sweeper does not know. Nothing was tried, so
//! nothing may be counted, whoever finds the notice later.
//!
//! SQLite has no wire. That other calls survive a lost answer is tested with a store that fails on purpose.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use solid_notify::{Done, HandlerResult, Notice, Notify, NotifyDef, Status, Sweeper, add_notice};
use solid_notify_tests::sending::{Calls, eventually};
use solid_notify_tests::{Database, TestDb};
use sqlx::ConnectOptions;
use sqlx::pool::PoolOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

#[cfg(postgres)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_claims_whose_answer_is_lost_count_nothing() {
    // The claim is one statement, committed before it is answered.
    let db = TestDb::<solid_notify_tests::Postgres>::with_real_clock().await;
    let schema: String = sqlx::query_scalar("SELECT current_schema()::text").fetch_one(&db.pool).await.unwrap();
    claims_whose_answer_is_lost_count_nothing(db, None, &format!("&options[search_path]={schema}")).await;
}

#[cfg(mariadb)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_claims_whose_answer_is_lost_count_nothing() {
    let db = TestDb::<solid_notify_tests::MariaDb>::with_real_clock().await;
    claims_whose_answer_is_lost_count_nothing(db, Some("COMMIT"), "").await;
}

/// `commit` is how the claim is committed, where that is a call of its own.
async fn claims_whose_answer_is_lost_count_nothing<D: Database>(
    db: TestDb<D>,
    commit: Option<&'static str>,
    session: &str,
) {
    let mut url = db.pool.connect_options().to_url_lossy();
    let proxy = Proxy::start((Ipv4Addr::LOCALHOST, url.port().unwrap()).into(), "lose-me", commit).await;
    url.set_port(Some(proxy.port)).unwrap();
    let far = Notify::new(PoolOptions::<D::Db>::new().connect_lazy(&format!("{url}{session}")).unwrap());
    db.notify.define(NotifyDef::new("job")).await.unwrap();
    let calls: Calls<(i64, i64)> = Calls::default();
    let builder = |notify: &Notify<D::Db>| {
        let calls = calls.clone();
        Sweeper::builder(notify).outage_grace(Duration::from_millis(300)).handler(
            "job",
            move |notice: Notice<String>| {
                calls.note((notice.id(), notice.attempt()));
                async { HandlerResult::Ok(Done::Ok) }
            },
        )
    };
    let add = async |notify: &Notify<D::Db>, token: &str| {
        let mut tx = notify.begin().await.unwrap();
        let added = add_notice(&mut tx, "job", token).await.unwrap();
        tx.commit().await.unwrap();
        added.id()
    };

    let far_sweeper = builder(&far).start().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..4 {
        proxy.armed.store(true, Ordering::Relaxed);
        let id = add(&db.notify, "lose-me").await;
        far.wake();
        eventually("the answer is lost", async || !proxy.armed.load(Ordering::Relaxed)).await;
        eventually("the claim holds", async || {
            let record = db.notify.find(id).await.unwrap().unwrap();
            record.status == Status::Sending && record.worker.as_deref() == Some(far_sweeper.node_id())
        })
        .await;
        ids.push(id);
    }
    assert_eq!(calls.count(), 0);
    // The sweeper lives on.
    let after = add(&db.notify, "sent").await;
    far.wake();
    eventually("the next is sent", async || calls.all().contains(&(after, 1))).await;

    // It has some time to find out by itself. After that the leases run out, and another sweeper may be the first to see.
    let near_sweeper = builder(&db.notify).start().await.unwrap();
    let began = Instant::now();
    for (nth, id) in (1..).zip(&ids) {
        eventually("it is sent", async || {
            if began.elapsed() > Duration::from_secs(8) {
                let lease = format!("status = 5 AND id = {id} AND attempt = 1");
                db.sql(&format!("UPDATE notify_msg SET next_call_time = '2020-01-01 00:00:00' WHERE {lease}")).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            calls.all().iter().filter(|(id, _)| ids.contains(id)).count() >= nth
        })
        .await;
    }
    near_sweeper.shutdown().await;
    far_sweeper.shutdown().await;
    for id in ids {
        let record = db.notify.find(id).await.unwrap().unwrap();
        assert_eq!((record.status, record.failures, record.crashes), (Status::Succeeded, 0, 0), "{record:?}");
    }
    far.pool().close().await;
    db.close().await;
}

/// Passes everything on between the database and its clients, but for one answer each time it is armed.
struct Proxy {
    port: u16,
    armed: Arc<AtomicBool>,
}

/// What the two directions of a connection tell each other.
#[derive(Default)]
struct Wire {
    /// The answer with the marked notice went by; its commit comes.
    marked: AtomicBool,
    /// The next answer is to be lost.
    cut: AtomicBool,
}

impl Proxy {
    /// Loses the answer that contains `mark`, or else the answer to the `commit` that follows.
    async fn start(server: SocketAddr, mark: &'static str, commit: Option<&'static str>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (port, armed) = (listener.local_addr().unwrap().port(), Arc::new(AtomicBool::new(false)));
        let on = Arc::clone(&armed);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = TcpStream::connect(server).await.unwrap().into_split();
                let (wire, armed) = (Arc::new(Wire::default()), Arc::clone(&on));
                let asking = Arc::clone(&wire);
                tokio::spawn(async move {
                    let asks = pass(from_client, to_server, |chunk| {
                        if asking.marked.load(Ordering::Relaxed) && commit.is_some_and(|commit| contains(chunk, commit))
                        {
                            asking.cut.store(true, Ordering::Relaxed);
                        }
                        true
                    });
                    let answers = pass(from_server, to_client, |chunk| {
                        if armed.load(Ordering::Relaxed) && contains(chunk, mark) {
                            wire.marked.store(true, Ordering::Relaxed);
                            wire.cut.store(commit.is_none(), Ordering::Relaxed);
                        }
                        let lost = wire.cut.load(Ordering::Relaxed);
                        if lost {
                            armed.store(false, Ordering::Relaxed);
                        }
                        !lost
                    });
                    // Whichever ends first, both sides are closed.
                    tokio::select! {
                        () = asks => {}
                        () = answers => {}
                    }
                });
            }
        });
        Self { port, armed }
    }
}

/// Passes chunks on until one side closes, or `look` says that it was enough.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, look: impl Fn(&[u8]) -> bool) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if !look(&buffer[..length]) || to.write_all(&buffer[..length]).await.is_err() {
            break;
        }
    }
}

fn contains(chunk: &[u8], text: &str) -> bool {
    chunk.windows(text.len()).any(|window| window == text.as_bytes())
}
