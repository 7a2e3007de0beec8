//! Definitions that produce notices by a timetable: each tick once, missed ticks by the rule of the row, and the built-in
//! housekeeping.

use std::time::Duration;

use serde_json::Value;
use solid_notify::{Inbox, Notice, NotifyDef, OutboxExt, Status, SweeperBuilder};
use solid_notify_conformance::Backend;
use test_support::sending::{Calls, add, definition, edit_by_hand, eventually, reaches, refusal_of, update};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// Builds a sweeper whose handlers of these names record the definition and the tick.
fn noting(b: &dyn Backend, names: &[&'static str]) -> (SweeperBuilder, Calls<(String, String)>) {
    let calls = Calls::default();
    let builder = names.iter().fold(b.outbox().sweeper(), |builder, name| {
        let noted = calls.clone();
        builder.handler(*name, move |notice: Notice<Value>| {
            noted.note((notice.definition().to_owned(), notice.param()["tick"].as_str().unwrap().to_owned()));
            async { Ok(()) }
        })
    });
    (builder, calls)
}

/// Waits until the timetable as it stands has begun.
pub(super) async fn begun(b: &dyn Backend, name: &str) {
    let row = definition(b, name).await;
    eventually("the timetable begins", async || {
        let due = b.outbox().engine().stores().send.due(true).await.unwrap();
        due.ticks.get(&row.id).is_some_and(|last| last.schedule == row.schedule)
    })
    .await;
}

fn count(calls: &Calls<(String, String)>, name: &str) -> usize {
    calls.all().iter().filter(|(of, _)| of == name).count()
}

pub async fn each_tick_is_sent_once_by_two_sweepers(b: &dyn Backend) {
    let start = b.clock().now(); // half past an hour
    b.outbox().define_if_missing(NotifyDef::new("report").schedule("0 0 * * * * Asia/Shanghai")).await.unwrap();
    let (one, calls) = noting(b, &["report"]);
    let (two, others) = noting(b, &["report"]);
    let (one, two) = (one.start().await.unwrap(), two.start().await.unwrap());
    begun(b, "report").await;
    for round in 1..=5 {
        one.idle().await;
        two.idle().await;
        b.clock().advance(HOUR);
        eventually("it is sent", async || calls.count() + others.count() == round).await;
    }
    one.idle().await;
    two.idle().await;
    let mut ticks: Vec<String> = calls.all().into_iter().chain(others.all()).map(|(_, tick)| tick).collect();
    ticks.sort_unstable();
    let shown = |n: u32| {
        let east = start - HOUR / 2 + n * HOUR + 8 * HOUR;
        humantime::format_rfc3339_seconds((east).into()).to_string().replace('Z', "+08:00")
    };
    assert_eq!(ticks, (1..=5).map(shown).collect::<Vec<_>>());
    one.shutdown().await;
    two.shutdown().await;
}

pub async fn ticks_that_were_missed_follow_the_rule_of_the_definition(b: &dyn Backend) {
    let names = ["once", "all", "none", "paused"];
    for name in names {
        let rule = if name == "paused" { "once" } else { name };
        b.outbox().define_if_missing(NotifyDef::new(name).schedule("0 0 * * * *").schedule_missed(rule)).await.unwrap();
    }
    let (first, calls) = noting(b, &names);
    let first = first.start().await.unwrap();
    for name in names {
        begun(b, name).await;
    }
    first.shutdown().await;
    update(b, "paused", |def| def.enabled(false)).await;
    b.clock().advance(5 * HOUR);
    let (second, calls_of_second) = noting(b, &names);
    let second = second.start().await.unwrap();
    second.idle().await;
    let counts = names.map(|name| count(&calls_of_second, name));
    assert_eq!((calls.count(), counts), (0, [1, 5, 0, 0]));
    let last = |name| calls_of_second.all().into_iter().filter(|(of, _)| of == name).max().unwrap().1;
    assert_eq!(last("once"), last("all"), "the latest of them");
    // While it was not enabled it added no notices.
    update(b, "paused", |def| def.enabled(true)).await;
    eventually("it is sent", async || count(&calls_of_second, "paused") == 1).await;
    second.idle().await;
    b.clock().advance(HOUR);
    eventually("the others go on", async || calls_of_second.count() == 10).await;
    second.idle().await;
    let counts = names.map(|name| count(&calls_of_second, name));
    assert_eq!(counts, [2, 6, 0, 2], "again more than a minute late");
    second.shutdown().await;
}

pub async fn an_edited_timetable_begins_anew(b: &dyn Backend) {
    let start = b.clock().now(); // half past an hour
    b.outbox()
        .define_if_missing(NotifyDef::new("report").schedule("0 0 * * * *").schedule_missed("all"))
        .await
        .unwrap();
    let (builder, calls) = noting(b, &["report"]);
    let sweeper = builder.start().await.unwrap();
    begun(b, "report").await;
    sweeper.idle().await;
    // It would have ticked a quarter of an hour ago.
    edit_by_hand(b, "report", |def| def.schedule("0 15 * * * *")).await;
    begun(b, "report").await;
    sweeper.idle().await;
    assert_eq!(calls.count(), 0);
    b.clock().advance(HOUR);
    eventually("it is sent", async || calls.count() == 1).await;
    sweeper.idle().await;
    let tick = humantime::format_rfc3339_seconds((start + Duration::from_secs(45 * 60)).into()).to_string();
    assert_eq!(calls.all(), [("report".to_owned(), tick.replace('Z', "+00:00"))]);
    sweeper.shutdown().await;
}

pub async fn any_sweeper_ticks_for_one_that_has_the_handler(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("report").schedule("0 0 * * * *")).await.unwrap();
    let (stranger, _) = noting(b, &["other"]);
    let stranger = stranger.start().await.unwrap();
    begun(b, "report").await;
    stranger.idle().await;
    b.clock().advance(HOUR);
    let id = definition(b, "report").await.id;
    eventually("the notice waits", async || {
        b.outbox().engine().stores().send.due(true).await.unwrap().slices.iter().any(|slice| slice.def_id == id)
    })
    .await;
    stranger.shutdown().await;
    let (able, calls) = noting(b, &["report"]);
    let able = able.start().await.unwrap();
    able.idle().await;
    assert_eq!(calls.count(), 1);
    able.shutdown().await;
}

