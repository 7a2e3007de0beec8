//! The definitions as this node sees them: which it can send, and why the notices of the others wait. [`view`] makes that of a
//! reading; `reading.rs` reads them every two seconds, and whenever the sweeper is woken.

mod passing_on;
mod ticks;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use chrono::{DateTime, Utc};
use parking_lot::{Mutex, RwLock};
use solid_notify_core::definition::{InForce, Problem, SecretRules, Step, TargetFilter, names_its_column};
use solid_notify_core::limit::LimitRow;
use solid_notify_core::store::{
    Authority, DefinitionCounts, DueTimes, PauseScope, Paused, ROWS_HOLD, RefusedConfig, Tick,
};
use solid_notify_core::{ALERT_DEFINITION, AlertReason, NotifyDef, Policy, Status};
use tokio::time::Instant;

use self::ticks::Ticks;
use crate::handlers::erased::AnyHandler;
use crate::handlers::{Registered, StrategyFn};
use crate::meters::Meters;

/// How old a node's view of the definitions can get.
pub(crate) const RELOAD_INTERVAL: Duration = Duration::from_secs(2);

/// What this node knows of the definitions.
///
/// A view is replaced as a whole, so its readers see one reading. Attempts keep the view with which they began. The locks are
/// taken for a moment each, `view` before `alerts_sent`, and never across an await.
pub(crate) struct KnownDefinitions {
    pub(crate) registered: Registered,
    view: RwLock<Arc<Definitions>>,
    /// Definitions whose row was deleted by SQL: id and name.
    deleted_by_sql: Mutex<Vec<(i64, String)>>,
    /// Whether a living node has the handler of alerts; `None` while unknown.
    alerts_sent: Mutex<Option<bool>>,
    /// Held by a reading, so that an earlier one never replaces the view of a later one.
    pub(crate) reading: tokio::sync::Mutex<()>,
    /// How many readings have begun.
    pub(crate) readings: AtomicU64,
    /// The number of the last reading that succeeded; 0 before the first.
    pub(crate) last_read: AtomicU64,
    /// [`Engine::edits`](solid_notify_core::engine::Engine::edits) when the last reading began.
    pub(crate) edits: AtomicU64,
    /// When the last reading that succeeded ended.
    read_at: Mutex<Option<Instant>>,
}

impl KnownDefinitions {
    pub(crate) fn new(registered: Registered) -> Self {
        Self {
            registered,
            view: RwLock::default(),
            deleted_by_sql: Mutex::default(),
            alerts_sent: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
            readings: AtomicU64::default(),
            last_read: AtomicU64::default(),
            edits: AtomicU64::default(),
            read_at: Mutex::default(),
        }
    }

    /// Returns the current view.
    pub(crate) fn view(&self) -> Arc<Definitions> {
        Arc::clone(&self.view.read())
    }

    /// Replaces the view by that of a reading, which is compared with it; no other replacement comes between. `moment`: on the time
    /// scale of [`crate::worker::Worker::moment`].
    pub(crate) fn read(
        &self,
        rows: Vec<InForce>,
        paused: Option<Paused>,
        limits: &BTreeMap<i64, LimitRow>,
        moment: Duration,
        own: Own,
    ) {
        let mut view = self.view.write();
        *view = Arc::new(self.next_view(&view, rows, paused, limits, (moment, own)));
        *self.read_at.lock() = Some(Instant::now());
    }

    /// Returns whether an edit of before [`ROWS_HOLD`] may be unknown, because readings fail or take that long.
    pub(crate) fn are_old(&self) -> bool {
        self.read_at.lock().is_none_or(|read_at| read_at.elapsed() >= ROWS_HOLD)
    }

    /// Returns the definitions whose row was deleted by SQL: id and name.
    pub(crate) fn deleted_by_sql(&self) -> Vec<(i64, String)> {
        self.deleted_by_sql.lock().clone()
    }

