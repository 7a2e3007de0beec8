//! Cases of Postgres alone: search paths, and roles with few rights.

use solid_notify::Outbox;
use test_support::databases::Cleanup;
use test_support::shell::Shell;
use test_support::{Postgres, TestDb};

use super::{notices, with_sync};

fn schema(db: &TestDb<Postgres>) -> &str {
    match &db.cleanup {
        Cleanup::Schema(_, name) => name,
        _ => panic!("not a schema"),
    }
}

#[tokio::test]
async fn the_path_of_the_session_does_not_matter() {
    let db = with_sync::<Postgres>().await;
    let schema = schema(&db);
    for path in ["''", "pg_catalog", "nowhere, pg_temp"] {
        let script = format!(
            "SET search_path = {path};
             CREATE TEMP TABLE notify_def (id bigint, name text, delete_time timestamptz);
             CREATE TEMP TABLE notify_msg (id bigint);
             SELECT {schema}.notify_add('sync', '1');
             CREATE TABLE IF NOT EXISTS {schema}.orders (id bigint);
             CREATE OR REPLACE FUNCTION {schema}.order_changed() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 PERFORM {schema}.notify_add('sync', to_json(NEW));
                 RETURN NULL;
             END $$;
             CREATE OR REPLACE TRIGGER order_changed AFTER INSERT ON {schema}.orders
                 FOR EACH ROW EXECUTE FUNCTION {schema}.order_changed();
             INSERT INTO {schema}.orders VALUES (7);"
        );
        Shell::psql().run(script).well();
    }
    let params: Vec<_> = notices(&db).await.into_iter().map(|notice| notice.param).collect();
    assert_eq!(params, ["1", r#"{"id":7}"#].repeat(3));
    db.close().await;
}

/// A literal has no type, and drivers send parameters as texts. An outbox column and a row in a trigger are usually jsonb.
#[tokio::test]
async fn parameter_may_be_text_json_or_jsonb() {
    let db = with_sync::<Postgres>().await;
    let script = r#"
        SELECT notify_add('sync', '{ "a":1.10, "a":2 }');
        SELECT notify_add('sync', '{ "a":1.10, "a":2 }'::text);
        SELECT notify_add('sync', '{ "a":1.10, "a":2 }'::json);
        SELECT notify_add('sync', '{ "b":1e2, "a":1.10, "a":2 }'::jsonb);
        SELECT notify_add('sync', param => to_jsonb(7), delay => '0');
        SELECT notify_add(name => 'sync');
        SELECT notify_add('sync', NULL);
        SELECT notify_add('sync', NULL::jsonb, unique_until_ended => 'k');
        SELECT notify_add('sync', 'null'::jsonb, unique_until_ended => 'k');
        PREPARE untyped AS SELECT notify_add('sync', $1);
        EXECUTE untyped('"text"');
        CREATE TABLE outbox (payload jsonb, line varchar(20));
        INSERT INTO outbox VALUES ('{"z": 1, "a": 2}', '[1]');
        SELECT notify_add('sync', payload) FROM outbox;
        SELECT notify_add('sync', line) FROM outbox;"#;
    db.shell().run(script).well();
    let params: Vec<_> = notices(&db).await.into_iter().map(|notice| notice.param).collect();
    let written = r#"{ "a":1.10, "a":2 }"#;
    let read = [written, written, written, r#"{"a": 2, "b": 100}"#, "7", "null", "null", "null", r#""text""#];
    assert_eq!(params, [&read[..], &[r#"{"a": 2, "z": 1}"#, "[1]"]].concat());
    let refused = db.shell().run("SELECT notify_add('sync', 'no JSON');");
    assert!(!refused.ok && refused.complaint.contains("invalid input syntax for type json"), "{refused:?}");
    let hint = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT notify_add('none', '1');";
    assert!(db.shell().run(hint).complaint.contains("run it again"));
    db.close().await;
}

/// Runs a test as a role that may do only what it is granted.
async fn as_role(db: &TestDb<Postgres>, test: impl AsyncFnOnce(&str)) {
    let role = format!("{}_role", schema(db));
    db.sql(&format!("CREATE ROLE {role}")).await;
    test(&role).await;
    db.sql(&format!("DROP OWNED BY {role}")).await;
    db.sql(&format!("DROP ROLE {role}")).await;
}

#[tokio::test]
async fn notify_add_needs_the_rights_that_its_comment_names() {
    let db = with_sync::<Postgres>().await;
    as_role(&db, async |role| {
        let add =
            format!("SET ROLE {role}; SELECT {}.notify_add('sync', '1', unique_until_ended => 'k');", schema(&db));
        for right in [
            &format!("USAGE ON SCHEMA {}", schema(&db)),
            "SELECT ON notify_def",
            "INSERT ON notify_msg",
            "SELECT ON notify_msg",
        ] {
            let complaint = Shell::psql().run(&add).refused();
            assert!(complaint.contains("permission denied"), "before {right}: {complaint}");
            db.sql(&format!("GRANT {right} TO {role}")).await;
        }
        let ids = Shell::psql().run(format!("{add} {add}")).well();
        assert_eq!(ids, "1\n1", "the second is a duplicate");
        let add = add.replace("unique_until_ended => 'k'", "unique_until_claimed => 'state'");
        let complaint = Shell::psql().run(format!("{add} {add}")).refused();
        assert!(complaint.contains("permission denied"), "{complaint}");
        db.sql(&format!("GRANT UPDATE (id) ON notify_msg TO {role}")).await;
        let ids = Shell::psql().run(format!("{add} {add}")).well();
        let (one, other) = ids.split_once('\n').unwrap();
        assert_eq!(one, other, "the second is a duplicate");
    })
    .await;
    db.close().await;
}

/// The tables are found although "$user" is another role then.
#[tokio::test]
async fn a_schema_that_was_found_by_the_name_of_its_user_is_found_by_others() {
    let db = with_sync::<Postgres>().await;
    as_role(&db, async |role| {
        db.sql(&format!("CREATE SCHEMA AUTHORIZATION {role}")).await;
        let printed = Outbox::<sqlx::Postgres>::schema();
        Shell::psql().run(format!("SET ROLE {role}; SET search_path = \"$user\"; {printed}")).well();
        Shell::psql().run(format!("INSERT INTO {role}.notify_def (name) VALUES ('sync');")).well();
        let added = format!("SELECT {role}.notify_add('sync', '1'); SELECT count(*) FROM {role}.notify_msg;");
        assert_eq!(Shell::psql().run(added).well(), "1\n1");
    })
    .await;
    db.close().await;
}
