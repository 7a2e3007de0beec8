//! A definition and its targets hold together: what other rows have decided is not stored, a target that cannot get a notice yet is owed it, and
//! no edit breaks another row unseen.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use solid_notify_core::definition::Definitions;
use solid_notify_core::store::{DecidedBy, PassOn, PassedOn, SeenTarget, Settle, Settled};
use solid_notify_core::transition::Next;
use solid_notify_core::{Error, NewNotice, NotifyDef, Status, Updated};

use super::targets::{Defs, order};
use super::{Backend, outcome, succeed};

pub async fn target_that_is_owed_a_notice_gets_it_last(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    b.add_new(order()).await;
    let claimed = b.claim_one(defs.order).await;
    let part = PassOn { owed: vec![defs.erp], ..defs.part_of(&claimed, 10) };
    for _ in 0..2 {
        let passed = b.stores().send.pass_on(&part).await.unwrap();
        assert_eq!(passed, PassedOn::Part { targets: vec![defs.mail, defs.erp], done: 1, kept: Vec::new() });
    }
    assert_eq!(defs.counts(b).await, (0, 1), "the other one has it once");
    let passed = b.stores().send.pass_on(&defs.part_of(&claimed, 10)).await.unwrap();
    assert_eq!(passed, PassedOn::Part { targets: vec![defs.mail, defs.erp], done: 2, kept: Vec::new() });
    assert_eq!(defs.counts(b).await, (1, 0));
}

pub async fn outcome_that_other_targets_decided_is_not_stored(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    b.add_new(order()).await;
    let claimed = b.claim_one(defs.order).await;
    let decided = |known: Vec<SeenTarget>| Settle {
        decided_by: Some(Box::new(DecidedBy::Targets(known))),
        ..defs.passed_on(&claimed)
    };
    let new = b.define(NotifyDef::target("order", "new")).await;
    // Beside an outcome that is stored.
    let other = b.define(NotifyDef::new("other")).await;
    b.add_new(NewNotice::new("other", 1).unwrap()).await;
    let other = succeed(&b.claim_one(other).await);
    let settled = b.stores().send.settle(&[decided(defs.known()), other]).await.unwrap();
    assert_eq!(settled, [Settled::Changed, Settled::Stored]);
    assert_eq!(defs.counts(b).await, (0, 0));
    let row = b.definition("order/new").await;
    let filtered = row.clone().target_filter("@.amount > 9");
    assert!(matches!(b.outbox().update(&row, filtered).await.unwrap(), Updated::Stored(_)));
    let all = |filter: Option<&str>| {
        let new = SeenTarget { id: new, filter: filter.map(str::to_owned) };
        decided([defs.known(), vec![new]].concat())
    };
    assert_eq!(b.settle_one(all(None)).await, Settled::Changed, "its filter was edited");
    assert_eq!(b.record(claimed.id).await.status, Status::Sending, "nothing was changed");
    assert_eq!(b.settle_one(all(Some("@.amount > 9"))).await, Settled::Stored);
    assert_eq!(defs.counts(b).await, (1, 1));
}

pub async fn refusal_by_an_edited_filter_is_not_stored(b: &dyn Backend) {
    let defs = Defs::new(b).await;
    b.add_new(NewNotice::new("order/erp", 1).unwrap()).await;
    let claimed = b.claim_one(defs.erp).await;
    let refused = |filter: Option<&str>| {
        let reason = Some("the target does not accept it".to_owned());
        let next = Next::Finish { status: Status::Cancelled, reason, keep: true };
        let decided_by = Some(Box::new(DecidedBy::Filter(filter.map(str::to_owned))));
        Settle { decided_by, ..outcome(&claimed, next) }
    };
    assert_eq!(b.settle_one(refused(Some("@.a"))).await, Settled::Changed, "it has no filter any more");
    assert_eq!(b.record(claimed.id).await.status, Status::Sending);
    let row = b.definition("order/erp").await;
    assert!(matches!(b.outbox().update(&row, row.clone().target_filter("@.b")).await.unwrap(), Updated::Stored(_)));
    for filter in [None, Some("@.a")] {
        assert_eq!(b.settle_one(refused(filter)).await, Settled::Changed);
    }
    assert_eq!(b.settle_one(refused(Some("@.b"))).await, Settled::Stored);
    assert_eq!(b.record(claimed.id).await.status, Status::Cancelled);
}

