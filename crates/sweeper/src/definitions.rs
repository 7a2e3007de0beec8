//! The definitions as this node sees them: read again every two seconds, and whenever somebody wakes the sweeper, by
//! comparing whole rows. What can be sent here, and why the rest waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use solid_notify_core::built_in::built_in;
use solid_notify_core::metrics::BREAKER_OPEN;
use solid_notify_core::operate::{Brakes, Paused};
use solid_notify_core::store::{Edit, LastTick};
use solid_notify_core::{ALERT_DEFINITION, NotifyDef, Outbox, Policy, StoreError};

use crate::alerts::log_alerts;
use crate::builder::StrategyFn;
use crate::handler::AnyHandler;
use crate::meters::Meters;
use crate::worker::Worker;

/// How old a node's view of the definitions can get.
pub(crate) const RELOAD_INTERVAL: Duration = Duration::from_secs(2);
/// The delay of a strategy that panics.
const FALLBACK_DELAY: Duration = Duration::from_secs(300);

/// One reading of `notify_def`, and of what holds sending back.
#[derive(Default)]
pub(crate) struct Definitions {
    by_id: BTreeMap<i64, Arc<Definition>>,
    alerts: Option<i64>,
    paused: Option<Paused>,
    /// When it was seen that everything goes on, on the scale of [`Worker::moment`].
    resumed: Option<Duration>,
    /// Those whose circuits are open.
    open: BTreeSet<i64>,
}

/// A definition and whether this node sends its notices.
pub(crate) struct Definition {
    pub(crate) row: NotifyDef,
    pub(crate) standing: Standing,
    /// Here, so that it costs its notices nothing.
    pub(crate) outbox: Outbox,
    /// What its timetable was seen to have ticked last, and its next tick after that: one search a tick.
    pub(crate) next_tick: Mutex<Option<(LastTick, SystemTime)>>,
}

/// Whether this node sends a definition's notices, and why not.
pub(crate) enum Standing {
    /// It does.
    Ready(Arc<Ready>),
    /// `enabled` is false, or everything is paused. The policy still judges what is running.
    Paused(Policy),
    /// The row is wrong; the text says where.
    Invalid(String),
    /// No handler, or no strategy, of that name is registered here, the text says which. The policy judges what is running.
    NotHere(Policy, String),
}

/// What it takes to send.
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

    /// The id of the built-in definition of alerts.
    pub(crate) fn alerts(&self) -> Option<i64> {
        self.alerts
    }

    /// Whether everything is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Since when everything goes on that was paused, on the scale of [`Worker::moment`].
    pub(crate) fn resumed(&self) -> Option<Duration> {
        self.resumed
    }

    /// Whether the circuit of this definition was open when it was last looked at.
    pub(crate) fn is_open(&self, def_id: i64) -> bool {
        self.open.contains(&def_id)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.by_id.values()
    }
}

impl Definition {
    pub(crate) fn ready(&self) -> Option<&Arc<Ready>> {
        match &self.standing {
            Standing::Ready(ready) => Some(ready),
            _ => None,
        }
    }

    /// False where only other nodes send its notices.
    pub(crate) fn is_here(&self) -> bool {
        !matches!(self.standing, Standing::NotHere(..))
    }

    /// The policy by which outcomes are judged, where the row is valid.
    pub(crate) fn policy(&self) -> Option<&Policy> {
        match &self.standing {
            Standing::Ready(ready) => Some(&ready.policy),
            Standing::Paused(policy) | Standing::NotHere(policy, _) => Some(policy),
            Standing::Invalid(_) => None,
        }
    }
}

