//! Bulk acts: each notice is changed once, at its rate, and an act continues where it was after a crash, a cancel and a pause.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use solid_notify::ack::Reply;
use solid_notify::definition::{ALERT_DEFINITION, DEAD_LETTERS_DEFINITION, PURGE_DEFINITION};
use solid_notify::error::StoreError;
use solid_notify::operate::{AuditFilter, Rate};
use solid_notify::{
    AckResult, AnyOutbox, Filter, NewNotice, Notice, NotifyDef, Operator, OutboxExt, Status, VerbResult,
};
use solid_notify_conformance::Backend;
use solid_notify_core::engine::Engine;
use solid_notify_core::operate::{ActClaim, AfterStep, BulkAct, BulkHandle};
use solid_notify_core::store::verb::Verb;
use solid_notify_core::store::{Authority, BulkStep, BulkStepDone, Claim, ClaimWhat, OperateStore, Stores, Switch};
use test_support::sending::{Calls, definition, eventually, reaches, record, update};
use tokio::sync::Semaphore;

const BULK: &str = "notify.bulk";

fn alice(b: &dyn Backend) -> Operator {
    b.outbox().operator("alice")
}

/// Adds notices of the definition `sync`, which no sweeper sends, and cancels them.
async fn cancelled(b: &dyn Backend, count: usize) -> Vec<i64> {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..count {
        let id = b.add_new(NewNotice::new("sync", 1).unwrap()).await.id();
        alice(b).cancel(id, "not now").await.unwrap();
        ids.push(id);
    }
    ids
}

/// A store whose progress of acts is stored with a permit only.
struct Gated {
    inner: Arc<dyn OperateStore>,
    waits: Calls<()>,
    gate: Semaphore,
}

impl Gated {
    /// Returns an outbox over the store of a backend that goes through the gate.
    fn over(b: &dyn Backend) -> (AnyOutbox, Arc<Self>) {
        let stores = b.outbox().engine().stores().clone();
        let gated = Self { inner: stores.operate.clone(), waits: Calls::default(), gate: Semaphore::new(0) };
        let gated = Arc::new(gated);
        let stores = Stores { operate: gated.clone(), ..stores };
        (AnyOutbox::over(Engine::new(stores, Some(b.clock().clone()))), gated)
    }
}

#[async_trait]
impl OperateStore for Gated {
    async fn apply_ack(&self, reply: &Reply) -> Result<AckResult, StoreError> {
        self.inner.apply_ack(reply).await
    }

    async fn change(&self, id: i64, verb: &Verb, who: &str) -> Result<VerbResult, StoreError> {
        self.inner.change(id, verb, who).await
    }

    async fn change_step(&self, step: &BulkStep) -> Result<BulkStepDone, StoreError> {
        self.inner.change_step(step).await
    }

    async fn add(&self, def_id: i64, param: &str, authority: &Authority) -> Result<i64, StoreError> {
        self.inner.add(def_id, param, authority).await
    }

    async fn add_test(&self, def_id: i64, param: &str, who: &str) -> Result<i64, StoreError> {
        self.inner.add_test(def_id, param, who).await
    }

    async fn note_progress(&self, id: i64, fence: i64, param: &str) -> Result<bool, StoreError> {
        self.waits.note(());
        self.gate.acquire().await.unwrap().forget();
        self.inner.note_progress(id, fence, param).await
    }

    async fn switch(&self, switch: &Switch, who: &str) -> Result<bool, StoreError> {
        self.inner.switch(switch, who).await
    }

    async fn close_circuit(&self, def_id: i64, who: &str) -> Result<bool, StoreError> {
        self.inner.close_circuit(def_id, who).await
    }
}

async fn act_of(handle: &BulkHandle) -> BulkAct {
    handle.progress().await.unwrap().unwrap().act.unwrap()
}

/// Returns the ids that the steps of an act changed, by the audit.
async fn audited(b: &dyn Backend, act: i64, verb: &str) -> Vec<i64> {
    let entries = alice(b).audit(&AuditFilter::all().act(verb).who("alice"), None, 100).await.unwrap().entries;
    let begin = format!("bulk act {act}: ");
    let own = entries.into_iter().filter(|entry| entry.detail.as_ref().is_some_and(|text| text.starts_with(&begin)));
    let mut ids: Vec<i64> = own.flat_map(|entry| entry.notice_ids).collect();
    ids.sort_unstable();
    ids
}

