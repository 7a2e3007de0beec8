//! Filters of operators by tag, keys, ids and text, of live and of ended notices, in lists, counts and bulk verbs.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use solid_notify_core::error::Error;
use solid_notify_core::notice::{AttemptRecord, append_attempt};
use solid_notify_core::operate::{AuditFilter, Filter, Preview, Rate};
use solid_notify_core::store::{BulkStep, BulkVerb, SliceOfStep, Target};
use solid_notify_core::{ErrorClass, NewNotice, NotifyDef, Status};

use super::operating::dead;
use super::{Backend, fail, succeed};

const SECOND: Duration = Duration::from_secs(1);

/// A way to narrow a filter, and what makes a notice that it selects.
struct Narrowed {
    name: &'static str,
    filter: fn(Filter) -> Filter,
    notice: fn(NewNotice) -> NewNotice,
}

const NARROWED: [Narrowed; 4] = [
    Narrowed { name: "tag", filter: |all| all.tag("x"), notice: |new| new.tag("x") },
    Narrowed { name: "ordering key", filter: |all| all.ordering_key("x"), notice: |new| new.ordering_key("x") },
    Narrowed { name: "unique", filter: |all| all.dedupe_key("x"), notice: |new| new.unique_until_ended("x") },
    Narrowed { name: "until claimed", filter: |all| all.dedupe_key("x"), notice: |new| new.unique_until_claimed("x") },
];

fn new(name: &str) -> NewNotice {
    NewNotice::new(name, 1).unwrap()
}

#[allow(clippy::unwrap_used)]
impl dyn Backend + '_ {
    async fn found(&self, filter: &Filter) -> Vec<i64> {
        self.pages(filter, 2).await.concat()
    }

    /// Returns how many notices a filter selects, which its list, counts and preview agree about.
    pub(crate) async fn counted(&self, filter: &Filter) -> u64 {
        let counts = self.alice().counts(filter).await.unwrap();
        let Preview { total, first, .. } = self.alice().preview(filter).await.unwrap();
        assert_eq!(counts.iter().map(|count| count.count.count).sum::<u64>(), total.count, "{filter}");
        let mut listed = self.found(filter).await;
        assert_eq!(listed.len() as u64, total.count, "{filter}");
        assert!(first.iter().all(|id| listed.contains(id)), "{filter}: {first:?}");
        listed.sort_unstable();
        listed.dedup();
        assert_eq!(listed.len() as u64, total.count, "{filter}: none is listed twice");
        total.count
    }

    /// Adds a notice and makes a dead letter of it, with this message of its last error.
    async fn add_refused(&self, notice: NewNotice, message: &str) -> i64 {
        let def_id = self.definition(notice.name()).await.id;
        let id = self.add_new(notice).await.id();
        let claimed = self.claim_slice(def_id, Status::NotSent, 10).await.into_iter().find(|claimed| claimed.id == id);
        let claimed = claimed.unwrap();
        let mut settle = dead(&claimed, Some(ErrorClass::Invalid));
        let record = |message| AttemptRecord::new(&claimed, SECOND, ErrorClass::Invalid, message);
        let mut first = record("an earlier error");
        first.fence = 0;
        let errors = append_attempt(None, first);
        settle.errors = Some(append_attempt(Some(&errors), record(message)));
        self.settle_one(settle).await;
        id
    }
}

