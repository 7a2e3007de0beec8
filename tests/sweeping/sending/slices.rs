//! Slots and queue slices: limits hold, and every definition gets its share.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use solid_notify::{Failure, NewNotice, Notice, NotifyDef, OutboxExt, Status};
use solid_notify_conformance::{Backend, outcome};
use solid_notify_core::store::{Claim, ClaimWhat};
use solid_notify_core::transition::Next;
use test_support::sending::{Calls, add, definition, eventually, reaches, record, update};
use tokio::sync::Semaphore;

pub async fn no_more_run_at_once_than_max_concurrency(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").max_concurrency(3).timeout("1d")).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (handler_gate, handler_running, handler_most) = (gate.clone(), running.clone(), most.clone());
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("sync", move |_: Notice<i64>| {
            let (gate, running, most) = (handler_gate.clone(), handler_running.clone(), handler_most.clone());
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                gate.acquire().await?.forget();
                running.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        })
        .start()
        .await
        .unwrap();
    let mut ids = Vec::new();
    for _ in 0..12 {
        ids.push(add(b, "sync").await);
    }
    eventually("three run", async || running.load(Ordering::SeqCst) == 3).await;
    gate.add_permits(3);
    eventually("three others run", async || running.load(Ordering::SeqCst) == 3 && gate.available_permits() == 0).await;
    // The limit is raised while they run.
    update(b, "sync", |def| def.max_concurrency(5)).await;
    eventually("five run", async || running.load(Ordering::SeqCst) == 5).await;
    gate.add_permits(100);
    for id in ids {
        reaches(b, id, Status::Succeeded).await;
    }
    assert_eq!(most.load(Ordering::SeqCst), 5);
    sweeper.shutdown().await;
}

pub async fn a_backlog_of_one_definition_does_not_starve_another(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("stuck").max_concurrency(2).timeout("1d")).await.unwrap();
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    for _ in 0..100 {
        add(b, "stuck").await;
    }
    let calls = Calls::default();
    let noted = calls.clone();
    let sweeper = b
        .outbox()
        .sweeper()
        .handler("stuck", move |_: Notice<i64>| {
            noted.note(());
            async { std::future::pending().await }
        })
        .handler("sync", |_: Notice<i64>| async { Ok(()) })
        .first_send(false)
        .shutdown_grace(Duration::ZERO)
        .start()
        .await
        .unwrap();
    eventually("the slots of the stuck one are taken", async || calls.count() == 2).await;
    for _ in 0..5 {
        let id = add(b, "sync").await;
        b.outbox().wake();
        reaches(b, id, Status::Succeeded).await;
    }
    assert_eq!(calls.count(), 2);
    sweeper.shutdown().await;
}

pub async fn old_retries_do_not_hide_fresh_notices(b: &dyn Backend) {
    b.outbox()
        .define_if_missing(NotifyDef::new("sync").retry_interval("1s").max_retry_times(-1).max_concurrency(1))
        .await
        .unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let builder = || {
        let noted = noted.clone();
        b.outbox().sweeper().first_send(false).handler("sync", move |notice: Notice<i64>| {
            noted.note(notice.attempt());
            async { Err(Failure::retry("no")) }
        })
    };
    for _ in 0..60 {
        add(b, "sync").await;
    }
    builder().run_until_idle().await.unwrap();
    assert_eq!(calls.count(), 60);
    // Sixty retries are due, and one fresh notice behind them; one slot.
    b.clock().advance(Duration::from_secs(1));
    let fresh = add(b, "sync").await;
    let sweeper = builder().start().await.unwrap();
    reaches(b, fresh, Status::Failed).await;
    let position = calls.all()[60..].iter().position(|attempt| *attempt == 1).unwrap();
    assert!(position <= 5, "the fresh notice was number {position}");
    sweeper.shutdown().await;
}

