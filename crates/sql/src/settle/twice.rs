//! Ids that were given twice: a notice ends, and history has another one with its id.
//!
//! The notice that ends keeps its id, because its receiver has it. A success or a cancelled notice in history is replaced. A dead letter is
//! kept under a new id, because it is work that no receiver has done. `doctor` finds such ids before that happens.

use solid_notify_core::notice::time_from_millis;
use solid_notify_core::store::{AuditEntry, Authority};

use crate::audit::write_entry;
use crate::dialect::Dialect;
use crate::dialect::row::{numbers, required};
use crate::dialect::statement::Arg;
use crate::settle::statements::SettleStatements;

/// Makes room in history for the notices with these ids, which the caller has locked.
pub(crate) async fn make_room<DB: Dialect>(conn: &mut DB::Connection, now: Arg<'_>, ids: &[i64]) -> sqlx::Result<()> {
    let statements = SettleStatements::of(DB::KIND);
    let dead = DB::fetch(conn, &statements.dead_with_ids, &[now, Arg::Ids(ids)]).await?;
    if !dead.is_empty() {
        // Behind all ids, because a notice of an ordering key that is sent once more is sorted by its id.
        let last = numbers::<DB>(&DB::fetch(conn, &statements.last_id, &[]).await?)?.into_iter().max().unwrap_or(0);
        for (row, new) in dead.iter().zip(last.saturating_add(1)..) {
            let id = required::<DB>(row, 0)?;
            DB::execute(conn, &statements.renumber, &[now, id.into(), new.into()]).await?;
            let mut entry = AuditEntry::new(time_from_millis(0), Authority::LIBRARY, "renumber");
            (entry.def_id, entry.notice_id) = (DB::int(row, 1)?, Some(new));
            entry.detail = Some(format!("its id {id} was given to another notice"));
            write_entry::<DB>(conn, now, &entry).await?;
            tracing::error!(id, new, "the id of a dead letter was given to another notice: it is kept under a new id");
        }
    }
    let replaced = DB::execute(conn, &statements.evict, &[now, Arg::Ids(ids)]).await?.rows;
    if replaced > 0 {
        tracing::error!(
            replaced,
            "ids of ended notices were given to new ones; the new ones replace them in notify_msg_history"
        );
    }
    Ok(())
}
