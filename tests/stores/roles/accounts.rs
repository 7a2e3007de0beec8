//! The accounts of one test, each with one of the roles.

use std::collections::{BTreeMap, BTreeSet};

use solid_notify::sql::Dialect;
use solid_notify::{NotifyDef, Outbox};
use solid_notify_conformance::Backend;
use sqlx::{AssertSqlSafe, Executor, Pool};
use test_support::databases::Cleanup;
use test_support::{Database, TestDb};

/// The roles of one test: their names begin with that of its database, because a server has one set of roles.
pub(super) struct Roles<D: Accounts> {
    pub(super) db: TestDb<D>,
    pub(super) prefix: String,
    pub(super) accounts: Vec<(String, Pool<D::Db>)>,
    /// The account that has created the roles, if it is the test's.
    pub(super) extra: Option<String>,
}

impl<D: Accounts> Roles<D> {
    pub(super) async fn create() -> Self {
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

    pub(super) fn named(&self, script: &str) -> String {
        ["owner", "producer", "sweeper", "editor", "reader"].into_iter().fold(script.to_owned(), |script, role| {
            script.replace(&format!("notify_{role}"), &format!("{}_{role}", self.prefix))
        })
    }

    /// An outbox of an account that has this role alone. Its clock is that of the test.
    pub(super) async fn outbox(&mut self, role: &str) -> Outbox<D::Db> {
        let account = format!("{}_as_{}", self.prefix, &role[..1]);
        let pool = D::account(&self.db, &account, &format!("{}_{role}", self.prefix)).await;
        self.accounts.push((account, pool.clone()));
        Outbox::builder(pool).clock(self.db.clock().clone()).build()
    }

    pub(super) async fn close(self) {
        for (account, pool) in self.accounts {
            pool.close().await;
            D::drop_role(&self.db, &account).await;
        }
        for role in ["producer", "sweeper", "editor", "reader", "owner"] {
            D::drop_role(&self.db, &format!("{}_{role}", self.prefix)).await;
        }
        if let Some(account) = &self.extra {
            D::drop_role(&self.db, account).await;
        }
        self.db.close().await;
    }
}

/// How a server creates accounts.
pub(super) trait Accounts: Database {
    async fn account(db: &TestDb<Self>, account: &str, role: &str) -> Pool<Self::Db>
    where
        Self: Sized;

    async fn drop_role(db: &TestDb<Self>, role: &str)
    where
        Self: Sized;

    /// The tables and views of a test, with their columns.
    async fn columns(db: &TestDb<Self>) -> BTreeMap<String, BTreeSet<String>>
    where
        Self: Sized;
}

/// Reads pairs of table and column.
fn by_table(pairs: Vec<(String, String)>) -> BTreeMap<String, BTreeSet<String>> {
    let mut tables = BTreeMap::<_, BTreeSet<_>>::new();
    for (table, column) in pairs {
        tables.entry(table).or_default().insert(column);
    }
    tables
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

    async fn columns(db: &TestDb<Self>) -> BTreeMap<String, BTreeSet<String>> {
        const COLUMNS: &str = "SELECT table_name::text, column_name::text FROM information_schema.columns WHERE table_schema = current_schema()";
        by_table(sqlx::query_as(COLUMNS).fetch_all(&db.pool).await.unwrap())
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

            async fn columns(db: &TestDb<Self>) -> BTreeMap<String, BTreeSet<String>> {
                // As binary strings the server returns its names in some versions.
                const COLUMNS: &str = "SELECT CAST(table_name AS char), CAST(column_name AS char) FROM information_schema.columns \
                                       WHERE table_schema = database()";
                by_table(sqlx::query_as(COLUMNS).fetch_all(&db.pool).await.unwrap())
            }
        }
    };
}
mysql_accounts!(MariaDb, "FOR");
mysql_accounts!(MySql, "TO");

/// Asserts that the database refuses each of these statements because of the account's rights.
pub(super) async fn assert_denied<DB: Dialect>(outbox: &Outbox<DB>, statements: &[&str])
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

pub(super) fn is_denial(error: &sqlx::Error) -> bool {
    let text = error.to_string();
    ["denied", "must be owner"].iter().any(|words| text.contains(words))
}
