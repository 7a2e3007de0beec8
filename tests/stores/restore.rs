//! What a restore loses beside rows: functions, procedures, views, triggers, indexes, and the next ids. `doctor` finds it, and `migrate`
//! repairs it.

use solid_notify::operate::{Finding, Severity};
use solid_notify::{Failure, Notice, NotifyDef, OutboxExt, Status};
use solid_notify_conformance::succeed;
use solid_notify_core::store::Settled;
use sqlx::Database as _;
use test_support::sending::add;
use test_support::{Database, TestDb, on_each_database};

use crate::damage::{claim, define};

on_each_database!(
    migrate_creates_again_each_object_that_was_dropped,
    migrate_replaces_objects_that_differ,
    ids_that_would_be_given_twice_are_found_and_repaired,
    dead_letter_is_kept_when_its_id_was_given_twice,
    dead_letter_is_kept_when_the_notice_of_its_id_is_acked_by_sql,
    dead_letter_is_kept_when_the_notice_of_its_id_is_cancelled,
);

async fn of<D: Database>(db: &TestDb<D>, check: &str) -> Finding {
    let findings = db.outbox.operator("alice").examine().await;
    findings.iter().find(|finding| finding.check == check).unwrap_or_else(|| panic!("{check}: {findings:?}")).clone()
}

/// The statements that drop one object each, and the check and the name by which it is reported.
fn drops(database: &str) -> Vec<(&'static str, &'static str, &'static str)> {
    let mut drops = vec![
        ("DROP VIEW notify_pending", "objects", "notify_pending"),
        ("DROP VIEW notify_done", "objects", "notify_done"),
        ("DROP VIEW notify_error", "objects", "notify_error"),
    ];
    drops.extend_from_slice(match database {
        "PostgreSQL" => &[
            ("DROP FUNCTION notify_ack", "objects", "notify_ack(bigint)"),
            (
                "DROP FUNCTION notify_add(text, jsonb, text, interval, text, text, text, text, integer, timestamptz, text)",
                "objects",
                "notify_add(text, jsonb, ",
            ),
            (
                "DROP FUNCTION notify_add(text, text, text, interval, text, text, text, text, integer, timestamptz, text)",
                "objects",
                "notify_add(text, text, ",
            ),
            ("DROP INDEX notify_msg_due", "indexes", "notify_msg_due"),
            ("DROP INDEX notify_msg_dedupe", "indexes", "notify_msg_dedupe"),
            ("DROP INDEX notify_audit_steps", "indexes", "notify_audit_steps"),
        ][..],
        "MySQL" => &[
            ("DROP PROCEDURE notify_ack", "objects", "notify_ack"),
            ("DROP PROCEDURE notify_add", "objects", "notify_add"),
            ("DROP PROCEDURE notify_add_with", "objects", "notify_add_with"),
            ("DROP INDEX notify_msg_due ON notify_msg", "indexes", "notify_msg_due"),
            ("DROP INDEX notify_msg_dedupe ON notify_msg", "indexes", "notify_msg_dedupe"),
            ("DROP INDEX notify_audit_steps ON notify_audit", "indexes", "notify_audit_steps"),
        ],
        _ => &[
            ("DROP VIEW notify_add", "objects", "notify_add, notify_add_insert"),
            ("DROP TRIGGER notify_ack_insert", "objects", "notify_ack_insert"),
            ("DROP INDEX notify_msg_due", "indexes", "notify_msg_due"),
            ("DROP INDEX notify_msg_dedupe", "indexes", "notify_msg_dedupe"),
            ("DROP INDEX notify_audit_steps", "indexes", "notify_audit_steps"),
        ],
    });
    drops
}

