//! Another writer has locked the file of SQLite: no call waits for it in the database, and those that only read go on.

use std::time::Duration;

use futures_util::future::join_all;
use solid_notify::definition::Updated;
use solid_notify::{AckResult, Error, NotifyDef, Outbox};
use solid_notify_core::StoreError;
use solid_notify_core::error::FaultKind;
use solid_notify_core::store::Edit;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{Connection, Executor, Pool, Row, SqliteConnection};
use test_support::sending::{PATIENCE, add, definition};
use test_support::{Sqlite, TestDb};

/// The busy time-out of the application and the time-out of calls, which are longer than any test waits.
const LONG: Duration = Duration::from_secs(1_000_000);

/// A database file with two definitions and notices, as the application's own settings open it.
struct File {
    db: TestDb<Sqlite>,
    ids: Vec<i64>,
    options: SqliteConnectOptions,
}

impl File {
    async fn new() -> Self {
        let db = TestDb::<Sqlite>::with_real_clock().await;
        for name in ["sync", "gone"] {
            db.outbox.define_if_missing(NotifyDef::new(name)).await.unwrap();
        }
        let mut ids = Vec::new();
        for _ in 0..4 {
            ids.push(add(&db, "sync").await);
        }
        let options = (*db.pool.connect_options()).clone().busy_timeout(LONG);
        Self { db, ids, options }
    }

    /// A pool of the application, and an outbox over it that has not opened a connection yet.
    fn open(
        &self,
        options: SqliteConnectOptions,
        on_connect: &'static str,
    ) -> (Pool<sqlx::Sqlite>, Outbox<sqlx::Sqlite>) {
        let pool = self.db.pool.options().clone().after_connect(move |conn, _| {
            Box::pin(async move {
                conn.execute(on_connect).await?;
                Ok(())
            })
        });
        let pool = pool.connect_lazy_with(options);
        let outbox = Outbox::builder(pool.clone()).call_timeout(LONG).build();
        (pool, outbox)
    }

    /// Another session that has locked the file.
    async fn locked(&self) -> SqliteConnection {
        let mut other = SqliteConnection::connect_with(&self.options).await.unwrap();
        other.execute("BEGIN IMMEDIATE; UPDATE notify_def SET owner = 'other' WHERE name = 'sync'").await.unwrap();
        other
    }
}

async fn soon<T>(call: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, call).await.expect("it waits for the lock of another session")
}

fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Store(StoreError { kind: FaultKind::Conflict, .. }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locked_file_holds_up_no_call_that_reads() {
    let file = File::new().await;
    for on_connect in ["SELECT 1", "PRAGMA busy_timeout = 1000000000"] {
        let (pool, outbox) = file.open(file.options.clone(), on_connect);
        let seen = outbox.definitions().await.unwrap();
        let row = |name: &str| seen.iter().find(|seen| seen.row.name == name).unwrap().row.clone();
        let (gone, sync) = (row("gone"), row("sync"));
        let mut other = file.locked().await;
        // An edit by a person and calls that wait as long as a call may last.
        let edit = tokio::spawn({
            let (outbox, gone) = (outbox.clone(), gone.clone());
            async move { outbox.update(&gone, gone.clone().owner("team")).await }
        });
        let switch = tokio::spawn({
            let alice = outbox.operator("alice");
            async move { alice.pause_all("a test").await }
        });
        // Acks, and the pause of a definition by its receiver, give up.
        let acks = soon(join_all(file.ids[..3].iter().map(|id| outbox.ack(*id)))).await;
        for refused in acks {
            assert!(is_conflict(refused.as_ref().unwrap_err()), "{refused:?}");
        }
        let (new, reason) = (sync.clone().enabled(false), "410 Gone".to_owned());
        let pause = Edit::Pause { seen: sync.clone(), new, reason, alarm: None };
        let paused = soon(outbox.engine().stores().definitions.edit(&pause, "a receiver")).await;
        assert!(matches!(&paused, Err(error) if error.kind == FaultKind::Conflict), "{paused:?}");
        // Those that wait have neither the connection nor a turn.
        for id in &file.ids {
            assert!(soon(outbox.find(*id)).await.unwrap().is_some());
        }
        assert!(!edit.is_finished() && !switch.is_finished());
        other.execute("ROLLBACK").await.unwrap();
        assert!(matches!(soon(edit).await.unwrap().unwrap(), Updated::Stored(_)));
        assert!(soon(switch).await.unwrap().unwrap());
        let id = add(&file.db, "sync").await;
        assert_eq!(soon(outbox.ack(id)).await.unwrap(), AckResult::Applied);
        // The application's own connections wait as it has set them.
        let own = pool.acquire().await.unwrap().fetch_one("PRAGMA busy_timeout").await.unwrap();
        assert_eq!(own.get::<i64, _>(0), 1_000_000_000);
        assert!(outbox.operator("alice").resume_all().await.unwrap());
        let now = definition(&file.db, "gone").await;
        outbox.update(&now, gone).await.unwrap();
    }
}

/// The first connection of the store switches such a file to WAL, for which it needs the lock, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locked_file_with_a_rollback_journal_holds_up_no_ack() {
    let File { db, ids, options } = File::new().await;
    let TestDb { outbox, pool, cleanup, .. } = db;
    drop(outbox);
    let pools = pool.options().clone();
    pool.close().await;
    for (id, options) in [(ids[0], options.clone()), (ids[1], options.clone().journal_mode(SqliteJournalMode::Wal))] {
        let mut other = soon(with_rollback_journal(&options)).await;
        other.execute("BEGIN IMMEDIATE; UPDATE notify_def SET owner = 'other' WHERE name = 'sync'").await.unwrap();
        let outbox = Outbox::builder(pools.clone().connect_lazy_with(options)).call_timeout(LONG).build();
        let refused = soon(outbox.ack(id)).await.unwrap_err();
        assert!(is_conflict(&refused), "{refused}");
        other.execute("ROLLBACK").await.unwrap();
        other.close().await.unwrap();
        assert_eq!(soon(outbox.ack(id)).await.unwrap(), AckResult::Applied);
    }
    drop(cleanup);
}

/// Switches the file back as soon as the connections of the store before are closed.
async fn with_rollback_journal(options: &SqliteConnectOptions) -> SqliteConnection {
    let options = options.clone().journal_mode(SqliteJournalMode::Delete);
    loop {
        if let Ok(mut connection) = SqliteConnection::connect_with(&options).await {
            let mode = connection.fetch_one("PRAGMA journal_mode").await.unwrap();
            if mode.get::<String, _>(0) == "delete" {
                return connection;
            }
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
