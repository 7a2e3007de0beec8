//! Targets: the notices that a settle inserts for them, and their rows.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use futures_util::future::join_all;
use solid_notify_core::definition::Definitions;
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::store::{NamedTarget, PassOn, PassedOn, Purge, SeenTarget, Settle, Settled};
use solid_notify_core::transition::Next;
use solid_notify_core::{Error, NewNotice, NotifyDef, Status, Updated};

use super::{Backend, LEASE, crash, fail, outcome, succeed};

/// The ids of a definition and of its targets.
pub(super) struct Defs {
    pub(super) order: i64,
    pub(super) erp: i64,
    pub(super) mail: i64,
}

impl Defs {
    pub(super) async fn new(b: &dyn Backend) -> Self {
        let order = b.define(NotifyDef::new("order")).await;
        let [erp, mail] = ["erp", "mail"].map(|name| NotifyDef::target("order", name));
        Self { order, erp: b.define(erp).await, mail: b.define(mail).await }
    }

    pub(super) fn passed_on(&self, claimed: &ClaimedNotice) -> Settle {
        let reason = Some("passed on to 2 targets: erp, mail".to_owned());
        let next = Next::Finish { status: Status::Succeeded, reason, keep: true };
        let pass_to = vec![NamedTarget::new(self.erp, "erp"), NamedTarget::new(self.mail, "mail")];
        Settle { pass_to, ..outcome(claimed, next) }
    }

    /// Adds a notice, claims it and passes it on. Returns its id.
    pub(super) async fn pass_on(&self, b: &dyn Backend, notice: NewNotice) -> i64 {
        let id = b.add_new(notice).await.id();
        let claimed = b.claim_one(self.order).await;
        assert_eq!(claimed.id, id);
        let settled = b.settle_one(self.passed_on(&claimed)).await;
        assert!(matches!(settled, Settled::Stored | Settled::PassedOn(_)), "{settled:?}");
        id
    }

    pub(super) async fn counts(&self, b: &dyn Backend) -> (usize, usize) {
        let of = async |target| b.claim_slice(target, Status::NotSent, 10_000).await.len();
        (of(self.erp).await, of(self.mail).await)
    }
}

pub(super) fn order() -> NewNotice {
    NewNotice::new("order", serde_json::json!({ "amount": 7 })).unwrap()
}

pub async fn a_notice_is_passed_on_to_each_target_with_what_was_said_of_it(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let expiry = "2100-01-31T12:00:00Z".parse().unwrap();
    let param = "{ \"amount\": 1.10, \"name\": \"Ün\\u00efcode / 😀\" }";
    let raw = serde_json::value::RawValue::from_string(param.to_owned()).unwrap();
    let notice = NewNotice::new("order", raw).unwrap().description("order 7").trace_context("00-trace-01");
    let notice =
        notice.ordering_key("customer 3").unique_until_ended("order 7").tag("order:7").max_tries(4).expires_at(expiry);
    let id = defs.pass_on(b, notice).await;
    let parent = b.record(id).await;
    assert_eq!((parent.status, parent.parent_id), (Status::Succeeded, None));
    assert_eq!(parent.end_reason.as_deref(), Some("passed on to 2 targets: erp, mail"));
    for target in [defs.erp, defs.mail] {
        let claimed = b.claim_one(target).await;
        assert_eq!((claimed.param.as_str(), claimed.fence), (param, 1));
        assert_eq!((claimed.own.max_tries, claimed.own.expires_at), (Some(4), Some(expiry)));
        let record = b.record(claimed.id).await;
        assert_eq!((record.parent_id, record.def_id), (Some(id), target));
        assert_eq!(
            (record.description.as_deref(), record.trace_context.as_deref()),
            (Some("order 7"), Some("00-trace-01"))
        );
        assert_eq!(
            (record.ordering_key.as_deref(), record.dedupe_key.as_deref()),
            (Some("customer 3"), Some("order 7"))
        );
        assert!(record.unique_until_ended);
        assert_eq!(record.tag.as_deref(), Some("order:7"));
        assert_ne!(record.idempotency_key(), parent.idempotency_key());
        assert_eq!(b.settle_one(succeed(&claimed)).await, Settled::Stored);
    }
    assert_eq!(defs.counts(b).await, (0, 0));
}

