//! The roles that `Outbox::roles` prints: each account does its task, and nothing else.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::time::Duration;

use solid_notify::alert::ALERT_DEFINITION;
use solid_notify::operate::Severity;
use solid_notify::sql::Dialect;
use solid_notify::testkit::TestSweeper;
use solid_notify::{
    AckResult, Alert, Failure, Filter, Inbox, NewNotice, Notice, NotifyDef, Outbox, OutboxExt, add_notice,
};
use solid_notify_conformance::Backend;
use solid_notify_core::error::FaultKind;
use solid_notify_sql::statement_texts;
use sqlx::{AssertSqlSafe, Executor, Pool};
use test_support::databases::Cleanup;
use test_support::{Database, TestDb, on_each_server};

on_each_server!(
    producer_adds_and_does_nothing_else,
    sweeper_sends_and_operates_and_keeps_the_schema,
    sweeper_may_do_what_each_statement_does,
    reader_reads_and_changes_nothing,
    owner_migrates,
);

/// The roles of one test: their names begin with that of its database, because a server has one set of roles.
struct Roles<D: Accounts> {
    db: TestDb<D>,
    prefix: String,
    accounts: Vec<(String, Pool<D::Db>)>,
    /// The account that has created the roles, if it is the test's.
    extra: Option<String>,
}

impl<D: Accounts> Roles<D> {
    async fn create() -> Self {
        let db = TestDb::<D>::with_hand_clock().await;
        for name in ["sync", "ack"] {
            let definition = NotifyDef::new(name).keep_history("1h").need_confirm(name == "ack");
            db.outbox.define_if_missing(definition).await.unwrap();
        }
        let (Cleanup::Schema(_, prefix) | Cleanup::Database(_, prefix)) = &db.cleanup else { unreachable!() };
        let roles = Self { prefix: prefix.clone(), db, accounts: Vec::new(), extra: None };
        // Twice, because it runs after each migration.
        for _ in 0..2 {
            let script = roles.named(Outbox::<D::Db>::roles().unwrap());
            roles.db.sql(&script).await;
        }
        roles
    }

    fn named(&self, script: &str) -> String {
        ["owner", "producer", "sweeper", "reader"].into_iter().fold(script.to_owned(), |script, role| {
            script.replace(&format!("notify_{role}"), &format!("{}_{role}", self.prefix))
        })
    }

    /// An outbox of an account that has this role alone. Its clock is that of the test.
    async fn outbox(&mut self, role: &str) -> Outbox<D::Db> {
        let account = format!("{}_as_{}", self.prefix, &role[..1]);
        let pool = D::account(&self.db, &account, &format!("{}_{role}", self.prefix)).await;
        self.accounts.push((account, pool.clone()));
        Outbox::builder(pool).clock(self.db.clock().clone()).build()
    }

    async fn close(self) {
        for (account, pool) in self.accounts {
            pool.close().await;
            D::drop_role(&self.db, &account).await;
        }
        for role in ["producer", "sweeper", "reader", "owner"] {
            D::drop_role(&self.db, &format!("{}_{role}", self.prefix)).await;
        }
        if let Some(account) = &self.extra {
            D::drop_role(&self.db, account).await;
        }
        self.db.close().await;
    }
}

/// How a server creates accounts.
trait Accounts: Database {
    async fn account(db: &TestDb<Self>, account: &str, role: &str) -> Pool<Self::Db>
    where
        Self: Sized;

    async fn drop_role(db: &TestDb<Self>, role: &str)
    where
        Self: Sized;
}

impl Accounts for test_support::Postgres {
    async fn account(db: &TestDb<Self>, account: &str, role: &str) -> Pool<sqlx::Postgres> {
        let Cleanup::Schema(options, schema) = &db.cleanup else { unreachable!() };
        db.sql(&format!("CREATE ROLE {account} LOGIN PASSWORD 'x' IN ROLE {role}")).await;
        db.sql(&format!("ALTER ROLE {account} SET search_path = {schema}")).await;
        sqlx::postgres::PgPoolOptions::new()
            .connect_with(options.clone().username(account).password("x"))
            .await
            .unwrap()
    }

    async fn drop_role(db: &TestDb<Self>, role: &str) {
        db.sql(&format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}")).await;
    }
}

