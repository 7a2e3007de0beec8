//! `ConnectedOutbox`: the store that a URL names.

use solid_notify::{ConnectedOutbox, Error, NewNotice, NotifyDef};
use sqlx::ConnectOptions;
use test_support::MariaDb;
use test_support::MySql;
use test_support::Postgres;
use test_support::Sqlite;
use test_support::{Database, TestDb};

async fn gives_the_outbox_of<D: Database>(db: TestDb<D>, url: &str) {
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let connected = ConnectedOutbox::connect(url).await.unwrap();
    connected.migrate().await.unwrap();
    assert!(connected.definitions().await.unwrap().iter().any(|state| state.row.name == "sync"));
    adds_a_notice(&connected).await;
    db.close().await;
}

/// What it adds is committed when the call returns, and an unknown definition is refused.
async fn adds_a_notice(connected: &ConnectedOutbox) {
    let added = connected.add(NewNotice::new("sync", 7).unwrap()).await.unwrap();
    assert_eq!(connected.find(added.id()).await.unwrap().unwrap().param, "7");
    let unknown = connected.add(NewNotice::new("snc", 7).unwrap()).await;
    assert!(matches!(unknown, Err(Error::UnknownDefinition { nearest: Some(_), .. })), "{unknown:?}");
}

mod on_postgres {
    use super::*;

    /// A test has a schema of its own there, which the URL has to name.
    #[tokio::test]
    async fn url_of_postgres_gives_its_outbox() {
        let db = TestDb::<Postgres>::with_real_clock().await;
        let options = db.pool.connect_options();
        let mut url = options.to_url_lossy();
        url.query_pairs_mut().append_pair("options", options.get_options().unwrap());
        gives_the_outbox_of(db, url.as_str()).await;
    }
}

mod on_mariadb {
    use super::*;

    #[tokio::test]
    async fn url_of_mariadb_gives_its_outbox() {
        let db = TestDb::<MariaDb>::with_real_clock().await;
        let url = db.pool.connect_options().to_url_lossy().to_string().replacen("mysql", "mariadb", 1);
        gives_the_outbox_of(db, &url).await;
    }
}

mod on_mysql {
    use super::*;

    #[tokio::test]
    async fn url_of_mysql_gives_its_outbox() {
        let db = TestDb::<MySql>::with_real_clock().await;
        let url = db.pool.connect_options().to_url_lossy();
        gives_the_outbox_of(db, url.as_str()).await;
    }
}

mod on_sqlite {
    use super::*;

    #[tokio::test]
    async fn url_of_sqlite_gives_its_outbox() {
        let db = TestDb::<Sqlite>::with_real_clock().await;
        let url = db.pool.connect_options().to_url_lossy();
        gives_the_outbox_of(db, url.as_str()).await;
    }
}

mod on_redis {
    use super::*;

    #[tokio::test]
    async fn url_of_redis_gives_its_outbox() {
        let connected = ConnectedOutbox::connect(&test_support::databases::server_url("REDIS_URL")).await.unwrap();
        connected.migrate().await.unwrap();
        connected.definitions().await.unwrap();
    }
}

#[tokio::test]
async fn errors_of_a_url_name_what_is_right_and_hide_the_password() {
    let error = async |url: &str| {
        let error = ConnectedOutbox::connect(url).await.err().unwrap();
        assert!(!error.to_string().contains("hunter2"), "{error}");
        error
    };
    for unknown in ["oracle://u:hunter2@h/x", "hunter2", "hunter2:x", ""] {
        let error = error(unknown).await;
        assert!(matches!(error, Error::Invalid { .. }) && error.to_string().contains("`sqlite:`"), "{error}");
    }
    // At the same time, because sqlx tries for 30 s.
    let (postgres, mariadb, _) = tokio::join!(
        error("postgres://u:hunter2@127.0.0.1:1/x"),
        error("mariadb://u:hunter2@127.0.0.1:1/x"),
        error("redis://:hunter2@127.0.0.1:1")
    );
    for error in [postgres, mariadb] {
        assert!(matches!(&error, Error::Store(error) if error.is_transient()), "{error}");
    }
    error("postgres://u:hunter2@[/x").await;
}
