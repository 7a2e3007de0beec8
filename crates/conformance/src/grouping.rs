//! Groups of dead letters: the same definition, class and message.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use solid_notify_core::ack::Reply;
use solid_notify_core::error::Error;
use solid_notify_core::notice::{AttemptRecord, append_attempt};
use solid_notify_core::operate::{ErrorGroup, Filter, Rate};
use solid_notify_core::store::Settled;
use solid_notify_core::{ErrorClass, NewNotice, NotifyDef, Status, VerbResult};

use super::Backend;
use super::operating::dead;

const SECOND: Duration = Duration::from_secs(1);

#[allow(clippy::unwrap_used)]
impl dyn Backend + '_ {
    /// Adds a notice and makes it a dead letter with this class and message.
    async fn add_dead_by(&self, name: &str, class: Option<ErrorClass>, message: &str) -> i64 {
        let def_id = self.definition(name).await.id;
        let param = serde_json::json!({ "card": "tiger lily" });
        let id = self.add_new(NewNotice::new(name, param).unwrap()).await.id();
        let claimed = self.claim_slice(def_id, Status::NotSent, 1).await.remove(0);
        let mut settle = dead(&claimed, class);
        let record = AttemptRecord::new(&claimed, SECOND, class.unwrap_or(ErrorClass::Unknown), message);
        settle.errors = Some(append_attempt(None, record));
        settle.regroup();
        assert_eq!(self.settle_one(settle).await, Settled::Stored);
        self.clock().advance(SECOND);
        id
    }

    async fn groups(&self, filter: &Filter) -> Vec<ErrorGroup> {
        self.alice().groups(filter).await.unwrap()
    }
}

fn told(groups: &[ErrorGroup]) -> Vec<(&str, &str, &str, u64)> {
    groups.iter().map(|it| (it.definition.as_str(), it.class.as_str(), it.message.as_str(), it.count)).collect()
}

pub async fn dead_letters_are_grouped_by_definition_class_and_message(b: &dyn Backend) {
    for name in ["sync", "other"] {
        b.define(NotifyDef::new(name)).await;
    }
    assert!(b.groups(&Filter::dead_letters()).await.is_empty());
    let began = b.clock().now();
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.push(
            b.add_dead_by("sync", Some(ErrorClass::Busy), &format!("order {n}: over the quota of \"plan {n}\"")).await,
        );
    }
    b.add_dead_by("sync", Some(ErrorClass::Timeout), "order 7: over the quota of \"x\"").await;
    b.add_dead_by("sync", None, "ü😀").await;
    for _ in 0..2 {
        b.add_dead_by("other", Some(ErrorClass::Busy), "order 5: over the quota of 'a'").await;
    }
    let quota = "order #: over the quota of \"…\"";
    let of_sync = b.groups(&Filter::dead_letters().definition("sync")).await;
    let mut told_of_sync = told(&of_sync);
    assert_eq!(told_of_sync.remove(0), ("sync", "busy", quota, 3), "the largest first");
    told_of_sync.sort_unstable();
    assert_eq!(told_of_sync, [("sync", "-", "ü😀", 1), ("sync", "timeout", quota, 1)]);
    let largest = &of_sync[0];
    assert_eq!((largest.first, largest.last, largest.example), (began, began + 2 * SECOND, ids[2]));
    let of_all = b.groups(&Filter::dead_letters()).await;
    assert_eq!(
        told(&of_all)[..2],
        [("sync", "busy", quota, 3), ("other", "busy", "order #: over the quota of '…'", 2)]
    );
    assert_eq!(of_all.len(), 4);
    let later = b.groups(&Filter::dead_letters().from(began + SECOND).until(began + SECOND)).await;
    assert_eq!(told(&later), [("sync", "busy", quota, 1)]);
    assert_eq!((later[0].group, later[0].example), (largest.group, ids[1]));
}

