//! [`CountedServer`]: a server that the bench starts for counting, with everything off that would write or read by itself.
//!
//! A file for each product says which counters it has. The counts are cumulative; [`super::measure`] takes differences.

mod mysql;
mod postgres;
mod redis;
mod sqlite;

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::Product;

/// Counters by name.
pub type Counters = BTreeMap<&'static str, f64>;

/// A server whose work is counted. Dropping it stops it.
pub trait CountedServer {
    /// The version of the server, as the file of counts names it.
    fn version(&self) -> Result<String>;

    /// The URL of the database for the subject.
    fn url(&self) -> String;

    /// The TCP port of the server; none where there is no server.
    fn port(&self) -> Option<u16>;

    /// Empties what the subject cannot empty.
    fn empty(&mut self) -> Result<()> {
        Ok(())
    }

    /// Reads the counters while the subject is connected and waits.
    fn read(&mut self) -> Result<Counters>;

    /// Reads the counters that a session reports at its end: before the subject starts, and after it ended. What it costs to queue the
    /// notices must not be among them.
    fn read_ended(&mut self) -> Result<Counters> {
        Ok(Counters::new())
    }
}

/// Starts a server. Blocks.
///
/// # Errors
/// Fails where no server program is installed, and where it lacks a counter.
pub fn start(product: Product) -> Result<Box<dyn CountedServer>> {
    let server: Result<Box<dyn CountedServer>> = match product {
        Product::Postgres => postgres::start().map(|server| Box::new(server) as _),
        Product::Mariadb => mysql::start_mariadb().map(|server| Box::new(server) as _),
        Product::Mysql => mysql::start_mysql().map(|server| Box::new(server) as _),
        Product::Sqlite => sqlite::start().map(|server| Box::new(server) as _),
        Product::Redis => redis::start().map(|server| Box::new(server) as _),
    };
    server.with_context(|| format!("cannot start {product} for counting"))
}
