//! Lists and counts for operators, and the verbs for many notices at a time.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use solid_notify_core::error::Error;
use solid_notify_core::operate::{AuditFilter, Filter, NO_CLASS, Page, Rate};
use solid_notify_core::store::{BulkStep, BulkVerb, Position, SliceOfStep, Target};
use solid_notify_core::{ErrorClass, NewNotice, NotifyDef, Status};

use super::operating::dead;
use super::{Backend, fail, succeed};

const SECOND: Duration = Duration::from_secs(1);

fn ids(page: &Page) -> Vec<i64> {
    page.notices.iter().map(|notice| notice.id).collect()
}

#[allow(clippy::unwrap_used)]
impl dyn Backend + '_ {
    /// Returns all pages of a list, with `each` notices per page.
    pub(crate) async fn pages(&self, filter: &Filter, each: usize) -> Vec<Vec<i64>> {
        let (mut pages, mut after) = (Vec::new(), None::<Position>);
        loop {
            let page = self.alice().list(filter, after, each).await.unwrap();
            pages.push(ids(&page));
            // The position travels as text, as in a web address.
            after = page.next.map(|next| next.to_string().parse().unwrap());
            if after.is_none() {
                return pages;
            }
        }
    }

    /// Makes dead letters of `count` new notices, all at the same time.
    pub(crate) async fn add_many_dead(&self, def_id: i64, name: &str, count: usize) -> Vec<i64> {
        let notices = (0..count).map(|n| NewNotice::new(name, n).unwrap()).collect();
        self.add_many(notices).await.unwrap();
        let mut killed = Vec::new();
        while killed.len() < count {
            let claimed = self.claim_slice(def_id, Status::NotSent, 500).await;
            // Not in the order of their ids, in which a table would return them without sorting.
            let batch: Vec<_> = claimed.iter().rev().map(|claimed| dead(claimed, Some(ErrorClass::Busy))).collect();
            self.stores().send.settle(&batch).await.unwrap();
            killed.extend(claimed.iter().map(|claimed| claimed.id));
        }
        killed
    }
}

pub async fn dead_letters_are_listed_the_latest_first_page_by_page(b: &dyn Backend) {
    let one = b.define(NotifyDef::new("one")).await;
    b.define(NotifyDef::new("two")).await;
    let mut all = b.add_many_dead(one, "one", 5).await;
    for name in ["two", "one", "two", "two"] {
        b.clock().advance(SECOND);
        all.push(b.add_dead(name, None).await);
    }
    all.reverse();
    for each in [1, 2, 3, 8, 9, 10] {
        assert_eq!(b.pages(&Filter::dead_letters(), each).await.concat(), all, "{each} a page");
    }
    let of_one: Vec<i64> = b.pages(&Filter::dead_letters().definition("one"), 2).await.concat();
    assert_eq!(of_one, [&[all[2]], &all[4..]].concat());
    let notice = b.alice().list(&Filter::dead_letters(), None, 1).await.unwrap().notices.remove(0);
    assert_eq!((notice.status, notice.fence, notice.failures, notice.crashes), (Status::DeadLetter, 1, 4, 1));
    assert_eq!((notice.time, notice.end_reason.as_deref()), (b.clock().now(), Some("given up")));
    let unknown = b.alice().list(&Filter::dead_letters().definition("tow"), None, 1).await;
    assert!(
        matches!(&unknown, Err(Error::UnknownDefinition { nearest: Some(name), .. }) if name == "two"),
        "{unknown:?}"
    );
}

pub async fn a_page_continues_after_the_last_one_despite_changes(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let all = b.add_many_dead(def_id, "sync", 6).await;
    let first = b.alice().list(&Filter::dead_letters(), None, 2).await.unwrap();
    assert_eq!(ids(&first), [all[5], all[4]]);
    b.clock().advance(SECOND);
    b.add_dead("sync", None).await;
    for gone in [all[4], all[2]] {
        b.alice().retry(gone).await.unwrap();
    }
    let second = b.alice().list(&Filter::dead_letters(), first.next.clone(), 2).await.unwrap();
    assert_eq!(ids(&second), [all[3], all[1]]);
    let third = b.alice().list(&Filter::dead_letters(), second.next.clone(), 2).await.unwrap();
    assert_eq!((ids(&third), third.next), (vec![all[0]], None));
}

