//! A receiver that wants no more notices pauses its definition: `Failure::pause`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use solid_notify::alert::{AlertKind, AlertReason};
use solid_notify::definition::ALERT_DEFINITION;
use solid_notify::operate::AuditFilter;
use solid_notify::{
    Alert, Failure, HttpStatus, NewNotice, Notice, NotifyDef, Operator, OutboxExt, Status, SweeperBuilder,
};
use solid_notify_conformance::Backend;
use test_support::sending::{Calls, add, definition, eventually, reaches, record, update};
use tokio::sync::Semaphore;

const MINUTE: Duration = Duration::from_secs(60);

/// A receiver that counts what it gets, and says 410 while `gone` is set. What it gets waits for a permit.
#[derive(Clone)]
struct Receiver {
    gone: Arc<AtomicBool>,
    got: Calls<String>,
    gate: Arc<Semaphore>,
    alerts: Calls<Alert>,
}

impl Receiver {
    fn gone() -> Self {
        let (gone, gate) = (Arc::new(AtomicBool::new(true)), Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)));
        Self { gone, got: Calls::default(), gate, alerts: Calls::default() }
    }

    /// Lets nothing pass until a test adds permits.
    fn closed() -> Self {
        Self { gate: Arc::new(Semaphore::new(0)), ..Self::gone() }
    }

    fn sweeper(&self, b: &dyn Backend) -> SweeperBuilder {
        let (receiver, alerts) = (self.clone(), self.alerts.clone());
        let send = move |notice: Notice<i64>| {
            let receiver = receiver.clone();
            async move {
                receiver.got.note(notice.definition().to_owned());
                receiver.gate.acquire().await?.forget();
                let is_gone = receiver.gone.load(Ordering::SeqCst) && notice.definition() != "order/mail";
                if is_gone { Err(Failure::pause(HttpStatus(410))) } else { Ok(()) }
            }
        };
        b.outbox().sweeper().handler("order", send).handler(ALERT_DEFINITION, move |notice: Notice<Alert>| {
            alerts.note(notice.into_param());
            async { Ok(()) }
        })
    }
}

fn alice(b: &dyn Backend) -> Operator {
    b.outbox().operator("alice")
}

async fn pauses(b: &dyn Backend, name: &str) -> usize {
    let versions = alice(b).versions(name).await.unwrap();
    versions.into_iter().filter(|version| version.act == "paused").count()
}

pub async fn a_receiver_that_wants_no_more_pauses_its_definition(b: &dyn Backend) {
    // No try is left, and the class is never retried: a usual failure would be a dead letter.
    let def = NotifyDef::new("order").max_retry_times(0).retry_interval("[5s]").alert_trigger_type("each_failure");
    b.outbox().define_if_missing(def).await.unwrap();
    let receiver = Receiver::gone();
    let sweeper = receiver.sweeper(b).start().await.unwrap();
    let first = b.add_new(NewNotice::new("order", 1).unwrap().description("order 7")).await.id();
    let waiting = reaches(b, first, Status::Failed).await;
    assert_eq!((waiting.failures, waiting.crashes, waiting.errors.len()), (0, 0, 1));
    assert_eq!(waiting.last_class.as_deref(), Some("not_found"));
    assert!(waiting.errors[0].message.contains("410"), "{:?}", waiting.errors);
    assert_eq!(waiting.response.unwrap().response.status(), "410");
    assert!(!definition(b, "order").await.enabled);

    let paused = alice(b).versions("order").await.unwrap().remove(0);
    assert_eq!((paused.act.as_str(), paused.who.as_str(), paused.version), ("paused", sweeper.node_id(), 2));
    let entry = alice(b).audit(&AuditFilter::all().act("paused"), None, 10).await.unwrap().entries.remove(0);
    assert_eq!((entry.who.as_str(), entry.def_id), (sweeper.node_id(), Some(waiting.def_id)));
    let reason = format!("definition \"order\", version 2: enabled; reason: {}", waiting.errors[0].message);
    assert_eq!(entry.detail, Some(reason));

    eventually("the alert is sent", async || receiver.alerts.count() == 1).await;
    let alert = receiver.alerts.all().remove(0);
    assert_eq!((alert.kind, alert.reason), (AlertKind::Raised, AlertReason::Paused));
    assert_eq!((alert.notice_id, alert.class.as_deref()), (Some(first), Some("not_found")));
    assert_eq!((alert.description.as_deref(), alert.node.as_str()), (Some("order 7"), sweeper.node_id()));
    assert_eq!(alert.message, waiting.errors[0].message);

    // It accepts notices, and sends none, whatever time passes.
    let second = add(b, "order").await;
    sweeper.idle().await;
    b.clock().advance(60 * MINUTE);
    sweeper.idle().await;
    assert_eq!((receiver.got.count(), record(b, second).await.status), (1, Status::NotSent));
    assert_eq!(receiver.alerts.count(), 1, "one alert, however long it stays paused");

    receiver.gone.store(false, Ordering::SeqCst);
    update(b, "order", |row| row.enabled(true)).await;
    reaches(b, first, Status::Succeeded).await;
    reaches(b, second, Status::Succeeded).await;
    sweeper.idle().await;
    b.clock().advance(10 * MINUTE);
    eventually("the end is reported", async || receiver.alerts.count() == 2).await;
    let over = receiver.alerts.all().remove(1);
    assert_eq!((over.kind, over.reason), (AlertKind::Recovered, AlertReason::Paused));
    sweeper.shutdown().await;
}

