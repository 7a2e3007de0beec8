//! Limits over all nodes: rates, concurrency, circuits.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use solid_notify_core::definition::FOREVER;
use solid_notify_core::limit::{Breaker, LimitRow, Quota, QuotaStop, TargetSign};
use solid_notify_core::notice::{ClaimedNotice, millis_from_time};
use solid_notify_core::operate::{AuditFilter, Why};
use solid_notify_core::store::{Alarm, BreakerInput, Cause, Claim, ClaimWhat, Claims, Node, Purge, Settle, Settled};
use solid_notify_core::{ALERT_DEFINITION, AlertReason, Error, NewNotice, NotifyDef, Status};

use super::{Backend, LEASE, fail, slice_claim, succeed};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// The deadline of claimers that find a quota busy. It only ends a case that hangs.
const BUSY: Duration = Duration::from_secs(60);
const BREAKER: Breaker = Breaker { failures: 3, pause: MINUTE };

fn claim(def_id: i64, limit: usize, quota: Quota) -> Claim {
    Claim { quota: Some(quota), ..slice_claim(def_id, Status::NotSent, limit) }
}

fn rate(text: &str) -> Quota {
    Quota { rate: Some(text.parse().unwrap()), total: None, breaker: None }
}

fn total(most: usize) -> Quota {
    Quota { rate: None, total: Some(most), breaker: None }
}

fn breaking() -> Quota {
    Quota { rate: None, total: None, breaker: Some(BREAKER) }
}

fn for_breaker(mut settle: Settle, def_id: i64, sign: TargetSign) -> Settle {
    settle.for_breaker = Some(Box::new(BreakerInput { def_id, breaker: BREAKER, sign, alarm: None }));
    settle
}

#[allow(clippy::unwrap_used, clippy::expect_used)]
impl dyn Backend + '_ {
    async fn backlog(&self, name: &str, count: i64) {
        let notices = (0..count).map(|n| NewNotice::new(name, n).unwrap()).collect();
        self.add_many(notices).await.unwrap();
    }

    async fn claims(&self, claim: &Claim) -> Claims {
        self.stores().send.claim(claim).await.expect("claim")
    }

    /// Returns how many notices a claim of ten takes, and why not more.
    async fn takes(&self, def_id: i64, quota: Quota) -> (usize, Option<QuotaStop>) {
        let Claims { notices, stopped_by } = self.claims(&claim(def_id, 10, quota)).await;
        (notices.len(), stopped_by)
    }

    async fn limit(&self, def_id: i64) -> Option<LimitRow> {
        self.outbox().engine().stores().definitions.send_limits().await.unwrap().limits.remove(&def_id)
    }

    /// Claims one notice and settles it as failed; the circuit breaker counts it.
    async fn fail_one(&self, def_id: i64) -> ClaimedNotice {
        let claimed = self.claims(&claim(def_id, 1, breaking())).await.notices.remove(0);
        let settle = for_breaker(fail(&claimed, 1000 * MINUTE), def_id, TargetSign::Unwell);
        assert_eq!(self.settle_one(settle).await, Settled::Stored);
        claimed
    }
}

pub async fn no_more_begin_within_any_window_than_the_rate_allows(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    b.backlog("sync", 30).await;
    let quota = rate("7/1m");
    assert_eq!(b.claims(&claim(def_id, 3, quota)).await.notices.len(), 3);
    b.clock().advance(20 * SECOND);
    assert_eq!(b.takes(def_id, quota).await, (4, Some(QuotaStop::Rate { after: 40 * SECOND })));
    b.clock().advance(40 * SECOND - Duration::from_millis(1));
    assert_eq!(b.takes(def_id, quota).await, (0, Some(QuotaStop::Rate { after: Duration::from_millis(1) })));
    b.clock().advance(Duration::from_millis(1));
    assert_eq!(b.takes(def_id, quota).await, (3, Some(QuotaStop::Rate { after: 20 * SECOND })));
    // A claim without a quota is not limited by it.
    assert_eq!(b.claim_slice(def_id, Status::NotSent, 5).await.len(), 5);
}

pub async fn an_expired_notice_uses_up_no_place_of_a_rate(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let expiry = b.clock().now() + SECOND;
    let expiring = |n: i64| NewNotice::new("sync", n).unwrap().expires_at(expiry);
    b.add_many((0..3).map(expiring).collect()).await.unwrap();
    b.clock().advance(SECOND);
    b.backlog("sync", 5).await;
    let quota = rate("4/1m");
    let first = b.claims(&claim(def_id, 10, quota)).await;
    let expired = first.notices.iter().filter(|notice| notice.is_expired()).count();
    assert_eq!((first.notices.len(), expired, first.stopped_by), (4, 3, None));
    assert_eq!(b.takes(def_id, quota).await, (3, Some(QuotaStop::Rate { after: MINUTE })));
}

