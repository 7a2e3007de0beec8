//! Notices added by plain SQL, as people, triggers and other languages do: typed into the client programs of the databases.
//!
//! This file has the cases of every database; cases of PostgreSQL and of SQLite are in the modules of their names, those of MySQL and MariaDB
//! in `sessions`.

mod ack;
mod on_postgres;
mod on_sqlite;
mod sessions;
mod statement;

use std::time::Duration;

use serde_json::{Value, json};
use solid_notify::{Notice, NoticeRecord, NotifyDef, OutboxExt, Status};
use solid_notify_core::alert::ALERT_DEFINITION;
use solid_notify_core::built_in::{BULK_DEFINITION, DEAD_LETTERS_DEFINITION, PURGE_DEFINITION, is_built_in};
use solid_notify_core::store::{Claim, ClaimWhat};
use sqlx::{AssertSqlSafe, Executor};
use test_support::sending::{Calls, definition, eventually};
use test_support::{Database, TestDb, on_each_database};

use statement::{Add, Plain};

on_each_database!(
    a_committed_notice_has_all_its_arguments,
    an_omitted_argument_has_its_default,
    a_trigger_adds_notices_which_are_sent,
    a_trigger_that_names_no_definition_fails_its_statement,
    a_name_that_is_unknown_deleted_or_null_is_refused,
    arguments_that_no_notice_can_have_are_refused,
    a_duplicate_adds_nothing_and_aborts_nothing,
    a_duplicate_of_an_open_transaction_waits_for_it,
    a_key_unique_until_claimed_is_free_after_the_claim,
    a_delay_below_zero_is_none_and_the_longest_has_ten_years,
    quotes_and_characters_of_all_kinds_survive,
    a_definition_that_encrypts_refuses_a_plaintext,
    definition_that_is_built_in_is_refused,
);

mod servers {
    use super::*;

    test_support::on_each_server!(a_notice_that_covers_a_change_is_not_claimed_before_its_commit);
}

/// The notices that are there, sent or not, oldest first.
async fn notices<D: Database>(db: &TestDb<D>) -> Vec<NoticeRecord> {
    let ids = "SELECT id FROM notify_msg UNION ALL SELECT id FROM notify_msg_history ORDER BY id;";
    let mut notices = Vec::new();
    for id in db.shell().run(ids).well().lines() {
        notices.push(db.outbox.find(id.parse().unwrap()).await.unwrap().unwrap());
    }
    notices
}

/// A database with the definition `sync`.
async fn with_sync<D: Database>() -> TestDb<D> {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    db
}

/// How long after it was added a notice is to be sent.
fn delay(notice: &NoticeRecord) -> Duration {
    (notice.next_call_time.unwrap() - notice.create_time).to_std().unwrap()
}