    pub(crate) fn set_deleted_by_sql(&self, deleted: Vec<(i64, String)>) {
        *self.deleted_by_sql.lock() = deleted;
    }

    /// Returns whether a living node has the handler of alerts; `None` while unknown.
    pub(crate) fn alerts_sent(&self) -> Option<bool> {
        *self.alerts_sent.lock()
    }

    /// Records whether a living node has the handler of alerts. Returns true if that is new.
    pub(crate) fn set_alerts_sent(&self, sent: bool) -> bool {
        self.alerts_sent.lock().replace(sent) != Some(sent)
    }
}

/// One reading of `notify_def`, of the switch, and of the circuit breakers.
#[derive(Default)]
pub(crate) struct Definitions {
    by_id: BTreeMap<i64, Arc<Definition>>,
    alerts: Option<i64>,
    paused: Option<Paused>,
    /// When this node saw that the pause of everything ended, on the time scale of [`crate::worker::Worker::moment`].
    resumed: Option<Duration>,
    /// The same of the pause of retries, which a pause of everything is as well.
    retries_resumed: Option<Duration>,
    /// The definitions whose circuits are open.
    open: BTreeSet<i64>,
    /// The targets of each definition that has some, by name.
    targets: BTreeMap<i64, Vec<Arc<Definition>>>,
    /// When this node read the definitions for the first time, on the same time scale.
    began: Duration,
    own: Own,
}

/// What the program has set that decides which definitions this node can send.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Own {
    /// Whether it can decrypt parameters.
    pub(crate) has_cipher: bool,
    /// Which secrets rows may use.
    pub(crate) secrets: Arc<SecretRules>,
}

/// A definition and whether this node sends its notices.
pub(crate) struct Definition {
    /// The row, of a target with what it inherits.
    pub(crate) row: Arc<NotifyDef>,
    pub(crate) readiness: Readiness,
    /// Whether its notices are passed on to targets. No handler gets them.
    pub(crate) has_targets: bool,
    /// Which notices it gets as a target, also where another column of the row is invalid.
    pub(crate) filter: Option<Arc<TargetFilter>>,
    /// Why the row is no valid target, if it is none.
    not_a_target: Option<Problem>,
    ticks: Ticks,
    /// Since when this node makes [`Self::checks`], on the time scale of [`crate::worker::Worker::moment`].
    checks_since: Duration,
}

/// Whether this node sends a definition's notices, and why not.
pub(crate) enum Readiness {
    /// This node sends them.
    Ready(Arc<Ready>),
    /// `enabled` is false, or everything is paused. The policy still applies to attempts under way.
    Paused(Policy),
    /// The row is invalid; the text says where.
    Invalid(String),
    /// No handler or strategy of that name is registered on this node; the text says which. The policy applies to attempts
    /// under way.
    NotHere(Policy, String),
    /// The handler refuses `handler_config`, or this node has no cipher for `encrypt_param`; the text says why. The policy applies to
    /// attempts under way.
    Refused(Policy, String),
}

impl Readiness {
    fn policy(&self) -> Option<&Policy> {
        match self {
            Self::Ready(ready) => Some(&ready.policy),
            Self::Paused(policy) | Self::NotHere(policy, _) | Self::Refused(policy, _) => Some(policy),
            Self::Invalid(_) => None,
        }
    }
}

/// Returns the problem of [`Readiness::Refused`] as people read it.
pub(crate) fn refusal(problem: &str) -> String {
    match names_its_column(problem) {
        true => problem.to_owned(),
        false => format!("its handler refuses handler_config: {problem}"),
    }
}

/// What this node needs to send a definition's notices.
pub(crate) struct Ready {
    pub(crate) policy: Policy,
    pub(crate) handler: Arc<dyn AnyHandler>,
    pub(crate) strategy: StrategyFn,
    pub(crate) meters: Meters,
}

impl Definitions {
    pub(crate) fn get(&self, def_id: i64) -> Option<&Arc<Definition>> {
        self.by_id.get(&def_id)
    }

