//! The measured databases: the source of their servers, and [`Arena`], one database with the pool and the
//! outbox that all workloads of a run share.
//!
//! `raw` has the differences between databases.

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;
use solid_notify::{NotifyDef, Outbox};
use sqlx::pool::PoolOptions;
use sqlx::{Connection, Pool};
use tempfile::TempDir;
use test_servers::servers::{Durability, Ending, Server, mariadb, mysql, postgres, redis};
use test_servers::unpack;

use crate::processor_time;
use crate::raw::Measured;

/// A database product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Product {
    /// The server at `POSTGRES_URL`, else a private one.
    Postgres,
    /// The server at `MARIADB_URL`, else a private one.
    Mariadb,
    /// The server at `MYSQL_URL`, else a private one.
    Mysql,
    /// A file in a temporary directory, with `synchronous = FULL`, SQLite's default.
    Sqlite,
    /// The same with `synchronous = NORMAL`: a crash of the machine may lose the last commits.
    #[value(name = "sqlite_normal")]
    #[serde(rename = "sqlite_normal")]
    SqliteNormal,
    /// The server at `REDIS_URL`, else a private one.
    Redis,
}

impl std::fmt::Display for Product {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Postgres => "postgres",
            Self::Mariadb => "mariadb",
            Self::Mysql => "mysql",
            Self::Sqlite => "sqlite",
            Self::SqliteNormal => "sqlite_normal",
            Self::Redis => "redis",
        })
    }
}

/// A server of one product, on which databases can be made. Dropping it stops a private server.
pub struct Site {
    /// The product.
    pub product: Product,
    /// The server's URL, for SQLite the file (see [`NORMAL`]).
    pub url: String,
    /// The private one.
    server: Option<Server>,
    /// SQLite's.
    _directory: Option<TempDir>,
}

impl Site {
    /// Returns the server that the environment names, else a private one, as durable as it is by default. Gets the programs of MySQL
    /// where they are missing, because no package of Debian installs them beside MariaDB's. Blocks.
    ///
    /// # Errors
    /// Fails where no server program is installed.
    pub fn open(product: Product) -> Result<Self> {
        let (variable, start): (_, fn(Durability) -> Result<Server>) = match product {
            Product::Postgres => ("POSTGRES_URL", postgres::start_with),
            Product::Mariadb => ("MARIADB_URL", mariadb::start_with),
            Product::Mysql => ("MYSQL_URL", mysql::start_with),
            Product::Redis => ("REDIS_URL", redis::start_with),
            Product::Sqlite | Product::SqliteNormal => {
                let directory = tempfile::tempdir()?;
                let mut url = directory.path().join("bench.db").to_string_lossy().into_owned();
                if product == Product::SqliteNormal {
                    url.push_str(NORMAL);
                }
                return Ok(Self { product, url, server: None, _directory: Some(directory) });
            }
        };
        if let Ok(url) = std::env::var(variable) {
            return Ok(Self { product, url, server: None, _directory: None });
        }
        eprintln!("starting a private {product} server ({variable} is not set)");
        if product == Product::Mysql && !mysql::is_installed() {
            unpack::unpack()
                .with_context(|| format!("no MySQL server is installed: install {}", mysql::HOW_TO_INSTALL))?;
        }
        let server = start(Durability::Default)?;
        Ok(Self { product, url: server.url().to_owned(), server: Some(server), _directory: None })
    }

    /// The Postgres that the environment names, else a private one, which keeps statistics of its statements where the
    /// extension for it is installed. Blocks.
    ///
    /// # Errors
    /// Fails where no server program is installed.
    pub fn open_with_statement_statistics() -> Result<Self> {
        let mut site = Self::open(Product::Postgres)?;
        if let Some(server) = &mut site.server {
            let installed = "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_stat_statements'";
            if server.query(installed)? == "1" {
                server.query("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'")?;
                server.restart(Ending::Graceful)?;
            }
        }
        Ok(site)
    }

    /// The processor time of a private server so far, in seconds, if the system shows it.
    pub fn processor_time(&self) -> Option<f64> {
        processor_time::with_children(self.server.as_ref()?.process()?)
    }

    /// The server's version and its durability settings.
    ///
    /// # Errors
    /// Errors of the database.
    pub async fn settings<DB: Measured>(&self) -> Result<Vec<(String, String)>> {
        let mut conn = DB::Connection::connect_with(&DB::options(&self.url, None)?).await?;
        let settings = DB::settings(&mut conn).await?;
        conn.close().await?;
        Ok(settings)
    }
}

/// Behind the file's name in the URL of SQLite: `synchronous = NORMAL`.
pub const NORMAL: &str = "?synchronous=normal";

/// The name of the definition whose successes are kept in history.
pub const DEFINITION: &str = "bench";
/// The name of the definition whose successes are not kept.
pub const WITHOUT_HISTORY: &str = "bench_without_history";
/// The name of the definition whose target is dead.
pub const DEAD: &str = "bench_dead";
/// The size of the application's pool, on both sides.
const POOL: u32 = 10;

/// One database of the bench with its tables, both sides' alike.
pub struct Arena<DB: Measured> {
    /// The application's pool, which both sides use.
    pub pool: Pool<DB>,
    /// Our side.
    pub outbox: Outbox<DB>,
    url: String,
    name: String,
}