pub async fn dead_letters_are_found_by_class_and_time(b: &dyn Backend) {
    b.define(NotifyDef::new("sync")).await;
    b.define(NotifyDef::new("other")).await;
    let mut all = Vec::new();
    for class in [Some(ErrorClass::Timeout), None, Some(ErrorClass::Busy), Some(ErrorClass::Timeout)] {
        all.push(b.add_dead("sync", class).await);
        b.clock().advance(SECOND);
    }
    let other = b.add_dead("other", Some(ErrorClass::Timeout)).await;
    let list = async |filter: Filter| b.pages(&filter, 1).await.concat();
    let of_class = |class: &str| Filter::dead_letters().class(class);
    assert_eq!(list(of_class("timeout")).await, [other, all[3], all[0]]);
    assert_eq!(list(of_class("timeout").definition("sync")).await, [all[3], all[0]]);
    assert_eq!(list(of_class(NO_CLASS)).await, [all[1]]);
    assert!(list(of_class("auth")).await.is_empty());
    let at = |n: u32| b.clock().now() - (4 - n) * SECOND;
    let between = Filter::dead_letters().from(at(1)).until(at(2));
    assert_eq!(list(between).await, [all[2], all[1]], "both ends count");
    assert_eq!(list(of_class("timeout").until(at(3))).await, [all[3], all[0]]);
    let counts = b.alice().counts(&Filter::dead_letters().from(at(1))).await.unwrap();
    let mut counts: Vec<_> =
        counts.into_iter().map(|count| (count.definition, count.class.unwrap(), count.count.to_string())).collect();
    counts.sort_unstable();
    let expected = [("other", "timeout"), ("sync", NO_CLASS), ("sync", "busy"), ("sync", "timeout")];
    assert_eq!(counts, expected.map(|(name, class)| (name.to_owned(), class.to_owned(), "1".to_owned())));
    let refused = b.alice().list(&Filter::live().class("timeout"), None, 1).await;
    assert!(matches!(refused, Err(Error::Invalid { what: "filter", .. })), "{refused:?}");
}

pub async fn live_and_ended_notices_are_listed_by_state(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let later = b.add_new(NewNotice::new("sync", 1).unwrap().delay(9 * SECOND).unique_until_ended("k")).await.id();
    let (failed, done) = (b.add_to("sync").await, b.add_to("sync").await);
    let claimed = b.claim_slice(def_id, Status::NotSent, 10).await;
    b.settle_one(fail(&claimed[0], 5 * SECOND)).await;
    b.settle_one(succeed(&claimed[1])).await;
    let fresh = b.add_to("sync").await;
    let list = async |filter: Filter| b.pages(&filter, 2).await.concat();
    assert_eq!(list(Filter::live()).await, [fresh, failed, later], "the soonest due first");
    assert_eq!(list(Filter::status(Status::Failed)).await, [failed]);
    assert_eq!(list(Filter::ended()).await, [done]);
    let page = b.alice().list(&Filter::status(Status::NotSent), None, 10).await.unwrap();
    assert_eq!(page.notices[1].dedupe_key.as_deref(), Some("k"));
    assert_eq!(page.notices[1].time, b.clock().now() + 9 * SECOND);
    let preview = b.alice().preview(&Filter::waiting()).await.unwrap();
    assert_eq!((preview.total.to_string().as_str(), preview.first), ("3", vec![fresh, failed, later]));
    assert_eq!(preview.oldest, Some(b.clock().now()));
    assert_eq!(preview.newest, Some(b.clock().now() + 9 * SECOND));
}

