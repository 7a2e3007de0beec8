//! Answers of receivers, in the caller's transaction or one of our own.

use super::connections::Purpose;
use super::dialect::Dialect;
use super::fragment::Kind;
use super::operate::write_entry;
use super::read::{claimed_columns, read_claimed, required};
use super::run::{Arg, Statement};
use super::settle::end_one;
use super::statements::statements;
use super::store::SqlStore;
use crate::confirm::{CONFIRMED_LATE, Confirmation, Confirmed, OfLive, late_entry, of_ended, of_live};
use crate::notice::Status;
use std::time::SystemTime;

statements! {
    ConfirmStatements:
    stands_where,
    answerable,
    ended,
    refuse,
    confirm_late,
}

impl ConfirmStatements {
    pub(super) fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        Self {
            // Without a lock: where there is no row, MySQL would lock the place where one may come, and everybody's next notice
            // with it, until the caller's transaction ends.
            stands_where: statement(
                "SELECT 1 FROM notify_msg WHERE id = $2 UNION ALL SELECT 2 FROM notify_msg_history WHERE id = $2"
                    .into(),
            ),
            // The lock waits for a settle of the moment; both then find how it stands.
            answerable: statement(format!(
                "SELECT {}, status FROM notify_msg WHERE id = $2{}",
                claimed_columns(kind, "attempt", "last_call_time"),
                kind.lock_wait()
            )),
            ended: statement(format!(
                "SELECT status, attempt, def_id FROM notify_msg_history WHERE id = $2{}",
                kind.lock_wait()
            )),
            // Whoever is sending it loses by its status.
            refuse: statement(format!(
                "UPDATE notify_msg SET status = 4, errors = {}, next_call_time = {now} WHERE id = $2",
                kind.to_json("$3")
            )),
            confirm_late: statement(format!(
                "UPDATE notify_msg_history SET status = 1, finish_time = {now}, end_reason = $3 WHERE id = $2"
            )),
        }
    }
}

impl<DB: Dialect> SqlStore<DB> {
    pub(super) async fn try_confirm(&self, given: &Confirmation) -> sqlx::Result<Confirmed> {
        let mut conn = self.connections.get(Purpose::Work).await?;
        let mut tx = conn.begin().await?;
        let answered = confirm::<DB>(&mut tx, self.now(), given).await?;
        tx.commit().await?;
        conn.done();
        Ok(answered)
    }
}

/// Carries out an answer, within a transaction.
pub(super) async fn confirm<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    given: &Confirmation,
) -> sqlx::Result<Confirmed> {
    let statements = DB::statements();
    let id = given.id.into();
    // Twice: between the two looks it may have been revived.
    for _ in 0..2 {
        let stands = DB::fetch(conn, &statements.confirm.stands_where, &[now, id]).await?;
        let stands = stands.iter().map(|row| required::<DB>(row, 0)).collect::<sqlx::Result<Vec<_>>>()?;
        let rows = match stands.contains(&1) {
            true => DB::fetch(conn, &statements.confirm.answerable, &[now, id]).await?,
            false => Vec::new(),
        };
        if let Some(row) = rows.first() {
            let status = Status::from_code(required::<DB>(row, 13)?).unwrap_or(Status::NotSent);
            let Some(live) = read_claimed::<DB>(&rows, status).pop() else { return Ok(Confirmed::Unknown) };
            return match of_live(given, &live) {
                OfLive::End(settle) => end_one::<DB>(conn, now, &settle).await.map(|()| Confirmed::Done),
                OfLive::Fail(errors) => {
                    DB::execute(conn, &statements.confirm.refuse, &[now, id, errors.as_str().into()]).await?;
                    Ok(Confirmed::Done)
                }
                OfLive::Nothing(answered) => Ok(answered),
            };
        }
        if stands.is_empty() {
            return Ok(Confirmed::Unknown);
        }
        let rows = DB::fetch(conn, &statements.confirm.ended, &[now, id]).await?;
        let Some(row) = rows.first() else { continue };
        let status = Status::from_code(required::<DB>(row, 0)?).unwrap_or(Status::Succeeded);
        if let Some(answered) = of_ended(given, status, required::<DB>(row, 1)?) {
            return Ok(answered);
        }
        DB::execute(conn, &statements.confirm.confirm_late, &[now, id, CONFIRMED_LATE.into()]).await?;
        let entry = late_entry(SystemTime::UNIX_EPOCH, DB::int(row, 2)?, given.id);
        write_entry::<DB>(conn, now, &entry).await?;
        return Ok(Confirmed::DeadLetterConfirmed);
    }
    Ok(Confirmed::Unknown)
}
