//! The one crate that users name: it re-exports what an application needs, and nothing is defined here.
//!
//! Choose the database by a feature: `postgres`, `mysql` (MariaDB too), `sqlite`. The features `anyhow`, `reqwest`, `lettre`,
//! `lapin` and `async-nats` let the class of those crates' errors be told by their type. The features `mail` and `chat` add the
//! ready handlers of the module `channels`, `redis` the module of that name; for tests, `testkit` and `simulate` add theirs.
#![cfg_attr(feature = "sqlite", doc = include_str!("../README.md"))]

#[cfg(any(feature = "mail", feature = "chat"))]
pub use solid_notify_channels as channels;
pub use solid_notify_core::definition::{ColumnValue, DefVersion, KeepHistory, RetryRules, Rule, Schedule, SendWindow};
pub use solid_notify_core::error::{BoxError, FaultKind};
pub use solid_notify_core::{
    ALERT_DEFINITION, Added, Alert, AlertKind, AlertReason, Answer, AttemptRecord, AuditEntry, Confirmation, Confirmed,
    DEAD_LETTERS_DEFINITION, Defined, DefinitionState, Error, ErrorClass, Explanation, Filter, FirstAttempt, HandClock,
    NewNotice, NoticeConnection, NoticeRecord, NotifyDef, Operator, Outbox, PURGE_DEFINITION, Policy, Problem, Rate,
    Receipt, Result, Status, StoreError, TokenKeys, Updated, Verdict, ack_notice, add_notice, add_notices, nack_notice,
};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub use solid_notify_core::{Dialect, NoticeTx, Notify, NotifyBuilder};
pub use solid_notify_core::{metrics, operate, retry, transition};
#[cfg(feature = "redis")]
pub use solid_notify_redis as redis;
pub use solid_notify_sweeper::{
    Done, Failure, Handler, HandlerResult, HttpStatus, Notice, StartError, Sweeper, SweeperBuilder, Tally,
};
#[cfg(feature = "simulate")]
pub use solid_notify_testkit::simulate;

#[cfg(feature = "testkit")]
#[doc = include_str!("../TESTING.md")]
pub mod testkit {
    pub use solid_notify_sweeper::testing::*;
    pub use solid_notify_testkit::*;
}
