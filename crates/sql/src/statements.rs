//! Every statement of the store, written once. `$1` is the hand-turned clock (null: the database's clock).
//!
//! A comment over a statement gives the reason for its form. Differences between dialects are in [`crate::dialect::kind`].

use solid_notify_core::store::CRASH_LOOP;

use crate::ack::AckStatements;
use crate::add::statements::insert_statements;
use crate::alerts::AlertStatements;
use crate::claim::blocked::BlockedStatements;
use crate::claim::limits::LimitStatements;
use crate::definitions::statements::definition_statements;
use crate::definitions::tick::TickStatements;
use crate::definitions::version_statements::VersionStatements;
use crate::dialect::kind::{Kind, Ty};
use crate::dialect::row::{DUE, ENDED, claimed_columns, record_columns};
use crate::dialect::statement::Statement;
use crate::operate::counts::CountStatements;
use crate::operate::statements::OperateStatements;
use crate::settle::statements::{SETTLED, archived, bare, fence, rescheduled, settle_at_once, settle_bare};

/// Declares the statements of a dialect: those of every dialect, in brackets those that some dialects lack, then the parts.
macro_rules! statements {
    ($of:ident: $($name:ident,)+ $([$($lacking:ident,)+])? $(; $part:ident: $part_of:ty)*) => {
        /// The statements of one dialect.
        pub struct $of {
            $(pub $name: Statement,)+
            $($(pub $lacking: Option<Statement>,)+)?
            $(pub $part: $part_of,)*
        }

        impl $of {
            /// Returns the name and the text of each statement, for tests of the query plans.
            pub(crate) fn texts(&self) -> Vec<(&'static str, String)> {
                let own = vec![$((stringify!($name), self.$name.text().to_owned()),)+];
                $($(
                    let lacking = self.$lacking.iter().map(|found| (stringify!($lacking), found.text().to_owned()));
                    let own = own.into_iter().chain(lacking).collect::<Vec<_>>();
                )+)?
                $(let own = [own, self.$part.texts()].concat();)*
                own
            }
        }
    };
}
pub(crate) use statements;

statements! {
    Statements:
    definition_id,
    definition_id_now,
    definition_names,
    definition_ids,
    insert_plain,
    insert_known,
    own_server,
    insert,
    insert_keyed,
    duplicates,
    hold_duplicates,
    id_step,
    due,
    claim_slice,
    claim_crash_looping,
    claim_ids,
    claim_keys,
    still_first,
    take,
    overdue,
    held_by,
    hold,
    evict,
    archive,
    archive_bare,
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
    nodes,
    forget_nodes,
    definitions,
    definition_by_name,
    lock_definition,
    create_definition,
    replace_definition,
    delete_definition,
    [
        insert_many,
        insert_many_keyed,
        claim_fresh,
        settle,
        settle_kept,
        settle_gone,
    ]
    ; blocked: BlockedStatements
    ; ack: AckStatements
    ; alerts: AlertStatements
    ; limits: LimitStatements
    ; counts: CountStatements
    ; operate: OperateStatements
    ; tick: TickStatements
    ; versions: VersionStatements
}

