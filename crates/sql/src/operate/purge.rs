//! Purges rows in small steps. The caller decides which rows are no longer kept, and logs what was deleted: so a step locks its
//! rows, reads what the log needs, and deletes these rows and no others.
//!
//! A step begins where the last one ended. Each deleted row leaves its index entry, which Postgres cannot clear away while any
//! transaction anywhere is older. Steps that began at the start would step over all such entries each time.

use std::collections::HashMap;

use parking_lot::Mutex;
use solid_notify_core::notice::{Status, duration_millis};
use solid_notify_core::store::{Purge, Purged};

use crate::connections::Share;
use crate::definitions::versions;
use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::{columns, required};
use crate::dialect::statement::{Arg, Statement, int, statements};
use crate::operate::counts;
use crate::settle::pass_on;
use crate::settle::statements::SettleStatements;
use crate::{inbox, limits, own, series};

columns! {
    /// What the log needs of a notice that is deleted.
    pub(super) PurgedRow():
    id = "m.id";
    failures = "m.failures";
    crashes = "m.crashes";
    class = "m.last_class";
    // Up to 40 KiB, and the log shows no successes.
    errors = "CASE WHEN m.status <> 1 THEN m.errors END";
    reason = "m.end_reason";
}

columns! {
    Purgeable(kind: Kind):
    id = "m.id";
    finish_time = kind.epoch_down("m.finish_time");
}

statements! {
    PurgeStatements:
    purgeable,
    lock_purgeable,
    purge_definition,
}

impl PurgeStatements {
    fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        Self {
            purgeable: statement(format!(
                "SELECT {columns}
                 FROM notify_msg_history m{by_index}
                 WHERE m.def_id = $2 AND m.status = $3 AND m.finish_time <= {old} AND m.finish_time >= {begin}
                 ORDER BY m.finish_time
                 LIMIT $5",
                columns = Purgeable::list(kind),
                by_index = kind.by_index("notify_msg_history_finished"),
                old = kind.plus(&now, "-$4"),
                begin = kind.epoch_time("$6")
            )),
            // Checks again, because a dead letter may have been revived, and have failed again, since it was found.
            lock_purgeable: statement(format!(
                "SELECT {} {}",
                PurgedRow::list(),
                kind.listed_rows(
                    "$2",
                    "notify_msg_history",
                    &format!("m.status + 0 = $3 AND {} <= {now}", kind.plus("m.finish_time", "$4")),
                    kind.lock_wait()
                )
            )),
            // Its targets inherit from it. (MySQL reads the table that it deletes from only as a derived table.)
            purge_definition: statement(format!(
                "DELETE FROM notify_def WHERE id = $2 AND delete_time <= {}
                 AND NOT EXISTS (SELECT 1 FROM notify_msg WHERE def_id = $2)
                 AND NOT EXISTS (SELECT 1 FROM notify_msg_history WHERE def_id = $2)
                 AND NOT EXISTS (SELECT 1 FROM (SELECT target_of FROM notify_def) t WHERE t.target_of = $2)",
                kind.plus(&now, "-$3")
            )),
        }
    }
}

/// Where the last full step of a purge ended, in milliseconds since 1970, by definition and status.
#[derive(Default)]
pub(crate) struct PurgeEnds(Mutex<HashMap<(i64, i64), i64>>);

/// The part of the inbox: no definition has this id.
const INBOX: (i64, Status) = (0, Status::NotSent);

impl PurgeEnds {
    fn begin(&self, def_id: i64, status: Status) -> i64 {
        self.0.lock().get(&(def_id, status.code())).copied().unwrap_or(0)
    }

    fn end(&self, def_id: i64, status: Status, at: Option<i64>) {
        let mut ends = self.0.lock();
        match at {
            Some(at) => ends.insert((def_id, status.code()), at),
            None => ends.remove(&(def_id, status.code())),
        };
    }
}

