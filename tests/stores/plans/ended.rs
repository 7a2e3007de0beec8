//! A claim reads as much beside an empty history as beside a million ended notices.
//!
//! `ENDED_NOTICES` is their number; the night sets a million.

use solid_notify::NotifyDef;
use solid_notify_sql::statement_texts;
use sqlx::Connection;
use test_support::{Database, TestDb, on_each_database};

use super::instant::Counts;
use super::{NUMBERS, Plans, add_ended, add_live, arguments, filled_in, our_connection};

on_each_database!(claims_read_as_much_beside_ended_notices_as_without);

/// The statements from the look for due notices to the claim and the lease.
const CLAIMING: [&str; 13] = [
    "due",
    "part",
    "claim_slice",
    "claim_crash_looping",
    "claim_ids",
    "claim_fresh",
    "claim_picked",
    "claim_keys",
    "lock_first",
    "still_first",
    "overdue",
    "extend",
    "extendable",
];

trait History: Counts {
    /// Makes both measurements begin alike: what claims that were rolled back have left is removed, and the statistics of live notices stay.
    const TIDY: &'static str;
    /// By how much a measurement may differ from one of `read`.
    fn tolerance(_read: u64) -> u64 {
        0
    }
}

impl History for sqlx::Postgres {
    const TIDY: &'static str = "VACUUM notify_msg, notify_msg_history";

    /// Two buffers, if a tree has become higher. A batch also writes new versions of hundreds of rows, which find free pages and split those of
    /// indexes differently each time: one buffer in a hundred.
    fn tolerance(read: u64) -> u64 {
        2 + read / 100
    }
}

impl History for sqlx::MySql {
    const TIDY: &'static str = "ANALYZE TABLE notify_msg_history";
}

impl History for sqlx::Sqlite {
    const TIDY: &'static str = "ANALYZE notify_msg_history";
}

async fn claims_read_as_much_beside_ended_notices_as_without<D: Database<Db: History>>() {
    let most = std::env::var("ENDED_NOTICES").map_or(10_000, |number| number.parse().unwrap());
    let db = TestDb::<D>::with_real_clock().await;
    for name in ["most", "many", "few", "rare", "none"] {
        db.outbox.define_if_missing(NotifyDef::new(name)).await.unwrap();
    }
    db.sql(D::Db::KEEP_STATISTICS).await;
    add_live(&db).await;
    // None becomes due while the test runs.
    let (now, tomorrow) = (D::Db::seconds_from_now("0"), D::Db::seconds_from_now("86400"));
    db.sql(&format!("UPDATE notify_msg SET next_call_time = {tomorrow} WHERE next_call_time > {now}")).await;
    db.sql(D::Db::GATHER_STATISTICS).await;
    let mut conn = our_connection(&db).await;
    // The first claims make new pages and caches.
    measure::<D::Db>(&mut conn).await;
    db.sql(D::Db::TIDY).await;
    let before = measure::<D::Db>(&mut conn).await;
    let mut ended = 0;
    while ended < most {
        let count = NUMBERS.min(most - ended);
        add_ended(&db, ended, count).await;
        ended += count;
    }
    db.sql(D::Db::TIDY).await;
    let after = measure::<D::Db>(&mut conn).await;
    let counted = D::Db::read(&mut conn, "SELECT id FROM notify_msg_history WHERE end_reason = 'none'").await;
    assert!(counted > most / 100, "the counter misses {ended} ended notices: {counted}");
    let total = |reads: &[(String, u64)]| reads.iter().map(|(_, read)| read).sum::<u64>();
    eprintln!(
        "{} statements read {}, and beside {ended} ended notices {}",
        before.len(),
        total(&before),
        total(&after)
    );
    let differs = |((_, without), (_, beside)): &(&(String, u64), &(String, u64))| {
        without.abs_diff(*beside) > D::Db::tolerance(*without)
    };
    let bad: Vec<_> = before.iter().zip(&after).filter(differs).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    db.close().await;
}

/// Runs each statement with small batches, and returns what it read. All of them find the same notices, because each is rolled back.
async fn measure<DB: History>(conn: &mut DB::Connection) -> Vec<(String, u64)> {
    let mut reads = Vec::new();
    for (name, text) in statement_texts::<DB>().into_iter().filter(|(name, _)| CLAIMING.contains(name)) {
        for (nth, arguments) in arguments(name, DB::NAME).iter().enumerate().take(10) {
            let mut tx = conn.begin().await.unwrap();
            let read = DB::read(&mut tx, &filled_in(&text, arguments)).await;
            tx.rollback().await.unwrap();
            reads.push((format!("{name} {nth}"), read));
        }
    }
    assert!(reads.len() > 60, "only {} were measured", reads.len());
    reads
}
