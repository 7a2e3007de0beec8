//! Cases of MySQL and MariaDB alone: modes and character sets of sessions, `LAST_INSERT_ID()`, locks of reads.

use solid_notify::NotifyDef;
use sqlx::Executor;
use test_support::databases::Cleanup;
use test_support::shell::Shell;
use test_support::{Database, TestDb};

use super::{notices, with_sync};

macro_rules! cases {
    ($module:ident, $database:ident) => {
        test_support::on_each_database! { @on $module, $database, the_mode_of_the_session_does_not_matter the_character_set_of_the_session_does_not_matter notify_add_can_be_called_from_another_database notify_add_returns_its_id_and_keeps_last_insert_id an_edit_of_a_definition_does_not_wait_for_a_transaction_that_called_it a_definition_that_is_younger_than_the_snapshot_is_found notify_add_needs_the_rights_that_its_comment_names }
    };
}
cases!(mariadb, MariaDb);
cases!(mysql, MySql);

fn server<D: Database>(db: &TestDb<D>) -> (Shell, &str) {
    match &db.cleanup {
        Cleanup::Database(server, name) => (Shell::mysql(D::CLIENT, server), name),
        _ => panic!("not a database"),
    }
}

async fn the_mode_of_the_session_does_not_matter<D: Database<Db = sqlx::MySql>>() {
    let db = with_sync::<D>().await;
    let is_mariadb =
        sqlx::query_scalar::<_, String>("SELECT version()").fetch_one(&db.pool).await.unwrap().contains("MariaDB");
    for mode in ["", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES", "ANSI", "ORACLE", "TRADITIONAL"] {
        if mode == "ORACLE" && !is_mariadb {
            continue;
        }
        db.sql("DELETE FROM notify_msg").await;
        // No mode makes it cut long values, or accept values that it cannot read.
        for list in [
            "'sync', '1', NULL, NULL, NULL, repeat('k', 201), NULL, NULL, NULL, NULL, NULL, @id",
            "'sync', '1', NULL, NULL, NULL, '', NULL, NULL, NULL, NULL, NULL, @id",
            "'sync', '{', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, @id",
            "'missing', '1', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, @id",
            "repeat('sync', 100), '1', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, @id",
        ] {
            let complaint = db.shell().run(format!("SET sql_mode = '{mode}'; CALL notify_add_with({list});")).refused();
            assert!(complaint.contains("(45000)") && complaint.contains("notify_add: "), "{mode}: {complaint}");
        }
        let backslashes = if mode.contains("NO_BACKSLASH") { r"\\" } else { r"\\\\" };
        db.shell()
            .run(format!(r#"SET sql_mode = '{mode}'; CALL notify_add('sync', '{{"path": "c:{backslashes}"}}');"#))
            .well();
        let notices = notices(&db).await;
        assert_eq!(notices.len(), 1, "{mode}");
        assert_eq!(notices[0].param, r#"{"path": "c:\\"}"#, "{mode}");
    }
    db.close().await;
}

async fn the_character_set_of_the_session_does_not_matter<D: Database<Db = sqlx::MySql>>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("grüße")).await.unwrap();
    let latin1 =
        b"CALL notify_add_with('gr\xfc\xdfe', '\"\xe9\"', '\xe9', 0, '\xe9', NULL, '\xe9', NULL, NULL, NULL, '\xe9', @id);";
    db.shell().arg("--default-character-set=latin1").run(latin1).well();
    let notice = notices(&db).await.remove(0);
    assert_eq!(notice.param, "\"é\"");
    for field in [notice.description, notice.ordering_key, notice.dedupe_key, notice.tag] {
        assert_eq!(field.as_deref(), Some("é"));
    }
    db.close().await;
}

async fn notify_add_can_be_called_from_another_database<D: Database<Db = sqlx::MySql>>() {
    let db = with_sync::<D>().await;
    let (shell, name) = server(&db);
    shell.run(format!("CALL {name}.notify_add('sync', '1');")).well();
    assert_eq!(notices(&db).await.len(), 1);
    db.close().await;
}

async fn notify_add_returns_its_id_and_keeps_last_insert_id<D: Database<Db = sqlx::MySql>>() {
    let db = with_sync::<D>().await;
    db.sql("CREATE TABLE business (id bigint AUTO_INCREMENT PRIMARY KEY) AUTO_INCREMENT = 1000").await;
    let add = "CALL notify_add_with('sync', '1', NULL, NULL, NULL, NULL, 'k', NULL, NULL, NULL, NULL, @id); SELECT @id, LAST_INSERT_ID();";
    let said = db
        .shell()
        .run(format!(
            "INSERT INTO business VALUES (); CALL notify_add('sync', LAST_INSERT_ID()); {add} SET @id = 0; {add}"
        ))
        .well();
    let notices = notices(&db).await;
    assert_eq!(notices[0].param, "1000");
    assert_eq!(notices.len(), 2, "{notices:?}");
    let expected = format!("{}\t1000", notices[1].id);
    assert_eq!(said, format!("{expected}\n{expected}"), "the second is a duplicate");
    db.close().await;
}

async fn an_edit_of_a_definition_does_not_wait_for_a_transaction_that_called_it<D: Database<Db = sqlx::MySql>>() {
    let db = with_sync::<D>().await;
    let mut open = db.pool.begin().await.unwrap();
    for call in [
        "CALL notify_add('sync', '1')",
        "CALL notify_add_with('sync', '1', NULL, 0, NULL, NULL, 'k', NULL, NULL, NULL, NULL, @id)",
        "CALL notify_add_with('sync', '1', NULL, 0, NULL, NULL, 'k', NULL, NULL, NULL, NULL, @id)",
    ] {
        (&mut *open).execute(sqlx::raw_sql(call)).await.unwrap();
    }
    db.shell()
        .run(
            "SET innodb_lock_wait_timeout = 1;
             UPDATE notify_def SET retry_interval = '1s' WHERE name = 'sync';
             INSERT INTO notify_def (name) VALUES ('synd'), ('aaa');
             UPDATE notify_def SET name = 'renamed' WHERE name = 'sync';
             DELETE FROM notify_def WHERE name = 'renamed';",
        )
        .well();
    open.commit().await.unwrap();
    assert_eq!(notices(&db).await.len(), 2);
    db.close().await;
}

async fn a_definition_that_is_younger_than_the_snapshot_is_found<D: Database<Db = sqlx::MySql>>() {
    let db = TestDb::<D>::with_real_clock().await;
    let mut open = db.pool.begin().await.unwrap();
    (&mut *open).execute("SELECT * FROM notify_def").await.unwrap();
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    (&mut *open).execute(sqlx::raw_sql("CALL notify_add('sync', '1')")).await.unwrap();
    open.commit().await.unwrap();
    assert_eq!(notices(&db).await.len(), 1);
    db.close().await;
}

async fn notify_add_needs_the_rights_that_its_comment_names<D: Database<Db = sqlx::MySql>>() {
    let db = with_sync::<D>().await;
    let name = server(&db).1;
    db.sql(&format!("CREATE USER {name}@'%'")).await;
    let run = |script: &str| server(&db).0.args(&["--user", name, name]).run(script);
    let add = "CALL notify_add('sync', '1');
               CALL notify_add_with('sync', '1', NULL, 0, NULL, NULL, 'k', NULL, NULL, NULL, NULL, @id);
               CALL notify_add_with('sync', '1', NULL, 0, NULL, NULL, 'k', NULL, NULL, NULL, NULL, @id);";
    for right in [
        "EXECUTE ON PROCEDURE notify_add",
        "EXECUTE ON PROCEDURE notify_add_with",
        "SELECT ON notify_def",
        "INSERT ON notify_msg",
        "SELECT ON notify_msg",
    ] {
        let complaint = run(add).refused();
        assert!(complaint.contains("denied"), "before {right}: {complaint}");
        db.sql(&format!("GRANT {right} TO {name}@'%'")).await;
    }
    run(add).well();
    let complaint = run("CALL notify_add('missing', '1');").refused();
    assert!(complaint.contains("there is no definition 'missing'"), "{complaint}");
    db.sql(&format!("DROP USER {name}@'%'")).await;
    db.close().await;
}
