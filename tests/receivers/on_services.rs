//! The example services in other languages, with the drivers that people use: an order and its notice are booked together or not at
//! all.
//!
//! Arguments and errors of `notify_add` are tested in `stores/plain_sql/`.

use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use solid_notify::{Notice, NotifyDef, OutboxExt};
use sqlx::ConnectOptions;
use test_servers::services;
use test_support::databases::Cleanup;
use test_support::sending::Calls;
use test_support::{Database, MariaDb, MySql, Postgres, Sqlite, TestDb, on_each_database};

on_each_database!(
    service_in_python_books_an_order_with_its_notice,
    service_in_node_books_an_order_with_its_notice,
    service_in_php_books_an_order_with_its_notice,
    service_in_java_books_an_order_with_its_notice,
);

/// With what languages and databases write in their own ways: quotes, a backslash, a character outside the basic plane.
const ITEM: &str = r#"7 "wheels" \ it's 🛞"#;

/// What the services of a database need.
trait Served: Database {
    /// The table of orders.
    const ORDERS: &'static str = "CREATE TABLE orders (id bigint PRIMARY KEY, item text)";
    /// The service in Python.
    const PYTHON: &'static str;
    /// The service in Node.js.
    const NODE: &'static str;
}

impl Served for Postgres {
    const PYTHON: &'static str = "with_psycopg.py";
    const NODE: &'static str = "with_pg.js";
}

impl Served for MariaDb {
    // The character set of the test's database is the server's, perhaps latin1.
    const ORDERS: &'static str = "CREATE TABLE orders (id bigint PRIMARY KEY, item text) CHARACTER SET utf8mb4";
    const PYTHON: &'static str = "with_pymysql.py";
    const NODE: &'static str = "with_mysql2.js";
}

impl Served for MySql {
    const ORDERS: &'static str = MariaDb::ORDERS;
    const PYTHON: &'static str = MariaDb::PYTHON;
    const NODE: &'static str = MariaDb::NODE;
}

impl Served for Sqlite {
    const PYTHON: &'static str = "with_sqlite3.py";
    const NODE: &'static str = "with_sqlite.js";
}

/// The test's database in the words of the drivers.
struct Address {
    /// As Python, Node.js and psql name it.
    url: String,
    /// As PHP names it.
    pdo: String,
    /// As Java names it.
    jdbc: String,
}

impl Address {
    fn of(database: &Cleanup) -> Self {
        match database {
            Cleanup::Directory(directory) => {
                let file = directory.path().join("test.db").to_str().unwrap().to_owned();
                Self { pdo: format!("sqlite:{file}"), jdbc: format!("jdbc:sqlite:{file}"), url: file }
            }
            Cleanup::Schema(server, schema) => {
                let mut url = server.to_url_lossy();
                // `search_path` by an option of the session.
                url.set_query(Some(&format!("options=-csearch_path%3D{schema}")));
                let (host, port, user) = (server.get_host(), server.get_port(), server.get_username());
                let name = server.get_database().unwrap_or(user);
                let password = url.password().unwrap_or_default();
                Self {
                    pdo: format!(
                        "pgsql:host={host};port={port};dbname={name};user={user};password='{password}';options=-csearch_path={schema}"
                    ),
                    jdbc: format!(
                        "jdbc:postgresql://{host}:{port}/{name}?user={user}&password={password}&currentSchema={schema}"
                    ),
                    url: url.into(),
                }
            }
            Cleanup::Database(server, name) => {
                let mut url = server.to_url_lossy();
                url.set_query(None);
                url.set_path(name);
                let (host, port, user) = (server.get_host(), server.get_port(), server.get_username());
                let password = url.password().unwrap_or_default();
                Self {
                    pdo: format!(
                        "mysql:host={host};port={port};dbname={name};user={user};password={password};charset=utf8mb4"
                    ),
                    jdbc: format!("jdbc:mariadb://{host}:{port}/{name}?user={user}&password={password}"),
                    url: url.into(),
                }
            }
        }
    }
}

/// Runs a service to its end, in a thread that may block.
async fn output(mut service: Command) -> Output {
    let run = move || service.stdin(Stdio::null()).env("NO_PROXY", "127.0.0.1").output().unwrap();
    tokio::task::spawn_blocking(run).await.unwrap()
}

