//! Deliveries that count only with an ack.

use std::sync::Arc;
use std::time::Duration;

use solid_notify::{
    AckResult, Error, FirstAttempt, NewNotice, Notice, NotifyDef, OutboxExt, Status, SweeperBuilder, TokenKeys,
};
use solid_notify_conformance::Backend;
use solid_notify_core::token::AckToken;
use solid_notify_testkit::MemoryOutbox;
use test_support::sending::{Calls, PATIENCE, add, eventually, gated, reaches, record};
use tokio::sync::Semaphore;

const MINUTE: Duration = Duration::from_secs(60);

fn delivering(b: &dyn Backend, calls: &Calls<i64>) -> SweeperBuilder {
    let calls = calls.clone();
    b.outbox().sweeper().handler("sync", move |notice: Notice<i64>| {
        calls.note(notice.fence());
        async { Ok(()) }
    })
}

pub async fn a_delivery_that_needs_an_ack_waits_for_it(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").need_confirm(true)).await.unwrap();
    let calls = Calls::default();
    let sweeper = delivering(b, &calls).start().await.unwrap();
    let receipt = b.add_new(NewNotice::new("sync", 1).unwrap()).await;
    let id = receipt.id();
    let waiting = reaches(b, id, Status::AwaitingAck).await;
    assert_eq!((waiting.next_call_time, waiting.failures), (None, 0), "for ever");
    b.clock().advance(Duration::from_secs(365 * 86_400));
    sweeper.idle().await;
    assert_eq!(b.outbox().ack(id).await.unwrap(), AckResult::Applied);
    assert_eq!(record(b, id).await.status, Status::Succeeded);
    assert_eq!(calls.all(), [1]);
    sweeper.shutdown().await;
}

pub async fn an_overdue_ack_is_a_failed_attempt(b: &dyn Backend) {
    let def = NotifyDef::new("sync").need_confirm(true).max_confirm_delay("10m").retry_interval("[1m]");
    b.outbox().define_if_missing(def).await.unwrap();
    let calls = Calls::default();
    let sweeper = delivering(b, &calls).start().await.unwrap();
    let id = add(b, "sync").await;
    reaches(b, id, Status::AwaitingAck).await;
    b.clock().advance(10 * MINUTE);
    let failed = reaches(b, id, Status::Failed).await;
    assert_eq!((failed.failures, failed.last_class.as_deref()), (1, Some("unacked")));
    assert_eq!(failed.next_call_time, Some(b.clock().now() + MINUTE));
    assert!(failed.errors[0].message.contains("not acked within 10m"), "{:?}", failed.errors);
    b.clock().advance(MINUTE);
    reaches(b, id, Status::AwaitingAck).await;
    b.clock().advance(10 * MINUTE);
    let dead = reaches(b, id, Status::DeadLetter).await;
    assert_eq!((dead.failures, dead.errors.len(), calls.all()), (2, 2, vec![1, 2]));
    assert_eq!(b.outbox().ack(id).await.unwrap(), AckResult::DeadLetterAcked);
    sweeper.shutdown().await;
}

pub async fn a_refusal_is_a_failed_attempt_with_its_reason(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").need_confirm(true).retry_interval("[1m]")).await.unwrap();
    let calls = Calls::default();
    let sweeper = delivering(b, &calls).start().await.unwrap();
    let id = add(b, "sync").await;
    reaches(b, id, Status::AwaitingAck).await;
    assert_eq!(b.outbox().nack(id, "no such customer").await.unwrap(), AckResult::Applied);
    let failed = reaches(b, id, Status::Failed).await;
    assert_eq!((failed.failures, failed.errors.len(), failed.last_class.as_deref()), (1, 1, Some("unacked")));
    assert_eq!(failed.errors[0].message, "its receiver refused it: no such customer");
    assert_eq!(b.outbox().nack(id, "again").await.unwrap(), AckResult::NotAwaitingAck);
    b.clock().advance(MINUTE);
    reaches(b, id, Status::AwaitingAck).await;
    b.outbox().nack(id, "still none").await.unwrap();
    let dead = reaches(b, id, Status::DeadLetter).await;
    assert!(dead.end_reason.as_deref().unwrap().contains("still none"), "{:?}", dead.end_reason);
    sweeper.shutdown().await;
}

pub async fn a_handler_can_ask_for_an_ack_itself(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", |notice: Notice<u64>| async move {
            notice.require_ack(Duration::from_secs(*notice.param()));
            Ok(())
        })
        .start()
        .await
        .unwrap();
    let hour = b.add_new(NewNotice::new("sync", 3600).unwrap()).await.id();
    let for_ever = b.add_new(NewNotice::new("sync", 0).unwrap()).await.id();
    let waiting = reaches(b, hour, Status::AwaitingAck).await;
    assert_eq!(waiting.next_call_time, Some(b.clock().now() + 60 * MINUTE));
    assert_eq!(reaches(b, for_ever, Status::AwaitingAck).await.next_call_time, None);
    sweeper.shutdown().await;
}