pub async fn an_expired_notice_is_no_probe_of_an_open_circuit(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    b.backlog("sync", 3).await;
    for _ in 0..3 {
        b.fail_one(def_id).await;
    }
    let expiry = b.clock().now() + SECOND;
    b.add_new(NewNotice::new("sync", 1).unwrap().expires_at(expiry)).await;
    b.clock().advance(MINUTE);
    b.backlog("sync", 2).await;
    let first = b.claims(&claim(def_id, 10, breaking())).await;
    assert!(first.notices.len() == 1 && first.notices[0].is_expired(), "{first:?}");
    assert_eq!((first.stopped_by, b.limit(def_id).await.unwrap().probe), (None, None));
    let second = b.claims(&claim(def_id, 10, breaking())).await;
    assert_eq!(b.limit(def_id).await.unwrap().probe, Some(second.notices[0].id));
    assert!(second.notices.len() == 1 && second.stopped_by.is_some(), "{second:?}");
}

pub async fn no_more_are_sent_at_once_than_the_total_allows(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let other = b.define(NotifyDef::new("other")).await;
    b.backlog("sync", 10).await;
    b.backlog("other", 1).await;
    b.claim_one(other).await;
    let first = b.claims(&claim(def_id, 2, total(3))).await;
    assert_eq!((first.notices.len(), first.stopped_by), (2, None));
    assert_eq!(b.takes(def_id, total(3)).await, (1, Some(QuotaStop::Total)));
    assert_eq!(b.takes(def_id, total(3)).await, (0, Some(QuotaStop::Total)));
    b.settle_one(succeed(&first.notices[0])).await;
    assert_eq!(b.takes(def_id, total(3)).await, (1, Some(QuotaStop::Total)));
    assert_eq!(b.takes(def_id, total(2)).await, (0, Some(QuotaStop::Total)), "a limit that was lowered");
    // A notice whose process died counts until it is judged.
    b.clock().advance(2 * LEASE);
    assert_eq!(b.takes(def_id, total(3)).await, (0, Some(QuotaStop::Total)));
}

pub async fn of_sixteen_claimers_all_together_get_what_the_quota_allows(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let other = b.define(NotifyDef::new("other")).await;
    b.backlog("sync", 60).await;
    b.backlog("other", 60).await;
    let all_claim = async |def_id: i64, quota: Quota| {
        let began = Instant::now();
        let claimers = (0..16).map(|n| async move {
            let mut claim = Claim { worker: format!("worker-{n}"), ..claim(def_id, 2, quota) };
            let mut got = 0;
            while began.elapsed() < BUSY {
                let Claims { notices, stopped_by } = b.claims(&claim).await;
                got += notices.len();
                match stopped_by {
                    Some(QuotaStop::Busy { after }) => tokio::time::sleep(after).await,
                    Some(_) => return got,
                    None => claim.limit = 1,
                }
            }
            panic!("always busy")
        });
        join_all(claimers).await.into_iter().sum::<usize>()
    };
    assert_eq!(all_claim(def_id, rate("21/1h")).await, 21);
    assert_eq!(all_claim(other, total(9)).await, 9);
}

pub async fn claimers_of_different_notices_share_the_quota(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let mut ids = Vec::new();
    for _ in 0..16 {
        ids.push(b.add_to("sync").await);
    }
    let began = Instant::now();
    let claimers = ids.into_iter().map(|id| async move {
        let claim = Claim { what: ClaimWhat::Ids(vec![id]), ..claim(def_id, 1, rate("5/1h")) };
        while began.elapsed() < BUSY {
            match b.claims(&claim).await {
                Claims { stopped_by: Some(QuotaStop::Busy { after }), .. } => tokio::time::sleep(after).await,
                Claims { notices, .. } => return notices.len(),
            }
        }
        panic!("always busy")
    });
    assert_eq!(join_all(claimers).await.into_iter().sum::<usize>(), 5);
}

