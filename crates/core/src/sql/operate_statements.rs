//! The statements for what people ask: lists, counts, the operator's verbs, the audit.
//!
//! Notices are found by their ids, or in a lane by its index; a page begins behind a position, never at an offset.

use super::fragment::{Kind, Ty};
use super::read::record_columns;
use super::run::Statement;
use super::settle_statements::HISTORY;
use super::statements::statements;

statements! {
    OperateStatements:
    audit,
    audit_of,
    write_audit,
    list_ended_newest,
    list_ended_oldest,
    list_dead_newest,
    list_dead_oldest,
    list_live_newest,
    list_live_oldest,
    count_ended,
    count_dead,
    count_live,
    next_class,
    lock_live,
    lock_ended,
    hold_ended,
    revive,
    cancel,
    retime,
    retime_window,
    retry_groups,
    rewrite,
    ahead,
    living_nodes,
}

impl OperateStatements {
    pub(super) fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        let audit = |which: &str, limit: &str| {
            statement(format!(
                "SELECT {}, who, act, def_id, notice_id, detail FROM notify_audit{which} ORDER BY id DESC LIMIT {limit}",
                kind.epoch("time")
            ))
        };
        // A lane: `$2` is its definition, `$3` its status or class, `$4` and `$5` the first and the last time.
        let ended = |class: bool| match class {
            false => Lane {
                from: format!("notify_msg_history m{}", kind.by_index("notify_msg_history_finished")),
                which: "m.status = $3".to_owned(),
                time: "m.finish_time",
                reason: "substr(m.end_reason, 1, 500)",
            },
            true => Lane {
                from: format!("notify_msg_history m{}", kind.by_index("notify_msg_history_dead")),
                which: format!("{} = $3", kind.dead_class()),
                time: "m.finish_time",
                reason: "substr(m.end_reason, 1, 500)",
            },
        };
        let live = || Lane {
            from: format!("notify_msg m{}", kind.by_lane()),
            which: "m.status = $3".to_owned(),
            time: "m.next_call_time",
            reason: "NULL",
        };
        let ids = kind.batch("$2", &[("notice_id", Ty::Int), ("attempt", Ty::Int), ("was", Ty::Int)]);
        let due = |at: &str| kind.later(&kind.epoch_time(at), &now);
        let lock = |table: &str, ended: &str| {
            statement(format!(
                "SELECT {}, {ended} FROM {table} m WHERE m.id = $2{}",
                record_columns(kind),
                kind.lock_wait()
            ))
        };
        Self {
            audit: audit("", "$2"),
            audit_of: audit(" WHERE notice_id = $2", "$3"),
            write_audit: statement(format!(
                "INSERT INTO notify_audit (time, who, act, def_id, notice_id, detail) VALUES ({now}, $2, $3, $4, $5, $6)"
            )),
            list_ended_newest: statement(ended(false).newest(kind)),
            list_ended_oldest: statement(ended(false).oldest(kind)),
            list_dead_newest: statement(ended(true).newest(kind)),
            list_dead_oldest: statement(ended(true).oldest(kind)),
            list_live_newest: statement(live().newest(kind)),
            list_live_oldest: statement(live().oldest(kind)),
            count_ended: statement(ended(false).count(kind)),
            count_dead: statement(ended(true).count(kind)),
            count_live: statement(live().count(kind)),
            // The class after `$3`: one search of the index, however many dead letters there are. One definition at a time,
            // since MySQL searches a range only between values that it knows beforehand.
            next_class: statement(format!(
                "SELECT {class} FROM notify_msg_history m{} WHERE m.def_id = $2 AND {class} > $3 ORDER BY {class} LIMIT 1",
                kind.by_index("notify_msg_history_dead"),
                class = kind.dead_class(),
            )),
            lock_live: lock("notify_msg", "NULL, NULL"),
            lock_ended: lock("notify_msg_history", &format!("{}, m.end_reason", kind.epoch("m.finish_time"))),
            // Those of a window that are still as they were seen. Locked ones are passed over: somebody purges or revives them. So
            // is one whose id was given to a live notice as well (a restored sequence).
            hold_ended: statement(format!(
                "SELECT m.id, m.dedupe_key {}",
                kind.batch_rows(
                    &ids,
                    "notify_msg_history",
                    "m.attempt = b.attempt AND m.status + 0 = b.was
                     AND NOT EXISTS (SELECT 1 FROM notify_msg o WHERE o.id = m.id)",
                    kind.lock(),
                )
            )),
            // The attempt is kept, since it is the fence. What was never attempted is a first send.
            revive: statement(format!(
                "INSERT INTO notify_msg ({LIVE})
                 SELECT m.id, m.def_id, m.param, m.description, m.errors, CASE WHEN m.attempt > 0 THEN 2 ELSE 0 END,
                        m.attempt, 0, 0, m.worker, m.last_class, m.last_call_time, {}, m.create_time, m.dedupe_key,
                        m.ordering_key, m.trace_context {}",
                due("b.due"),
                kind.batch_rows(
                    &kind.batch("$2", &[("notice_id", Ty::Int), ("due", Ty::Int)]),
                    "notify_msg_history",
                    "true",
                    ""
                )
            )),
            cancel: statement(format!(
                "INSERT INTO notify_msg_history ({HISTORY})
                 SELECT m.id, m.def_id, m.param, m.description, m.errors, 6, m.attempt, m.failures, m.crashes, m.worker,
                        m.last_class, m.last_call_time, NULL, m.create_time, m.dedupe_key, m.ordering_key,
                        m.trace_context, {now}, $3 {}",
                kind.listed_rows("$2", "notify_msg", "true", "")
            )),
            retime: statement(format!("UPDATE notify_msg SET next_call_time = {} WHERE id = $2", due("$3"))),
            retime_window: statement(kind.batch_update(
                &kind.batch("$2", &[("notice_id", Ty::Int), ("due", Ty::Int)]),
                "notify_msg",
                &format!("next_call_time = {}", due("b.due")),
                "",
            )),
            // How long each waits from the beginning of its last attempt, in whole seconds, so that there are few groups.
            retry_groups: statement(format!(
                "SELECT failures, crashes, last_class, wait, due, count(*) FROM (
                     SELECT m.failures, m.crashes, m.last_class, {} AS wait,
                            CASE WHEN m.next_call_time <= {now} THEN 1 ELSE 0 END AS due
                     FROM notify_msg m{} WHERE m.def_id = $2 AND m.status = 2 LIMIT $3) AS waiting
                 GROUP BY failures, crashes, last_class, wait, due",
                kind.seconds_between("m.last_call_time", "m.next_call_time"),
                kind.by_lane()
            )),
            rewrite: statement(format!("UPDATE notify_msg SET param = {} WHERE id = $2", kind.to_json("$3"))),
            ahead: statement(kind.ahead()),
            living_nodes: statement(format!(
                "SELECT id, handlers, {} FROM notify_node WHERE last_seen > {} ORDER BY id",
                kind.epoch("last_seen"),
                kind.plus(&now, "-$2")
            )),
        }
    }
}

