//! Ticks of timetables in the database: one UPDATE is the guard, and only who changed the row adds the notices, in the same
//! transaction. Which ticks there are is decided in [`crate::definition::Step`].

use super::connections::Purpose;
use super::dialect::Dialect;
use super::fragment::{Kind, Ty};
use super::run::{Arg, Statement};
use super::statements::statements;
use super::store::{SqlStore, json};
use crate::notice::millis_from_time;
use crate::store::Tick;

statements! {
    TickStatements:
    note_tick,
    add_ticks,
}

impl TickStatements {
    pub(super) fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        let same = |one: &str, other: &str| format!("({one} = {other} OR ({one} IS NULL AND {other} IS NULL))");
        Self {
            // A second node that saw the same waits for the row, and then it is no longer what it saw. Neither this nor a look at
            // the row is an edit: `update_time` stays.
            note_tick: statement(format!(
                "UPDATE notify_def SET last_tick = {}, tick_schedule = $3
                 WHERE id = $2 AND enabled AND delete_time IS NULL AND {} AND {} AND {}",
                kind.epoch_time("$6"),
                same("schedule", "$3"),
                same("tick_schedule", "$4"),
                same(&kind.epoch("last_tick"), "$5")
            )),
            // (`WHERE true` as wherever a batch is inserted.)
            add_ticks: statement(format!(
                "INSERT INTO notify_msg (def_id, param, create_time, next_call_time)
                 SELECT $2, {}, {now}, {now} FROM {} WHERE true ORDER BY b.place",
                kind.to_json("b.param"),
                kind.batch("$3", &[("place", Ty::Int), ("param", Ty::Text)])
            )),
        }
    }
}

impl<DB: Dialect> SqlStore<DB> {
    pub(super) async fn try_tick(&self, tick: &Tick) -> sqlx::Result<bool> {
        let statements = &DB::statements().tick;
        let rows =
            tick.params.iter().enumerate().map(|(place, param)| serde_json::json!({ "place": place, "param": param }));
        let batch = json(&rows.collect::<Vec<_>>())?;
        let note = [
            self.now(),
            tick.def_id.into(),
            Arg::Text(tick.schedule.as_deref()),
            Arg::Text(tick.seen.schedule.as_deref()),
            Arg::Int(tick.seen.at.map(millis_from_time)),
            millis_from_time(tick.last).into(),
        ];
        let mut conn = self.connections.get(Purpose::Work).await?;
        let mut tx = conn.begin().await?;
        let first = DB::execute(&mut tx, &statements.note_tick, &note).await?.rows > 0;
        if first && !tick.params.is_empty() {
            DB::execute(&mut tx, &statements.add_ticks, &[self.now(), tick.def_id.into(), batch.as_str().into()])
                .await?;
        }
        tx.commit().await?;
        conn.done();
        Ok(first)
    }
}
