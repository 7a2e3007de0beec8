//! The store's own connections: when one is kept, when it is closed, and which settings it has.
//!
//! A hook of the application's pool, which they inherit, counts them. The pool itself is not used.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{FutureExt, TryFutureExt};
use solid_notify::add_notice;
use solid_notify::{NotifyDef, Outbox};
use solid_notify_core::store::{Claim, ClaimWhat, Lease};
use test_support::sending::eventually;
use test_support::{Database, TestDb, on_each_database};

on_each_database!(
    a_connection_is_kept_while_calls_end_well,
    a_connection_whose_call_failed_or_was_dropped_is_not_used_again,
    other_credentials_of_the_application_hold_for_our_connections_too,
);

mod servers {
    use super::*;

    test_support::on_each_server!(
        leases_are_extended_while_every_other_call_waits,
        the_isolation_of_our_connections_does_not_depend_on_defaults,
    );
}

/// Returns an outbox and the counter of the connections that it has opened.
pub struct Counted<D: Database> {
    pub db: TestDb<D>,
    pub outbox: Outbox<D::Db>,
    opened: Arc<AtomicUsize>,
}

impl<D: Database> Counted<D> {
    /// `prepare` is run on each connection when it is opened.
    pub async fn new(call_timeout: Duration, prepare: &'static str) -> Self {
        let db = TestDb::<D>::with_real_clock().await;
        db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
        let opened = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&opened);
        let options = db.pool.options().clone().after_connect(move |conn, _| {
            count.fetch_add(1, Ordering::SeqCst);
            Box::pin(<D::Db as solid_notify::sql::Dialect>::script(conn, prepare.into()).map_ok(drop))
        });
        let pool = options.connect_lazy_with((*db.pool.connect_options()).clone());
        let outbox = Outbox::builder(pool).call_timeout(call_timeout).build();
        Self { db, outbox, opened }
    }

    pub fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    pub async fn call(&self) {
        self.outbox.definitions().await.unwrap();
    }

    pub async fn close(self) {
        drop(self.outbox);
        self.db.close().await;
    }
}

pub const LONG: Duration = Duration::from_secs(100);

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
        // Dropped after one poll. That one may have been answered already, or may not have reached its connection yet.
        for _ in 0..100 {
            let _ = counted.outbox.definitions().now_or_never();
            counted.call().await;
            if counted.opened() > nth {
                break;
            }
        }
        assert_eq!(counted.opened(), 1 + nth, "dropped");
    }
    counted.db.sql("ALTER TABLE notify_def RENAME TO away").await;
    for nth in 1..=5 {
        counted.outbox.definitions().await.unwrap_err();
        assert_eq!(counted.opened(), 5 + nth, "failed");
    }
    counted.close().await;
}

async fn other_credentials_of_the_application_hold_for_our_connections_too<D: Database>() {
    let (old, new) = (TestDb::<D>::with_real_clock().await, TestDb::<D>::with_real_clock().await);
    for (db, name) in [(&old, "old"), (&new, "new")] {
        db.outbox.define_if_missing(NotifyDef::new(name)).await.unwrap();
    }
    let pool = old.pool.options().clone().connect_lazy_with((*old.pool.connect_options()).clone());
    let outbox = Outbox::new(pool.clone());
    // Only the database differs: the old connections would work, too.
    pool.set_connect_options((*new.pool.connect_options()).clone());
    assert_eq!(outbox.definitions().await.unwrap()[0].row.name, "new");
    drop(outbox);
    old.close().await;
    new.close().await;
}

mod on_postgres {
    use super::*;

    #[tokio::test]
    async fn postgres_ends_a_slow_statement_whose_caller_has_gone() {
        let db =
            TestDb::<test_support::Postgres>::build(4, false, |builder| builder.call_timeout(Duration::from_secs(5)))
                .await;
        db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
        db.sql(
            "CREATE FUNCTION nap() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(60); RETURN NEW; END';
             CREATE TRIGGER nap BEFORE UPDATE ON notify_def FOR EACH ROW EXECUTE FUNCTION nap()",
        )
        .await;
        let naps = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
                    WHERE relation = 'notify_def'::regclass AND wait_event = 'PgSleep'";
        let is_running = async || test_support::Postgres::number(&db.pool, naps).await > 0;
        let seen = db.outbox.definitions().await.unwrap().remove(0).row;
        let edit = db.outbox.update(&seen, seen.clone().timeout("7s"));
        let (edited, ()) = tokio::join!(edit, eventually("the statement runs", &is_running));
        edited.unwrap_err();
        eventually("the statement is gone", async || !is_running().await).await;
        db.close().await;
    }

