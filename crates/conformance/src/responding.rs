//! Responses of receivers, which are kept with the outcomes of attempts.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use solid_notify_core::ack::Reply;
use solid_notify_core::notice::{AttemptRecord, ClaimedNotice, append_attempt};
use solid_notify_core::store::{Settle, Settled, Shape};
use solid_notify_core::transition::Next;
use solid_notify_core::{ErrorClass, LastResponse, NotifyDef, Response, Status, VerbResult};

use super::{Backend, fail, outcome, succeed};

const SECOND: Duration = Duration::from_secs(1);

/// Returns an outcome with a response, and the response as the record shows it.
fn answered(mut settle: Settle, claimed: &ClaimedNotice, response: Response) -> (Settle, LastResponse) {
    let last = LastResponse::new(claimed.attempt(), claimed.fence, claimed.last_call_time, 83, response);
    settle.response = last.to_stored();
    (settle, last)
}

pub async fn a_response_is_kept_with_a_failure_and_with_the_final_success(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    assert_eq!(b.record(id).await.response, None);
    let claimed = b.claim_one(def_id).await;
    let busy = Response::new(503).body("busy");
    let (mut failed, last) = answered(fail(&claimed, SECOND), &claimed, busy.clone());
    let mut record = AttemptRecord::new(&claimed, SECOND, ErrorClass::Unavailable, "HTTP status 503");
    record.response = Some(busy);
    failed.errors = Some(append_attempt(None, record.clone()));
    assert_eq!(b.settle_one(failed).await, Settled::Stored);
    let stored = b.record(id).await;
    assert_eq!((stored.response, stored.errors), (Some(last), vec![record]));
    b.clock().advance(SECOND);
    let again = b.claim_slice(def_id, Status::Failed, 1).await.remove(0);
    let (done, last) = answered(succeed(&again), &again, Response::new(201));
    assert_eq!(b.settle_one(done).await, Settled::Stored);
    let stored = b.record(id).await;
    assert_eq!((stored.status, stored.response, stored.errors.len()), (Status::Succeeded, Some(last), 1));
    // At the first attempt, too, where a success without a response is bare.
    let id = b.add_to("sync").await;
    let claimed = b.claim_one(def_id).await;
    assert_eq!(succeed(&claimed).shape(), Shape::Bare { keep: true });
    let (done, last) = answered(succeed(&claimed), &claimed, Response::new("ACCEPTED").body("{}"));
    assert_eq!(done.shape(), Shape::NoticeOnly);
    assert_eq!(b.settle_one(done).await, Settled::Stored);
    assert_eq!(b.record(id).await.response, Some(last));
}

pub async fn an_outcome_without_a_response_keeps_the_last_one(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    let claimed = b.claim_one(def_id).await;
    let (failed, last) = answered(fail(&claimed, Duration::ZERO), &claimed, Response::new(500));
    b.settle_one(failed).await;
    let again = b.claim_slice(def_id, Status::Failed, 1).await.remove(0);
    b.settle_one(fail(&again, Duration::ZERO)).await;
    assert_eq!(b.record(id).await.response, Some(last.clone()), "live");
    let again = b.claim_slice(def_id, Status::Failed, 1).await.remove(0);
    b.settle_one(outcome(&again, Next::Finish { status: Status::DeadLetter, reason: None, keep: true })).await;
    assert_eq!(b.record(id).await.response, Some(last), "ended");
}

pub async fn a_response_stays_with_a_notice_that_is_acked_cancelled_or_retried(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let mut kept = Vec::new();
    for _ in 0..2 {
        let id = b.add_to("sync").await;
        let claimed = b.claim_one(def_id).await;
        let sent = outcome(&claimed, Next::Wait { status: Status::AwaitingAck, after: SECOND });
        let (sent, last) = answered(sent, &claimed, Response::new(202).body("queued"));
        b.settle_one(sent).await;
        assert_eq!(b.record(id).await.response, Some(last.clone()));
        kept.push((id, last));
    }
    let [(acked, of_acked), (cancelled, of_cancelled)] = &kept[..] else { panic!("{kept:?}") };
    b.apply_ack(&Reply::ack(*acked), true).await;
    let record = b.record(*acked).await;
    assert_eq!((record.status, record.response.as_ref()), (Status::Succeeded, Some(of_acked)));
    assert_eq!(b.alice().cancel(*cancelled, "no").await.unwrap(), VerbResult::Applied);
    assert_eq!(b.record(*cancelled).await.response.as_ref(), Some(of_cancelled));
    assert_eq!(b.alice().retry(*cancelled).await.unwrap(), VerbResult::Applied);
    let record = b.record(*cancelled).await;
    assert_eq!((record.status, record.response.as_ref()), (Status::Failed, Some(of_cancelled)));
}

pub async fn any_text_can_be_a_response(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    for text in
        ["", "quote ' \" ` \\ \u{1} \t\r\n\0", "𝕌𝕟𝕚 😀 \u{202e} ﷽", "{\"a\":[1,{}]} %s $1 ? :x", &"😀".repeat(1000)]
    {
        let id = b.add_to("sync").await;
        let claimed = b.claim_one(def_id).await;
        let (done, last) = answered(succeed(&claimed), &claimed, Response::new(text).body(text));
        assert_eq!(b.settle_one(done).await, Settled::Stored);
        assert_eq!(b.record(id).await.response, Some(last), "{text}");
    }
}
