//! Acks and nacks of receivers, in the caller's transaction or in one of the store.

use chrono::DateTime;
use solid_notify_core::ack::{ACKED_LATE, AckResult, OfLive, Reply, of_ended, of_live};
use solid_notify_core::notice::{ClaimedNotice, Status, time_from_millis};
use solid_notify_core::store::NO_NOTICE;

use crate::audit::write_entry;
use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::{Claimed, columns, explain, numbers, one_number, read_claimed, required};
use crate::dialect::statement::{Arg, Statement, statements};
use crate::settle::{end_one, explain_end};

/// Where `answerable` has the status, behind the columns of a claim.
const STATUS_OF_LIVE: usize = Claimed::COUNT;

columns! {
    /// An ended notice, as far as a late ack needs it.
    Ended(kind: Kind):
    status = "status";
    fence = "fence";
    def_id = "def_id";
    create_time = kind.epoch_down("create_time");
}

statements! {
    AckStatements:
    stored_where,
    answerable,
    answerable_if_free,
    ended,
    ended_if_free,
    store_id,
    nack,
    ack_late,
}

impl AckStatements {
    fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        let answerable = format!("SELECT {}, status FROM notify_msg WHERE id = $2", Claimed::stored(kind));
        let ended = format!("SELECT {} FROM notify_msg_history WHERE id = $2", Ended::list(kind));
        let (wait, if_free) = (kind.lock_wait(), kind.lock_if_free());
        Self {
            // Without a lock: where there is no row, a locking read on MySQL would lock the gap. The next insert of any session
            // would wait there until the caller's transaction ends.
            stored_where: statement(
                "SELECT 1 FROM notify_msg WHERE id = $2 UNION ALL SELECT 2 FROM notify_msg_history WHERE id = $2"
                    .into(),
            ),
            // A lock that waits for a settle that runs now finds no row afterwards; the next look finds the notice where it went.
            answerable: statement(format!("{answerable}{wait}")),
            answerable_if_free: statement(answerable + if_free),
            ended: statement(format!("{ended}{wait}")),
            ended_if_free: statement(ended + if_free),
            store_id: statement("SELECT store_id FROM notify_switch".into()),
            // The new status makes the settle of a sender that is still running fail.
            nack: statement(format!(
                "UPDATE notify_msg SET status = 4, errors = {}, next_call_time = {now} WHERE id = $2",
                kind.to_json("$3")
            )),
            ack_late: statement(format!(
                "UPDATE notify_msg_history SET status = 1, finish_time = {now}, end_reason = $3, error_group = NULL WHERE id = $2"
            )),
        }
    }
}

/// Has the database explain the statements of acks: it then checks the rights and the tables, waits where a table is locked, and changes nothing.
/// SQLite has neither; there an ack needs the lock of the file.
pub(crate) async fn can_ack<DB: Dialect>(on: &Share<DB>, now: Arg<'_>) -> sqlx::Result<()> {
    let statements = AckStatements::of(DB::KIND);
    let id = NO_NOTICE.into();
    let mut conn = on.get().await?;
    if DB::KIND.locks_file() {
        conn.begin().await?.commit().await?;
    }
    for statement in [&statements.stored_where, &statements.answerable_if_free, &statements.ended_if_free] {
        explain::<DB>(&mut conn, statement, &[now, id]).await?;
    }
    explain::<DB>(&mut conn, &statements.nack, &[now, id, "[]".into()]).await?;
    explain::<DB>(&mut conn, &statements.ack_late, &[now, id, ACKED_LATE.into()]).await?;
    let none = ClaimedNotice::new(NO_NOTICE, 0, Status::AwaitingAck, String::new(), DateTime::UNIX_EPOCH);
    if let OfLive::End(settle) = of_live(&Reply::ack(NO_NOTICE), &none) {
        explain_end::<DB>(&mut conn, now, &settle).await?;
    }
    conn.done();
    Ok(())
}

/// `None`: another session has locked the notice.
pub(crate) async fn ack<DB: Dialect>(on: &Share<DB>, now: Arg<'_>, given: &Reply) -> sqlx::Result<Option<AckResult>> {
    let statements = AckStatements::of(DB::KIND);
    let locks = (&statements.answerable_if_free, &statements.ended_if_free);
    let mut conn = on.get().await?;
    let mut tx = conn.begin().await?;
    let answered = look::<DB>(&mut tx, now, given, locks).await?;
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
    let statements = AckStatements::of(DB::KIND);
    // Two rounds, because an operator may revive the notice, or a settle archive it, between the two looks.
    for _ in 0..2 {
        if let Some(answered) = look::<DB>(conn, now, given, (&statements.answerable, &statements.ended)).await? {
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
    one_number::<DB>(&DB::fetch(conn, &AckStatements::of(DB::KIND).store_id, &[]).await?)
}

/// Looks for the notice where it is stored now, locks it, and applies an ack or nack. `None`: it has moved meanwhile, or another session has
/// locked it.
async fn look<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    given: &Reply,
    (answerable, ended): (&Statement, &Statement),
) -> sqlx::Result<Option<AckResult>> {
    let statements = AckStatements::of(DB::KIND);
    let id = given.id.into();
    let stored = DB::fetch(conn, &statements.stored_where, &[now, id]).await?;
    let stored = numbers::<DB>(&stored)?;
    if stored.is_empty() {
        let own = if given.store.is_some() { store_id::<DB>(conn).await? } else { None };
        return Ok(Some(given.of_missing(own)));
    }
    if stored.contains(&1) {
        let rows = DB::fetch(conn, answerable, &[now, id]).await?;
        if let Some(row) = rows.first() {
            let status = Status::from_code(required::<DB>(row, STATUS_OF_LIVE)?).unwrap_or(Status::NotSent);
            let Some(live) = read_claimed::<DB>(&rows, status).pop() else { return Ok(Some(AckResult::Unknown)) };
            match of_live(given, &live) {
                OfLive::End(settle) => end_one::<DB>(conn, now, &settle).await?,
                OfLive::Fail(errors) => {
                    DB::execute(conn, &statements.nack, &[now, id, errors.as_str().into()]).await?;
                }
                OfLive::Nothing(answered) => return Ok(Some(answered)),
            }
            if let Some(entry) = given.entry(DateTime::UNIX_EPOCH, Some(live.def_id), live.status) {
                write_entry::<DB>(conn, now, &entry).await?;
            }
            return Ok(Some(AckResult::Applied));
        }
    }
    let rows = DB::fetch(conn, ended, &[now, id]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let status = Status::from_code(required::<DB>(row, Ended::AT.status)?).unwrap_or(Status::Succeeded);
    let created = time_from_millis(required::<DB>(row, Ended::AT.create_time)?);
    if let Some(answered) = of_ended(given, status, required::<DB>(row, Ended::AT.fence)?, created) {
        return Ok(Some(answered));
    }
    DB::execute(conn, &statements.ack_late, &[now, id, ACKED_LATE.into()]).await?;
    if let Some(entry) = given.entry(DateTime::UNIX_EPOCH, DB::int(row, Ended::AT.def_id)?, status) {
        write_entry::<DB>(conn, now, &entry).await?;
    }
    Ok(Some(AckResult::DeadLetterAcked))
}
