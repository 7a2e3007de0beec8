//! The roles that `Outbox::roles` prints: each account does its task, and nothing else.

mod accounts;
mod on_postgres;
mod orders;
mod rights;

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::time::Duration;

use solid_notify::alert::{ALERT_DEFINITION, AlertKind, AlertReason};
use solid_notify::definition::Updated;
use solid_notify::operate::{Rate, Severity};
use solid_notify::sql::Dialect;
use solid_notify::testkit::TestSweeper;
use solid_notify::{
    AckResult, Alert, AnyOutbox, Failure, Filter, Inbox, NewNotice, Notice, NotifyDef, Outbox, OutboxExt, Status,
    add_notice,
};
use solid_notify_conformance::Backend;
use solid_notify_core::error::FaultKind;
use solid_notify_sql::statement_texts;
use sqlx::{AssertSqlSafe, Executor, Pool};
use test_support::databases::Cleanup;
use test_support::{TestDb, on_each_server};

use self::accounts::{Accounts, Roles, assert_denied, is_denial};
use self::orders::{editor_lets_no_built_in_definition_act, producer_orders_nothing_in_the_name_of_an_operator};
use self::rights::each_role_may_do_to_each_column_what_the_book_says;

on_each_server!(
    producer_adds_and_does_nothing_else,
    sweeper_sends_and_operates_and_keeps_the_schema,
    sweeper_may_do_what_each_statement_does,
    editor_edits_definitions_and_reads_no_notice,
    reader_reads_and_changes_nothing,
    owner_migrates,
    each_role_may_do_to_each_column_what_the_book_says,
    editor_lets_no_built_in_definition_act,
);

const CHANGES_OF_NOTICES: [&str; 3] = [
    "UPDATE notify_msg SET next_call_time = NULL WHERE 1 = 0",
    "UPDATE notify_msg_history SET status = 1 WHERE 1 = 0",
    "DELETE FROM notify_msg WHERE 1 = 0",
];
const CHANGES_OF_THE_SCHEMA: [&str; 3] = [
    "CREATE TABLE notify_other (id integer)",
    "DROP TABLE notify_limit",
    "ALTER TABLE notify_msg ADD COLUMN other integer",
];

async fn producer_adds_and_does_nothing_else<D: Accounts>()
where
    for<'c> &'c Pool<D::Db>: Executor<'c, Database = D::Db>,
{
    let mut roles = Roles::<D>::create().await;
    let outbox = roles.outbox("producer").await;
    let mut tx = outbox.begin().await.unwrap();
    add_notice(&mut tx, "sync", 1).await.unwrap();
    let inbox = Inbox::new("orders", "shop");
    for first in [true, false] {
        let ended = NewNotice::new("sync", 2).unwrap().unique_until_ended("ended").add(&mut tx).await.unwrap();
        let claimed = NewNotice::new("sync", 3).unwrap().unique_until_claimed("claimed").add(&mut tx).await.unwrap();
        assert_eq!((ended.is_duplicate(), claimed.is_duplicate()), (!first, !first));
        assert_eq!(inbox.first_time(&mut tx, "key").await.unwrap(), first);
    }
    tx.commit().await.unwrap();
    let by_sql = if <D::Db as sqlx::Database>::NAME == "PostgreSQL" { "SELECT" } else { "CALL" };
    outbox.pool().execute(AssertSqlSafe(format!("{by_sql} notify_add('sync', '4')"))).await.unwrap();
    assert_eq!(roles.db.outbox.operator("alice").list(&Filter::live(), None, 10).await.unwrap().notices.len(), 4);

    assert_denied(&outbox, &CHANGES_OF_NOTICES).await;
    assert_denied(&outbox, &CHANGES_OF_THE_SCHEMA).await;
    let others = [
        "UPDATE notify_msg SET param = '7' WHERE 1 = 0",
        "UPDATE notify_def SET enabled = enabled WHERE 1 = 0",
        "INSERT INTO notify_def (name) VALUES ('mine')",
        "SELECT id FROM notify_msg_history",
        "SELECT id FROM notify_audit",
        "SELECT id FROM notify_pending",
        "DELETE FROM notify_inbox WHERE 1 = 0",
        "INSERT INTO notify_authority (notice_id, who, act) VALUES (1, 'alice', 'purge')",
        "SELECT who FROM notify_authority",
        // Not with the id of a notice that has an authority, and not as one that was claimed before.
        "INSERT INTO notify_msg (id, def_id, param) VALUES (1, 1, '{}')",
        "INSERT INTO notify_msg (def_id, param, fence) VALUES (1, '{}', 7)",
    ];
    assert_denied(&outbox, &others).await;
    producer_orders_nothing_in_the_name_of_an_operator(&mut roles, &outbox).await;
    roles.close().await;
}