pub async fn failures_in_a_row_open_the_circuit_and_one_probe_closes_it(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    b.backlog("sync", 20).await;
    for _ in 0..3 {
        b.fail_one(def_id).await;
    }
    assert_eq!(b.takes(def_id, breaking()).await, (0, Some(QuotaStop::Circuit { after: MINUTE })));
    let row = b.limit(def_id).await.unwrap();
    assert_eq!((row.failures, row.open_until), (3, Some(millis_from_time(b.clock().now() + MINUTE))));
    b.clock().advance(MINUTE);
    let probe = b.claims(&claim(def_id, 10, breaking())).await;
    assert_eq!((probe.notices.len(), probe.stopped_by), (1, Some(QuotaStop::Circuit { after: LEASE })));
    assert_eq!(b.takes(def_id, breaking()).await, (0, Some(QuotaStop::Circuit { after: LEASE })));
    b.clock().advance(SECOND);
    let failed = for_breaker(fail(&probe.notices[0], 1000 * MINUTE), def_id, TargetSign::Unwell);
    assert_eq!(b.settle_one(failed).await, Settled::Stored);
    assert_eq!(b.takes(def_id, breaking()).await, (0, Some(QuotaStop::Circuit { after: MINUTE })));
    b.clock().advance(MINUTE);
    let probe = b.claims(&claim(def_id, 10, breaking())).await.notices.remove(0);
    assert_eq!(b.settle_one(for_breaker(succeed(&probe), def_id, TargetSign::Well)).await, Settled::Stored);
    assert_eq!(b.limit(def_id).await, Some(LimitRow::default()));
    assert_eq!(b.takes(def_id, breaking()).await, (10, None));
}

pub async fn an_operator_closes_an_open_circuit_once(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync").breaker_failures(3)).await;
    b.define(NotifyDef::new("without")).await;
    b.backlog("sync", 20).await;
    let alice = b.alice();
    assert!(!alice.close_circuit("sync").await.unwrap());
    let circuit = async || alice.circuits().await.unwrap().into_iter().map(|at| (at.def_id, at.open, at.failures));
    assert_eq!(circuit().await.collect::<Vec<_>>(), [(def_id, false, 0)]);
    for _ in 0..3 {
        b.fail_one(def_id).await;
    }
    assert_eq!(circuit().await.collect::<Vec<_>>(), [(def_id, true, 3)]);
    assert_eq!(b.takes(def_id, breaking()).await, (0, Some(QuotaStop::Circuit { after: MINUTE })));
    let closed = join_all((0..8).map(|_| alice.close_circuit("sync"))).await;
    assert_eq!(closed.into_iter().filter(|closed| *closed.as_ref().unwrap()).count(), 1);
    let row = b.limit(def_id).await.unwrap();
    assert_eq!((row.failures, row.open_until, row.probe), (0, None, None));
    for _ in 0..2 {
        b.fail_one(def_id).await;
    }
    assert_eq!(b.takes(def_id, breaking()).await, (10, None), "the failures before do not count");
    let audit = b.audit(&AuditFilter::all()).await;
    let acts: Vec<_> = audit.iter().map(|entry| (entry.who.as_str(), entry.act.as_str(), entry.def_id)).collect();
    assert_eq!(acts, [("alice", "close_circuit", Some(def_id))]);
    assert!(matches!(alice.close_circuit("no such").await, Err(Error::UnknownDefinition { .. })));
}

pub async fn a_probe_whose_process_died_blocks_no_longer_than_its_lease(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    b.backlog("sync", 20).await;
    for _ in 0..3 {
        b.fail_one(def_id).await;
    }
    b.clock().advance(MINUTE);
    assert_eq!(b.takes(def_id, breaking()).await.0, 1);
    b.clock().advance(LEASE - Duration::from_millis(1));
    assert_eq!(b.takes(def_id, breaking()).await.0, 0);
    b.clock().advance(Duration::from_millis(1));
    assert_eq!(b.takes(def_id, breaking()).await.0, 1);
}

pub async fn signs_of_a_batch_are_folded_in_their_order_and_only_of_what_is_stored(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    b.backlog("sync", 10).await;
    let claimed = b.claims(&claim(def_id, 10, breaking())).await.notices;
    let unwell = |n: usize| for_breaker(fail(&claimed[n], 1000 * MINUTE), def_id, TargetSign::Unwell);
    let mut lost = unwell(3);
    lost.fence -= 1;
    let well = for_breaker(succeed(&claimed[2]), def_id, TargetSign::Well);
    let batch = [unwell(0), unwell(1), well, lost.clone(), lost, unwell(4), unwell(5)];
    b.stores().send.settle(&batch).await.unwrap();
    assert_eq!(b.limit(def_id).await.unwrap(), LimitRow { failures: 2, ..LimitRow::default() });
    // It was stored already and its answer was lost, so it does not count again.
    b.stores().send.settle(&[unwell(5)]).await.unwrap();
    assert_eq!(b.limit(def_id).await.unwrap().failures, 2);
    assert_eq!(b.takes(def_id, breaking()).await.1, None);
}

