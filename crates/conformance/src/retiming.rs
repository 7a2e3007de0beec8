//! The effect of an edit of a definition on waiting retries, and their new times by the new intervals.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use solid_notify_core::error::Error;
use solid_notify_core::operate::{AuditFilter, NextStep, Rate};
use solid_notify_core::store::{BulkStep, BulkVerb, RetryGroup, SliceOfStep, Target};
use solid_notify_core::transition::Next;
use solid_notify_core::{ErrorClass, NewNotice, NotifyDef, Status, Updated};

use super::{Backend, crash, fail, outcome};

const SECOND: Duration = Duration::from_secs(1);

#[allow(clippy::unwrap_used)]
impl dyn Backend + '_ {
    /// Adds notices with this many failures, which wait for this long.
    async fn add_waiting(&self, count: usize, failures: i64, class: ErrorClass, wait: Duration) -> Vec<i64> {
        let def_id = self.definition("sync").await.id;
        let notices = (0..count).map(|n| NewNotice::new("sync", n).unwrap()).collect();
        let added = self.add_many(notices).await.unwrap();
        let ids: Vec<i64> = added.iter().map(solid_notify_core::Receipt::id).collect();
        let mut left = count;
        while left > 0 {
            let claimed = self.claim_slice(def_id, Status::NotSent, 500).await;
            let batch: Vec<_> = claimed
                .iter()
                .map(|claimed| {
                    let mut settle = fail(claimed, wait);
                    settle.transition.failures = failures;
                    settle.last_class = Some(class.as_str().to_owned());
                    settle
                })
                .collect();
            self.stores().send.settle(&batch).await.unwrap();
            left -= claimed.len();
        }
        ids
    }

    /// Returns in how many seconds each is due, and how many tries it has used.
    async fn waits(&self, ids: &[i64]) -> Vec<(u64, i64)> {
        let mut waits = Vec::new();
        for id in ids {
            let record = self.record(*id).await;
            assert_eq!(record.status, Status::Failed);
            let due = (record.next_call_time.unwrap() - self.clock().now()).to_std().unwrap_or_default();
            waits.push((due.as_secs(), record.failures + record.crashes));
        }
        waits
    }

    async fn edit_to(&self, change: impl FnOnce(NotifyDef) -> NotifyDef) {
        let seen = self.definition("sync").await;
        let edited = self.alice().edit_definition(&seen, change(seen.clone())).await.unwrap();
        assert!(matches!(edited, Updated::Stored(_)), "{edited:?}");
    }
}

pub async fn waiting_retries_are_counted_by_what_decides_about_them(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    b.define(NotifyDef::new("other")).await;
    b.add_waiting(3, 1, ErrorClass::Busy, 5 * SECOND).await;
    b.add_waiting(2, 2, ErrorClass::Busy, Duration::from_millis(9900)).await;
    b.add_waiting(1, 1, ErrorClass::Timeout, 5 * SECOND).await;
    b.add_to("sync").await;
    b.add_to("other").await;
    b.clock().advance(6 * SECOND);
    let group = |failures, class: &str, wait, due, count| RetryGroup {
        failures,
        crashes: 0,
        class: Some(class.to_owned()),
        max_tries: None,
        wait: Some(Duration::from_secs(wait)),
        expires_after: None,
        due,
        count,
    };
    let mut groups = b.outbox().engine().stores().browse.retries(def_id, 100).await.unwrap();
    groups.sort_by_key(|group| (group.failures, group.class.clone()));
    assert_eq!(groups, [group(1, "busy", 5, true, 3), group(1, "timeout", 5, true, 1), group(2, "busy", 9, false, 2)]);
    let bounded = b.outbox().engine().stores().browse.retries(def_id, 4).await.unwrap();
    assert_eq!(bounded.iter().map(|group| group.count).sum::<u64>(), 4);
}

