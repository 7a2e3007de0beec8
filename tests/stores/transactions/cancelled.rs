//! Every future of a transaction, dropped at every await: afterwards the connection is clean, exactly the committed notices
//! exist, and exactly those are sent.
//!
//! A future is polled a given number of times and then dropped: either at once, when its request is under way, or when it
//! was woken, so that the answer is there but unread. The number goes up until the future completes.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use solid_notify::{Error, FirstAttempt, NoticeTx, add_notice};
use test_support::{Database, on_each_database};

use super::{SOON, Scene, Sql, hook, row, run};

on_each_database!(
    a_begin_can_be_dropped_at_every_await,
    an_added_notice_can_be_dropped_at_every_await,
    an_inner_begin_can_be_dropped_at_every_await,
    an_inner_commit_can_be_dropped_at_every_await,
    an_inner_rollback_can_be_dropped_at_every_await,
    a_commit_can_be_dropped_at_every_await,
    a_rollback_can_be_dropped_at_every_await,
);

/// More polls than any of the futures needs.
const MANY: usize = 60;

/// Where a future is dropped.
#[derive(Debug, Clone, Copy)]
struct Cut {
    polls: usize,
    /// Dropped only when it was woken once more.
    woken: bool,
}

impl Cut {
    /// Every cut, until one was too late: `step` says whether the future completed.
    async fn each(mut step: impl AsyncFnMut(Self, i64) -> bool) {
        let mut k = 0;
        for woken in [false, true] {
            let mut polls = 0;
            loop {
                k += 1;
                if step(Self { polls, woken }, k).await {
                    break;
                }
                polls += 1;
                assert!(polls < MANY, "it never completes");
            }
        }
    }