pub async fn a_handler_learns_whether_its_delivery_must_be_acked(b: &dyn Backend) {
    let confirmed = |name: &str, delay: &str| NotifyDef::new(name).need_confirm(true).max_confirm_delay(delay);
    for definition in [
        NotifyDef::new("plain").max_confirm_delay("1h"),
        confirmed("in_time", "10m"),
        confirmed("for_ever", "0"),
        confirmed("parent", "1h"),
        NotifyDef::target("parent", "heir"),
        NotifyDef::target("parent", "own").max_confirm_delay("5m"),
    ] {
        b.outbox().define_if_missing(definition.handler("sync")).await.unwrap();
    }
    let (seen, asked) = (Calls::default(), Calls::default());
    let (noted, noted_asked) = (seen.clone(), asked.clone());
    let handler = move |notice: Notice<i64>| {
        noted.note((notice.definition().to_owned(), notice.ack_within()));
        notice.require_ack(MINUTE);
        noted_asked.note(notice.ack_within());
        async { Ok(()) }
    };
    let sweeper = b.outbox().sweeper().handler("sync", handler).start().await.unwrap();
    for name in ["plain", "in_time", "for_ever", "parent"] {
        add(b, name).await;
    }
    eventually("all have required an ack", async || asked.count() == 5).await;
    let mut within = seen.all();
    within.sort();
    let expected = [
        ("for_ever", Some(Duration::ZERO)),
        ("in_time", Some(10 * MINUTE)),
        ("parent/heir", Some(60 * MINUTE)),
        ("parent/own", Some(5 * MINUTE)),
        ("plain", None),
    ];
    assert_eq!(within, expected.map(|(name, within)| (name.to_owned(), within)));
    assert_eq!(asked.all(), [Some(MINUTE); 5], "its handler required the ack");
    sweeper.shutdown().await;
}

pub async fn a_token_acks_a_later_attempt_too(b: &dyn Backend) {
    let keys = || TokenKeys::new(&[7; 32]).unwrap();
    b.outbox().use_token_keys(keys());
    let def = NotifyDef::new("sync").need_confirm(true).max_confirm_delay("1m").retry_interval("[1m,1m]");
    b.outbox().define_if_missing(def).await.unwrap();
    let tokens: Calls<String> = Calls::default();
    let noted = tokens.clone();
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", move |notice: Notice<i64>| {
            noted.note(notice.ack_token(60 * MINUTE).unwrap());
            async { Ok(()) }
        })
        .start()
        .await
        .unwrap();
    let id = add(b, "sync").await;
    reaches(b, id, Status::AwaitingAck).await;
    b.clock().advance(MINUTE);
    reaches(b, id, Status::Failed).await;
    b.clock().advance(MINUTE);
    reaches(b, id, Status::AwaitingAck).await;
    let sent = tokens.all();
    assert!(sent.len() == 2 && sent[0] != sent[1]);
    assert_eq!(b.outbox().nack_token(&sent[0], "no").await.unwrap(), AckResult::NotAwaitingAck, "an earlier attempt");
    let forged = format!("{}A", &sent[0][..sent[0].len() - 1]);
    assert!(forged == sent[0] || matches!(b.outbox().ack_token(&forged).await, Err(Error::Token { .. })));
    assert_eq!(b.outbox().ack_token(&sent[0]).await.unwrap(), AckResult::Applied);
    assert_eq!(record(b, id).await.status, Status::Succeeded);
    assert_eq!(b.outbox().ack_token(&sent[1]).await.unwrap(), AckResult::AlreadySucceeded);
    let purged = b.outbox().engine().sign_token(AckToken::new(id + 1000, 1, b.clock().now()), MINUTE).unwrap();
    assert_eq!(b.outbox().ack_token(&purged).await.unwrap(), AckResult::Purged);
    // The same of another store with the same secret says nothing about this one.
    let other = MemoryOutbox::new();
    other.use_token_keys(keys());
    other.engine().know_store().await.unwrap();
    let (missing, day) = (AckToken::new(id + 1000, 1, b.clock().now()), 24 * 60 * MINUTE);
    let of_other_store = other.engine().sign_token(missing, day).unwrap();
    assert_eq!(b.outbox().ack_token(&of_other_store).await.unwrap(), AckResult::OtherNotice);
    assert_eq!(b.outbox().nack_token(&of_other_store, "no").await.unwrap(), AckResult::OtherNotice);
    // A database with the same secret has given the same id to another notice.
    let (live, ended) = (add(b, "sync").await, id);
    let live_before = record(b, live).await;
    for (id, added_at) in [(live, live_before.create_time), (ended, record(b, ended).await.create_time)] {
        let elsewhere =
            b.outbox().engine().sign_token(AckToken::new(id, 0, added_at - Duration::from_millis(1)), MINUTE).unwrap();
        assert_eq!(b.outbox().ack_token(&elsewhere).await.unwrap(), AckResult::OtherNotice);
        assert_eq!(b.outbox().nack_token(&elsewhere, "no").await.unwrap(), AckResult::OtherNotice);
        let here = b.outbox().engine().sign_token(AckToken::new(id, 0, added_at), MINUTE).unwrap();
        let acked = b.outbox().ack_token(&here).await.unwrap();
        assert_eq!(acked, if id == live { AckResult::Applied } else { AckResult::AlreadySucceeded });
    }
    // Rotated, then the old secret is left out.
    b.outbox().use_token_keys(TokenKeys::new(&[8; 32]).unwrap().accept(&[7; 32]).unwrap());
    assert_eq!(b.outbox().ack_token(&sent[1]).await.unwrap(), AckResult::AlreadySucceeded);
    b.outbox().use_token_keys(TokenKeys::new(&[8; 32]).unwrap());
    assert!(matches!(b.outbox().ack_token(&sent[1]).await, Err(Error::Token { .. })));
    b.outbox().use_token_keys(keys());
    b.clock().advance(60 * MINUTE);
    assert!(matches!(b.outbox().ack_token(&sent[1]).await, Err(Error::Token { .. })), "expired");
    sweeper.shutdown().await;
}

