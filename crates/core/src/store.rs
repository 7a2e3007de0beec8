//! [`Store`]: what the send path asks of a database, in eleven methods. The trait is object safe.
//!
//! A store decides nothing: it persists what [`crate::transition`] decided, and guards every change of a live
//! notice by its status and attempt. Adding notices is not here (it happens inside the caller's transaction, see
//! [`crate::NoticeConnection`]), nor is browsing for people.

mod outcome;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use crate::definition::NotifyDef;
use crate::error::StoreError;
use crate::limit::{Hold, Quota};
use crate::notice::{Claimed, NoticeRecord, Status};
pub use outcome::{Alarm, Settle, Settled, Shape, Told};

/// A store of definitions and notices.
///
/// Every method may be cancelled at any await without leaving anything half done, has a time-out of its own, and
/// takes its time from the store's clock, never from the caller's.
///
/// The trait and the types that it names may grow in minor releases before 1.0: who implements a store of their own
/// should depend on one minor release.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// All definitions, deleted ones included (their notices in flight still need them).
    async fn definitions(&self) -> Result<Vec<NotifyDef>, StoreError>;

    /// Creates, replaces or deletes one definition, and keeps its new version and who made it, in one transaction. What it
    /// finds there that nobody has told of is kept before, as edited by hand.
    async fn edit(&self, edit: &Edit, who: &str) -> Result<Edited, StoreError>;

    /// When the next notice of each definition is due, per live status. Reads one index entry for each.
    ///
    /// Unless it is `thorough`, it and the claims after it may pass over what became due a moment before the earliest
    /// notice of the last look and was not visible then.
    async fn due(&self, thorough: bool) -> Result<DueTimes, StoreError>;

    /// Notes that a timetable has ticked, and adds a notice for each of its ticks, in one transaction; false, and nothing is
    /// done, where the row is no longer as it was seen: another node was faster, or the timetable was edited.
    async fn tick(&self, tick: &Tick) -> Result<bool, StoreError>;

    /// Claims due notices of one definition: status [`Status::Sending`], attempt + 1, a lease. No two callers ever
    /// get the same attempt, and notices that others are just claiming are passed over. So is a notice with an ordering
    /// key while one of the same definition and key has a smaller id, is being sent or awaits its confirmation. With a quota
    /// no more are claimed than it lets through, whoever else claims at the same moment.
    async fn claim(&self, claim: &Claim) -> Result<Claims, StoreError>;

    /// Notices that somebody must judge, without claiming them. What is decided is settled under the fence, which holds
    /// where somebody else was faster.
    async fn look(&self, look: &Look, limit: usize) -> Result<Vec<Claimed>, StoreError>;

    /// Persists outcomes, each independent of the others; one answer per outcome, in the same order.
    async fn settle(&self, batch: &[Settle]) -> Result<Vec<Settled>, StoreError>;

    /// Makes leases end `lease` from now, where the attempt is still held.
    async fn extend(&self, leases: &[Lease]) -> Result<(), StoreError>;

    /// One notice, live or in history.
    async fn find(&self, id: i64) -> Result<Option<NoticeRecord>, StoreError>;

    /// Deletes one small window of what is no longer kept; returns the ids, so that the caller can go on until
    /// a window is not full.
    async fn purge(&self, purge: &Purge) -> Result<Vec<i64>, StoreError>;

    /// Says that a node lives, and what it finds wrong; returns the store's time, and what the living nodes can do.
    async fn beat(&self, node: &Node) -> Result<Pulse, StoreError>;
}

/// A change of one definition.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)] // Rare, and passed by reference.
pub enum Edit {
    /// Creates the row unless there is one of this name.
    Create(NotifyDef),
    /// Replaces a row if it still is what the editor saw.
    Replace {
        /// The row as the editor saw it.
        seen: NotifyDef,
        /// The row as it shall be.
        new: NotifyDef,
    },
    /// As [`Self::Replace`], by what a version of it was.
    RollBack {
        /// The row as the editor saw it.
        seen: NotifyDef,
        /// The row as it shall be.
        new: NotifyDef,
        /// The version.
        version: i64,
    },
    /// Marks a row as deleted if it still is what the editor saw, and frees its name.
    Delete {
        /// The row as the editor saw it.
        seen: NotifyDef,
    },
}

impl Edit {
    /// What its version says of it.
    pub fn act(&self) -> String {
        match self {
            Self::Create(_) => "created".to_owned(),
            Self::Replace { .. } => "edited".to_owned(),
            Self::RollBack { version, .. } => format!("rolled back to {version}"),
            Self::Delete { .. } => "deleted".to_owned(),
        }
    }
}

/// What became of an [`Edit`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edited {
    /// It was carried out; the row as it stands now.
    Done(NotifyDef),
    /// Nothing was changed, because this row stands in the way.
    Conflict(NotifyDef),
    /// There is no such row.
    Missing,
}

