//! The switch: a pause of everything, and a pause of retries.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use solid_notify_core::operate::{AuditFilter, Why};
use solid_notify_core::store::{Node, PauseScope, Paused, Switch};
use solid_notify_core::{NotifyDef, Status};

use super::{Backend, fail};

const SECOND: Duration = Duration::from_secs(1);

async fn paused(b: &dyn Backend) -> Option<Paused> {
    b.stores().definitions.send_limits().await.unwrap().paused
}

async fn acts(b: &dyn Backend) -> Vec<(String, String, Option<String>)> {
    let audit = b.audit(&AuditFilter::all()).await;
    audit.into_iter().map(|entry| (entry.who, entry.act, entry.detail)).collect()
}

fn act(who: &str, act: &str, detail: Option<&str>) -> (String, String, Option<String>) {
    (who.to_owned(), act.to_owned(), detail.map(str::to_owned))
}

pub async fn the_switch_is_turned_once_and_written_down(b: &dyn Backend) {
    assert_eq!(paused(b).await, None);
    let alice = b.outbox().operator("alice");
    assert!(!alice.resume_all().await.unwrap());
    assert!(alice.pause_all("the target moves").await.unwrap());
    let since = Some(b.clock().now());
    let (who, reason) = (Some("alice".to_owned()), Some("the target moves".to_owned()));
    let everything = Paused { scope: PauseScope::Everything, who, since, reason };
    b.clock().advance(SECOND);
    let again = Switch::Pause { scope: PauseScope::Everything, reason: "me too".to_owned() };
    assert!(!b.stores().operate.switch(&again, "bob").await.unwrap());
    assert_eq!(paused(b).await, Some(everything.clone()));
    assert_eq!(alice.paused().await.unwrap(), Some(everything.clone()));
    assert!(everything.to_string().contains(" by alice: the target moves"), "{everything}");
    assert!(alice.resume_all().await.unwrap());
    assert_eq!(paused(b).await, None);
    let expected = [act("alice", "resume_all", None), act("alice", "pause_all", Some("the target moves"))];
    assert_eq!(acts(b).await, expected);
}

pub async fn a_pause_of_retries_and_one_of_everything_replace_each_other(b: &dyn Backend) {
    let alice = b.outbox().operator("alice");
    let bob = b.outbox().operator("bob");
    assert!(alice.pause_retries("an outage").await.unwrap());
    let since = Some(b.clock().now());
    let (who, reason) = (Some("alice".to_owned()), Some("an outage".to_owned()));
    let retries = Paused { scope: PauseScope::Retries, who, since, reason };
    assert_eq!(paused(b).await, Some(retries.clone()));
    assert!(retries.to_string().starts_with("retries are paused since "), "{retries}");
    b.clock().advance(SECOND);
    assert!(!bob.pause_retries("me too").await.unwrap());
    assert_eq!(paused(b).await, Some(retries), "who paused first stays");
    let scope = async || paused(b).await.map(|paused| (paused.scope, paused.who.unwrap()));
    assert!(bob.pause_all("worse").await.unwrap());
    assert_eq!(scope().await, Some((PauseScope::Everything, "bob".to_owned())));
    assert!(alice.pause_retries("better").await.unwrap());
    assert_eq!(scope().await, Some((PauseScope::Retries, "alice".to_owned())));
    assert!(bob.resume_all().await.unwrap());
    assert_eq!(paused(b).await, None);
    assert!(!bob.resume_all().await.unwrap());
    assert!(bob.pause_all("again").await.unwrap(), "a pause of everything forgets that retries were paused");
    assert_eq!(scope().await, Some((PauseScope::Everything, "bob".to_owned())));
    let expected = [
        act("bob", "pause_all", Some("again")),
        act("bob", "resume_all", None),
        act("alice", "pause_retries", Some("better")),
        act("bob", "pause_all", Some("worse")),
        act("alice", "pause_retries", Some("an outage")),
    ];
    assert_eq!(acts(b).await, expected);
}

pub async fn explain_names_the_pause_of_retries_for_a_retry_only(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    b.stores().send.beat(&Node::new("n".to_owned(), vec!["sync".to_owned()])).await.unwrap();
    let retried = b.add_to("sync").await;
    let claimed = b.claim_slice(def_id, Status::NotSent, 1).await.remove(0);
    b.settle_one(fail(&claimed, Duration::ZERO)).await;
    let fresh = b.add_to("sync").await;
    let alice = b.outbox().operator("alice");
    alice.pause_retries("an outage").await.unwrap();
    let explained = alice.explain(retried).await.unwrap();
    let Why::RetriesPaused(paused) = &explained.why else { panic!("{explained}") };
    assert_eq!(paused.reason.as_deref(), Some("an outage"));
    assert!(explained.to_string().starts_with("retries are paused since "), "{explained}");
    assert!(matches!(alice.explain(fresh).await.unwrap().why, Why::Due { .. }));
    alice.pause_all("worse").await.unwrap();
    for id in [retried, fresh] {
        assert!(matches!(alice.explain(id).await.unwrap().why, Why::AllPaused(_)));
    }
}