    /// Returns the definition of this name that takes notices.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<Definition>> {
        self.all().find(|definition| definition.row.name == name && definition.row.delete_time.is_none())
    }

    /// Returns the id of the built-in definition of alerts.
    pub(crate) fn alerts(&self) -> Option<i64> {
        self.alerts
    }

    /// Returns whether everything is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.as_ref().is_some_and(|paused| paused.scope == PauseScope::Everything)
    }

    /// Returns whether all retries are paused, by themselves or with everything.
    pub(crate) fn retries_are_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Returns since when notices of a status, here those of its queue slice, are not paused, on the time scale of
    /// [`crate::worker::Worker::moment`].
    pub(crate) fn resumed(&self, status: Status) -> Option<Duration> {
        if status == Status::Failed { self.retries_resumed } else { self.resumed }
    }

    /// Returns how long due notices of a status wait: all for the window of the definition, retries also for the end of their pause.
    pub(crate) fn closed_for(&self, definition: &Definition, status: Status, now: DateTime<Utc>) -> Duration {
        if status == Status::Failed && self.retries_are_paused() {
            return Duration::MAX;
        }
        definition.closed_for(status, now)
    }

    /// Returns whether the circuit of this definition was open at the last reading.
    pub(crate) fn is_open(&self, def_id: i64) -> bool {
        self.open.contains(&def_id)
    }

    /// Returns the targets of a definition, by name.
    pub(crate) fn targets(&self, def_id: i64) -> &[Arc<Definition>] {
        self.targets.get(&def_id).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the definitions that have as many dead letters as their `dead_alert_count`, with the number in the snapshot.
    pub(crate) fn piles(&self, snapshot: &[DefinitionCounts]) -> BTreeMap<i64, u64> {
        let pile = |row: &DefinitionCounts| {
            let limit = self.get(row.def_id)?.policy()?.dead_alert_count?;
            let count = row.taken.as_ref()?.0.dead_letters;
            (count >= limit as u64).then_some((row.def_id, count))
        };
        snapshot.iter().filter_map(pile).collect()
    }

    /// Returns since when this node checks the condition behind `reason` of a definition, on the time scale of
    /// [`crate::worker::Worker::moment`]; `None`: it does not check it, so it does not learn that the condition is over.
    pub(crate) fn checks_since(&self, def_id: i64, reason: AlertReason) -> Option<Duration> {
        let Some(definition) = self.get(def_id) else {
            // A row that was deleted by SQL is such a condition itself.
            return (reason == AlertReason::InvalidDefinition).then_some(self.began);
        };
        let checks = definition.checks();
        let is_checked = match reason {
            AlertReason::Clock | AlertReason::NotSending => return Some(self.began),
            AlertReason::DeadLetters => checks.dead_letters,
            // A backlog that consists of paused retries is not over.
            AlertReason::Backlog if self.retries_are_paused() => return None,
            AlertReason::Backlog if checks.backlog => {
                return Some(definition.checks_since.max(self.retries_resumed.unwrap_or_default()));
            }
            AlertReason::Backlog => false,
            AlertReason::NoHandler | AlertReason::CircuitOpen | AlertReason::Paused => checks.others,
            _ => return definition.is_reported().then_some(self.began),
        };
        is_checked.then_some(definition.checks_since)
    }

    /// Returns the definitions whose `handler_config` a handler of this node refuses, or whose parameters this node cannot decrypt.
    pub(crate) fn refused(&self) -> impl Iterator<Item = RefusedConfig> {
        self.all().filter_map(|definition| Some(RefusedConfig::new(definition.row.id, definition.refusal()?)))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.by_id.values()
    }
}

/// Which conditions of a definition this node checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Checks {
    dead_letters: bool,
    backlog: bool,
    /// Those that need no column of their own.
    others: bool,
}

impl Definition {
    /// Returns true if alerts are raised for conditions of it.
    pub(crate) fn is_reported(&self) -> bool {
        self.row.alert_trigger_type != "never" && self.row.delete_time.is_none()
    }