pub async fn an_outcome_that_is_not_stored_is_passed_on_to_no_target(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    b.add_new(order()).await;
    let claimed = b.claim_one(defs.order).await;
    let stale = Settle { fence: claimed.fence + 1, ..defs.passed_on(&claimed) };
    assert_eq!(b.settle_one(stale).await, Settled::LostLease);
    assert_eq!(defs.counts(b).await, (0, 0));
    // Beside an outcome that is stored.
    b.add_new(order()).await;
    let second = b.claim_one(defs.order).await;
    let gone = Settle { id: claimed.id, fence: claimed.fence + 1, ..defs.passed_on(&claimed) };
    let settled = b.stores().send.settle(&[gone, defs.passed_on(&second)]).await.unwrap();
    assert_eq!(settled, [Settled::LostLease, Settled::Stored]);
    assert_eq!(defs.counts(b).await, (1, 1));
}

pub async fn an_outcome_whose_answer_was_lost_is_passed_on_once(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    b.add_new(order()).await;
    let settle = defs.passed_on(&b.claim_one(defs.order).await);
    for _ in 0..3 {
        assert_eq!(b.settle_one(settle.clone()).await, Settled::Stored);
    }
    assert_eq!(defs.counts(b).await, (1, 1));
    // Also where the notices of the targets have ended meanwhile, without history.
    b.add_new(order()).await;
    let mut settle = defs.passed_on(&b.claim_one(defs.order).await);
    if let Next::Finish { keep, .. } = &mut settle.transition.next {
        *keep = false;
    }
    assert_eq!(b.settle_one(settle.clone()).await, Settled::Stored);
    for target in [defs.erp, defs.mail] {
        let next = Next::Finish { status: Status::Succeeded, reason: None, keep: false };
        let done = outcome(&b.claim_one(target).await, next);
        assert_eq!(b.settle_one(done).await, Settled::Stored);
    }
    assert_eq!(b.settle_one(settle).await, Settled::Stored);
    assert_eq!(defs.counts(b).await, (0, 0));
}

pub async fn of_many_who_settle_at_once_one_passes_on(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    for _ in 0..20 {
        b.add_new(order()).await;
    }
    let claimed = b.claim_slice(defs.order, Status::NotSent, 100).await;
    let batch: Vec<Settle> = claimed.iter().map(|claimed| defs.passed_on(claimed)).collect();
    let all = join_all((0..8).map(|_| b.stores().send.settle(&batch))).await;
    assert!(all.iter().any(Result::is_ok), "{all:?}");
    // What another session had locked is settled again.
    for settle in batch {
        b.settle_beside_others(settle).await;
    }
    assert_eq!(defs.counts(b).await, (20, 20));
}

pub async fn a_target_has_one_live_notice_of_a_dedupe_key(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let keyed = |until_ended: bool| match until_ended {
        true => order().unique_until_ended("key"),
        false => order().unique_until_claimed("key"),
    };
    defs.pass_on(b, keyed(true)).await;
    let erp = b.claim_one(defs.erp).await;
    assert_eq!(b.settle_one(succeed(&erp)).await, Settled::Stored);
    defs.pass_on(b, keyed(true)).await;
    assert_eq!(defs.counts(b).await, (1, 1), "`mail` still has the first one");
    // A key that is unique until claimed is free after the claims.
    let defs = Defs {
        erp: b.define(NotifyDef::target("order", "a")).await,
        mail: b.define(NotifyDef::target("order", "b")).await,
        ..defs
    };
    defs.pass_on(b, keyed(false)).await;
    assert_eq!(defs.counts(b).await, (1, 1));
    defs.pass_on(b, keyed(false)).await;
    defs.pass_on(b, keyed(false)).await;
    assert_eq!(defs.counts(b).await, (1, 1));
}

pub async fn notices_of_a_key_keep_their_order_for_each_target(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let mut parents = Vec::new();
    for _ in 0..3 {
        parents.push(defs.pass_on(b, order().ordering_key("key")).await);
    }
    for parent in &parents {
        let claimed = b.claim_one(defs.erp).await;
        assert_eq!(b.record(claimed.id).await.parent_id, Some(*parent));
        assert_eq!(b.settle_one(succeed(&claimed)).await, Settled::Stored);
    }
    // A notice that waits for its retry stops those of its own target only.
    let first = b.claim_one(defs.mail).await;
    assert_eq!(b.settle_one(fail(&first, Duration::from_secs(60))).await, Settled::Stored);
    assert_eq!(defs.counts(b).await, (0, 0));
}