/// The location of an [`Arena`], for a process of its own.
#[derive(Debug, Clone, clap::Args)]
pub struct Address {
    /// The server's URL, for SQLite the file.
    #[arg(long)]
    url: String,
    /// The schema or database in it.
    #[arg(long)]
    name: String,
}

impl Address {
    /// As arguments of a command.
    pub fn arguments(&self) -> [&str; 4] {
        ["--url", &self.url, "--name", &self.name]
    }
}

impl<DB: Measured> Arena<DB> {
    /// Makes a database of its own at `site`, and the tables in it.
    ///
    /// # Errors
    /// Errors of the database.
    pub async fn create(site: &Site, like_ours: bool) -> Result<Self> {
        let name = format!("bench_{:016x}", fastrand::u64(..));
        if let Some(create) = DB::create(&name) {
            let mut conn = DB::Connection::connect_with(&DB::options(&site.url, None)?).await?;
            DB::plain(&mut conn, create).await?;
            conn.close().await?;
        }
        let arena = Self::open(&Address { url: site.url.clone(), name }).await?;
        arena.outbox.migrate().await?;
        // A no-op handler needs the room of the node's whole limit; with the default of 20 it would wait for the settling
        // of each handful. Everything else is as the library has it by default.
        let definition = |name| NotifyDef::new(name).max_concurrency(2000);
        arena.outbox.define_if_missing(definition(DEFINITION)).await?;
        arena.outbox.define_if_missing(definition(WITHOUT_HISTORY).keep_history("none")).await?;
        // By default twenty at a time, each until its time-out.
        arena.outbox.define_if_missing(NotifyDef::new(DEAD).timeout("1s")).await?;
        DB::plain(&mut *arena.pool.acquire().await?, DB::TABLES.to_owned()).await?;
        if like_ours {
            let tables = DB::LIKE_OURS.with_context(|| format!("{} cannot copy the form of a table", DB::PRODUCT))?;
            DB::plain(&mut *arena.pool.acquire().await?, tables.to_owned()).await?;
        }
        Ok(arena)
    }

    /// Opens a database that another process has made.
    ///
    /// # Errors
    /// Errors of the database.
    pub async fn open(address: &Address) -> Result<Self> {
        let Address { url, name } = address.clone();
        let options = PoolOptions::<DB>::new().max_connections(POOL).min_connections(POOL).test_before_acquire(false);
        let pool = options.connect_with(DB::options(&url, Some(&name))?).await?;
        Ok(Self { outbox: Outbox::new(pool.clone()), pool, url, name })
    }

    /// Where it is.
    pub fn address(&self) -> Address {
        Address { url: self.url.clone(), name: self.name.clone() }
    }

    /// A connection beside the pool.
    ///
    /// # Errors
    /// Errors of the database.
    pub async fn connect(&self) -> Result<DB::Connection> {
        Ok(DB::Connection::connect_with(&DB::options(&self.url, Some(&self.name))?).await?)
    }

    /// The id of one of our definitions.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn definition(&self, name: &str) -> Result<i64> {
        let definitions = self.outbox.definitions().await?;
        let found = definitions.iter().find(|definition| definition.row.name == name);
        found.map(|definition| definition.row.id).with_context(|| format!("the definition {name} is missing"))
    }

    /// Empties all tables, so that each repetition starts from the same state.
    ///
    /// # Errors
    /// Errors of the database.
    pub async fn reset(&self) -> Result<()> {
        self.each(DB::RESET).await
    }

    /// Queues `count` notices of a definition by plain SQL.
    ///
    /// # Errors
    /// Errors of the database.
    pub async fn fill(&self, table: Table, def_id: i64, count: usize) -> Result<()> {
        let mut conn = self.pool.acquire().await?;
        DB::plain(&mut conn, DB::fill(table, def_id, count)).await?;
        drop(conn);
        self.each(DB::AFTER_FILL).await
    }

    /// One number.
    ///
    /// # Errors
    /// Errors of the database.
    pub async fn number(&self, sql: &'static str) -> Result<i64> {
        Ok(DB::number(&mut *self.pool.acquire().await?, sql).await?)
    }

    /// Runs statements that cannot share a transaction, one by one.
    async fn each(&self, statements: &[&'static str]) -> Result<()> {
        let mut conn = self.pool.acquire().await?;
        for statement in statements {
            let done = DB::plain(&mut conn, (*statement).to_owned()).await;
            // It reduces the noise, and needs a right that the account may lack.
            if *statement != "CHECKPOINT" {
                done.with_context(|| format!("at {statement}"))?;
            }
        }
        Ok(())
    }

    /// Drops the database.
    ///
    /// # Errors
    /// Errors of the database.
    pub async fn drop(self) -> Result<()> {
        self.pool.close().await;
        if let Some(drop) = DB::drop(&self.name) {
            let mut conn = DB::Connection::connect_with(&DB::options(&self.url, None)?).await?;
            DB::plain(&mut conn, drop).await?;
            conn.close().await?;
        }
        Ok(())
    }
}

/// The table to fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// `notify_msg`.
    Ours,
    /// `raw_msg`.
    Raw,
}
