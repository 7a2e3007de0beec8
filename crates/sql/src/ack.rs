//! Acks and nacks of receivers, in the caller's transaction or in one of the store.

use chrono::DateTime;
use solid_notify_core::ack::{ACKED_LATE, AckResult, OfLive, Reply, of_ended, of_live};
use solid_notify_core::notice::{Status, time_from_millis};

use crate::audit::write_entry;
use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::{Claimed, columns, numbers, read_claimed, required};
use crate::dialect::statement::{Arg, Statement, statements};
use crate::settle::end_one;

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
    ended,
    nack,
    ack_late,
}

impl AckStatements {
    fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        Self {
            // Without a lock: where there is no row, a locking read on MySQL would lock the gap. The next insert of any session
            // would wait there until the caller's transaction ends.
            stored_where: statement(
                "SELECT 1 FROM notify_msg WHERE id = $2 UNION ALL SELECT 2 FROM notify_msg_history WHERE id = $2"
                    .into(),
            ),
            // The lock waits for a settle that runs now; afterwards one of the two statements finds the notice.
            answerable: statement(format!(
                "SELECT {}, status FROM notify_msg WHERE id = $2{}",
                Claimed::stored(kind),
                kind.lock_wait()
            )),
            ended: statement(format!(
                "SELECT {} FROM notify_msg_history WHERE id = $2{}",
                Ended::list(kind),
                kind.lock_wait()
            )),
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

pub(crate) async fn ack<DB: Dialect>(on: &Share<DB>, now: Arg<'_>, given: &Reply) -> sqlx::Result<AckResult> {
    let mut conn = on.get().await?;
    let mut tx = conn.begin().await?;
    let answered = apply_ack::<DB>(&mut tx, now, given).await?;
    tx.commit().await?;
    conn.done();
    Ok(answered)
}

/// Stores an ack or nack, within a transaction.
pub(crate) async fn apply_ack<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    given: &Reply,
) -> sqlx::Result<AckResult> {
    let statements = AckStatements::of(DB::KIND);
    let id = given.id.into();
    // Two rounds, because an operator may revive the notice between the two looks.
    for _ in 0..2 {
        let stored = DB::fetch(conn, &statements.stored_where, &[now, id]).await?;
        let stored = numbers::<DB>(&stored)?;
        let rows = match stored.contains(&1) {
            true => DB::fetch(conn, &statements.answerable, &[now, id]).await?,
            false => Vec::new(),
        };
        if let Some(row) = rows.first() {
            let status = Status::from_code(required::<DB>(row, STATUS_OF_LIVE)?).unwrap_or(Status::NotSent);
            let Some(live) = read_claimed::<DB>(&rows, status).pop() else { return Ok(AckResult::Unknown) };
            match of_live(given, &live) {
                OfLive::End(settle) => end_one::<DB>(conn, now, &settle).await?,
                OfLive::Fail(errors) => {
                    DB::execute(conn, &statements.nack, &[now, id, errors.as_str().into()]).await?;
                }
                OfLive::Nothing(answered) => return Ok(answered),
            }
            if let Some(entry) = given.entry(DateTime::UNIX_EPOCH, Some(live.def_id), live.status) {
                write_entry::<DB>(conn, now, &entry).await?;
            }
            return Ok(AckResult::Applied);
        }
        if stored.is_empty() {
            return Ok(AckResult::Unknown);
        }
        let rows = DB::fetch(conn, &statements.ended, &[now, id]).await?;
        let Some(row) = rows.first() else { continue };
        let status = Status::from_code(required::<DB>(row, Ended::AT.status)?).unwrap_or(Status::Succeeded);
        let created = time_from_millis(required::<DB>(row, Ended::AT.create_time)?);
        if let Some(answered) = of_ended(given, status, required::<DB>(row, Ended::AT.fence)?, created) {
            return Ok(answered);
        }
        DB::execute(conn, &statements.ack_late, &[now, id, ACKED_LATE.into()]).await?;
        if let Some(entry) = given.entry(DateTime::UNIX_EPOCH, DB::int(row, Ended::AT.def_id)?, status) {
            write_entry::<DB>(conn, now, &entry).await?;
        }
        return Ok(AckResult::DeadLetterAcked);
    }
    Ok(AckResult::Unknown)
}
