//! Cases of SQLite alone: conflict clauses of the outer statement, which reach into triggers; values of any type.

use solid_notify::NotifyDef;
use test_support::{Sqlite, TestDb};

use super::statement::Plain;
use super::{notices, with_sync};

#[tokio::test]
async fn no_conflict_clause_of_the_caller_loses_or_replaces_a_notice() {
    let db = with_sync::<Sqlite>().await;
    db.outbox.define_if_missing(NotifyDef::new("order_changed")).await.unwrap();
    for (values, words) in [
        ("('missing', '1', NULL)", "there is no definition"),
        ("('sync', '{', NULL)", "the parameter is not JSON"),
        ("('sync', '1', '')", "a key must have 1 to 200 characters"),
    ] {
        for clause in ["OR IGNORE", "OR REPLACE", "OR FAIL"] {
            let sql = format!("INSERT {clause} INTO notify_add (name, param, unique_until_ended) VALUES {values};");
            let complaint = db.shell().run(sql).refused();
            assert!(complaint.contains(words), "{complaint}");
        }
    }
    let keyed = |param| {
        format!("INSERT OR REPLACE INTO notify_add (name, param, unique_until_ended) VALUES ('sync', {param}, 'k');")
    };
    db.shell().run(format!("{} {}", keyed(1), keyed(2))).well();
    // A row that is replaced is a row that changes.
    db.shell().run(Sqlite::ORDERS).well();
    db.shell().run("INSERT INTO orders VALUES (7, 'new'); INSERT OR REPLACE INTO orders VALUES (7, 'paid');").well();
    let params: Vec<_> = notices(&db).await.into_iter().map(|notice| notice.param).collect();
    assert_eq!(params, ["1", r#"{"id":7,"state":"new"}"#, r#"{"id":7,"state":"paid"}"#]);
    db.close().await;
}

#[tokio::test]
async fn values_of_another_type_are_refused() {
    let db: TestDb<Sqlite> = with_sync().await;
    for (column, value, words) in [
        ("delay", "'3600'", "the delay is not a number of seconds"),
        ("delay", "'soon'", "the delay is not a number of seconds"),
        ("param", "X'31'", "the parameter is not JSON"),
        ("unique_until_claimed", "X'31'", "a key must have 1 to 200 characters"),
    ] {
        let sql = format!("INSERT INTO notify_add (name, {column}) VALUES ('sync', {value});");
        let complaint = db.shell().run(sql).refused();
        assert!(complaint.contains(words), "{column} {value}: {complaint}");
    }
    db.shell()
        .run("INSERT INTO notify_add (name, param, unique_until_ended) VALUES ('sync', 7, 8), ('sync', 7, '8');")
        .well();
    let notices = notices(&db).await;
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert_eq!((&*notices[0].param, notices[0].dedupe_key.as_deref()), ("7", Some("8")));
    db.close().await;
}
