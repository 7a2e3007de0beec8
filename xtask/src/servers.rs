//! Throw-away servers for databases and mail: each in its own temporary directory, on its own port, gone when
//! dropped.
//!
//! [`postgres::start`], [`mariadb::start`], [`redis::start`] and [`exim::start`] use the programs installed on this machine,
//! [`docker`] uses containers. Nothing here touches a server that it did not start itself, and the
//! standard ports stay free. Which of the ways is taken, and installing programs, is left to the
//! `xtask` program. Unix only.

pub mod docker;
pub mod exim;
pub mod mariadb;
pub mod postgres;
pub mod redis;

mod engine;
mod place;
mod processes;
pub(crate) mod programs;
mod server;
mod watchdog;

pub use server::{Ending, Server};

/// What a server does so that its data survives a crash of the *machine*.
///
/// A crash of the server alone (`kill -9`) loses no committed transaction with either of them,
/// because the write-ahead log reaches the operating system at every commit. Tests that kill the
/// server rely on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The log is never forced to the disk: for tests, whose data is thrown away anyway.
    Fast,
    /// The settings that the server has by default: for benchmarks, which would otherwise measure
    /// too well.
    Default,
}
