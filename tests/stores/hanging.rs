//! Calls of operators that hang in the database: their sessions end, and acks go on beside them.

use solid_notify::{AckResult, NewNotice};
use solid_notify_conformance::Backend;
use test_support::sending::{PATIENCE, eventually};
use test_support::{Database, TestDb};

use super::connections::{Counted, LONG};

test_support::on_each_server!(after_an_outage_every_connection_is_a_fresh_one, acks_have_connections_of_their_own);

/// Makes each turn of the pause switch hang.
async fn switch_hangs<D: Database>(db: &TestDb<D>) {
    let trigger = match <D::Db as sqlx::Database>::NAME {
        "PostgreSQL" => {
            "CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(3600); RETURN new; END $$;
             CREATE TRIGGER hang BEFORE UPDATE ON notify_switch FOR EACH ROW EXECUTE FUNCTION hang()"
        }
        _ => "CREATE TRIGGER hang BEFORE UPDATE ON notify_switch FOR EACH ROW SET @hang = SLEEP(3600)",
    };
    db.sql(trigger).await;
}

/// Ends the session that hangs in [`switch_hangs`]; false where none does.
async fn end_the_hanging<D: Database>(db: &TestDb<D>) -> bool {
    let end = match <D::Db as sqlx::Database>::NAME {
        "PostgreSQL" => {
            "DO $$ BEGIN
                 PERFORM pg_terminate_backend(a.pid) FROM pg_stat_activity a
                 WHERE a.wait_event = 'PgSleep'
                     AND a.pid IN (SELECT pid FROM pg_locks WHERE granted AND relation = 'notify_switch'::regclass);
                 ASSERT FOUND;
             END $$"
        }
        _ => {
            "SELECT concat('KILL ', id) INTO @kill FROM information_schema.processlist
             WHERE db = database() AND id <> connection_id() AND state = 'User sleep';
             PREPARE kill_it FROM @kill; EXECUTE kill_it"
        }
    };
    let mut conn = db.pool.acquire().await.unwrap();
    <D::Db as solid_notify::sql::Dialect>::script(&mut conn, end.into()).await.is_ok()
}

async fn after_an_outage_every_connection_is_a_fresh_one<D: Database>() {
    let counted = Counted::<D>::new(LONG, "SELECT 1").await;
    switch_hangs(&counted.db).await;
    let alice = counted.outbox.operator("alice");
    let before = counted.opened();
    // An operator's call hangs; meanwhile another connection rests.
    let call = async {
        eventually("the operator has a connection", async || counted.opened() == before + 1).await;
        counted.call().await;
        let opened = counted.opened();
        eventually("the operator's session is ended", async || end_the_hanging(&counted.db).await).await;
        opened
    };
    let (paused, opened) = tokio::join!(alice.pause_all("a test"), call);
    paused.unwrap_err();
    // The connection on which the store checks the database has another purpose.
    assert_eq!(opened, before + 2);
    let before = counted.opened();
    counted.call().await;
    assert_eq!(counted.opened(), before + 1);
    counted.close().await;
}

/// Calls of operators that hang take all of their connections.
async fn acks_have_connections_of_their_own<D: Database>() {
    let counted = Counted::<D>::new(LONG, "SELECT 1").await;
    let id = counted.db.add_new(NewNotice::new("sync", 1).unwrap()).await.id();
    switch_hangs(&counted.db).await;
    let before = counted.opened();
    let pauses = (0..2).map(|_| {
        let alice = counted.outbox.operator("alice");
        tokio::spawn(async move { alice.pause_all("a test").await })
    });
    let pauses: Vec<_> = pauses.collect();
    eventually("both have a connection", async || counted.opened() == before + 2).await;
    let acked = tokio::time::timeout(PATIENCE, counted.outbox.ack(id)).await.expect("it waits behind operators");
    assert_eq!(acked.unwrap(), AckResult::Applied);
    eventually("both are ended", async || {
        end_the_hanging(&counted.db).await;
        pauses.iter().all(tokio::task::JoinHandle::is_finished)
    })
    .await;
    counted.close().await;
}