async fn migrate_creates_again_each_object_that_was_dropped<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    for check in ["objects", "indexes", "ids"] {
        assert_eq!(of(&db, check).await.severity, Severity::Fine, "{check}");
    }
    for (drop, check, name) in drops(D::Db::NAME) {
        db.sql(drop).await;
        let found = of(&db, check).await;
        assert_eq!((found.severity, found.remedy.as_str()), (Severity::Problem, "solid-notify migrate"), "{drop}");
        assert!(found.found.contains(name), "{drop}: {found:?}");
        db.outbox.migrate().await.unwrap();
        assert_eq!(of(&db, check).await.severity, Severity::Fine, "{drop}");
    }
    // What was created again works.
    define(&db).await;
    db.sql(match D::Db::NAME {
        "PostgreSQL" => "SELECT notify_add('sync', '7')",
        "MySQL" => "CALL notify_add('sync', '7')",
        _ => "INSERT INTO notify_add (name, param) VALUES ('sync', '7')",
    })
    .await;
    assert_eq!(D::number(&db.pool, "SELECT count(*) FROM notify_pending").await, 1);
    db.close().await;
}

async fn migrate_replaces_objects_that_differ<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    let (others, names): (&[&str], &str) = match D::Db::NAME {
        "PostgreSQL" => (
            &[
                "CREATE OR REPLACE FUNCTION notify_ack(notice_id bigint) RETURNS text LANGUAGE sql AS $$ SELECT 'applied' $$",
                "ALTER FUNCTION notify_add(text, jsonb, text, interval, text, text, text, text, integer, timestamptz, text)
                    RESET search_path",
            ],
            "notify_add(text, jsonb, text, interval, text, text, text, text, integer, timestamp with time zone, text), notify_ack(bigint)",
        ),
        "MySQL" => (
            &[
                "DROP PROCEDURE notify_ack",
                "CREATE PROCEDURE notify_ack(IN the_id bigint, OUT result varchar(30)) SET result = 'applied'",
            ],
            "notify_ack",
        ),
        _ => (
            &[
                "DROP TRIGGER notify_ack_insert",
                "CREATE TRIGGER notify_ack_insert INSTEAD OF INSERT ON notify_ack BEGIN SELECT 1; END",
                // On one connection: another one would not know yet that the index is gone.
                "DROP INDEX notify_msg_tag; CREATE INDEX notify_msg_tag ON notify_msg (tag)",
            ],
            "notify_ack_insert",
        ),
    };
    for other in others {
        db.sql(other).await;
    }
    let found = of(&db, "objects").await;
    assert_eq!((found.severity, found.found.rsplit(": ").next().unwrap()), (Severity::Problem, names));
    db.outbox.migrate().await.unwrap();
    for check in ["objects", "indexes"] {
        assert_eq!(of(&db, check).await.severity, Severity::Fine, "{check}");
    }
    // A newer release may have other ones.
    db.sql(others[0]).await;
    db.sql("INSERT INTO notify_schema (version) VALUES (1000)").await;
    db.outbox.migrate().await.unwrap();
    db.sql("DELETE FROM notify_schema WHERE version = 1000").await;
    assert_eq!(of(&db, "objects").await.severity, Severity::Problem, "it was left alone");
    db.close().await;
}

/// Sets the next id of a table back to 1.
async fn forget_ids<D: Database>(db: &TestDb<D>, table: &str) {
    db.sql(&match D::Db::NAME {
        "PostgreSQL" => format!("ALTER SEQUENCE {table}_id_seq RESTART"),
        "MySQL" => format!("ALTER TABLE {table} AUTO_INCREMENT = 1"),
        _ => format!("DELETE FROM sqlite_sequence WHERE name = '{table}'"),
    })
    .await;
}

async fn ids_that_would_be_given_twice_are_found_and_repaired<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    let def_id = define(&db).await;
    let ids = [add(&db, "sync").await, add(&db, "sync").await, add(&db, "sync").await];
    let batch: Vec<_> = claim(&db, def_id).await.unwrap().iter().map(succeed).collect();
    assert_eq!(db.outbox.engine().stores().send.settle(&batch).await.unwrap(), vec![Settled::Stored; 3]);
    // InnoDB takes the greatest id of the table, and SQLite does, too; here there is none.
    forget_ids(&db, "notify_msg").await;
    let found = of(&db, "ids").await;
    assert_eq!((found.severity, found.remedy.as_str()), (Severity::Problem, "solid-notify migrate"));
    assert_eq!(found.found, format!("the next id of notify_msg is 1, and {} was given", ids[2]));
    db.outbox.migrate().await.unwrap();
    assert_eq!(of(&db, "ids").await.severity, Severity::Fine);
    assert_eq!(add(&db, "sync").await, ids[2] + 1);
    if D::Db::NAME == "PostgreSQL" {
        forget_ids(&db, "notify_def").await;
        forget_ids(&db, "notify_audit").await;
        db.sql("INSERT INTO notify_audit (id, who, act) VALUES (1, 'alice', 'test')").await;
        let found = of(&db, "ids").await.found;
        assert!(found.contains("notify_def") && found.contains("notify_audit"), "{found}");
        db.outbox.migrate().await.unwrap();
        db.outbox.define_if_missing(NotifyDef::new("another")).await.unwrap();
    }
    db.close().await;
}

