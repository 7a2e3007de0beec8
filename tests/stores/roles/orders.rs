//! Accounts that give orders to built-in definitions by plain SQL: nothing acts without its authority.

use super::*;

/// A sweeper, and the texts of the alerts that it sends.
async fn reporting(sender: &AnyOutbox) -> (TestSweeper, mpsc::Receiver<String>) {
    let (told, alerts) = mpsc::channel();
    let builder = sender.sweeper().handler("sync", async |_: Notice<i64>| Ok(())).handler_with(
        ALERT_DEFINITION,
        told,
        async |told: mpsc::Sender<String>, alert: Notice<Alert>| {
            let _ = told.send(alert.param().text());
            Ok(())
        },
    );
    (TestSweeper::start(builder).await.unwrap(), alerts)
}

/// A bulk act that a producer inserts by plain SQL, with an operator's name and order in its parameter, changes nothing.
pub(super) async fn producer_orders_nothing_in_the_name_of_an_operator<D: Accounts>(
    roles: &mut Roles<D>,
    producer: &Outbox<D::Db>,
) where
    for<'c> &'c Pool<D::Db>: Executor<'c, Database = D::Db>,
{
    let alice = roles.db.outbox.operator("alice");
    let cancelled = roles.db.add(NewNotice::new("sync", 5).unwrap()).await.unwrap().id();
    alice.cancel(cancelled, "not now").await.unwrap();
    let filter = Filter::cancelled().definition("sync");
    let own = alice.start_purge_all(&filter, "old", Rate::AT_ONCE).await.unwrap();
    alice.cancel(own.id(), "not yet").await.unwrap();
    let order =
        r#"{"verb":"purge","filter":{"statuses":["cancelled"],"definition":"sync"},"rate":"at once","who":"alice"}"#;
    let insert = format!(
        "INSERT INTO notify_msg (def_id, param) SELECT id, '{order}' FROM notify_def WHERE name = 'notify.bulk'"
    );
    producer.pool().execute(AssertSqlSafe(insert)).await.unwrap();
    let sender = roles.outbox("sweeper").await;
    let (sweeper, alerts) = reporting(&sender).await;
    // Nor does a producer send an alert.
    let alert = Alert::new(AlertKind::Raised, AlertReason::Failure, "sync", "call this number");
    let alert = serde_json::to_string(&alert).unwrap();
    let insert = format!(
        "INSERT INTO notify_msg (def_id, param) SELECT id, '{alert}' FROM notify_def WHERE name = 'notify.alert'"
    );
    producer.pool().execute(AssertSqlSafe(insert)).await.unwrap();
    sweeper.drain().await;
    assert!(roles.db.outbox.find(cancelled).await.unwrap().is_some(), "nothing is purged");
    assert!(alerts.try_iter().all(|text| !text.contains("call this number")), "no alert of a producer is sent");
    for name in ["notify.alert", "notify.bulk"] {
        let dead = alice.list(&Filter::dead_letters().definition(name), None, 10).await.unwrap().notices;
        assert_eq!(dead.len(), 1, "{name}");
        let dead = roles.db.outbox.find(dead[0].id).await.unwrap().unwrap();
        assert_eq!(dead.last_class.as_deref(), Some("invalid"), "{name}");
    }
    // MySQL and MariaDB let a session choose the next id: those of a cancelled act, and of one that has been executed.
    if <D::Db as sqlx::Database>::NAME != "PostgreSQL" {
        let executed = alice.start_purge_all(&Filter::dead_letters().definition("sync"), "old", Rate::AT_ONCE).await;
        let executed = executed.unwrap();
        sweeper.drain().await;
        assert_eq!(executed.progress().await.unwrap().unwrap().status, Status::Succeeded);
        for id in [own.id(), executed.id()] {
            let mut conn = producer.pool().acquire().await.unwrap();
            let insert =
                "INSERT INTO notify_msg (def_id, param) SELECT id, '{}' FROM notify_def WHERE name = 'notify.bulk'";
            D::Db::script(&mut conn, format!("SET insert_id = {id}; {insert}").into()).await.unwrap();
            drop(conn);
            sweeper.drain().await;
            let forged = roles.db.outbox.find(id).await.unwrap().unwrap();
            assert_eq!((forged.status, forged.last_class.as_deref()), (Status::DeadLetter, Some("invalid")));
        }
        assert!(roles.db.outbox.find(cancelled).await.unwrap().is_some(), "still nothing is purged");
        drop(sweeper);
        return;
    }
    let acts = roles.db.outbox.operator("bob").bulks().await.unwrap();
    let forged = acts.iter().find(|progress| progress.id != own.id()).unwrap();
    assert_eq!((&forged.act, forged.status), (&None, Status::DeadLetter));
    drop(sweeper);
}

