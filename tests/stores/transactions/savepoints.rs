//! Savepoints, ours, sqlx's and raw ones: a rollback to one removes the notices since it, and nothing else.

use std::sync::Arc;

use solid_notify::FirstAttempt::{NotHere, RolledBack, Succeeded};
use solid_notify::{Notice, OutboxExt};
use sqlx::{Acquire, Connection};
use test_support::{Database, on_each_database};
use tokio::sync::Semaphore;

use super::{SOON, Scene, Sql, run};

on_each_database!(
    an_inner_transaction_takes_its_notices_along_when_it_is_rolled_back,
    an_outer_transaction_takes_those_of_its_inner_ones_along,
    savepoints_of_sqlx_are_seen_through,
    raw_savepoints_are_seen_through,
    an_id_that_is_given_again_belongs_to_the_notice_that_exists,
    a_rollback_is_known_although_no_slot_is_free,
);

async fn an_inner_transaction_takes_its_notices_along_when_it_is_rolled_back<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::swept(2).await;
    let mut tx = scene.begin().await;
    let mut kept = vec![scene.work(&mut tx, 1).await];
    let mut gone = Vec::new();

    let mut inner = tx.begin().await.unwrap();
    gone.push(scene.work(&mut inner, 2).await);
    inner.rollback().await.unwrap();
    let mut inner = tx.begin().await.unwrap();
    gone.push(scene.work(&mut inner, 3).await);
    drop(inner);
    let mut inner = tx.begin().await.unwrap();
    kept.push(scene.work(&mut inner, 4).await);
    inner.commit().await.unwrap();

    let mut inner = tx.begin().await.unwrap();
    kept.push(scene.work(&mut inner, 5).await);
    let mut innermost = inner.begin().await.unwrap();
    gone.push(scene.work(&mut innermost, 6).await);
    innermost.rollback().await.unwrap();
    let mut innermost = inner.begin().await.unwrap();
    kept.push(scene.work(&mut innermost, 7).await);
    innermost.commit().await.unwrap();
    inner.commit().await.unwrap();

    let mut inner = tx.begin().await.unwrap();
    gone.push(scene.work(&mut inner, 8).await);
    let mut innermost = inner.begin().await.unwrap();
    gone.push(scene.work(&mut innermost, 9).await);
    innermost.commit().await.unwrap();
    inner.rollback().await.unwrap();

    tx.commit().await.unwrap();
    for added in kept {
        assert_eq!(added.first_attempt(SOON).await, Succeeded);
    }
    for added in gone {
        assert_eq!(added.first_attempt(SOON).await, RolledBack);
    }
    scene.ends_with(&[1, 4, 5, 7]).await;
}

async fn an_outer_transaction_takes_those_of_its_inner_ones_along<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::swept(2).await;
    for (k, dropped) in [(1, false), (2, true)] {
        let mut tx = scene.begin().await;
        let mut inner = tx.begin().await.unwrap();
        let added = scene.work(&mut inner, k).await;
        inner.commit().await.unwrap();
        if dropped {
            drop(tx);
        } else {
            tx.rollback().await.unwrap();
        }
        assert_eq!(added.first_attempt(SOON).await, RolledBack);
    }
    scene.ends_with(&[]).await;
}

async fn savepoints_of_sqlx_are_seen_through<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::swept(2).await;
    let mut tx = scene.begin().await;
    scene.work(&mut tx, 1).await;
    let mut inner = Connection::begin(&mut *tx).await.unwrap();
    scene.work(&mut inner, 2).await;
    inner.rollback().await.unwrap();
    let mut inner = Connection::begin(&mut *tx).await.unwrap();
    let added = scene.work(&mut inner, 3).await;
    inner.commit().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(added.first_attempt(SOON).await, NotHere, "no commit hook saw it");

    let mut tx = scene.db.pool.begin().await.unwrap();
    scene.work(&mut tx, 4).await;
    let mut inner = Acquire::begin(&mut tx).await.unwrap();
    scene.work(&mut inner, 5).await;
    drop(inner);
    let mut inner = Acquire::begin(&mut tx).await.unwrap();
    scene.work(&mut inner, 6).await;
    inner.commit().await.unwrap();
    tx.commit().await.unwrap();
    scene.ends_with(&[1, 3, 4, 6]).await;
}

async fn raw_savepoints_are_seen_through<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::swept(2).await;
    let mut tx = scene.begin().await;
    let before = scene.work(&mut tx, 1).await;
    run::<D>(&mut tx, "SAVEPOINT a").await.unwrap();
    let gone = scene.work(&mut tx, 2).await;
    let mut inner = tx.begin().await.unwrap();
    let gone_too = scene.work(&mut inner, 3).await;
    inner.commit().await.unwrap();
    run::<D>(&mut tx, "ROLLBACK TO SAVEPOINT a").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(before.first_attempt(SOON).await, Succeeded);
    // The claim found out, because no hook had reported it.
    assert_eq!(gone.first_attempt(SOON).await, RolledBack);
    assert_eq!(gone_too.first_attempt(SOON).await, RolledBack);
    scene.ends_with(&[1]).await;
}

/// SQLite gives the id of a notice that was rolled back to the next one.
async fn an_id_that_is_given_again_belongs_to_the_notice_that_exists<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::swept(2).await;
    let mut tx = scene.begin().await;
    run::<D>(&mut tx, "SAVEPOINT a").await.unwrap();
    let first = scene.work(&mut tx, 1).await;
    run::<D>(&mut tx, "ROLLBACK TO SAVEPOINT a").await.unwrap();
    let second = scene.work(&mut tx, 2).await;
    run::<D>(&mut tx, "ROLLBACK TO SAVEPOINT a").await.unwrap();
    let mut inner = tx.begin().await.unwrap();
    let third = scene.work(&mut inner, 3).await;
    inner.commit().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(first.first_attempt(SOON).await, RolledBack);
    assert_eq!(second.first_attempt(SOON).await, RolledBack);
    assert_eq!(third.first_attempt(SOON).await, Succeeded);
    scene.ends_with(&[3]).await;
}

async fn a_rollback_is_known_although_no_slot_is_free<D: Database<Db: Sql>>() {
    let mut scene = Scene::<D>::new(2).await;
    let (entered, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let handler = {
        let (entered, gate) = (Arc::clone(&entered), Arc::clone(&gate));
        move |_: Notice<i64>| {
            let (entered, gate) = (Arc::clone(&entered), Arc::clone(&gate));
            async move {
                entered.add_permits(1);
                gate.acquire().await.unwrap().forget();
                Ok(())
            }
        }
    };
    let builder = scene.outbox().sweeper().handler("sync", handler).max_running(1);
    scene.sweeper = Some(builder.start().await.unwrap());
    let mut tx = scene.begin().await;
    let running = scene.work(&mut tx, 1).await;
    tx.commit().await.unwrap();
    entered.acquire().await.unwrap().forget();

    let mut tx = scene.begin().await;
    run::<D>(&mut tx, "SAVEPOINT a").await.unwrap();
    let gone = scene.work(&mut tx, 2).await;
    run::<D>(&mut tx, "ROLLBACK TO SAVEPOINT a").await.unwrap();
    let waiting = scene.work(&mut tx, 3).await;
    tx.commit().await.unwrap();
    assert_eq!(gone.first_attempt(SOON).await, RolledBack);
    gate.add_permits(2);
    assert_eq!(running.first_attempt(SOON).await, Succeeded);
    assert_eq!(waiting.first_attempt(SOON).await, Succeeded);
}
