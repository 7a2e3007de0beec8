//! Notices of definitions whose ids this process has just read: they are added without a look-up, and the insert itself detects
//! whether the transaction is still open.

use std::sync::atomic::Ordering;
use std::time::Duration;

use solid_notify::NewNotice;
use solid_notify::{Error, NotifyDef, add_notice};
use test_support::MariaDb;
use test_support::Postgres;
use test_support::{Database, on_each_database};

use super::{Scene, Sql};
use super::{hook, run};

on_each_database!(an_edit_of_this_process_is_known_at_once);

mod servers {
    use super::*;

    test_support::on_each_server!(an_error_behind_a_seen_insert_is_found_out);
}

impl<D: Database<Db: Sql>> Scene<D> {
    /// A scene without a sweeper, whose definitions were just read.
    async fn known() -> Self {
        let scene = Self::new(2).await;
        scene.read().await;
        scene
    }

    async fn read(&self) {
        self.outbox().definitions().await.unwrap();
    }

    async fn add(&self, name: &str) -> Result<(), Error> {
        let mut tx = self.begin().await;
        add_notice(&mut tx, name, 1).await?;
        tx.commit().await
    }
}

/// Stops tokio's clock until it is dropped, although calls of a database are under way. A paused clock would else go forward whenever the
/// runtime waits for input; it does not while a blocking task runs.
struct StoppedClock {
    _release: std::sync::mpsc::Sender<()>,
}

impl StoppedClock {
    fn new() -> Self {
        let (release, released) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || released.recv());
        tokio::time::pause();
        Self { _release: release }
    }
}

impl Drop for StoppedClock {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}

/// Shown by a name that is no longer there. It is refused as soon as an edit must be in force. The clock stands still but for its turns,
/// which needs a runtime of one thread.
async fn a_definition_that_was_just_read_is_not_looked_up<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::new(2).await;
    let clock = StoppedClock::new();
    // What is read at the moment of a change is not kept.
    tokio::time::advance(Duration::from_millis(1)).await;
    scene.read().await;
    scene.db.sql("UPDATE notify_def SET name = 'renamed'").await;
    scene.add("sync").await.unwrap();
    // It belongs to the definition under every name.
    assert_eq!(scene.observe("SELECT count(*) FROM notify_msg m JOIN notify_def d ON d.id = m.def_id").await, 1);
    tokio::time::advance(Duration::from_secs(5)).await;
    let refused = scene.add("sync").await.unwrap_err();
    assert!(matches!(refused, Error::UnknownDefinition { .. }), "{refused:?}");
    drop(clock);
    scene.db.close().await;
}

mod on_sqlite {
    #[tokio::test]
    async fn a_definition_that_was_just_read_is_not_looked_up() {
        super::a_definition_that_was_just_read_is_not_looked_up::<test_support::Sqlite>().await;
    }
}

mod on_mysql {
    #[tokio::test]
    async fn a_definition_that_was_just_read_is_not_looked_up() {
        super::a_definition_that_was_just_read_is_not_looked_up::<test_support::MySql>().await;
    }
}

async fn an_edit_of_this_process_is_known_at_once<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::known().await;
    scene.outbox().define_if_missing(NotifyDef::new("other")).await.unwrap();
    scene.add("other").await.unwrap();
    scene.read().await;
    let rows = scene.outbox().definitions().await.unwrap();
    let seen = &rows.iter().find(|state| state.row.name == "other").unwrap().row;
    scene.outbox().delete(seen).await.unwrap();
    let refused = scene.add("other").await.unwrap_err();
    assert!(matches!(refused, Error::UnknownDefinition { .. }), "{refused:?}");
    scene.db.close().await;
}