pub async fn bulk_act_changes_each_notice_once_beside_two_sweepers(b: &dyn Backend) {
    let ids = cancelled(b, 12).await;
    let calls = Calls::default();
    let mut sweepers = Vec::new();
    for _ in 0..2 {
        let noted = calls.clone();
        let handler = move |notice: Notice<i64>| {
            noted.note(notice.id());
            async { Ok(()) }
        };
        sweepers.push(b.outbox().sweeper().handler("sync", handler).start().await.unwrap());
    }
    let filter = Filter::cancelled().definition("sync").ids(ids.iter().copied().chain(1_000_000..1_000_500));
    let started = alice(b).start_retry_all(&filter, Rate::AT_ONCE).await.unwrap();
    let ended = started.wait().await.unwrap().unwrap();
    assert_eq!((ended.status, ended.act.unwrap().done.changed), (Status::Succeeded, 12));
    for id in &ids {
        reaches(b, *id, Status::Succeeded).await;
    }
    let mut sent = calls.all();
    sent.sort_unstable();
    assert_eq!(sent, ids);
    assert_eq!(audited(b, started.id(), "retry").await, ids);
    assert_eq!(alice(b).bulks().await.unwrap()[0].id, started.id());
    for sweeper in sweepers {
        sweeper.shutdown().await;
    }
}

/// What was confirmed was of one definition. Its name may go to another one while the act waits for its turn.
pub async fn bulk_act_keeps_to_its_definition_when_names_change(b: &dyn Backend) {
    let ids = cancelled(b, 3).await;
    b.outbox().define_if_missing(NotifyDef::new("other")).await.unwrap();
    let other = b.add_new(NewNotice::new("other", 1).unwrap()).await.id();
    alice(b).cancel(other, "not now").await.unwrap();
    let started =
        alice(b).start_purge_all(&Filter::cancelled().definition("sync"), "old", Rate::AT_ONCE).await.unwrap();
    for (from, to) in [("sync", "former"), ("other", "sync")] {
        let renamed = |mut row: NotifyDef| {
            row.name = to.to_owned();
            row
        };
        update(b, from, renamed).await;
    }
    let sweeper = b.outbox().sweeper().start().await.unwrap();
    let ended = started.wait().await.unwrap().unwrap();
    assert_eq!((ended.status, ended.act.unwrap().done.changed), (Status::Succeeded, 3));
    assert_eq!(audited(b, started.id(), "purge").await, ids);
    assert_eq!(b.outbox().find(other).await.unwrap().unwrap().status, Status::Cancelled);
    sweeper.shutdown().await;
}

pub async fn bulk_act_obeys_its_rate_and_continues_after_a_cancel(b: &dyn Backend) {
    let ids = cancelled(b, 5).await;
    let sweeper = b.outbox().sweeper().start().await.unwrap();
    let filter = Filter::cancelled().definition("sync");
    let started = alice(b).start_retry_all(&filter, "1/10s".parse().unwrap()).await.unwrap();
    let changes = async |count: u64| {
        eventually(&format!("{count} are changed"), async || act_of(&started).await.done.changed == count).await;
        eventually("it waits", async || record(b, started.id()).await.status == Status::NotSent).await;
        sweeper.idle().await;
        assert_eq!(act_of(&started).await.done.changed, count);
    };
    changes(2).await;
    let due = async |at: usize| record(b, ids[at]).await.next_call_time.unwrap();
    assert_eq!(due(1).await - due(0).await, chrono::TimeDelta::seconds(10));
    b.clock().advance(Duration::from_secs(15));
    changes(2).await;
    b.clock().advance(Duration::from_secs(5));
    changes(4).await;
    assert_eq!(alice(b).cancel(started.id(), "stop").await.unwrap(), VerbResult::Applied);
    b.clock().advance(Duration::from_secs(600));
    sweeper.idle().await;
    let stopped = started.progress().await.unwrap().unwrap();
    assert_eq!((stopped.status, stopped.act.unwrap().done.changed), (Status::Cancelled, 4));
    assert_eq!(stopped.end_reason.as_deref(), Some("stop"));
    assert_eq!(alice(b).retry(started.id()).await.unwrap(), VerbResult::Applied);
    // Its pause is not made up for; then its last two are seen.
    eventually("the others are changed", async || act_of(&started).await.done.changed == 5).await;
    sweeper.idle().await;
    b.clock().advance(Duration::from_secs(60));
    reaches(b, started.id(), Status::Succeeded).await;
    assert_eq!(audited(b, started.id(), "retry").await, ids);
    sweeper.shutdown().await;
}

