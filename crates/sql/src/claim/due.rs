//! The look for due notices: one statement for all definitions.

use solid_notify_core::notice::{NEVER, Status, duration_from_millis, time_from_millis};
use solid_notify_core::store::{DueSlice, DueTimes, LastTick};

use crate::claim::hints::ClaimHints;
use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::Kind::{self, MySql, Postgres, Sqlite};
use crate::dialect::row::{columns, required};
use crate::dialect::statement::{Arg, Statement, json, statements};
use crate::nodes::time;

columns! {
    /// The first due time of each status is null where there is no notice.
    Due(kind: Kind, now: &str, first: &dyn Fn(i64) -> String):
    def_id = "d.id";
    now = kind.epoch_down(now);
    not_sent = first(0);
    failed = first(2);
    sending = first(5);
    awaiting_ack = first(4);
    tick_schedule = "d.tick_schedule";
    last_tick = kind.epoch("d.last_tick");
    // When the first row of an alert is due; the same in each row.
    due_alert = format!(
        "(SELECT {} FROM notify_alert a WHERE a.due IS NOT NULL ORDER BY a.due LIMIT 1)",
        kind.epoch_up("a.due")
    );
}

statements! {
    DueStatements:
    due,
}

impl DueStatements {
    fn new(kind: Kind) -> Self {
        let now = kind.now();
        // The index entry of the earliest due time, per definition and status: four searches for each definition, however
        // many notices there are. `ORDER BY … LIMIT 1`, because MySQL reads the whole group for a correlated `min`; it needs all
        // columns of the index in the order, as in `Kind::order_of_slice`. On Postgres a search begins at a mark.
        //
        // The due time is rounded up and now is rounded down, so a notice reported as due can be claimed. An unreadable time
        // counts as 0 where the claim's comparison finds it due, so that it does not hide its queue slice. Otherwise it sorts
        // last.
        let first = |status: i64| {
            let due = kind.epoch_up("m.next_call_time");
            let from_mark = kind.from_mark(&format!("b.from_{status}"));
            let (by_slice, order) = (kind.by_slice(), kind.order_of_slice());
            format!(
                "(SELECT coalesce({due}, CASE WHEN m.next_call_time <= {now} THEN 0 END)
                  FROM notify_msg m{by_slice}
                  WHERE m.def_id = d.id AND m.status = {status}{from_mark}
                  ORDER BY {order}
                  LIMIT 1)"
            )
        };
        let columns = Due::list(kind, &now, &first);
        let due = match kind {
            Postgres => format!(
                "SELECT {columns}
                 FROM notify_def d
                 LEFT JOIN json_to_recordset($2::json) AS b(
                     owner bigint, from_0 bigint, from_2 bigint, from_5 bigint, from_4 bigint
                 ) ON b.owner = d.id"
            ),
            MySql | Sqlite => format!(
                "SELECT {columns}
                 FROM notify_def d"
            ),
        };
        Self { due: Statement::new(kind, &due) }
    }
}

pub(crate) async fn due<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    hints: &ClaimHints,
    thorough: bool,
) -> sqlx::Result<DueTimes> {
    const AT: Due = Due::AT;
    let from = json(&if thorough { Vec::new() } else { hints.marks.rows() })?;
    let mut conn = on.get().await?;
    let rows = DB::fetch(&mut conn, &DueStatements::of(DB::KIND).due, &[now, from.as_str().into()]).await?;
    let time = match rows.first() {
        Some(row) => time_from_millis(required::<DB>(row, AT.now)?),
        // There is no definition yet.
        None => time::<DB>(&mut conn, now).await?,
    };
    conn.done();
    let mut marks = Vec::new();
    let mut due = DueTimes { now: time, ..DueTimes::default() };
    if let Some(row) = rows.first() {
        let (next, now) = (DB::int(row, AT.due_alert)?, required::<DB>(row, AT.now)?);
        due.alerts = next.map(|next| duration_from_millis(next - now));
    }
    for row in &rows {
        let (def_id, now) = (required::<DB>(row, AT.def_id)?, required::<DB>(row, AT.now)?);
        let at = DB::int(row, AT.last_tick)?.map(time_from_millis);
        let last = LastTick { schedule: DB::text(row, AT.tick_schedule)?, at };
        if last != LastTick::default() {
            due.ticks.insert(def_id, last);
        }
        for (status, first) in [
            (Status::NotSent, AT.not_sent),
            (Status::Failed, AT.failed),
            (Status::Sending, AT.sending),
            (Status::AwaitingAck, AT.awaiting_ack),
        ] {
            let next = DB::int(row, first)?;
            marks.push((def_id, status, next.unwrap_or(now).min(now)));
            if let Some(next) = next.filter(|next| *next < NEVER) {
                let (after, late) = (duration_from_millis(next - now), duration_from_millis(now - next));
                due.slices.push(DueSlice { def_id, status, after, late });
            }
        }
    }
    hints.marks.set(&marks, thorough);
    Ok(due)
}
