//! [`SendStore`]: what the send path needs of a store.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{Alarm, Authority, PassOn, PassedOn, SeriesRow, Settle, Settled};
use crate::definition::Policy;
use crate::definition::schedule::LastTick;
use crate::error::StoreError;
use crate::limit::{Quota, QuotaStop};
use crate::notice::{AttemptRecord, ClaimedNotice, Status};

/// The longest stored parameter, in bytes, that claims and looks return: what hundreds of notices may take in memory at once. A longer one is
/// read alone, before its attempt.
pub const LARGE_PARAM: usize = 256 * 1024;

/// The target of the log's lines about purged notices that were not delivered: one for each.
pub const PURGED: &str = "solid_notify::purged";

/// The send path: due times, claims, settles, leases, purges, heartbeats.
///
/// See [`super`] for the contract of all methods.
#[async_trait]
pub trait SendStore: Send + Sync + 'static {
    /// Returns the store's time, to the millisecond.
    async fn now(&self) -> Result<DateTime<Utc>, StoreError>;

    /// Returns when the next notice of each definition is due, per live status. Reads one index entry for each.
    ///
    /// Unless `thorough` is set, this call and the claims after it may miss a notice that became due just before the earliest
    /// notice of the last call and was not visible then.
    async fn due(&self, thorough: bool) -> Result<DueTimes, StoreError>;

    /// Stores that a timetable has ticked, and inserts a notice for each of its ticks, with the authority of each, in one transaction. It
    /// waits for no row lock.
    async fn tick(&self, tick: &Tick) -> Result<Advanced, StoreError>;

    /// Claims due notices of one definition: status [`Status::Sending`], fence + 1, a lease. No two callers ever get the same
    /// fence. Notices that another transaction is claiming are skipped. So is a notice with an ordering key while one of the
    /// same definition and key has a smaller id, is being sent or awaits its ack. With a quota the claims of all nodes
    /// together never exceed it.
    async fn claim(&self, claim: &Claim) -> Result<Claims, StoreError>;

    /// Returns notices that must be settled by a caller without a claim, and does not claim them. The caller settles its
    /// decision under the fence, which rejects it if another caller was faster.
    async fn look(&self, look: &Look, limit: usize) -> Result<Vec<ClaimedNotice>, StoreError>;

    /// Returns how many bytes the parameter of a notice has that a claim or a look has left in the store; `None`: the notice is no longer there
    /// under this fence.
    async fn param_bytes(&self, claimed: &ClaimedNotice) -> Result<Option<usize>, StoreError>;

    /// Returns that parameter.
    async fn param(&self, claimed: &ClaimedNotice) -> Result<Option<String>, StoreError>;

    /// Returns the authority of a notice of a built-in definition.
    async fn authority(&self, id: i64) -> Result<Option<Authority>, StoreError>;

    /// Returns the authority under which a claim of a notice of a built-in definition acts; `None`: it has none and must not act. Each claim
    /// uses it once, and no earlier claim after it: another notice that has got the same id begins with the first fence again. The
    /// notice must be of the definition for which it was added, and no ended one may have its id.
    async fn use_authority(&self, claimed: &ClaimedNotice) -> Result<Option<Authority>, StoreError>;

    /// Persists outcomes, each independent of the others. Returns one result per outcome, in the same order.
    async fn settle(&self, batch: &[Settle]) -> Result<Vec<Settled>, StoreError>;

    /// Passes a notice on to some of its targets, as [`Settle::pass_to`] says, and stores how far it is, in one transaction.
    async fn pass_on(&self, part: &PassOn) -> Result<PassedOn, StoreError>;

    /// Makes each lease end `lease` from now if its attempt is still being sent, and returns the ids of those extended. A row that
    /// another transaction has locked is skipped, so that it does not delay the other leases; the caller tries it again.
    async fn extend(&self, leases: &[Lease]) -> Result<Vec<i64>, StoreError>;

    /// Deletes one small batch of rows that are no longer kept, and returns exactly the deleted ones. The caller repeats the call
    /// until a batch is not full. The rows of a call whose response was lost are not returned by another call.
    async fn purge(&self, purge: &Purge) -> Result<Vec<Purged>, StoreError>;

    /// Stores counters of a node. Of each the larger one of the stored and the given value stays: the counters of a minute only grow, so
    /// a call may be repeated, and one that is executed late changes nothing.
    async fn write_series(&self, node: &str, rows: &[SeriesRow]) -> Result<(), StoreError>;

    /// Records that a node is alive, and its alarms. Returns the store's time and the handlers of the living nodes.
    async fn beat(&self, node: &Node) -> Result<ClusterView, StoreError>;
}