macro_rules! mysql_accounts {
    ($database:ident, $of:literal) => {
        impl Accounts for test_support::$database {
            async fn account(db: &TestDb<Self>, account: &str, role: &str) -> Pool<sqlx::MySql> {
                let Cleanup::Database(options, database) = &db.cleanup else { unreachable!() };
                let account = if role.ends_with("_owner") { role } else { account };
                if account == role {
                    db.sql(&format!("ALTER USER {account} ACCOUNT UNLOCK")).await;
                } else {
                    db.sql(&format!("CREATE USER {account}")).await;
                    db.sql(&format!("GRANT {role} TO {account}")).await;
                    db.sql(&format!(concat!("SET DEFAULT ROLE {} ", $of, " {}"), role, account)).await;
                }
                let options = options.clone().username(account).database(database);
                sqlx::mysql::MySqlPoolOptions::new().connect_with(options).await.unwrap()
            }

            async fn drop_role(db: &TestDb<Self>, role: &str) {
                let kind = if role.contains("_as_") || role.ends_with("_owner") { "USER" } else { "ROLE" };
                db.sql(&format!("DROP {kind} IF EXISTS {role}")).await;
            }
        }
    };
}
mysql_accounts!(MariaDb, "FOR");
mysql_accounts!(MySql, "TO");

/// Asserts that the database refuses each of these statements because of the account's rights.
async fn assert_denied<DB: Dialect>(outbox: &Outbox<DB>, statements: &[&str])
where
    for<'c> &'c Pool<DB>: Executor<'c, Database = DB>,
{
    for sql in statements {
        let Err(error) = outbox.pool().execute(AssertSqlSafe((*sql).to_owned())).await else {
            panic!("this account may {sql}");
        };
        assert!(is_denial(&error), "{sql}: {error}");
    }
}

fn is_denial(error: &sqlx::Error) -> bool {
    let text = error.to_string();
    ["denied", "must be owner"].iter().any(|words| text.contains(words))
}

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
    let inbox = Inbox::new("orders");
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
    ];
    assert_denied(&outbox, &others).await;
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
    let rights = findings.iter().find(|finding| finding.check == "privileges").unwrap();
    assert_eq!(rights.severity, Severity::Fine, "{rights:?}");

    assert_denied(&outbox, &CHANGES_OF_THE_SCHEMA).await;
    assert_denied(&outbox, &["DELETE FROM notify_audit WHERE 1 = 0", "DELETE FROM notify_schema WHERE 1 = 0"]).await;
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

mod on_postgres {
    use super::*;

    /// The account of a managed server, which is no superuser.
    #[tokio::test]
    async fn script_needs_no_superuser_on_postgres() {
        use test_support::Postgres;

        let (pool, cleanup) = Postgres::create(2).await;
        let Cleanup::Schema(options, schema) = &cleanup else { unreachable!() };
        let (admin, prefix) = (format!("{schema}_admin"), schema.clone());
        let create = format!(
            "CREATE ROLE {admin} LOGIN PASSWORD 'x' CREATEROLE; ALTER ROLE {admin} SET search_path = other, {schema};
             ALTER SCHEMA {schema} OWNER TO {admin}"
        );
        pool.execute(AssertSqlSafe(create)).await.unwrap();
        let options = options.clone().username(&admin).password("x");
        let own = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
        Outbox::new(own.clone()).migrate().await.unwrap();
        let outbox = Outbox::new(pool.clone());
        let mut roles =
            Roles { db: TestDb::<Postgres>::over(outbox, pool, cleanup), prefix, accounts: Vec::new(), extra: None };
        let script = roles.named(Outbox::<sqlx::Postgres>::roles().unwrap());
        for _ in 0..2 {
            own.execute(AssertSqlSafe(script.clone())).await.unwrap();
        }
        own.close().await;
        roles.db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
        let producer = roles.outbox("producer").await;
        let mut tx = producer.begin().await.unwrap();
        add_notice(&mut tx, "sync", 1).await.unwrap();
        tx.commit().await.unwrap();
        // The schema is still the administrator's; a role is dropped with what it granted.
        roles.db.sql(&format!("REASSIGN OWNED BY {admin} TO current_user")).await;
        roles.extra = Some(admin);
        roles.close().await;
    }
}