pub async fn edit_that_breaks_a_target_is_refused_and_names_it(b: &dyn Backend) {
    let encrypting = |def: NotifyDef| def.encrypt_param(true);
    b.define(encrypting(NotifyDef::new("order"))).await;
    b.define(encrypting(NotifyDef::target("order", "erp"))).await;
    b.define(NotifyDef::new("other")).await;
    let alice = b.outbox().operator("alice");
    let (order, erp, other) =
        (b.definition("order").await, b.definition("order/erp").await, b.definition("other").await);
    let refused = |result: Result<(), Error>, text: &str| {
        let error = result.expect_err("the edit is refused").to_string();
        assert!(error.contains(text), "{error}");
    };
    let target = "its target \"order/erp\" would be invalid: encrypt_param";
    let plain = || order.clone().encrypt_param(false);
    refused(alice.edit_definition(&order, plain()).await.map(drop), target);
    refused(alice.preview_edit(&order, &plain()).await.map(drop), target);
    refused(b.outbox().update(&order, plain()).await.map(drop), target);
    refused(b.outbox().define_or_replace(NotifyDef::new("order")).await.map(drop), target);
    let listed = |erp: bool| {
        let erp = NotifyDef::target("order", "erp").encrypt_param(erp);
        Definitions::of([NotifyDef::new("order"), erp]).unwrap()
    };
    refused(b.outbox().plan_all(&listed(true)).await.map(drop), "encrypt_param");
    refused(b.outbox().apply(listed(true)).await.map(drop), "encrypt_param");
    let moved = erp.clone().target_of(other.id).encrypt_param(false);
    refused(alice.edit_definition(&erp, moved).await.map(drop), "are encrypted for the definition \"order\"");
    let nested = order.clone().target_of(other.id);
    refused(alice.edit_definition(&order, nested).await.map(drop), "definition \"order\" is invalid");
    assert!(b.definition("order").await.encrypt_param, "nothing was stored");
    assert_eq!(b.definition("order/erp").await.target_of, Some(order.id));
    // What is there already is compared and not edited, so it breaks nothing. What would be created is checked.
    b.outbox().define_if_missing(NotifyDef::new("order")).await.unwrap();
    let secret = NotifyDef::target("other", "secret").encrypt_param(true);
    refused(b.outbox().define_if_missing(secret).await.map(drop), "encrypt_param");
    assert!(b.outbox().definitions().await.unwrap().iter().all(|state| state.row.name != "other/secret"));
    // Each of these edits alone would break the other row, or be broken by it. In one list they hold together.
    let applied = b.outbox().apply(listed(false)).await.unwrap();
    assert_eq!((applied.changed.len(), applied.conflicts.len()), (2, 0));
    let both = ["order", "order/erp"].map(|name| NotifyDef::new(name).encrypt_param(true));
    let applied = b.outbox().apply(Definitions::of(both.map(as_listed)).unwrap()).await.unwrap();
    assert_eq!((applied.changed.len(), applied.conflicts.len()), (2, 0));
    assert!(b.definition("order").await.encrypt_param && b.definition("order/erp").await.encrypt_param);
}

/// A row of a list, in which a target names its definition.
fn as_listed(row: NotifyDef) -> NotifyDef {
    match row.name.clone().split_once('/') {
        Some((of, target)) => NotifyDef::target(of, target).encrypt_param(row.encrypt_param),
        None => row,
    }
}

pub async fn rollback_that_breaks_a_target_is_refused(b: &dyn Backend) {
    let id = b.define(NotifyDef::new("order")).await;
    let alice = b.outbox().operator("alice");
    let plain = b.definition("order").await;
    let Updated::Stored(order) = alice.edit_definition(&plain, plain.clone().encrypt_param(true)).await.unwrap() else {
        panic!("it is edited")
    };
    b.define(NotifyDef::target("order", "erp").encrypt_param(true)).await;
    let versions = async || alice.versions(id).await.unwrap().len();
    let before = versions().await;
    let error = alice.roll_back(&order, 1).await.expect_err("the rollback is refused").to_string();
    assert!(error.contains("its target \"order/erp\" would be invalid: encrypt_param"), "{error}");
    assert_eq!((b.definition("order").await, versions().await), (order.clone(), before), "nothing was stored");
    // Without the demand of its target it is possible.
    let erp = b.definition("order/erp").await;
    assert!(matches!(alice.edit_definition(&erp, erp.clone().encrypt_param(false)).await.unwrap(), Updated::Stored(_)));
    assert!(matches!(alice.roll_back(&order, 1).await.unwrap(), Updated::Stored(_)));
    assert!(!b.definition("order").await.encrypt_param);
}

pub async fn deleted_definition_gets_no_new_target(b: &dyn Backend) {
    let id = b.define(NotifyDef::new("order")).await;
    b.define(NotifyDef::target("order", "erp")).await;
    let order = b.definition("order").await;
    assert!(matches!(b.outbox().delete(&order).await.unwrap(), Updated::Stored(_)));
    let mut new = NotifyDef::new("order/mail");
    new.target_of = Some(id);
    let error = b.outbox().define_if_missing(new).await.expect_err("it is refused").to_string();
    assert!(
        error.contains("target_of = \"order (deleted") && error.contains("a definition that is not deleted"),
        "{error}"
    );
    let erp = b.definition("order/erp").await;
    assert!(matches!(b.outbox().update(&erp, erp.clone().timeout("7s")).await.unwrap(), Updated::Stored(_)));
}
