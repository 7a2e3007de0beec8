//! The preview of an edit matches its effects on the notices; an edit by hand is stored as a version.

use std::time::Duration;

use solid_notify::definition::Updated;
use solid_notify::operate::NextStep;
use solid_notify::operate::Rate;
use solid_notify::{Failure, Notice, NotifyDef, OutboxExt, Status, Sweeper};
use solid_notify_conformance::Backend;
use test_support::sending::{Calls, add, definition, eventually, record};

const HOUR: Duration = Duration::from_secs(3600);

/// Builds a sweeper whose handler `sync` fails and records the ids.
async fn failing(b: &dyn Backend) -> (Sweeper, Calls<i64>) {
    let calls = Calls::default();
    let noted = calls.clone();
    let builder = b.outbox().sweeper().handler("sync", move |notice: Notice<i64>| {
        noted.note(notice.id());
        async { Err(Failure::retry("no")) }
    });
    (builder.start().await.unwrap(), calls)
}

async fn failed(b: &dyn Backend, ids: &[i64], failures: i64) {
    for id in ids {
        eventually(&format!("notice {id} has failed {failures} times"), async || {
            let record = record(b, *id).await;
            (record.status, record.failures) == (Status::Failed, failures)
        })
        .await;
    }
}

pub async fn a_preview_shows_the_effects_on_the_notices(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("1h").max_retry_times(9)).await.unwrap();
    let (sweeper, calls) = failing(b).await;
    let old = [add(b, "sync").await, add(b, "sync").await];
    failed(b, &old, 1).await;
    sweeper.idle().await;
    b.clock().advance(HOUR);
    failed(b, &old, 2).await;
    let young = [add(b, "sync").await, add(b, "sync").await, add(b, "sync").await];
    failed(b, &young, 1).await;
    let alice = b.outbox().operator("alice");
    let seen = definition(b, "sync").await;
    let new = seen.clone().max_retry_times(1).retry_interval("[30m,2h]");
    let preview = alice.preview_edit(&seen, &new).await.unwrap();
    assert_eq!((preview.retries.count, preview.out_of_tries, preview.fewer_tries), (5, 2, 5));
    assert_eq!(preview.steps.len(), 1, "{preview}");
    assert_eq!((preview.steps[0].count, &preview.steps[0].to), (3, &NextStep::DeadLetter));
    assert_eq!((preview.earlier, preview.later), (3, 0));
    assert!(matches!(alice.edit_definition(&seen, new).await.unwrap(), Updated::Stored(_)));
    let done = alice.retime("sync", Rate::AT_ONCE).await.unwrap();
    assert_eq!(done.changed, 3);
    sweeper.idle().await;
    let before = calls.count();
    b.clock().advance(HOUR / 2);
    let dead = async |ids: &[i64]| {
        for id in ids {
            eventually("it is a dead letter", async || record(b, *id).await.status == Status::DeadLetter).await;
        }
    };
    // Their next failure is their last.
    dead(&young).await;
    assert_eq!(calls.count() - before, 3);
    sweeper.idle().await;
    b.clock().advance(HOUR / 2);
    // These are not tried again.
    dead(&old).await;
    assert_eq!(calls.count() - before, 3);
    let tries = [record(b, old[0]).await.failures, record(b, young[0]).await.failures];
    assert_eq!(tries, [2, 2], "retiming burnt nothing");
    sweeper.shutdown().await;
}

pub async fn an_edit_by_hand_becomes_a_version_by_itself(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let (sweeper, _) = failing(b).await;
    let id = definition(b, "sync").await.id;
    b.edit_by_hand(id, "timeout", "9s").await;
    let alice = b.outbox().operator("alice");
    // The edit wakes no sweeper: it reads the definitions again by itself.
    eventually("the edit is kept", async || alice.versions(id).await.unwrap().len() == 2).await;
    let version = alice.versions(id).await.unwrap().remove(0);
    assert_eq!(version.who, format!("by hand, seen by {}", sweeper.node_id()));
    assert_eq!((version.act.as_str(), version.row.timeout.as_str()), ("by hand", "9s"));
    sweeper.shutdown().await;
}
