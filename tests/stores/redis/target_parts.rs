//! Targets that are created, edited and deleted while a notice is passed on in parts: between the look at their rows and each script.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use solid_notify::definition::Updated;
use solid_notify::{AnyOutbox, NotifyDef, Status, add_notice};
use solid_notify_conformance::outcome;
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::store::{Claim, ClaimWhat, PassOn, PassedOn, SeenTarget, Settled};
use solid_notify_core::transition::Next;
use solid_notify_redis::RedisOutbox;
use test_support::redis::OwnPrefix;
use test_support::{RedisServer, on_each_redis};

on_each_redis!(targets_that_change_before_a_part_change_no_list, targets_that_change_at_any_time_get_it_once);

/// An outbox whose next call of the store but `skipped` first runs a function.
pub(super) struct Disturbed {
    pub(super) outbox: RedisOutbox,
    next: Arc<Mutex<Option<(usize, Change)>>>,
}

pub(super) type Change = Box<dyn FnOnce() + Send>;

impl Disturbed {
    pub(super) async fn new(own: &OwnPrefix) -> Self {
        let next = Arc::new(Mutex::new(None::<(usize, Change)>));
        let planned = Arc::clone(&next);
        let outbox = own.outbox_with_calls(move |_| {
            let mut planned = planned.lock().unwrap();
            match planned.take() {
                Some((0, change)) => change(),
                Some((skipped, change)) => *planned = Some((skipped - 1, change)),
                None => {}
            }
        });
        Self { outbox: outbox.await, next }
    }

    pub(super) fn plan(&self, skipped: usize, change: Change) {
        *self.next.lock().unwrap() = Some((skipped, change));
    }
}

/// The scripts of a part: the rows of the definitions, then the part itself.
const BEFORE_THE_LOOK: usize = 0;
const BEFORE_THE_PART: usize = 1;

/// Makes a change by another outbox, in a thread of its own, because the call that it disturbs waits meanwhile.
fn change(other: &AnyOutbox, created: &'static [&'static str], deleted: &'static [&'static str]) -> Change {
    let other = other.clone();
    Box::new(move || {
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                for name in created {
                    other.define_if_missing(NotifyDef::target("order", name)).await.unwrap();
                }
                for name in deleted {
                    delete(&other, name).await;
                }
            });
        });
        thread.join().unwrap();
    })
}

async fn row(outbox: &AnyOutbox, name: &str) -> NotifyDef {
    outbox.definitions().await.unwrap().into_iter().find(|state| state.row.name == name).unwrap().row
}

async fn delete(outbox: &AnyOutbox, target: &str) {
    let row = row(outbox, &format!("order/{target}")).await;
    assert!(matches!(outbox.delete(&row).await.unwrap(), Updated::Stored(_)));
}

async fn targets(outbox: &AnyOutbox) -> Vec<i64> {
    let mut ids: Vec<i64> = outbox.operator("alice").targets("order").await.unwrap().iter().map(|row| row.id).collect();
    ids.sort_unstable();
    ids
}

async fn claim(outbox: &AnyOutbox, def_id: i64) -> Option<ClaimedNotice> {
    let what = ClaimWhat::Slice(Status::NotSent);
    let lease = Duration::from_secs(60);
    let claim = Claim { def_id, what, limit: 1, lease, worker: "worker-1".to_owned(), quota: None };
    outbox.engine().stores().send.claim(&claim).await.unwrap().notices.pop()
}

/// Takes and ends all notices of a target, of which nothing is left. Returns how many there were.
async fn receive(outbox: &AnyOutbox, target: i64) -> usize {
    let mut count = 0;
    while let Some(claimed) = claim(outbox, target).await {
        let gone = outcome(&claimed, Next::Finish { status: Status::Succeeded, reason: None, keep: false });
        assert_eq!(outbox.engine().stores().send.settle(&[gone]).await.unwrap(), [Settled::Stored]);
        count += 1;
    }
    count
}

/// Adds a notice of `order`, and claims it.
async fn claimed(outbox: &RedisOutbox) -> ClaimedNotice {
    let order = row(outbox, "order").await.id;
    add_notice(&mut outbox.clone(), "order", 1).await.unwrap();
    claim(outbox, order).await.unwrap()
}

fn part(claimed: &ClaimedNotice, known: &[i64]) -> PassOn {
    let (targets, known) = (known.to_vec(), known.iter().copied().map(SeenTarget::from).collect());
    PassOn { id: claimed.id, def_id: claimed.def_id, fence: claimed.fence, targets, known, owed: Vec::new(), most: 1 }
}

