//! The statements of inboxes.

use crate::dialect::kind::Kind::{self, MySql, Postgres, Sqlite};
use crate::dialect::kind::Ty;
use crate::dialect::row::columns;
use crate::dialect::statement::{Statement, statements};

statements! {
    InboxStatements:
    mark_seen,
    [
        purge_inbox,
        old_keys,
        forget_keys,
    ]
}

columns! {
    /// A key that is no longer kept.
    pub(crate) OldKey(seen: &str):
    receiver = "receiver";
    sender = "sender";
    idempotency_key = "idempotency_key";
    seen = seen;
}

/// A key to delete, as a row of a batch.
const OLD: &[(&str, Ty)] = &[("receiver", Ty::Key), ("sender", Ty::Key), ("own_key", Ty::Key)];

impl InboxStatements {
    fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        let mysql = |text: &dyn Fn() -> String| (kind == MySql).then(|| statement(text()));
        let is_old = |age: &str| format!("first_seen <= {}", kind.plus(&now, &format!("-{age}")));
        // Oldest first. `$4` is where the last step ended, because Postgres keeps the index entries of the deleted rows for a while.
        let oldest = |columns: &str| {
            format!(
                "SELECT {columns} FROM notify_inbox{by_index}
                 WHERE {is_old} AND first_seen >= {begin}
                 ORDER BY first_seen
                 LIMIT $3",
                by_index = kind.by_index("notify_inbox_first_seen"),
                is_old = is_old("$2"),
                begin = kind.epoch_time("$4")
            )
        };
        let row = if kind == Postgres { "ctid" } else { "rowid" };
        let seen = kind.epoch_down("first_seen");
        Self {
            // One statement, which waits for another transaction that marked the same key.
            mark_seen: statement(match kind {
                Postgres | Sqlite => format!(
                    "INSERT INTO notify_inbox (receiver, sender, idempotency_key, first_seen) VALUES ($2, $3, $4, {now})
                     ON CONFLICT (receiver, sender, idempotency_key) DO NOTHING"
                ),
                // A duplicate fails this statement and not the transaction. (INSERT IGNORE would also accept wrong values.) MariaDB reports
                // whether the transaction is still open: if not, the null fails the insert. MySQL ignores that comment.
                MySql => format!(
                    "INSERT INTO notify_inbox (receiver, sender, idempotency_key, first_seen)
                     VALUES (IF(coalesce(/*M! @@in_transaction, */ 1) = 1, $2, NULL), $3, $4, {now})"
                ),
            }),
            purge_inbox: kind.update_returns().then(|| {
                statement(format!("DELETE FROM notify_inbox WHERE {} RETURNING {seen}", kind.id_in(row, &oldest(row))))
            }),
            // Two statements, because a DELETE locks what it reads: it would wait for keys that receivers have just marked.
            old_keys: mysql(&|| oldest(&OldKey::list(&seen))),
            // Checks again, because another purge may have deleted the key, and its receiver may have marked it anew.
            forget_keys: mysql(&|| {
                format!(
                    "DELETE m FROM {} STRAIGHT_JOIN notify_inbox m{}
                     ON m.receiver = b.receiver AND m.sender = b.sender AND m.idempotency_key = b.own_key
                     WHERE m.{}",
                    kind.batch("$2", OLD),
                    kind.by_index("PRIMARY"),
                    is_old("$3")
                )
            }),
        }
    }
}
