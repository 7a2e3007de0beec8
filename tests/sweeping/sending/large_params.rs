//! Parameters that a claim leaves in the store: attempts read them one by one.

use std::time::Duration;

use solid_notify::sweeper::Batch;
use solid_notify::{NewNotice, Notice, NotifyDef, OutboxExt, Status};
use solid_notify_conformance::Backend;
use solid_notify_core::store::{ClaimWhat, LARGE_PARAM};
use test_support::sending::{Calls, eventually, reaches};

use super::delivery::claim_and_die;
use super::encryption::{encrypting, keys};

/// A text of so many bytes of JSON.
fn text(bytes: usize) -> String {
    (0..bytes - 2).map(|n| char::from(b'a' + (n % 26) as u8)).collect()
}

async fn add(b: &dyn Backend, name: &str, param: &str) -> i64 {
    b.add_new(NewNotice::new(name, param).unwrap().param_limit(usize::MAX)).await.id()
}

pub async fn large_parameter_reaches_every_kind_of_handler_as_it_was_added(b: &dyn Backend) {
    b.outbox().use_param_cipher(keys(&["a"]));
    let defs = [NotifyDef::new("plain"), NotifyDef::new("batch"), encrypting("encrypted"), NotifyDef::new("parent")];
    for def in defs {
        b.outbox().define_if_missing(def).await.unwrap();
    }
    let parent = b.outbox().definitions().await.unwrap();
    let parent = parent.iter().find(|state| state.row.name == "parent").unwrap().row.id;
    let filter = format!("@.length > {LARGE_PARAM}");
    let target = NotifyDef::new("parent/all").handler("plain").target_of(parent);
    b.outbox().define_if_missing(target).await.unwrap();
    let target = NotifyDef::new("parent/none").handler("plain").target_of(parent).target_filter(filter);
    b.outbox().define_if_missing(target).await.unwrap();
    let got = Calls::default();
    let note = |name: &'static str| {
        let got = got.clone();
        move |notice: Notice<String>| {
            got.note((name, notice.param().clone()));
            async { Ok(()) }
        }
    };
    let batch = got.clone();
    let batched = move |notices: Vec<Notice<String>>| {
        for notice in &notices {
            batch.note(("batch", notice.param().clone()));
        }
        async move { Ok(notices.iter().map(|_| Ok(())).collect()) }
    };
    let builder = b.outbox().sweeper().handler("plain", note("plain")).handler("encrypted", note("encrypted"));
    let sweeper = builder.batch_handler("batch", Batch::up_to(10), batched).start().await.unwrap();
    let param = text(2 * LARGE_PARAM);
    for name in ["plain", "batch", "encrypted", "parent"] {
        reaches(b, add(b, name, &param).await, Status::Succeeded).await;
    }
    // The target without a filter has it.
    eventually("all are sent", async || got.count() == 4).await;
    let mut names: Vec<_> = got.all().iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    assert_eq!(names, ["batch", "encrypted", "plain", "plain"]);
    assert!(got.all().iter().all(|(_, got)| *got == param));
    sweeper.shutdown().await;
}

pub async fn description_beside_a_large_parameter_is_hidden_after_a_crash(b: &dyn Backend) {
    let def = NotifyDef::new("sync").mask(r#"["$.card"]"#).max_retry_times(0);
    b.outbox().define_if_missing(def).await.unwrap();
    let param = serde_json::json!({ "card": "4111", "text": text(LARGE_PARAM) });
    let id = b.add_new(NewNotice::new("sync", param).unwrap().description("card 4111 of Ada")).await.id();
    claim_and_die(b, "sync", ClaimWhat::Slice(Status::NotSent)).await;
    let builder = b.outbox().sweeper().handler("sync", async |_: Notice<serde_json::Value>| Ok(()));
    let sweeper = builder.start().await.unwrap();
    sweeper.idle().await;
    b.clock().advance(Duration::from_secs(60));
    let dead = reaches(b, id, Status::DeadLetter).await;
    assert!(!dead.description.unwrap_or_default().contains("4111"));
    sweeper.shutdown().await;
}