/// A dead letter with the id 100, and a live notice to which the same id was given. Both have an ordering key.
async fn given_twice<D: Database>() -> (TestDb<D>, i64) {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync").max_retry_times(0)).await.unwrap();
    let def_id = define(&db).await;
    let insert = |param: i64| {
        format!("INSERT INTO notify_msg (id, def_id, param, ordering_key) VALUES (100, {def_id}, '{param}', 'key')")
    };
    db.sql(&insert(1)).await;
    let fails = async |_: Notice<i64>| Err(Failure::retry("down"));
    db.outbox.sweeper().handler("sync", fails).run_until_idle().await.unwrap();
    assert_eq!(db.outbox.find(100).await.unwrap().unwrap().status, Status::DeadLetter);
    db.sql(&insert(2)).await;
    (db, def_id)
}

/// The live notice has ended under its id. Returns the new id of the dead letter.
async fn dead_letter_is_kept<D: Database>(db: &TestDb<D>, ended: Status) -> i64 {
    let ours = db.outbox.find(100).await.unwrap().unwrap();
    assert_eq!((ours.status, ours.param.as_str()), (ended, "2"));
    let id = D::number(&db.pool, "SELECT max(id) FROM notify_msg_history WHERE status = 3").await;
    let dead = db.outbox.find(id).await.unwrap().unwrap();
    assert_eq!((dead.status, dead.param.as_str(), dead.failures), (Status::DeadLetter, "1", 1));
    assert!(id > 100, "{id}");
    id
}

async fn audit_names_the_new_id<D: Database>(db: &TestDb<D>) {
    let entries = "SELECT count(*) FROM notify_audit a JOIN notify_msg_history h ON h.id = a.notice_id
                   WHERE h.status = 3 AND a.who = 'solid-notify' AND a.act = 'renumber'
                     AND a.detail = 'its id 100 was given to another notice'";
    assert_eq!(D::number(&db.pool, entries).await, 1);
}

async fn dead_letter_is_kept_when_its_id_was_given_twice<D: Database>() {
    let (db, def_id) = given_twice::<D>().await;
    let claimed = claim(&db, def_id).await.unwrap();
    assert_eq!(db.outbox.engine().stores().send.settle(&[succeed(&claimed[0])]).await.unwrap(), [Settled::Stored]);
    let id = dead_letter_is_kept(&db, Status::Succeeded).await;
    audit_names_the_new_id(&db).await;
    // It can be sent once more.
    db.outbox.operator("alice").retry(id).await.unwrap();
    db.outbox.sweeper().handler("sync", async |_: Notice<i64>| Ok(())).run_until_idle().await.unwrap();
    assert_eq!(db.outbox.find(id).await.unwrap().unwrap().status, Status::Succeeded);
    db.close().await;

    // By an ack in a transaction of the store.
    let (db, def_id) = given_twice::<D>().await;
    claim(&db, def_id).await.unwrap();
    db.outbox.ack(100).await.unwrap();
    dead_letter_is_kept(&db, Status::Succeeded).await;
    audit_names_the_new_id(&db).await;
    db.close().await;
}

async fn dead_letter_is_kept_when_the_notice_of_its_id_is_acked_by_sql<D: Database>() {
    let (db, _) = given_twice::<D>().await;
    db.sql(match D::Db::NAME {
        "PostgreSQL" => "SELECT notify_ack(100)",
        "MySQL" => "CALL notify_ack(100, @result)",
        _ => "INSERT INTO notify_ack (id) VALUES (100)",
    })
    .await;
    dead_letter_is_kept(&db, Status::Succeeded).await;
    db.close().await;
}

