//! Ticks of timetables in the database. One UPDATE is the guard: only the node whose UPDATE changed the row inserts the notices,
//! in the same transaction. [`solid_notify_core::definition::Step`] decides which ticks there are.

use solid_notify_core::notice::millis_from_time;
use solid_notify_core::store::{Advanced, Tick};

use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::{Kind, Ty};
use crate::dialect::statement::{Arg, Statement, json, statements};
use crate::own;

statements! {
    TickStatements:
    lock_tick,
    note_tick,
    add_ticks,
}

impl TickStatements {
    fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        let same = |one: &str, other: &str| format!("({one} = {other} OR ({one} IS NULL AND {other} IS NULL))");
        Self {
            // Skips a locked row: an editor's open transaction must not delay a sweep with all its other definitions, and one
            // node must not wait for another that stores the same tick.
            lock_tick: statement(format!("SELECT m.id FROM notify_def m WHERE m.id = $2{}", kind.lock())),
            // Compares again, because the row may have changed since the node read it. This is not an edit: `update_time` stays.
            note_tick: statement(format!(
                "UPDATE notify_def SET last_tick = {}, tick_schedule = $3
                 WHERE id = $2 AND enabled AND delete_time IS NULL AND {} AND {} AND {}",
                kind.epoch_time("$6"),
                same("schedule", "$3"),
                same("tick_schedule", "$4"),
                same(&kind.epoch("last_tick"), "$5")
            )),
            // (`WHERE true` as in all inserts of a batch.)
            add_ticks: statement(format!(
                "INSERT INTO notify_msg (def_id, param, create_time, next_call_time)
                 SELECT $2, {}, {now}, {now} FROM {} WHERE true ORDER BY b.place",
                kind.to_json("b.param"),
                kind.batch("$3", &[("place", Ty::Int), ("param", Ty::Text)])
            )),
        }
    }
}

pub(crate) async fn tick<DB: Dialect>(on: &Share<DB>, now: Arg<'_>, tick: &Tick) -> sqlx::Result<Advanced> {
    let statements = TickStatements::of(DB::KIND);
    let rows =
        tick.params.iter().enumerate().map(|(place, param)| serde_json::json!({ "place": place, "param": param }));
    let batch = json(&rows.collect::<Vec<_>>())?;
    let note = [
        now,
        tick.def_id.into(),
        Arg::Text(tick.schedule.as_deref()),
        Arg::Text(tick.seen.schedule.as_deref()),
        Arg::Int(tick.seen.at.map(millis_from_time)),
        millis_from_time(tick.last).into(),
    ];
    let mut conn = on.get().await?;
    let mut tx = conn.begin().await?;
    if DB::fetch(&mut tx, &statements.lock_tick, &note[..2]).await?.is_empty() {
        tx.rollback().await?;
        conn.done();
        return Ok(Advanced::Locked);
    }
    let first = DB::execute(&mut tx, &statements.note_tick, &note).await?.rows > 0;
    match &tick.authority {
        _ if !first || tick.params.is_empty() => {}
        // One by one, because each needs its id. There are few.
        Some(authority) => {
            for param in &tick.params {
                own::add_with_authority::<DB>(&mut tx, now, tick.def_id, param, authority).await?;
            }
        }
        None => {
            DB::execute(&mut tx, &statements.add_ticks, &[now, tick.def_id.into(), batch.as_str().into()]).await?;
        }
    }
    tx.commit().await?;
    conn.done();
    Ok(if first { Advanced::Stored } else { Advanced::Changed })
}
