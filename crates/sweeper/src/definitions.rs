//! The definitions as this node sees them: which it can send, and why the notices of the others wait. It reads them every
//! two seconds, and whenever the sweeper is woken, and compares whole rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use solid_notify_core::built_in::built_in;
use solid_notify_core::error::FaultKind;
use solid_notify_core::metrics::BREAKER_OPEN;
use solid_notify_core::operate::{Paused, SendLimits};
use solid_notify_core::store::{Edit, LastTick};
use solid_notify_core::{ALERT_DEFINITION, AnyOutbox, NotifyDef, Policy, StoreError};

use crate::alerts::log_alerts;
use crate::builder::StrategyFn;
use crate::handler::AnyHandler;
use crate::meters::Meters;
use crate::recipients;
use crate::worker::Worker;

/// How old a node's view of the definitions can get.
pub(crate) const RELOAD_INTERVAL: Duration = Duration::from_secs(2);
/// The delay used if a strategy panics.
const FALLBACK_DELAY: Duration = Duration::from_secs(300);

/// One reading of `notify_def`, of the pause of everything, and of the circuit breakers.
#[derive(Default)]
pub(crate) struct Definitions {
    by_id: BTreeMap<i64, Arc<Definition>>,
    alerts: Option<i64>,
    paused: Option<Paused>,
    /// When this node saw that the pause of everything ended, on the time scale of [`Worker::moment`].
    resumed: Option<Duration>,
    /// The definitions whose circuits are open.
    open: BTreeSet<i64>,
}

/// A definition and whether this node sends its notices.
pub(crate) struct Definition {
    pub(crate) row: NotifyDef,
    pub(crate) readiness: Readiness,
    /// Stored once per definition, so that it costs nothing per notice.
    pub(crate) outbox: AnyOutbox,
    /// The last search for a tick of its timetable, so that there is one search per tick.
    pub(crate) next_tick: Mutex<Option<NextTick>>,
}

/// The result of a search for the next tick of a timetable.
pub(crate) struct NextTick {
    /// The last tick of the timetable at the search.
    pub(crate) last: LastTick,
    /// The store's time at the search.
    pub(crate) searched: DateTime<Utc>,
    /// The next tick; `None` if there is none.
    pub(crate) tick: Option<DateTime<Utc>>,
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

    /// Returns the id of the built-in definition of alerts.
    pub(crate) fn alerts(&self) -> Option<i64> {
        self.alerts
    }

    /// Returns whether everything is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Returns when the pause of everything ended, on the time scale of [`Worker::moment`].
    pub(crate) fn resumed(&self) -> Option<Duration> {
        self.resumed
    }

    /// Returns whether the circuit of this definition was open at the last reading.
    pub(crate) fn is_open(&self, def_id: i64) -> bool {
        self.open.contains(&def_id)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.by_id.values()
    }
}

impl Definition {
    pub(crate) fn ready(&self) -> Option<&Arc<Ready>> {
        match &self.readiness {
            Readiness::Ready(ready) => Some(ready),
            _ => None,
        }
    }

    /// Returns false if only other nodes send its notices.
    pub(crate) fn is_here(&self) -> bool {
        !matches!(self.readiness, Readiness::NotHere(..))
    }

    /// Returns why only other nodes send its notices, if that is so.
    #[cfg(feature = "testkit")]
    pub(crate) fn not_here(&self) -> Option<&str> {
        match &self.readiness {
            Readiness::NotHere(_, reason) => Some(reason),
            _ => None,
        }
    }

    /// Returns the policy by which outcomes are judged, if the row is valid.
    pub(crate) fn policy(&self) -> Option<&Policy> {
        match &self.readiness {
            Readiness::Ready(ready) => Some(&ready.policy),
            Readiness::Paused(policy) | Readiness::NotHere(policy, _) => Some(policy),
            Readiness::Invalid(_) => None,
        }
    }
}

