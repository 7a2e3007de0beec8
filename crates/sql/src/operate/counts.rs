//! The stored snapshot of counts: which node takes it, how it is taken, and how it is read.

use std::time::Duration;

use solid_notify_core::notice::{duration_millis, time_from_millis};
use solid_notify_core::store::{COUNT_HOLD, DefinitionCounts, NoticeCounts, RECENT, next_count};
use tokio::time::Instant;

use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::{columns, readable, required, required_text};
use crate::dialect::statement::{Arg, Statement, statements};

columns! {
    /// The stored counts of a definition.
    Stored(kind: Kind):
    def_id = "d.id";
    name = "d.name";
    now = kind.epoch_down(&kind.now());
    taken_at = kind.epoch("c.taken_at");
    next_time = kind.epoch("c.next_time");
    oldest_due = kind.epoch("c.oldest_due");
    not_sent = "c.not_sent";
    failed = "c.failed";
    sending = "c.sending";
    awaiting_ack = "c.awaiting_ack";
    dead_letters = "c.dead_letters";
    cancelled = "c.cancelled";
    recently_succeeded = "c.recently_succeeded";
}

columns! {
    /// The counts that a node takes.
    Taken(
        kind: Kind,
        now: &str,
        live: &dyn Fn(i64) -> String,
        first: &dyn Fn(i64) -> String,
        ended: &dyn Fn(i64, &str) -> String
    ):
    taken_at = kind.epoch_down(now);
    first_not_sent = first(0);
    first_failed = first(2);
    not_sent = live(0);
    failed = live(2);
    sending = live(5);
    awaiting_ack = live(4);
    dead_letters = ended(3, "");
    cancelled = ended(6, "");
    recently_succeeded = ended(1, &format!(" AND m.finish_time > {}", kind.plus(now, "-$3")));
}

statements! {
    CountStatements:
    read_counts,
    claim_count,
    open_count,
    take_count,
    write_count,
    forget_count,
}

impl CountStatements {
    fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        let live = |status: i64| {
            format!(
                "(SELECT count(*) FROM notify_msg m{} WHERE m.def_id = $2 AND m.status = {status})",
                kind.by_slice()
            )
        };
        let first = |status: i64| {
            format!(
                "(SELECT {} FROM notify_msg m{} WHERE m.def_id = $2 AND m.status = {status} ORDER BY {} LIMIT 1)",
                kind.epoch_down("m.next_call_time"),
                kind.by_slice(),
                kind.order_of_slice()
            )
        };
        let ended = |status: i64, and: &str| {
            format!(
                "(SELECT count(*) FROM notify_msg_history m{} WHERE m.def_id = $2 AND m.status = {status}{and})",
                kind.by_index("notify_msg_history_finished")
            )
        };
        Self {
            read_counts: statement(format!(
                "SELECT {} FROM notify_def d LEFT JOIN notify_count c ON c.def_id = d.id ORDER BY d.name",
                Stored::list(kind)
            )),
            // Of the nodes that find the count due, only one moves its time on.
            claim_count: statement(format!(
                "UPDATE notify_count SET next_time = {} WHERE def_id = $2 AND next_time <= {now}",
                kind.plus(&now, "$3")
            )),
            open_count: statement(kind.insert_unless_there(&format!(
                "INTO notify_count (def_id, next_time) VALUES ($2, {})",
                kind.plus(&now, "$3")
            ))),
            // One statement counts and another writes. On MySQL an UPDATE that reads would lock all rows that it reads; on SQLite
            // it would keep all other writers out meanwhile.
            take_count: statement(format!("SELECT {}", Taken::list(kind, &now, &live, &first, &ended))),
            write_count: statement(format!(
                "UPDATE notify_count SET not_sent = $3, failed = $4, sending = $5, awaiting_ack = $6, dead_letters = $7,
                        cancelled = $8, recently_succeeded = $9, oldest_due = {}, taken_at = {}, next_time = {}
                 WHERE def_id = $2",
                kind.epoch_time("$10"),
                kind.epoch_time("$11"),
                kind.plus(&now, "$12")
            )),
            forget_count: statement("DELETE FROM notify_count WHERE def_id = $2".into()),
        }
    }
}

