//! Leases: extends those of this node, and reads notices whose lease or whose wait for an ack is over.

use std::collections::HashSet;

use solid_notify_core::notice::{ClaimedNotice, Status, duration_millis};
use solid_notify_core::store::{Lease, Look};

use crate::claim::hints::ClaimHints;
use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::{Kind, Ty};
use crate::dialect::row::{Claimed, numbers, read_claimed};
use crate::dialect::statement::{Arg, Statement, int, statements};
use crate::fence;

statements! {
    LeaseStatements:
    overdue,
    claimed_by,
    extendable,
    extend,
}

impl LeaseStatements {
    fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        let claimed = Claimed::stored(kind);
        let leases = kind.batch("$2", &[("notice_id", Ty::Int), ("fence", Ty::Int), ("lease", Ty::Int)]);
        // That it is still being sent (status 5), under this claim.
        let ours = fence::holds("5");
        Self {
            overdue: statement(format!(
                "SELECT {claimed}
                 FROM notify_msg m{by_slice}
                 WHERE m.def_id = $2 AND m.status = $3 AND m.next_call_time <= {now}{from_mark}
                 ORDER BY m.next_call_time
                 LIMIT $4",
                by_slice = kind.by_slice(),
                from_mark = kind.from_mark("$5")
            )),
            // By the index, definition by definition, because few notices are being sent.
            claimed_by: statement(format!(
                "SELECT {claimed} {} ORDER BY m.id LIMIT $3",
                kind.rows_by(
                    "(SELECT id AS owner FROM notify_def) AS b",
                    "notify_msg",
                    ["notify_msg_due", "m.def_id = b.owner"],
                    "m.status = 5 AND m.worker = $2",
                    ""
                )
            )),
            // Skips locked rows, because one of them must not delay the other leases.
            extendable: statement(format!(
                "SELECT m.id {}",
                kind.batch_rows(&leases, "notify_msg", &ours, kind.lock())
            )),
            extend: statement(kind.batch_update(
                &leases,
                "notify_msg",
                &format!("next_call_time = {}", kind.plus(&now, "b.lease")),
                &format!(" AND {ours}"),
            )),
        }
    }
}

pub(crate) async fn look<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    hints: &ClaimHints,
    look: &Look,
    limit: usize,
) -> sqlx::Result<Vec<ClaimedNotice>> {
    let statements = LeaseStatements::of(DB::KIND);
    let limit = int(limit).into();
    let (rows, status) = match look {
        Look::Overdue { def_id, status } => {
            let mark = Arg::Int(hints.marks.of(*def_id, *status));
            let args = [now, (*def_id).into(), status.code().into(), limit, mark];
            (on.rows(&statements.overdue, &args).await?, *status)
        }
        Look::ClaimedBy { worker } => {
            let args = [now, worker.as_str().into(), limit];
            (on.rows(&statements.claimed_by, &args).await?, Status::Sending)
        }
    };
    Ok(read_claimed::<DB>(&rows, status))
}

/// Extends leases in one transaction. Returns the ids of the notices whose lease this node still has.
pub(crate) async fn extend<DB: Dialect>(on: &Share<DB>, now: Arg<'_>, leases: &[Lease]) -> sqlx::Result<HashSet<i64>> {
    let statements = LeaseStatements::of(DB::KIND);
    let json = |leases: &mut dyn Iterator<Item = &Lease>| {
        let entries = leases.map(|lease| {
            serde_json::json!({ "notice_id": lease.id, "fence": lease.fence, "lease": duration_millis(lease.lease) })
        });
        serde_json::Value::from_iter(entries).to_string()
    };
    let all = json(&mut leases.iter());
    let mut conn = on.get().await?;
    let mut tx = conn.begin().await?;
    let rows = DB::fetch(&mut tx, &statements.extendable, &[now, all.as_str().into()]).await?;
    let free: HashSet<i64> = numbers::<DB>(&rows)?.into_iter().collect();
    if !free.is_empty() {
        let free = json(&mut leases.iter().filter(|lease| free.contains(&lease.id)));
        DB::execute(&mut tx, &statements.extend, &[now, free.as_str().into()]).await?;
    }
    tx.commit().await?;
    conn.done();
    Ok(free)
}
