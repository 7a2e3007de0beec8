//! Connections of our own: when one is kept, when it is closed, and whose settings it has.
//!
//! How many there are is told by a hook of the application's pool, which they inherit; the pool itself is not used.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{FutureExt, TryFutureExt};
#[cfg(any(postgres, mariadb))]
use solid_notify::add_notice;
use solid_notify::{Notify, NotifyDef};
#[cfg(any(postgres, mariadb))]
use solid_notify_core::store::{Claim, ClaimWhat, Lease};
#[cfg(any(postgres, mariadb))]
use solid_notify_tests::sending::eventually;
use solid_notify_tests::{Database, TestDb, on_each_database};

on_each_database!(
    a_connection_is_kept_while_calls_end_well,
    a_connection_whose_call_failed_or_was_dropped_is_not_used_again,
    other_credentials_of_the_application_hold_for_our_connections_too,
);

#[cfg(any(postgres, mariadb))]
mod servers {
    use super::*;

    solid_notify_tests::on_each_server!(
        after_an_outage_every_connection_is_a_fresh_one,
        leases_are_extended_while_every_other_call_waits,
        the_isolation_of_our_connections_does_not_depend_on_defaults,
    );
}

/// An outbox that tells how many connections it has opened.
struct Counted<D: Database> {
    db: TestDb<D>,
    notify: Notify<D::Db>,
    opened: Arc<AtomicUsize>,
}

impl<D: Database> Counted<D> {
    /// `prepare` is run on each connection when it is opened.
    async fn new(call_timeout: Duration, prepare: &'static str) -> Self {
        let db = TestDb::<D>::with_real_clock().await;
        db.notify.define(NotifyDef::new("sync")).await.unwrap();
        let opened = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&opened);
        let options = db.pool.options().clone().after_connect(move |conn, _| {
            count.fetch_add(1, Ordering::SeqCst);
            Box::pin(<D::Db as solid_notify::Dialect>::script(conn, prepare.into()).map_ok(drop))
        });
        let pool = options.connect_lazy_with((*db.pool.connect_options()).clone());
        let notify = Notify::builder(pool).call_timeout(call_timeout).build();
        Self { db, notify, opened }
    }

    fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    async fn call(&self) {
        self.notify.definitions().await.unwrap();
    }

    async fn close(self) {
        drop(self.notify);
        self.db.close().await;
    }
}

const LONG: Duration = Duration::from_secs(20);

async fn a_connection_is_kept_while_calls_end_well<D: Database>() {
    let counted = Counted::<D>::new(LONG, "SELECT 1").await;
    for _ in 0..5 {
        counted.call().await;
    }
    assert_eq!(counted.opened(), 1);
    counted.close().await;
}

async fn a_connection_whose_call_failed_or_was_dropped_is_not_used_again<D: Database>() {
    let counted = Counted::<D>::new(LONG, "SELECT 1").await;
    counted.call().await;
    for nth in 1..=5 {
        // Sent, and dropped before the answer is there; should one be that fast, then the next.
        while counted.notify.definitions().now_or_never().is_some() {}
        counted.call().await;
        assert_eq!(counted.opened(), 1 + nth, "dropped");
    }
    counted.db.sql("ALTER TABLE notify_def RENAME TO away").await;
    for nth in 1..=5 {
        counted.notify.definitions().await.unwrap_err();
        assert_eq!(counted.opened(), 5 + nth, "failed");
    }
    counted.close().await;
}

async fn other_credentials_of_the_application_hold_for_our_connections_too<D: Database>() {
    let (old, new) = (TestDb::<D>::with_real_clock().await, TestDb::<D>::with_real_clock().await);
    for (db, name) in [(&old, "old"), (&new, "new")] {
        db.notify.define(NotifyDef::new(name)).await.unwrap();
    }
    let pool = old.pool.options().clone().connect_lazy_with((*old.pool.connect_options()).clone());
    let notify = Notify::new(pool.clone());
    // What differs is the database: the one that the old ones lead to would answer, too.
    pool.set_connect_options((*new.pool.connect_options()).clone());
    assert_eq!(notify.definitions().await.unwrap()[0].row.name, "new");
    drop(notify);
    old.close().await;
    new.close().await;
}

