//! What sending, editing and looking needs of a store: a trait for each role, object safe, and the types that it names.
//!
//! | trait | for |
//! |---|---|
//! | [`SendStore`] | the send path: due times, claims, settles, leases, purges, heartbeats, the series |
//! | [`DefinitionStore`] | definitions, their versions, and the switch that pauses everything |
//! | [`AlertStore`] | alerts that are due for a digest or for their end, and an operator's verbs on alerts |
//! | [`BrowseStore`] | what people read: notices, lists, groups, counts, series, the audit |
//! | [`OperateStore`] | changes of notices by people and receivers |
//!
//! **The contract of every method.** It may be cancelled at any await without leaving a partial change, has its own time-out, and
//! takes its time from the store's clock, never from the caller's. A store decides nothing: it persists what [`crate::transition`]
//! and the other decisions return, and guards every change of a live notice by its status and fence. Adding notices is not here,
//! because it happens inside the caller's transaction (see [`crate::NoticeConnection`]).
//!
//! The traits and the types that they name may grow in minor releases before 1.0. A crate that implements its own store should
//! depend on one minor release.

mod alerts;
mod audit;
mod authority;
mod browse;
mod counts;
mod decided_by;
mod definitions;
mod kept;
mod only;
mod operate;
mod pass_on;
mod position;
mod send;
mod send_limits;
mod series;
mod settle;
pub mod verb;

use std::sync::Arc;

pub use crate::alarm::{Alarm, Cause};
pub use crate::audit::AuditEntry;
pub use crate::definition::schedule::LastTick;
pub use crate::limit::BreakerInput;
pub use alerts::{AlertStep, AlertStore};
pub use audit::AuditQuery;
pub use authority::Authority;
pub use browse::{BrowseStore, Listed, QueueSlice, RetryGroup, SeenNode, StoredGroup};
pub use counts::{COUNT_HOLD, COUNT_TIMEOUT, DefinitionCounts, NoticeCounts, RECENT, dead_letters, next_count};
pub use decided_by::{DecidedBy, SeenTarget, TargetRow, same_targets};
pub use definitions::{DefinitionStore, Edit, Edited};
pub use kept::{Kept, NamedTarget, REASON_LIMIT, passed_on};
pub use only::{Only, TextSearch};
pub use operate::{ActFence, BulkStep, BulkStepDone, BulkVerb, NO_NOTICE, OperateStore, SliceOfStep, Target};
pub use pass_on::{PassOn, PassedOn};
pub use position::Position;
pub use send::{
    Advanced, BEAT, CRASH_LOOP, Claim, ClaimWhat, Claims, ClusterView, DueSlice, DueTimes, LARGE_PARAM, Lease, Look,
    NODE_LIVES, NODE_RUNS, Node, PURGED, Purge, Purged, ROWS_HOLD, RefusedConfig, SendStore, Tick, was_seen,
};
pub use send_limits::{PauseScope, Paused, SendLimits, Switch};
pub use series::{MINUTE_MS, SeriesCounts, SeriesQuery, SeriesRow, minute_of};
pub use settle::{Settle, Settled, Shape, StoredState, breaker_inputs};

/// A store by its roles. A test can replace one of them.
#[derive(Clone)]
pub struct Stores {
    /// The send path.
    pub send: Arc<dyn SendStore>,
    /// Definitions.
    pub definitions: Arc<dyn DefinitionStore>,
    /// Alerts.
    pub alerts: Arc<dyn AlertStore>,
    /// Reading for people.
    pub browse: Arc<dyn BrowseStore>,
    /// Changes by people and receivers.
    pub operate: Arc<dyn OperateStore>,
}

impl Stores {
    /// Returns the roles of one store.
    pub fn of<S: SendStore + DefinitionStore + AlertStore + BrowseStore + OperateStore>(store: &Arc<S>) -> Self {
        Self {
            send: store.clone(),
            definitions: store.clone(),
            alerts: store.clone(),
            browse: store.clone(),
            operate: store.clone(),
        }
    }
}