async fn sweeper_sends_and_operates_and_keeps_the_schema<D: Accounts>()
where
    for<'c> &'c Pool<D::Db>: Executor<'c, Database = D::Db>,
{
    let mut roles = Roles::<D>::create().await;
    let outbox = roles.outbox("sweeper").await;
    outbox.engine().stores().operate.can_ack().await.unwrap();
    outbox.migrate().await.unwrap();
    let builder = outbox.sweeper().handler("sync", async |notice: Notice<i64>| match *notice.param() {
        0 => Err(Failure::give_up("refused")),
        _ => Ok(()),
    });
    let builder = builder.handler("ack", async |_: Notice<i64>| Ok(()));
    let (alerts, alert_sent) = mpsc::channel();
    let builder = builder.handler_with(ALERT_DEFINITION, alerts, async |alerts: mpsc::Sender<()>, _: Notice<Alert>| {
        let _ = alerts.send(());
        Ok(())
    });
    let sweeper = TestSweeper::start(builder).await.unwrap();
    let mut ids = Vec::new();
    for notice in [
        NewNotice::new("sync", 0).unwrap(),
        NewNotice::new("sync", 1).unwrap().ordering_key("k"),
        NewNotice::new("ack", 2).unwrap(),
    ] {
        ids.push(roles.db.add(notice).await.unwrap().id());
    }
    let sent = sweeper.drain().await;
    assert_eq!((sent.dead_letters, sent.succeeded, sent.awaiting_ack), (1, 1, 1), "{sent:?}");
    assert_eq!(alert_sent.try_recv(), Ok(()));

    let operator = outbox.operator("alice");
    let by_sql = match <D::Db as sqlx::Database>::NAME {
        "PostgreSQL" => format!("SELECT notify_ack({})", ids[2]),
        _ => format!("CALL notify_ack({}, @result)", ids[2]),
    };
    outbox.pool().execute(AssertSqlSafe(by_sql)).await.unwrap();
    assert_eq!(operator.ack(ids[2]).await.unwrap(), AckResult::AlreadySucceeded);
    operator.edit(ids[0], 5).await.unwrap();
    operator.retry(ids[0]).await.unwrap();
    assert_eq!(sweeper.drain().await.succeeded, 1);
    let seen = operator.definition("sync").await.unwrap();
    operator.edit_definition(&seen, seen.clone().max_retry_times(1)).await.unwrap();
    operator.pause_all("maintenance").await.unwrap();
    operator.resume_all().await.unwrap();
    sweeper.advance(Duration::from_hours(25)).await;
    let findings = operator.examine().await;
    for check in ["privileges", "objects"] {
        let found = findings.iter().find(|finding| finding.check == check).unwrap();
        assert_eq!(found.severity, Severity::Fine, "{found:?}");
    }

    assert_denied(&outbox, &CHANGES_OF_THE_SCHEMA).await;
    let others = [
        "UPDATE notify_audit SET who = 'alice' WHERE 1 = 0",
        "DELETE FROM notify_audit WHERE 1 = 0",
        "DELETE FROM notify_schema WHERE 1 = 0",
    ];
    assert_denied(&outbox, &others).await;
    drop(sweeper);
    roles.close().await;
}