async fn targets_that_change_before_a_part_change_no_list<R: RedisServer>() {
    let own = OwnPrefix::of::<R>();
    let other = own.outbox().await;
    let disturbed = Disturbed::new(&own).await;
    other.define_if_missing(NotifyDef::new("order")).await.unwrap();
    for name in ["a", "b", "c", "d"] {
        other.define_if_missing(NotifyDef::target("order", name)).await.unwrap();
    }
    let stale = targets(&other).await;
    delete(&other, "a").await;
    let claimed = claimed(&other).await;
    let pass_on =
        async |known: &[i64]| disturbed.outbox.engine().stores().send.pass_on(&part(&claimed, known)).await.unwrap();
    assert_eq!(pass_on(&stale).await, PassedOn::Changed, "a target that was deleted before it was added");
    let known = targets(&other).await;
    disturbed.plan(BEFORE_THE_LOOK, change(&other, &["e"], &[]));
    assert_eq!(pass_on(&known).await, PassedOn::Changed, "a target that was created before the look");
    let list = targets(&other).await;
    // One by one: each part goes by the list of the first one.
    let changes: [(&[&str], &[&str]); 4] = [(&["f"], &["b"]), (&["g"], &["c"]), (&[], &["d", "f"]), (&["h"], &["e"])];
    for (done, (created, deleted)) in (1..).zip(changes) {
        disturbed.plan(BEFORE_THE_PART, change(&other, created, deleted));
        let known = if done == 1 { list.clone() } else { targets(&other).await };
        assert_eq!(pass_on(&known).await, PassedOn::Part { targets: list.clone(), done, kept: Vec::new() });
        for (at, target) in list.iter().enumerate() {
            assert_eq!(receive(&other, *target).await, usize::from(at + 1 == done), "target {at} after part {done}");
        }
    }
    // Their notices have ended, and nothing is left of them.
    assert_eq!(
        pass_on(&targets(&other).await).await,
        PassedOn::Part { targets: list.clone(), done: 4, kept: Vec::new() }
    );
    for target in [list, stale, targets(&other).await].concat() {
        assert_eq!(receive(&other, target).await, 0);
    }
    own.close();
}

/// Two senders pass on the same notice while targets come and go, and receivers end what arrives.
async fn targets_that_change_at_any_time_get_it_once<R: RedisServer>() {
    const ROUNDS: usize = 12;
    let own = OwnPrefix::of::<R>();
    let outbox = own.outbox().await;
    outbox.define_if_missing(NotifyDef::new("order")).await.unwrap();
    for name in ["a", "b", "c"] {
        outbox.define_if_missing(NotifyDef::target("order", name)).await.unwrap();
    }
    for round in 0..ROUNDS {
        let before = targets(&outbox).await;
        let claimed = claimed(&outbox).await;
        let (passing, churned) = (AtomicUsize::new(2), Mutex::new(Vec::new()));
        let sender = async || {
            let passed = loop {
                let known = targets(&outbox).await;
                match outbox.engine().stores().send.pass_on(&part(&claimed, &known)).await.unwrap() {
                    PassedOn::Part { targets, done, .. } if done == targets.len() => break targets,
                    PassedOn::Part { .. } | PassedOn::Changed => {}
                    PassedOn::Busy => panic!("it has its claim"),
                }
            };
            passing.fetch_sub(1, Ordering::SeqCst);
            passed
        };
        // At least one comes and goes while parts are made.
        let churn = async {
            let mut number = 0;
            while number == 0 || passing.load(Ordering::SeqCst) > 0 {
                let name = format!("x_{round}_{number}");
                outbox.define_if_missing(NotifyDef::target("order", name.as_str())).await.unwrap();
                let created = row(&outbox, &format!("order/{name}")).await.id;
                churned.lock().unwrap().push(created);
                delete(&outbox, &name).await;
                number += 1;
                // The senders compare what they know with the rows, so they need a moment without a change.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let mut got = HashMap::<i64, usize>::new();
        let receiver = async {
            let mut last = false;
            while !last {
                last = passing.load(Ordering::SeqCst) == 0;
                let all = [before.clone(), churned.lock().unwrap().clone()].concat();
                for target in all {
                    *got.entry(target).or_default() += receive(&outbox, target).await;
                }
            }
        };
        let (one, two, (), ()) = tokio::join!(sender(), sender(), churn, receiver);
        assert_eq!(one, two, "one list");
        for target in churned.into_inner().unwrap() {
            *got.entry(target).or_default() += receive(&outbox, target).await;
        }
        assert!(before.iter().all(|target| one.contains(target)), "those that were there when it was added");
        for (target, count) in got {
            assert_eq!(count, usize::from(one.contains(&target)), "round {round}: {target} of {one:?}");
        }
        let done = outcome(&claimed, Next::Finish { status: Status::Succeeded, reason: None, keep: true });
        assert_eq!(outbox.engine().stores().send.settle(&[done]).await.unwrap(), [Settled::Stored]);
    }
    own.close();
}