pub async fn ack_or_nack_before_the_handler_returned_decides(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").need_confirm(true).retry_interval("[1m]")).await.unwrap();
    let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(0)));
    let sweeper =
        b.outbox().sweeper().handler("sync", gated(&calls, &gate)).outage_grace(Duration::ZERO).start().await.unwrap();
    let added = [1, 2].map(|n| NewNotice::new("sync", n).unwrap());
    let added = b.add_many(added.into()).await.unwrap();
    let [acked, refused] = [added[0].id(), added[1].id()];
    eventually("both are being sent", async || calls.count() == 2).await;
    assert_eq!(b.outbox().ack(acked).await.unwrap(), AckResult::Applied);
    assert_eq!(b.outbox().nack(refused, "no").await.unwrap(), AckResult::Applied);
    gate.add_permits(2);
    let mut delivered = Vec::new();
    for receipt in added {
        delivered.push(receipt.first_attempt(PATIENCE).await == FirstAttempt::Succeeded);
    }
    assert!(delivered[0]);
    let failed = reaches(b, refused, Status::Failed).await;
    assert_eq!((failed.failures, failed.errors.len()), (1, 1));
    sweeper.idle().await;
    let succeeded = record(b, acked).await;
    assert_eq!((succeeded.status, succeeded.end_reason.as_deref()), (Status::Succeeded, Some("acked")));
    assert_eq!(calls.count(), 2);
    let tally = sweeper.shutdown().await;
    // A delivery counts although its ack or nack was faster, but for a nack that was even judged before the delivery was stored. A
    // report that begins after the judgement is not of the delivery.
    assert!(tally.awaiting_ack == 2 || (tally.awaiting_ack == 1 && !delivered[1]), "{tally:?} {delivered:?}");
    assert_eq!(tally.failed, 1);
}

pub async fn fast_ack_of_a_notice_without_history_is_no_lost_lease(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").need_confirm(true).keep_history("none")).await.unwrap();
    let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(0)));
    let sweeper = b.outbox().sweeper().handler("sync", gated(&calls, &gate)).start().await.unwrap();
    let id = add(b, "sync").await;
    eventually("it is being sent", async || calls.count() == 1).await;
    assert_eq!(b.outbox().ack(id).await.unwrap(), AckResult::Applied);
    gate.add_permits(1);
    sweeper.idle().await;
    assert_eq!(sweeper.shutdown().await.awaiting_ack, 1);
}

pub async fn the_next_notice_of_a_key_is_sent_after_the_ack_of_the_first(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").need_confirm(true)).await.unwrap();
    let calls = Calls::default();
    let sweeper = delivering(b, &calls).start().await.unwrap();
    let keyed = || NewNotice::new("sync", 1).unwrap().ordering_key("k");
    let (first, second) = (b.add_new(keyed()).await.id(), b.add_new(keyed()).await.id());
    reaches(b, first, Status::AwaitingAck).await;
    sweeper.idle().await;
    assert_eq!(record(b, second).await.status, Status::NotSent);
    b.outbox().ack(first).await.unwrap();
    reaches(b, second, Status::AwaitingAck).await;
    sweeper.shutdown().await;
}