/// Result of [`SendStore::due`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DueTimes {
    /// The store's time of the query.
    pub now: DateTime<Utc>,
    /// How long until the first row of an alert is due, zero if it is due already; `None`: there is none.
    pub alerts: Option<Duration>,
    /// The last tick of each definition that has, or had, a timetable.
    pub ticks: BTreeMap<i64, LastTick>,
    /// One entry per queue slice that has a notice with a due time.
    pub slices: Vec<DueSlice>,
    /// Alarms or notices for targets are stored that a store without one transaction for all has to move: they will be due soon.
    pub is_forwarding: bool,
    /// The definitions of which such a store cannot move something, each with the reason.
    pub not_forwarded: BTreeMap<i64, String>,
}

/// When the first notice of a queue slice is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueSlice {
    /// The definition.
    pub def_id: i64,
    /// The status.
    pub status: Status,
    /// How long until its first notice is due; zero if it is due already.
    pub after: Duration,
    /// How long its first notice has been due; zero if it is not due yet.
    pub late: Duration,
}

/// Ticks of a timetable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tick {
    /// The definition.
    pub def_id: i64,
    /// The text of the timetable, which the row must still have.
    pub schedule: Option<String>,
    /// The last tick that was read, which the row must still have.
    pub seen: LastTick,
    /// The new last tick.
    pub last: DateTime<Utc>,
    /// The parameters of the notices to add, as JSON, in their order. They are due at once.
    pub params: Vec<String>,
    /// What lets each of them act, where the definition is built in.
    pub authority: Option<Authority>,
}

/// Result of moving a due row on: a [`Tick`] or an [`super::AlertStep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advanced {
    /// It is stored, and its notices are inserted.
    Stored,
    /// Nothing was done, because the row has changed since it was read: another node was faster, the timetable was edited, or
    /// another alarm came.
    Changed,
    /// Nothing was done, because another session has locked the row.
    Locked,
}

/// A request to claim notices.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The definition.
    pub def_id: i64,
    /// Which notices to claim.
    pub what: ClaimWhat,
    /// The maximum number of notices.
    pub limit: usize,
    /// The length of the lease.
    pub lease: Duration,
    /// The worker's id; unique per start of a worker.
    pub worker: String,
    /// The limits of the definition over all nodes; `None`: it has none, which costs no query.
    pub quota: Option<Quota>,
}

impl Claim {
    /// Returns a claim of at most `limit` notices for `worker`, with the lease and the quota of the definition.
    pub fn new(policy: &Policy, worker: &str, what: ClaimWhat, limit: usize) -> Self {
        let Policy { def_id, quota, .. } = *policy;
        Self { def_id, what, limit, lease: policy.lease(), worker: worker.to_owned(), quota }
    }
}

/// Result of [`SendStore::claim`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    /// The claimed notices, in the order in which they were added.
    pub notices: Vec<ClaimedNotice>,
    /// Why the quota allows no more after these, if it does not.
    pub stopped_by: Option<QuotaStop>,
}

impl From<Vec<ClaimedNotice>> for Claims {
    fn from(notices: Vec<ClaimedNotice>) -> Self {
        Self { notices, stopped_by: None }
    }
}

/// What to claim of a definition.
#[derive(Debug, Clone)]
pub enum ClaimWhat {
    /// Due notices of a queue slice except crash-looping ones, the longest due first. [`Status::NotSent`] or [`Status::Failed`].
    Slice(Status),
    /// Retries during which the process has died [`CRASH_LOOP`] times or more. One of them may be the cause. Sent one at a
    /// time, it crashes no other attempt.
    CrashLooping,
    /// The notices with these ids that exist, were never attempted and are due: the dispatch. An id that is returned proves
    /// that its transaction was committed.
    Ids(Vec<i64>),
    /// The first notice of each of these ordering keys, if it was never attempted and is due. It was blocked by one that has
    /// ended.
    Keys(Vec<String>),
}

/// After how many crashes a notice is crash-looping. Not after one, because one kill, perhaps a deployment, interrupts many notices
/// that did not cause it.
pub const CRASH_LOOP: i64 = 2;

/// Which notices [`SendStore::look`] returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// Notices of a definition in this status whose time has passed, the longest overdue first: expired leases, overdue
    /// acks. They are settled with [`Settle::overdue`].
    Overdue {
        /// The definition.
        def_id: i64,
        /// [`Status::Sending`] or [`Status::AwaitingAck`].
        status: Status,
    },
    /// Notices that, according to the store, this worker is sending.
    ClaimedBy {
        /// The worker.
        worker: String,
    },
}