pub async fn fresh_notices_do_not_hide_old_retries(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("1s").max_concurrency(1)).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let builder = || {
        let noted = noted.clone();
        b.outbox().sweeper().first_send(false).handler("sync", move |notice: Notice<i64>| {
            noted.note(notice.attempt());
            async { Err(Failure::retry("no")) }
        })
    };
    let old = add(b, "sync").await;
    builder().run_until_idle().await.unwrap();
    for _ in 0..60 {
        add(b, "sync").await;
    }
    b.clock().advance(Duration::from_secs(1));
    let sweeper = builder().start().await.unwrap();
    eventually("the retry", async || record(b, old).await.failures == 2).await;
    let position = calls.all()[1..].iter().position(|attempt| *attempt == 2).unwrap();
    assert!(position <= 5, "the retry was number {position}");
    sweeper.shutdown().await;
}

pub async fn crash_looping_notices_are_sent_one_at_a_time(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").max_concurrency(10)).await.unwrap();
    let stores = b.outbox().engine().stores();
    let claim = Claim {
        def_id: definition(b, "sync").await.id,
        what: ClaimWhat::Slice(Status::NotSent),
        limit: 3,
        lease: Duration::from_secs(60),
        worker: "dead".to_owned(),
        quota: None,
    };
    let mut crash_looping = Vec::new();
    for _ in 0..3 {
        crash_looping.push(add(b, "sync").await);
    }
    for claimed in stores.send.claim(&claim).await.unwrap().notices {
        let next = Next::Wait { status: Status::Failed, after: Duration::ZERO };
        let mut settle = outcome(&claimed, next);
        settle.transition.crashes = 2;
        stores.send.settle(&[settle]).await.unwrap();
    }
    let gate = Arc::new(Semaphore::new(0));
    let calls = Calls::default();
    let (wait, noted) = (gate.clone(), calls.clone());
    let sweeper = b
        .outbox()
        .sweeper()
        .poll_interval(Duration::from_millis(20))
        .handler("sync", move |notice: Notice<i64>| {
            let (wait, crash_looping) = (wait.clone(), notice.attempt() > 1);
            if crash_looping {
                noted.note(notice.id());
            }
            async move {
                if crash_looping {
                    wait.acquire().await?.forget();
                }
                Ok(())
            }
        })
        .start()
        .await
        .unwrap();
    for sent in 1..=3 {
        eventually("the next crash-looping notice", async || calls.count() == sent).await;
        // Several looks later it is still the only one, and others pass.
        for _ in 0..3 {
            let other = add(b, "sync").await;
            b.outbox().wake();
            reaches(b, other, Status::Succeeded).await;
        }
        assert_eq!(calls.count(), sent);
        gate.add_permits(1);
    }
    for id in crash_looping {
        assert_eq!(reaches(b, id, Status::Succeeded).await.crashes, 2);
    }
    sweeper.shutdown().await;
}

pub async fn a_large_backlog_is_sent_completely_and_once(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync").max_concurrency(50)).await.unwrap();
    let mut ids = HashSet::new();
    for _ in 0..400 {
        ids.insert(add(b, "sync").await);
    }
    let calls = Calls::default();
    let noted = calls.clone();
    let builder = || {
        let noted = noted.clone();
        b.outbox().sweeper().handler("sync", move |notice: Notice<i64>| {
            noted.note(notice.id());
            async { Ok(()) }
        })
    };
    let (one, two) = tokio::join!(builder().run_until_idle(), builder().run_until_idle());
    assert_eq!(one.unwrap().succeeded + two.unwrap().succeeded, 400);
    assert_eq!(calls.count(), 400, "each was sent once");
    assert_eq!(calls.all().into_iter().collect::<HashSet<_>>(), ids);
    for id in ids.into_iter().take(3) {
        assert_eq!(record(b, id).await.status, Status::Succeeded);
    }
}

