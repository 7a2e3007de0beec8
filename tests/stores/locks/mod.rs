//! Another session holds locks: the statements of the store do not wait for them, and sweepers go on with all other work.

mod acks;
mod on_sqlite;
mod statements;
mod sweepers;
mod targets;

use solid_notify::sql::Dialect;
use test_support::{Database, TestDb};

/// Begins a transaction that holds the locks of `sql`.
async fn lock<D: Database>(db: &TestDb<D>, sql: &str) -> sqlx::Transaction<'static, D::Db> {
    let mut other = db.pool.begin().await.unwrap();
    D::Db::script(&mut other, sql.to_owned().into()).await.unwrap();
    other
}
