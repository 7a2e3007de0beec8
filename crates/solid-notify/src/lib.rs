//! The one crate that users name: it re-exports what an application needs. Only [`ConnectedOutbox`] is defined here.
//!
//! Choose the database by a feature: `postgres`, `mysql` (MariaDB too), `sqlite`. With the features `anyhow`, `reqwest`,
//! `lettre`, `lapin` and `async-nats` the sweeper recognises the error types of those crates and derives the error class from
//! them. The features `amqp`, `chat`, `mail`, `nats`, `redis-streams` and `webhook` add ready channels to the module `channels`, `ack-http`, `redis` and `timed` the modules of
//! these names; for tests, `testkit` and `simulate` add theirs. With `toml`, definitions can be in a file. `cipher` adds the ready cipher
//! of the module of that name.
// The README of the repository, or its copy in the published package.
#![doc = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/", env!("CARGO_PKG_README")))]

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite", feature = "redis"))]
mod connect;

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite", feature = "redis"))]
pub use connect::ConnectedOutbox;
#[cfg(feature = "ack-http")]
pub use solid_notify_ack_http as ack_http;
#[cfg(any(
    feature = "amqp",
    feature = "mail",
    feature = "nats",
    feature = "plain-chat",
    feature = "plain-webhook",
    feature = "redis-streams"
))]
pub use solid_notify_channels as channels;
#[doc(hidden)]
pub use solid_notify_core as spi;
pub use solid_notify_core::{
    AckResult, Alert, AnyOutbox, Definition, Error, ErrorClass, Filter, FirstAttempt, HandClock, Inbox, NewNotice,
    NoticeConnection, NoticeRecord, NotifyDef, Operator, Receipt, Response, Result, Status, TokenKeys, VerbResult,
    ack_notice, add_notice, add_notices, metrics, nack_notice, retry,
};
#[cfg(feature = "redis")]
pub use solid_notify_redis as redis;
#[cfg(feature = "simulate")]
pub use solid_notify_simulate as simulate;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub use solid_notify_sql::{NoticeTx, Outbox};
pub use solid_notify_sweeper::{
    Failure, Handler, HandlerResult, HttpStatus, Notice, OutboxExt, Sweeper, SweeperBuilder, Tally,
};
#[cfg(feature = "timed")]
pub use solid_notify_timed as timed;

/// Acks and nacks with all their parts: tokens, and replies within the application's own transaction.
pub mod ack {
    pub use solid_notify_core::ack::{AckResult, Reply, ReplyKind};
    pub use solid_notify_core::connection::{ack_notice, nack_notice};
    pub use solid_notify_core::token::{AckToken, TokenKeys};
}

/// Alerts: why one was raised, and the definition that sends it.
pub mod alert {
    pub use solid_notify_core::alert::{ALERT_DEFINITION, Alert, AlertKind, AlertReason};
}

/// Encryption of parameters: the trait of a cipher, and the ready one (feature `cipher`).
pub mod cipher {
    pub use solid_notify_core::cipher::{CipherError, Ciphertext, ENCRYPTED, ParamCipher, is_encrypted};
    #[cfg(feature = "cipher")]
    pub use solid_notify_core::param_keys::{ParamKey, ParamKeys};
}

/// Definitions: their columns, the parsed values, the results of editing them, and all of them as one list or file.
pub mod definition {
    pub use solid_notify_core::definition::{
        AlertTrigger, ColumnValue, DefVersion, Definitions, Difference, ExposeSecret, FileProblem, KeepHistory, MASKED,
        Mask, MissedTicks, NotifyDef, Policy, Problem, RetryRules, Rule, Schedule, SecretError, SecretRef, SecretRule,
        SecretRules, SecretString, SendWindow, TargetFilter, Unjudged, WrongSecretPattern, read_config,
    };
    pub use solid_notify_core::operate::{Applied, DefinitionsPlan, PlannedChange};
    pub use solid_notify_core::outbox::{Defined, DefinitionState, Plan, Refusal, Updated};
    pub use solid_notify_core::typed::{Definition, DefinitionName};
    pub use solid_notify_core::{ALERT_DEFINITION, BULK_DEFINITION, DEAD_LETTERS_DEFINITION, PURGE_DEFINITION};
}

/// The databases behind an [`Outbox`]: its builder, and the bounds of code that is generic over the database.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub mod sql {
    pub use solid_notify_sql::{BySqlx, Dialect, NoticeTx, Outbox, OutboxBuilder};
}

/// A process that sends: its builder, its health, and batch handlers ([`SweeperBuilder::batch_handler`]).
pub mod sweeper {
    pub use solid_notify_sweeper::{
        Batch, BatchResult, StartError, Sweeper, SweeperBuilder, SweeperHealth, SweeperMonitor, Tally,
    };
}

/// Errors, and the kinds of faults of a store.
pub mod error {
    pub use solid_notify_core::OwnClass;
    pub use solid_notify_core::error::{BoxError, Error, FaultKind, Result, StoreError};
    pub use solid_notify_sweeper::StartError;
}

/// What an [`Operator`] asks and gets: filters, lists, previews, explanations, the audit.
pub mod operate {
    pub use solid_notify_core::finding::{Finding, Severity};
    pub use solid_notify_core::notice::{AttemptRecord, LastResponse, OwnLimits};
    pub use solid_notify_core::operate::{
        ActVerb, AuditFilter, AuditPage, Bulk, BulkAct, BulkDone, BulkHandle, BulkOrder, BulkProgress, Circuit,
        ClassCount, Counted, Cursor, DefRef, EditPreview, ErrorGroup, Explanation, Filter, HandlerChange, InFlight,
        IntervalChange, MOST_IDS, NO_CLASS, NextStep, OpenAlert, Operator, Page, Preview, Rate, SeriesPoint, Why,
    };
    pub use solid_notify_core::store::verb::VerbResult;
    pub use solid_notify_core::store::{
        AuditEntry, DefinitionCounts, Listed, NoticeCounts, PauseScope, Paused, Position, RefusedConfig, RetryGroup,
        SeenNode, SeriesCounts,
    };
    pub use solid_notify_core::test_mark::TEST_TAG;
}

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