pub async fn a_bulk_retry_is_spread_by_its_rate(b: &dyn Backend) {
    b.define(NotifyDef::new("sync")).await;
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(b.add_dead("sync", Some(ErrorClass::Timeout)).await);
        b.clock().advance(SECOND);
    }
    let other = b.add_dead("sync", Some(ErrorClass::Auth)).await;
    let filter = Filter::dead_letters().class("timeout");
    let preview = b.alice().preview(&filter).await.unwrap();
    assert_eq!((preview.total.count, preview.total.more, &preview.first), (5, false, &all));
    assert_eq!(preview.oldest, Some(b.clock().now() - 5 * SECOND));
    assert_eq!(preview.newest, Some(b.clock().now() - SECOND));
    let now = b.clock().now();
    let done = b.alice().retry_all(&filter, "30/1m".parse().unwrap()).await.unwrap();
    assert_eq!((done.changed, done.dedupe_key_taken, done.passed_over), (5, 0, 0));
    assert_eq!(done.last_due, Some(now + 8 * SECOND));
    for (id, n) in all.iter().zip(0..) {
        let record = b.record(*id).await;
        assert_eq!((record.status, record.fence, record.failures), (Status::Failed, 1, 0));
        assert_eq!(record.next_call_time, Some(now + 2 * n * SECOND), "the oldest first");
    }
    assert_eq!(b.record(other).await.status, Status::DeadLetter);
    let entry = b.audit(&AuditFilter::all()).await.remove(0);
    assert_eq!((entry.who.as_str(), entry.act.as_str(), entry.notice_id), ("alice", "retry", None));
    let detail = entry.detail.unwrap();
    let start = "dead letters of all definitions, class timeout, until ";
    assert!(detail.starts_with(start), "{detail}");
    assert!(
        detail.contains("at a rate of 30/1m") && detail.contains(&format!("ids {} to {}", all[0], all[4])),
        "{detail}"
    );
    let again = b.alice().retry_all(&filter, Rate::AT_ONCE).await.unwrap();
    assert_eq!((again.changed, again.last_due), (0, None));
    assert_eq!(b.audit(&AuditFilter::all()).await.len(), 1, "nothing was done, so nothing is logged");
}

pub async fn a_bulk_retry_of_many_takes_steps_and_each_once(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let mut all = b.add_many_dead(def_id, "sync", 1100).await;
    let done = b.alice().retry_all(&Filter::dead_letters(), Rate::AT_ONCE).await.unwrap();
    assert_eq!((done.changed, done.passed_over, done.last_due), (1100, 0, Some(b.clock().now())));
    let audit = b.audit(&AuditFilter::all()).await;
    let counts: Vec<bool> =
        audit.iter().map(|entry| entry.detail.as_ref().unwrap().contains(": 500 notices")).collect();
    assert_eq!(counts, [false, true, true], "an entry a step");
    let mut revived = Vec::new();
    while revived.len() < 1100 {
        let claimed = b.claim_slice(def_id, Status::Failed, 500).await;
        assert!(!claimed.is_empty());
        revived.extend(claimed.iter().map(|claimed| claimed.id));
    }
    all.sort_unstable();
    revived.sort_unstable();
    assert_eq!(revived, all);
}

pub async fn a_bulk_retry_changes_only_what_is_as_it_was_seen(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let mut ids = b.add_many_dead(def_id, "sync", 2).await;
    ids.sort_unstable();
    let due = b.clock().now();
    // The second was revived, claimed and ended again after it was seen.
    let notices = ids.iter().zip([1, 0]).map(|(id, fence)| Target { id: *id, fence, due }).collect();
    let (who, filter) = ("alice".to_owned(), "these".to_owned());
    let step = BulkStep {
        slices: vec![SliceOfStep { def_id, status: Status::DeadLetter, notices }],
        verb: BulkVerb::Retry,
        who,
        filter,
        act: None,
    };
    let done = b.stores().operate.change_step(&step).await.unwrap();
    assert_eq!(done.changed, ids[..1]);
    assert_eq!(b.record(ids[1]).await.status, Status::DeadLetter);
}