pub async fn a_tag_is_kept_live_and_ended_and_listed(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let text = "order:42 \"ü\" 😀 %_'";
    let id = b.add_new(new("sync").tag(text)).await.id();
    assert_eq!(b.record(id).await.tag.as_deref(), Some(text));
    let listed = b.alice().list(&Filter::live(), None, 1).await.unwrap().notices.remove(0);
    assert_eq!((listed.id, listed.tag.as_deref()), (id, Some(text)));
    let explained = b.alice().explain(id).await.unwrap();
    assert_eq!(explained.tag.as_deref(), Some(text));
    assert!(explained.to_string().ends_with(&format!("; its tag is {text:?}")), "{explained}");
    let claimed = b.claim_one(def_id).await;
    b.settle_one(fail(&claimed, Duration::ZERO)).await;
    let claimed = b.claim_slice(def_id, Status::Failed, 1).await.remove(0);
    b.settle_one(dead(&claimed, None)).await;
    for _ in 0..2 {
        assert_eq!(b.found(&Filter::ended().tag(text)).await, [id]);
        assert_eq!(b.alice().explain(id).await.unwrap().tag.as_deref(), Some(text));
        b.alice().retry(id).await.unwrap();
        assert_eq!(b.found(&Filter::live().tag(text)).await, [id]);
        b.alice().cancel(id, "x").await.unwrap();
        assert_eq!(b.record(id).await.tag.as_deref(), Some(text));
    }
    let bare = b.add_to("sync").await;
    b.settle_one(succeed(&b.claim_one(def_id).await)).await;
    assert_eq!((b.record(bare).await.tag, b.alice().explain(bare).await.unwrap().tag), (None, None));
    let many = (0..3).map(|n| new("sync").tag(format!("many {n}"))).chain([new("sync")]).collect();
    let many: Vec<i64> = b.add_many(many).await.unwrap().iter().map(|receipt| receipt.id()).collect();
    assert_eq!(b.found(&Filter::live().tag("many 1")).await, many[1..2]);
    let skipped = b.add_new(new("sync").tag("left out").skipped("no")).await.id();
    assert_eq!(b.found(&Filter::cancelled().tag("left out")).await, [skipped]);
    for claimed in b.claim_slice(def_id, Status::NotSent, 10).await {
        b.settle_one(succeed(&claimed)).await;
    }
    assert_eq!(b.found(&Filter::status(Status::Succeeded).tag("many 1")).await, many[1..2], "a bare success keeps it");
    for bad in [String::new(), "t".repeat(201), "\0".to_owned()] {
        let refused = b.add(new("sync").tag(bad)).await;
        assert!(matches!(&refused, Err(Error::InvalidNotice { problem, .. }) if problem.contains("its tag has")));
    }
    assert!(b.add(new("sync").tag("😀".repeat(200))).await.is_ok());
}

pub async fn tag_and_keys_select_live_and_ended_notices(b: &dyn Backend) {
    b.define(NotifyDef::new("sync")).await;
    b.define(NotifyDef::new("other")).await;
    for Narrowed { name, filter, notice } in NARROWED {
        let (mut ended, mut cancelled) = (Vec::new(), Vec::new());
        for definition in ["sync", "other", "sync"] {
            ended.push(b.kill(notice(new(definition)), Some(ErrorClass::Busy)).await);
            let id = b.add_new(notice(new(definition))).await.id();
            b.alice().cancel(id, "x").await.unwrap();
            cancelled.push(id);
            // Others that a wrong condition would select.
            b.kill(new(definition).tag("y").ordering_key("y").unique_until_ended("y"), None).await;
            b.clock().advance(SECOND);
        }
        let live = [b.add_new(notice(new("other"))).await.id(), b.add_new(notice(new("sync"))).await.id()];
        ended.reverse();
        cancelled.reverse();
        assert_eq!(b.found(&filter(Filter::dead_letters())).await, ended, "{name}");
        assert_eq!(b.found(&filter(Filter::cancelled())).await, cancelled, "{name}");
        assert_eq!(b.found(&filter(Filter::live())).await, live, "{name}");
        assert_eq!(b.found(&filter(Filter::live().definition("sync"))).await, live[1..], "{name}");
        assert_eq!(b.found(&filter(Filter::cancelled().definition("other"))).await, cancelled[1..2], "{name}");
        assert_eq!(b.found(&filter(Filter::dead_letters().class("busy"))).await, ended, "{name}");
        assert!(b.found(&filter(Filter::dead_letters().class("auth"))).await.is_empty(), "{name}");
        let since = b.clock().now() - 2 * SECOND;
        assert_eq!(b.found(&filter(Filter::dead_letters().from(since))).await, ended[..2], "{name}");
        assert_eq!(b.counted(&filter(Filter::ended())).await, 6, "{name}");
        assert_eq!(b.counted(&filter(Filter::waiting())).await, 2, "{name}");
        // All of them go, so that the next key begins anew.
        b.alice().cancel_all(&Filter::waiting(), "x").await.unwrap();
        b.alice().purge_all(&Filter::ended(), "x").await.unwrap();
    }
}

pub async fn a_dedupe_key_selects_what_no_longer_has_it(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let keyed = || new("sync").unique_until_claimed("x");
    let failed = b.add_new(keyed()).await.id();
    b.settle_one(fail(&b.claim_one(def_id).await, 5 * SECOND)).await;
    let fresh = b.add_new(keyed()).await.id();
    assert_eq!(b.found(&Filter::live().dedupe_key("x")).await, [fresh, failed]);
    assert_eq!(b.found(&Filter::status(Status::Failed).dedupe_key("x")).await, [failed]);
}