pub async fn bulk_act_that_is_cancelled_while_it_runs_takes_no_further_step(b: &dyn Backend) {
    // One more than fit into a step.
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let notices = (0..501).map(|number| NewNotice::new("sync", number).unwrap()).collect();
    let mut first: Vec<i64> = b.add_many(notices).await.unwrap().iter().map(|receipt| receipt.id()).collect();
    first.sort_unstable();
    alice(b).cancel_all(&Filter::waiting(), "not now").await.unwrap();
    let later = first.pop().unwrap();
    let (outbox, gated) = Gated::over(b);
    let sweeper = outbox.sweeper().start().await.unwrap();
    let started = outbox.operator("alice").start_retry_all(&Filter::cancelled(), Rate::AT_ONCE).await.unwrap();
    eventually("its first step is done", async || gated.waits.count() == 1).await;
    assert_eq!(alice(b).cancel(started.id(), "stop").await.unwrap(), VerbResult::CancelledDuringAttempt);
    gated.gate.add_permits(100);
    sweeper.idle().await;
    assert_eq!(gated.waits.count(), 1, "its progress was refused, and no step followed");
    let stopped = started.progress().await.unwrap().unwrap();
    assert_eq!((stopped.status, stopped.act.unwrap().done.steps), (Status::Cancelled, 0));
    assert_eq!(audited(b, started.id(), "retry").await, first);
    assert_eq!(record(b, later).await.status, Status::Cancelled);
    assert_eq!(alice(b).retry(started.id()).await.unwrap(), VerbResult::Applied);
    outbox.wake();
    let ended = started.wait().await.unwrap().unwrap();
    assert_eq!(
        (ended.status, ended.act.unwrap().done.changed),
        (Status::Succeeded, 1),
        "the refused step is not counted"
    );
    assert_eq!(audited(b, started.id(), "retry").await, [first, vec![later]].concat());
    sweeper.shutdown().await;
}

pub async fn paused_bulk_act_changes_nothing_until_it_is_resumed(b: &dyn Backend) {
    let ids = cancelled(b, 5).await;
    let sweeper = b.outbox().sweeper().start().await.unwrap();
    let filter = Filter::cancelled().definition("sync");
    let started = alice(b).start_purge_all(&filter, "old", "1/10s".parse().unwrap()).await.unwrap();
    eventually("two are changed", async || act_of(&started).await.done.changed == 2).await;
    let changes_nothing = async |changed: u64| {
        b.clock().advance(Duration::from_secs(600));
        b.outbox().wake();
        sweeper.idle().await;
        assert_eq!(act_of(&started).await.done.changed, changed);
        assert_eq!(record(b, started.id()).await.status, Status::NotSent);
    };
    sweeper.idle().await;
    assert!(alice(b).pause_all("maintenance").await.unwrap());
    changes_nothing(2).await;
    update(b, BULK, |row| row.enabled(false)).await;
    assert!(alice(b).resume_all().await.unwrap());
    changes_nothing(2).await;
    update(b, BULK, |row| row.enabled(true)).await;
    // The time of the pause is not made up for.
    eventually("two more are changed", async || act_of(&started).await.done.changed == 4).await;
    sweeper.idle().await;
    assert_eq!(act_of(&started).await.done.changed, 4);
    for _ in 0..3 {
        b.clock().advance(Duration::from_secs(20));
        sweeper.idle().await;
    }
    assert_eq!(reaches(b, started.id(), Status::Succeeded).await.failures, 0);
    assert_eq!(audited(b, started.id(), "purge").await, ids);
    sweeper.shutdown().await;
}

pub async fn bulk_act_continues_at_its_cursor_after_a_crash(b: &dyn Backend) {
    let ids = cancelled(b, 5).await;
    let filter = Filter::cancelled().definition("sync");
    let started = alice(b).start_purge_all(&filter, "old", "1/10s".parse().unwrap()).await.unwrap();
    let notice = record(b, started.id()).await;
    let claim = Claim {
        def_id: notice.def_id,
        what: ClaimWhat::Slice(Status::NotSent),
        limit: 1,
        lease: Duration::from_secs(90),
        worker: "dead-worker".to_owned(),
        quota: None,
    };
    let claimed = b.outbox().engine().stores().send.claim(&claim).await.unwrap().notices.remove(0);
    let lease_end = claimed.last_call_time + Duration::from_secs(3600);
    let own = ActClaim { id: claimed.id, fence: claimed.fence, created: claimed.create_time, lease_end };
    let act = act_of(&started).await;
    let mut run = act.clone().begin(b.outbox(), own).await.unwrap();
    assert_eq!(run.step().await.unwrap(), AfterStep::Next);
    assert_eq!((act_of(&started).await.done.changed, b.outbox().find(ids[1]).await.unwrap()), (2, None));
    // The claim is no longer the last one, and its lease has ended: a late step changes nothing.
    let stale = ActClaim { fence: own.fence - 1, lease_end: claimed.last_call_time, ..own };
    assert_eq!(act.begin(b.outbox(), stale).await.unwrap().step().await.unwrap(), AfterStep::Lost);
    assert_eq!(act_of(&started).await.done.changed, 2);
    let sweeper = b.outbox().sweeper().start().await.unwrap();
    for _ in 0..12 {
        sweeper.idle().await;
        b.clock().advance(Duration::from_secs(20));
    }
    let done = reaches(b, started.id(), Status::Succeeded).await;
    assert_eq!((done.crashes, act_of(&started).await.done.changed), (1, 5));
    assert_eq!(audited(b, started.id(), "purge").await, ids);
    sweeper.shutdown().await;
}

