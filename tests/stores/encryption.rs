//! Definitions with `encrypt_param` on the databases: no column of any table has a plaintext. `plain_sql` has what plain SQL refuses.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use solid_notify::cipher::{ParamCipher, ParamKey, ParamKeys};
use solid_notify::sql::Dialect;
use solid_notify::{Error, Failure, NewNotice, Notice, NotifyDef, Outbox, OutboxExt, Status, add_notice, add_notices};
use solid_notify_conformance::Backend;
use sqlx::Pool;
use test_support::sending::{eventually, reaches, record};
use test_support::{Database, TestDb, on_each_database};

const SECRET: &str = "4111-7777-stored-nowhere";

on_each_database!(no_table_has_a_plaintext, set_up_as_in_the_book, transaction_of_sqlx_cannot_add_a_plaintext);

fn keys() -> Arc<ParamKeys> {
    Arc::new(ParamKeys::new("key-of-2026", ParamKey::new(&[7; 32]).unwrap()).unwrap())
}

/// Returns the tables with their columns, as the schema lists them.
fn tables<D: Database>() -> Vec<(String, Vec<String>)> {
    let schema = Outbox::<D::Db>::schema();
    let mut tables: Vec<(String, Vec<String>)> = Vec::new();
    let mut inside = false;
    for line in schema.lines() {
        if let Some(rest) = line.strip_prefix("CREATE TABLE ") {
            let name = rest.trim_start_matches("IF NOT EXISTS ").split([' ', '(']).next().unwrap();
            tables.push((name.to_owned(), Vec::new()));
            inside = true;
        } else if line.starts_with(')') {
            inside = false;
        } else if inside
            && let Some(column) = line.strip_prefix("    ")
            && column.starts_with(|first: char| first.is_ascii_lowercase())
        {
            tables.last_mut().unwrap().1.push(column.split(' ').next().unwrap().to_owned());
        }
    }
    // The table of the schema's version is written in one line.
    tables.retain(|(_, columns)| !columns.is_empty());
    tables
}

/// Returns how many rows of all tables have this text in any column.
async fn rows_with<D: Database>(db: &TestDb<D>, text: &str) -> i64 {
    let mut rows = 0;
    for (table, columns) in tables::<D>() {
        // MySQL compares binary texts byte by byte, so the text is searched for as it is.
        let sql = format!("SELECT count(*) FROM {table} WHERE concat_ws('|', {}) LIKE '%{text}%'", columns.join(", "));
        rows += D::number(&db.pool, sql.leak()).await;
    }
    rows
}

async fn no_table_has_a_plaintext<D: Database>() {
    let db = TestDb::<D>::with_hand_clock().await;
    assert!(
        tables::<D>().iter().any(|(table, columns)| table == "notify_msg_history" && columns.contains(&"param".into()))
    );
    db.outbox.use_param_cipher(keys());
    let def = NotifyDef::new("charge").encrypt_param(true).retry_interval("[1s,1h]").alert_trigger_type("each_failure");
    db.outbox.define_if_missing(def).await.unwrap();
    let handler = |notice: Notice<serde_json::Value>| async move {
        let text = notice.param()["card"].as_str().unwrap().to_owned();
        match notice.param()["then"].as_str().unwrap() {
            "retry" => Err(Failure::retry(format!("card {text}"))),
            "give up" => Err(Failure::give_up(format!("card {text}"))),
            _ => Ok(()),
        }
    };
    let sweeper = db.outbox.sweeper().handler("charge", handler).start().await.unwrap();
    let new = |then: &str| NewNotice::new("charge", json!({ "then": then, "card": SECRET })).unwrap();
    let mut tx = db.outbox.begin().await.unwrap();
    let retried = new("retry").add(&mut tx).await.unwrap().id();
    let many = add_notices(
        &mut tx,
        [new("give up"), new("deliver").unique_until_ended("a"), new("deliver").skipped("a test")],
    );
    let many = many.await.unwrap().iter().map(|receipt| receipt.id()).collect::<Vec<_>>();
    tx.commit().await.unwrap();
    reaches(&db, retried, Status::Failed).await;
    reaches(&db, many[0], Status::DeadLetter).await;
    reaches(&db, many[1], Status::Succeeded).await;
    db.outbox.operator("alice").edit(many[0], json!({ "then": "retry", "card": SECRET })).await.unwrap();
    db.clock().advance(Duration::from_secs(2));
    db.outbox.wake();
    eventually("the first one is tried again", async || record(&db, retried).await.failures == 2).await;
    sweeper.shutdown().await;
    assert!(rows_with::<D>(&db, "key-of-2026").await >= 4, "the search finds what is stored");
    assert_eq!(rows_with::<D>(&db, SECRET).await, 0);
    db.close().await;
}

/// The library refuses the key of the book, which does not exist in a test; the snippet is compiled, and its first line is run.
async fn set_up_as_in_the_book<D: Database>() {
    async fn book<DB: Dialect>(outbox: &Outbox<DB>) -> Result<(), Error> {
        // [keys]
        let keys = ParamKeys::new("2026", ParamKey::read("env:PARAM_KEY_2026")?)? // encrypts
            .accept("2025", ParamKey::read("file:/run/secrets/param-key-2025")?)?; // still decrypts
        outbox.use_param_cipher(Arc::new(keys));
        outbox.define_if_missing(NotifyDef::new("charge_card").encrypt_param(true)).await?;
        // [end]
        Ok(())
    }
    async fn plain<DB: Dialect>(pool: &Pool<DB>, cipher: Arc<dyn ParamCipher>) -> anyhow::Result<()> {
        // [own_cipher]
        let mut tx = pool.begin().await?; // sqlx's own transaction knows no outbox
        NewNotice::new("charge_card", 7)?.param_cipher(cipher).add(&mut tx).await?;
        tx.commit().await?;
        // [end]
        Ok(())
    }
    let db = TestDb::<D>::with_real_clock().await;
    let error = book(&db.outbox).await.unwrap_err();
    assert!(error.to_string().contains("cannot read the secret \"env:PARAM_KEY_2026\""), "{error}");
    db.outbox.define_if_missing(NotifyDef::new("charge_card").encrypt_param(true)).await.unwrap();
    plain(&db.pool, keys()).await.unwrap();
    assert_eq!(rows_with::<D>(&db, "key-of-2026").await, 1);
    db.close().await;
}

async fn transaction_of_sqlx_cannot_add_a_plaintext<D: Database>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.use_param_cipher(keys());
    db.outbox.define_if_missing(NotifyDef::new("charge").encrypt_param(true)).await.unwrap();
    let mut tx = db.pool.begin().await.unwrap();
    let error = add_notice(&mut tx, "charge", SECRET).await.unwrap_err();
    assert!(matches!(error, Error::Encryption { .. }), "{error}");
    assert!(error.to_string().contains("NewNotice::param_cipher"), "{error}");
    let error =
        add_notices(&mut tx, [SECRET, SECRET].map(|param| NewNotice::new("charge", param).unwrap())).await.unwrap_err();
    assert!(matches!(error, Error::Encryption { .. }), "{error}");
    // The transaction goes on.
    let own = NewNotice::new("charge", SECRET).unwrap().param_cipher(keys()).add(&mut tx).await.unwrap().id();
    tx.commit().await.unwrap();
    assert_eq!(record(&db, own).await.param, format!("\"{SECRET}\""));
    assert_eq!(rows_with::<D>(&db, SECRET).await, 0);
    assert_eq!(rows_with::<D>(&db, "key-of-2026").await, 1);
    db.close().await;
}
