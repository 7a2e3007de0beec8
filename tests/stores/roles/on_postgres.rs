//! The roles on PostgreSQL alone.

use super::*;

/// The account of a managed server, which is no superuser.
#[tokio::test]
async fn script_needs_no_superuser_on_postgres() {
    use test_support::{Database, Postgres};

    let (pool, cleanup) = Postgres::create(2).await;
    let Cleanup::Schema(options, schema) = &cleanup else { unreachable!() };
    let (admin, prefix) = (format!("{schema}_admin"), schema.clone());
    let create = format!(
        "CREATE ROLE {admin} LOGIN PASSWORD 'x' CREATEROLE; ALTER ROLE {admin} SET search_path = other, {schema};
         ALTER SCHEMA {schema} OWNER TO {admin}"
    );
    pool.execute(AssertSqlSafe(create)).await.unwrap();
    let options = options.clone().username(&admin).password("x");
    let own = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    Outbox::new(own.clone()).migrate().await.unwrap();
    let outbox = Outbox::new(pool.clone());
    let mut roles =
        Roles { db: TestDb::<Postgres>::over(outbox, pool, cleanup), prefix, accounts: Vec::new(), extra: None };
    let script = roles.named(Outbox::<sqlx::Postgres>::roles().unwrap());
    for _ in 0..2 {
        own.execute(AssertSqlSafe(script.clone())).await.unwrap();
    }
    own.close().await;
    roles.db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let producer = roles.outbox("producer").await;
    let mut tx = producer.begin().await.unwrap();
    add_notice(&mut tx, "sync", 1).await.unwrap();
    tx.commit().await.unwrap();
    // The schema is still the administrator's; a role is dropped with what it granted.
    roles.db.sql(&format!("REASSIGN OWNED BY {admin} TO current_user")).await;
    roles.extra = Some(admin);
    roles.close().await;
}