pub async fn unreadable_bulk_act_is_a_dead_letter_that_says_so(b: &dyn Backend) {
    let ids = cancelled(b, 1).await;
    let filter = Filter::cancelled().definition("sync");
    let started = alice(b).start_retry_all(&filter, Rate::AT_ONCE).await.unwrap();
    let param = serde_json::json!({ "changed": "often" });
    assert_eq!(alice(b).edit(started.id(), &param).await.unwrap(), VerbResult::Applied);
    let sweeper = b.outbox().sweeper().start().await.unwrap();
    let dead = reaches(b, started.id(), Status::DeadLetter).await;
    assert_eq!(dead.last_class.as_deref(), Some("invalid"));
    let message = &dead.errors.last().unwrap().message;
    assert!(message.contains("parameter of a bulk act") && message.contains("often"), "{message}");
    assert_eq!(record(b, ids[0]).await.status, Status::Cancelled);
    sweeper.shutdown().await;
}

pub async fn bulk_verbs_change_no_bulk_acts(b: &dyn Backend) {
    let ids = cancelled(b, 1).await;
    let started = alice(b).start_retry_all(&Filter::cancelled(), Rate::AT_ONCE).await.unwrap();
    alice(b).cancel(started.id(), "stop").await.unwrap();
    let done = alice(b).retry_all(&Filter::cancelled(), Rate::AT_ONCE).await.unwrap();
    assert_eq!((done.changed, record(b, ids[0]).await.status), (1, Status::NotSent));
    assert_eq!(record(b, started.id()).await.status, Status::Cancelled);
    let named = Filter::cancelled().definition(BULK);
    let refused = alice(b).start_purge_all(&named, "x", Rate::AT_ONCE).await.unwrap_err().to_string();
    assert!(refused.contains("bulk verbs do not change bulk acts"), "{refused}");
    assert!(alice(b).start_retry_all(&Filter::live(), Rate::AT_ONCE).await.is_err());
}

/// A notice as a producer can insert it by plain SQL: without an authority.
async fn forged(b: &dyn Backend, name: &str, param: &str) -> i64 {
    let def_id = definition(b, name).await.id;
    b.outbox().engine().stores().operate.add_test(def_id, param, "a producer").await.unwrap()
}

pub async fn built_in_notice_without_authority_is_a_dead_letter(b: &dyn Backend) {
    let ids = cancelled(b, 1).await;
    let filter = Filter::cancelled().definition("sync");
    let started = alice(b).start_purge_all(&filter, "old", Rate::AT_ONCE).await.unwrap();
    alice(b).cancel(started.id(), "not yet").await.unwrap();
    let alerts = Calls::default();
    let seen = alerts.clone();
    let handler = move |notice: Notice<serde_json::Value>| {
        seen.note(notice.id());
        async { Ok(()) }
    };
    let sweeper = b.outbox().sweeper().handler(ALERT_DEFINITION, handler).start().await.unwrap();
    let order =
        r#"{"verb":"purge","filter":{"statuses":["cancelled"],"definition":"sync"},"rate":"at once","who":"alice"}"#;
    let mut forged_ids = Vec::new();
    for name in [BULK, PURGE_DEFINITION, DEAD_LETTERS_DEFINITION, ALERT_DEFINITION] {
        for param in ["{}", order] {
            let id = forged(b, name, param).await;
            forged_ids.push(id);
            let dead = reaches(b, id, Status::DeadLetter).await;
            assert_eq!((dead.failures, dead.last_class.as_deref()), (1, Some("invalid")), "{name}");
            assert!(dead.end_reason.unwrap().contains("has no authority"), "{name}");
        }
    }
    let sent = alerts.all();
    assert!(forged_ids.iter().all(|id| !sent.contains(id)), "no forged alert is sent, only those about them: {sent:?}");
    assert_eq!(record(b, ids[0]).await.status, Status::Cancelled, "nothing is purged");
    // What the library itself has added acts, also after a retry.
    alice(b).retry(started.id()).await.unwrap();
    assert_eq!(reaches(b, started.id(), Status::Succeeded).await.failures, 0);
    assert_eq!(b.outbox().find(ids[0]).await.unwrap().map(|notice| notice.id), None);
    sweeper.shutdown().await;
}