    /// A plan that was made while the queue was empty must not read the whole of it later. The application's connections are as
    /// they were.
    #[tokio::test]
    async fn only_our_connections_plan_by_the_indexes_alone_on_postgres() {
        let check = "DO $$ BEGIN ASSERT current_setting('enable_seqscan') = 'off'; END $$";
        let counted = Counted::<test_support::Postgres>::new(LONG, check).await;
        counted.call().await;
        counted.outbox.begin().await.unwrap_err();
        counted.close().await;
    }

    /// Poolers and servers refuse unknown settings.
    #[tokio::test]
    async fn a_pooler_that_takes_no_settings_gets_none_on_postgres() {
        /// The settings of a connection, misspelt.
        struct Misspelt(Arc<AtomicUsize>);

        impl test_support::proxy::Wire for Misspelt {
            fn asks(&self, chunk: &mut [u8]) {
                let setting = b"enable_seqscan";
                if let Some(at) = chunk.windows(setting.len()).position(|window| window == setting) {
                    chunk[at] = b'x';
                    self.0.fetch_add(1, Ordering::SeqCst);
                }
            }
        }

        let db = TestDb::<test_support::Postgres>::with_real_clock().await;
        db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
        let options = (*db.pool.connect_options()).clone();
        let server = (std::net::Ipv4Addr::LOCALHOST, options.get_port()).into();
        let refused = Arc::new(AtomicUsize::new(0));
        let wire = Arc::clone(&refused);
        let proxy = test_support::proxy::Proxy::start(server, move || Misspelt(Arc::clone(&wire))).await;
        let pool = db.pool.options().clone().connect_lazy_with(options.port(proxy.port));
        let outbox = Outbox::new(pool);
        for _ in 0..3 {
            assert_eq!(outbox.definitions().await.unwrap().len(), 1);
        }
        assert_eq!(refused.load(Ordering::SeqCst), 1, "it is tried once");
        drop(outbox);
        db.close().await;
    }

    #[tokio::test]
    async fn connection_that_rests_for_long_is_closed_on_postgres() {
        connection_that_rests_for_long_is_closed::<test_support::Postgres>().await;
    }
}

/// The clock is paused except for the rest, which needs a runtime of one thread.
async fn connection_that_rests_for_long_is_closed<D: Database>() {
    let counted = Counted::<D>::new(LONG, "SELECT 1").await;
    counted.call().await;
    // MySQL ends a session that rests for as long as a call may take; ours rest half of that at most.
    let longest = if <D::Db as sqlx::Database>::NAME == "MySQL" { LONG.as_secs() / 2 } else { 60 };
    for (rest, opened) in [(longest - 5, 1), (longest + 5, 2), (longest - 5, 2)] {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(rest)).await;
        tokio::time::resume();
        counted.call().await;
        assert_eq!(counted.opened(), opened, "after {rest} s");
    }
    counted.close().await;
}

mod on_sqlite {
    use super::*;

    #[tokio::test]
    async fn connection_that_rests_for_long_is_closed_on_sqlite() {
        connection_that_rests_for_long_is_closed::<test_support::Sqlite>().await;
    }
}

mod on_mariadb {
    use super::*;

    #[tokio::test]
    async fn connection_that_rests_for_long_is_closed_on_mariadb() {
        connection_that_rests_for_long_is_closed::<test_support::MariaDb>().await;
    }
}

mod on_mysql {
    use super::*;

    #[tokio::test]
    async fn connection_that_rests_for_long_is_closed_on_mysql() {
        connection_that_rests_for_long_is_closed::<test_support::MySql>().await;
    }

    #[tokio::test]
    async fn a_login_with_a_password_works_over_tls_on_mysql() {
        a_login_with_a_password_works(sqlx::mysql::MySqlSslMode::Required).await;
    }

    #[tokio::test]
    async fn a_login_with_a_password_works_without_tls_on_mysql() {
        a_login_with_a_password_works(sqlx::mysql::MySqlSslMode::Disabled).await;
    }
}

/// Locks the definitions until it is dropped.
async fn lock<D: Database>(db: &TestDb<D>) -> sqlx::Transaction<'static, D::Db> {
    let mut other = db.pool.begin().await.unwrap();
    <D::Db as solid_notify::sql::Dialect>::script(&mut other, "SELECT id FROM notify_def FOR UPDATE".into())
        .await
        .unwrap();
    other
}