impl Worker {
    /// Reads the definitions, and logs changes.
    pub(crate) async fn reload_definitions(&self) -> Result<(), StoreError> {
        let mut rows = self.store().definitions().await?;
        let mut missing = built_in(self.settings.housekeeping);
        missing.retain(|built_in| !rows.iter().any(|row| row.name == built_in.name));
        if !missing.is_empty() {
            // The definition was deleted, or this is the first node. Existing rows keep the operators' edits.
            for definition in missing {
                match self.store().edit(&Edit::Create(definition), &self.id).await {
                    Err(error) if error.kind == FaultKind::Outage => return Err(error),
                    // Another session may have locked this name: nothing else waits for it.
                    Err(error) => self.health.mention(&error),
                    Ok(_) => {}
                }
            }
            rows = self.store().definitions().await?;
        }
        let SendLimits { paused, limits } = self.outbox.engine().operate().send_limits().await?;
        let are_new = self.are_new(&rows);
        let mut view = self.definitions.write().unwrap_or_else(PoisonError::into_inner);
        let is_paused = paused.is_some();
        let turned = is_paused != view.is_paused();
        if turned || (is_paused && paused != view.paused) {
            report_switch(paused.as_ref());
        }
        let mut by_id = BTreeMap::new();
        for row in rows {
            let definition = match view.by_id.get(&row.id) {
                Some(known) if known.row == row && !turned && !self.takes_alerts_anew(known) => Arc::clone(known),
                _ => {
                    let (readiness, outbox) = (self.judge(&row, is_paused), self.outbox.clone());
                    let definition = Definition { readiness, row, outbox, next_tick: Mutex::default() };
                    if !is_paused {
                        report(&definition);
                    }
                    Arc::new(definition)
                }
            };
            by_id.insert(definition.row.id, definition);
        }
        for (id, lost) in
            view.by_id.iter().filter(|(id, lost)| !by_id.contains_key(id) && lost.row.delete_time.is_none())
        {
            tracing::error!(
                definition = %lost.row.name, id,
                "the notify_def row was deleted by hand; its notices wait and none is lost: insert the row again with \
                 this id and name (and delete definitions with `outbox.delete`)"
            );
        }
        let alerts = by_id.values().find(|definition| definition.row.name == ALERT_DEFINITION).cloned();
        for definition in by_id.values() {
            if view.get(definition.row.id).is_none_or(|known| !Arc::ptr_eq(known, definition)) {
                recipients::check(definition, alerts.as_deref());
                self.check_token_keys(definition);
            }
        }
        let alerts = alerts.map(|definition| definition.row.id);
        let resumed = if turned && !is_paused { Some(self.moment()) } else { view.resumed };
        let mut open = BTreeSet::new();
        for (id, definition) in &by_id {
            let Some(breaker) = definition.policy().and_then(|policy| policy.quota?.breaker) else { continue };
            let limit = limits.get(id).filter(|limit| limit.open_until.is_some());
            if limit.is_some() {
                open.insert(*id);
            }
            let name = &definition.row.name;
            match (limit, view.is_open(*id)) {
                (Some(limit), false) => {
                    let pause = humantime::format_duration(breaker.pause);
                    let failures = limit.failures;
                    tracing::error!(definition = %name, failures, %pause, "the circuit is open: nothing but probes is sent");
                }
                (None, true) => tracing::info!(definition = %name, "the circuit is closed: sending goes on"),
                _ => {}
            }
            metrics::gauge!(BREAKER_OPEN, "definition" => name.clone()).set(f64::from(u8::from(limit.is_some())));
        }
        *view = Arc::new(Definitions { by_id, alerts, paused, resumed, open });
        if are_new {
            self.unkept.notify_one();
        }
        Ok(())
    }

