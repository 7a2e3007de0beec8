//! Every statement of the store, written once. `$1` is always the hand-turned clock (null: the database's clock).
//!
//! A comment over a statement says why it is as it is; what differs per dialect is in [`super::fragment`].

use super::fragment::{Kind, Ty};
use super::run::Statement;
use crate::definition::{ColumnValue, NotifyDef};
use crate::store::SUSPECT_CRASHES;

macro_rules! statements {
    ($($name:ident,)+) => {
        /// The statements of one dialect.
        pub struct Statements {
            $(pub $name: Statement,)+
        }

        impl Statements {
            /// The name and the text of each, for tests that look at the plans.
            pub(super) fn texts(&self) -> Vec<(&'static str, String)> {
                vec![$((stringify!($name), self.$name.text().to_owned()),)+]
            }
        }
    };
}

statements! {
    definition_id,
    definition_id_now,
    definition_names,
    insert,
    due,
    claim_lane,
    claim_suspects,
    claim_ids,
    take,
    overdue,
    held_by,
    hold,
    evict,
    archive,
    remove,
    reschedule,
    verify,
    extendable,
    extend,
    find,
    purgeable,
    purge,
    purge_definition,
    time,
    beat,
    first_beat,
    forget_nodes,
    definitions,
    definition_by_name,
    lock_definition,
    create_definition,
    replace_definition,
    delete_definition,
}