/// The columns of a live notice.
const LIVE: &str = "id, def_id, param, description, errors, status, attempt, failures, crashes, worker, last_class, \
     last_call_time, next_call_time, create_time, dedupe_key, ordering_key, trace_context";

/// Notices of a definition in the order of an index.
struct Lane {
    from: String,
    which: String,
    time: &'static str,
    reason: &'static str,
}

impl Lane {
    /// Behind the position `$5`, `$6`, backwards; at most `$7`.
    fn newest(&self, kind: Kind) -> String {
        self.list(kind, &format!("{} < {} OR m.id < $6", self.time, kind.text_time("$5")), " DESC")
    }

    /// Behind the position `$4`, `$6`.
    fn oldest(&self, kind: Kind) -> String {
        self.list(kind, &format!("{} > {} OR m.id > $6", self.time, kind.text_time("$4")), "")
    }

    fn list(&self, kind: Kind, behind: &str, order: &str) -> String {
        let time = self.time;
        let rows = format!("FROM {} WHERE {} AND ({behind})", self.from, self.within(kind));
        format!(
            "SELECT m.id, m.def_id, m.status, m.attempt, m.failures, m.crashes, m.last_class,
                    substr(m.description, 1, 200), {}, {}, {}, {}, m.ordering_key, m.dedupe_key, {}
             {} ORDER BY {time}{order}, m.id{order} LIMIT $7",
            kind.epoch("m.create_time"),
            kind.epoch(time),
            kind.time_text(time),
            self.reason,
            kind.epoch("m.last_call_time"),
            kind.first_by(&rows, &format!("{time}{order}"), "$7"),
        )
    }

    /// As many as there are, at most `$6`.
    fn count(&self, kind: Kind) -> String {
        format!(
            "SELECT count(*) FROM (SELECT 1 AS one FROM {} WHERE {} LIMIT $6) AS counted",
            self.from,
            self.within(kind)
        )
    }

    fn within(&self, kind: Kind) -> String {
        format!(
            "m.def_id = $2 AND {} AND {time} >= {} AND {time} <= {}",
            self.which,
            kind.text_time("$4"),
            kind.text_time("$5"),
            time = self.time
        )
    }
}