pub(crate) async fn purge<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    ends: &PurgeEnds,
    purge: &Purge,
) -> sqlx::Result<Vec<Purged>> {
    let statements = PurgeStatements::of(DB::KIND);
    let mut conn = on.get().await?;
    let purged = match purge {
        Purge::Definition { def_id, older_than } => {
            let args = [now, (*def_id).into(), duration_millis(*older_than).into()];
            let mut tx = conn.begin().await?;
            let is_purged = DB::execute(&mut tx, &statements.purge_definition, &args).await?.rows > 0;
            if is_purged {
                limits::forget::<DB>(&mut tx, now, *def_id).await?;
                counts::forget::<DB>(&mut tx, now, *def_id).await?;
                versions::forget::<DB>(&mut tx, now, *def_id).await?;
            }
            tx.commit().await?;
            if is_purged { vec![Purged { id: *def_id, ..Purged::default() }] } else { Vec::new() }
        }
        Purge::Inbox { older_than, limit } => {
            let (age, begin) = (duration_millis(*older_than), ends.begin(INBOX.0, INBOX.1));
            let (purged, last) = inbox::purge::<DB>(&mut conn, now, (age, int(*limit), begin)).await?;
            ends.end(INBOX.0, INBOX.1, last.filter(|_| purged == *limit));
            vec![Purged::default(); purged]
        }
        Purge::Series { older_than, limit } => {
            let old = (duration_millis(*older_than), *limit);
            vec![Purged::default(); series::purge::<DB>(&mut conn, now, old).await?]
        }
        Purge::Orphans { limit } => {
            let authorities = own::purge::<DB>(&mut conn, now, int(*limit)).await?;
            vec![Purged::default(); authorities + pass_on::purge::<DB>(&mut conn, now, int(*limit)).await?]
        }
        Purge::History { def_id, status, older_than, limit } => {
            let age = duration_millis(*older_than);
            let begin = ends.begin(*def_id, *status);
            let args = [now, (*def_id).into(), status.code().into(), age.into(), int(*limit).into(), begin.into()];
            let rows = DB::fetch(&mut conn, &statements.purgeable, &args).await?;
            // The last step of a purge is not full; the next purge begins at the start.
            let last = rows
                .last()
                .filter(|_| rows.len() == *limit)
                .map(|row| DB::int(row, Purgeable::AT.finish_time))
                .transpose()?;
            let id = |row| required::<DB>(row, Purgeable::AT.id);
            let ids = rows.iter().map(id).collect::<sqlx::Result<Vec<i64>>>()?;
            let mut purged = Vec::new();
            if !ids.is_empty() {
                let mut tx = conn.begin().await?;
                let args = [now, Arg::Ids(&ids), status.code().into(), age.into()];
                for row in &DB::fetch(&mut tx, &statements.lock_purgeable, &args).await? {
                    purged.push(read_purged::<DB>(row)?);
                }
                let ids: Vec<i64> = purged.iter().map(|row| row.id).collect();
                if !ids.is_empty() {
                    DB::execute(&mut tx, &SettleStatements::of(DB::KIND).evict, &[now, Arg::Ids(&ids)]).await?;
                }
                tx.commit().await?;
            }
            ends.end(*def_id, *status, last.flatten());
            purged
        }
    };
    conn.done();
    Ok(purged)
}

/// A column that an edit by hand made unreadable does not keep the row from being purged.
pub(super) fn read_purged<DB: Dialect>(row: &DB::Row) -> sqlx::Result<Purged> {
    const AT: PurgedRow = PurgedRow::AT;
    let number = |at| DB::int(row, at).ok().flatten().unwrap_or_default();
    let text = |at| DB::text(row, at).ok().flatten();
    let tries = number(AT.failures).saturating_add(number(AT.crashes));
    let (id, class, reason) = (required::<DB>(row, AT.id)?, text(AT.class), text(AT.reason));
    Ok(Purged { id, tries, class, error: None, reason }.with_errors(text(AT.errors).as_deref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_begins_where_the_last_full_one_of_its_slice_ended() {
        let ends = PurgeEnds::default();
        ends.end(1, Status::Succeeded, Some(5000));
        assert_eq!((ends.begin(1, Status::Succeeded), ends.begin(1, Status::DeadLetter)), (5000, 0));
        ends.end(1, Status::Succeeded, None);
        assert_eq!(ends.begin(1, Status::Succeeded), 0, "the purge is over");
    }
}