impl Statements {
    pub(super) fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        let define = definition_statements(kind);
        let send_time = format!("coalesce({}, {})", kind.epoch_time("$6"), kind.plus(&now, "$7"));
        let insert = |def_id: &str, from: &str| {
            statement(format!(
                "INSERT INTO notify_msg (def_id, param, description, trace_context, create_time, next_call_time)
                 SELECT {def_id}, {}, $4, $5, {now}, {send_time}{from}",
                kind.to_json("$3")
            ))
        };
        // The index entry of the earliest due time, per definition and status: four searches a definition, however
        // many notices there are. `ORDER BY … LIMIT 1`, since MySQL reads the whole group for a correlated `min`.
        let earliest = |status: i64| {
            // Rounded up, and now down: what is told as due can be claimed. A time that cannot be read is due where the
            // claim's comparison says so, lest it hide its lane; where not, it is the last of it.
            let next = format!(
                "coalesce({}, CASE WHEN m.next_call_time <= {now} THEN {} END)",
                kind.epoch_up("m.next_call_time"),
                kind.epoch_down(&now)
            );
            format!(
                "(SELECT {next} FROM notify_msg m WHERE m.def_id = d.id AND m.status = {status}
                  AND m.next_call_time IS NOT NULL ORDER BY m.next_call_time LIMIT 1)"
            )
        };
        let in_lane = format!("m.def_id = $2 AND m.status = $3 AND m.next_call_time <= {now}");
        let lane_order = "ORDER BY m.next_call_time LIMIT $4";
        let ids = kind.batch("$4", &[("notice_id", Ty::Int)]);
        // `+ 0` keeps Postgres from reading the whole lane by the other index, as it does where its statistics are old.
        let by_ids = format!("m.def_id + 0 = $2 AND m.status + 0 = $3 AND m.next_call_time <= {now}");
        let ids_from = kind.batch_join(&ids, "notify_msg");
        let lease_end = kind.plus(&now, "$6");
        let take = format!(
            "status = 5, attempt = attempt + 1, worker = $5, last_call_time = {now}, next_call_time = {lease_end}"
        );
        let lock = kind.lock();
        // Locking the rows first and updating just those: the subselect alone could be run again for each row and
        // return others each time. Status is checked once more after the lock was got.
        let claim = |pick: &str| {
            if kind.update_returns() {
                statement(format!(
                    "WITH due AS MATERIALIZED (SELECT m.id {pick}{lock})
                     UPDATE notify_msg AS m SET {take} WHERE m.id IN (SELECT id FROM due) AND m.status = $3
                     RETURNING {}",
                    claimed_columns(kind, "attempt", "last_call_time")
                ))
            } else {
                statement(format!("SELECT {} {pick}{lock}", claimed_columns(kind, "attempt + 1", &now)))
            }
        };
        let taken = kind.batch("$4", &[("notice_id", Ty::Int)]);
        let settled = kind.batch("$2", SETTLED);
        let keys =
            kind.batch("$2", &[("notice_id", Ty::Int), ("attempt", Ty::Int), ("was", Ty::Int), ("overdue", Ty::Int)]);
        let ids_only = kind.batch("$2", &[("notice_id", Ty::Int)]);
        let leases = kind.batch("$2", &[("notice_id", Ty::Int), ("attempt", Ty::Int), ("lease", Ty::Int)]);
        Self {
            definition_id: statement(definition_id("")),
            // The caller's snapshot may be older than the definition; a locking read sees what is committed.
            definition_id_now: statement(definition_id(" LOCK IN SHARE MODE")),
            definition_names: statement(
                "SELECT name FROM notify_def WHERE delete_time IS NULL ORDER BY name LIMIT 1000".into(),
            ),
            insert: if kind.insert_reads_freely() {
                Statement::new(
                    kind,
                    &format!(
                        "{} RETURNING id, def_id",
                        insert("d.id", " FROM notify_def d WHERE d.name = $2 AND d.delete_time IS NULL").text()
                    ),
                )
            } else {
                insert("$2", "")
            },
            due: statement(format!(
                "SELECT d.id, {}, {}, {}, {}, {} FROM notify_def d",
                kind.epoch_down(&now),
                earliest(0),
                earliest(2),
                earliest(5),
                earliest(4)
            )),
            claim_lane: claim(&format!("FROM notify_msg m WHERE {in_lane} AND m.crashes < {SUSPECT_CRASHES} {lane_order}")),
            claim_suspects: claim(&format!("FROM notify_msg m WHERE {in_lane} AND m.crashes >= {SUSPECT_CRASHES} {lane_order}")),
            claim_ids: claim(&format!("FROM {ids_from} WHERE {by_ids}")),
            take: statement(kind.batch_update(&taken, "notify_msg", &take, " AND m.status = $3")),
            overdue: statement(format!(
                "SELECT {} FROM notify_msg m WHERE {in_lane} {lane_order}",
                claimed_columns(kind, "attempt", "last_call_time")
            )),
            // By the index, definition by definition: what is being sent is little.
            held_by: statement(format!(
                "SELECT {} FROM notify_msg m WHERE m.def_id IN (SELECT d.id FROM notify_def d) AND m.status = 5 AND m.worker = $2
                 ORDER BY m.id LIMIT $3",
                claimed_columns(kind, "attempt", "last_call_time")
            )),
            // The fence: who does not find its attempt, in the status it left it in, changes nothing.
            hold: statement(format!(
                "SELECT m.id FROM {} WHERE m.attempt = b.attempt AND m.status = b.was
                 AND (b.overdue = 0 OR m.next_call_time <= {now}){lock}",
                kind.batch_join(&keys, "notify_msg")
            )),
            // Ids that were given twice (a restored sequence, a TRUNCATE on MySQL): the live notice keeps its id.
            evict: statement(kind.batch_delete(&ids_only, "notify_msg_history", "")),
            archive: statement(format!(
                "INSERT INTO notify_msg_history ({HISTORY})
                 SELECT m.id, m.def_id, m.param, b.new_description, {}, b.new_status, m.attempt, b.new_failures,
                        b.new_crashes, m.worker, b.new_class, m.last_call_time, NULL, m.create_time, m.dedupe_key,
                        m.ordering_key, m.trace_context, {now}, b.reason
                 FROM {}",
                kind.to_json("b.new_errors"),
                kind.batch_join(&settled, "notify_msg")
            )),
            remove: statement(kind.batch_delete(&ids_only, "notify_msg", "")),
            reschedule: statement(kind.batch_update(
                &settled,
                "notify_msg",
                &format!(
                    "status = b.new_status, failures = b.new_failures, crashes = b.new_crashes, errors = {},
                     last_class = b.new_class, description = b.new_description, next_call_time = {}",
                    kind.to_json("b.new_errors"),
                    kind.plus(&now, "b.after_ms")
                ),
                "",
            )),
            verify: statement({
                let from = |table: &str| {
                    format!(
                        "SELECT m.id, m.attempt, m.status, m.failures, m.crashes FROM {}",
                        kind.batch_join(&ids_only, table)
                    )
                };
                format!("{} UNION ALL {}", from("notify_msg"), from("notify_msg_history"))
            }),
            // Locked rows are passed over: one of them must not keep the other leases from being extended.
            extendable: statement(format!(
                "SELECT m.id FROM {} WHERE m.attempt = b.attempt AND m.status = 5{lock}",
                kind.batch_join(&leases, "notify_msg")
            )),
            extend: statement(kind.batch_update(
                &leases,
                "notify_msg",
                &format!("next_call_time = {}", kind.plus(&now, "b.lease")),
                " AND m.attempt = b.attempt AND m.status = 5",
            )),
            find: statement(format!(
                "SELECT {}, NULL, NULL FROM notify_msg m WHERE m.id = $2
                 UNION ALL SELECT {}, {}, m.end_reason FROM notify_msg_history m WHERE m.id = $2",
                record_columns(kind),
                record_columns(kind),
                kind.epoch("m.finish_time")
            )),
            purgeable: statement(format!(
                "SELECT m.id FROM notify_msg_history m WHERE m.def_id = $2 AND m.status = $3 AND m.finish_time <= {}
                 ORDER BY m.finish_time LIMIT $5",
                kind.plus(&now, "-$4")
            )),
            purge: statement(kind.batch_delete(&ids_only, "notify_msg_history", " AND m.status = $3")),
            purge_definition: statement(format!(
                "DELETE FROM notify_def WHERE id = $2 AND delete_time <= {}
                 AND NOT EXISTS (SELECT 1 FROM notify_msg WHERE def_id = $2)
                 AND NOT EXISTS (SELECT 1 FROM notify_msg_history WHERE def_id = $2)",
                kind.plus(&now, "-$3")
            )),
            time: statement(format!("SELECT {}", kind.epoch(&now))),
            beat: statement(format!(
                "UPDATE notify_node SET last_seen = {now}, handlers = $3, clock_offset_ms = $4 WHERE id = $2"
            )),
            first_beat: statement(format!(
                "INSERT INTO notify_node (id, handlers, clock_offset_ms, start_time, last_seen) VALUES ($2, $3, $4, {now}, {now})"
            )),
            forget_nodes: statement(format!("DELETE FROM notify_node WHERE last_seen <= {}", kind.plus(&now, "-$2"))),
            definitions: define.all,
            definition_by_name: define.by_name,
            lock_definition: define.lock,
            create_definition: define.create,
            replace_definition: define.replace,
            delete_definition: define.delete,
        }
    }
}

