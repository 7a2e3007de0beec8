//! The table `notify_series`: nodes write their own rows, people read sums, and old rows are purged.

pub(crate) mod statements;

use serde_json::{Map, Value};
use solid_notify_core::notice::{duration_millis, millis_from_time};
use solid_notify_core::store::{SeriesCounts, SeriesQuery, SeriesRow};

use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::row::required;
use crate::dialect::statement::{Arg, int, json};
use crate::series::statements::SeriesStatements;

pub(crate) async fn write<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    node: &str,
    rows: &[SeriesRow],
) -> sqlx::Result<()> {
    let row = |row: &SeriesRow| {
        let mut columns = Map::from_iter([
            ("owner".to_owned(), Value::from(row.def_id)),
            ("minute_ms".to_owned(), Value::from(millis_from_time(row.minute))),
        ]);
        let values = SeriesCounts::COLUMNS.iter().zip(row.counts.values());
        columns.extend(values.map(|((name, _), value)| ((*name).to_owned(), Value::from(stored(value)))));
        columns
    };
    let mut conn = on.get().await?;
    let batch = json(&rows.iter().map(row).collect::<Vec<_>>())?;
    DB::execute(&mut conn, &SeriesStatements::of(DB::KIND).write_series, &[now, batch.as_str().into(), node.into()])
        .await?;
    conn.done();
    Ok(())
}

pub(crate) async fn series<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    query: &SeriesQuery,
) -> sqlx::Result<Vec<(i64, SeriesCounts)>> {
    let statements = SeriesStatements::of(DB::KIND);
    let statement = if query.def_id.is_some() { &statements.series } else { &statements.series_of_all };
    let times = [query.from, query.until].map(|time| millis_from_time(time).into());
    let step = duration_millis(query.step).into();
    let rows = on.rows(statement, &[now, Arg::Int(query.def_id), times[0], times[1], step]).await?;
    let read = |row: &DB::Row| {
        let mut values = Vec::with_capacity(SeriesCounts::COLUMNS.len());
        for column in 1..=SeriesCounts::COLUMNS.len() {
            values.push(u64::try_from(required::<DB>(row, column)?).unwrap_or(0));
        }
        Ok((required::<DB>(row, 0)?, SeriesCounts::from_values(values)))
    };
    rows.iter().map(read).collect()
}

/// Deletes at most `limit` rows of minutes that are older. Returns how many.
pub(crate) async fn purge<DB: Dialect>(
    conn: &mut DB::Connection,
    now: Arg<'_>,
    (age, limit): (i64, usize),
) -> sqlx::Result<usize> {
    let args = [now, age.into(), int(limit).into()];
    let purged = DB::execute(conn, &SeriesStatements::of(DB::KIND).purge_series, &args).await?.rows;
    Ok(usize::try_from(purged).unwrap_or(limit))
}

fn stored(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