async fn a_committed_notice_has_all_its_arguments<D: Plain>() {
    let db = with_sync::<D>().await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let all = Add {
        description: Some("the first"),
        delay: Some("3600.5"),
        ordering_key: Some("dsp 7"),
        dedupe_key: Some("sync of dsp 7"),
        trace_context: Some(trace),
        max_tries: Some("7"),
        expires_at: Some("2100-01-31 12:00:00"),
        tag: Some("order:7"),
        ..Add::new("sync", r#"{ "price":1.10, "dsp" : 7 }"#)
    };
    let never = D::add(&Add::new("sync", r#""rolled back""#));
    db.shell().run(format!("BEGIN; {never} ROLLBACK; BEGIN; {} COMMIT; BEGIN; {never} ROLLBACK;", D::add(&all))).well();
    // A session that ends before its COMMIT.
    db.shell().run(format!("BEGIN; {never}")).well();

    let notices = notices(&db).await;
    assert_eq!(notices.len(), 1, "{notices:?}");
    let notice = &notices[0];
    assert_eq!(notice.param, r#"{ "price":1.10, "dsp" : 7 }"#, "byte by byte");
    assert_eq!(notice.description.as_deref(), Some("the first"));
    assert_eq!(notice.ordering_key.as_deref(), Some("dsp 7"));
    assert_eq!(notice.dedupe_key.as_deref(), Some("sync of dsp 7"));
    assert_eq!(notice.trace_context.as_deref(), Some(trace));
    assert_eq!(notice.own.max_tries, Some(7));
    assert_eq!(notice.tag.as_deref(), Some("order:7"));
    assert_eq!(notice.own.expires_at, Some("2100-01-31T12:00:00Z".parse().unwrap()));
    assert_eq!(delay(notice), Duration::from_millis(3_600_500));
    assert_eq!((notice.status, notice.fence, notice.failures), (Status::NotSent, 0, 0));
    db.close().await;
}

async fn an_omitted_argument_has_its_default<D: Plain>() {
    let db = with_sync::<D>().await;
    db.shell().run(format!("{} {}", D::ADD_SEVEN, D::add(&Add { param: None, ..Add::new("sync", "") }))).well();
    let notices = notices(&db).await;
    assert_eq!(notices.iter().map(|notice| &*notice.param).collect::<Vec<_>>(), ["7", "null"]);
    for notice in notices {
        assert_eq!(delay(&notice), Duration::ZERO);
        assert_eq!((notice.description, notice.trace_context), (None, None));
        assert_eq!((notice.ordering_key, notice.dedupe_key, notice.tag), (None, None, None));
    }
    db.close().await;
}

async fn a_trigger_adds_notices_which_are_sent<D: Plain>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("order_changed")).await.unwrap();
    let calls = Calls::<Value>::default();
    let noted = calls.clone();
    let note = move |notice: Notice<Value>| {
        noted.note(notice.param().clone());
        async { Ok(()) }
    };
    let sweeper = db.outbox.sweeper().housekeeping(false).handler("order_changed", note).start().await.unwrap();
    db.shell().run(D::ORDERS).well();
    db.shell()
        .run(
            "BEGIN; INSERT INTO orders VALUES (8, 'rolled back'); ROLLBACK;
             BEGIN; INSERT INTO orders VALUES (7, 'new'); UPDATE orders SET state = 'it''s paid' WHERE id = 7; COMMIT;",
        )
        .well();
    let (new, paid) = (json!({"id": 7, "state": "new"}), json!({"id": 7, "state": "it's paid"}));
    eventually("both are sent", async || calls.count() >= 2).await;
    sweeper.shutdown().await;
    let calls = calls.all();
    assert!(calls == [new.clone(), paid.clone()] || calls == [paid, new], "{calls:?}");
    let sent = notices(&db).await;
    assert!(sent.iter().all(|notice| notice.status == Status::Succeeded), "{sent:?}");
    db.close().await;
}

async fn a_trigger_that_names_no_definition_fails_its_statement<D: Plain>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.shell().run(D::ORDERS).well();
    let complaint = db.shell().run("INSERT INTO orders VALUES (7, 'new');").refused();
    assert!(complaint.contains(&D::no_definition("order_changed")), "{complaint}");
    assert_eq!(db.shell().run("SELECT count(*) FROM orders;").well(), "0");
    db.close().await;
}

async fn a_name_that_is_unknown_deleted_or_null_is_refused<D: Plain>() {
    let db = with_sync::<D>().await;
    db.outbox.define_if_missing(NotifyDef::new("gone")).await.unwrap();
    let gone = definition(&db, "gone").await;
    db.outbox.delete(&gone).await.unwrap();
    db.sql("CREATE TABLE business (id integer)").await;
    let deleted = format!("gone (deleted {})", gone.id);
    let long = "x".repeat(5_000);
    for name in ["sync_to_opm", "gone", &deleted, "SYNC", "sync ", "", "it's", &long] {
        let add = D::add(&Add::new(name, "1"));
        let script = format!("BEGIN; INSERT INTO business VALUES (1); {add} COMMIT;");
        let complaint = db.shell().run(script).refused();
        // The longest message of MySQL has 128 characters, and it quotes in its own way.
        let expected = D::no_definition(if name.len() > 100 { &name[..50] } else { name });
        let expected = expected.trim_end_matches('\'');
        assert!(
            complaint.contains(expected) || complaint.contains(&expected.replace("it''s", r"it\'s")),
            "{complaint}"
        );
    }
    let complaint = db.shell().run(D::add(&Add { name: None, ..Add::new("", "1") })).refused();
    assert!(complaint.contains("notify_add: there is no definition"), "{complaint}");
    assert_eq!(notices(&db).await, []);
    assert_eq!(db.shell().run("SELECT count(*) FROM business;").well(), "0");
    db.close().await;
}

async fn arguments_that_no_notice_can_have_are_refused<D: Plain>() {
    let db = with_sync::<D>().await;
    let (long, longest) = ("é".repeat(201), "é".repeat(200));
    let (essay, trace) = ("x".repeat(65_536), "x".repeat(1_001));
    let good = Add::new("sync", "1");
    let key = "notify_add: a key must have 1 to 200 characters";
    for (add, words) in [
        (Add { param: Some(r#"{"dsp":"#), ..good }, D::NOT_JSON),
        (Add { param: Some(""), ..good }, D::NOT_JSON),
        (Add { dedupe_key: Some(""), ..good }, key),
        (Add { dedupe_key: Some(&long), ..good }, key),
        (Add { ordering_key: Some(""), ..good }, key),
        (Add { ordering_key: Some(&long), ..good }, key),
        (Add { tag: Some(""), ..good }, "notify_add: a tag must have 1 to 200 characters"),
        (Add { tag: Some(&long), ..good }, "notify_add: a tag must have 1 to 200 characters"),
        (Add { tag: Some("notify:test"), ..good }, "notify_add: a tag that begins with notify: belongs to the library"),
        (Add { description: Some(&essay), ..good }, "notify_add: a description may have 65535 bytes"),
        (Add { trace_context: Some(&trace), ..good }, "notify_add: a trace context may have 1000 bytes"),
        (Add { max_tries: Some("0"), ..good }, "notify_add: max_tries must be"),
    ] {
        let complaint = db.shell().run(D::add(&add)).refused();
        assert!(complaint.contains(words), "{words}: {complaint}");
    }
    assert_eq!(notices(&db).await, []);
    let most = Add {
        description: Some(&essay[1..]),
        ordering_key: Some(&longest),
        dedupe_key: Some(&longest),
        trace_context: Some(&trace[1..]),
        tag: Some(&longest),
        ..good
    };
    db.shell().run(D::add(&most)).well();
    assert_eq!(notices(&db).await[0].dedupe_key.as_deref(), Some(&*longest));
    db.close().await;
}

async fn a_duplicate_adds_nothing_and_aborts_nothing<D: Plain>() {
    let db = with_sync::<D>().await;
    db.outbox.define_if_missing(NotifyDef::new("other")).await.unwrap();
    db.sql("CREATE TABLE business (id integer)").await;
    let keyed = |name| Add { dedupe_key: Some("order 7"), ..Add::new(name, "1") };
    let again = D::add(&Add { param: Some("2"), ..keyed("sync") });
    let first = D::add(&keyed("sync"));
    db.shell()
        .run(format!(
            "{first} BEGIN; INSERT INTO business VALUES (1); {again} {again} {} COMMIT;",
            D::add(&keyed("other"))
        ))
        .well();
    let notices = notices(&db).await;
    assert_eq!(notices.len(), 2, "one a definition: {notices:?}");
    assert!(notices.iter().all(|notice| notice.param == "1"));
    assert_eq!(db.shell().run("SELECT count(*) FROM business;").well(), "1");
    db.close().await;
}

async fn a_duplicate_of_an_open_transaction_waits_for_it<D: Plain>()
where
    for<'c> &'c mut <D::Db as sqlx::Database>::Connection: Executor<'c, Database = D::Db>,
{
    let db = with_sync::<D>().await;
    let keyed = Add { dedupe_key: Some("order 7"), ..Add::new("sync", "1") };
    for (commits, expected) in [(false, "2"), (true, "1")] {
        db.sql("DELETE FROM notify_msg").await;
        let mut open = db.pool.begin().await.unwrap();
        (&mut *open).execute(sqlx::raw_sql(AssertSqlSafe(D::add(&keyed)))).await.unwrap();
        let (shell, again) = (db.shell(), D::add(&Add { param: Some("2"), ..keyed }));
        let waiting = tokio::task::spawn_blocking(move || shell.run(again));
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(!waiting.is_finished(), "{:?}", waiting.await);
        if commits {
            open.commit().await.unwrap();
        } else {
            open.rollback().await.unwrap();
        }
        waiting.await.unwrap().well();
        let notices = notices(&db).await;
        assert_eq!(notices.iter().map(|notice| &*notice.param).collect::<Vec<_>>(), [expected]);
    }
    db.close().await;
}

async fn a_key_unique_until_claimed_is_free_after_the_claim<D: Plain>() {
    let db = with_sync::<D>().await;
    let keyed = D::add(&Add { until_claimed: Some("order 7"), ..Add::new("sync", "1") });
    db.shell().run(format!("{keyed} {keyed}")).well();
    assert_eq!(notices(&db).await.len(), 1);
    db.sql("UPDATE notify_msg SET status = 5, fence = 1").await;
    db.shell().run(format!("{keyed} {keyed}")).well();
    assert_eq!(notices(&db).await.len(), 2);
    let both = Add { until_claimed: Some("order 7"), dedupe_key: Some("order 7"), ..Add::new("sync", "1") };
    let complaint = db.shell().run(D::add(&both)).refused();
    assert!(complaint.contains("a notice has one dedupe key"), "{complaint}");
    db.close().await;
}

/// Its handler would not see the changes of the transaction. (SQLite has one writer: the claim would wait.)
async fn a_notice_that_covers_a_change_is_not_claimed_before_its_commit<D: Plain>()
where
    for<'c> &'c mut <D::Db as sqlx::Database>::Connection: Executor<'c, Database = D::Db>,
{
    let db = with_sync::<D>().await;
    let keyed = D::add(&Add { until_claimed: Some("order 7"), ..Add::new("sync", "1") });
    db.shell().run(&keyed).well();
    let mut open = db.pool.begin().await.unwrap();
    (&mut *open).execute(sqlx::raw_sql(AssertSqlSafe(keyed))).await.unwrap();
    let def_id = db.outbox.definitions().await.unwrap().iter().find(|def| def.row.name == "sync").unwrap().row.id;
    let what = ClaimWhat::Slice(Status::NotSent);
    let claim =
        Claim { def_id, what, limit: 10, lease: Duration::from_secs(60), worker: "worker".to_owned(), quota: None };
    assert!(db.outbox.engine().stores().send.claim(&claim).await.unwrap().notices.is_empty());
    open.commit().await.unwrap();
    assert_eq!(db.outbox.engine().stores().send.claim(&claim).await.unwrap().notices.len(), 1);
    db.close().await;
}

async fn a_definition_that_encrypts_refuses_a_plaintext<D: Plain>() {
    let db = with_sync::<D>().await;
    db.sql("UPDATE notify_def SET encrypt_param = true WHERE name = 'sync'").await;
    let complaint = db.shell().run(D::add(&Add::new("sync", "7"))).refused();
    assert!(
        complaint.contains("notify_add: the definition has encrypt_param: add its notices with the library"),
        "{complaint}"
    );
    assert!(notices(&db).await.is_empty());
    db.close().await;
}

async fn definition_that_is_built_in_is_refused<D: Plain>() {
    let db = with_sync::<D>().await;
    for name in [ALERT_DEFINITION, BULK_DEFINITION, DEAD_LETTERS_DEFINITION, PURGE_DEFINITION] {
        assert!(is_built_in(name));
        db.sql(&format!("INSERT INTO notify_def (name) VALUES ('{name}')")).await;
        let complaint = db.shell().run(D::add(&Add::new(name, "7"))).refused();
        assert!(complaint.contains("notify_add: the definition is built in"), "{name}: {complaint}");
    }
    assert_eq!(notices(&db).await, []);
    db.close().await;
}

async fn a_delay_below_zero_is_none_and_the_longest_has_ten_years<D: Plain>() {
    let db = with_sync::<D>().await;
    for (text, seconds) in [("-3600", 0), ("-1e12", 0), ("0", 0), ("1e12", 315_576_000)] {
        db.sql("DELETE FROM notify_msg").await;
        db.shell().run(D::add(&Add { delay: Some(text), ..Add::new("sync", "1") })).well();
        assert_eq!(delay(&notices(&db).await[0]), Duration::from_secs(seconds), "{text}");
    }
    db.close().await;
}

async fn quotes_and_characters_of_all_kinds_survive<D: Plain>() {
    let db = TestDb::<D>::with_real_clock().await;
    let text = r#"it's "sync" \ %s $1 ; -- 東京 😀"#;
    db.outbox.define_if_missing(NotifyDef::new(text)).await.unwrap();
    let param = json!({ text: ["line\nbreak", text] }).to_string();
    let add = Add {
        description: Some(text),
        ordering_key: Some(text),
        dedupe_key: Some(text),
        trace_context: Some(text),
        tag: Some(text),
        ..Add::new(text, &param)
    };
    db.shell().run(D::add(&add)).well();
    let notice = notices(&db).await.remove(0);
    assert_eq!(notice.param, param);
    for field in [notice.description, notice.ordering_key, notice.dedupe_key, notice.trace_context, notice.tag] {
        assert_eq!(field.as_deref(), Some(text));
    }
    db.close().await;
}
