//! An operator's retry of a notice that waits asks for another delivery: the next attempt sends a new message.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use solid_notify_core::message_id::same_message_since;
use solid_notify_core::notice::{AttemptRecord, append_attempt};
use solid_notify_core::store::verb::VerbResult;
use solid_notify_core::{ErrorClass, NotifyDef, Status};

use super::{Backend, fail};

const SECOND: Duration = Duration::from_secs(1);

impl dyn Backend + '_ {
    /// Claims the only notice, whose attempt then times out, and returns since which attempt its message is the same.
    async fn message_of_next(&self, def_id: i64, status: Status, wait: Duration) -> i64 {
        let claimed = self.claim_slice(def_id, status, 10).await.remove(0);
        let mut failed = fail(&claimed, wait);
        let record = AttemptRecord::new(&claimed, SECOND, ErrorClass::Timeout, "no answer");
        failed.errors = Some(append_attempt(claimed.errors.as_deref(), record));
        failed.last_class = Some("timeout".to_owned());
        self.settle_one(failed).await;
        same_message_since(&claimed)
    }
}

pub async fn retry_of_a_notice_that_waits_begins_a_new_message(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync").max_retry_times(4)).await;
    let (id, alice) = (b.add_to("sync").await, b.alice());
    let wait = 100 * SECOND;
    assert_eq!(b.message_of_next(def_id, Status::NotSent, wait).await, 1);
    assert_eq!(alice.reschedule(id, b.clock().now()).await.unwrap(), VerbResult::Applied);
    assert_eq!(b.message_of_next(def_id, Status::Failed, wait).await, 1, "another time is no other delivery");
    assert_eq!(alice.retry(id).await.unwrap(), VerbResult::Applied);
    assert_eq!(b.message_of_next(def_id, Status::Failed, Duration::ZERO).await, 3);
    assert_eq!(alice.retry(id).await.unwrap(), VerbResult::Applied);
    assert_eq!(b.message_of_next(def_id, Status::Failed, wait).await, 4, "it was due already");
    assert!(alice.is_on_last_try(id).await.unwrap());
    assert_eq!(alice.retry(id).await.unwrap(), VerbResult::Applied);
    assert_eq!(b.message_of_next(def_id, Status::Failed, Duration::ZERO).await, 5, "a failure less counts");
    assert_eq!(b.message_of_next(def_id, Status::Failed, wait).await, 5, "this retry is by the interval");
    let marks: Vec<_> = b.record(id).await.errors.iter().map(|record| (record.fence, record.retried)).collect();
    assert_eq!(marks, [(1, false), (2, true), (3, true), (4, true), (5, false), (6, false)]);
}
