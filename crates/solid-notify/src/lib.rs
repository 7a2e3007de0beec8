//! The one crate that users name: it re-exports what an application needs, and nothing is defined here.
//!
//! Choose the database by a feature: `postgres`, `mysql` (MariaDB too), `sqlite`. With the features `anyhow`, `reqwest`,
//! `lettre`, `lapin` and `async-nats` the sweeper recognises the error types of those crates and derives the error class from
//! them. The features `mail` and `chat` add the ready handlers of the module `channels`, `redis` the module of that name; for
//! tests, `testkit` and `simulate` add theirs.
#![doc = include_str!("../README.md")]

#[cfg(any(feature = "mail", feature = "chat"))]
pub use solid_notify_channels as channels;
pub use solid_notify_core::definition::{ColumnValue, DefVersion, KeepHistory, RetryRules, Rule, Schedule, SendWindow};
pub use solid_notify_core::error::{BoxError, FaultKind};
pub use solid_notify_core::{
    ALERT_DEFINITION, AckResult, Added, Alert, AlertKind, AlertReason, AnyOutbox, AttemptRecord, AuditEntry,
    DEAD_LETTERS_DEFINITION, Defined, DefinitionState, Error, ErrorClass, Explanation, Filter, FirstAttempt, HandClock,
    NewNotice, NoticeConnection, NoticeRecord, NotifyDef, Operator, PURGE_DEFINITION, Policy, Problem, Rate, Receipt,
    Reply, ReplyKind, Result, Status, StoreError, TokenKeys, Updated, VerbResult, ack_notice, add_notice, add_notices,
    nack_notice,
};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub use solid_notify_core::{Dialect, NoticeTx, Outbox, OutboxBuilder};
pub use solid_notify_core::{metrics, operate, retry, transition};
#[cfg(feature = "redis")]
pub use solid_notify_redis as redis;
pub use solid_notify_sweeper::{
    Failure, Handler, HandlerResult, HttpStatus, Notice, StartError, Sweeper, SweeperBuilder, Tally,
};
#[cfg(feature = "simulate")]
pub use solid_notify_testkit::simulate;

#[cfg(feature = "testkit")]
/// For the tests of an application: an outbox in memory, a sweeper whose clock the test turns, and checks of what was added.
///
/// [`MemoryOutbox`](testkit::MemoryOutbox) replaces the database, [`HandClock`] the time. [`TestSweeper`](testkit::TestSweeper)
/// runs the application's own handlers: `drain` sends what is due, `advance` lets time pass, `fail_next` fails attempts.
/// [`assert_added`](testkit::assert_added) checks what was added. The chapter "Testing an application" of the book shows all of it.
pub mod testkit {
    pub use solid_notify_sweeper::testing::*;
    pub use solid_notify_testkit::*;
}