pub(crate) async fn counts<DB: Dialect>(on: &Share<DB>, now: Arg<'_>) -> sqlx::Result<Vec<DefinitionCounts>> {
    let mut conn = on.get().await?;
    let rows = DB::fetch(&mut conn, &CountStatements::of(DB::KIND).read_counts, &[now]).await?;
    conn.done();
    Ok(readable::<DB, _>(&rows, "count", read::<DB>))
}

pub(crate) async fn refresh_counts<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    def_id: i64,
    every: Duration,
) -> sqlx::Result<bool> {
    const AT: Taken = Taken::AT;
    let statements = CountStatements::of(DB::KIND);
    let mut conn = on.get().await?;
    let claim = [now, def_id.into(), duration_millis(COUNT_HOLD).into()];
    let due = DB::execute(&mut conn, &statements.claim_count, &claim).await?.rows > 0
        || DB::execute(&mut conn, &statements.open_count, &claim).await?.rows > 0;
    let mine = due || every.is_zero();
    if mine {
        let began = Instant::now();
        let take = [now, def_id.into(), duration_millis(RECENT).into()];
        let rows = DB::fetch(&mut conn, &statements.take_count, &take).await?;
        let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        let next = next_count(began.elapsed(), every);
        let taken = required::<DB>(row, AT.taken_at)?;
        let firsts = [DB::int(row, AT.first_not_sent)?, DB::int(row, AT.first_failed)?];
        let oldest = firsts.into_iter().flatten().min().filter(|first| *first <= taken);
        let count = |column| DB::int(row, column).map(Arg::Int);
        let write = [
            now,
            def_id.into(),
            count(AT.not_sent)?,
            count(AT.failed)?,
            count(AT.sending)?,
            count(AT.awaiting_ack)?,
            count(AT.dead_letters)?,
            count(AT.cancelled)?,
            count(AT.recently_succeeded)?,
            Arg::Int(oldest),
            taken.into(),
            duration_millis(next).into(),
        ];
        DB::execute(&mut conn, &statements.write_count, &write).await?;
    }
    conn.done();
    Ok(mine)
}

/// Deletes the row of a deleted definition.
pub(crate) async fn forget<DB: Dialect>(tx: &mut DB::Connection, now: Arg<'_>, def_id: i64) -> sqlx::Result<()> {
    DB::execute(tx, &CountStatements::of(DB::KIND).forget_count, &[now, def_id.into()]).await.map(drop)
}

fn read<DB: Dialect>(row: &DB::Row) -> sqlx::Result<DefinitionCounts> {
    const AT: Stored = Stored::AT;
    let definition = (required::<DB>(row, AT.def_id)?, required_text::<DB>(row, AT.name)?);
    let now = time_from_millis(required::<DB>(row, AT.now)?);
    let time = |column| Ok::<_, sqlx::Error>(DB::int(row, column)?.map(time_from_millis));
    let count = |column| Ok::<_, sqlx::Error>(u64::try_from(DB::int(row, column)?.unwrap_or(0)).unwrap_or(0));
    let (taken_at, next) = (time(AT.taken_at)?, time(AT.next_time)?);
    let mut counts = NoticeCounts::default();
    counts.oldest_due = time(AT.oldest_due)?;
    counts.not_sent = count(AT.not_sent)?;
    counts.failed = count(AT.failed)?;
    counts.sending = count(AT.sending)?;
    counts.awaiting_ack = count(AT.awaiting_ack)?;
    counts.dead_letters = count(AT.dead_letters)?;
    counts.cancelled = count(AT.cancelled)?;
    counts.recently_succeeded = count(AT.recently_succeeded)?;
    Ok(DefinitionCounts::new(definition, taken_at.map(|at| (counts, at)), next, now))
}
