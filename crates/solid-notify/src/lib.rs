//! The one crate that users name: it re-exports what an application needs, and nothing is defined here.
//!
//! Choose the database by a feature: `postgres`, `mysql` (MariaDB too), `sqlite`.
#![cfg_attr(feature = "sqlite", doc = include_str!("../README.md"))]

pub use solid_notify_core::definition::{ColumnValue, KeepHistory};
pub use solid_notify_core::error::{BoxError, FaultKind};
pub use solid_notify_core::{
    Added, AttemptRecord, Defined, DefinitionState, Error, ErrorClass, FirstAttempt, HandClock, NewNotice,
    NoticeConnection, NoticeRecord, NotifyDef, Outbox, Policy, Problem, Receipt, Result, Status, StoreError, Updated,
    add_notice, add_notices,
};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub use solid_notify_core::{Dialect, NoticeTx, Notify, NotifyBuilder};
pub use solid_notify_core::{retry, transition};
pub use solid_notify_sweeper::{
    Done, Failure, Handler, HandlerResult, Notice, StartError, Stopped, Sweeper, SweeperBuilder,
};