pub async fn ids_select_those_that_are_in_the_state(b: &dyn Backend) {
    b.define(NotifyDef::new("sync")).await;
    b.define(NotifyDef::new("other")).await;
    let mut ended = Vec::new();
    for name in ["sync", "other", "sync", "sync"] {
        ended.push(b.add_dead(name, Some(ErrorClass::Busy)).await);
        b.clock().advance(SECOND);
    }
    let live = [b.add_to("other").await, b.add_to("sync").await, b.add_to("sync").await];
    let some = [ended[0], ended[1], ended[3], live[0], live[2], 1_000_000_000_000];
    assert_eq!(b.found(&Filter::dead_letters().ids(some)).await, [ended[3], ended[1], ended[0]]);
    assert_eq!(b.found(&Filter::live().ids(some)).await, [live[0], live[2]]);
    assert_eq!(b.found(&Filter::dead_letters().ids(some).definition("other")).await, [ended[1]]);
    assert_eq!(b.counted(&Filter::ended().ids(some)).await, 3);
    assert_eq!(b.counted(&Filter::live().ids(some)).await, 2);
    assert_eq!(
        b.counted(&Filter::dead_letters().ids(1..=1000)).await,
        b.found(&Filter::dead_letters().ids(1..=1000)).await.len() as u64
    );
    let tagged = b.add_new(new("sync").tag("t")).await.id();
    assert_eq!(b.found(&Filter::live().ids([tagged, live[0]]).tag("t")).await, [tagged], "all conditions apply");
    assert!(b.found(&Filter::live().ids([live[0]]).tag("t")).await.is_empty());
    let done = b.alice().retry_all(&Filter::dead_letters().ids(some), Rate::AT_ONCE).await.unwrap();
    assert_eq!((done.changed, b.record(ended[2]).await.status), (3, Status::DeadLetter));
    let done = b.alice().cancel_all(&Filter::waiting().ids(some), "x").await.unwrap();
    assert_eq!((done.changed, b.record(live[1]).await.status), (5, Status::NotSent));
    assert_eq!(b.record(live[0]).await.status, Status::Cancelled);
}

pub async fn values_are_compared_byte_by_byte(b: &dyn Backend) {
    b.define(NotifyDef::new("sync")).await;
    let values = ["order", "Order", "order ", "órder", "orde%", "order\t"];
    let mut ids = Vec::new();
    for value in values {
        ids.push(b.kill(new("sync").tag(value).ordering_key(value).unique_until_ended(value), None).await);
    }
    for (value, id) in values.into_iter().zip(ids) {
        for Narrowed { name, .. } in NARROWED {
            let filter = match name {
                "tag" => Filter::ended().tag(value),
                "ordering key" => Filter::ended().ordering_key(value),
                _ => Filter::ended().dedupe_key(value),
            };
            assert_eq!(b.found(&filter).await, [id], "{name} {value:?}");
        }
    }
}

pub async fn pages_of_a_filter_break_ties_by_id(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    // All end at the same time, those that the filter selects between the others.
    let notices = (0..20).map(|n| match n % 2 {
        0 => new("sync").tag("x").ordering_key(format!("{n}")),
        _ => new("sync").tag("y"),
    });
    let added = b.add_many(notices.collect()).await.unwrap();
    let selected: Vec<i64> = added.iter().step_by(2).map(|receipt| receipt.id()).collect();
    let live: Vec<i64> = b.pages(&Filter::live().tag("x"), 3).await.concat();
    assert_eq!(live, selected, "live ones, the first id first");
    let claimed = b.claim_slice(def_id, Status::NotSent, 20).await;
    let batch: Vec<_> = claimed.iter().rev().map(|claimed| dead(claimed, Some(ErrorClass::Busy))).collect();
    b.stores().send.settle(&batch).await.unwrap();
    let newest: Vec<i64> = selected.iter().rev().copied().collect();
    let since = b.clock().now() - SECOND;
    for filter in [
        Filter::dead_letters().tag("x"),
        Filter::dead_letters().tag("x").class("busy"),
        Filter::dead_letters().ids(selected.clone()),
        Filter::ended().tag("x").from(since).text("no"),
    ] {
        for each in [1, 2, 3, 9, 10, 11] {
            let pages = b.pages(&filter, each).await;
            assert_eq!(pages.concat(), newest, "{filter}, {each} a page");
            assert_eq!(pages.len(), 10_usize.div_ceil(each), "{filter}, {each} a page: none is empty");
        }
    }
    let preview = b.alice().preview(&Filter::dead_letters().tag("x")).await.unwrap();
    assert_eq!((preview.total.count, preview.first), (10, selected[..5].to_vec()));
}

