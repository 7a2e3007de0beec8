//! Leases: extends those of this node, and reads notices whose lease or whose wait for an ack is over.

use std::collections::HashSet;

use solid_notify_core::notice::{ClaimedNotice, Status, duration_millis};
use solid_notify_core::store::{Lease, Look};

use crate::claim::hints::ClaimHints;
use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::query::Query;
use crate::dialect::row::{numbers, read_claimed};
use crate::dialect::statement::{Arg, int};
use crate::sql::claim::{ClaimedBy, Extend, Extendable, Overdue};

pub(crate) async fn look<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    hints: &ClaimHints,
    look: &Look,
    limit: usize,
) -> sqlx::Result<Vec<ClaimedNotice>> {
    let limit = int(limit);
    let (rows, status) = match look {
        Look::Overdue { def_id, status } => {
            let mark = hints.marks.of(*def_id, *status);
            let overdue = Overdue { clock: now.into(), def_id: *def_id, status: status.code(), limit, mark };
            (on.read(&overdue).await?, *status)
        }
        Look::ClaimedBy { worker } => (on.read(&ClaimedBy { worker, limit }).await?, Status::Sending),
    };
    Ok(read_claimed::<DB>(&rows, status))
}

/// Extends leases in one transaction. Returns the ids of the notices whose lease this node still has.
pub(crate) async fn extend<DB: Dialect>(on: &Share<DB>, now: Arg<'_>, leases: &[Lease]) -> sqlx::Result<HashSet<i64>> {
    let json = |leases: &mut dyn Iterator<Item = &Lease>| {
        let entries = leases.map(|lease| {
            serde_json::json!({ "notice_id": lease.id, "fence": lease.fence, "lease": duration_millis(lease.lease) })
        });
        serde_json::Value::from_iter(entries).to_string()
    };
    let all = json(&mut leases.iter());
    let mut conn = on.get().await?;
    let mut tx = conn.begin().await?;
    let rows = Extendable { leases: &all }.fetch::<DB>(&mut tx).await?;
    let free: HashSet<i64> = numbers::<DB>(&rows)?.into_iter().collect();
    if !free.is_empty() {
        let free = json(&mut leases.iter().filter(|lease| free.contains(&lease.id)));
        Extend { clock: now.into(), leases: &free }.execute::<DB>(&mut tx).await?;
    }
    tx.commit().await?;
    conn.done();
    Ok(free)
}