async fn leases_are_extended_while_every_other_call_waits<D: Database>() {
    let counted = Counted::<D>::new(LONG, "SELECT 1").await;
    let seen = counted.outbox.definitions().await.unwrap().remove(0).row;
    let other = lock(&counted.db).await;
    let edit = || counted.outbox.update(&seen, seen.clone().timeout("7s"));
    let lease = async {
        eventually("all connections for work are in use", async || counted.opened() >= 3).await;
        let lease = Lease { id: 1, fence: 1, lease: LONG };
        let extended = tokio::time::timeout(LONG / 2, counted.outbox.engine().stores().send.extend(&[lease])).await;
        extended.expect("it waits for no other call").unwrap();
        other.rollback().await.unwrap();
    };
    let (_, a, b, c) = tokio::join!(lease, edit(), edit(), edit());
    for edited in [a, b, c] {
        edited.unwrap();
    }
    counted.close().await;
}

test_support::on_mysql_family!(a_migration_leaves_the_sessions_of_the_application_as_they_are);

async fn a_migration_leaves_the_sessions_of_the_application_as_they_are<D: Database<Db = sqlx::MySql>>() {
    let db = TestDb::<D>::with_real_clock().await;
    let one = db.pool.options().clone().max_connections(1);
    let pool = one.connect_lazy_with((*db.pool.connect_options()).clone());
    // MariaDB calls it `tx_isolation`.
    let question = "SHOW VARIABLES WHERE variable_name IN ('tx_isolation', 'transaction_isolation')";
    let isolation = || async { sqlx::query_as::<_, (String, String)>(question).fetch_one(&pool).await };
    let before = isolation().await.unwrap();
    Outbox::new(pool.clone()).migrate().await.unwrap();
    assert_eq!(isolation().await.unwrap(), before);
    pool.close().await;
    db.close().await;
}

/// A trigger looks at the isolation of the claim that fires it.
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
             IF /*M! @@tx_isolation */ /*!80000 @@transaction_isolation */ <> 'READ-COMMITTED' THEN SIGNAL SQLSTATE '45000' SET message_text = 'isolation'; END IF",
        ),
    };
    let counted = Counted::<D>::new(LONG, default).await;
    counted.db.sql(trigger).await;
    let mut tx = counted.db.outbox.begin().await.unwrap();
    add_notice(&mut tx, "sync", 1).await.unwrap();
    tx.commit().await.unwrap();
    let def_id = counted.outbox.definitions().await.unwrap()[0].row.id;
    let (what, worker) = (ClaimWhat::Slice(solid_notify::Status::NotSent), "worker".to_owned());
    let claim = Claim { def_id, what, limit: 1, lease: LONG, worker, quota: None };
    assert_eq!(counted.outbox.engine().stores().send.claim(&claim).await.unwrap().notices.len(), 1);
    counted.close().await;
}

/// A login with the method that MySQL has by default (`caching_sha2_password`). The account is new, so the server knows nothing of its
/// password yet and asks for all of it: encrypted by TLS, or with the server's RSA key.
async fn a_login_with_a_password_works(mode: sqlx::mysql::MySqlSslMode) {
    use sqlx::mysql::MySqlSslMode;

    let db = TestDb::<test_support::MySql>::with_real_clock().await;
    let account = format!("login_{:08x}", fastrand::u32(..));
    db.sql(&format!("CREATE USER {account}@'%' IDENTIFIED WITH caching_sha2_password BY 'it is long'")).await;
    let database = db.pool.connect_options().get_database().unwrap().to_owned();
    db.sql(&format!("GRANT ALL ON {database}.* TO {account}@'%'")).await;
    let options = (*db.pool.connect_options()).clone().username(&account).password("it is long").ssl_mode(mode);
    let pool = db.pool.options().clone().max_connections(1).connect_lazy_with(options);
    let outbox = Outbox::new(pool.clone());
    outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let (_, cipher): (String, String) =
        sqlx::query_as("SHOW SESSION STATUS LIKE 'Ssl_cipher'").fetch_one(&pool).await.unwrap();
    assert_eq!(cipher.is_empty(), matches!(mode, MySqlSslMode::Disabled), "{cipher}");
    pool.close().await;
    db.sql(&format!("DROP USER {account}@'%'")).await;
    db.close().await;
}
