//! The statements that claim notices.
//!
//! On PostgreSQL and SQLite each of these claims in one statement, which is a transaction of its own unless the queue slice is read in
//! parts (`ordering.rs`): that is done while this process does not know that a definition has no ordering keys. The statement locks
//! the rows first and updates only those, because Postgres could run the subselect again for each row and return other rows each
//! time. The status is checked again after the lock.
//!
//! MySQL has no `UPDATE … RETURNING`. There a locking read picks the rows, and `claim_picked` updates them in the same transaction.
//!
//! The arguments are those of [`crate::claim::plain::claim_arguments`]: `$2` definition, `$3` status, `$4` how many or which
//! notices, `$5` node, `$6` length of the lease, `$7` mark at which the look begins.

use solid_notify_core::store::CRASH_LOOP;

use crate::dialect::kind::Kind::{MySql, Postgres, Sqlite};
use crate::dialect::kind::{Kind, Ty};
use crate::dialect::row::Claimed;
use crate::dialect::statement::{Statement, statements};

statements! {
    ClaimStatements:
    claim_slice,
    claim_crash_looping,
    claim_ids,
    claim_keys,
    [
        still_first,
        claim_picked,
    ]
}

impl ClaimStatements {
    fn new(kind: Kind) -> Self {
        let statement = |text: String| Statement::new(kind, &text);
        let (now, lock, its_turn) = (kind.now(), kind.lock(), kind.its_turn());
        let changes = changes(kind);
        let claimed = Claimed::stored(kind);
        // The row as `claim_picked` is going to change it.
        let picked = Claimed::list(kind, "fence + 1", &now);
        // The end of each claim that is one statement: the rows that `due` has locked.
        let update = format!(
            "UPDATE notify_msg AS m
             SET {changes}
             WHERE {is_locked} AND m.status + 0 = $3
             RETURNING {claimed}",
            is_locked = kind.id_in("m.id", "SELECT id FROM due")
        );
        // The notices of a queue slice that are due, the first ones first.
        let slice = |crashes: &str| {
            let from_mark = kind.from_mark("$7");
            statement(match kind {
                Postgres | Sqlite => format!(
                    "WITH due AS MATERIALIZED (
                         SELECT m.id
                         FROM notify_msg m
                         WHERE m.def_id = $2 AND m.status = $3 AND m.next_call_time <= {now}{from_mark}
                             AND {its_turn}
                             AND m.crashes {crashes} {CRASH_LOOP}
                         ORDER BY m.next_call_time
                         LIMIT $4{lock}
                     )
                     {update}"
                ),
                MySql => format!(
                    "SELECT {picked}
                     FROM notify_msg m FORCE INDEX (notify_msg_due)
                     WHERE m.def_id = $2 AND m.status = $3 AND m.next_call_time <= {now}
                         AND {its_turn}
                         AND m.crashes {crashes} {CRASH_LOOP}
                     ORDER BY m.next_call_time
                     LIMIT $4{lock}"
                ),
            })
        };
        let due = due_by_ids(kind);
        let listed = kind.listed("m.id", "$4");
        let keys = kind.batch("$4", &[("own_key", Ty::Key)]);
        Self {
            claim_slice: slice("<"),
            claim_crash_looping: slice(">="),
            claim_ids: statement(match kind {
                Postgres | Sqlite => format!(
                    "WITH due AS MATERIALIZED (
                         SELECT m.id
                         FROM notify_msg AS m
                         WHERE {listed} AND {due}
                             AND {its_turn}{lock}
                     )
                     {update}"
                ),
                MySql => format!(
                    "SELECT {picked}
                     FROM notify_msg AS m FORCE INDEX (PRIMARY)
                     WHERE {listed} AND {due}
                         AND {its_turn}{lock}"
                ),
            }),
            // The first notice of each listed key, by one index search each. A subquery that cannot be flattened makes the planner of
            // Postgres read the batch first. MySQL needs all columns of the index in its order.
            claim_keys: statement(match kind {
                Postgres => format!(
                    "WITH due AS MATERIALIZED (
                         SELECT m.id
                         FROM (
                             SELECT (
                                 SELECT o.id
                                 FROM notify_msg o
                                 WHERE o.def_id = $2 AND o.ordering_key = b.own_key
                                 ORDER BY {place}
                                 LIMIT 1
                             ) AS notice_id
                             FROM {keys}
                         ) AS b
                         CROSS JOIN LATERAL (
                             SELECT m.*
                             FROM notify_msg m
                             WHERE m.id = b.notice_id AND {due}
                                 AND {its_turn}{lock}
                         ) AS m
                     )
                     {update}",
                    place = kind.place()
                ),
                Sqlite => format!(
                    "WITH due AS MATERIALIZED (
                         SELECT m.id
                         FROM (
                             SELECT (
                                 SELECT o.id
                                 FROM notify_msg o
                                 WHERE o.def_id = $2 AND o.ordering_key = b.own_key
                                 ORDER BY {place}
                                 LIMIT 1
                             ) AS notice_id
                             FROM {keys}
                         ) AS b
                         CROSS JOIN notify_msg m ON m.id = b.notice_id
                         WHERE {due}
                             AND {its_turn}
                     )
                     {update}",
                    place = kind.place()
                ),
                MySql => format!(
                    "SELECT {picked}
                     FROM (
                         SELECT (
                             SELECT o.id
                             FROM notify_msg o FORCE INDEX (notify_msg_order)
                             WHERE o.def_id = $2 AND o.ordering_key = b.own_key
                             ORDER BY o.def_id, o.ordering_key, o.id
                             LIMIT 1
                         ) AS notice_id
                         FROM {keys}
                     ) AS b
                     STRAIGHT_JOIN notify_msg m FORCE INDEX (PRIMARY) ON m.id = b.notice_id
                     WHERE {due}
                         AND {its_turn}{lock}"
                ),
            }),
            still_first: (kind == MySql).then(|| {
                statement(format!(
                    "SELECT m.id
                     FROM notify_msg AS m FORCE INDEX (PRIMARY)
                     WHERE m.id IN ($2) AND {its_turn}"
                ))
            }),
            claim_picked: (kind == MySql).then(|| {
                statement(format!(
                    "UPDATE notify_msg AS m FORCE INDEX (PRIMARY)
                     SET {changes}
                     WHERE m.id IN ($4) AND m.status + 0 = $3"
                ))
            }),
        }
    }
}

/// What a claim changes.
pub(crate) fn changes(kind: Kind) -> String {
    let now = kind.now();
    let lease_end = kind.plus(&now, "$6");
    format!(
        "status = 5, fence = fence + 1, worker = $5, last_call_time = {now}, next_call_time = {lease_end},
             blocked_since = NULL"
    )
}

/// The condition that a notice, found by its id, is in the queue slice and due. Without `+ 0` and IS TRUE, Postgres reads the whole
/// slice by the other index where its statistics are old (here, and wherever rows are found by their ids).
pub(crate) fn due_by_ids(kind: Kind) -> String {
    let now = kind.now();
    format!("m.def_id + 0 = $2 AND m.status + 0 = $3 AND (m.next_call_time <= {now}) IS TRUE")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_read_no_ended_notice() {
        for kind in [Postgres, MySql, Sqlite] {
            let statements = ClaimStatements::new(kind).texts();
            assert!(statements.len() >= 4);
            for (name, text) in statements {
                assert!(!text.contains("history"), "{name} would slow down with ended notices:\n{text}");
            }
        }
    }
}