/// The error may be of the application's own statement, or of a later notice.
async fn an_error_behind_a_seen_insert_is_found_out<D: Database<Db: Sql>>() {
    let scene = Scene::<D>::known().await;
    let postgres = <D::Db as sqlx::Database>::NAME == "PostgreSQL";
    scene.db.sql("ALTER TABLE notify_msg ADD CONSTRAINT no_bad_keys CHECK (ordering_key <> 'bad')").await;
    for own in [true, false] {
        let mut tx = scene.begin().await;
        scene.work(&mut tx, 1).await;
        let ran = hook(&mut tx);
        if own {
            run::<D>(&mut tx, "INSERT INTO work VALUES (1)").await.unwrap_err();
        } else {
            NewNotice::new("sync", 2).unwrap().ordering_key("bad").add(&mut tx).await.unwrap_err();
        }
        // Only on Postgres does an error end the transaction.
        let committed = tx.commit().await;
        assert_eq!(matches!(committed, Err(Error::TransactionLost { .. })), postgres, "{committed:?}");
        assert_eq!(ran.load(Ordering::Relaxed), !postgres);
        scene.db.sql("DELETE FROM work").await;
    }
    scene.db.close().await;
}

mod on_postgres {
    use super::*;

    #[tokio::test]
    async fn a_definition_that_was_just_read_is_not_looked_up() {
        super::a_definition_that_was_just_read_is_not_looked_up::<Postgres>().await;
    }

    #[tokio::test]
    async fn a_commit_behind_a_raw_rollback_says_so_on_postgres() {
        let scene = Scene::<Postgres>::known().await;
        let mut tx = scene.begin().await;
        scene.work(&mut tx, 1).await;
        run::<Postgres>(&mut tx, "ROLLBACK").await.unwrap();
        // It is committed by itself, as Postgres does it with every statement from now on.
        add_notice(&mut tx, "sync", 2).await.unwrap();
        assert!(matches!(tx.commit().await, Err(Error::TransactionLost { .. })));
        scene.ends_with_rows(&[2], &[]).await;
    }

    /// An insert cannot detect a lost transaction in which nothing was written, and it need not where nothing was done in it.
    #[tokio::test]
    async fn a_transaction_that_only_read_can_add_on_postgres() {
        let scene = Scene::<Postgres>::known().await;
        for (k, reads) in [(1, false), (2, true)] {
            let mut tx = scene.begin().await;
            if reads {
                run::<Postgres>(&mut tx, "SELECT 1").await.unwrap();
            }
            add_notice(&mut tx, "sync", k).await.unwrap();
            add_notice(&mut tx, "sync", 10 * k).await.unwrap();
            tx.commit().await.unwrap();
        }
        scene.ends_with_rows(&[1, 2, 10, 20], &[]).await;
    }
}

mod on_mariadb {
    use super::*;

    #[tokio::test]
    async fn a_definition_that_was_just_read_is_not_looked_up() {
        super::a_definition_that_was_just_read_is_not_looked_up::<MariaDb>().await;
    }

    /// Otherwise it would be committed by itself, also when the work is rolled back.
    #[tokio::test]
    async fn a_notice_is_refused_without_an_open_transaction_on_mariadb() {
        let scene = Scene::<MariaDb>::known().await;
        for end in ["ROLLBACK", "COMMIT"] {
            let mut tx = scene.begin().await;
            run::<MariaDb>(&mut tx, end).await.unwrap();
            assert!(matches!(add_notice(&mut tx, "sync", 1).await, Err(Error::TransactionLost { .. })));
            assert!(matches!(tx.commit().await, Err(Error::TransactionLost { .. })));
        }
        scene.ends_with(&[]).await;
    }
}

test_support::on_mysql_family!(a_session_without_autocommit_can_add);

/// Such a session begins a new transaction when one has ended. The insert cannot detect that, so it uses another check.
async fn a_session_without_autocommit_can_add<D: Database<Db = sqlx::MySql>>() {
    let scene = Scene::<D>::known().await;
    let mut tx = scene.begin().await;
    run::<D>(&mut tx, "SET autocommit = 0").await.unwrap();
    scene.work(&mut tx, 1).await;
    tx.commit().await.unwrap();
    // A raw ROLLBACK between two inserts is detected.
    let mut tx = scene.begin().await;
    run::<D>(&mut tx, "SET autocommit = 0").await.unwrap();
    scene.work(&mut tx, 2).await;
    run::<D>(&mut tx, "ROLLBACK").await.unwrap();
    scene.work(&mut tx, 3).await;
    assert!(matches!(tx.commit().await, Err(Error::TransactionLost { .. })));
    scene.ends_with(&[1]).await;
}
