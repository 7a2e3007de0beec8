//! An empty database for one repetition of a peer, which has fixed names for its tables.

use anyhow::{Context, Result};
use reqwest::Url;
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, PgConnection};
use tempfile::TempDir;

use crate::databases::{Product, Site};
use crate::redis_notices;

/// The database. [`Place::drop`] drops it.
pub struct Place {
    product: Product,
    server: String,
    name: String,
    url: String,
    /// Keeps SQLite's file.
    _directory: Option<TempDir>,
}

impl Place {
    /// Makes a database at `site`; on Redis, a prefix of keys.
    ///
    /// # Errors
    /// Errors of the database.
    pub async fn create(site: &Site) -> Result<Self> {
        let name = format!("bench_peer_{:016x}", fastrand::u64(..));
        let server = site.url.clone();
        let (url, directory) = match site.product {
            Product::Postgres | Product::Mariadb | Product::Mysql => {
                execute(site.product, &server, format!("CREATE DATABASE {name}")).await?;
                let mut url =
                    Url::parse(&server).with_context(|| format!("the server of {} has no URL", site.product))?;
                url.set_path(&name);
                (url.to_string(), None)
            }
            Product::Sqlite | Product::SqliteNormal => {
                let directory = tempfile::tempdir()?;
                (directory.path().join("peer.db").to_string_lossy().into_owned(), Some(directory))
            }
            Product::Redis => (server.clone(), None),
        };
        Ok(Self { product: site.product, server, name, url, _directory: directory })
    }

    /// The URL for the peer; for SQLite the file.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The name of the database; on Redis the beginning of all keys.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Drops the database.
    ///
    /// # Errors
    /// Errors of the database.
    pub async fn drop(self) -> Result<()> {
        match self.product {
            Product::Postgres => {
                execute(self.product, &self.server, format!("DROP DATABASE {} WITH (FORCE)", self.name)).await
            }
            Product::Mariadb | Product::Mysql => {
                execute(self.product, &self.server, format!("DROP DATABASE {}", self.name)).await
            }
            Product::Sqlite | Product::SqliteNormal => Ok(()),
            Product::Redis => redis_notices::clear(&self.server, &self.name).await,
        }
    }
}

async fn execute(product: Product, url: &str, sql: String) -> Result<()> {
    let sql = sqlx::raw_sql(AssertSqlSafe(sql));
    if product == Product::Postgres {
        let mut connection = PgConnection::connect(url).await?;
        connection.execute(sql).await?;
        connection.close().await?;
    } else {
        let mut connection = MySqlConnection::connect(url).await?;
        connection.execute(sql).await?;
        connection.close().await?;
    }
    Ok(())
}
