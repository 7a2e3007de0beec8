//! Reads the definitions, the pause of everything and the circuit breakers, compares whole rows, and logs changes.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use solid_notify_core::built_in::built_in;
use solid_notify_core::error::FaultKind;
use solid_notify_core::limit::LimitRow;
use solid_notify_core::metrics::BREAKER_OPEN;
use solid_notify_core::notice::{MESSAGE_LIMIT, clean_text};
use solid_notify_core::store::{Edit, Paused, SendLimits};
use solid_notify_core::{ALERT_DEFINITION, NotifyDef, StoreError};

use super::ticks::Ticks;
use super::{Definition, Definitions, Readiness, Ready, StrategyFn, refusal};
use crate::alerts::{AlertHandler, log_alerts, recipients};
use crate::meters::Meters;
use crate::running::erased::AnyHandler;
use crate::supervise;
use crate::worker::Worker;

/// The delay used if a strategy panics.
const FALLBACK_DELAY: Duration = Duration::from_secs(300);

impl Worker {
    /// Returns whether this process edited a definition, or paused or resumed everything, after the last reading began. Such an
    /// edit is in force on this node when its call returns, so nothing is claimed or judged before the next reading.
    pub(crate) fn has_unread_edits(&self) -> bool {
        self.outbox.engine().edits() != self.known.edits.load(Ordering::SeqCst)
    }

    /// Reads the definitions if this process edited them after the last reading.
    pub(crate) async fn read_own_edits(&self) -> Result<(), StoreError> {
        if self.has_unread_edits() { self.reload_definitions().await } else { Ok(()) }
    }

    /// Reads the definitions, and logs changes.
    pub(crate) async fn reload_definitions(&self) -> Result<(), StoreError> {
        let _reading = self.known.reading.lock().await;
        let edits = self.outbox.engine().edits();
        let mut rows = self.stores().definitions.definitions().await?;
        let mut missing = built_in(self.settings.housekeeping);
        missing.retain(|built_in| !rows.iter().any(|row| row.name == built_in.name));
        if !missing.is_empty() {
            // The definition was deleted, or this is the first node. Existing rows keep the operators' edits.
            for definition in missing {
                match self.stores().definitions.edit(&Edit::Create(definition), &self.id).await {
                    Err(error) if error.kind == FaultKind::Outage => return Err(error),
                    // Another session may have locked this name: nothing else waits for it.
                    Err(error) => self.health.mention(&error),
                    Ok(_) => {}
                }
            }
            rows = self.stores().definitions.definitions().await?;
        }
        let SendLimits { paused, limits } = self.stores().definitions.send_limits().await?;
        let are_new = are_new(&self.definitions(), &rows);
        let refused = |definitions: &Definitions| definitions.refused().collect::<Vec<_>>();
        let before = refused(&self.definitions());
        self.known.replace(|before| self.next_view(before, rows, paused, &limits));
        if refused(&self.definitions()) != before {
            self.signals.beat_soon();
        }
        self.known.edits.store(edits, Ordering::SeqCst);
        if are_new {
            self.signals.keep_versions_soon();
        }
        Ok(())
    }