pub async fn a_group_is_listed_counted_and_retried_alone(b: &dyn Backend) {
    b.define(NotifyDef::new("sync")).await;
    b.define(NotifyDef::new("other")).await;
    let mut wanted = Vec::new();
    for n in 0..5 {
        wanted.push(b.add_dead_by("sync", Some(ErrorClass::Busy), &format!("busy {n}")).await);
        b.add_dead_by("sync", Some(ErrorClass::Busy), "refused").await;
        b.add_dead_by("other", Some(ErrorClass::Busy), &format!("busy {n}")).await;
    }
    let groups = b.groups(&Filter::dead_letters().definition("sync")).await;
    let group = groups.iter().find(|group| group.message == "busy #").unwrap().group;
    let filter = Filter::dead_letters().group(group);
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = b.alice().list(&filter, after, 2).await.unwrap();
        listed.extend(page.notices.iter().map(|notice| notice.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert!(listed.iter().rev().eq(&wanted), "{listed:?} {wanted:?}");
    let preview = b.alice().preview(&filter).await.unwrap();
    assert_eq!((preview.total.count, preview.by_class.len(), &preview.first), (5, 1, &wanted));
    let unknown = Filter::dead_letters().group(group.wrapping_add(1));
    assert_eq!(b.alice().preview(&unknown).await.unwrap().total.count, 0);
    assert_eq!(b.alice().retry_all(&unknown, Rate::AT_ONCE).await.unwrap().changed, 0);
    assert_eq!(b.alice().retry_all(&filter, Rate::AT_ONCE).await.unwrap().changed, 5);
    for id in wanted {
        assert_eq!(b.record(id).await.status, Status::Failed);
    }
    let left: u64 = b.groups(&Filter::dead_letters()).await.iter().map(|group| group.count).sum();
    assert_eq!(left, 10, "those of the other message and of the other definition");
    let by_class = b.alice().groups(&Filter::dead_letters().class("busy")).await;
    assert!(matches!(by_class, Err(Error::Invalid { what: "filter", .. })), "{by_class:?}");
    let live = b.alice().groups(&Filter::live()).await;
    assert!(matches!(live, Err(Error::Invalid { what: "filter", .. })), "{live:?}");
}

pub async fn a_dead_letter_that_is_retried_or_acked_leaves_its_group(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let retried = b.add_dead_by("sync", Some(ErrorClass::Busy), "busy 1").await;
    let acked = b.add_dead_by("sync", Some(ErrorClass::Busy), "busy 2").await;
    b.add_dead_by("sync", Some(ErrorClass::Busy), "busy 3").await;
    let count = async || b.groups(&Filter::dead_letters()).await.iter().map(|group| group.count).collect::<Vec<_>>();
    assert_eq!(count().await, [3]);
    assert_eq!(b.alice().retry(retried).await.unwrap(), VerbResult::Applied);
    assert_eq!(count().await, [2]);
    b.apply_ack(&Reply::ack(acked), true).await;
    assert_eq!(count().await, [1]);
    let group = b.groups(&Filter::dead_letters()).await.remove(0).group;
    let claimed = b.claim_slice(def_id, Status::Failed, 1).await.remove(0);
    let settled = b.settle_one(super::succeed(&claimed)).await;
    assert_eq!((settled, count().await), (Settled::Stored, vec![1]));
    assert_eq!(b.alice().retry_all(&Filter::dead_letters().group(group), Rate::AT_ONCE).await.unwrap().changed, 1);
    assert!(count().await.is_empty());
}

pub async fn the_message_of_a_group_is_masked(b: &dyn Backend) {
    b.define(NotifyDef::new("sync").mask(r#"["$.card"]"#)).await;
    b.add_dead_by("sync", Some(ErrorClass::Invalid), "no account tiger lily").await;
    let groups = b.groups(&Filter::dead_letters()).await;
    assert_eq!(told(&groups), [("sync", "invalid", "no account ***", 1)]);
}
