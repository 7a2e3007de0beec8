//! Gives a test the URL of a database or of a Redis that it has for itself.

use sqlx::ConnectOptions;
use test_support::databases::server_url;
use test_support::{Database, TestDb};

use crate::verbs::on_postgres;

/// Runs a test on a database of its own, whose clock is the real one.
pub async fn on<D: Database>(test: impl AsyncFnOnce(&str)) {
    let db = TestDb::<D>::with_real_clock().await;
    test(db.pool.connect_options().to_url_lossy().as_str()).await;
    db.close().await;
}

/// The same on PostgreSQL, where the URL has the options, too.
pub async fn on_postgres(test: impl AsyncFnOnce(&str)) {
    let db = TestDb::with_real_clock().await;
    test(&on_postgres::url(&db)).await;
    db.close().await;
}

/// Runs a test on the server that the variable names. Its keys have a prefix of their own, because a server is shared.
pub async fn on_redis_at(variable: &str, test: impl AsyncFnOnce(&str)) {
    test(&format!("{}?prefix=program_{:016x}", server_url(variable), fastrand::u64(..))).await;
}
