//! The part of solid-notify that a process which *adds* notices needs: the model, definitions, the retry
//! language, the transitions, the traits of a [`store`] and [`add_notice`]. It does no input or output, but reading secrets.
//!
//! Sending is left to `solid-notify-sweeper`, the stores to `solid-notify-sql` and `solid-notify-redis`. Users name the crate
//! `solid-notify`, which re-exports all of them.
//!
//! The decisions ([`transition`], [`definition`], [`retry`]) do no input or output and read no clock; a store only persists
//! them, guarded by status and fence.

pub mod ack;
pub mod add;
mod alarm;
pub mod alert;
mod audit;
#[doc(hidden)]
pub mod blocking;
pub mod built_in;
pub mod cipher;
mod class;
mod clean;
pub mod clock;
pub mod connection;
pub mod definition;
pub mod dispatch;
mod encrypting;
pub mod engine;
pub mod error;
pub mod error_group;
pub mod finding;
mod first_target;
pub mod inbox;
mod json;
pub mod limit;
pub mod mail_address;
pub mod message_id;
pub mod metrics;
pub mod notice;
mod notice_progress;
pub mod operate;
pub mod outbox;
mod own_limits;
pub mod param;
#[cfg(feature = "cipher")]
pub mod param_keys;
pub mod path;
mod redacted;
mod response;
pub mod retry;
pub mod secret;
pub mod store;
pub mod test_mark;
pub mod token;
pub mod trace;
pub mod transition;
pub mod typed;

pub use ack::{AckResult, Reply, ReplyKind};
pub use add::NewNotice;
pub use alert::{ALERT_DEFINITION, Alert, AlertKind, AlertReason};
pub use built_in::{BULK_DEFINITION, DEAD_LETTERS_DEFINITION, PURGE_DEFINITION};
pub use cipher::{CipherError, Ciphertext, ParamCipher};
pub use class::{ErrorClass, OwnClass, class_of_own_error};
pub use clock::HandClock;
pub use connection::{ByOutbox, NoticeConnection, ack_notice, add_notice, add_notices, nack_notice};
pub use definition::{NotifyDef, Policy, Problem, RetryRules, Rule};
pub use dispatch::{FirstAttempt, Receipt};
pub use error::{Error, Result, StoreError};
pub use inbox::Inbox;
pub use notice::{AttemptRecord, ClaimedNotice, LastResponse, NoticeRecord, Response, Status};
pub use operate::{Explanation, Filter, Operator, Rate};
pub use outbox::{AnyOutbox, Defined, DefinitionState, Plan, Refusal, Updated};
pub use store::verb::VerbResult;
pub use store::{AlertStore, AuditEntry, BrowseStore, DefinitionStore, OperateStore, SendStore, Stores};
pub use token::{AckToken, TokenKeys};
pub use typed::{Definition, DefinitionName};
