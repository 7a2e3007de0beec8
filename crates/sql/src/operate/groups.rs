//! Groups of dead letters: how many there are of each, from when to when, and one of them as an example.

use solid_notify_core::notice::time_from_millis;
use solid_notify_core::store::{QueueSlice, StoredGroup};

use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::{columns, readable, required};
use crate::dialect::statement::{Arg, Statement, int, statements};
use crate::operate::list::Bounds;

columns! {
    /// A group `g`, and its example `m`.
    Group(kind: Kind):
    group = "g.error_group";
    count = "g.dead";
    first = kind.epoch("g.first_time");
    last = kind.epoch("g.last_time");
    example = "m.id";
    class = "m.last_class";
    errors = "m.errors";
    reason = "m.end_reason";
}

statements! {
    GroupStatements:
    groups,
}

impl GroupStatements {
    fn new(kind: Kind) -> Self {
        let statement = |text: String| Statement::new(kind, &text);
        let largest = format!(
            "(SELECT m.error_group, count(*) AS dead, min(m.finish_time) AS first_time, max(m.finish_time) AS last_time,
                     max(m.id) AS example
              FROM notify_msg_history m{by_index}
              WHERE m.def_id = $2 AND m.error_group IS NOT NULL AND m.finish_time >= {from} AND m.finish_time <= {until}
              GROUP BY m.error_group ORDER BY dead DESC, m.error_group LIMIT $5) AS g",
            by_index = kind.by_index("notify_msg_history_group"),
            from = kind.text_time("$3"),
            until = kind.text_time("$4"),
        );
        Self {
            // The inner query reads the index of groups alone, which has an entry of each dead letter. `$3` and `$4` are the first and
            // the last time. Each group then finds its example by the id.
            groups: statement(format!(
                "SELECT {columns} {examples}
                 ORDER BY g.dead DESC, g.error_group",
                columns = Group::list(kind),
                examples = kind.rows_by(&largest, "notify_msg_history", ["PRIMARY", "m.id = g.example"], "true", "")
            )),
        }
    }
}

pub(crate) async fn groups<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    slice: &QueueSlice,
    limit: usize,
) -> sqlx::Result<Vec<StoredGroup>> {
    let bounds = Bounds::of::<DB>(slice);
    let [from, until] = bounds.args();
    let args = [now, slice.def_id.into(), from, until, int(limit).into()];
    let rows = on.rows(&GroupStatements::of(DB::KIND).groups, &args).await?;
    Ok(readable::<DB, _>(&rows, "group of dead letters", read::<DB>))
}

fn read<DB: Dialect>(row: &DB::Row) -> sqlx::Result<StoredGroup> {
    const AT: Group = Group::AT;
    let time = |column| Ok::<_, sqlx::Error>(time_from_millis(required::<DB>(row, column)?));
    Ok(StoredGroup {
        group: required::<DB>(row, AT.group)?,
        count: u64::try_from(required::<DB>(row, AT.count)?).unwrap_or(0),
        first: time(AT.first)?,
        last: time(AT.last)?,
        example: required::<DB>(row, AT.example)?,
        class: DB::text(row, AT.class)?,
        errors: DB::text(row, AT.errors)?,
        end_reason: DB::text(row, AT.reason)?,
    })
}
