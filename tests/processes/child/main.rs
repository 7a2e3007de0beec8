//! `notify-child`: the process that the tests in `processes/killed/` kill, or that ends itself.
//!
//! `notify-child JOB` sweeps the database at `NOTIFY_CHILD_URL`, whose tables and definition `job` exist. It writes what
//! it does to files of the current directory, a line for an event. Each line is one write, so that the parent reads whole lines of a
//! process that was killed. Each notice says what its handler does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use solid_notify::sql::Dialect;
use solid_notify::{HandlerResult, Notice, Outbox, OutboxExt, add_notice};
use sqlx::pool::PoolOptions;

/// The parameter of a notice.
#[derive(Deserialize)]
struct Param {
    /// The name of the notice in the test, because ids of rolled-back notices may be used again.
    token: String,
    then: Then,
}

/// The action of the handler, after it recorded its call.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Then {
    Deliver,
    /// Gives up at once.
    Fail,
    Block,
    Abort,
    /// Aborts when the parent has made a file `go`.
    AbortWhenTold,
}

fn main() {
    let job = std::env::args().nth(1).expect("a job");
    let url = std::env::var("NOTIFY_CHILD_URL").expect("NOTIFY_CHILD_URL");
    end_with_the_parent();
    let mut runtime = match &*job {
        // The one thread goes from the commit to the hook without letting the handler begin.
        "commit-and-abort" => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    match url.split_once(':').expect("a URL").0 {
        "sqlite" => runtime.block_on(run::<sqlx::Sqlite>(&url, &job)),
        "postgres" => runtime.block_on(run::<sqlx::Postgres>(&url, &job)),
        "mysql" => runtime.block_on(run::<sqlx::MySql>(&url, &job)),
        other => panic!("no database is called {other}"),
    }
}

/// The parent holds the other end of our input: when it closes, this process ends.
fn end_with_the_parent() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
}

async fn run<DB: Dialect>(url: &str, job: &str) {
    let pool = PoolOptions::<DB>::new().max_connections(4).connect(url).await.unwrap();
    let outbox = Outbox::new(pool);
    // The tests count all notices that there are.
    let builder = outbox.sweeper().node_name("child").outage_grace(Duration::ZERO).housekeeping(false);
    let sweeper = builder.handler("job", handler()).start().await.unwrap();
    match job {
        "sweep" => {}
        "load" => produce_for_ever(&outbox).await,
        "abort-before-commit" => {
            let mut tx = outbox.begin().await.unwrap();
            add(&mut tx, "never").await;
            std::process::abort();
        }
        "commit-and-abort" => {
            // Between two sweeps, so that only the dispatch can send them.
            sweeper.idle().await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            let mut tx = outbox.begin().await.unwrap();
            for n in 0..3 {
                add(&mut tx, &format!("committed-{n}")).await;
            }
            tx.after_commit(|| std::process::abort());
            tx.commit().await.unwrap();
        }
        other => panic!("no job is called {other}"),
    }
    std::future::pending::<()>().await;
}

fn handler() -> impl Fn(Notice<Param>) -> futures_util::future::BoxFuture<'static, HandlerResult> {
    let (calls, delivered) = (Arc::new(Lines::open("calls")), Arc::new(Lines::open("delivered")));
    move |notice| {
        let (calls, delivered) = (Arc::clone(&calls), Arc::clone(&delivered));
        Box::pin(async move {
            let event = format!("{} {} {}", notice.id(), notice.fence(), notice.param().token);
            calls.add(&event);
            match notice.param().then {
                Then::Deliver => {
                    tokio::time::sleep(Duration::from_millis(fastrand::u64(5..25))).await;
                    delivered.add(&event);
                    Ok(())
                }
                Then::Fail => Err(solid_notify::Failure::give_up("no such customer")),
                Then::Block => std::future::pending().await,
                Then::Abort => std::process::abort(),
                Then::AbortWhenTold => {
                    while !Path::new("go").exists() {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                    std::process::abort()
                }
            }
        })
    }
}

async fn add<DB: Dialect>(tx: &mut solid_notify::NoticeTx<'_, DB>, token: &str) {
    add_notice(tx, "job", json!({ "token": token, "then": "deliver" })).await.unwrap();
}

/// Commits notices and rolls some back, from several tasks; each token is on the disk before the next begins.
async fn produce_for_ever<DB: Dialect>(outbox: &Outbox<DB>) {
    let committed = Arc::new(Lines::open("committed"));
    for task in 0..3 {
        let (outbox, committed) = (outbox.clone(), Arc::clone(&committed));
        tokio::spawn(async move {
            for n in 0_u32.. {
                let own = format!("{}-{task}-{n}", std::process::id());
                let mut tx = outbox.begin().await.unwrap();
                if n % 5 == 4 {
                    add(&mut tx, &format!("rolled-back-{own}")).await;
                    tx.rollback().await.unwrap();
                } else {
                    add(&mut tx, &own).await;
                    tx.commit().await.unwrap();
                    committed.add(&own);
                    committed.0.sync_data().unwrap();
                }
                tokio::time::sleep(Duration::from_millis(fastrand::u64(0..8))).await;
            }
        });
    }
}

/// A file that only grows.
struct Lines(File);

impl Lines {
    fn open(name: &str) -> Self {
        Self(OpenOptions::new().create(true).append(true).open(name).unwrap())
    }

    fn add(&self, line: &str) {
        (&self.0).write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}