pub async fn a_passed_on_notice_keeps_its_parent_when_it_has_ended(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let parent = defs.pass_on(b, order()).await;
    let child = b.claim_one(defs.erp).await;
    let dead = Next::Finish { status: Status::DeadLetter, reason: Some("no".to_owned()), keep: true };
    assert_eq!(b.settle_one(outcome(&child, dead)).await, Settled::Stored);
    assert_eq!(b.record(child.id).await.parent_id, Some(parent));
    b.outbox().operator("alice").retry(child.id).await.unwrap();
    let live = b.record(child.id).await;
    assert_eq!((live.status, live.parent_id), (Status::Failed, Some(parent)));
    b.outbox().operator("alice").cancel(child.id, "no").await.unwrap();
    assert_eq!(b.record(child.id).await.parent_id, Some(parent));
    let bare = b.claim_one(defs.mail).await;
    assert_eq!(b.settle_one(succeed(&bare)).await, Settled::Stored);
    assert_eq!(b.record(bare.id).await.parent_id, Some(parent));
}

pub async fn many_notices_are_passed_on_at_once(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    b.add_many((0..600).map(|_| order()).collect()).await.unwrap();
    let claimed = b.claim_slice(defs.order, Status::NotSent, 1000).await;
    let batch: Vec<Settle> = claimed.iter().map(|claimed| defs.passed_on(claimed)).collect();
    let settled = b.stores().send.settle(&batch).await.unwrap();
    assert!(settled.len() == 600 && settled.iter().all(|settled| *settled == Settled::Stored));
    while b.stores().send.due(true).await.unwrap().is_forwarding {
        tokio::task::yield_now().await;
    }
    assert_eq!(defs.counts(b).await, (600, 600));
}

impl Defs {
    /// A part of passing a notice on to both targets, one in each part.
    async fn part(&self, b: &dyn Backend, claimed: &ClaimedNotice) -> PassedOn {
        b.stores().send.pass_on(&self.part_of(claimed, 1)).await.unwrap()
    }

    pub(super) fn part_of(&self, claimed: &ClaimedNotice, most: usize) -> PassOn {
        let (targets, known) = (vec![self.erp, self.mail], self.known());
        let (id, def_id, fence, owed) = (claimed.id, self.order, claimed.fence, Vec::new());
        PassOn { id, def_id, fence, targets, known, owed, most }
    }

    pub(super) fn known(&self) -> Vec<SeenTarget> {
        vec![self.erp.into(), self.mail.into()]
    }

    fn done(&self, done: usize) -> PassedOn {
        PassedOn::Part { targets: vec![self.erp, self.mail], done, kept: Vec::new() }
    }
}

