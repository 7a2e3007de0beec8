//! Large parameters wait until there is room for them in memory.

use std::sync::Arc;

use solid_notify::testkit::MemoryOutbox;
use solid_notify::{Notice, NotifyDef, OutboxExt, Status, add_notice};
use solid_notify_core::store::LARGE_PARAM;
use test_support::sending::{Calls, eventually};
use tokio::sync::Semaphore;

/// A definition has half of 256 places.
#[tokio::test]
async fn large_parameters_beyond_the_room_wait_and_delay_no_other() {
    let outbox = MemoryOutbox::new();
    for name in ["large", "other"] {
        outbox.define_if_missing(NotifyDef::new(name).timeout("1h").max_concurrency(200)).await.unwrap();
    }
    // Each takes one place.
    let param = "x".repeat(LARGE_PARAM);
    let add = async |name: &str| {
        let mut tx = outbox.begin().await.unwrap();
        let id = add_notice(&mut tx, name, &param).await.unwrap().id();
        tx.commit().await.unwrap();
        id
    };
    let mut ids = Vec::new();
    for _ in 0..130 {
        ids.push(add("large").await);
    }
    let (running, gate) = (Calls::default(), Arc::new(Semaphore::new(0)));
    let (began, go_on) = (running.clone(), Arc::clone(&gate));
    let waits = move |_: Notice<String>| {
        let go_on = Arc::clone(&go_on);
        began.note(());
        async move {
            go_on.acquire().await.unwrap().forget();
            Ok(())
        }
    };
    let builder = outbox.sweeper().max_running(500).handler("large", waits);
    let sweeper = builder.handler("other", async |_: Notice<String>| Ok(())).start().await.unwrap();
    eventually("all its places are taken", async || running.count() == 128).await;
    let reaches = async |id: i64| {
        eventually("it is sent", async || outbox.find(id).await.unwrap().unwrap().status == Status::Succeeded).await;
    };
    reaches(add("other").await).await;
    assert_eq!(running.count(), 128, "the others wait");
    gate.add_permits(ids.len());
    for id in ids {
        reaches(id).await;
    }
    sweeper.shutdown().await;
}
