//! Connections by sqlx 0.9 and 0.8, and the business statement, the same for all peers.
//!
//! The application's pool has ten connections, opened in advance and not tested at each use, as in `bench`. A peer that wants a pool of
//! its own makes it.

use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

/// A database product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Product {
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    Mariadb,
    /// MySQL.
    Mysql,
    /// SQLite with `synchronous = FULL`.
    Sqlite,
    /// SQLite with `synchronous = NORMAL`.
    SqliteNormal,
    /// Redis.
    Redis,
}

const POOL: u32 = 10;
/// As in `bench`: eight producers without a pause wait for one lock.
const BUSY: Duration = Duration::from_secs(60);

const BUSINESS: [&str; 3] = [
    "CREATE TABLE business (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount bigint NOT NULL, note text)",
    "CREATE TABLE business (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, amount bigint NOT NULL, note text)",
    "CREATE TABLE business (id integer PRIMARY KEY, amount integer NOT NULL, note text)",
];
const BOOK: [&str; 2] =
    ["INSERT INTO business (amount, note) VALUES ($1, $2)", "INSERT INTO business (amount, note) VALUES (?, ?)"];

/// Writes the connections for one version of sqlx.
macro_rules! connections {
    ($module:ident, $sqlx:ident) => {
        /// Connections by this version of sqlx.
        pub mod $module {
            use $sqlx::mysql::{MySqlConnection, MySqlPool, MySqlPoolOptions};
            use $sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
            use $sqlx::sqlite::{
                SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
                SqliteSynchronous,
            };

            use super::{BOOK, BUSINESS, BUSY, POOL, Product, Result};

            /// Opens the pool, and creates the table of business.
            pub async fn postgres(url: &str) -> Result<PgPool> {
                let options =
                    PgPoolOptions::new().max_connections(POOL).min_connections(POOL).test_before_acquire(false);
                let pool = options.connect(url).await?;
                $sqlx::query(BUSINESS[0]).execute(&pool).await?;
                Ok(pool)
            }

            /// Opens the pool, and creates the table of business.
            pub async fn mysql(url: &str) -> Result<MySqlPool> {
                let options =
                    MySqlPoolOptions::new().max_connections(POOL).min_connections(POOL).test_before_acquire(false);
                let pool = options.connect(url).await?;
                $sqlx::query(BUSINESS[1]).execute(&pool).await?;
                Ok(pool)
            }

            /// Returns the options of a file.
            pub fn file(path: &str, product: Product) -> SqliteConnectOptions {
                let synchronous = match product {
                    Product::SqliteNormal => SqliteSynchronous::Normal,
                    _ => SqliteSynchronous::Full,
                };
                let options =
                    SqliteConnectOptions::new().filename(path).create_if_missing(true).synchronous(synchronous);
                options.journal_mode(SqliteJournalMode::Wal).busy_timeout(BUSY)
            }

            /// Opens the pool, and creates the table of business.
            pub async fn sqlite(path: &str, product: Product) -> Result<SqlitePool> {
                let options =
                    SqlitePoolOptions::new().max_connections(POOL).min_connections(POOL).test_before_acquire(false);
                let pool = options.connect_with(file(path, product)).await?;
                $sqlx::query(BUSINESS[2]).execute(&pool).await?;
                Ok(pool)
            }

            /// Does the business statement.
            pub async fn book_postgres(conn: &mut PgConnection, amount: i64) -> Result<()> {
                $sqlx::query(BOOK[0]).bind(amount).bind("a booking of the bench").execute(conn).await?;
                Ok(())
            }

            /// Does the business statement.
            pub async fn book_mysql(conn: &mut MySqlConnection, amount: i64) -> Result<()> {
                $sqlx::query(BOOK[1]).bind(amount).bind("a booking of the bench").execute(conn).await?;
                Ok(())
            }

            /// Does the business statement.
            pub async fn book_sqlite(conn: &mut SqliteConnection, amount: i64) -> Result<()> {
                $sqlx::query(BOOK[0]).bind(amount).bind("a booking of the bench").execute(conn).await?;
                Ok(())
            }
        }
    };
}

connections!(sqlx09, sqlx);
connections!(sqlx08, sqlx08);