/// `book` returns a command that books the order of this id, and then commits or rolls back. `failed` is its exit code after an error.
async fn books_an_order_with_its_notice<D: Served>(
    db: TestDb<D>,
    failed: i32,
    book: impl Fn(&Address, &str, &str) -> Command,
) {
    let address = Address::of(&db.cleanup);
    let counts = async || {
        let orders = D::number(&db.pool, "SELECT count(*) FROM orders").await;
        (orders, D::number(&db.pool, "SELECT count(*) FROM notify_msg").await)
    };

    // No definition has the name that the service gives.
    let refused = output(book(&address, "6", "commit")).await;
    let complaint = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(failed), "{complaint}");
    assert!(complaint.contains("notify_add: there is no definition"), "{complaint}");
    assert_eq!(counts().await, (0, 0));

    db.outbox.define_if_missing(NotifyDef::new("order_booked")).await.unwrap();
    for (end, expected) in [("rollback", (0, 0)), ("commit", (1, 1))] {
        let done = output(book(&address, "7", end)).await;
        assert!(done.status.success(), "{end}: {}", String::from_utf8_lossy(&done.stderr));
        assert_eq!(counts().await, expected, "{end}");
    }
    assert_eq!(db.shell().run("SELECT item FROM orders WHERE id = 7;").well(), ITEM);

    let calls = Calls::<Value>::default();
    let noted = calls.clone();
    let handler = move |notice: Notice<Value>| {
        noted.note(notice.param().clone());
        async { Ok(()) }
    };
    db.outbox.sweeper().handler("order_booked", handler).run_until_idle().await.unwrap();
    assert_eq!(calls.all(), [json!({ "id": 7, "item": ITEM })]);
    db.close().await;
}

/// A database with the table of orders.
async fn shop<D: Served>() -> TestDb<D> {
    let db = TestDb::<D>::with_real_clock().await;
    db.sql(D::ORDERS).await;
    db
}

/// Completes the command of a service.
fn with(mut service: Command, url: &str, id: &str, end: &str) -> Command {
    service.env("DATABASE_URL", url).args([id, ITEM, end]);
    service
}

async fn service_in_python_books_an_order_with_its_notice<D: Served>() {
    let book = |to: &Address, id: &str, end: &str| with(services::python(D::PYTHON).unwrap(), &to.url, id, end);
    books_an_order_with_its_notice(shop::<D>().await, 1, book).await;
}

async fn service_in_node_books_an_order_with_its_notice<D: Served>() {
    let book = |to: &Address, id: &str, end: &str| with(services::node(D::NODE).unwrap(), &to.url, id, end);
    books_an_order_with_its_notice(shop::<D>().await, 1, book).await;
}

async fn service_in_php_books_an_order_with_its_notice<D: Served>() {
    let book = |to: &Address, id: &str, end: &str| with(services::php().unwrap(), &to.pdo, id, end);
    books_an_order_with_its_notice(shop::<D>().await, 1, book).await;
}

async fn service_in_java_books_an_order_with_its_notice<D: Served>() {
    let book = |to: &Address, id: &str, end: &str| with(services::java().unwrap(), &to.jdbc, id, end);
    books_an_order_with_its_notice(shop::<D>().await, 1, book).await;
}

mod on_postgres {
    use test_servers::clients::PSQL;

    use super::*;

    /// psql's exit code for an error in a script.
    const FAILED: i32 = 3;

    fn psql(to: &Address, script: &str) -> Command {
        let mut psql = Command::new(PSQL.find().unwrap());
        psql.env("PGCLIENTENCODING", "UTF8").args(["--no-psqlrc", "--dbname", &to.url]);
        psql.arg("--file").arg(services::psql_script(script));
        psql
    }

    fn book(to: &Address, script: &str, id: &str, end: &str) -> Command {
        let mut psql = psql(to, script);
        let set = [format!("id={id}"), format!("item={ITEM}"), format!("end={end}")];
        psql.args(set.iter().flat_map(|variable| ["--set", variable]));
        psql
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn psql_books_an_order_with_its_notice() {
        let book = |to: &Address, id: &str, end: &str| book(to, "book.sql", id, end);
        books_an_order_with_its_notice(shop::<Postgres>().await, FAILED, book).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn trigger_adds_the_notice_of_an_order_that_psql_books() {
        let db = shop::<Postgres>().await;
        let made = output(psql(&Address::of(&db.cleanup), "trigger.sql")).await;
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let book = |to: &Address, id: &str, end: &str| book(to, "insert.sql", id, end);
        books_an_order_with_its_notice(db, FAILED, book).await;
    }
}
