//! Versions of definitions in databases: stored with the edit or not at all, beside locks, and for rows without a version.

use solid_notify::operate::AuditFilter;
use solid_notify::sql::Dialect;
use solid_notify::{Notice, NotifyDef, OutboxExt, Sweeper};
use test_support::sending::{PATIENCE, eventually};
use test_support::{Database, TestDb, on_each_database};

on_each_database!(
    an_edit_whose_version_cannot_be_stored_is_not_made,
    rows_of_an_earlier_release_get_their_first_version_from_a_sweeper,
    an_edit_by_sql_is_kept_once_by_two_sweepers,
);

mod servers {
    use super::a_row_that_is_locked_delays_no_sweeper;

    test_support::on_each_server!(a_row_that_is_locked_delays_no_sweeper);
}

/// Returns the author and the origin of each version of a definition, the latest first.
async fn history<D: Database>(db: &TestDb<D>, id: i64) -> Vec<(String, String)> {
    let versions = db.outbox.operator("alice").versions(id).await.unwrap().into_iter();
    versions.map(|version| (version.who, version.act)).collect()
}

async fn sweeper<D: Database>(db: &TestDb<D>, name: &str) -> Sweeper {
    let builder = db.outbox.sweeper().node_name(name);
    builder.handler("sync", |_: Notice<i64>| async { Ok(()) }).start().await.unwrap()
}

async fn an_edit_whose_version_cannot_be_stored_is_not_made<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    // It makes the built-in definitions.
    sweeper(&db, "first").await.shutdown().await;
    let seen = db.outbox.operator("alice").definition("sync").await.unwrap();
    let (on, off) = match <D::Db as sqlx::Database>::NAME {
        "PostgreSQL" => (
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
             CREATE TRIGGER refuse BEFORE INSERT ON notify_def_version FOR EACH ROW EXECUTE FUNCTION refuse()",
            "DROP TRIGGER refuse ON notify_def_version",
        ),
        "MySQL" => (
            "CREATE TRIGGER refuse BEFORE INSERT ON notify_def_version FOR EACH ROW SIGNAL SQLSTATE '45000'
             SET MESSAGE_TEXT = 'no'",
            "DROP TRIGGER refuse",
        ),
        _ => (
            "CREATE TRIGGER refuse BEFORE INSERT ON notify_def_version BEGIN SELECT RAISE(ABORT, 'no'); END",
            "DROP TRIGGER refuse",
        ),
    };
    db.sql(on).await;
    let alice = db.outbox.operator("alice");
    assert!(alice.edit_definition(&seen, seen.clone().timeout("1s")).await.is_err());
    assert!(db.outbox.update(&seen, seen.clone().timeout("1s")).await.is_err());
    assert!(alice.delete_definition(&seen).await.is_err());
    assert!(db.outbox.define_if_missing(NotifyDef::new("other")).await.is_err());
    // A sweeper sends all the same.
    db.sql("UPDATE notify_def SET timeout = '9s' WHERE name = 'sync'").await;
    let running = sweeper(&db, "node").await;
    db.sql(off).await;
    let rows = db.outbox.definitions().await.unwrap();
    let names: Vec<&str> = rows.iter().map(|state| state.row.name.as_str()).collect();
    assert!(!names.contains(&"other") && names.contains(&"sync"), "{names:?}");
    assert_eq!(rows.iter().find(|state| state.row.id == seen.id).unwrap().row.timeout, "9s");
    let audit = alice.audit(&AuditFilter::all(), None, 10).await.unwrap().entries;
    assert!(audit.iter().all(|entry| entry.who != "alice"));
    // It stores the missing version at its next reading.
    eventually("the edit by hand is kept", async || history(&db, seen.id).await.len() == 2).await;
    running.shutdown().await;
    db.close().await;
}

async fn rows_of_an_earlier_release_get_their_first_version_from_a_sweeper<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync").timeout("9s")).await.unwrap();
    let seen = db.outbox.operator("alice").definition("sync").await.unwrap();
    db.sql("DELETE FROM notify_def_version").await;
    let running = sweeper(&db, "node").await;
    eventually("its first version", async || !history(&db, seen.id).await.is_empty()).await;
    let versions = db.outbox.operator("alice").versions("sync").await.unwrap();
    assert_eq!((versions.len(), versions[0].version, versions[0].row.timeout.as_str()), (1, 1, "9s"));
    assert!(versions[0].who.starts_with("by hand, seen by node-"), "{versions:?}");
    running.shutdown().await;
    // Without a sweeper the edit itself does.
    db.sql("DELETE FROM notify_def_version").await;
    db.outbox.update(&seen, seen.clone().timeout("1s")).await.unwrap();
    let told = |who: &str, act: &str| (who.to_owned(), act.to_owned());
    let expected = [told("application", "edited"), told("by hand, seen by application", "by hand")];
    assert_eq!(history(&db, seen.id).await, expected);
    db.close().await;
}

async fn an_edit_by_sql_is_kept_once_by_two_sweepers<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let id = db.outbox.operator("alice").definition("sync").await.unwrap().id;
    let (one, two) = (sweeper(&db, "one").await, sweeper(&db, "two").await);
    for (count, timeout) in (2..).zip(["1s", "2s", "3s"]) {
        db.sql(&format!("UPDATE notify_def SET timeout = '{timeout}' WHERE name = 'sync'")).await;
        db.outbox.wake();
        eventually("the edit is kept", async || history(&db, id).await.len() == count).await;
    }
    db.sql("DELETE FROM notify_def WHERE name = 'sync'").await;
    db.outbox.wake();
    eventually("the deletion is kept", async || history(&db, id).await.len() == 5).await;
    // Both have read them again since, and neither keeps anything twice.
    for sweeper in [&one, &two] {
        sweeper.idle().await;
    }
    let history = history(&db, id).await;
    assert_eq!(history.len(), 5, "{history:?}");
    assert!(
        history[..4].iter().all(|(who, act)| who.starts_with("by hand, seen by ") && act == "by hand"),
        "{history:?}"
    );
    one.shutdown().await;
    two.shutdown().await;
    db.close().await;
}

async fn a_row_that_is_locked_delays_no_sweeper<D: Database>()
where
    for<'c> &'c mut <D::Db as sqlx::Database>::Connection: sqlx::Executor<'c, Database = D::Db>,
    D::Db: Dialect,
{
    use sqlx::Executor;

    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    db.outbox.define_if_missing(NotifyDef::new("other")).await.unwrap();
    db.sql("UPDATE notify_def SET timeout = '9s'").await;
    let rows: Vec<NotifyDef> = db.outbox.definitions().await.unwrap().into_iter().map(|state| state.row).collect();
    let id = |name: &str| rows.iter().find(|row| row.name == name).unwrap().id;
    let mut editor = db.pool.begin().await.unwrap();
    (&mut *editor).execute("SELECT id FROM notify_def WHERE name = 'sync' FOR UPDATE").await.unwrap();
    let look = db.outbox.engine().stores().definitions.remember(&rows, "node");
    let all = tokio::time::timeout(PATIENCE, look).await.expect("it waits for no lock").unwrap();
    assert!(!all, "it says that it must look again");
    assert_eq!((history(&db, id("sync")).await.len(), history(&db, id("other")).await.len()), (1, 2));
    editor.rollback().await.unwrap();
    assert!(db.outbox.engine().stores().definitions.remember(&rows, "node").await.unwrap());
    assert_eq!((history(&db, id("sync")).await.len(), history(&db, id("other")).await.len()), (2, 2));
    db.close().await;
}