pub async fn a_text_is_found_in_errors_and_parameters_of_a_time(b: &dyn Backend) {
    b.define(NotifyDef::new("sync")).await;
    let since = b.clock().now();
    let order = |text: &str| NewNotice::new("sync", serde_json::json!({ "order": text })).unwrap();
    let refused = b.add_refused(order("a"), "the credit limit of ü% is used up").await;
    b.clock().advance(10 * SECOND);
    let in_param = b.add_refused(order("credit limit"), "no").await;
    let cancelled = b.add_new(order("credit limit")).await.id();
    b.alice().cancel(cancelled, "x").await.unwrap();
    let text = |text: &str| Filter::ended().from(since).text(text);
    let mut all = b.found(&text("credit limit")).await;
    all.sort_unstable();
    let mut expected = [refused, in_param, cancelled];
    expected.sort_unstable();
    assert_eq!(all, expected);
    assert_eq!(b.found(&Filter::dead_letters().from(since).text("ü%")).await, [refused]);
    assert_eq!(b.found(&Filter::dead_letters().class("invalid").from(since).text("credit")).await, [in_param, refused]);
    assert_eq!(b.found(&Filter::cancelled().from(since).text("credit")).await, [cancelled]);
    assert_eq!(b.found(&text("\"order\":\"a\"")).await, [refused], "the JSON of the parameter");
    for other in ["Credit", "credit%", "credit_limit", "an earlier error", "given up"] {
        assert!(b.found(&text(other)).await.is_empty(), "{other}");
    }
    let later = Filter::ended().from(since + SECOND).text("credit limit");
    assert_eq!(b.counted(&later).await, 2);
    assert_eq!(b.found(&Filter::ended().from(since).until(since + SECOND).text("credit")).await, [refused]);
    let done = b.alice().purge_all(&Filter::dead_letters().from(since).text("used up"), "x").await.unwrap();
    assert_eq!((done.changed, b.outbox().find(refused).await.unwrap().is_none()), (1, true));
}

