//! Periodic work: reports with each beat that this node lives and what stops it, and forgets producers that stopped waiting. Beside the
//! beats it checks the conditions, and whether acks can be stored, so that neither delays a beat.
//!
//! Purging runs by a timetable: [`super::housekeeping`].

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use chrono::Utc;
use solid_notify_core::StoreError;
use solid_notify_core::cipher::ParamCipher;
use solid_notify_core::metrics::{DATABASE_UP, SENDING};
use solid_notify_core::store::{Alarm, BEAT, Node};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::conditions::{Problems, conditions, learn_senders_of_alerts, sends_alerts};
use super::series::{LAST_WRITE, offset_between};
use crate::refusals::Part;
use crate::supervise::report;
use crate::worker::Worker;

pub(crate) async fn maintenance_loop(worker: Arc<Worker>) {
    let interval = worker.settings.maintenance_interval;
    let mut beats = Beats::default();
    let mut turned = Box::pin(worker.signals.clock_turned());
    // A check has a task of its own: it may wait for a connection that a beat waits for, too.
    let mut check: Option<AbortOnDropHandle<Result<Vec<Alarm>, StoreError>>> = None;
    let (mut checked, mut may_check): (Option<Instant>, bool) = (None, false);
    // `at_once`: a test has turned the clock, and waits for what is found then.
    let (mut asked, mut at_once) = (true, false);
    let mut next = Instant::now();
    loop {
        worker.health.beats();
        asked |= checked.is_some_and(|at| at.elapsed() >= interval);
        if asked
            && may_check
            && check.is_none()
            && let Some(handlers) = beats.handlers.clone()
        {
            let worker = Arc::clone(&worker);
            let found = async move { conditions(&worker, &handlers).await };
            check = Some(AbortOnDropHandle::new(tokio::spawn(found)));
            (checked, asked, may_check) = (Some(Instant::now()), false, false);
        }
        tokio::select! {
            biased;
            () = worker.signals.stopped() => break,
            () = tokio::time::sleep_until(next) => {
                // Measured from the start of a beat.
                next = Instant::now() + BEAT.min(interval);
                beats.beat(&worker).await;
                worker.in_flight.drop_unawaited_reports();
                may_check = true;
            }
            found = async { check.as_mut()?.await.ok() }, if check.is_some() => {
                check = None;
                match found {
                    Some(Ok(alarms)) => beats.alarms = alarms,
                    Some(Err(error)) => worker.health.mention(&error),
                    None => tracing::error!("the check of the conditions panicked"),
                }
                if std::mem::take(&mut at_once) && !beats.alarms.is_empty() {
                    next = Instant::now();
                }
            }
            () = &mut turned, if check.is_none() => {
                // Subscribed before the work, so that a turn of the clock during it is not missed.
                turned = Box::pin(worker.signals.clock_turned());
                (next, asked, at_once) = (Instant::now(), true, true);
            }
            () = worker.signals.check_requested() => asked = true,
        }
    }
}

/// Asks the store with each fourth beat whether acks can be stored, and with each beat while that is in doubt.
pub(crate) async fn acks_loop(worker: Arc<Worker>) {
    let interval = worker.settings.maintenance_interval.min(4 * BEAT);
    let mut checked: Option<Instant> = None;
    while !worker.signals.is_stopped() {
        let is_due = checked.is_none_or(|at| at.elapsed() >= interval);
        if is_due || worker.health.doubts_acks() {
            checked = Some(Instant::now());
            worker.health.checked_acks(worker.stores().operate.can_ack().await);
        }
        worker.signals.pause(BEAT.min(interval)).await;
    }
}

/// The beats of this node. Each is one write, whatever it reports.
#[derive(Default)]
struct Beats {
    /// The handlers of the living nodes by the last beat; `None` where it failed, or where other nodes may not have reported since an outage.
    handlers: Option<BTreeSet<String>>,
    /// What was found since the last beat.
    alarms: Vec<Alarm>,
    /// When the alarms about this node itself were last stored.
    reported: Option<Instant>,
}

impl Beats {
    /// Reports that this node lives, and what it has found.
    async fn beat(&mut self, worker: &Worker) {
        let problems = problems(worker);
        let mut node = described(worker, &problems);
        let was_reported = self.reported.is_some_and(|at| at.elapsed() < worker.settings.maintenance_interval);
        // An alarm about an outage could only be stored after its end.
        let own = match was_reported || worker.health.is_down() {
            true => Vec::new(),
            false => problems.alarms(worker),
        };
        let reports = !own.is_empty();
        node.alarms = self.alarms.iter().cloned().chain(own).collect();
        // After an outage other nodes may not have reported yet: a node that is listed lives, but one that is not listed
        // may live too.
        let may_miss_nodes =
            worker.known.alerts_sent().is_some() && worker.health.grace_left(worker.moment()).is_some();
        self.handlers = None;
        match write(worker, &node).await {
            Ok(handlers) => {
                self.alarms.clear();
                if reports {
                    self.reported = Some(Instant::now());
                }
                if !node.alarms.is_empty() {
                    worker.signals.sweep_soon();
                }
                let sent = sends_alerts(worker, &handlers);
                if !may_miss_nodes || sent {
                    learn_senders_of_alerts(worker, sent);
                }
                self.handlers = Some(handlers).filter(|_| !may_miss_nodes);
            }
            Err(error) => {
                worker.health.failed(Part::Beats, &error);
                // The sweep finds out when the database takes writes again.
                worker.signals.sweep_soon();
            }
        }
    }
}