/// What a settled notice is to become. The names differ from the table's, so that assignments can name those bare.
const SETTLED: &[(&str, Ty)] = &[
    ("notice_id", Ty::Int),
    ("new_status", Ty::Int),
    ("after_ms", Ty::Int),
    ("new_failures", Ty::Int),
    ("new_crashes", Ty::Int),
    ("new_errors", Ty::Text),
    ("new_class", Ty::Text),
    ("new_description", Ty::Text),
    ("reason", Ty::Text),
];

const HISTORY: &str = "id, def_id, param, description, errors, status, attempt, failures, crashes, worker, last_class, \
     last_call_time, next_call_time, create_time, dedupe_key, ordering_key, trace_context, finish_time, end_reason";

fn definition_id(lock: &str) -> String {
    // MariaDB tells whether the server still has a transaction open, which the driver does not know after a raw ROLLBACK;
    // MySQL ignores the executable comment. The cast: coalesce makes a decimal of the variable, which is unsigned.
    format!(
        "SELECT id, CAST(coalesce(/*M! @@in_transaction, */ 1) AS signed) FROM notify_def
         WHERE name = $2 AND delete_time IS NULL{lock}"
    )
}

/// What a claim reads. Without an alias in front (SQLite knows none in RETURNING), hence no batch has a column `id`.
fn claimed_columns(kind: Kind, attempt: &str, last_call_time: &str) -> String {
    format!(
        "id, def_id, {}, description, {}, {attempt}, failures, crashes, worker, {}, {}, trace_context",
        kind.json_text("param"),
        kind.json_text("errors"),
        kind.epoch(last_call_time),
        kind.epoch("create_time")
    )
}

fn record_columns(kind: Kind) -> String {
    format!(
        "m.id, m.def_id, m.status, {}, m.description, {}, m.attempt, m.failures, m.crashes, m.worker, m.last_class, {}, {}, m.trace_context, {}",
        kind.json_text("m.param"),
        kind.json_text("m.errors"),
        kind.epoch("m.next_call_time"),
        kind.epoch("m.create_time"),
        kind.epoch("m.last_call_time")
    )
}

/// The statements over `notify_def`, made from the list of its columns.
struct DefinitionStatements {
    all: Statement,
    by_name: Statement,
    lock: Statement,
    create: Statement,
    replace: Statement,
    delete: Statement,
}

fn definition_statements(kind: Kind) -> DefinitionStatements {
    let now = kind.now();
    let columns = NotifyDef::COLUMNS;
    let read: Vec<String> = columns
        .iter()
        .zip(NotifyDef::KINDS)
        .map(|(column, value)| match value {
            // Drivers disagree about booleans; everybody agrees about 0 and 1.
            ColumnValue::Bool(_) => format!("CASE WHEN {column} THEN 1 ELSE 0 END"),
            _ => (*column).to_owned(),
        })
        .collect();
    // A mark of deletion counts also where its time cannot be read.
    let select = format!(
        "SELECT id, {}, {}, {}, coalesce({}, CASE WHEN delete_time IS NOT NULL THEN 0 END) FROM notify_def",
        read.join(", "),
        kind.epoch("create_time"),
        kind.epoch("update_time"),
        kind.epoch("delete_time")
    );
    let parameters: Vec<String> = (0..columns.len()).map(|n| format!("${}", n + 2)).collect();
    let assignments: Vec<String> =
        columns.iter().zip(&parameters).map(|(column, parameter)| format!("{column} = {parameter}")).collect();
    let id = format!("${}", columns.len() + 2);
    let statement = |text: String| Statement::new(kind, &text);
    DefinitionStatements {
        all: statement(format!("{select} ORDER BY id")),
        by_name: statement(format!("{select} WHERE name = $2")),
        lock: statement(format!("{select} WHERE id = $2{}", kind.lock_wait())),
        create: statement(format!(
            "INSERT INTO notify_def ({}, create_time, update_time) VALUES ({}, {now}, {now})",
            columns.join(", "),
            parameters.join(", ")
        )),
        replace: statement(format!(
            "UPDATE notify_def SET {}, update_time = {now} WHERE id = {id}",
            assignments.join(", ")
        )),
        // The name becomes free, and the handler keeps its own, so that what is in flight still finds it.
        delete: statement(format!(
            "UPDATE notify_def SET delete_time = {now}, update_time = {now}, handler = $3, name = $4 WHERE id = $2"
        )),
    }
}
