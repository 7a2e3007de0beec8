//! Definitions as a whole: what a plan shows, what applying it stores, and what it never touches.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use futures_util::future::join_all;
use solid_notify_core::definition::Definitions;
use solid_notify_core::operate::{Applied, AuditFilter};
use solid_notify_core::{ALERT_DEFINITION, DEAD_LETTERS_DEFINITION, NotifyDef, PURGE_DEFINITION, Updated};

use super::{Backend, fail};

fn listed(rows: impl IntoIterator<Item = NotifyDef>) -> Definitions {
    Definitions::of(rows).unwrap()
}

fn names(rows: &[NotifyDef]) -> Vec<&str> {
    rows.iter().map(|row| row.name.as_str()).collect()
}

/// Returns the authors and acts of all versions of a definition, the latest first.
async fn acts(b: &dyn Backend, def_id: i64) -> Vec<(String, String)> {
    let versions = b.outbox().operator("alice").versions(def_id).await.unwrap();
    versions.into_iter().map(|version| (version.who, version.act)).collect()
}

fn act(who: &str, act: &str) -> (String, String) {
    (who.to_owned(), act.to_owned())
}

pub async fn a_plan_shows_each_change_and_applying_it_makes_them(b: &dyn Backend) {
    let same = b.define(NotifyDef::new("same").timeout("9s")).await;
    let changed = b.define(NotifyDef::new("changed").handler("h").retry_interval("[1m,1h]")).await;
    b.define(NotifyDef::new("elsewhere")).await;
    b.define(NotifyDef::new(ALERT_DEFINITION)).await;
    b.add_to("changed").await;
    b.settle_one(fail(&b.claim_one(changed).await, Duration::from_secs(60))).await;
    b.add_to("changed").await;
    let new = NotifyDef::new("changed").handler("h").retry_interval("[1m,5m]");
    let definitions = listed([NotifyDef::new("missing"), new.clone(), NotifyDef::new("same").timeout("9s")]);

    let plan = b.outbox().plan_all(&definitions).await.unwrap();
    assert_eq!((names(&plan.create), names(&plan.unchanged)), (vec!["missing"], vec!["same"]));
    assert_eq!(
        (names(&plan.delete), names(&plan.keep)),
        (vec![], vec!["elsewhere"]),
        "built-in ones are not mentioned"
    );
    let [change] = &plan.change[..] else { panic!("{plan}") };
    assert_eq!(change.seen, b.definition("changed").await);
    let expected = b.outbox().operator("alice").preview_edit(&change.seen, &change.new).await.unwrap();
    assert_eq!(change.preview, expected);
    assert_eq!((change.preview.retries.count, change.preview.not_sent.count), (1, 1));
    let text = plan.to_string();
    for line in
        ["create missing\n", "change changed: retry_interval: ", "\n  waiting retries, which keep their times: 1\n"]
    {
        assert!(text.contains(line), "{line:?} in {text}");
    }
    assert_eq!(b.outbox().definitions().await.unwrap().len(), 4, "a plan changes nothing");

    b.clock().advance(Duration::from_secs(1));
    let applied = b.outbox().operator("release 7").apply_plan(plan).await.unwrap();
    assert_eq!((names(&applied.created), names(&applied.changed)), (vec!["missing"], vec!["changed"]));
    assert_eq!((names(&applied.unchanged), names(&applied.kept)), (vec!["same"], vec!["elsewhere"]));
    assert_eq!((applied.deleted.len(), applied.conflicts.len()), (0, 0), "{applied}");
    let row = b.definition("changed").await;
    assert_eq!((&row, row.id, row.update_time), (&applied.changed[0], changed, Some(b.clock().now())));
    assert!(row.differences(&new).is_empty());
    assert_eq!(acts(b, changed).await, [act("release 7", "edited"), act("application", "created")]);
    assert_eq!(acts(b, b.definition("missing").await.id).await, [act("release 7", "created")]);
    assert_eq!(acts(b, same).await, [act("application", "created")]);
    assert!(b.outbox().plan_all(&definitions).await.unwrap().changes_nothing());
}