/// Writes a beat after an outage. It is the one write that every node may always make.
pub(crate) async fn beat_after_outage(worker: &Worker) -> Result<(), StoreError> {
    let problems = Problems { node: None, ..problems(worker) };
    write(worker, &described(worker, &problems)).await.map(drop)
}

/// Writes a beat, and measures the clock. Returns the handlers of the living nodes.
async fn write(worker: &Worker, node: &Node) -> Result<BTreeSet<String>, StoreError> {
    let asked = Utc::now();
    let view = worker.stores().send.beat(node).await?;
    let offset = offset_between(asked, view.now, Utc::now());
    worker.health.beaten(offset, worker.moment());
    // The series follows a clock that a test turns by itself.
    if worker.outbox.engine().hand_clock().is_none() {
        worker.outcomes.series.set_offset(offset);
    }
    Ok(view.handlers)
}

/// Returns why this node does not send, and which calls cannot be cancelled; logs the new ones of these.
fn problems(worker: &Worker) -> Problems {
    let node = worker.not_sending();
    metrics::gauge!(SENDING).set(if node.is_none() { 1.0 } else { 0.0 });
    // A recorder may remove a gauge that is not set regularly.
    metrics::gauge!(DATABASE_UP).set(if worker.health.is_down() { 0.0 } else { 1.0 });
    let (stuck, new) = worker.in_flight.find_stuck(&worker.calls());
    let text = |(def_id, id): (i64, i64)| {
        let definition = worker.name_of(def_id);
        format!(
            "an attempt of {definition} (notice {id}) goes on beyond its time limit and cannot be cancelled, because its handler blocks \
             its thread; until it ends, this node makes no other attempt of {definition}"
        )
    };
    for stuck in new {
        report(|| tracing::error!("{}", text(stuck)));
    }
    Problems { node, stuck: stuck.into_iter().map(|stuck| (stuck.0, text(stuck))).collect() }
}

/// Reports that this node has stopped, after the last beat of [`maintenance_loop`]. If the store does not answer soon, the node is listed
/// for two more beats.
pub(crate) async fn report_stop(worker: &Worker) {
    let node = Node { stopped: true, ..described(worker, &Problems::default()) };
    match tokio::time::timeout(LAST_WRITE, worker.stores().send.beat(&node)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => worker.health.mention(&error),
        Err(_) => {
            tracing::warn!("the end of this node is not reported: the database did not answer within {LAST_WRITE:?}")
        }
    }
}

/// Returns the ids of the keys of a cipher, which is the application's and may panic.
fn param_keys(cipher: &dyn ParamCipher) -> Vec<String> {
    catch_unwind(AssertUnwindSafe(|| cipher.keys())).unwrap_or_default()
}

/// Describes this node.
fn described(worker: &Worker, problems: &Problems) -> Node {
    let mut handlers: Vec<String> = worker.known.registered.handlers.keys().cloned().collect();
    handlers.sort_unstable();
    Node {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        clock_offset_ms: worker.health.seen().clock_offset_ms,
        problems: problems.node.iter().chain(problems.stuck.values()).cloned().collect(),
        param_keys: worker.outbox.engine().param_cipher().map(|cipher| param_keys(&*cipher)).unwrap_or_default(),
        refused: worker.refused(),
        ..Node::new(&worker.id, handlers)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use solid_notify_core::store::{Claim, ClaimWhat};
    use solid_notify_core::{NotifyDef, Status, add_notice};
    use solid_notify_testkit::MemoryOutbox;

    use super::*;
    use crate::OutboxExt;
    use crate::claiming::claim::claim_and_start;

    #[tokio::test(start_paused = true)]
    async fn attempt_that_cannot_be_cancelled_is_the_last_of_its_definition() {
        let outbox = MemoryOutbox::new();
        outbox.define_if_missing(NotifyDef::new("sync").timeout("10s")).await.unwrap();
        let mut tx = outbox.begin().await.unwrap();
        for k in 0..2 {
            add_notice(&mut tx, "sync", k).await.unwrap();
        }
        tx.commit().await.unwrap();
        let worker = Worker::new(outbox.sweeper().handler("sync", |_: crate::Notice<i64>| async { Ok(()) }).setup);
        worker.reload_definitions().await.unwrap();
        let definition = worker.definitions().all().find(|known| known.row.name == "sync").cloned().unwrap();
        let ready = definition.ready().unwrap();
        let what = || ClaimWhat::Slice(Status::NotSent);
        let claim = Claim::new(&ready.policy, &worker.id, what(), 1);
        let blocked = outbox.engine().stores().send.claim(&claim).await.unwrap().notices.remove(0);
        worker.in_flight.register(&blocked, &ready.policy, worker.moment());
        // Before its handler is called, nothing can block.
        tokio::time::advance(Duration::from_secs(30)).await;
        assert!(problems(&worker).stuck.is_empty());
        worker.in_flight.begin_call(blocked.id, blocked.fence);
        let claims = async || {
            let slots = worker.admission.take_slots(&ready.policy, 1);
            claim_and_start(&worker, &definition, ready, what(), slots, None).await.unwrap().len()
        };

        tokio::time::advance(Duration::from_secs(19)).await;
        assert!(problems(&worker).stuck.is_empty());
        tokio::time::advance(Duration::from_secs(1)).await;
        let found = problems(&worker).stuck;
        assert!(found[&ready.policy.def_id].contains(&format!("sync (notice {})", blocked.id)), "{found:?}");
        assert_eq!(claims().await, 0);
        worker.in_flight.ended(blocked.id, blocked.fence);
        assert!(problems(&worker).stuck.is_empty());
        worker.reload_definitions().await.unwrap();
        assert_eq!(claims().await, 1);
    }
}