    /// The output of `future`, or nothing where it was cut.
    async fn apply<F: Future>(self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        let mut left = self.polls;
        poll_fn(|cx| {
            if left == 0 {
                return Poll::Ready(None);
            }
            left -= 1;
            match future.as_mut().poll(cx) {
                Poll::Ready(output) => Poll::Ready(Some(output)),
                Poll::Pending if left == 0 && !self.woken => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
}

/// Compares the effect of the step `k` with its result.
impl<D: Database<Db: Sql>> Scene<D> {
    /// The pool's one connection is free and in no transaction: others see its writes.
    async fn is_clean(&self, cut: Cut, k: i64) {
        let probe = -k;
        let acquired = tokio::time::timeout(SOON, self.db.pool.acquire()).await;
        let mut conn = acquired.unwrap_or_else(|_| panic!("{cut:?}: the connection does not come back")).unwrap();
        row::<D>(&mut conn, probe).await;
        let seen = self.observe(&format!("SELECT count(*) FROM work WHERE id = {probe}")).await;
        assert_eq!(seen, 1, "{cut:?}: the connection is inside a transaction");
        run::<D>(&mut conn, &format!("DELETE FROM work WHERE id = {probe}")).await.unwrap();
    }

    /// Row and notice `k`: both there or both not. Returns which.
    async fn exists(&self, cut: Cut, k: i64) -> bool {
        let (rows, notices) = (self.rows(k).await, self.notices(k).await);
        assert_eq!(rows, notices, "{cut:?}: rows and notices of {k}");
        rows == 1
    }

    async fn rows(&self, k: i64) -> i64 {
        self.observe(&format!("SELECT count(*) FROM work WHERE id = {k}")).await
    }

    async fn notices(&self, k: i64) -> i64 {
        self.observe(&format!("SELECT count(*) FROM notify_msg WHERE {}", self.has_param(k))).await
    }

    fn has_param(&self, k: i64) -> String {
        let param = if <D::Db as sqlx::Database>::NAME == "PostgreSQL" { "param::text" } else { "param" };
        format!("{param} = '{k}'")
    }

    /// The sweeper sends exactly the notices that exist.
    async fn ends_with_what_exists(self) {
        let rows = self.observe_all("SELECT id FROM work ORDER BY id").await;
        self.ends_with(&rows).await;
    }
}

/// The first-attempt reply must not contradict the state of the database.
async fn is_truthful(outcome: impl Future<Output = FirstAttempt>, exists: bool, cut: Cut) {
    let outcome = outcome.await;
    let wrong = if exists { FirstAttempt::RolledBack } else { FirstAttempt::Succeeded };
    assert_ne!(outcome, wrong, "{cut:?}: it {}", if exists { "exists" } else { "does not exist" });
}

async fn a_begin_can_be_dropped_at_every_await<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::new(1).await;
    // Often, since it depends on how fast the answers come which step a poll reaches.
    for _ in 0..10 {
        Cut::each(async |cut, k| {
            let begun = cut.apply(scene.outbox().begin()).await;
            let completed = begun.is_some();
            drop(begun);
            scene.is_clean(cut, k).await;
            completed
        })
        .await;
    }
    scene.ends_with(&[]).await;
}

async fn an_added_notice_can_be_dropped_at_every_await<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::new(1).await;
    let (mut there, mut rows, mut base) = (Vec::new(), Vec::new(), 0);
    for ends in ["drop", "rollback", "commit"] {
        base += 1000;
        Cut::each(async |cut, k| {
            let k = base + k;
            let mut tx = scene.begin().await;
            row::<D>(&mut tx, k).await;
            let completed = cut.apply(add_notice(&mut tx, "sync", k)).await.is_some();
            match ends {
                "drop" => drop(tx),
                "rollback" => tx.rollback().await.unwrap(),
                _ => tx.commit().await.unwrap(),
            }
            scene.is_clean(cut, k).await;
            let committed = i64::from(ends == "commit");
            assert_eq!(scene.rows(k).await, committed, "{ends} {cut:?}");
            let notices = scene.notices(k).await;
            // Whether an insert that was cut took place is open, within its transaction.
            let as_promised = if completed { notices == committed } else { notices <= committed };
            assert!(as_promised, "{ends} {cut:?}: {notices}");
            rows.extend((committed == 1).then_some(k));
            there.extend((notices == 1).then_some(k));
            completed
        })
        .await;
    }
    scene.ends_with_rows(&there, &rows).await;
}

/// Adds row and notice `k`, in an inner transaction of their own or not.
async fn add_after<D: Database<Db: Sql>>(tx: &mut NoticeTx<'_, D::Db>, k: i64, nested: bool) -> Result<(), Error> {
    if nested {
        let mut inner = tx.begin().await?;
        add_notice(&mut inner, "sync", k).await?;
        row::<D>(&mut inner, k).await;
        return inner.commit().await;
    }
    add_notice(tx, "sync", k).await?;
    row::<D>(tx, k).await;
    Ok(())
}

/// After an inner step of the transaction was cut, the whole of it is there if its commit says Ok, else nothing of it.
async fn all_or_nothing<D: Database<Db: Sql>>(
    mut inner_step: impl AsyncFnMut(&Scene<D>, &mut NoticeTx<'static, D::Db>, Cut, i64) -> bool,
) {
    let scene = Scene::<D>::new(1).await;
    Cut::each(async |cut, k| {
        let mut all_completed = true;
        for nested in [false, true] {
            let [before, inner, after] = [0, 1, 2].map(|n| 1000 * k + 10 * i64::from(nested) + n);
            let mut tx = scene.begin().await;
            let added = scene.work(&mut tx, before).await;
            let completed = inner_step(&scene, &mut tx, cut, inner).await;
            // Where no transaction is open any more, this must be refused, because it would be stored without the rest.
            let added_after = add_after::<D>(&mut tx, after, nested).await;
            let committed = tx.commit().await;
            scene.is_clean(cut, k).await;
            assert!(committed.is_ok() || !completed, "{cut:?}: {committed:?}");
            assert_eq!(scene.exists(cut, before).await, committed.is_ok(), "{cut:?}: {committed:?}");
            let expected = committed.is_ok() && added_after.is_ok();
            assert_eq!(scene.exists(cut, after).await, expected, "{cut:?}: {added_after:?}, {committed:?}");
            assert!(!scene.exists(cut, inner).await || committed.is_ok(), "{cut:?}: {committed:?}");
            is_truthful(added.first_attempt(Duration::ZERO), committed.is_ok(), cut).await;
            all_completed &= completed;
        }
        all_completed
    })
    .await;
    scene.ends_with_what_exists().await;
}

async fn an_inner_begin_can_be_dropped_at_every_await<D: Database<Db: Sql>>() {
    all_or_nothing::<D>(async |scene, tx, cut, k| match cut.apply(tx.begin()).await {
        None => false,
        Some(inner) => {
            let mut inner = inner.unwrap();
            scene.work(&mut inner, k).await;
            inner.commit().await.unwrap();
            true
        }
    })
    .await;
}

async fn an_inner_commit_can_be_dropped_at_every_await<D: Database<Db: Sql>>() {
    all_or_nothing::<D>(async |scene, tx, cut, k| {
        let mut inner = tx.begin().await.unwrap();
        scene.work(&mut inner, k).await;
        cut.apply(inner.commit()).await.is_some()
    })
    .await;
}

async fn an_inner_rollback_can_be_dropped_at_every_await<D: Database<Db: Sql>>() {
    all_or_nothing::<D>(async |scene, tx, cut, k| {
        let mut inner = tx.begin().await.unwrap();
        scene.work(&mut inner, k).await;
        cut.apply(inner.rollback()).await.is_some()
    })
    .await;
}

async fn a_commit_can_be_dropped_at_every_await<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::new(1).await;
    Cut::each(async |cut, k| {
        let mut tx = scene.begin().await;
        let added = scene.work(&mut tx, k).await;
        let ran = hook(&mut tx);
        let committed = cut.apply(tx.commit()).await;
        scene.is_clean(cut, k).await;
        let exists = scene.exists(cut, k).await;
        assert!(exists || committed.is_none(), "{cut:?}: {committed:?}");
        assert!(exists || !ran.load(std::sync::atomic::Ordering::Relaxed), "{cut:?}: a hook ran");
        is_truthful(added.first_attempt(Duration::ZERO), exists, cut).await;
        committed.is_some()
    })
    .await;
    scene.ends_with_what_exists().await;
}

async fn a_rollback_can_be_dropped_at_every_await<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::new(1).await;
    Cut::each(async |cut, k| {
        let mut tx = scene.begin().await;
        scene.work(&mut tx, k).await;
        let completed = cut.apply(tx.rollback()).await.is_some();
        scene.is_clean(cut, k).await;
        assert!(!scene.exists(cut, k).await, "{cut:?}");
        completed
    })
    .await;
    scene.ends_with(&[]).await;
}
