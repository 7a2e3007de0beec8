//! Edits that hang in the database: their sessions end, and acks go on beside them.

use solid_notify::{AckResult, NewNotice, NotifyDef};
use solid_notify_conformance::Backend;
use test_support::sending::{PATIENCE, definition, eventually};
use test_support::{Database, TestDb};

use super::connections::{Counted, LONG};

test_support::on_each_server!(after_an_outage_every_connection_is_a_fresh_one, acks_have_connections_of_their_own);

/// Makes each edit of a definition hang.
async fn edits_hang<D: Database>(db: &TestDb<D>) {
    let trigger = match <D::Db as sqlx::Database>::NAME {
        "PostgreSQL" => {
            "CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(3600); RETURN new; END $$;
             CREATE TRIGGER hang BEFORE UPDATE ON notify_def FOR EACH ROW EXECUTE FUNCTION hang()"
        }
        _ => "CREATE TRIGGER hang BEFORE UPDATE ON notify_def FOR EACH ROW SET @hang = SLEEP(3600)",
    };
    db.sql(trigger).await;
}

/// Ends the session that hangs in [`edits_hang`]; false where none does.
async fn end_the_hanging<D: Database>(db: &TestDb<D>) -> bool {
    let end = match <D::Db as sqlx::Database>::NAME {
        "PostgreSQL" => {
            "DO $$ BEGIN
                 PERFORM pg_terminate_backend(a.pid) FROM pg_stat_activity a
                 WHERE a.wait_event = 'PgSleep'
                     AND a.pid IN (SELECT pid FROM pg_locks WHERE granted AND relation = 'notify_def'::regclass);
                 ASSERT FOUND;
             END $$"
        }
        _ => {
            "SELECT concat('KILL ', id) INTO @kill FROM information_schema.processlist
             WHERE db = database() AND id <> connection_id() AND state = 'User sleep' LIMIT 1;
             PREPARE kill_it FROM @kill; EXECUTE kill_it"
        }
    };
    let mut conn = db.pool.acquire().await.unwrap();
    <D::Db as solid_notify::sql::Dialect>::script(&mut conn, end.into()).await.is_ok()
}

async fn after_an_outage_every_connection_is_a_fresh_one<D: Database>() {
    let counted = Counted::<D>::new(LONG, "SELECT 1").await;
    edits_hang(&counted.db).await;
    let seen = definition(&counted.db, "sync").await;
    // An edit first reads the rows, on a connection that rests afterwards.
    counted.call().await;
    let before = counted.opened();
    let call = async {
        eventually("the editor has a connection", async || counted.opened() == before + 1).await;
        counted.call().await;
        let opened = counted.opened();
        eventually("the editor's session is ended", async || end_the_hanging(&counted.db).await).await;
        opened
    };
    let (edited, opened) = tokio::join!(counted.outbox.update(&seen, seen.clone().timeout("7s")), call);
    edited.unwrap_err();
    assert_eq!(opened, before + 1, "the call uses the one that rests");
    let before = counted.opened();
    counted.call().await;
    assert_eq!(counted.opened(), before + 1);
    counted.close().await;
}

/// Edits that hang take all of their connections.
async fn acks_have_connections_of_their_own<D: Database>() {
    let counted = Counted::<D>::new(LONG, "SELECT 1").await;
    counted.db.outbox.define_if_missing(NotifyDef::new("other")).await.unwrap();
    let id = counted.db.add_new(NewNotice::new("sync", 1).unwrap()).await.id();
    edits_hang(&counted.db).await;
    let mut edits = Vec::new();
    let seen = [definition(&counted.db, "sync").await, definition(&counted.db, "other").await];
    // An edit first reads the rows, on a connection that rests afterwards.
    counted.call().await;
    for seen in seen {
        let before = counted.opened();
        let outbox = counted.outbox.clone();
        edits.push(tokio::spawn(async move { outbox.update(&seen, seen.clone().timeout("7s")).await }));
        eventually("the edit has a connection", async || counted.opened() == before + 1).await;
    }
    let acked = tokio::time::timeout(PATIENCE, counted.outbox.ack(id)).await.expect("it waits behind edits");
    assert_eq!(acked.unwrap(), AckResult::Applied);
    eventually("both are ended", async || {
        end_the_hanging(&counted.db).await;
        edits.iter().all(tokio::task::JoinHandle::is_finished)
    })
    .await;
    counted.close().await;
}
