//! Repairs notices whose values the database refuses when it changes or copies them.
//!
//! A session may switch checks off (`check_constraint_checks` on MariaDB, `sql_mode` on both servers) and insert such a row: its statement
//! succeeds, and each later change of the row fails, with all other rows of that change. An empty key or tag becomes null, an unreadable
//! time the present or null. PostgreSQL has no such setting for producers, and SQLite checks only what a statement changes.

use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::numbers;
use crate::dialect::statement::{Arg, Statement, statements};

statements! {
    RepairStatements:
    [
        damaged,
        repair,
    ]
}

impl RepairStatements {
    fn new(kind: Kind) -> Self {
        let statement = |text: String| kind.has_lax_sessions().then(|| Statement::new(kind, &text));
        let readable = |time: &str| format!("{} >= 0", kind.epoch(time));
        let or =
            |time: &str, other: &str| format!("{time} = CASE WHEN {} THEN {time} ELSE {other} END", readable(time));
        Self {
            // Without locks, because it reads all live notices.
            damaged: statement(format!(
                "SELECT id FROM notify_msg
                 WHERE dedupe_key = '' OR ordering_key = '' OR tag = ''
                     OR NOT coalesce({}, false) OR NOT coalesce({}, false)
                     OR (expires_at IS NOT NULL AND NOT coalesce({}, false))
                 LIMIT 1000",
                readable("create_time"),
                readable("next_call_time"),
                readable("expires_at")
            )),
            repair: statement(format!(
                "UPDATE notify_msg
                 SET dedupe_key = nullif(dedupe_key, ''), ordering_key = nullif(ordering_key, ''), tag = nullif(tag, ''),
                     {}, {}, {}
                 WHERE {}",
                or("create_time", &kind.now()),
                or("next_call_time", &kind.now()),
                or("expires_at", "NULL"),
                kind.listed("id", "$2")
            )),
        }
    }
}

/// True for an error that a damaged row may cause: a check, or a time that is not one.
pub(crate) fn may_be_damage(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| {
        error.kind() == sqlx::error::ErrorKind::CheckViolation || error.code().is_some_and(|state| state == "22007")
    })
}

/// Repairs up to 1,000 damaged notices. Returns whether there were any.
pub(crate) async fn repair<DB: Dialect>(on: &Share<DB>, now: Arg<'_>) -> sqlx::Result<bool> {
    let statements = RepairStatements::of(DB::KIND);
    let (Some(damaged), Some(repair)) = (&statements.damaged, &statements.repair) else { return Ok(false) };
    let mut conn = on.get().await?;
    let ids = numbers::<DB>(&DB::fetch(&mut conn, damaged, &[now]).await?)?;
    if !ids.is_empty() {
        DB::execute(&mut conn, repair, &[now, Arg::Ids(&ids)]).await?;
        tracing::error!(
            count = ids.len(),
            first = ids[0],
            "repaired notices that a session without checks has inserted"
        );
    }
    conn.done();
    Ok(!ids.is_empty())
}
