//! Notices inside transactions: one exists if and only if its transaction committed, and only such a one is sent.
//!
//! Each module has the cases of one kind of trouble; here are the plain ones, and the [`Scene`] that all of them share.

mod cancelled;
mod known;
mod locks;
mod lost;
mod savepoints;
mod tenants;

use std::ops::DerefMut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use solid_notify::sql::{BySqlx, Dialect};
use solid_notify::{
    AnyOutbox, Error, FirstAttempt, Notice, NoticeConnection, NoticeTx, NotifyDef, Outbox, OutboxExt, Receipt, Sweeper,
    add_notice,
};
use sqlx::{AssertSqlSafe, Pool};
use test_support::sending::PATIENCE;
use test_support::{Database, TestDb, on_each_database};

on_each_database!(
    a_notice_exists_if_and_only_if_its_transaction_committed,
    hooks_run_in_their_order_after_the_commit_and_never_after_a_rollback,
    a_panicking_hook_fails_neither_the_commit_nor_the_other_hooks,
    a_refused_notice_leaves_the_transaction_usable,
    one_connection_is_enough_for_the_application,
);

/// The deadline of a call that must not wait for others. It only ends a test that hangs.
const SOON: Duration = PATIENCE;

/// Reading numbers, which sqlx cannot do for any driver at once.
trait Sql: Dialect {
    async fn numbers(conn: &mut Self::Connection, sql: &str) -> Vec<i64>;
}

macro_rules! sql {
    ($($db:ty),+) => {
        $(impl Sql for $db {
            async fn numbers(conn: &mut Self::Connection, sql: &str) -> Vec<i64> {
                sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_all(conn).await.unwrap()
            }
        })+
    };
}
sql!(sqlx::Postgres, sqlx::MySql, sqlx::Sqlite);

/// A database with the definition `sync` and the application's table `work`. Row `k` of `work` belongs to the notice
/// whose parameter is `k`: wherever one of the two exists, so must the other.
struct Scene<D: Database> {
    db: TestDb<D>,
    /// A connection that takes no part.
    observer: Pool<D::Db>,
    sent: Arc<Mutex<Vec<i64>>>,
    sweeper: Option<Sweeper>,
}

impl<D: Database<Db: Sql>> Scene<D> {
    /// The application's pool has so many connections; time is the database's.
    async fn new(connections: u32) -> Self {
        let db = TestDb::<D>::build(connections, false, |builder| builder).await;
        db.sql("CREATE TABLE work (id bigint NOT NULL PRIMARY KEY)").await;
        db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
        let options = db.pool.options().clone().max_connections(1);
        let observer = options.connect_lazy_with((*db.pool.connect_options()).clone());
        Self { db, observer, sent: Arc::default(), sweeper: None }
    }

    /// As [`Self::new`], and a sweeper runs from the start.
    async fn swept(connections: u32) -> Self {
        let mut scene = Self::new(connections).await;
        scene.sweeper = Some(sweeper(&scene.db.outbox, &scene.sent).await);
        scene
    }

    fn outbox(&self) -> &Outbox<D::Db> {
        &self.db.outbox
    }

    async fn begin(&self) -> NoticeTx<'static, D::Db> {
        self.outbox().begin().await.unwrap()
    }

    /// Does the work `k`: its row and its notice.
    async fn work<B, C>(&self, tx: &mut C, k: i64) -> Receipt
    where
        C: NoticeConnection<B> + DerefMut<Target = <D::Db as sqlx::Database>::Connection>,
    {
        row::<D>(tx, k).await;
        add_notice(tx, "sync", k).await.unwrap()
    }

    /// The first number of an answer that another connection than the transaction's gets.
    async fn observe(&self, sql: &str) -> i64 {
        self.observe_all(sql).await[0]
    }

    async fn observe_all(&self, sql: &str) -> Vec<i64> {
        D::Db::numbers(&mut *self.observer.acquire().await.unwrap(), sql).await
    }

    /// Waits until nothing is due, and returns the sent notices.
    async fn sent(&mut self) -> Vec<i64> {
        if self.sweeper.is_none() {
            self.sweeper = Some(sweeper(&self.db.outbox, &self.sent).await);
        }
        tokio::time::timeout(SOON, self.sweeper.as_ref().unwrap().idle()).await.expect("the sweeper becomes idle");
        let mut sent = self.sent.lock().unwrap().clone();
        sent.sort_unstable();
        sent
    }

    /// Just these notices were sent, each once, and just their rows are there.
    async fn ends_with(self, expected: &[i64]) {
        self.ends_with_rows(expected, expected).await;
    }

    async fn ends_with_rows(mut self, sent: &[i64], rows: &[i64]) {
        assert_eq!(self.sent().await, sent, "sent");
        assert_eq!(self.observe_all("SELECT id FROM work ORDER BY id").await, rows, "rows");
        self.sweeper.take().unwrap().shutdown().await;
        self.observer.close().await;
        self.db.close().await;
    }
}