pub async fn a_bulk_retry_passes_over_taken_dedupe_keys_and_ends(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let keyed = |key: &str| NewNotice::new("sync", 1).unwrap().unique_until_ended(key);
    let mut dead_ids = Vec::new();
    for key in ["taken", "free", "free", "taken"] {
        b.add_new(keyed(key)).await;
        let claimed = b.claim_one(def_id).await;
        b.settle_one(dead(&claimed, None)).await;
        dead_ids.push(claimed.id);
    }
    let plain = b.add_dead("sync", None).await;
    b.add_new(keyed("taken")).await;
    let done = b.alice().retry_all(&Filter::dead_letters(), Rate::AT_ONCE).await.unwrap();
    assert_eq!((done.changed, done.dedupe_key_taken, done.passed_over), (2, 3, 0));
    let mut stand = Vec::new();
    for id in &dead_ids {
        stand.push(b.record(*id).await.status);
    }
    use Status::{DeadLetter, Failed};
    assert_eq!(stand, [DeadLetter, Failed, DeadLetter, DeadLetter], "of the same key the first");
    assert_eq!(b.record(plain).await.status, Failed);
    let detail = b.audit(&AuditFilter::all()).await.remove(0).detail.unwrap();
    assert!(detail.contains("3 skipped"), "{detail}");
}

pub async fn a_bulk_retry_takes_only_dead_letters_and_cancelled_notices(b: &dyn Backend) {
    b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    for filter in [Filter::live(), Filter::ended()] {
        let refused = b.alice().retry_all(&filter, Rate::AT_ONCE).await;
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    }
    b.alice().cancel(id, "x").await.unwrap();
    let done = b.alice().retry_all(&Filter::cancelled(), Rate::per_second(1)).await.unwrap();
    assert_eq!((done.changed, b.record(id).await.status), (1, Status::NotSent));
}

pub async fn a_bulk_cancel_ends_what_waits_and_leaves_what_is_being_sent(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    b.define(NotifyDef::new("other")).await;
    for _ in 0..3 {
        b.add_to("sync").await;
    }
    let claimed = b.claim_slice(def_id, Status::NotSent, 3).await;
    b.settle_one(fail(&claimed[0], SECOND)).await;
    let later = b.add_new(NewNotice::new("sync", 1).unwrap().delay(SECOND)).await.id();
    let other = b.add_to("other").await;
    let filter = Filter::waiting().definition("sync");
    let done = b.alice().cancel_all(&filter, "a mistake").await.unwrap();
    assert_eq!((done.changed, done.passed_over, done.last_due), (2, 0, None));
    for id in [claimed[0].id, later] {
        let record = b.record(id).await;
        assert_eq!((record.status, record.end_reason.as_deref()), (Status::Cancelled, Some("a mistake")));
    }
    assert_eq!(b.record(claimed[1].id).await.status, Status::Sending);
    assert_eq!(b.record(other).await.status, Status::NotSent);
    let audit = b.audit(&AuditFilter::all()).await;
    assert!(audit.iter().all(|entry| entry.act == "cancel" && entry.def_id == Some(def_id)), "{audit:?}");
    assert!(audit[0].detail.as_ref().unwrap().contains("reason: a mistake"), "{audit:?}");
    let refused = b.alice().cancel_all(&Filter::live(), "x").await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
}

pub async fn a_notice_shows_its_retries_and_its_last_change(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let shown = async |id| {
        let record = b.record(id).await;
        let filter = if record.status.is_final() { Filter::ended() } else { Filter::live() };
        let page = b.outbox().operator("alice").list(&filter, None, 10).await.unwrap();
        let listed = page.notices.into_iter().find(|listed| listed.id == id).unwrap();
        assert_eq!((listed.retry_times, listed.update_time), (record.retry_times, record.update_time));
        (record.retry_times, record.update_time)
    };
    let id = b.add_to("sync").await;
    let added = b.clock().now();
    b.clock().advance(SECOND);
    assert_eq!(shown(id).await, (0, added));
    let first = b.claim_slice(def_id, Status::NotSent, 1).await.remove(0);
    let called = b.clock().now();
    b.clock().advance(SECOND);
    assert_eq!(shown(id).await, (0, called));
    b.settle_one(fail(&first, SECOND)).await;
    assert_eq!(shown(id).await, (1, called), "it waits for its first retry");
    b.clock().advance(SECOND);
    let second = b.claim_slice(def_id, Status::Failed, 1).await.remove(0);
    assert_eq!(shown(id).await, (1, b.clock().now()));
    let mut killed = dead(&second, Some(ErrorClass::Busy));
    (killed.transition.failures, killed.transition.crashes) = (2, 0);
    b.clock().advance(SECOND);
    b.settle_one(killed).await;
    assert_eq!(shown(id).await, (1, b.clock().now()), "its last try led to no retry");
}
