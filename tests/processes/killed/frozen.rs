//! A process that is frozen inside a transaction: the server ends its session, and the rows are free.

use super::*;

test_support::on_each_server!(frozen_process_in_a_transaction_lets_its_rows_go);

/// A trigger delays the claim until the process is frozen. Then the server executes the claim, and the COMMIT never comes. It
/// has locked the notices and the row of the limit.
async fn frozen_process_in_a_transaction_lets_its_rows_go<D: Reading>() {
    let (db, directory) = prepare::<D>(NotifyDef::new("job").max_concurrency_total(100).max_concurrency(100)).await;
    let key = fastrand::u32(..);
    let (gate, trigger, waits) = match <D::Db as sqlx::Database>::NAME {
        "PostgreSQL" => (
            [format!("SELECT pg_advisory_lock({key})"), format!("SELECT pg_advisory_unlock({key})")],
            format!(
                "CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                     PERFORM pg_advisory_xact_lock_shared({key});
                     RETURN new;
                 END $$;
                 CREATE TRIGGER gate BEFORE UPDATE ON notify_msg FOR EACH ROW EXECUTE FUNCTION gate()"
            ),
            format!(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid::bigint = {key}"
            ),
        ),
        _ => (
            [format!("DO GET_LOCK('{key}', 0)"), format!("DO RELEASE_LOCK('{key}')")],
            format!(
                "CREATE TRIGGER gate BEFORE UPDATE ON notify_msg FOR EACH ROW SET @gate = GET_LOCK('{key}', 60) + RELEASE_LOCK('{key}')"
            ),
            "SELECT count(*) FROM information_schema.processlist WHERE state = 'User lock' AND db = database()"
                .to_owned(),
        ),
    };
    db.sql(&trigger).await;
    for _ in 0..50 {
        add(&db, "t", "deliver").await;
    }
    let mut conn = db.pool.acquire().await.unwrap();
    <D::Db as solid_notify::sql::Dialect>::script(&mut conn, gate[0].clone().into()).await.unwrap();
    let child = Child::start(&db, "sweep", &directory).await;
    eventually("its claim waits", async || D::numbers(&db.pool, &waits).await != [[0]]).await;
    child.freeze().await;
    <D::Db as solid_notify::sql::Dialect>::script(&mut conn, gate[1].clone().into()).await.unwrap();
    drop(conn);

    let calls = Calls::default();
    let handler = calls.clone();
    let builder = db.outbox.sweeper().outage_grace(Duration::ZERO).housekeeping(false);
    let builder = builder.handler("job", move |_: solid_notify::Notice<Value>| {
        handler.note(());
        async { Ok(()) }
    });
    let sweeper = builder.start().await.unwrap();
    eventually("the server has ended its session, and all are sent", async || is_drained(&db).await).await;
    assert_eq!(calls.count(), 50);
    assert!(lines(&directory, "calls").is_empty());
    sweeper.shutdown().await;
    child.kill().await;
    db.close().await;
}