pub async fn of_many_refusals_on_two_nodes_one_pauses_and_alerts(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("order")).await.unwrap();
    let receiver = Receiver::closed();
    let (one, other) = (receiver.sweeper(b).start().await.unwrap(), receiver.sweeper(b).start().await.unwrap());
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.push(add(b, "order").await);
    }
    eventually("all are being sent", async || receiver.got.count() == ids.len()).await;
    receiver.gate.add_permits(ids.len());
    for id in ids {
        assert_eq!(reaches(b, id, Status::Failed).await.failures, 0);
    }
    assert_eq!(pauses(b, "order").await, 1);
    eventually("the alert is sent", async || receiver.alerts.count() == 1).await;
    one.idle().await;
    other.idle().await;
    b.clock().advance(30 * MINUTE);
    one.idle().await;
    other.idle().await;
    assert_eq!(
        receiver.alerts.count(),
        1,
        "none is suppressed that a digest would report: {:?}",
        receiver.alerts.all()
    );
    one.shutdown().await;
    other.shutdown().await;
}

pub async fn a_refusal_of_before_an_edit_pauses_nothing(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("order").retry_interval("[1m]")).await.unwrap();
    let receiver = Receiver::closed();
    let sweeper = receiver.sweeper(b).start().await.unwrap();
    let id = add(b, "order").await;
    eventually("it is being sent", async || receiver.got.count() == 1).await;
    // Paused and enabled again, as after another refusal: the columns are the same, and yet it is another state.
    update(b, "order", |row| row.enabled(false)).await;
    b.clock().advance(Duration::from_secs(1));
    update(b, "order", |row| row.enabled(true)).await;
    receiver.gate.add_permits(1);
    let failed = reaches(b, id, Status::Failed).await;
    assert_eq!((failed.failures, failed.next_call_time), (0, Some(b.clock().now() + MINUTE)));
    assert!(definition(b, "order").await.enabled);
    sweeper.idle().await;
    receiver.gate.add_permits(1);
    b.clock().advance(MINUTE);
    eventually("the next refusal pauses it", async || !definition(b, "order").await.enabled).await;
    assert_eq!((pauses(b, "order").await, receiver.got.count()), (1, 2));
    sweeper.shutdown().await;
}

pub async fn a_target_is_paused_alone(b: &dyn Backend) {
    let targets = [NotifyDef::target("order", "erp"), NotifyDef::target("order", "mail")];
    for def in [NotifyDef::new("order")].into_iter().chain(targets) {
        b.outbox().define_if_missing(def).await.unwrap();
    }
    let receiver = Receiver::gone();
    let sweeper = receiver.sweeper(b).start().await.unwrap();
    add(b, "order").await;
    eventually("it is paused", async || !definition(b, "order/erp").await.enabled).await;
    assert!(definition(b, "order").await.enabled && definition(b, "order/mail").await.enabled);
    let columns: Vec<&str> =
        alice(b).versions("order/erp").await.unwrap()[0].differences.iter().map(|(column, ..)| *column).collect();
    assert_eq!(columns, ["enabled"], "it still inherits the others");
    eventually("the alert is sent", async || receiver.alerts.count() == 1).await;
    assert_eq!(receiver.alerts.all()[0].definition, "order/erp");
    sweeper.idle().await;
    add(b, "order").await;
    eventually("the other target gets the next", async || receiver.got.count() == 3).await;
    sweeper.idle().await;
    let mut got = receiver.got.all();
    got.sort();
    assert_eq!(got, ["order/erp", "order/mail", "order/mail"]);
    // What came meanwhile waits for it.
    receiver.gone.store(false, Ordering::SeqCst);
    update(b, "order/erp", |def| def.enabled(true)).await;
    eventually("the target gets what waited", async || receiver.got.count() >= 4).await;
    assert!(receiver.got.all()[3..].iter().all(|name| name == "order/erp"));
    sweeper.shutdown().await;
}

pub async fn alerts_are_not_paused_by_their_receiver(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("order").max_retry_times(0)).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let builder = b.outbox().sweeper().handler("order", |_: Notice<i64>| async { Err(Failure::give_up("no")) });
    let builder = builder.handler(ALERT_DEFINITION, move |notice: Notice<Alert>| {
        noted.note(notice.id());
        async { Err(Failure::pause("no more")) }
    });
    let sweeper = builder.start().await.unwrap();
    add(b, "order").await;
    eventually("the alert is refused", async || calls.count() == 1).await;
    assert_eq!(reaches(b, calls.all()[0], Status::Failed).await.failures, 1, "it is a usual failure");
    assert!(definition(b, ALERT_DEFINITION).await.enabled);
    sweeper.shutdown().await;
}