/// What the sending test does not reach: purges, limits, counts, series.
async fn sweeper_may_do_what_each_statement_does<D: Accounts>()
where
    for<'c> &'c Pool<D::Db>: Executor<'c, Database = D::Db>,
{
    let mut roles = Roles::<D>::create().await;
    let outbox = roles.outbox("sweeper").await;
    let mut rights = BTreeSet::new();
    for (_, text) in statement_texts::<D::Db>() {
        let words: Vec<&str> = text.split_whitespace().collect();
        for pair in words.windows(3) {
            let (verb, table) = match pair {
                ["INSERT", "INTO", table] => ("INSERT", table),
                ["DELETE", "FROM", table] => ("DELETE", table),
                ["UPDATE", table, _] => ("UPDATE", table),
                ["FROM" | "JOIN", table, _] => ("SELECT", table),
                _ => continue,
            };
            let table = table.trim_end_matches(|end: char| !end.is_ascii_alphanumeric());
            if table.starts_with("notify_") {
                rights.insert((verb, table.to_owned()));
            }
        }
    }
    assert!(rights.len() > 30, "{rights:?}");
    for (verb, table) in rights {
        let sql = match verb {
            "SELECT" => format!("SELECT 1 FROM {table} WHERE 1 = 0"),
            // A generated column may refuse its value: rights are judged first.
            "INSERT" => format!("INSERT INTO {table} SELECT * FROM {table} WHERE 1 = 0"),
            "DELETE" => format!("DELETE FROM {table} WHERE 1 = 0"),
            _ => format!("UPDATE {table} SET {} WHERE 1 = 0", no_change(&table)),
        };
        if let Err(error) = outbox.pool().execute(AssertSqlSafe(sql.clone())).await {
            assert!(!is_denial(&error), "{sql}: {error}");
        }
    }
    roles.close().await;
}

/// An assignment that fits this table. An unknown column would be refused before the rights are judged.
fn no_change(table: &str) -> &'static str {
    match table {
        "notify_count" | "notify_alert" | "notify_limit" => "def_id = def_id",
        "notify_node" => "handlers = handlers",
        "notify_switch" => "who = who",
        _ => "id = id",
    }
}

async fn editor_edits_definitions_and_reads_no_notice<D: Accounts>()
where
    for<'c> &'c Pool<D::Db>: Executor<'c, Database = D::Db>,
{
    let mut roles = Roles::<D>::create().await;
    roles.db.add(NewNotice::new("sync", 1).unwrap()).await.unwrap();
    let outbox = roles.outbox("editor").await;
    let operator = outbox.operator("erin");
    let seen = operator.definition("sync").await.unwrap();
    let mut renamed = seen.clone();
    renamed.name = "notify.bulk".to_owned();
    let refused = operator.edit_definition(&seen, renamed).await.unwrap_err().to_string();
    assert!(refused.contains("belongs to a definition that is built in"), "{refused}");
    roles.db.sql("INSERT INTO notify_def (name) VALUES ('notify.purge')").await;
    let purge = operator.definition("notify.purge").await.unwrap();
    let mut renamed = purge.clone();
    renamed.name = "mine".to_owned();
    let refused = operator.edit_definition(&purge, renamed).await.unwrap_err().to_string();
    assert!(refused.contains("belongs to a definition that is built in"), "{refused}");
    let new = seen.clone().timeout("7s");
    let preview = operator.preview_edit(&seen, &new).await.unwrap();
    assert_eq!(preview.changes.len(), 1, "without the notices, which it may not read");
    let edited = operator.edit_definition(&seen, new).await.unwrap();
    assert!(matches!(edited, Updated::Stored(_)), "{edited:?}");
    let created = operator.create_definition(NotifyDef::new("new")).await.unwrap();
    let Updated::Stored(created) = created else { panic!("{created:?}") };
    assert!(matches!(operator.delete_definition(&created).await.unwrap(), Updated::Stored(_)));
    assert_eq!(operator.versions(seen.id).await.unwrap()[0].who, "erin");
    outbox.definitions().await.unwrap();

    assert_denied(&outbox, &CHANGES_OF_NOTICES).await;
    assert_denied(&outbox, &CHANGES_OF_THE_SCHEMA).await;
    let others = [
        "SELECT param FROM notify_msg",
        "SELECT param FROM notify_msg_history",
        "SELECT id FROM notify_pending",
        "INSERT INTO notify_msg (def_id, param) VALUES (1, '{}')",
        "INSERT INTO notify_authority (notice_id, who, act) VALUES (1, 'alice', 'purge')",
        "UPDATE notify_switch SET paused = paused",
        "DELETE FROM notify_def WHERE 1 = 0",
        "UPDATE notify_audit SET who = 'alice' WHERE 1 = 0",
        "UPDATE notify_def_version SET who = 'alice' WHERE 1 = 0",
        "DELETE FROM notify_def_version WHERE 1 = 0",
        "DELETE FROM notify_audit WHERE 1 = 0",
    ];
    assert_denied(&outbox, &others).await;
    roles.close().await;
}

