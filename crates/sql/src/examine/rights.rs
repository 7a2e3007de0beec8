//! What the account may do. Databases check rights before they look for rows, so statements that select no row show it on each of them,
//! with roles, views and read-only files considered.

use solid_notify_core::finding::Finding;

use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::statement::Statement;

/// A task, and statements of its kind that change and return nothing. They name every column that has no default, because MariaDB would
/// refuse the statement otherwise.
const TASKS: [(&str, &[&str]); 4] = [
    ("read", &["SELECT id FROM notify_msg WHERE 1 = 0", "SELECT id FROM notify_def WHERE 1 = 0"]),
    ("add", &["INSERT INTO notify_msg (def_id, param) SELECT def_id, param FROM notify_msg WHERE 1 = 0"]),
    (
        "send",
        &[
            "UPDATE notify_msg SET status = status WHERE 1 = 0",
            "DELETE FROM notify_msg WHERE 1 = 0",
            "INSERT INTO notify_msg_history (id, def_id, param, status, fence, failures, crashes, create_time, next_call_time)
             SELECT id, def_id, param, status, fence, failures, crashes, create_time, next_call_time FROM notify_msg_history WHERE 1 = 0",
            "UPDATE notify_node SET handlers = handlers WHERE 1 = 0",
            "UPDATE notify_alert SET due = due WHERE 1 = 0",
        ],
    ),
    (
        "operate",
        &[
            "UPDATE notify_def SET enabled = enabled WHERE 1 = 0",
            "INSERT INTO notify_audit (who, act) SELECT who, act FROM notify_audit WHERE 1 = 0",
        ],
    ),
];

pub(super) async fn examine<DB: Dialect>(on: &Share<DB>) -> Finding {
    let (mut may, mut may_not) = (Vec::new(), Vec::new());
    for (task, statements) in TASKS {
        let mut refused = None;
        for sql in statements {
            if let Err(error) = on.rows(&Statement::new(DB::KIND, sql), &[]).await {
                refused.get_or_insert(error.to_string());
            }
        }
        match refused {
            None => may.push(task),
            Some(error) => may_not.push(format!("{task} ({error})")),
        }
    }
    let may = if may.is_empty() { "do nothing".to_owned() } else { may.join(", ") };
    match may_not.is_empty() {
        true => Finding::fine("privileges", format!("this account may {may}")),
        false => Finding::warning(
            "privileges",
            format!("this account may {may}; it may not {}", may_not.join(", ")),
            "a program with this account cannot do what it may not; that is right for accounts with one task",
            "the chapter Operations has the rights of each task",
        ),
    }
}
