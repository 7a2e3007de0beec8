//! The shop: an application in any language. It writes orders, and adds their notices by plain SQL in the same transactions.

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Executor};

pub(super) struct Shop {
    database: SqliteConnection,
}

impl Shop {
    /// Opens the database that the program has migrated.
    pub(super) async fn open(file: &Path) -> sqlx::Result<Self> {
        // `serve` writes, too, and each commit waits for the disk.
        let options = SqliteConnectOptions::new().filename(file).busy_timeout(Duration::from_secs(60));
        let mut database = options.connect().await?;
        database.execute("CREATE TABLE orders (id integer PRIMARY KEY, item text NOT NULL)").await?;
        Ok(Self { database })
    }

    /// Writes an order and adds a notice of it, as one transaction. Both or none exist afterwards.
    pub(super) async fn book(&mut self, order: i64, item: &str, definition: &str, end: End) -> sqlx::Result<()> {
        let mut transaction = self.database.begin_with("BEGIN IMMEDIATE").await?;
        let insert = sqlx::query("INSERT INTO orders (id, item) VALUES (?, ?)").bind(order).bind(item);
        insert.execute(&mut *transaction).await?;
        let add = "INSERT INTO notify_add (name, param) VALUES (?, json_object('order', ?, 'item', ?))";
        sqlx::query(add).bind(definition).bind(order).bind(item).execute(&mut *transaction).await?;
        match end {
            End::Commit => transaction.commit().await,
            End::Rollback => transaction.rollback().await,
        }
    }

    /// Returns the number of orders.
    pub(super) async fn orders(&mut self) -> sqlx::Result<i64> {
        sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&mut self.database).await
    }

    pub(super) async fn close(self) -> sqlx::Result<()> {
        self.database.close().await
    }
}

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Commit,
    Rollback,
}