impl Statements {
    pub(crate) fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        let define = definition_statements(kind);
        let add = insert_statements(kind);
        // The index entry of the earliest due time, per definition and status: four searches for each definition, however
        // many notices there are. `ORDER BY … LIMIT 1`, because MySQL reads the whole group for a correlated `min`.
        let earliest = |status: i64| {
            // The due time is rounded up and now is rounded down, so a notice reported as due can be claimed. An unreadable time
            // counts as 0 where the claim's comparison finds it due, so that it does not hide its queue slice. Otherwise it sorts
            // last.
            let next = format!(
                "coalesce({}, CASE WHEN m.next_call_time <= {now} THEN 0 END)",
                kind.epoch_up("m.next_call_time")
            );
            format!(
                "(SELECT {next} FROM notify_msg m{} WHERE m.def_id = d.id AND m.status = {status}{}
                  ORDER BY {} LIMIT 1)",
                kind.by_slice(),
                kind.from_mark(&format!("b.from_{status}")),
                kind.order_of_slice()
            )
        };
        let in_slice = format!("m.def_id = $2 AND m.status = $3 AND m.next_call_time <= {now}");
        let by_slice = kind.by_slice();
        let slice_order = "ORDER BY m.next_call_time LIMIT $4";
        // Without `+ 0` and IS TRUE, Postgres reads the whole queue slice by the other index where its statistics are old
        // (here, and wherever rows are found by their ids).
        let due_by_ids = format!("m.def_id + 0 = $2 AND m.status + 0 = $3 AND (m.next_call_time <= {now}) IS TRUE");
        let by_ids = format!("{due_by_ids} AND {}", kind.its_turn());
        let lock = kind.lock();
        let in_turn = format!("{in_slice}{} AND {}", kind.from_mark("$7"), kind.its_turn());
        let first_of_keys = kind.first_of_keys("$2", &kind.batch("$4", &[("own_key", Ty::Key)]));
        let lease_end = kind.plus(&now, "$6");
        let take = format!(
            "status = 5, fence = fence + 1, worker = $5, last_call_time = {now}, next_call_time = {lease_end},
             blocked_since = NULL"
        );
        // Locks the rows first and updates only those, because Postgres could run the subselect again for each row and return
        // other rows each time. The status is checked again after the lock.
        let claim = |pick: &str| {
            if kind.update_returns() {
                statement(format!(
                    "WITH due AS MATERIALIZED (SELECT m.id {pick})
                     UPDATE notify_msg AS m SET {take} WHERE {} AND m.status + 0 = $3 RETURNING {}",
                    kind.id_in("m.id", "SELECT id FROM due"),
                    claimed_columns(kind, "fence", "last_call_time")
                ))
            } else {
                statement(format!("SELECT {} {pick}", claimed_columns(kind, "fence + 1", &now)))
            }
        };
        let duplicates = |lock: &str| {
            statement(format!(
                "SELECT m.id, m.def_id, m.dedupe_key, m.fence FROM {} {} notify_msg m ON m.def_id = b.owner AND {}{lock}",
                kind.batch("$2", &[("owner", Ty::Int), ("own_key", Ty::Key)]),
                kind.join_in_order(),
                kind.has_key("b.own_key")
            ))
        };
        let settled = kind.batch("$2", SETTLED);
        let keys =
            kind.batch("$2", &[("notice_id", Ty::Int), ("fence", Ty::Int), ("was", Ty::Int), ("overdue", Ty::Int)]);
        let leases = kind.batch("$2", &[("notice_id", Ty::Int), ("fence", Ty::Int), ("lease", Ty::Int)]);
        Self {
            definition_id: statement(definition_id(kind, "")),
            // The caller's snapshot may be older than the definition; a locking read sees committed rows.
            definition_id_now: statement(definition_id(kind, " LOCK IN SHARE MODE")),
            definition_names: statement(
                "SELECT name FROM notify_def WHERE delete_time IS NULL ORDER BY name LIMIT 1000".into(),
            ),
            definition_ids: statement(format!(
                "SELECT d.id, d.name, {} FROM notify_def d JOIN {} ON d.name = b.own_key WHERE d.delete_time IS NULL",
                kind.tables_at_hand(),
                kind.batch("$2", &[("own_key", Ty::Key)])
            )),
            insert_plain: add.plain,
            insert_known: add.known,
            own_server: statement(format!("{}, {}", kind.sees_open(), kind.tables_at_hand())),
            insert: add.one,
            insert_keyed: add.keyed,
            insert_many: add.many,
            insert_many_keyed: add.many_keyed,
            duplicates: duplicates(""),
            hold_duplicates: duplicates(kind.lock_shared()),
            id_step: statement(kind.id_step().into()),
            due: statement(format!(
                "SELECT d.id, {}, {}, {}, {}, {}, d.tick_schedule, {},
                 (SELECT {} FROM notify_alert a WHERE a.due IS NOT NULL ORDER BY a.due LIMIT 1) FROM notify_def d{}",
                kind.epoch_down(&now),
                earliest(0),
                earliest(2),
                earliest(5),
                earliest(4),
                kind.epoch("d.last_tick"),
                kind.epoch_up("a.due"),
                kind.join_marks("$2")
            )),
            claim_slice: claim(&format!(
                "FROM notify_msg m{by_slice} WHERE {in_turn} AND m.crashes < {CRASH_LOOP} {slice_order}{lock}"
            )),
            claim_crash_looping: claim(&format!(
                "FROM notify_msg m{by_slice} WHERE {in_turn} AND m.crashes >= {CRASH_LOOP} {slice_order}{lock}"
            )),
            claim_ids: claim(&kind.listed_rows("$4", "notify_msg", &by_ids, lock)),
            // As `claim_ids`, for notices without an ordering key that are probably not locked. It decides the time from the
            // commit to the handler, and an idle server takes long to prepare the look at a key's other notices.
            claim_fresh: kind.wait_briefly().map(|wait_briefly| {
                statement(format!(
                    "UPDATE notify_msg AS m SET {take} WHERE {} AND {due_by_ids} AND m.ordering_key IS NULL AND {wait_briefly} RETURNING {}",
                    kind.listed("m.id", "$4"),
                    claimed_columns(kind, "fence", "last_call_time")
                ))
            }),
            claim_keys: claim(&kind.batch_rows(&first_of_keys, "notify_msg", &by_ids, lock)),
            still_first: statement(format!(
                "SELECT m.id {}",
                kind.listed_rows("$2", "notify_msg", &kind.its_turn(), "")
            )),
            take: statement(format!(
                "UPDATE notify_msg AS m{} SET {take} WHERE {} AND m.status + 0 = $3",
                kind.by_index("PRIMARY"),
                kind.listed("m.id", "$4")
            )),
            overdue: statement(format!(
                "SELECT {} FROM notify_msg m{by_slice} WHERE {in_slice}{} {slice_order}",
                claimed_columns(kind, "fence", "last_call_time"),
                kind.from_mark("$5")
            )),
            // By the index, definition by definition, because few notices are being sent.
            held_by: statement(format!(
                "SELECT {} {} ORDER BY m.id LIMIT $3",
                claimed_columns(kind, "fence", "last_call_time"),
                kind.rows_by(
                    "(SELECT id AS owner FROM notify_def) AS b",
                    "notify_msg",
                    ["notify_msg_due", "m.def_id = b.owner"],
                    "m.status = 5 AND m.worker = $2",
                    ""
                )
            )),
            hold: statement(format!(
                "SELECT m.id, m.fence, b.was {}",
                kind.batch_rows(&keys, "notify_msg", &fence(kind), lock)
            )),
            settle: settle_at_once(kind).map(statement),
            settle_kept: settle_bare(kind, true).map(statement),
            settle_gone: settle_bare(kind, false).map(statement),
            // Ids that were given twice (a restored sequence, a TRUNCATE on MySQL): the live notice keeps its id.
            evict: statement(kind.listed_delete("$2", "notify_msg_history", "")),
            archive: statement(format!(
                "{} {}",
                archived(kind, &|column| format!("b.{column}")),
                kind.batch_rows(&settled, "notify_msg", "true", "")
            )),
            // For successes that change no other column.
            archive_bare: statement(format!(
                "{} {}",
                archived(kind, &bare),
                kind.listed_rows("$2", "notify_msg", "true", "")
            )),
            remove: statement(kind.listed_delete("$2", "notify_msg", "")),
            reschedule: statement(kind.batch_update(&settled, "notify_msg", &rescheduled(kind), "")),
            verify: statement({
                let from = |table: &str| {
                    format!(
                        "SELECT m.id, m.fence, m.status, m.failures, m.crashes {}",
                        kind.listed_rows("$2", table, "true", "")
                    )
                };
                format!("{} UNION ALL {}", from("notify_msg"), from("notify_msg_history"))
            }),
            // Skips locked rows, because one of them must not delay the other leases.
            extendable: statement(format!(
                "SELECT m.id {}",
                kind.batch_rows(&leases, "notify_msg", "m.fence = b.fence AND m.status + 0 = 5", lock)
            )),
            extend: statement(kind.batch_update(
                &leases,
                "notify_msg",
                &format!("next_call_time = {}", kind.plus(&now, "b.lease")),
                " AND m.fence = b.fence AND m.status + 0 = 5",
            )),
            find: statement(format!(
                "SELECT {}, NULL, NULL FROM notify_msg m WHERE m.id = $2
                 UNION ALL SELECT {}, {}, m.end_reason FROM notify_msg_history m WHERE m.id = $2",
                record_columns(kind, DUE),
                record_columns(kind, ENDED),
                kind.epoch("m.finish_time")
            )),
            purgeable: statement(format!(
                "SELECT m.id, {} FROM notify_msg_history m{} WHERE m.def_id = $2 AND m.status = $3 AND m.finish_time <= {}
                 AND m.finish_time >= {} ORDER BY m.finish_time LIMIT $5",
                kind.epoch_down("m.finish_time"),
                kind.by_index("notify_msg_history_finished"),
                kind.plus(&now, "-$4"),
                kind.epoch_time("$6")
            )),
            // Checks again, because a dead letter may have been revived, and have failed again, since it was found.
            purge: statement(kind.listed_delete(
                "$2",
                "notify_msg_history",
                &format!(" AND m.status + 0 = $3 AND {} <= {now}", kind.plus("m.finish_time", "$4")),
            )),
            purge_definition: statement(format!(
                "DELETE FROM notify_def WHERE id = $2 AND delete_time <= {}
                 AND NOT EXISTS (SELECT 1 FROM notify_msg WHERE def_id = $2)
                 AND NOT EXISTS (SELECT 1 FROM notify_msg_history WHERE def_id = $2)",
                kind.plus(&now, "-$3")
            )),
            time: statement(format!("SELECT {}", kind.epoch_down(&now))),
            beat: statement(format!(
                "UPDATE notify_node SET last_seen = {now}, handlers = $3, clock_offset_ms = $4 WHERE id = $2"
            )),
            first_beat: statement(format!(
                "INSERT INTO notify_node (id, handlers, clock_offset_ms, start_time, last_seen) VALUES ($2, $3, $4, {now}, {now})"
            )),
            nodes: statement(format!("SELECT handlers FROM notify_node WHERE {}", kind.was_seen("$2"))),
            forget_nodes: statement(format!("DELETE FROM notify_node WHERE NOT ({})", kind.was_seen("$2"))),
            definitions: define.all,
            definition_by_name: define.by_name,
            lock_definition: define.lock,
            create_definition: define.create,
            replace_definition: define.replace,
            delete_definition: define.delete,
            blocked: BlockedStatements::new(kind),
            ack: AckStatements::new(kind),
            alerts: AlertStatements::new(kind),
            limits: LimitStatements::new(kind),
            counts: CountStatements::new(kind),
            operate: OperateStatements::new(kind),
            tick: TickStatements::new(kind),
            versions: VersionStatements::new(kind),
        }
    }
}

fn definition_id(kind: Kind, lock: &str) -> String {
    // MariaDB reports whether the server still has an open transaction, which the driver does not know after a raw ROLLBACK;
    // MySQL ignores the executable comment. The cast: coalesce makes a decimal of the variable, which is unsigned.
    format!(
        "SELECT id, CAST(coalesce(/*M! @@in_transaction, */ 1) AS signed), {} FROM notify_def
         WHERE name = $2 AND delete_time IS NULL{lock}",
        kind.tables_at_hand()
    )
}