pub async fn parts_of_passing_on_reach_each_target_once(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    let id = b.add_new(order().ordering_key("key").unique_until_ended("own").tag("order:7")).await.id();
    let first = b.claim_one(defs.order).await;
    assert_eq!(defs.part(b, &first).await, defs.done(1));
    let child = b.claim_one(defs.erp).await;
    let record = b.record(child.id).await;
    assert_eq!(
        (record.parent_id, record.tag.as_deref(), child.param.as_str()),
        (Some(id), Some("order:7"), r#"{"amount":7}"#)
    );
    // It ends without history, so nothing of it is left.
    let gone = outcome(&child, Next::Finish { status: Status::Succeeded, reason: None, keep: false });
    assert_eq!(b.settle_one(gone).await, Settled::Stored);
    // The sender dies, and a target is created meanwhile: the next claim goes on with the list of the first part.
    b.define(NotifyDef::target("order", "a")).await;
    b.clock().advance(LEASE);
    let expired = b.overdue(defs.order).await.remove(0);
    b.settle_one(crash(&expired)).await;
    let second = b.claim_slice(defs.order, Status::Failed, 1).await.remove(0);
    assert_eq!(defs.part(b, &first).await, PassedOn::Busy, "its claim was lost");
    let rows = b.outbox().operator("alice").targets("order").await.unwrap();
    let (targets, known) = (rows.iter().map(|row| row.id).collect(), rows.iter().map(SeenTarget::from).collect());
    let part = PassOn { targets, known, ..defs.part_of(&second, 10) };
    for _ in 0..3 {
        assert_eq!(b.stores().send.pass_on(&part).await.unwrap(), defs.done(2));
    }
    assert_eq!(defs.counts(b).await, (0, 1));
    let next = Next::Finish { status: Status::Succeeded, reason: None, keep: true };
    assert_eq!(b.settle_one(outcome(&second, next)).await, Settled::Stored);
    assert_eq!(b.stores().send.pass_on(&part).await.unwrap(), PassedOn::Busy, "it has ended");
}

pub async fn first_part_compares_the_targets_with_the_rows(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    b.add_new(order()).await;
    let claimed = b.claim_one(defs.order).await;
    let row = b.define(NotifyDef::target("order", "new")).await;
    assert_eq!(defs.part(b, &claimed).await, PassedOn::Changed);
    assert_eq!(defs.counts(b).await, (0, 0));
    let row_of = b.outbox().definitions().await.unwrap().into_iter().find(|state| state.row.id == row).unwrap().row;
    assert!(matches!(b.outbox().delete(&row_of).await.unwrap(), Updated::Stored(_)));
    assert_eq!(defs.part(b, &claimed).await, defs.done(1), "a deleted target is none");
    assert_eq!(defs.counts(b).await, (1, 0));
}

pub async fn a_definition_is_purged_after_its_targets(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    for name in ["order", "order/erp"] {
        let row = b.definition(name).await;
        assert!(matches!(b.outbox().delete(&row).await.unwrap(), Updated::Stored(_)));
    }
    b.clock().advance(Duration::from_secs(60));
    let purge = async |def_id| b.purge(&Purge::Definition { def_id, older_than: Duration::from_secs(1) }).await;
    assert!(purge(defs.order).await.is_empty(), "its targets inherit from it");
    assert_eq!(purge(defs.erp).await, [defs.erp]);
    assert!(purge(defs.order).await.is_empty());
    let row = b.definition("order/mail").await;
    assert!(matches!(b.outbox().delete(&row).await.unwrap(), Updated::Stored(_)));
    b.clock().advance(Duration::from_secs(60));
    assert_eq!((purge(defs.mail).await, purge(defs.order).await), (vec![defs.mail], vec![defs.order]));
}

pub async fn a_target_is_stored_with_the_id_of_its_definition(b: &dyn Backend) {
    let refused = |result: Result<(), Error>, text: &str| {
        let error = result.expect_err("the target is refused").to_string();
        assert!(error.contains(text), "{error}");
    };
    let orphan = NotifyDef::target("order", "erp");
    refused(b.outbox().define_if_missing(orphan.clone()).await.map(drop), "target_of = \"0\"");
    let order = b.define(NotifyDef::new("order").timeout("7s")).await;
    let alice = b.outbox().operator("alice");
    let Updated::Stored(erp) = alice.create_definition(orphan.clone().timeout("9s")).await.unwrap() else {
        panic!("there is no such target")
    };
    assert_eq!((erp.name.as_str(), erp.target_of), ("order/erp", Some(order)));
    let wrong = erp.clone().target_filter("amount > 1");
    refused(alice.edit_definition(&erp, wrong.clone()).await.map(drop), "RFC 9535");
    refused(b.outbox().define_or_replace(wrong).await.map(drop), "RFC 9535");
    let nested = NotifyDef::target("order/erp", "x");
    refused(b.outbox().define_if_missing(nested).await.map(drop), "a definition that is no target itself");
    let named = |all: Vec<NotifyDef>| all.into_iter().map(|row| row.name).collect::<Vec<_>>();
    b.define(NotifyDef::target("order", "a")).await;
    assert_eq!(named(alice.targets("order").await.unwrap()), ["order/a", "order/erp"]);
    assert!(matches!(alice.delete_definition(&erp).await.unwrap(), Updated::Stored(_)));
    assert_eq!(named(alice.targets("order").await.unwrap()), ["order/a"]);
    let acts: Vec<String> = alice.versions(erp.id).await.unwrap().into_iter().map(|version| version.act).collect();
    assert_eq!(acts, ["deleted", "created"]);
}

pub async fn a_list_of_definitions_has_targets(b: &dyn Backend) {
    let list = |filter: &str| {
        let erp = NotifyDef::target("order", "erp").target_filter(filter);
        Definitions::of([erp, NotifyDef::new("order")]).unwrap().delete_missing()
    };
    let plan = b.outbox().plan_all(&list("@.a")).await.unwrap();
    assert_eq!(plan.create.len(), 2);
    let applied = b.outbox().apply_plan(plan).await.unwrap();
    assert_eq!((applied.created.len(), applied.conflicts.len()), (2, 0));
    let (order, erp) = (b.definition("order").await, b.definition("order/erp").await);
    assert_eq!((erp.target_of, erp.target_filter.as_deref()), (Some(order.id), Some("@.a")));
    assert!(b.outbox().plan_all(&list("@.a")).await.unwrap().changes_nothing());
    let changed = b.outbox().apply(list("@.b")).await.unwrap().changed;
    assert_eq!(
        (changed.len(), changed[0].target_of, changed[0].target_filter.as_deref()),
        (1, Some(order.id), Some("@.b"))
    );
    let only = Definitions::of([NotifyDef::new("order")]).unwrap().delete_missing();
    assert_eq!(b.outbox().apply(only).await.unwrap().deleted.len(), 1);
}