async fn reader_reads_and_changes_nothing<D: Accounts>()
where
    for<'c> &'c Pool<D::Db>: Executor<'c, Database = D::Db>,
{
    let mut roles = Roles::<D>::create().await;
    let id = roles.db.add(NewNotice::new("sync", 1).unwrap()).await.unwrap().id();
    let outbox = roles.outbox("reader").await;
    let refused = outbox.engine().stores().operate.can_ack().await.unwrap_err();
    assert_eq!(refused.kind, FaultKind::Unusable, "{refused}");
    outbox.migrate().await.unwrap();
    let operator = outbox.operator("alice");
    assert_eq!(operator.list(&Filter::live(), None, 10).await.unwrap().notices.len(), 1);
    assert!(operator.show(id).await.unwrap().is_some());
    assert!(operator.explain(id).await.unwrap().to_string().contains("due"));
    outbox.definitions().await.unwrap();
    operator.nodes().await.unwrap();
    operator.open_alerts(10).await.unwrap();
    operator.groups(&Filter::dead_letters()).await.unwrap();
    for found in
        operator.examine().await.iter().filter(|found| ["migrations", "indexes", "objects"].contains(&found.check))
    {
        assert!(found.severity < Severity::Warning, "{found:?}");
    }
    for view in ["notify_pending", "notify_done", "notify_error"] {
        outbox.pool().execute(AssertSqlSafe(format!("SELECT id FROM {view}"))).await.unwrap();
    }
    assert_denied(&outbox, &CHANGES_OF_NOTICES).await;
    assert_denied(&outbox, &CHANGES_OF_THE_SCHEMA).await;
    let others = [
        "INSERT INTO notify_audit (who, act) VALUES ('x', 'x')",
        "UPDATE notify_def SET enabled = enabled WHERE 1 = 0",
    ];
    assert_denied(&outbox, &others).await;
    roles.close().await;
}

async fn owner_migrates<D: Accounts>()
where
    for<'c> &'c Pool<D::Db>: Executor<'c, Database = D::Db>,
{
    let mut roles = Roles::<D>::create().await;
    let outbox = roles.outbox("owner").await;
    // As if the last migration were new. On MySQL an administrator's view is an administrator's to drop.
    const UNDO: [&str; 2] =
        ["DROP VIEW notify_pending, notify_done, notify_error", "DELETE FROM notify_schema WHERE version = 4"];
    for sql in UNDO {
        roles.db.sql(sql).await;
    }
    outbox.migrate().await.unwrap();
    for sql in UNDO {
        outbox.pool().execute(sql).await.unwrap();
    }
    outbox.pool().execute("ALTER TABLE notify_msg ADD COLUMN other integer").await.unwrap();
    outbox.migrate().await.unwrap();
    outbox.pool().execute("SELECT id FROM notify_pending").await.unwrap();
    let script = roles.named(Outbox::<D::Db>::roles().unwrap());
    roles.db.sql(&script).await;
    roles.close().await;
}
