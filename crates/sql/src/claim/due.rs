//! The look for due notices: one statement for all definitions.

use solid_notify_core::notice::{NEVER, Status, duration_from_millis, time_from_millis};
use solid_notify_core::store::{DueSlice, DueTimes, LastTick};

use crate::claim::hints::ClaimHints;
use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::query::Query;
use crate::dialect::row::required;
use crate::dialect::statement::{Arg, json};
use crate::nodes::time;
use crate::sql::claim::{Due, DueTime};

pub(crate) async fn due<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    hints: &ClaimHints,
    thorough: bool,
) -> sqlx::Result<DueTimes> {
    const AT: DueTime = DueTime::AT;
    let marks = &json(&if thorough { Vec::new() } else { hints.marks.rows() })?;
    let mut conn = on.get().await?;
    let rows = Due { clock: now.into(), marks }.fetch::<DB>(&mut conn).await?;
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