pub async fn a_preview_of_an_edit_changes_nothing_and_counts_retimed_notices(b: &dyn Backend) {
    b.define(NotifyDef::new("sync").retry_interval("[100s,1000s]").max_retry_times(9)).await;
    let soon = b.add_waiting(4, 1, ErrorClass::Busy, 100 * SECOND).await;
    let late = b.add_waiting(3, 2, ErrorClass::Busy, 1000 * SECOND).await;
    let same = b.add_waiting(2, 3, ErrorClass::Network, 500 * SECOND).await;
    b.add_to("sync").await;
    let seen = b.definition("sync").await;
    let new = seen.clone().retry_interval("[200s,300s,500s]").max_retry_times(2).handler("missing");
    let preview = b.alice().preview_edit(&seen, &new).await.unwrap();
    assert_eq!((preview.retries.count, preview.retries.more, preview.not_sent.count), (9, false, 1));
    assert_eq!((preview.earlier, preview.later), (3, 4));
    assert_eq!((preview.out_of_tries, preview.fewer_tries, preview.more_tries), (2, 9, 0));
    assert_eq!(
        preview.steps.iter().map(|step| (step.count, step.to.clone())).collect::<Vec<_>>(),
        [(4, NextStep::Retry(300 * SECOND)), (3, NextStep::DeadLetter),]
    );
    assert!(preview.handler.as_ref().is_some_and(|handler| handler.to == "missing" && !handler.known));
    let columns: Vec<_> = preview.changes.iter().map(|(column, ..)| *column).collect();
    assert_eq!(columns, ["handler", "retry_interval", "max_retry_times"]);
    assert!(preview.to_string().contains("`retime` would move 3 to an earlier time, 4 to a later one"), "{preview}");
    assert_eq!((b.definition("sync").await, b.audit(&AuditFilter::all()).await.len()), (seen.clone(), 0));
    let invalid = b.alice().preview_edit(&seen, &seen.clone().timeout("soon")).await;
    assert!(matches!(invalid, Err(Error::InvalidDefinition { .. })), "{invalid:?}");
    b.edit_to(|_| new).await;
    assert_eq!(b.waits(&soon).await, [(100, 1); 4], "an edit alone moves nothing");
    let done = b.alice().retime("sync", Rate::AT_ONCE).await.unwrap();
    // Notices without a try left keep their time; so do those that have the right time already.
    assert_eq!(done.changed, preview.earlier + preview.later);
    assert_eq!((b.waits(&soon).await, b.waits(&late).await), (vec![(200, 1); 4], vec![(300, 2); 3]));
    assert_eq!(b.waits(&same).await, [(500, 3); 2]);
}