pub async fn a_text_finds_nothing_that_a_mask_hides(b: &dyn Backend) {
    b.define(NotifyDef::new("pay").mask(r#"["$.card"]"#)).await;
    let since = b.clock().now();
    let pay = || NewNotice::new("pay", serde_json::json!({ "card": "4111222", "order": "o-17" })).unwrap();
    let id = b.add_refused(pay(), "the bank refused 4111222 for now").await;
    let other = b.add_refused(pay(), "the bank is closed").await;
    let text = |text: &str| Filter::dead_letters().from(since).text(text);
    let mut found = b.found(&text("the bank")).await;
    found.sort_unstable();
    assert_eq!(found, [id, other], "the rest of the error is searched");
    assert_eq!(b.counted(&text("refused")).await, 1);
    // Neither the secret, nor a part of it, nor what stands beside it.
    for secret in ["4111222", "411", "refused 4", "222 for", "card", "o-17"] {
        let filter = text(secret);
        assert!(b.found(&filter).await.is_empty(), "{secret}");
        assert_eq!(b.counted(&filter).await, 0, "{secret}");
        let retried = b.alice().retry_all(&filter, Rate::AT_ONCE).await.unwrap();
        let purged = b.alice().purge_all(&filter, "x").await.unwrap();
        assert_eq!((retried.changed, purged.changed), (0, 0), "{secret}");
    }
    assert_eq!(b.alice().purge_all(&text("refused"), "x").await.unwrap().changed, 1);
    // By an edit that removes the mask, the values are no longer secret.
    let row = b.definition("pay").await;
    let mut unmasked = row.clone();
    unmasked.mask = None;
    b.outbox().update(&row, unmasked).await.unwrap();
    assert_eq!(b.found(&text("o-17")).await, [other]);
}

pub async fn a_purge_deletes_what_its_filter_selects_and_is_audited(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let tagged = || new("sync").tag("x");
    let mut gone = vec![b.kill(tagged(), None).await];
    gone.push(b.add_new(tagged()).await.id());
    b.settle_one(succeed(&b.claim_one(def_id).await)).await;
    let kept = [b.kill(new("sync").tag("y"), None).await, b.add_dead("sync", None).await];
    let live = b.add_new(tagged()).await.id();
    b.clock().advance(SECOND);
    for refused in [Filter::live(), Filter::waiting(), Filter::status(Status::Sending)] {
        let refused = b.alice().purge_all(&refused.tag("x"), "x").await;
        assert!(matches!(refused, Err(Error::Invalid { what: "filter", .. })), "{refused:?}");
    }
    let done = b.alice().purge_all(&Filter::ended().tag("x"), "asked for").await.unwrap();
    assert_eq!((done.changed, done.dedupe_key_taken, done.passed_over, done.last_due), (2, 0, 0, None));
    for id in &gone {
        assert!(b.outbox().find(*id).await.unwrap().is_none());
        let entry = b.audit_of(*id).await.remove(0);
        assert_eq!((entry.who.as_str(), entry.act.as_str(), entry.def_id), ("alice", "purge", Some(def_id)));
        assert_eq!(entry.notice_ids, [*id], "a step for each state");
        let detail = entry.detail.unwrap();
        assert!(detail.contains("tag x") && detail.contains("reason: asked for"), "{detail}");
    }
    for id in kept.into_iter().chain([live]) {
        assert!(b.outbox().find(id).await.unwrap().is_some());
    }
    assert_eq!(b.counted(&Filter::ended().tag("x")).await, 0);
    assert_eq!(b.found(&Filter::live().tag("x")).await, [live]);
    let again = b.alice().purge_all(&Filter::ended().tag("x"), "asked for").await.unwrap();
    assert_eq!((again.changed, b.audit(&AuditFilter::all().act("purge")).await.len()), (0, 2));
}

pub async fn a_purge_of_many_takes_steps_and_only_what_is_as_it_was_seen(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let all = b.add_many_dead(def_id, "sync", 1100).await;
    let due = b.clock().now();
    let step = |verb: BulkVerb, status, id: i64, fence| {
        let (who, filter) = ("alice".to_owned(), "these".to_owned());
        let slices = vec![SliceOfStep { def_id, status, notices: vec![Target { id, fence, due }] }];
        BulkStep { slices, verb, who, filter, act: None }
    };
    let purge = || BulkVerb::Purge { reason: "x".to_owned() };
    let operate = &b.stores().operate;
    let stale = operate.change_step(&step(purge(), Status::DeadLetter, all[0], 0)).await.unwrap();
    assert_eq!((stale.changed.len(), stale.purged.len()), (0, 0), "it was claimed again since it was seen");
    let seen = step(purge(), Status::DeadLetter, all[1], 1);
    b.alice().retry(all[1]).await.unwrap();
    assert!(operate.change_step(&seen).await.unwrap().changed.is_empty(), "it is live again");
    let live = operate.change_step(&step(purge(), Status::Failed, all[1], 1)).await.unwrap();
    assert!(live.changed.is_empty() && b.record(all[1]).await.status == Status::Failed, "live ones never");
    let done = operate.change_step(&step(purge(), Status::DeadLetter, all[2], 1)).await.unwrap();
    let purged = &done.purged[0];
    assert_eq!((done.changed.as_slice(), purged.id, purged.tries), (&[all[2]][..], all[2], 5));
    assert_eq!((purged.class.as_deref(), purged.error.as_deref()), (Some("busy"), Some("no")));
    assert_eq!(purged.reason.as_deref(), Some("given up"));
    let done = b.alice().purge_all(&Filter::dead_letters(), "x").await.unwrap();
    assert_eq!((done.changed, b.counted(&Filter::ended()).await), (1098, 0));
    assert_eq!(b.audit(&AuditFilter::all().act("purge")).await.len(), 4, "an entry a step");
}

pub async fn a_bad_filter_is_refused_by_each_call(b: &dyn Backend) {
    b.define(NotifyDef::new("sync")).await;
    let alice = b.alice();
    for (filter, expected) in [
        (Filter::dead_letters().tag(""), "its tag has 0 characters; it may have 1 to 200"),
        (Filter::dead_letters().ids(0..1001), "it has 1001 ids; it may have 1 to 1000"),
        (Filter::dead_letters().text("x"), "add `from(time)`"),
    ] {
        let refusals = [
            alice.list(&filter, None, 1).await.map(drop),
            alice.counts(&filter).await.map(drop),
            alice.preview(&filter).await.map(drop),
            alice.retry_all(&filter, Rate::AT_ONCE).await.map(drop),
            alice.purge_all(&filter, "x").await.map(drop),
        ];
        for refused in refusals {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }
    let refused = alice.groups(&Filter::dead_letters().tag("x")).await.unwrap_err().to_string();
    assert!(refused.contains("by definition and time"), "{refused}");
    let refused = alice.cancel_all(&Filter::waiting().ordering_key("\0"), "x").await.unwrap_err().to_string();
    assert!(refused.contains("its ordering key has 1 characters"), "{refused}");
}
