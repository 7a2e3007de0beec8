//! The steps of bulk verbs and bulk acts over several definitions: each step is full, belongs to a claim, and changes what it has read.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use chrono::{DateTime, Utc};
use solid_notify_core::limit::Rate;
use solid_notify_core::operate::{AfterStep, AuditFilter};
use solid_notify_core::store::{ActFence, BulkStep, BulkVerb, SliceOfStep, Target};
use solid_notify_core::{Filter, NewNotice, NotifyDef, Status};

use super::Backend;
use super::operating::dead;

const SECOND: Duration = Duration::from_secs(1);

/// More definitions than a step would have notices at the rates of most acts.
const DEFINITIONS: usize = 40;

impl dyn Backend + '_ {
    /// Cancels a notice of each of many definitions. Returns the ids of the definitions, and of their notices.
    async fn cancelled_of_many(&self) -> Vec<(i64, i64)> {
        let mut made = Vec::new();
        for number in 0..DEFINITIONS {
            let name = format!("sync_{number}");
            let def_id = self.define(NotifyDef::new(name.as_str())).await;
            made.push((def_id, self.add_to(&name).await));
        }
        let cancelled = self.alice().cancel_all(&Filter::waiting(), "not now").await.unwrap();
        assert_eq!((cancelled.changed, cancelled.passed_over), (made.len() as u64, 0));
        made
    }

    /// Each definition has one entry of this verb, with its notice.
    async fn audits_each(&self, made: &[(i64, i64)], act: &str) {
        for (def_id, id) in made {
            let entries = self.audit(&AuditFilter::all().act(act).definition(*def_id)).await;
            let ids: Vec<_> = entries.iter().map(|entry| entry.notice_ids.as_slice()).collect();
            assert_eq!(ids, [&[*id][..]], "{entries:?}");
            let detail = entries[0].detail.as_deref().unwrap();
            assert!(detail.contains(&format!("1 notices, ids {id} to {id}")), "{detail}");
        }
    }
}

pub async fn step_changes_notices_of_many_definitions(b: &dyn Backend) {
    let made = b.cancelled_of_many().await;
    b.audits_each(&made, "cancel").await;
    let done = b.alice().retry_all(&Filter::cancelled(), Rate::AT_ONCE).await.unwrap();
    assert_eq!((done.changed, done.passed_over), (made.len() as u64, 0));
    b.audits_each(&made, "retry").await;
    for (_, id) in &made {
        assert_eq!(b.record(*id).await.status, Status::NotSent);
    }
    b.alice().cancel_all(&Filter::waiting(), "once more").await.unwrap();
    b.clock().advance(SECOND);
    let started = b.alice().start_purge_all(&Filter::cancelled(), "old", Rate::AT_ONCE).await.unwrap();
    let mut run = b.run_act(&b.claim_one(b.definition("notify.bulk").await.id).await).await;
    assert_eq!(run.step().await.unwrap(), AfterStep::Ended, "a single step");
    let act = started.progress().await.unwrap().unwrap().act.unwrap();
    assert_eq!((act.done.steps, act.done.changed), (1, made.len() as u64));
    b.audits_each(&made, "purge").await;
    assert_eq!(b.counted(&Filter::ended()).await, 0);
}

/// The act continues behind the definition and the notice that its last step has reached.
pub async fn step_of_many_definitions_ends_at_its_rate(b: &dyn Backend) {
    let made = b.cancelled_of_many().await;
    b.clock().advance(SECOND);
    let rate = "1/1s".parse().unwrap();
    let started = b.alice().start_purge_all(&Filter::cancelled(), "old", rate).await.unwrap();
    let claimed = b.claim_one(b.definition("notify.bulk").await.id).await;
    for (step, left) in [(1, 29), (2, 18)] {
        // Each is that of an attempt of its own, which reads the stored progress.
        let param = b.record(claimed.id).await.param;
        let mut run = b.run_act(&solid_notify_core::notice::ClaimedNotice { param, ..claimed.clone() }).await;
        assert_eq!(run.step().await.unwrap(), AfterStep::Next);
        let act = started.progress().await.unwrap().unwrap().act.unwrap();
        assert_eq!((act.done.steps, b.counted(&Filter::cancelled()).await), (step, left), "{act:?}");
        b.clock().advance(11 * SECOND);
    }
    for (_, id) in &made[..22] {
        assert!(b.outbox().find(*id).await.unwrap().is_none(), "in the order of their definitions");
    }
}

pub async fn step_compares_each_dedupe_key_in_its_definition(b: &dyn Backend) {
    let (mut ids, mut live) = (Vec::new(), Vec::new());
    for name in ["one", "two"] {
        let def_id = b.define(NotifyDef::new(name)).await;
        for key in ["a", "b"] {
            let keyed = || NewNotice::new(name, 1).unwrap().unique_until_ended(key);
            b.add_new(keyed()).await;
            let claimed = b.claim_one(def_id).await;
            b.settle_one(dead(&claimed, None)).await;
            ids.push(claimed.id);
            if (name, key) == ("one", "a") || (name, key) == ("two", "b") {
                live.push(keyed());
            }
        }
    }
    for notice in live {
        b.add_new(notice).await;
    }
    let done = b.alice().retry_all(&Filter::dead_letters(), Rate::AT_ONCE).await.unwrap();
    assert_eq!((done.changed, done.dedupe_key_taken, done.passed_over), (2, 2, 0));
    let mut revived = Vec::new();
    for id in &ids {
        revived.push(b.record(*id).await.status != Status::DeadLetter);
    }
    assert_eq!(revived, [false, true, true, false]);
}

pub async fn step_of_an_act_whose_claim_was_lost_changes_nothing(b: &dyn Backend) {
    let mut slices = Vec::new();
    for name in ["one", "two"] {
        let def_id = b.define(NotifyDef::new(name)).await;
        slices.push((def_id, b.add_many_dead(def_id, name, 2).await));
    }
    let acts = b.define(NotifyDef::new("acts")).await;
    b.add_new(NewNotice::new("acts", 1).unwrap()).await;
    let claimed = b.claim_one(acts).await;
    let now = b.clock().now();
    let step = |nth: usize, fence: i64, lease_end: DateTime<Utc>| {
        let slices = slices.iter().map(|(def_id, dead)| {
            let notices = vec![Target { id: dead[nth], fence: 1, due: now }];
            SliceOfStep { def_id: *def_id, status: Status::DeadLetter, notices }
        });
        let act = Some(ActFence { id: claimed.id, fence, lease_end });
        let (verb, who) = (BulkVerb::Purge { reason: "x".to_owned() }, "alice".to_owned());
        BulkStep { slices: slices.collect(), verb, who, filter: "these".to_owned(), act }
    };
    let operate = &b.stores().operate;
    let late = operate.change_step(&step(0, claimed.fence - 1, now)).await.unwrap();
    assert!(late.is_late && late.changed.is_empty() && late.purged.is_empty(), "{late:?}");
    assert!(b.audit(&AuditFilter::all().act("purge")).await.is_empty());
    let mut in_time = operate.change_step(&step(1, claimed.fence, now + 60 * SECOND)).await.unwrap();
    in_time.changed.sort_unstable();
    let mut expected = [slices[0].1[1], slices[1].1[1]];
    expected.sort_unstable();
    assert_eq!((in_time.is_late, in_time.changed.as_slice()), (false, &expected[..]));
    let mut purged: Vec<i64> = in_time.purged.iter().map(|row| row.id).collect();
    purged.sort_unstable();
    assert_eq!(purged, expected);
}