    /// Returns the view after a reading, and logs what differs from the view before it.
    fn next_view(
        &self,
        before: &Definitions,
        rows: Vec<NotifyDef>,
        paused: Option<Paused>,
        limits: &BTreeMap<i64, LimitRow>,
    ) -> Definitions {
        let (is_paused, moment) = (paused.is_some(), self.moment());
        let turned = is_paused != before.is_paused();
        if turned || (is_paused && paused != before.paused) {
            report_switch(paused.as_ref());
        }
        let mut by_id = BTreeMap::new();
        for row in rows {
            let definition = match before.by_id.get(&row.id) {
                Some(known)
                    if *known.row == row
                        && !turned
                        && !self.takes_alerts_anew(known)
                        && !self.has_cipher_now(known) =>
                {
                    Arc::clone(known)
                }
                known => {
                    let readiness = self.readiness_of(&row, is_paused);
                    let (row, ticks) = (Arc::new(row), Ticks::default());
                    let mut definition = Definition { readiness, row, ticks, checks_since: moment };
                    if let Some(known) = known.filter(|known| known.checks() == definition.checks()) {
                        definition.checks_since = known.checks_since;
                    }
                    if !is_paused {
                        report(&definition);
                    }
                    Arc::new(definition)
                }
            };
            by_id.insert(definition.row.id, definition);
        }
        for (id, lost) in
            before.by_id.iter().filter(|(id, lost)| !by_id.contains_key(id) && lost.row.delete_time.is_none())
        {
            tracing::error!(
                definition = %lost.row.name, id,
                "the notify_def row was deleted by hand; its notices wait and none is lost: insert the row again with \
                 this id and name (and delete definitions with `outbox.delete`)"
            );
        }
        let alerts = by_id.values().find(|definition| definition.row.name == ALERT_DEFINITION).cloned();
        for definition in by_id.values() {
            if before.get(definition.row.id).is_none_or(|known| !Arc::ptr_eq(known, definition)) {
                recipients::check(definition, alerts.as_deref());
                self.check_token_keys(definition);
            }
        }
        let alerts = alerts.map(|definition| definition.row.id);
        let resumed = if turned && !is_paused { Some(moment) } else { before.resumed };
        let open = open_circuits(before, &by_id, limits);
        let began = if before.by_id.is_empty() { moment } else { before.began };
        Definitions { by_id, alerts, paused, resumed, open, began }
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

    /// Returns whether this node sends the notices of a row, and why not.
    fn readiness_of(&self, row: &NotifyDef, is_paused: bool) -> Readiness {
        let policy = match row.policy() {
            // No receiver acks an alert.
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
        if policy.encrypt_param && self.outbox.engine().param_cipher().is_none() {
            return Readiness::Refused(policy, NO_CIPHER.to_owned());
        }
        if let Err(problem) = handler.check(row.handler_config.as_deref()) {
            return Readiness::Refused(policy, clean_text(&problem, MESSAGE_LIMIT));
        }
        Readiness::Ready(Arc::new(Ready { meters: Meters::new(&row.name), policy, handler, strategy }))
    }

    /// Returns the handler of this name. Alerts are logged if no node has a handler for them.
    fn handler(&self, name: &str) -> Option<Arc<dyn AnyHandler>> {
        let own = self.handlers.get(name).cloned();
        if name != ALERT_DEFINITION {
            return own;
        }
        let inner = own.or_else(|| self.logs_alerts().then(log_alerts))?;
        Some(Arc::new(AlertHandler::new(inner, &self.known, self.settings.base_url.clone())))
    }

    fn logs_alerts(&self) -> bool {
        self.known.alerts_elsewhere() == Some(false)
    }

    /// Returns true if the cipher that a definition waited for is set.
    fn has_cipher_now(&self, known: &Definition) -> bool {
        known.refusal() == Some(NO_CIPHER) && self.outbox.engine().param_cipher().is_some()
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

/// Why a definition with `encrypt_param` waits on a node that has no cipher.
const NO_CIPHER: &str =
    "encrypt_param: this node has no cipher; call `outbox.use_param_cipher` before its sweeper starts";

/// Returns whether the definitions differ from the last reading. The first reading always differs, because edits before
/// it were not seen.
fn are_new(known: &Definitions, rows: &[NotifyDef]) -> bool {
    // Compares whole rows first: each reading compares them all, and a list of differences is rarely needed.
    let same = |row: &NotifyDef| {
        known.get(row.id).map(|known| &*known.row).is_some_and(|known| {
            known == row
                || (known.differences(row).is_empty() && known.delete_time.is_some() == row.delete_time.is_some())
        })
    };
    // The count is the same and each row is known, so none is missing.
    known.all().count() != rows.len() || !rows.iter().all(same)
}

/// Returns the definitions whose circuits are open; logs and records changes.
fn open_circuits(
    before: &Definitions,
    by_id: &BTreeMap<i64, Arc<Definition>>,
    limits: &BTreeMap<i64, LimitRow>,
) -> BTreeSet<i64> {
    let mut open = BTreeSet::new();
    for (id, definition) in by_id {
        let Some(breaker) = definition.policy().and_then(|policy| policy.quota?.breaker) else { continue };
        let limit = limits.get(id).filter(|limit| limit.open_until.is_some());
        if limit.is_some() {
            open.insert(*id);
        }
        let name = &definition.row.name;
        match (limit, before.is_open(*id)) {
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
    open
}

/// Wraps a strategy so that its panic does not stop the settling of other outcomes.
fn guarded(strategy: StrategyFn) -> StrategyFn {
    Arc::new(move |n| {
        catch_unwind(AssertUnwindSafe(|| strategy(n))).unwrap_or_else(|_| {
            supervise::report(|| {
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
        Readiness::Refused(_, problem) => {
            tracing::error!(definition = %name, problem = %refusal(problem), "this node sends none of its notices until that is corrected");
        }
    }
}