async fn dead_letter_is_kept_when_the_notice_of_its_id_is_cancelled<D: Database>() {
    let (db, _) = given_twice::<D>().await;
    db.outbox.operator("alice").cancel(100, "not needed").await.unwrap();
    dead_letter_is_kept(&db, Status::Cancelled).await;
    audit_names_the_new_id(&db).await;
    db.close().await;
}

mod on_postgres {
    use super::*;

    #[tokio::test]
    async fn invalid_index_is_created_again_on_postgres() {
        let db = TestDb::<test_support::Postgres>::with_real_clock().await;
        db.sql("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'notify_msg_due'::regclass").await;
        assert_eq!(of(&db, "indexes").await.found, "missing or invalid: notify_msg_due");
        db.outbox.migrate().await.unwrap();
        assert_eq!(of(&db, "indexes").await.severity, Severity::Fine);
        db.close().await;
    }
}

mod on_mysql_family {
    use test_support::databases::{Cleanup, fresh_name};

    use super::*;

    test_support::on_mysql_family!(view_of_an_account_that_was_dropped_is_found_and_repaired);

    async fn view_of_an_account_that_was_dropped_is_found_and_repaired<D: Database<Db = sqlx::MySql>>() {
        let db = TestDb::<D>::with_real_clock().await;
        let Cleanup::Database(_, name) = &db.cleanup else { panic!("no database") };
        let account = fresh_name();
        db.sql(&format!("CREATE USER {account}")).await;
        db.sql(&format!("GRANT ALL ON {name}.* TO {account}")).await;
        db.sql("DROP VIEW notify_error").await;
        db.sql("DROP PROCEDURE notify_add").await;
        let definer = format!("CREATE DEFINER = {account}@`%`");
        db.sql(&format!("{definer} VIEW notify_error AS SELECT id FROM notify_msg_history WHERE status = 3")).await;
        assert_eq!(of(&db, "objects").await.found, "missing, different or not readable: notify_add");
        db.sql(&format!("DROP USER {account}")).await;
        let found = of(&db, "objects").await;
        assert_eq!(found.found, "missing, different or not readable: notify_add, notify_error");
        db.outbox.migrate().await.unwrap();
        assert_eq!(of(&db, "objects").await.severity, Severity::Fine);
        assert_eq!(D::number(&db.pool, "SELECT count(*) FROM notify_error WHERE finish_time IS NOT NULL").await, 0);
        db.close().await;
    }
}

mod on_mariadb {
    use std::process::{Command, Stdio};

    use test_support::MariaDb;
    use test_support::databases::Cleanup;

    use super::*;

    /// The usual dump, which leaves out procedures, loaded into another database.
    #[tokio::test]
    async fn dump_without_procedures_is_repaired_on_mariadb() {
        let db = TestDb::<MariaDb>::with_real_clock().await;
        define(&db).await;
        add(&db, "sync").await;
        let (server, name) = match &db.cleanup {
            Cleanup::Database(server, name) => (server.clone(), name.clone()),
            _ => panic!("no database"),
        };
        let dump = Command::new("mariadb-dump")
            .args(["--no-defaults", "--protocol=tcp", "--host", server.get_host(), "--user", server.get_username()])
            .args(["--port", &server.get_port().to_string(), &name])
            .stderr(Stdio::inherit())
            .output()
            .expect("mariadb-dump belongs to the client");
        assert!(dump.status.success());
        let restored = MariaDb::create_empty().await;
        let pool = MariaDb::connect(&restored, 4).await;
        let restored = TestDb::<MariaDb>::over(solid_notify::Outbox::new(pool.clone()), pool, restored);
        restored.shell().run(String::from_utf8(dump.stdout).unwrap()).well();
        let found = of(&restored, "objects").await;
        assert_eq!(found.found, "missing, different or not readable: notify_add_with, notify_add, notify_ack");
        restored.outbox.migrate().await.unwrap();
        assert_eq!(of(&restored, "objects").await.severity, Severity::Fine);
        restored.sql("CALL notify_add('sync', '8')").await;
        assert_eq!(MariaDb::number(&restored.pool, "SELECT count(*) FROM notify_pending").await, 2);
        restored.close().await;
        db.close().await;
    }
}
