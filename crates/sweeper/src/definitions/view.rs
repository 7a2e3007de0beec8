//! The view of the definitions after a reading: which this node sends, and what differs from the view before it.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::definition::{InForce, SecretRef, TargetFilter};
use solid_notify_core::limit::LimitRow;
use solid_notify_core::metrics::BREAKER_OPEN;
use solid_notify_core::notice::{MESSAGE_LIMIT, clean_text};
use solid_notify_core::secret::Destination;
use solid_notify_core::store::{PauseScope, Paused};
use solid_notify_core::{ALERT_DEFINITION, NotifyDef};

use super::passing_on::{PassesOn, passing_on};
use super::ticks::Ticks;
use super::{Definition, Definitions, KnownDefinitions, Own, Readiness, Ready, refusal};
use crate::handlers::StrategyFn;
use crate::handlers::erased::AnyHandler;
use crate::meters::Meters;
use crate::supervise;

/// The delay used if a strategy panics.
const FALLBACK_DELAY: Duration = Duration::from_secs(300);

impl KnownDefinitions {
    /// Returns the view after a reading, and logs what differs from the view before it.
    pub(super) fn next_view(
        &self,
        before: &Definitions,
        rows: Vec<InForce>,
        paused: Option<Paused>,
        limits: &BTreeMap<i64, LimitRow>,
        (moment, own): (Duration, Own),
    ) -> Definitions {
        let is_paused = paused.as_ref().is_some_and(|paused| paused.scope == PauseScope::Everything);
        let turned = is_paused != before.is_paused();
        if paused != before.paused {
            report_switch(paused.as_ref());
        }
        let judges_all = turned || own != before.own;
        let mut by_id = BTreeMap::new();
        let mut targets = BTreeMap::<i64, Vec<Arc<Definition>>>::new();
        let parents: BTreeSet<i64> = rows.iter().filter_map(InForce::parent).collect();
        for followed in rows {
            let has_targets = parents.contains(&followed.row.id);
            let is_known = |known: &Definition| {
                *known.row == followed.row
                    && (known.has_targets, &known.not_a_target) == (has_targets, &followed.problem)
            };
            let parent = followed.parent();
            let definition = match before.by_id.get(&followed.row.id) {
                Some(known) if is_known(known) && !judges_all => Arc::clone(known),
                known => {
                    let readiness = self.readiness_of(&followed, has_targets, is_paused, &own);
                    let filter = filter_of(&followed.row, &readiness);
                    let (row, not_a_target, ticks) = (Arc::new(followed.row), followed.problem, Ticks::default());
                    let checks_since = moment;
                    let mut definition =
                        Definition { row, readiness, has_targets, filter, not_a_target, ticks, checks_since };
                    if let Some(known) = known.filter(|known| known.checks() == definition.checks()) {
                        definition.checks_since = known.checks_since;
                    }
                    if !is_paused {
                        report(&definition);
                    }
                    Arc::new(definition)
                }
            };
            if let Some(parent) = parent {
                targets.entry(parent).or_default().push(Arc::clone(&definition));
            }
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
        let alerts = by_id.values().find(|definition| definition.row.name == ALERT_DEFINITION);
        let alerts = alerts.map(|definition| definition.row.id);
        let resumed = if turned && !is_paused { Some(moment) } else { before.resumed };
        let retries_resumed =
            if before.retries_are_paused() && paused.is_none() { Some(moment) } else { before.retries_resumed };
        let open = open_circuits(before, &by_id, limits);
        targets.values_mut().for_each(|targets| targets.sort_by(|a, b| a.row.name.cmp(&b.row.name)));
        let began = if before.by_id.is_empty() { moment } else { before.began };
        Definitions { by_id, alerts, paused, resumed, retries_resumed, open, targets, began, own }
    }

    /// Returns whether this node sends the notices of a row, and why not.
    fn readiness_of(&self, followed: &InForce, has_targets: bool, is_paused: bool, own: &Own) -> Readiness {
        let row = &followed.row;
        let policy = match followed.policy() {
            // Its targets have the limits, and what is passed on needs no ack.
            Ok(policy) if has_targets => passing_on(policy),
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
        let lacks_cipher = policy.encrypt_param && !own.has_cipher;
        if has_targets && !lacks_cipher {
            let (handler, strategy) =
                (Arc::new(PassesOn) as Arc<dyn AnyHandler>, Arc::new(|_| FALLBACK_DELAY) as StrategyFn);
            return Readiness::Ready(Arc::new(Ready { meters: Meters::new(&row.name), policy, handler, strategy }));
        }
        if has_targets {
            return Readiness::Refused(policy, NO_CIPHER.to_owned());
        }
        let Some(handler) = self.registered.handlers.get(&policy.handler).cloned() else {
            let reason = format!("no handler {:?} is registered on this node", policy.handler);
            return Readiness::NotHere(policy, reason);
        };
        let strategy = match policy.interval.strategy() {
            None => Arc::new(|_| FALLBACK_DELAY) as StrategyFn,
            Some(name) => match self.registered.strategies.get(name) {
                Some(strategy) => guarded(Arc::clone(strategy)),
                None => {
                    let reason = format!("no retry strategy {name:?} is registered on this node");
                    return Readiness::NotHere(policy, reason);
                }
            },
        };
        if lacks_cipher {
            return Readiness::Refused(policy, NO_CIPHER.to_owned());
        }
        let config = row.handler_config.as_deref();
        let may = |secret: SecretRef| own.secrets.check(&row.name, &secret, Destination::Later);
        let checked = handler.check(config).and_then(|()| {
            handler
                .secrets(config)
                .into_iter()
                .try_for_each(may)
                .map_err(|refused| format!("handler_config: {refused}"))
        });
        if let Err(problem) = checked {
            return Readiness::Refused(policy, clean_text(&problem, MESSAGE_LIMIT));
        }
        Readiness::Ready(Arc::new(Ready { meters: Meters::new(&row.name), policy, handler, strategy }))
    }
}

impl Definition {
    /// Returns true if this node sends none of its notices because it has no cipher.
    pub(crate) fn lacks_cipher(&self) -> bool {
        matches!(&self.readiness, Readiness::Refused(_, problem) if problem == NO_CIPHER)
    }
}

fn filter_of(row: &NotifyDef, readiness: &Readiness) -> Option<Arc<TargetFilter>> {
    match readiness.policy() {
        Some(policy) => policy.filter.clone(),
        None => row.filter().and_then(Result::ok).map(Arc::new),
    }
}

/// Why a definition with `encrypt_param` waits on a node that has no cipher.
const NO_CIPHER: &str =
    "encrypt_param: this node has no cipher; call `outbox.use_param_cipher` before its sweeper starts";

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

/// Logs, once per change, what is paused.
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
        Readiness::Paused(_) => tracing::info!(definition = %name, "paused: its notices wait"),
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

#[cfg(test)]
mod tests {
    use solid_notify_testkit::MemoryOutbox;

    use super::*;
    use crate::OutboxExt;
    use crate::worker::Worker;

    #[tokio::test]
    async fn node_without_a_handler_of_alerts_leaves_them_to_others() {
        let worker = Worker::new(MemoryOutbox::new().sweeper().setup);
        for sent in [None, Some(false), Some(true)] {
            if let Some(sent) = sent {
                worker.known.set_alerts_sent(sent);
            }
            worker.reload_definitions().await.unwrap();
            let definitions = worker.definitions();
            let alerts = definitions.named(ALERT_DEFINITION).unwrap();
            assert!(matches!(alerts.readiness, Readiness::NotHere(..)), "{sent:?}");
        }
    }
}
