//! Counts of waiting retries, for the preview of an edit.

use std::time::Duration;

use solid_notify_core::store::RetryGroup;

use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::{columns, required};
use crate::dialect::statement::{Arg, Statement, int, statements};

columns! {
    Group():
    failures = "failures";
    crashes = "crashes";
    last_class = "last_class";
    max_tries = "max_tries";
    wait = "wait";
    expires_after = "expires_after";
    due = "due";
    count = "count(*)";
}

statements! {
    RetryStatements:
    retry_groups,
}

impl RetryStatements {
    fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        Self {
            // How long each notice waits after the start of its last attempt, in whole seconds, so that there are few groups.
            retry_groups: statement(format!(
                "SELECT {columns} FROM (
                     SELECT m.failures, m.crashes, m.last_class, m.max_tries, {wait} AS wait, {expires_after} AS expires_after,
                            CASE WHEN m.next_call_time <= {now} THEN 1 ELSE 0 END AS due
                     FROM notify_msg m{by_slice} WHERE m.def_id = $2 AND m.status = 2 LIMIT $3) AS waiting
                 GROUP BY failures, crashes, last_class, max_tries, wait, expires_after, due",
                columns = Group::list(),
                wait = kind.seconds_between("m.last_call_time", "m.next_call_time"),
                expires_after = kind.seconds_between_up("m.last_call_time", "m.expires_at"),
                by_slice = kind.by_slice()
            )),
        }
    }
}

pub(crate) async fn retries<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    def_id: i64,
    most: usize,
) -> sqlx::Result<Vec<RetryGroup>> {
    let args = [now, def_id.into(), int(most).into()];
    let rows = on.rows(&RetryStatements::of(DB::KIND).retry_groups, &args).await?;
    rows.iter().map(read::<DB>).collect()
}

fn read<DB: Dialect>(row: &DB::Row) -> sqlx::Result<RetryGroup> {
    const AT: Group = Group::AT;
    let number = |value: i64| u64::try_from(value).unwrap_or(0);
    let seconds = |column| Ok::<_, sqlx::Error>(DB::int(row, column)?.map(|value| Duration::from_secs(number(value))));
    Ok(RetryGroup {
        failures: required::<DB>(row, AT.failures)?,
        crashes: required::<DB>(row, AT.crashes)?,
        class: DB::text(row, AT.last_class)?,
        max_tries: DB::int(row, AT.max_tries)?,
        wait: seconds(AT.wait)?,
        expires_after: seconds(AT.expires_after)?,
        due: required::<DB>(row, AT.due)? == 1,
        count: number(required::<DB>(row, AT.count)?),
    })
}
