//! Throw-away servers for databases, brokers and mail: each in its own temporary directory, on its own port, gone when
//! dropped.
//!
//! [`postgres::start`], [`mariadb::start`], [`mysql::start`], [`redis::start`], [`pgbouncer::start`],
//! [`rabbitmq::start`], [`nats::start`] and [`exim::start`] use the programs installed on this machine or unpacked by it ([`unstable`]), [`docker`] uses containers. This module changes no
//! server that it did not start, and the standard ports stay free. The `xtask` program chooses the way and installs programs.
//! Unix only.

pub mod docker;
pub mod exim;
pub mod mariadb;
pub mod mysql;
pub mod nats;
pub mod pgbouncer;
pub mod postgres;
pub mod rabbitmq;
pub mod redis;
pub mod unstable;

mod engine;
mod place;
mod processes;
pub(crate) mod programs;
mod server;
mod watchdog;

pub use server::{Ending, Server};

/// How a server protects its data from a crash of the *machine*.
///
/// A crash of the server alone (`kill -9`) loses no committed transaction with either of them,
/// because the write-ahead log reaches the operating system at every commit. Tests that kill the
/// server rely on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The log is never forced to the disk: for tests, whose data is thrown away anyway.
    Fast,
    /// The server's default settings: for benchmarks, whose figures would be too good otherwise.
    Default,
}