impl Worker {
    /// Reads the definitions and tells of changes.
    pub(crate) async fn reload_definitions(&self) -> Result<(), StoreError> {
        let mut rows = self.store().definitions().await?;
        let mut missing = built_in(self.settings.housekeeping);
        missing.retain(|built_in| !rows.iter().any(|row| row.name == built_in.name));
        if !missing.is_empty() {
            // Somebody deleted them, or this is the first node of all. Those that there are stay as operators have them.
            for definition in missing {
                self.store().edit(&Edit::Create(definition), &self.id).await?;
            }
            rows = self.store().definitions().await?;
        }
        let Brakes { paused, limits } = self.outbox.operate().brakes().await?;
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
                    let (standing, outbox) = (self.judge(&row, is_paused), self.outbox.clone());
                    let definition = Definition { standing, row, outbox, next_tick: Mutex::default() };
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
                "the notify_def row was deleted by hand; its notices wait, nothing of them is lost: insert the row again with \
                 this id and name (and delete definitions with `notify.delete`)"
            );
        }
        let alerts = by_id
            .values()
            .find(|definition| definition.row.name == ALERT_DEFINITION)
            .map(|definition| definition.row.id);
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

    fn judge(&self, row: &NotifyDef, is_paused: bool) -> Standing {
        let policy = match row.policy() {
            // Nobody confirms an alert, and what it told would not be known until then.
            Ok(mut policy) if row.name == ALERT_DEFINITION => {
                policy.need_confirm = false;
                policy
            }
            Ok(policy) => policy,
            Err(problems) => {
                let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                return Standing::Invalid(problems.join("; "));
            }
        };
        if !policy.enabled || is_paused {
            return Standing::Paused(policy);
        }
        let Some(handler) = self.handler(&policy.handler) else {
            let reason = format!("no handler {:?} is registered on this node", policy.handler);
            return Standing::NotHere(policy, reason);
        };
        let strategy = match policy.interval.strategy() {
            None => Arc::new(|_| FALLBACK_DELAY) as StrategyFn,
            Some(name) => match self.strategies.get(name) {
                Some(strategy) => guarded(Arc::clone(strategy)),
                None => {
                    let reason = format!("no retry strategy {name:?} is registered on this node");
                    return Standing::NotHere(policy, reason);
                }
            },
        };
        Standing::Ready(Arc::new(Ready { meters: Meters::new(&row.name), policy, handler, strategy }))
    }

    /// The handler of this name. Alerts that nobody takes, here or on another node, are logged.
    fn handler(&self, name: &str) -> Option<Arc<dyn AnyHandler>> {
        let own = self.handlers.get(name).cloned();
        own.or_else(|| (name == ALERT_DEFINITION && self.logs_alerts()).then(log_alerts))
    }

    fn logs_alerts(&self) -> bool {
        *self.alerts_elsewhere.lock().unwrap_or_else(PoisonError::into_inner) == Some(false)
    }

    /// True where alerts are to be logged here now and were not, or the other way round.
    fn takes_alerts_anew(&self, known: &Definition) -> bool {
        known.row.handler_name() == ALERT_DEFINITION
            && known.row.enabled
            && !self.handlers.contains_key(ALERT_DEFINITION)
            && matches!(known.standing, Standing::Ready(_) | Standing::NotHere(..))
            && known.is_here() != self.logs_alerts()
    }
}

/// A strategy that cannot take the settling of others down with it.
fn guarded(strategy: StrategyFn) -> StrategyFn {
    Arc::new(move |n| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| strategy(n))).unwrap_or_else(|_| {
            tracing::error!(
                retry = n,
                "a retry strategy panicked; the retry waits {}",
                humantime::format_duration(FALLBACK_DELAY)
            );
            FALLBACK_DELAY
        })
    })
}

/// Tells, once per change, whether everything is paused.
fn report_switch(paused: Option<&Paused>) {
    match paused {
        Some(paused) => tracing::warn!("{paused}"),
        None => tracing::info!("nothing is paused any more: sending goes on"),
    }
}

/// Tells, once per change of the row, why its notices wait.
fn report(definition: &Definition) {
    let name = &definition.row.name;
    match &definition.standing {
        Standing::Ready(_) => tracing::debug!(definition = %name, "sending"),
        Standing::Paused(_) => tracing::info!(definition = %name, "not enabled: its notices wait"),
        Standing::Invalid(problems) => {
            tracing::error!(definition = %name, %problems, "invalid definition: its notices wait until the row is corrected");
        }
        Standing::NotHere(_, reason) => {
            tracing::info!(definition = %name, %reason, "its notices are left to other nodes")
        }
    }
}