pub async fn applying_what_is_stored_writes_nothing(b: &dyn Backend) {
    let rows = [
        NotifyDef::new("sync")
            .description("Ün\"icode\" 😀\nand a line")
            .max_retry_times(-1)
            .retry_rules("{\"busy\": 9}"),
        NotifyDef::new("notify.alert").max_retry_times(3).email("a@b.c"),
    ];
    let created = b.outbox().apply(listed(rows.clone())).await.unwrap();
    assert_eq!(names(&created.created), ["sync", "notify.alert"]);
    let before = b.outbox().definitions().await.unwrap();
    b.clock().advance(Duration::from_secs(60));
    let again = b.outbox().apply(listed(rows)).await.unwrap();
    assert_eq!((&again.unchanged, again.to_string().as_str()), (&created.created, "unchanged: sync, notify.alert"));
    assert_eq!(b.outbox().definitions().await.unwrap(), before, "also their times");
    for row in created.created {
        assert_eq!(acts(b, row.id).await, [act("application", "created")]);
    }
    assert!(b.audit(&AuditFilter::all()).await.is_empty());
}

pub async fn a_row_that_was_edited_since_the_plan_is_not_touched(b: &dyn Backend) {
    for name in ["edited", "renamed", "gone", "left_out"] {
        b.define(NotifyDef::new(name)).await;
    }
    let of_file = |name: &str| NotifyDef::new(name).timeout("9s");
    let wanted = || listed(["edited", "renamed", "gone", "created", "same"].map(of_file)).delete_missing();
    let plan = b.outbox().plan_all(&wanted()).await.unwrap();
    assert_eq!((plan.create.len(), plan.change.len(), plan.delete.len()), (2, 3, 1), "{plan}");

    let alice = b.outbox().operator("alice");
    for name in ["edited", "left_out"] {
        let seen = b.definition(name).await;
        let edited = alice.edit_definition(&seen, seen.clone().timeout("1s")).await.unwrap();
        assert!(matches!(edited, Updated::Stored(_)), "{edited:?}");
    }
    let seen = b.definition("renamed").await;
    let mut renamed = seen.clone();
    renamed.name = "by alice".to_owned();
    assert!(matches!(alice.edit_definition(&seen, renamed).await.unwrap(), Updated::Stored(_)));
    let deleted = alice.delete_definition(&b.definition("gone").await).await.unwrap();
    assert!(matches!(deleted, Updated::Stored(_)), "{deleted:?}");
    b.define(NotifyDef::new("created").timeout("1s")).await;
    b.define(of_file("same")).await;
    let before = b.outbox().definitions().await.unwrap();

    let applied = b.outbox().apply_plan(plan).await.unwrap();
    assert_eq!(applied.conflicts, ["created", "edited", "renamed", "gone", "left_out"]);
    assert_eq!(names(&applied.unchanged), ["same"], "another process stored what the plan wants");
    assert_eq!((applied.created.len(), applied.changed.len(), applied.deleted.len()), (0, 0, 0), "{applied}");
    assert_eq!(b.outbox().definitions().await.unwrap(), before);

    let applied = b.outbox().apply(wanted()).await.unwrap();
    assert!(applied.conflicts.is_empty(), "a new plan has seen the edits: {applied}");
    assert!(b.outbox().plan_all(&wanted()).await.unwrap().changes_nothing());
}

pub async fn what_is_not_listed_is_deleted_only_if_asked_and_never_if_built_in(b: &dyn Backend) {
    for name in ["kept", "left_out", ALERT_DEFINITION, PURGE_DEFINITION] {
        b.define(NotifyDef::new(name)).await;
    }
    let (left_out, definitions) = (b.definition("left_out").await.id, || listed([NotifyDef::new("kept")]));
    let id = b.add_to("left_out").await;
    let applied = b.outbox().apply(definitions()).await.unwrap();
    assert_eq!((names(&applied.unchanged), names(&applied.kept)), (vec!["kept"], vec!["left_out"]));
    b.definition("left_out").await;

    let applied = b.outbox().apply(definitions().delete_missing()).await.unwrap();
    assert_eq!((names(&applied.deleted), names(&applied.unchanged)), (vec!["left_out"], vec!["kept"]));
    let states = b.outbox().definitions().await.unwrap();
    let living: Vec<&str> = states.iter().filter(|it| it.deleted().is_none()).map(|it| it.row.name.as_str()).collect();
    assert_eq!(living, ["kept", ALERT_DEFINITION, PURGE_DEFINITION]);
    assert_eq!(b.claim_one(left_out).await.id, id, "its live notice is still sent");
    let again = b.outbox().apply(definitions().delete_missing()).await.unwrap();
    assert_eq!((again.deleted.len(), again.kept.len()), (0, 0), "a deleted row is deleted once: {again}");

    let empty = b.outbox().apply(listed([]).delete_missing()).await.unwrap_err().to_string();
    assert!(empty.contains("would delete every definition"), "{empty}");
    b.definition("kept").await;
}