/// The row of the work `k`, without its notice.
async fn row<D: Database>(conn: &mut <D::Db as sqlx::Database>::Connection, k: i64) {
    run::<D>(conn, &format!("INSERT INTO work VALUES ({k})")).await.unwrap();
}

async fn run<D: Database>(conn: &mut <D::Db as sqlx::Database>::Connection, sql: &str) -> sqlx::Result<()> {
    D::Db::script(conn, sql.to_owned().into()).await.map(drop)
}

/// A sweeper that writes down what it sends.
async fn sweeper(outbox: &AnyOutbox, sent: &Arc<Mutex<Vec<i64>>>) -> Sweeper {
    let sent = Arc::clone(sent);
    let record = move |notice: Notice<Value>| {
        sent.lock().unwrap().extend(notice.param().as_i64());
        async { Ok(()) }
    };
    let often = Duration::from_millis(50);
    outbox.sweeper().housekeeping(false).handler("sync", record).poll_interval(often).start().await.unwrap()
}

/// True once the transaction's hooks ran.
fn hook<DB: Dialect>(tx: &mut NoticeTx<'_, DB>) -> Arc<AtomicBool> {
    let ran = Arc::new(AtomicBool::new(false));
    let setter = Arc::clone(&ran);
    tx.after_commit(move || setter.store(true, Ordering::Relaxed));
    ran
}

async fn a_notice_exists_if_and_only_if_its_transaction_committed<D: Database<Db: Sql>>()
where
    <D::Db as sqlx::Database>::Connection: NoticeConnection<BySqlx>,
{
    let scene = Scene::<D>::swept(4).await;

    let mut tx = scene.begin().await;
    let committed = scene.work(&mut tx, 1).await;
    tx.commit().await.unwrap();
    let mut tx = scene.begin().await;
    let rolled_back = scene.work(&mut tx, 2).await;
    tx.rollback().await.unwrap();
    let mut tx = scene.begin().await;
    let dropped = scene.work(&mut tx, 3).await;
    drop(tx);
    assert_eq!(committed.first_attempt(SOON).await, FirstAttempt::Succeeded);
    assert_eq!(rolled_back.first_attempt(SOON).await, FirstAttempt::RolledBack);
    assert_eq!(dropped.first_attempt(SOON).await, FirstAttempt::RolledBack);

    let mut tx = scene.db.pool.begin().await.unwrap();
    let committed = scene.work(&mut tx, 4).await;
    tx.commit().await.unwrap();
    let mut tx = scene.db.pool.begin().await.unwrap();
    scene.work(&mut tx, 5).await;
    tx.rollback().await.unwrap();
    let mut tx = scene.db.pool.begin().await.unwrap();
    scene.work(&mut tx, 6).await;
    drop(tx);
    assert_eq!(committed.first_attempt(SOON).await, FirstAttempt::NotHere);

    let mut conn = scene.db.pool.acquire().await.unwrap();
    scene.work(&mut conn, 7).await;
    for (k, end) in [(8, "ROLLBACK"), (9, "COMMIT")] {
        run::<D>(&mut conn, "BEGIN").await.unwrap();
        scene.work(&mut conn, k).await;
        run::<D>(&mut conn, end).await.unwrap();
    }
    let bare: &mut <D::Db as sqlx::Database>::Connection = &mut conn;
    row::<D>(bare, 10).await;
    add_notice(bare, "sync", 10).await.unwrap();
    drop(conn);

    scene.ends_with(&[1, 4, 7, 9, 10]).await;
}

async fn hooks_run_in_their_order_after_the_commit_and_never_after_a_rollback<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::new(2).await;
    let log = Arc::new(Mutex::new(Vec::new()));
    let note = |text: &'static str| {
        let log = Arc::clone(&log);
        move || log.lock().unwrap().push(text)
    };

    let mut tx = scene.begin().await;
    tx.after_commit(note("first"));
    let mut inner = tx.begin().await.unwrap();
    inner.after_commit(note("inner"));
    inner.commit().await.unwrap();
    let mut inner = tx.begin().await.unwrap();
    inner.after_commit(note("of an inner one that was rolled back"));
    inner.rollback().await.unwrap();
    let mut inner = tx.begin().await.unwrap();
    inner.after_commit(note("of an inner one that was dropped"));
    let mut innermost = inner.begin().await.unwrap();
    innermost.after_commit(note("committed into one that was dropped"));
    innermost.commit().await.unwrap();
    drop(inner);
    scene.work(&mut tx, 1).await;
    tx.after_commit(note("last"));
    assert!(log.lock().unwrap().is_empty(), "nothing is committed yet");
    tx.commit().await.unwrap();
    assert_eq!(*log.lock().unwrap(), ["first", "inner", "last"]);

    let mut tx = scene.begin().await;
    tx.after_commit(note("rolled back"));
    tx.rollback().await.unwrap();
    let mut tx = scene.begin().await;
    tx.after_commit(note("dropped"));
    drop(tx);
    assert_eq!(log.lock().unwrap().len(), 3);
    scene.ends_with(&[1]).await;
}

