//! Definitions: creating, changing and deleting them.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use futures_util::future::join_all;
use solid_notify_core::outbox::Plan;
use solid_notify_core::store::{Purge, Settled};
use solid_notify_core::transition::Next;
use solid_notify_core::{Defined, Error, NewNotice, NotifyDef, Status, Updated};

use super::{Backend, fail, outcome, succeed};

pub async fn a_definition_with_only_a_name_has_the_documented_defaults(b: &dyn Backend) {
    b.define(NotifyDef::new("sync")).await;
    let mut row = b.definition("sync").await;
    assert!(row.id > 0);
    assert_eq!(row.create_time, Some(b.clock().now()));
    assert_eq!(row.update_time, row.create_time);
    (row.id, row.create_time, row.update_time) = (0, None, None);
    assert_eq!(row, NotifyDef::new("sync"));
}

pub async fn every_column_of_a_definition_is_kept(b: &dyn Backend) {
    let mut def = NotifyDef::new("sync")
        .handler("omp")
        .description("Ün\"icode\" 😀")
        .enabled(false)
        .schedule("0 0 3 * * * Asia/Shanghai")
        .schedule_missed("all")
        .send_window("mon-fri 01:00-06:00 Asia/Shanghai")
        .retry_interval("exp(250ms, x1.5, max 1m) ~10%")
        .max_retry_times(-1)
        .max_retry_interval("1h 30m")
        .retry_rules("{\"invalid\":\"never\"}")
        .timeout("2s")
        .alert_trigger_type("after_failures")
        .alert_trigger_fail_times(7)
        .alert_cooldown("1m")
        .email("a@b.c, d@e.f")
        .alert_to("chat")
        .backlog_alert_age("1h")
        .dead_alert_count(9)
        .max_confirm_delay("1d")
        .max_concurrency(3)
        .rate_limit("100/1m")
        .max_concurrency_total(8)
        .breaker_failures(5)
        .breaker_pause("2m")
        .keep_history("none")
        .handler_config("{}")
        .owner("team orders")
        .runbook("https://wiki.example.org/orders")
        .mask(r#"["$.card.number"]"#)
        .encrypt_param(true);
    b.define(def.clone()).await;
    let row = b.definition("sync").await;
    (def.id, def.create_time, def.update_time) = (row.id, row.create_time, row.update_time);
    assert_eq!(row, def);
    let Updated::Stored(changed) = b.outbox().update(&row, row.clone().enabled(true).timeout("3s")).await.unwrap()
    else {
        panic!("the row was as seen")
    };
    assert_eq!(b.definition("sync").await, changed);
    assert_eq!(
        changed.differences(&row).iter().map(|(column, ..)| *column).collect::<Vec<_>>(),
        ["enabled", "timeout"]
    );
    b.define(NotifyDef::target("sync", "erp").target_filter("@.ü == '😀'")).await;
    let target = b.definition("sync/erp").await;
    assert_eq!((target.target_of, target.target_filter.as_deref()), (Some(row.id), Some("@.ü == '😀'")));
}

pub async fn define_creates_what_is_missing_and_never_changes_what_is_there(b: &dyn Backend) {
    let first = b.outbox().define_if_missing(NotifyDef::new("sync").timeout("9s")).await.unwrap();
    assert!(matches!(first, Defined::Created(_)), "{first:?}");
    let same = b.outbox().define_if_missing(NotifyDef::new("sync").timeout("9s")).await.unwrap();
    assert!(matches!(same, Defined::Same(_)), "{same:?}");
    let other = b.outbox().define_if_missing(NotifyDef::new("sync").timeout("1s")).await.unwrap();
    let Defined::Kept { differences, .. } = other else { panic!("{other:?}") };
    assert_eq!(differences.iter().map(|(column, ..)| *column).collect::<Vec<_>>(), ["timeout"]);
    assert_eq!(b.definition("sync").await.timeout, "9s");
}

pub async fn an_update_succeeds_only_if_the_row_is_still_what_the_editor_saw(b: &dyn Backend) {
    b.define(NotifyDef::new("sync")).await;
    let seen = b.definition("sync").await;
    b.clock().advance(std::time::Duration::from_secs(1));
    let done = b.outbox().update(&seen, seen.clone().timeout("1s")).await.unwrap();
    let Updated::Stored(row) = done else { panic!("{done:?}") };
    assert_eq!((row.timeout.as_str(), row.update_time), ("1s", Some(b.clock().now())));
    assert_eq!(row.create_time, seen.create_time);
    // The second editor saw the row before the first one's change.
    let conflict = b.outbox().update(&seen, seen.clone().timeout("2s")).await.unwrap();
    assert_eq!(conflict, Updated::Conflict(row.clone()));
    assert_eq!(b.outbox().delete(&seen).await.unwrap(), Updated::Conflict(row));
    assert_eq!(b.definition("sync").await.timeout, "1s");
    let mut stranger = seen.clone();
    stranger.id += 1000;
    assert_eq!(b.outbox().update(&stranger, seen).await.unwrap(), Updated::Missing);
}

pub async fn a_name_that_is_taken_cannot_be_given_twice(b: &dyn Backend) {
    b.define(NotifyDef::new("one")).await;
    b.define(NotifyDef::new("two")).await;
    let (one, two) = (b.definition("one").await, b.definition("two").await);
    let mut renamed = two.clone();
    renamed.name = "one".to_owned();
    assert_eq!(b.outbox().update(&two, renamed).await.unwrap(), Updated::Conflict(one.clone()));
    let mut renamed = two.clone();
    renamed.name = "three".to_owned();
    assert!(matches!(b.outbox().update(&two, renamed).await.unwrap(), Updated::Stored(_)));
    assert_eq!(b.definition("three").await.id, two.id);
    assert_eq!(b.definition("one").await, one);
}

pub async fn a_deleted_definition_takes_no_notices_and_frees_its_name(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let id = b.add_to("sync").await;
    let seen = b.definition("sync").await;
    let deleted = b.outbox().delete(&seen).await.unwrap();
    let Updated::Stored(row) = deleted else { panic!("{deleted:?}") };
    assert_eq!(row.delete_time, Some(b.clock().now()));
    assert_eq!(row.handler_name(), "sync", "notices in flight still find their handler");
    assert!(matches!(b.add(NewNotice::new("sync", 1).unwrap()).await, Err(Error::UnknownDefinition { .. })));
    assert!(b.add(NewNotice::new(row.name.clone(), 1).unwrap()).await.is_err());
    assert_eq!(b.claim_one(def_id).await.id, id, "its notice in flight is still due");
    assert_eq!(b.outbox().delete(&row).await.unwrap(), Updated::Missing);
    let again = b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let Defined::Created(new) = again else { panic!("{again:?}") };
    assert_ne!(new.id, def_id);
}

pub async fn an_invalid_definition_is_refused_with_every_wrong_column(b: &dyn Backend) {
    let bad = NotifyDef::new("sync").timeout("soon").retry_interval("[5s");
    let error = b.outbox().define_if_missing(bad.clone()).await.unwrap_err().to_string();
    assert!(error.contains("timeout") && error.contains("retry_interval") && error.contains("soon"), "{error}");
    assert!(b.outbox().definitions().await.unwrap().is_empty());
    b.define(NotifyDef::new("sync")).await;
    let seen = b.definition("sync").await;
    assert!(b.outbox().update(&seen, bad).await.is_err());
    assert_eq!(b.definition("sync").await, seen);
}

pub async fn of_many_who_define_at_once_one_creates(b: &dyn Backend) {
    let all = join_all((0..8).map(|_| b.outbox().define_if_missing(NotifyDef::new("sync")))).await;
    let created = all.into_iter().filter(|defined| matches!(defined.as_ref().unwrap(), Defined::Created(_))).count();
    assert_eq!(created, 1);
    assert_eq!(b.outbox().definitions().await.unwrap().len(), 1);
}

pub async fn the_code_wins_where_it_replaces_a_definition(b: &dyn Backend) {
    let in_code = NotifyDef::new("sync").timeout("9s");
    assert_eq!(b.outbox().plan(&in_code).await.unwrap(), Plan::Create);
    let Defined::Created(created) = b.outbox().define_or_replace(in_code.clone()).await.unwrap() else {
        panic!("it was missing")
    };
    let same = b.outbox().define_or_replace(in_code.clone()).await.unwrap();
    assert_eq!(same, Defined::Same(created.clone()));
    let Updated::Stored(edited) = b.outbox().update(&created, created.clone().timeout("1s")).await.unwrap() else {
        panic!("nothing else edits it")
    };
    let Plan::Replace { row, differences } = b.outbox().plan(&in_code).await.unwrap() else { panic!("it differs") };
    assert_eq!((&row, differences.len(), differences[0].0), (&edited, 1, "timeout"));
    let Defined::Replaced { row, .. } = b.outbox().define_or_replace(in_code).await.unwrap() else {
        panic!("it differs")
    };
    assert_eq!((row.id, row.timeout.as_str()), (created.id, "9s"));
    let acts: Vec<String> =
        b.outbox().operator("alice").versions("sync").await.unwrap().into_iter().map(|it| it.act).collect();
    assert_eq!(acts, ["edited", "edited", "created"], "each is a version");
}

/// Its row was deleted by hand, beneath live notices.
pub async fn notices_of_a_missing_definition_stay_and_count_nothing(b: &dyn Backend) {
    let def_id = b.define(NotifyDef::new("sync")).await;
    let ids = [b.add_to("sync").await, b.add_to("sync").await, b.add_to("sync").await, b.add_to("sync").await];
    let claimed = b.claim_slice(def_id, Status::NotSent, 3).await;
    assert_eq!(b.settle_one(fail(&claimed[0], Duration::from_secs(60))).await, Settled::Stored);
    b.delete_by_hand(def_id).await;
    // An attempt that was under way hands its notice back, and the process of another one dies.
    let handed_back = Next::Wait { status: Status::NotSent, after: Duration::ZERO };
    assert_eq!(b.settle_one(outcome(&claimed[1], handed_back)).await, Settled::Stored);
    let day = Duration::from_secs(86_400);
    b.clock().advance(10 * day);
    let purges = [
        Purge::Definition { def_id, older_than: day },
        Purge::Orphans { limit: 100 },
        Purge::History { def_id, status: Status::Succeeded, older_than: day, limit: 100 },
    ];
    for purge in purges {
        assert!(b.purge(&purge).await.is_empty(), "{purge:?}");
    }
    b.stores().send.due(true).await.unwrap();
    let mut found = Vec::new();
    for id in ids {
        let record = b.record(id).await;
        found.push((record.status, record.fence, record.failures, record.crashes));
    }
    let expected =
        [(Status::Failed, 1, 1, 0), (Status::NotSent, 1, 0, 0), (Status::Sending, 1, 0, 0), (Status::NotSent, 0, 0, 0)];
    assert_eq!(found, expected);
    // What was being sent may still end.
    assert_eq!(b.settle_one(succeed(&claimed[2])).await, Settled::Stored);
    assert_eq!(b.record(ids[2]).await.status, Status::Succeeded);
}