pub async fn a_list_that_names_a_built_in_definition_edits_its_row(b: &dyn Backend) {
    let of_file = |name: &str| NotifyDef::new(name).max_retry_times(3).email("a@b.c");
    let wanted = || listed([of_file(ALERT_DEFINITION), of_file(PURGE_DEFINITION), of_file(DEAD_LETTERS_DEFINITION)]);
    b.define(NotifyDef::new(ALERT_DEFINITION)).await;
    let plan = b.outbox().plan_all(&wanted()).await.unwrap();
    assert_eq!((plan.create.len(), plan.change.len()), (2, 1), "{plan}");
    // A sweeper starts, and an operator edits one of its rows.
    b.define(NotifyDef::new(PURGE_DEFINITION)).await;
    b.define(NotifyDef::new(DEAD_LETTERS_DEFINITION)).await;
    let seen = b.definition(DEAD_LETTERS_DEFINITION).await;
    let edited = b.outbox().operator("alice").edit_definition(&seen, seen.clone().timeout("1s")).await.unwrap();
    assert!(matches!(edited, Updated::Stored(_)), "{edited:?}");
    let applied = b.outbox().apply_plan(plan).await.unwrap();
    assert_eq!((applied.created.len(), names(&applied.changed)), (0, vec![PURGE_DEFINITION, ALERT_DEFINITION]));
    assert_eq!(applied.conflicts, [DEAD_LETTERS_DEFINITION], "the operator's edit is not overwritten unseen");
    assert!(b.definition(PURGE_DEFINITION).await.differences(&of_file(PURGE_DEFINITION)).is_empty());
    let applied = b.outbox().apply(wanted()).await.unwrap();
    assert_eq!((names(&applied.changed), applied.conflicts.len()), (vec![DEAD_LETTERS_DEFINITION], 0), "{applied}");
    assert!(b.outbox().plan_all(&wanted()).await.unwrap().changes_nothing());
}

pub async fn the_rows_of_a_table_applied_to_it_change_nothing(b: &dyn Backend) {
    for row in [NotifyDef::new("sync").email("").max_retry_times(-1), NotifyDef::new(PURGE_DEFINITION).timeout("1h")] {
        b.define(row).await;
    }
    let mut alerts = NotifyDef::new(ALERT_DEFINITION);
    (alerts.max_retry_times, alerts.retry_rules) = (None, None);
    b.define(alerts).await;
    b.define(NotifyDef::new("gone")).await;
    b.outbox().delete(&b.definition("gone").await).await.unwrap();
    let rows = async || b.outbox().definitions().await.unwrap().into_iter().map(|state| state.row).collect::<Vec<_>>();
    let before = rows().await;
    let exported = listed(before.clone());
    assert_eq!(names(exported.rows()), [ALERT_DEFINITION, PURGE_DEFINITION, "sync"], "no deleted row is a definition");
    let applied = b.outbox().apply(exported.delete_missing()).await.unwrap();
    assert_eq!((applied.unchanged.len(), applied.created.len() + applied.changed.len()), (3, 0), "{applied}");
    assert_eq!(rows().await, before);
}

pub async fn of_ten_who_apply_at_once_each_change_is_made_once(b: &dyn Backend) {
    let changed = b.define(NotifyDef::new("changed")).await;
    let left_out = b.define(NotifyDef::new("left_out")).await;
    let definitions =
        || listed(["one", "two", "changed"].map(|name| NotifyDef::new(name).timeout("9s"))).delete_missing();
    let all = join_all((0..10).map(|_| b.outbox().apply(definitions()))).await;
    let all: Vec<Applied> = all.into_iter().map(Result::unwrap).collect();
    assert!(all.iter().all(|applied| applied.conflicts.is_empty()), "{all:?}");
    let count = |of: fn(&Applied) -> &Vec<NotifyDef>| all.iter().map(|applied| of(applied).len()).sum::<usize>();
    assert_eq!(count(|applied| &applied.created), 2);
    assert_eq!(count(|applied| &applied.changed), 1);
    assert_eq!(count(|applied| &applied.deleted), 1);
    assert_eq!(count(|applied| &applied.unchanged), 27);
    for name in ["one", "two"] {
        assert_eq!(acts(b, b.definition(name).await.id).await, [act("application", "created")]);
    }
    assert_eq!(acts(b, changed).await, [act("application", "edited"), act("application", "created")]);
    assert_eq!(acts(b, left_out).await, [act("application", "deleted"), act("application", "created")]);
    assert!(b.outbox().plan_all(&definitions()).await.unwrap().changes_nothing());
}
