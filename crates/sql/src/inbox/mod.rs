//! The table `notify_inbox`: marks the idempotency keys of receivers in the caller's transaction, and deletes old ones.

pub(crate) mod statements;

use serde::Serialize;
use solid_notify_core::error::{Error, Result};
use sqlx::Connection;

use crate::caller::Caller;
use crate::dialect::Dialect;
use crate::dialect::fault::{failed, is_unique_violation};
use crate::dialect::row::{numbers, required, required_text};
use crate::dialect::statement::{Arg, json};
use crate::inbox::statements::{InboxStatements, OldKey};

pub(crate) const MARKING: &str = "marking an idempotency key as seen";

/// A key to delete, as a row of a batch.
#[derive(Serialize)]
struct Old {
    receiver: String,
    sender: String,
    own_key: String,
}

/// Marks the key of a sender at a receiver (`mark`: receiver, sender, key) in the caller's transaction. Returns false if it was marked before.
pub(crate) async fn mark_seen<DB: Dialect>(
    conn: &mut DB::Connection,
    caller: Caller<'_>,
    mark: [&str; 3],
) -> Result<bool> {
    match (conn.is_in_transaction(), caller) {
        (true, _) => {}
        (false, Caller::Connection) => {
            let problem =
                "the connection has no open transaction; begin one, because the mark must commit with the work";
            return Err(Error::Invalid { what: "marking an idempotency key", problem: problem.to_owned() });
        }
        (false, _) => return Err(Error::TransactionLost { doing: MARKING }),
    }
    let [receiver, sender, key] = mark.map(Arg::from);
    let args = [Arg::Int(caller.now_millis()), receiver, sender, key];
    match DB::execute(conn, &InboxStatements::of(DB::KIND).mark_seen, &args).await {
        Ok(done) => Ok(done.rows > 0),
        Err(error) if is_unique_violation(&error) => Ok(false),
        Err(error) if DB::is_not_open(&error) => Err(Error::TransactionLost { doing: MARKING }),
        Err(error) => Err(failed::<DB>(MARKING, error)),
    }
}

/// Deletes at most `limit` keys that are older than `age` milliseconds. Returns how many were found, and when the youngest of them was seen.
pub(crate) async fn purge<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    (age, limit, begin): (i64, i64, i64),
) -> sqlx::Result<(usize, Option<i64>)> {
    let statements = InboxStatements::of(DB::KIND);
    let args = [now, age.into(), limit.into(), begin.into()];
    if let Some(purge) = &statements.purge_inbox {
        let times = numbers::<DB>(&DB::fetch(conn, purge, &args).await?)?;
        return Ok((times.len(), times.into_iter().max()));
    }
    let (Some(old_keys), Some(forget_keys)) = (&statements.old_keys, &statements.forget_keys) else {
        return Ok((0, None));
    };
    let rows = DB::fetch(conn, old_keys, &args).await?;
    const AT: OldKey = OldKey::AT;
    let old = |row| {
        let text = |at| required_text::<DB>(row, at);
        Ok(Old { receiver: text(AT.receiver)?, sender: text(AT.sender)?, own_key: text(AT.idempotency_key)? })
    };
    let old = rows.iter().map(old).collect::<sqlx::Result<Vec<_>>>()?;
    let last = rows.last().map(|row| required::<DB>(row, AT.seen)).transpose()?;
    if last.is_some() {
        DB::execute(conn, forget_keys, &[now, json(&old)?.as_str().into(), age.into()]).await?;
    }
    Ok((old.len(), last))
}