pub async fn signs_of_many_who_settle_at_once_are_all_counted(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    b.backlog("sync", 12).await;
    let claimed = b.claim_slice(def_id, Status::NotSent, 12).await;
    let breaker = Breaker { failures: 100, pause: MINUTE };
    let settles = claimed.iter().map(|claimed| async move {
        let mut settle = fail(claimed, MINUTE);
        settle.for_breaker = Some(Box::new(BreakerInput { def_id, breaker, sign: TargetSign::Unwell, alarm: None }));
        b.settle_beside_others(settle).await;
    });
    join_all(settles).await;
    assert_eq!(b.limit(def_id).await.unwrap().failures, 12);
}

pub async fn an_opened_circuit_is_reported_once(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let alert_def = b.define(NotifyDef::new(ALERT_DEFINITION)).await;
    b.backlog("sync", 10).await;
    let claimed = b.claims(&claim(def_id, 6, breaking())).await.notices;
    let settle = |claimed: &ClaimedNotice| {
        let mut settle = for_breaker(fail(claimed, 1000 * MINUTE), def_id, TargetSign::Unwell);
        settle.for_breaker.as_mut().unwrap().alarm = Some(Alarm {
            alert_def,
            def_id,
            definition: "sync".to_owned(),
            reason: AlertReason::CircuitOpen,
            cooldown: MINUTE,
            notice_id: Some(claimed.id),
            description: None,
            class: None,
            message: "refused".to_owned(),
            cause: Cause::default(),
            node: "node".to_owned(),
        });
        settle
    };
    b.stores().send.settle(&[settle(&claimed[0]), settle(&claimed[1])]).await.unwrap();
    assert!(b.claim_slice(alert_def, Status::NotSent, 9).await.is_empty());
    let batch: Vec<Settle> = claimed[2..].iter().map(settle).collect();
    b.stores().send.settle(&batch).await.unwrap();
    let alerts = b.claim_slice(alert_def, Status::NotSent, 9).await;
    assert_eq!(alerts.len(), 1);
    assert!(alerts[0].param.contains(&format!("\"notice_id\":{}", claimed[2].id)), "{}", alerts[0].param);
}

pub async fn a_purged_definition_leaves_no_limit_behind(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let stays = b.define(NotifyDef::new("stays")).await;
    b.backlog("sync", 1).await;
    b.backlog("stays", 1).await;
    for def_id in [def_id, stays] {
        let claimed = b.claims(&claim(def_id, 1, rate("1/1h"))).await.notices.remove(0);
        b.settle_one(super::outcome(
            &claimed,
            solid_notify_core::transition::Next::Finish { status: Status::Succeeded, reason: None, keep: false },
        ))
        .await;
    }
    b.outbox().delete(&b.definition("sync").await).await.unwrap();
    b.clock().advance(MINUTE);
    assert_eq!(b.purge(&Purge::Definition { def_id, older_than: MINUTE }).await, [def_id]);
    assert_eq!((b.limit(def_id).await, b.limit(stays).await.is_some()), (None, true));
}

pub async fn explain_returns_the_limit_that_delays_a_due_notice(b: &dyn Backend) {
    let limited = NotifyDef::new("sync").rate_limit("2/1m").max_concurrency_total(3).breaker_failures(3);
    let def_id = b.define(limited).await;
    let quota = b.definition("sync").await.policy().unwrap().quota.unwrap();
    let node = Node::new("n".to_owned(), vec!["sync".to_owned()]);
    b.stores().send.beat(&node).await.unwrap();
    b.backlog("sync", 5).await;
    let waits = b.add_to("sync").await;
    let alice = b.outbox().operator("alice");
    let explained = async || alice.explain(waits).await.unwrap().why;
    assert!(matches!(explained().await, Why::Due { .. }));
    let mut sent = b.claims(&claim(def_id, 2, quota)).await.notices;
    let next = b.clock().now() + MINUTE;
    assert_eq!(explained().await, Why::RateUsedUp { rate: "2/1m".to_owned(), next });
    b.clock().advance(MINUTE);
    b.stores().send.beat(&node).await.unwrap();
    sent.extend(b.claims(&claim(def_id, 1, quota)).await.notices);
    assert_eq!(explained().await, Why::AllSending { total: 3 });
    assert_eq!(QuotaStop::Total.again_after(), FOREVER);
    for claimed in &sent {
        b.settle_one(for_breaker(fail(claimed, 1000 * MINUTE), def_id, TargetSign::Unwell)).await;
    }
    let until = b.clock().now() + MINUTE;
    assert_eq!(explained().await, Why::CircuitOpen { failures: 3, until });
    alice.pause_all("why not").await.unwrap();
    let Why::AllPaused(paused) = explained().await else { panic!("it is paused") };
    assert_eq!(paused.reason.as_deref(), Some("why not"));
}