/// A lease to extend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The notice.
    pub id: i64,
    /// The fence of the claim that has the lease.
    pub fence: i64,
    /// Its new length from now.
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
        /// The maximum number of rows.
        limit: usize,
    },
    /// Idempotency keys of receivers ([`crate::Inbox`]). Each deleted key is returned as an empty [`Purged`], because it has no id.
    Inbox {
        /// Only those that were first seen longer ago than this.
        older_than: Duration,
        /// The maximum number of keys.
        limit: usize,
    },
    /// Minutes of the series. Each deleted row is returned as an empty [`Purged`], because it has no id.
    Series {
        /// Only those that began longer ago than this.
        older_than: Duration,
        /// The maximum number of rows; a store that keeps hours together deletes whole hours.
        limit: usize,
    },
    /// Authorities and the progress of passing on, of notices that are gone, live and ended. Each deleted row is returned as an empty
    /// [`Purged`].
    Orphans {
        /// The maximum number of rows.
        limit: usize,
    },
    /// A definition that was deleted longer ago than this and that no notice refers to, live or ended.
    Definition {
        /// The definition.
        def_id: i64,
        /// How long ago it must have been deleted. Transactions that began before the deletion and added notices of it must
        /// have ended by then.
        older_than: Duration,
    },
}

/// A row that a purge deleted, without its parameter: what remains of it is a line in the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Purged {
    /// The notice, or the definition.
    pub id: i64,
    /// Tries used: failed attempts and crashes.
    pub tries: i64,
    /// The class of the last error.
    pub class: Option<String>,
    /// The last error. Not of successes, because these are not logged.
    pub error: Option<String>,
    /// Why it ended.
    pub reason: Option<String>,
}

impl Purged {
    /// Sets [`Self::error`] from the stored list of failed attempts.
    #[must_use]
    pub fn with_errors(mut self, stored: Option<&str>) -> Self {
        let list: Option<Vec<AttemptRecord>> = stored.and_then(|text| serde_json::from_str(text).ok());
        self.error = list.and_then(|list| Some(list.into_iter().next_back()?.message));
        self
    }

    /// Logs the undelivered notice, `what` it was, which was just deleted: nothing else remains of it. Its parameter is not logged, because it may be
    /// confidential.
    pub fn log(&self, definition: &str, what: &str) {
        let Self { id, tries, class, error, reason } = self;
        let [class, error, reason] = [class, error, reason].map(Option::as_deref);
        tracing::warn!(target: PURGED, definition, id, tries, class, error, reason, param = "(masked)", "purged a {what}");
    }
}

/// A process that sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its id, unique per start.
    pub id: String,
    /// The handlers it has, by name.
    pub handlers: Vec<String>,
    /// The version of the library that it runs.
    pub version: String,
    /// Its clock minus the store's, as last measured, in milliseconds.
    pub clock_offset_ms: i64,
    /// The definitions whose `handler_config` its handlers refuse.
    pub refused: Vec<RefusedConfig>,
    /// Why it does not send, and which of its attempts cannot be cancelled.
    pub problems: Vec<String>,
    /// The ids of the keys by which it decrypts parameters.
    pub param_keys: Vec<String>,
    /// The alarms to raise.
    pub alarms: Vec<Alarm>,
    /// It has stopped, and reports for the last time. Its handlers count as living until [`NODE_LIVES`] has passed, so that a restart
    /// raises no alarm.
    pub stopped: bool,
}

impl Node {
    /// Creates a node with these handlers, without anything to report.
    pub fn new(id: impl Into<String>, handlers: Vec<String>) -> Self {
        let id = id.into();
        Self {
            id,
            handlers,
            version: String::new(),
            clock_offset_ms: 0,
            refused: Vec::new(),
            problems: Vec::new(),
            param_keys: Vec::new(),
            alarms: Vec::new(),
            stopped: false,
        }
    }
}

/// A definition whose `handler_config` the handler of a node refuses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RefusedConfig {
    /// The id of the definition.
    pub def_id: i64,
    /// What is wrong, where, and what would be right.
    pub problem: String,
}

impl RefusedConfig {
    /// Creates the record of a refusal.
    pub fn new(def_id: i64, problem: impl Into<String>) -> Self {
        Self { def_id, problem: problem.into() }
    }
}

/// Result of [`SendStore::beat`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterView {
    /// The store's time.
    pub now: DateTime<Utc>,
    /// The handlers of all nodes that were seen within [`NODE_LIVES`].
    pub handlers: BTreeSet<String>,
    /// The number of alarms that were not raised, because other nodes had locked their rows for too long. The next heartbeat raises them.
    pub alarms_left: usize,
}

/// A beat: the time between two signs of life of a node. Each is one write.
pub const BEAT: Duration = Duration::from_secs(5);

/// A node that was not seen for this long does not run: two beats.
pub const NODE_RUNS: Duration = Duration::from_secs(2 * BEAT.as_secs());

/// A node claims nothing by definitions that it read longer ago, so every node follows an edit after that time.
pub const ROWS_HOLD: Duration = Duration::from_secs(5);

/// The handlers of a node that was not seen for this long no longer count: it does not come back from a restart or an outage.
pub const NODE_LIVES: Duration = Duration::from_secs(180);

/// Returns true if a node was last seen within `within` of `now`. A time further ahead was stored by a wrong clock.
pub fn was_seen(last_seen: DateTime<Utc>, now: DateTime<Utc>, within: Duration) -> bool {
    (now - last_seen).abs().to_std().is_ok_and(|apart| apart < within)
}
