//! Reading the audit: pages, filters, and all that people did to one notice.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use solid_notify_core::operate::{AuditFilter, Filter, Rate};
use solid_notify_core::store::AuditEntry;
use solid_notify_core::{AlertReason, Error, NotifyDef, Updated};

use super::Backend;

const SECOND: Duration = Duration::from_secs(1);

#[allow(clippy::unwrap_used)]
impl dyn Backend + '_ {
    /// Returns all pages of the audit, with `each` entries per page.
    async fn audit_pages(&self, filter: &AuditFilter, each: usize) -> Vec<Vec<AuditEntry>> {
        let (mut pages, mut after) = (Vec::new(), None);
        loop {
            let page = self.alice().audit(filter, after, each).await.unwrap();
            pages.push(page.entries);
            assert!(pages.len() < 100, "the pages do not end");
            // As it is in a URL.
            let Some(next) = page.next else { return pages };
            after = Some(next.to_string().parse().unwrap());
        }
    }

    /// Returns operators and acts.
    async fn done(&self, filter: &AuditFilter) -> Vec<String> {
        self.audit(filter).await.into_iter().map(|entry| format!("{} {}", entry.who, entry.act)).collect()
    }
}

pub async fn the_audit_is_read_page_by_page_the_latest_first(b: &dyn Backend) {
    let (_, _) = (b.define(NotifyDef::new("sync")).await, b.define(NotifyDef::new("other")).await);
    let mut dead = Vec::new();
    for name in ["sync", "other", "sync", "other"] {
        dead.push(b.add_dead(name, None).await);
    }
    let alice = b.alice();
    for (nth, id) in dead.iter().enumerate() {
        // Entries of one millisecond, of several definitions and of none.
        if nth == 2 {
            b.clock().advance(SECOND);
        }
        alice.retry(*id).await.unwrap();
        alice.pause_all("why").await.unwrap();
        alice.resume_all().await.unwrap();
    }
    let all = b.audit(&AuditFilter::all()).await;
    let acts: Vec<_> = all.iter().map(|entry| (entry.act.as_str(), entry.notice_id)).collect();
    let expected = |id: &i64| [("resume_all", None), ("pause_all", None), ("retry", Some(*id))];
    assert_eq!(acts, dead.iter().rev().flat_map(expected).collect::<Vec<_>>());
    for each in [1, 5, 6, 12, 500] {
        let pages = b.audit_pages(&AuditFilter::all(), each).await;
        assert_eq!(pages.len(), 12_usize.div_ceil(each), "{each}");
        assert!(pages.iter().rev().skip(1).all(|page| page.len() == each));
        assert_eq!(pages.concat(), all, "{each}");
    }
    let filtered = b.audit_pages(&AuditFilter::all().definition("sync"), 1).await.concat();
    assert_eq!(filtered.iter().map(|entry| entry.notice_id).collect::<Vec<_>>(), [Some(dead[2]), Some(dead[0])]);

    let first = alice.audit(&AuditFilter::all(), None, 3).await.unwrap();
    alice.pause_all("later").await.unwrap();
    let second = alice.audit(&AuditFilter::all(), first.next, 3).await.unwrap();
    assert_eq!(second.entries, all[3..6], "an entry that was written meanwhile shifts nothing");
}