async fn a_panicking_hook_fails_neither_the_commit_nor_the_other_hooks<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::swept(2).await;
    let mut tx = scene.begin().await;
    let before = hook(&mut tx);
    tx.after_commit(|| panic!("a hook that panics, as this test wants it"));
    let after = hook(&mut tx);
    let added = scene.work(&mut tx, 1).await;
    tx.commit().await.unwrap();
    assert!(before.load(Ordering::Relaxed) && after.load(Ordering::Relaxed));
    assert_eq!(added.first_attempt(SOON).await, FirstAttempt::Succeeded);
    scene.ends_with(&[1]).await;
}

async fn a_refused_notice_leaves_the_transaction_usable<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::new(2).await;
    let mut tx = scene.begin().await;
    row::<D>(&mut tx, 1).await;
    assert!(matches!(add_notice(&mut tx, "snyc", 1).await, Err(Error::UnknownDefinition { .. })));
    assert!(matches!(add_notice(&mut tx, "sync", "a\0b").await, Err(Error::InvalidNotice { .. })));
    scene.work(&mut tx, 2).await;
    tx.commit().await.unwrap();

    let mut tx = scene.db.pool.begin().await.unwrap();
    row::<D>(&mut tx, 3).await;
    assert!(matches!(add_notice(&mut tx, "snyc", 3).await, Err(Error::UnknownDefinition { .. })));
    assert!(matches!(add_notice(&mut tx, "sync", "a\0b").await, Err(Error::InvalidNotice { .. })));
    scene.work(&mut tx, 4).await;
    tx.commit().await.unwrap();
    scene.ends_with_rows(&[2, 4], &[1, 2, 3, 4]).await;
}

async fn one_connection_is_enough_for_the_application<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::swept(1).await;
    let expected: Vec<i64> = (1..=20).collect();
    for k in &expected {
        let mut tx = tokio::time::timeout(SOON, scene.begin()).await.expect("the connection is free");
        let mut inner = tx.begin().await.unwrap();
        let added = scene.work(&mut inner, *k).await;
        inner.commit().await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(added.first_attempt(SOON).await, FirstAttempt::Succeeded);
    }
    scene.ends_with(&expected).await;
}

mod on_sqlite {
    use super::*;

    #[tokio::test]
    async fn one_connection_to_a_database_in_memory_is_enough() {
        let options = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1);
        let pool = options.connect("sqlite::memory:").await.unwrap();
        let outbox = Outbox::new(pool.clone());
        outbox.migrate().await.unwrap();
        outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
        let sent = Arc::default();
        let sweeper = sweeper(&outbox, &sent).await;
        for k in 1..=20 {
            let mut tx = outbox.begin().await.unwrap();
            let added = add_notice(&mut tx, "sync", k).await.unwrap();
            tx.commit().await.unwrap();
            assert_eq!(added.first_attempt(SOON).await, FirstAttempt::Succeeded);
        }
        let mut tx = pool.begin().await.unwrap();
        add_notice(&mut tx, "sync", 21).await.unwrap();
        tx.commit().await.unwrap();
        sweeper.idle().await;
        assert_eq!(*sent.lock().unwrap(), (1..=21).collect::<Vec<i64>>());
        sweeper.shutdown().await;
    }

    /// A deferred transaction would find that others wrote after it had read, and fail.
    #[tokio::test]
    async fn a_transaction_that_has_read_can_write_on_sqlite() {
        use sqlx::Connection;
        use test_support::Sqlite;

        let scene = Scene::<Sqlite>::new(1).await;
        let mut tx = scene.begin().await;
        assert_eq!(sqlx::Sqlite::numbers(&mut tx, "SELECT count(*) FROM work").await, [0]);
        let options = (*scene.db.pool.connect_options()).clone().busy_timeout(Duration::ZERO);
        let mut other = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
        run::<Sqlite>(&mut other, "INSERT INTO work VALUES (2)").await.expect_err("the transaction has the lock");
        scene.work(&mut tx, 1).await;
        tx.commit().await.unwrap();
        run::<Sqlite>(&mut other, "DELETE FROM work WHERE id = 2").await.unwrap();
        other.close().await.unwrap();
        scene.ends_with(&[1]).await;
    }
}