/// A plan that was made while the queue was empty must not read the whole of it later. The application's connections are as
/// they were.
#[cfg(postgres)]
#[tokio::test]
async fn only_our_connections_plan_by_the_indexes_alone_on_postgres() {
    let check = "DO $$ BEGIN ASSERT current_setting('enable_seqscan') = 'off'; END $$";
    let counted = Counted::<solid_notify_tests::Postgres>::new(LONG, check).await;
    counted.call().await;
    counted.notify.begin().await.unwrap_err();
    counted.close().await;
}

/// Poolers refuse settings that they do not know; so does a server.
#[cfg(postgres)]
#[tokio::test]
async fn a_pooler_that_takes_no_settings_gets_none_on_postgres() {
    /// The settings of a connection, misspelt.
    struct Misspelt(Arc<AtomicUsize>);

    impl solid_notify_tests::proxy::Wire for Misspelt {
        fn asks(&self, chunk: &mut [u8]) {
            let setting = b"enable_seqscan";
            if let Some(at) = chunk.windows(setting.len()).position(|window| window == setting) {
                chunk[at] = b'x';
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    let db = TestDb::<solid_notify_tests::Postgres>::with_real_clock().await;
    db.notify.define(NotifyDef::new("sync")).await.unwrap();
    let options = (*db.pool.connect_options()).clone();
    let server = (std::net::Ipv4Addr::LOCALHOST, options.get_port()).into();
    let refused = Arc::new(AtomicUsize::new(0));
    let wire = Arc::clone(&refused);
    let proxy = solid_notify_tests::proxy::Proxy::start(server, move || Misspelt(Arc::clone(&wire))).await;
    let pool = db.pool.options().clone().connect_lazy_with(options.port(proxy.port));
    let notify = Notify::new(pool);
    for _ in 0..3 {
        assert_eq!(notify.definitions().await.unwrap().len(), 1);
    }
    assert_eq!(refused.load(Ordering::SeqCst), 1, "it is tried once");
    drop(notify);
    db.close().await;
}

/// Time stands still but for the rest: a paused clock needs a runtime of one thread.
async fn a_connection_that_rests_for_a_minute_is_closed<D: Database>() {
    let counted = Counted::<D>::new(LONG, "SELECT 1").await;
    counted.call().await;
    for (rest, opened) in [(59, 1), (61, 2), (59, 2)] {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(rest)).await;
        tokio::time::resume();
        counted.call().await;
        assert_eq!(counted.opened(), opened, "after {rest} s");
    }
    counted.close().await;
}

#[cfg(sqlite)]
#[tokio::test]
async fn a_connection_that_rests_for_a_minute_is_closed_on_sqlite() {
    a_connection_that_rests_for_a_minute_is_closed::<solid_notify_tests::Sqlite>().await;
}

#[cfg(postgres)]
#[tokio::test]
async fn a_connection_that_rests_for_a_minute_is_closed_on_postgres() {
    a_connection_that_rests_for_a_minute_is_closed::<solid_notify_tests::Postgres>().await;
}

#[cfg(mariadb)]
#[tokio::test]
async fn a_connection_that_rests_for_a_minute_is_closed_on_mariadb() {
    a_connection_that_rests_for_a_minute_is_closed::<solid_notify_tests::MariaDb>().await;
}

/// Locks the definitions until it is dropped.
#[cfg(any(postgres, mariadb))]
async fn lock<D: Database>(db: &TestDb<D>) -> sqlx::Transaction<'static, D::Db> {
    let mut other = db.pool.begin().await.unwrap();
    <D::Db as solid_notify::Dialect>::script(&mut other, "SELECT id FROM notify_def FOR UPDATE".into()).await.unwrap();
    other
}

#[cfg(any(postgres, mariadb))]
async fn after_an_outage_every_connection_is_a_fresh_one<D: Database>() {
    let counted = Counted::<D>::new(Duration::from_secs(2), "SELECT 1").await;
    let seen = counted.notify.definitions().await.unwrap().remove(0).row;
    let other = lock(&counted.db).await;
    // An editor has to wait for the row; meanwhile another connection is opened, and rests.
    let edit = counted.notify.update(&seen, seen.clone().timeout("7s"));
    let call = async {
        tokio::task::yield_now().await;
        counted.call().await;
        counted.opened()
    };
    let (edited, opened) = tokio::join!(edit, call);
    edited.unwrap_err();
    assert_eq!(opened, 2);
    other.rollback().await.unwrap();
    counted.call().await;
    assert_eq!(counted.opened(), 3);
    counted.close().await;
}

#[cfg(any(postgres, mariadb))]
async fn leases_are_extended_while_every_other_call_waits<D: Database>() {
    let counted = Counted::<D>::new(LONG, "SELECT 1").await;
    let seen = counted.notify.definitions().await.unwrap().remove(0).row;
    let other = lock(&counted.db).await;
    let edit = || counted.notify.update(&seen, seen.clone().timeout("7s"));
    let lease = async {
        eventually("all connections for work are in use", async || counted.opened() == 3).await;
        let lease = Lease { id: 1, attempt: 1, lease: LONG };
        let extended = tokio::time::timeout(LONG / 4, counted.notify.store().extend(&[lease])).await;
        extended.expect("it waits for no other call").unwrap();
        other.rollback().await.unwrap();
    };
    let (_, a, b, c) = tokio::join!(lease, edit(), edit(), edit());
    for edited in [a, b, c] {
        edited.unwrap();
    }
    counted.close().await;
}

#[cfg(mariadb)]
#[tokio::test]
async fn a_migration_leaves_the_sessions_of_the_application_as_they_are_on_mariadb() {
    let db = TestDb::<solid_notify_tests::MariaDb>::with_real_clock().await;
    let one = db.pool.options().clone().max_connections(1);
    let pool = one.connect_lazy_with((*db.pool.connect_options()).clone());
    let isolation = || sqlx::query_scalar::<_, String>("SELECT @@tx_isolation").fetch_one(&pool);
    let before = isolation().await.unwrap();
    Notify::new(pool.clone()).migrate().await.unwrap();
    assert_eq!(isolation().await.unwrap(), before);
    pool.close().await;
    db.close().await;
}

/// A trigger looks at the isolation of the claim that fires it.
#[cfg(any(postgres, mariadb))]
async fn the_isolation_of_our_connections_does_not_depend_on_defaults<D: Database>() {
    let (default, trigger) = match <D::Db as sqlx::Database>::NAME {
        "PostgreSQL" => (
            "SET default_transaction_isolation = 'repeatable read'",
            "CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 IF current_setting('transaction_isolation') <> 'read committed' THEN RAISE 'isolation'; END IF;
                 RETURN new;
             END $$;
             CREATE TRIGGER look BEFORE UPDATE ON notify_msg FOR EACH ROW EXECUTE FUNCTION look()",
        ),
        _ => (
            "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "CREATE TRIGGER look BEFORE UPDATE ON notify_msg FOR EACH ROW
             IF @@tx_isolation <> 'READ-COMMITTED' THEN SIGNAL SQLSTATE '45000' SET message_text = 'isolation'; END IF",
        ),
    };
    let counted = Counted::<D>::new(LONG, default).await;
    counted.db.sql(trigger).await;
    let mut tx = counted.db.notify.begin().await.unwrap();
    add_notice(&mut tx, "sync", 1).await.unwrap();
    tx.commit().await.unwrap();
    let def_id = counted.notify.definitions().await.unwrap()[0].row.id;
    let (what, worker) = (ClaimWhat::Lane(solid_notify::Status::NotSent), "worker".to_owned());
    let claim = Claim { def_id, what, limit: 1, lease: LONG, worker, quota: None };
    assert_eq!(counted.notify.store().claim(&claim).await.unwrap().notices.len(), 1);
    counted.close().await;
}
