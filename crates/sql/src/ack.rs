//! Acks and nacks of receivers, in the caller's transaction or in one of the store.

use chrono::DateTime;
use solid_notify_core::ack::{ACKED_LATE, AckResult, OfLive, Reply, of_ended, of_live};
use solid_notify_core::notice::{ClaimedNotice, Status, time_from_millis};
use solid_notify_core::store::NO_NOTICE;

use crate::audit::write_entry;
use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::query::Query;
use crate::dialect::row::{numbers, one_number, read_claimed, required};
use crate::dialect::statement::Arg;
use crate::settle::{end_one, explain_end};
use crate::sql::ack::{
    AckLate, Answerable, AnswerableIfFree, Ended, EndedColumns, EndedIfFree, Nack, StoreId, StoredWhere,
};
use crate::sql::claim::Claimed;

/// Where `answerable` has the status, behind the columns of a claim.
const STATUS_OF_LIVE: usize = Claimed::COUNT;

/// Has the database explain the statements of acks: it then checks the rights and the tables, waits where a table is locked, and changes nothing.
/// SQLite has neither; there an ack needs the lock of the file.
pub(crate) async fn can_ack<DB: Dialect>(on: &Share<DB>, now: Arg<'_>) -> sqlx::Result<()> {
    let id = NO_NOTICE;
    let mut conn = on.get().await?;
    if DB::KIND.locks_file() {
        conn.begin().await?.commit().await?;
    }
    StoredWhere { id }.explain::<DB>(&mut conn).await?;
    AnswerableIfFree { id }.explain::<DB>(&mut conn).await?;
    EndedIfFree { id }.explain::<DB>(&mut conn).await?;
    Nack { clock: now.into(), id, errors: "[]" }.explain::<DB>(&mut conn).await?;
    AckLate { clock: now.into(), id, reason: ACKED_LATE }.explain::<DB>(&mut conn).await?;
    let none = ClaimedNotice::new(NO_NOTICE, 0, Status::AwaitingAck, String::new(), DateTime::UNIX_EPOCH);
    if let OfLive::End(settle) = of_live(&Reply::ack(NO_NOTICE), &none) {
        explain_end::<DB>(&mut conn, now, &settle).await?;
    }
    conn.done();
    Ok(())
}

/// `None`: another session has locked the notice.
pub(crate) async fn ack<DB: Dialect>(on: &Share<DB>, now: Arg<'_>, given: &Reply) -> sqlx::Result<Option<AckResult>> {
    let mut conn = on.get().await?;
    let mut tx = conn.begin().await?;
    let answered = look::<DB>(&mut tx, now, given, false).await?;
    tx.commit().await?;
    conn.done();
    Ok(answered)
}

/// Stores an ack or nack within the caller's transaction. It waits for the lock of the notice, because an error would end that transaction
/// on Postgres.
pub(crate) async fn apply_ack<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    given: &Reply,
) -> sqlx::Result<AckResult> {
    // Two rounds, because an operator may revive the notice, or a settle archive it, between the two looks.
    for _ in 0..2 {
        if let Some(answered) = look::<DB>(conn, now, given, true).await? {
            return Ok(answered);
        }
    }
    Ok(AckResult::Unknown)
}

pub(crate) async fn read_store_id<DB: Dialect>(on: &Share<DB>) -> sqlx::Result<Option<i64>> {
    let mut conn = on.get().await?;
    let id = store_id::<DB>(&mut conn).await?;
    conn.done();
    Ok(id)
}

/// Reads the random number of the database.
pub(crate) async fn store_id<DB: Dialect>(conn: &mut DB::Connection) -> sqlx::Result<Option<i64>> {
    one_number::<DB>(&StoreId {}.fetch::<DB>(conn).await?)
}

/// Looks for the notice where it is stored now, locks it, and applies an ack or nack. `waits`: for other sessions. `None`: it has moved meanwhile,
/// or another session has locked it.
async fn look<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    given: &Reply,
    waits: bool,
) -> sqlx::Result<Option<AckResult>> {
    let (id, clock) = (given.id, now.into());
    let stored = StoredWhere { id }.fetch::<DB>(conn).await?;
    let stored = numbers::<DB>(&stored)?;
    if stored.is_empty() {
        let own = if given.store.is_some() { store_id::<DB>(conn).await? } else { None };
        return Ok(Some(given.of_missing(own)));
    }
    if stored.contains(&1) {
        let rows = match waits {
            true => Answerable { id }.fetch::<DB>(conn).await?,
            false => AnswerableIfFree { id }.fetch::<DB>(conn).await?,
        };
        if let Some(row) = rows.first() {
            let status = Status::from_code(required::<DB>(row, STATUS_OF_LIVE)?).unwrap_or(Status::NotSent);
            let Some(live) = read_claimed::<DB>(&rows, status).pop() else { return Ok(Some(AckResult::Unknown)) };
            match of_live(given, &live) {
                OfLive::End(settle) => end_one::<DB>(conn, now, &settle).await?,
                OfLive::Fail(errors) => {
                    Nack { clock, id, errors: &errors }.execute::<DB>(conn).await?;
                }
                OfLive::Nothing(answered) => return Ok(Some(answered)),
            }
            if let Some(entry) = given.entry(DateTime::UNIX_EPOCH, Some(live.def_id), live.status) {
                write_entry::<DB>(conn, now, &entry).await?;
            }
            return Ok(Some(AckResult::Applied));
        }
    }
    let rows = match waits {
        true => Ended { id }.fetch::<DB>(conn).await?,
        false => EndedIfFree { id }.fetch::<DB>(conn).await?,
    };
    let Some(row) = rows.first() else { return Ok(None) };
    let status = Status::from_code(required::<DB>(row, EndedColumns::AT.status)?).unwrap_or(Status::Succeeded);
    let created = time_from_millis(required::<DB>(row, EndedColumns::AT.create_time)?);
    if let Some(answered) = of_ended(given, status, required::<DB>(row, EndedColumns::AT.fence)?, created) {
        return Ok(Some(answered));
    }
    AckLate { clock, id, reason: ACKED_LATE }.execute::<DB>(conn).await?;
    if let Some(entry) = given.entry(DateTime::UNIX_EPOCH, DB::int(row, EndedColumns::AT.def_id)?, status) {
        write_entry::<DB>(conn, now, &entry).await?;
    }
    Ok(Some(AckResult::DeadLetterAcked))
}