/// The answer of [`Store::due`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueTimes {
    /// The store's time when it looked.
    pub now: SystemTime,
    /// Of each definition with a timetable, or that had one, what it ticked last.
    pub ticks: BTreeMap<i64, LastTick>,
    /// One entry per definition and live status that has a notice with a due time.
    pub lanes: Vec<DueLane>,
}

/// When the first notice of a lane is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueLane {
    /// The definition.
    pub def_id: i64,
    /// The status, which is the lane.
    pub status: Status,
    /// How long until its first notice is due; zero for one that is due already.
    pub after: Duration,
    /// How long its first notice has been due; zero for one that is not.
    pub late: Duration,
}

/// How far a timetable has come: the columns `last_tick` and `tick_schedule` of a definition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastTick {
    /// The last tick, or when the timetable began.
    pub at: Option<SystemTime>,
    /// The text of the timetable that it belongs to.
    pub schedule: Option<String>,
}

/// Ticks of a timetable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tick {
    /// The definition.
    pub def_id: i64,
    /// The text of the timetable that ticks, which the row must still have.
    pub schedule: Option<String>,
    /// What the row was seen to have ticked last, and must still have.
    pub seen: LastTick,
    /// The last tick from now on.
    pub last: SystemTime,
    /// The parameters of the notices to add, as JSON, in their order. They are due at once.
    pub params: Vec<String>,
}

/// A wish to claim.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The definition.
    pub def_id: i64,
    /// What to take of it.
    pub what: ClaimWhat,
    /// The most to take.
    pub limit: usize,
    /// How long the claim holds.
    pub lease: Duration,
    /// Who claims; unique per start of a worker.
    pub worker: String,
    /// What all nodes together may do of the definition; `None`: it has no such limit, and costs nothing for one.
    pub quota: Option<Quota>,
}

/// The answer of [`Store::claim`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    /// What was claimed, the first that was added first.
    pub notices: Vec<Claimed>,
    /// Why the quota lets nothing more through after these, if it does not.
    pub held: Option<Hold>,
}

impl From<Vec<Claimed>> for Claims {
    fn from(notices: Vec<Claimed>) -> Self {
        Self { notices, held: None }
    }
}

/// What to claim of a definition.
#[derive(Debug, Clone)]
pub enum ClaimWhat {
    /// What is due in a lane, the longest due first, but for suspects. [`Status::NotSent`] or [`Status::Failed`].
    Lane(Status),
    /// Retries during which the process has died [`SUSPECT_CRASHES`] times or more. One of them may be the cause: sent one
    /// at a time, it takes no other with it.
    Suspects,
    /// Just these, as far as they exist, were never attempted and are due: the first-send lane. That an id comes
    /// back is the proof that its transaction was committed.
    Ids(Vec<i64>),
    /// The first notice of each of these ordering keys, where it was never attempted and is due: what waited behind one
    /// that has ended.
    Keys(Vec<String>),
}

/// How often the process must have died during a notice's attempts to make it a suspect. Not once: one kill, a deployment
/// perhaps, interrupts many that are innocent.
pub const SUSPECT_CRASHES: i64 = 2;

/// What to look for in [`Store::look`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// Notices of a definition in this status whose time is over, the longest first: expired leases, overdue
    /// confirmations. They are settled with [`Settle::overdue`].
    Overdue {
        /// The definition.
        def_id: i64,
        /// [`Status::Sending`] or [`Status::AwaitingConfirm`].
        status: Status,
    },
    /// Notices that are being sent by this worker, as the store believes.
    HeldBy {
        /// The worker.
        worker: String,
    },
}

/// A lease to extend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The notice.
    pub id: i64,
    /// The attempt that holds it.
    pub attempt: i64,
    /// From now until when.
    pub lease: Duration,
}

/// What to purge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purge {
    /// Ended notices of one definition and final status.
    History {
        /// The definition.
        def_id: i64,
        /// The final status.
        status: Status,
        /// Only those that ended longer ago than this.
        older_than: Duration,
        /// The size of the window.
        limit: usize,
    },
    /// A definition that was deleted longer ago than this and that no notice refers to, live or ended.
    Definition {
        /// The definition.
        def_id: i64,
        /// How long ago it must have been deleted: transactions that began before the deletion and hold notices of
        /// it must have ended meanwhile.
        older_than: Duration,
    },
}

/// A process that sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its id, unique per start.
    pub id: String,
    /// The handlers it has, by name.
    pub handlers: Vec<String>,
    /// Its clock minus the store's, as last measured, in milliseconds.
    pub clock_offset_ms: i64,
    /// What a person is to be told.
    pub alarms: Vec<Alarm>,
}

/// The answer of [`Store::beat`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulse {
    /// The store's time.
    pub now: SystemTime,
    /// The handlers of all nodes that were seen within [`NODE_LIVES`].
    pub handlers: BTreeSet<String>,
}

/// A node that was not seen for so long counts as dead.
pub const NODE_LIVES: Duration = Duration::from_secs(180);