pub async fn an_invalid_or_deleted_definition_produces_nothing(b: &dyn Backend) {
    for name in ["invalid", "deleted", "good"] {
        b.outbox().define_if_missing(NotifyDef::new(name).schedule("0 0 * * * *")).await.unwrap();
    }
    let (builder, calls) = noting(b, &["invalid", "deleted", "good"]);
    let sweeper = builder.start().await.unwrap();
    for name in ["invalid", "deleted", "good"] {
        begun(b, name).await;
    }
    edit_by_hand(b, "invalid", |def| def.timeout("soon")).await;
    b.outbox().delete(&definition(b, "deleted").await).await.unwrap();
    sweeper.idle().await;
    b.clock().advance(HOUR);
    eventually("the good one is sent", async || calls.count() == 1).await;
    sweeper.idle().await;
    assert_eq!((calls.count(), count(&calls, "good")), (1, 1));
    edit_by_hand(b, "invalid", |def| def.timeout("5s")).await;
    b.outbox().wake();
    eventually("its missed tick is sent", async || count(&calls, "invalid") == 1).await;
    sweeper.shutdown().await;
}

pub async fn keys_of_inboxes_are_purged_by_housekeeping(b: &dyn Backend) {
    let inbox = Inbox::new("warehouse", "shop");
    let first = async |key: &str, commit| b.first_time(&inbox, key, commit).await.unwrap();
    assert!(first("old", true).await);
    let (builder, _) = noting(b, &[]);
    let sweeper = builder.start().await.unwrap();
    begun(b, "notify.purge").await;
    update(b, "notify.purge", |def| def.handler_config(r#"{"inbox": "10d"}"#)).await;
    sweeper.idle().await;
    b.clock().advance(11 * DAY);
    assert!(first("young", true).await);
    eventually("the old key is purged", async || first("old", false).await).await;
    sweeper.idle().await;
    assert!(!first("young", true).await);
    sweeper.shutdown().await;
}

pub async fn housekeeping_is_done_by_rows_that_operators_edit(b: &dyn Backend) {
    let (builder, _) = noting(b, &[]);
    let sweeper = builder.start().await.unwrap();
    for name in ["notify.purge", "notify.dead_letters"] {
        begun(b, name).await;
    }
    update(b, "notify.dead_letters", |def| def.enabled(false)).await;
    let row = definition(b, "notify.purge").await;
    let refused = b.outbox().update(&row, row.clone().handler_config("{")).await.unwrap_err().to_string();
    assert!(refused.contains(r#"{"dead_letters": "30d""#), "{refused}");
    edit_by_hand(b, "notify.purge", |def| def.handler_config("{")).await;
    b.outbox().wake();
    refusal_of(b.outbox(), "notify.purge").await;
    b.clock().advance(DAY);
    sweeper.idle().await;
    // An edited definition stays, and a deleted one is made again.
    b.outbox().delete(&definition(b, "notify.purge").await).await.unwrap();
    eventually("it is there again", async || {
        let all = b.outbox().definitions().await.unwrap();
        all.iter().any(|state| state.row.name == "notify.purge" && state.row.delete_time.is_none())
    })
    .await;
    assert!(!definition(b, "notify.dead_letters").await.enabled);
    sweeper.shutdown().await;
}

pub async fn without_housekeeping_nothing_is_purged(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").keep_history("1h").handler("none_here")).await.unwrap();
    let sweeper = b
        .outbox()
        .sweeper()
        .housekeeping(false)
        .handler("none_here", |_: Notice<i64>| async { Ok(()) })
        .start()
        .await
        .unwrap();
    let id = add(b, "sync").await;
    reaches(b, id, Status::Succeeded).await;
    sweeper.idle().await;
    b.clock().advance(2 * DAY);
    sweeper.idle().await;
    assert!(b.outbox().find(id).await.unwrap().is_some());
    let names: Vec<String> = b.outbox().definitions().await.unwrap().into_iter().map(|state| state.row.name).collect();
    assert_eq!(names, ["notify.alert", "sync"]);
    sweeper.shutdown().await;
}