pub async fn retiming_moves_waiting_retries_by_the_new_intervals_and_counts_nothing(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync").retry_interval("1h").max_retry_times(5)).await;
    let ids = b.add_waiting(3, 1, ErrorClass::Busy, 3600 * SECOND).await;
    let busy = b.add_waiting(1, 2, ErrorClass::Auth, 3600 * SECOND).await;
    b.clock().advance(10 * SECOND);
    b.edit_to(|def| def.retry_interval("[30s,1h]").retry_rules(r#"{"auth": "[1m,2m]"}"#)).await;
    let before = b.record(ids[0]).await;
    let wakes = b.outbox().engine().wakes();
    let done = b.alice().retime(def_id, Rate::AT_ONCE).await.unwrap();
    assert!(wakes.has_changed().unwrap(), "the sweepers look at once");
    assert_eq!((done.changed, done.passed_over, done.last_due), (4, 0, Some(b.clock().now() + 110 * SECOND)));
    assert_eq!((b.waits(&ids).await, b.waits(&busy).await), (vec![(20, 1); 3], vec![(110, 2)]));
    let mut after = b.record(ids[0]).await;
    after.next_call_time = before.next_call_time;
    assert_eq!(after, before, "only its time is another");
    let entry = b.audit(&AuditFilter::all()).await.remove(0);
    assert_eq!((entry.who.as_str(), entry.act.as_str(), entry.def_id), ("alice", "reschedule", Some(def_id)));
    let detail = entry.detail.unwrap();
    assert!(detail.contains("failed of sync, by its intervals") && detail.contains("4 notices"), "{detail}");
    assert_eq!(b.alice().retime("sync", Rate::AT_ONCE).await.unwrap().changed, 0, "again, it moves nothing");
    // Notices that would be due at once are spread, but not beyond the time that they had.
    b.edit_to(|def| def.retry_interval("1s")).await;
    b.alice().retime("sync", Rate::per_second(1)).await.unwrap();
    let mut waits: Vec<u64> = b.waits(&ids).await.into_iter().map(|(wait, _)| wait).collect();
    waits.sort_unstable();
    assert_eq!(waits, [0, 1, 2]);
    b.clock().advance(2 * SECOND);
    assert_eq!(b.claim_slice(def_id, Status::Failed, 10).await.len(), 3, "they are claimed at their new times");
}

pub async fn retiming_leaves_alone_what_does_not_wait_for_its_retry(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync").retry_interval("1h").max_retry_times(5)).await;
    let due = b.add_waiting(1, 1, ErrorClass::Busy, SECOND).await;
    b.clock().advance(2 * SECOND);
    let brought_back = b.add_dead("sync", None).await;
    b.alice().retry(brought_back).await.unwrap();
    let delayed = b.add_new(NewNotice::new("sync", 1).unwrap().delay(9 * SECOND)).await.id();
    b.add_to("sync").await;
    let awaiting = b.claim_one(def_id).await;
    b.settle_one(outcome(&awaiting, Next::Wait { status: Status::AwaitingAck, after: 9 * SECOND })).await;
    b.add_to("sync").await;
    let sending = b.claim_one(def_id).await;
    let all = [due[0], brought_back, delayed, awaiting.id, sending.id];
    let mut before = Vec::new();
    for id in all {
        before.push(b.record(id).await);
    }
    assert_eq!(b.alice().retime("sync", Rate::AT_ONCE).await.unwrap().changed, 0);
    for (id, before) in all.iter().zip(before) {
        assert_eq!(b.record(*id).await, before);
    }
    // A crash gets the time that the send path gives it: the first one is due at once, the second backs off.
    b.clock().advance(60 * SECOND);
    let mut expired = crash(&b.overdue(def_id).await.remove(0));
    expired.transition.crashes = 2;
    expired.last_class = Some("crash".to_owned());
    expired.transition.next = Next::Wait { status: Status::Failed, after: 9 * SECOND };
    b.settle_one(expired).await;
    assert_eq!(b.alice().retime("sync", Rate::AT_ONCE).await.unwrap().changed, 1);
    // Counted from the beginning of the attempt, 60 s ago.
    assert_eq!(b.waits(&[sending.id]).await, [(3540, 2)]);
}

pub async fn retiming_and_its_preview_obey_the_limits_of_a_notice(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync").retry_interval("10s").max_retry_times(0)).await;
    let limited = |expires_in: u32| {
        let expiry = b.clock().now() + expires_in * SECOND;
        NewNotice::new("sync", 1).unwrap().max_tries(9).expires_at(expiry)
    };
    let plain = NewNotice::new("sync", 1).unwrap();
    let added = b.add_many(vec![plain.clone(), plain.max_tries(9), limited(30), limited(31)]).await.unwrap();
    let ids: Vec<i64> = added.iter().map(solid_notify_core::Receipt::id).collect();
    for claimed in b.claim_slice(def_id, Status::NotSent, 10).await {
        let mut failed = fail(&claimed, 10 * SECOND);
        failed.last_class = Some(ErrorClass::Busy.as_str().to_owned());
        b.settle_one(failed).await;
    }
    let mut groups = b.outbox().engine().stores().browse.retries(def_id, 100).await.unwrap();
    groups.sort_by_key(|group| (group.max_tries, group.expires_after));
    let limits: Vec<_> = groups.iter().map(|group| (group.max_tries, group.expires_after)).collect();
    let after = |seconds| (Some(9), Some(Duration::from_secs(seconds)));
    assert_eq!(limits, [(None, None), (Some(9), None), after(30), after(31)]);
    let seen = b.definition("sync").await;
    let preview = b.alice().preview_edit(&seen, &seen.clone().retry_interval("30s")).await.unwrap();
    assert_eq!((preview.earlier, preview.later), (0, 2), "{preview}");
    b.edit_to(|def| def.retry_interval("30s")).await;
    assert_eq!(b.alice().retime("sync", Rate::AT_ONCE).await.unwrap().changed, 2);
    assert_eq!(b.waits(&ids).await, [(10, 1), (30, 1), (10, 1), (30, 1)]);
}

pub async fn retiming_many_takes_steps_and_each_once(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync").retry_interval("10s").max_retry_times(5)).await;
    let ids = b.add_waiting(1100, 1, ErrorClass::Busy, 10 * SECOND).await;
    b.edit_to(|def| def.retry_interval("100s")).await;
    // Moved to a later time, they come behind the notices still to be looked at, and are found again.
    let done = b.alice().retime("sync", Rate::AT_ONCE).await.unwrap();
    assert_eq!((done.changed, done.passed_over), (1100, 0));
    let audit = b.audit(&AuditFilter::all()).await;
    assert_eq!(audit.iter().filter(|entry| entry.act == "reschedule").count(), 3, "a step each");
    b.clock().advance(99 * SECOND);
    assert!(b.claim_slice(def_id, Status::Failed, 10).await.is_empty());
    b.clock().advance(SECOND);
    let mut claimed = Vec::new();
    while claimed.len() < ids.len() {
        let some = b.claim_slice(def_id, Status::Failed, 500).await;
        assert!(!some.is_empty(), "{} of them are due", claimed.len());
        claimed.extend(some.iter().map(|claimed| claimed.id));
    }
    claimed.sort_unstable();
    assert_eq!(claimed, ids);
}

pub async fn retiming_changes_only_what_is_as_it_was_seen(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let ids = b.add_waiting(2, 1, ErrorClass::Busy, 10 * SECOND).await;
    let due = b.clock().now() + 5 * SECOND;
    // The second was claimed and failed again after it was seen.
    let notices = ids.iter().zip([1, 0]).map(|(id, fence)| Target { id: *id, fence, due }).collect();
    let (verb, who, filter) = (BulkVerb::Reschedule, "alice".to_owned(), "these".to_owned());
    let step = BulkStep {
        slices: vec![SliceOfStep { def_id, status: Status::Failed, notices }],
        verb,
        who,
        filter,
        act: None,
    };
    let done = b.outbox().engine().stores().operate.change_step(&step).await.unwrap();
    assert_eq!(done.changed, ids[..1]);
    assert_eq!(b.waits(&ids).await, [(5, 1), (10, 1)]);
}

pub async fn a_definition_that_cannot_be_followed_is_not_retimed(b: &dyn Backend) {
    let id = b.define(NotifyDef::new("sync").retry_interval("strategy:mine")).await;
    let retime = async || b.alice().retime(id, Rate::AT_ONCE).await.unwrap_err();
    let error = retime().await;
    assert!(matches!(error, Error::Invalid { .. }) && error.to_string().contains("strategy:mine"), "{error}");
    b.edit_by_hand(id, "retry_interval", "[5x]").await;
    assert!(matches!(retime().await, Error::InvalidDefinition { .. }));
    assert!(matches!(b.alice().retime("snyc", Rate::AT_ONCE).await, Err(Error::UnknownDefinition { .. })));
    assert!(matches!(b.alice().retime(1_000_000_i64, Rate::AT_ONCE).await, Err(Error::UnknownDefinition { .. })));
}