pub async fn the_audit_is_filtered_by_what_it_is_about_by_whom_and_when(b: &dyn Backend) {
    let (sync, other) = (b.define(NotifyDef::new("sync")).await, b.define(NotifyDef::new("other")).await);
    let (dead, elsewhere) = (b.add_dead("sync", None).await, b.add_dead("other", None).await);
    let (alice, bob) = (b.alice(), b.outbox().operator("bob"));
    let began = b.clock().now();
    alice.retry(dead).await.unwrap();
    b.clock().advance(SECOND);
    bob.retry(elsewhere).await.unwrap();
    let row = b.definition("sync").await;
    let edited = bob.edit_definition(&row, row.clone().timeout("9s")).await.unwrap();
    assert!(matches!(edited, Updated::Stored(_)), "{edited:?}");
    b.clock().advance(SECOND);
    alice.cancel(dead, "no").await.unwrap();
    alice.silence("sync", AlertReason::FinalFailure, b.clock().now() + SECOND, "why").await.unwrap();
    let all = AuditFilter::all;
    assert_eq!(b.done(&all()).await, ["alice silence", "alice cancel", "bob edited", "bob retry", "alice retry"]);
    let of_sync = ["alice silence", "alice cancel", "bob edited", "alice retry"];
    assert_eq!(b.done(&all().definition("sync")).await, of_sync);
    assert_eq!(b.done(&all().definition(sync)).await, of_sync);
    assert_eq!(b.done(&all().definition(other)).await, ["bob retry"]);
    assert_eq!(b.done(&all().notice(dead)).await, ["alice cancel", "alice retry"]);
    assert!(b.done(&all().notice(dead).definition("other")).await.is_empty());
    assert_eq!(b.done(&all().who("bob")).await, ["bob edited", "bob retry"]);
    assert!(b.done(&all().who("Bob")).await.is_empty(), "names are compared byte by byte");
    assert_eq!(b.done(&all().act("retry")).await, ["bob retry", "alice retry"]);
    assert_eq!(b.done(&all().act("retry").who("alice")).await, ["alice retry"]);
    assert_eq!(b.done(&all().act("retry").definition("other")).await, ["bob retry"]);
    assert_eq!(b.done(&all().notice(dead).act("cancel")).await, ["alice cancel"]);
    let middle = began + SECOND;
    assert_eq!(b.done(&all().from(middle)).await, ["alice silence", "alice cancel", "bob edited", "bob retry"]);
    assert_eq!(b.done(&all().until(middle)).await, ["bob edited", "bob retry", "alice retry"]);
    assert_eq!(b.done(&all().from(middle).until(middle)).await, ["bob edited", "bob retry"]);
    assert_eq!(b.audit_pages(&all().until(middle).who("bob"), 1).await.len(), 2);
    assert_eq!(b.done(&all().notice(dead).until(began)).await, ["alice retry"]);
    let unknown = alice.audit(&all().definition("sink"), None, 10).await;
    assert!(matches!(unknown, Err(Error::UnknownDefinition { .. })), "{unknown:?}");
}

pub async fn the_audit_of_a_notice_has_the_steps_that_changed_it(b: &dyn Backend) {
    b.define(NotifyDef::new("sync")).await;
    b.define(NotifyDef::new("other")).await;
    let mut dead = Vec::new();
    for name in ["sync", "other", "sync", "sync"] {
        dead.push(b.add_dead(name, None).await);
    }
    let alice = b.alice();
    assert!(alice.retry(dead[2]).await.unwrap().is_applied());
    b.clock().advance(SECOND);
    let filter = Filter::dead_letters().definition("sync");
    assert_eq!(alice.retry_all(&filter, Rate::AT_ONCE).await.unwrap().changed, 2);
    b.clock().advance(SECOND);
    assert_eq!(alice.cancel_all(&Filter::waiting().definition("sync"), "no").await.unwrap().changed, 3);
    let of = async |id: i64| b.done(&AuditFilter::all().notice(id)).await;
    assert_eq!(of(dead[0]).await, ["alice cancel", "alice retry"]);
    assert!(of(dead[1]).await.is_empty(), "its id is between those of the steps");
    assert_eq!(of(dead[2]).await, ["alice cancel", "alice retry"]);
    assert_eq!(of(dead[3]).await, ["alice cancel", "alice retry"]);
    assert!(of(dead[0] + 100_000_000).await.is_empty());
    let steps = b.audit(&AuditFilter::all().notice(dead[0])).await;
    let ids: Vec<_> = steps.iter().map(|entry| (entry.notice_id, entry.notice_ids.clone())).collect();
    assert_eq!(ids, [(None, vec![dead[0], dead[2], dead[3]]), (None, vec![dead[0], dead[3]])]);
    assert_eq!(b.audit_pages(&AuditFilter::all().notice(dead[2]), 1).await.concat().len(), 2);
    assert_eq!(b.done(&AuditFilter::all().notice(dead[0]).act("cancel")).await, ["alice cancel"]);
}

pub async fn the_audit_of_a_definition_whose_row_is_gone_is_found_by_its_id(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let row = b.definition("sync").await;
    b.alice().edit_definition(&row, row.clone().timeout("9s")).await.unwrap();
    b.delete_by_hand(def_id).await;
    assert_eq!(b.done(&AuditFilter::all().definition(def_id)).await, ["alice edited"]);
}