/// An editor who gives built-in definitions a timetable, and lets others use their handlers, deletes and sends nothing.
pub(super) async fn editor_lets_no_built_in_definition_act<D: Accounts>()
where
    for<'c> &'c Pool<D::Db>: Executor<'c, Database = D::Db>,
{
    let mut roles = Roles::<D>::create().await;
    let alice = roles.db.outbox.operator("alice");
    let cancelled = roles.db.add(NewNotice::new("sync", 5).unwrap()).await.unwrap().id();
    alice.cancel(cancelled, "not now").await.unwrap();
    // With that the definition of bulk acts exists.
    let own = alice.start_purge_all(&Filter::dead_letters(), "old", Rate::AT_ONCE).await.unwrap();
    alice.cancel(own.id(), "not yet").await.unwrap();
    let sender = roles.outbox("sweeper").await;
    let (sweeper, alerts) = reporting(&sender).await;
    let editor = roles.outbox("editor").await;
    let order = r#"{"verb":"purge","filter":{"statuses":["cancelled"]},"rate":"at once","who":"alice"}"#;
    for sql in [
        "UPDATE notify_def SET schedule = '* * * * * *' WHERE name IN ('notify.bulk', 'notify.alert')",
        "INSERT INTO notify_def (name, handler, schedule) VALUES ('bulk', 'notify.bulk', '* * * * * *')",
        "INSERT INTO notify_def (name, handler, schedule) VALUES ('alarm', 'notify.alert', '* * * * * *')",
        "INSERT INTO notify_def (name, handler, schedule, handler_config) \
         VALUES ('purge', 'notify.purge', '* * * * * *', '{\"dead_letters\":\"1s\"}')",
        &format!("UPDATE notify_def SET handler_config = '{order}' WHERE name = 'notify.bulk'"),
    ] {
        editor.pool().execute(AssertSqlSafe(sql.to_owned())).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    for _ in 0..4 {
        sweeper.advance(Duration::from_secs(2)).await;
        sweeper.drain().await;
    }
    assert!(roles.db.outbox.find(cancelled).await.unwrap().is_some(), "nothing is purged");
    let audit = alice.audit(&solid_notify::operate::AuditFilter::all(), None, 100).await.unwrap().entries;
    assert!(audit.iter().all(|entry| entry.act != "purge"), "{audit:?}");
    // What the ticks of `notify.alert` add is no alert.
    assert!(alerts.try_iter().all(|text| text.contains("has an invalid definition") || text.contains("final")));
    let ended = async |name: &str| alice.list(&Filter::ended().definition(name), None, 100).await.unwrap().notices;
    for name in ["bulk", "alarm", "purge"] {
        assert_eq!(ended(name).await, [], "an invalid definition: the handler is for another one");
    }
    let acts = ended("notify.bulk").await;
    let refused = acts.iter().filter(|act| act.id != own.id());
    assert!(refused.clone().count() > 2 && refused.clone().all(|act| act.status == Status::DeadLetter), "{acts:?}");
    drop(sweeper);
    roles.close().await;
}