    fn checks(&self) -> Checks {
        match &self.readiness {
            Readiness::Paused(_) | Readiness::Invalid(_) => Checks::default(),
            _ if !self.is_reported() => Checks::default(),
            _ => Checks {
                dead_letters: self.policy().is_some_and(|policy| policy.dead_alert_count.is_some()),
                backlog: self.policy().is_some_and(|policy| policy.backlog_alert_age.is_some()),
                others: true,
            },
        }
    }

    /// Returns true for the built-in alert definition, and for one that was renamed or deleted with alerts in flight.
    pub(crate) fn is_alerts(&self) -> bool {
        self.row.name == ALERT_DEFINITION || self.row.handler_name() == ALERT_DEFINITION
    }

    pub(crate) fn ready(&self) -> Option<&Arc<Ready>> {
        match &self.readiness {
            Readiness::Ready(ready) => Some(ready),
            _ => None,
        }
    }

    /// Returns false if only other nodes send its notices.
    pub(crate) fn is_here(&self) -> bool {
        !matches!(self.readiness, Readiness::NotHere(..) | Readiness::Refused(..))
    }

    /// Returns why only other nodes send its notices, if that is so.
    #[cfg(feature = "testkit")]
    pub(crate) fn not_here(&self) -> Option<&str> {
        match &self.readiness {
            Readiness::NotHere(_, reason) | Readiness::Refused(_, reason) => Some(reason),
            _ => None,
        }
    }

    /// Returns why its handler refuses its `handler_config`, or that the cipher is missing.
    pub(crate) fn refusal(&self) -> Option<&str> {
        match &self.readiness {
            Readiness::Refused(_, problem) => Some(problem),
            _ => None,
        }
    }

    /// Returns the policy by which outcomes are judged, if the row is valid.
    pub(crate) fn policy(&self) -> Option<&Policy> {
        self.readiness.policy()
    }

    /// Returns what its timetable requires now. None without a timetable, or if the definition produces nothing: not
    /// enabled, invalid, deleted.
    pub(crate) fn step(&self, due: &DueTimes) -> Option<Step> {
        if self.row.schedule.is_none() && !due.ticks.contains_key(&self.row.id) || self.row.delete_time.is_some() {
            return None;
        }
        let policy = self.policy().filter(|policy| policy.enabled)?;
        Some(self.ticks.step(&self.row, policy, due))
    }

    /// Returns the record of these ticks.
    pub(crate) fn tick(&self, due: &DueTimes, last: DateTime<Utc>, ticks: &[DateTime<Utc>]) -> Tick {
        let schedule = self.policy().and_then(|policy| policy.schedule.as_ref());
        Tick {
            def_id: self.row.id,
            schedule: self.row.schedule.clone(),
            seen: due.ticks.get(&self.row.id).cloned().unwrap_or_default(),
            last,
            params: schedule
                .map(|schedule| ticks.iter().map(|tick| schedule.param(*tick)).collect())
                .unwrap_or_default(),
            authority: Authority::of_tick(&self.row.name),
        }
    }

    /// Returns how long notices of a status wait for the window to open. Expired leases and overdue acks are
    /// judged at any time.
    fn closed_for(&self, status: Status, now: DateTime<Utc>) -> Duration {
        match self.policy().and_then(|policy| policy.window.as_ref()) {
            Some(window) if matches!(status, Status::NotSent | Status::Failed) => {
                let opens = window.opens(now);
                opens.map_or(Duration::MAX, |opens| (opens - now).to_std().unwrap_or_default())
            }
            _ => Duration::ZERO,
        }
    }

    /// Returns for how long the window has been open.
    pub(crate) fn open_for(&self, now: DateTime<Utc>) -> Duration {
        let window = self.policy().and_then(|policy| policy.window.as_ref());
        window.map_or(Duration::MAX, |window| window.open_for(now))
    }
}