    /// Logs that a handler cannot sign tokens for a definition whose deliveries must be acked.
    fn check_token_keys(&self, definition: &Definition) {
        if definition.ready().is_some_and(|ready| ready.policy.need_confirm) && !self.outbox.engine().has_token_keys() {
            tracing::warn!(
                definition = %definition.row.name,
                "its deliveries must be acked, and no token keys are set: `notice.ack_token` fails each attempt that calls it; \
                 call `outbox.use_token_keys` before the start, or ack by the id"
            );
        }
    }

    fn judge(&self, row: &NotifyDef, is_paused: bool) -> Readiness {
        let policy = match row.policy() {
            // An alert cannot await an ack: no receiver acks it, and until then the store would not know what
            // it reported.
            Ok(mut policy) if row.name == ALERT_DEFINITION => {
                policy.need_confirm = false;
                policy
            }
            Ok(policy) => policy,
            Err(problems) => {
                let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                return Readiness::Invalid(problems.join("; "));
            }
        };
        if !policy.enabled || is_paused {
            return Readiness::Paused(policy);
        }
        let Some(handler) = self.handler(&policy.handler) else {
            let reason = format!("no handler {:?} is registered on this node", policy.handler);
            return Readiness::NotHere(policy, reason);
        };
        let strategy = match policy.interval.strategy() {
            None => Arc::new(|_| FALLBACK_DELAY) as StrategyFn,
            Some(name) => match self.strategies.get(name) {
                Some(strategy) => guarded(Arc::clone(strategy)),
                None => {
                    let reason = format!("no retry strategy {name:?} is registered on this node");
                    return Readiness::NotHere(policy, reason);
                }
            },
        };
        Readiness::Ready(Arc::new(Ready { meters: Meters::new(&row.name), policy, handler, strategy }))
    }

    /// Returns the handler of this name. Alerts are logged if no node has a handler for them.
    fn handler(&self, name: &str) -> Option<Arc<dyn AnyHandler>> {
        let own = self.handlers.get(name).cloned();
        own.or_else(|| (name == ALERT_DEFINITION && self.logs_alerts()).then(log_alerts))
    }

    fn logs_alerts(&self) -> bool {
        *self.alerts_elsewhere.lock().unwrap_or_else(PoisonError::into_inner) == Some(false)
    }

    /// Returns true if logging alerts on this node must now begin or end.
    fn takes_alerts_anew(&self, known: &Definition) -> bool {
        known.row.handler_name() == ALERT_DEFINITION
            && known.row.enabled
            && !self.handlers.contains_key(ALERT_DEFINITION)
            && matches!(known.readiness, Readiness::Ready(_) | Readiness::NotHere(..))
            && known.is_here() != self.logs_alerts()
    }
}

/// Wraps a strategy so that its panic does not stop the settling of other outcomes.
fn guarded(strategy: StrategyFn) -> StrategyFn {
    Arc::new(move |n| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| strategy(n))).unwrap_or_else(|_| {
            crate::supervise::report(|| {
                tracing::error!(
                    retry = n,
                    "a retry strategy panicked; the retry waits {}",
                    humantime::format_duration(FALLBACK_DELAY)
                );
            });
            FALLBACK_DELAY
        })
    })
}

/// Logs, once per change, whether everything is paused.
fn report_switch(paused: Option<&Paused>) {
    match paused {
        Some(paused) => tracing::warn!("{paused}"),
        None => tracing::info!("nothing is paused any more: sending goes on"),
    }
}

/// Logs, once per change of the row, why its notices wait.
fn report(definition: &Definition) {
    let name = &definition.row.name;
    match &definition.readiness {
        Readiness::Ready(_) => tracing::debug!(definition = %name, "sending"),
        Readiness::Paused(_) => tracing::info!(definition = %name, "not enabled: its notices wait"),
        Readiness::Invalid(problems) => {
            tracing::error!(definition = %name, %problems, "invalid definition: its notices wait until the row is corrected");
        }
        Readiness::NotHere(_, reason) => {
            tracing::info!(definition = %name, %reason, "its notices are left to other nodes")
        }
    }
}