pub async fn notices_of_one_key_are_sent_in_order_and_other_keys_meanwhile(b: &dyn Backend) {
    const KEYS: usize = 5;
    const EACH: usize = 30;
    b.outbox().define_if_missing(NotifyDef::new("sync").retry_interval("100ms").max_retry_times(3)).await.unwrap();
    let calls: Calls<(usize, usize)> = Calls::default();
    let busy: Arc<[AtomicUsize; KEYS]> = Arc::default();
    let build = || {
        let (calls, busy) = (calls.clone(), Arc::clone(&busy));
        b.outbox().sweeper().handler("sync", move |notice: Notice<(usize, usize)>| {
            let (calls, busy) = (calls.clone(), Arc::clone(&busy));
            async move {
                let (key, n) = *notice.param();
                assert_eq!(notice.ordering_key(), Some(format!("key {key}").as_str()));
                assert_eq!(busy[key].fetch_add(1, Ordering::SeqCst), 0, "one at a time");
                calls.note((key, n));
                tokio::task::yield_now().await;
                busy[key].fetch_sub(1, Ordering::SeqCst);
                match n {
                    // Fails once, and for good.
                    7 if notice.attempt() == 1 => Err(Failure::retry("once")),
                    11 => Err(Failure::give_up("never")),
                    _ => Ok(()),
                }
            }
        })
    };
    let (one, other) = (build().start().await.unwrap(), build().start().await.unwrap());
    let notices = (0..EACH).flat_map(|n| (0..KEYS).map(move |key| (key, n)));
    let mut last = Vec::new();
    for (key, n) in notices {
        let notice = NewNotice::new("sync", (key, n)).unwrap().ordering_key(format!("key {key}"));
        last.push(b.add_new(notice).await.id());
    }
    for id in last.split_off(KEYS * (EACH - 1)) {
        eventually("the last ones are sent", async || {
            // Retries come due. While an attempt runs, the clock must not pass the end of its lease.
            one.idle().await;
            other.idle().await;
            b.clock().advance(Duration::from_secs(1));
            record(b, id).await.status == Status::Succeeded
        })
        .await;
    }
    for key in 0..KEYS {
        let order: Vec<usize> = calls.all().into_iter().filter(|(own, _)| *own == key).map(|(_, n)| n).collect();
        let mut expected: Vec<usize> = (0..EACH).collect();
        expected.insert(7, 7);
        assert_eq!(order, expected);
    }
    one.shutdown().await;
    other.shutdown().await;
}

pub async fn a_notice_blocked_by_its_key_leaves_the_sweeper_idle(b: &dyn Backend) {
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let ordered = |n: i64| NewNotice::new("sync", n).unwrap().ordering_key("key");
    let delayed = b.add_new(ordered(1).delay(Duration::from_secs(3600))).await.id();
    let behind = b.add_new(ordered(2)).await.id();
    let other = add(b, "sync").await;
    let calls = Calls::default();
    let noted = calls.clone();
    let sweeper = b.outbox().sweeper().handler("sync", move |notice: Notice<i64>| {
        noted.note(notice.id());
        async { Ok(()) }
    });
    sweeper.run_until_idle().await.unwrap();
    assert_eq!(calls.all(), [other]);
    assert_eq!(record(b, behind).await.status, Status::NotSent);
    assert_eq!(record(b, delayed).await.status, Status::NotSent);
}

pub async fn definitions_take_turns_where_the_node_is_full(b: &dyn Backend) {
    for name in ["first", "second"] {
        b.outbox().define_if_missing(NotifyDef::new(name).handler("sync")).await.unwrap();
    }
    for _ in 0..40 {
        add(b, "first").await;
    }
    let second = add(b, "second").await;
    let calls = Calls::default();
    let noted = calls.clone();
    let sweeper = b
        .outbox()
        .sweeper()
        .first_send(false)
        .max_running(1)
        .handler("sync", move |notice: Notice<i64>| {
            noted.note(notice.id());
            async { Ok(()) }
        })
        .start()
        .await
        .unwrap();
    reaches(b, second, Status::Succeeded).await;
    let position = calls.all().iter().position(|id| *id == second).unwrap();
    assert!(position <= 10, "it was number {position}");
    sweeper.shutdown().await;
}
