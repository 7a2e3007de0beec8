//! The series: a hash for each definition and hour, with a field for each minute and node.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use solid_notify_core::StoreError;
use solid_notify_core::notice::{duration_millis, millis_from_time, time_from_millis};
use solid_notify_core::store::{MINUTE_MS, Purged, SeriesCounts, SeriesQuery, SeriesRow};

use super::{AT_ONCE, CHANGE, LOOK, RedisStore, given};

const HOUR_MS: i64 = 60 * MINUTE_MS;
/// How many definitions are written or read at the same time.
const WIDTH: usize = 16;
/// After how many rows a script leaves the hours that follow to another call.
const READ: usize = 1000;
const READING: &str = "reading the series";

/// What is counted in each step.
type Steps = BTreeMap<i64, SeriesCounts>;

/// Returns when the hour of a time begins, both in milliseconds since 1970.
fn hour_of(ms: i64) -> i64 {
    ms - ms.rem_euclid(HOUR_MS)
}

impl RedisStore {
    pub(super) async fn store_series(&self, node: &str, rows: &[SeriesRow]) -> Result<(), StoreError> {
        let mut of_definitions: BTreeMap<i64, Vec<given::SeriesRow>> = BTreeMap::new();
        for row in rows {
            of_definitions.entry(row.def_id).or_default().push(given::SeriesRow {
                hour: row.minute.format("%Y-%m-%dT%H").to_string(),
                begin: hour_of(millis_from_time(row.minute)),
                field: format!("{} {node}", row.minute.format("%M")),
                counts: row.counts.values().to_vec(),
            });
        }
        let write = |(def_id, rows): (i64, Vec<given::SeriesRow>)| async move {
            for rows in rows.chunks(AT_ONCE) {
                let _: i64 = self.run(&CHANGE, def_id, &given::Change::Series { rows }, "storing the series").await?;
            }
            Ok(())
        };
        stream::iter(of_definitions).map(write).buffer_unordered(WIDTH).try_collect().await
    }

    pub(super) async fn read_series(&self, query: &SeriesQuery) -> Result<Vec<(i64, SeriesCounts)>, StoreError> {
        let ids: Vec<i64> = match query.def_id {
            Some(id) => vec![id],
            None => self.common::<(i64, Vec<i64>, String)>(&given::Common::Ids, READING).await?.1,
        };
        let mut steps = Steps::new();
        let mut of_definitions = stream::iter(ids).map(|id| self.series_of(id, query)).buffer_unordered(WIDTH);
        while let Some(own) = of_definitions.try_next().await? {
            own.iter().for_each(|(step, counts)| steps.entry(*step).or_default().add(counts));
        }
        Ok(steps.into_iter().collect())
    }

    /// Reads the hours of a definition that the query selects, some at a time.
    async fn series_of(&self, def_id: i64, query: &SeriesQuery) -> Result<Steps, StoreError> {
        type Hours = Vec<(i64, Vec<(String, String)>)>;
        let mut steps = Steps::new();
        let mut from = hour_of(millis_from_time(query.from));
        let to = hour_of(millis_from_time(query.until) - 1);
        loop {
            let (next, hours): (String, Hours) =
                self.run(&LOOK, def_id, &given::Look::Series { from, to, most: READ }, READING).await?;
            for (begin, rows) in hours {
                for (field, counts) in rows {
                    let minute = field.split(' ').next().and_then(|minute| minute.parse::<i64>().ok());
                    let minute = minute.map(|minute| time_from_millis(begin + minute * MINUTE_MS));
                    if let Some(minute) = minute.filter(|minute| query.has(*minute)) {
                        let counts =
                            SeriesCounts::from_values(counts.split(' ').map(|count| count.parse().unwrap_or(0)));
                        steps.entry(query.step_of(minute)).or_default().add(&counts);
                    }
                }
            }
            match next.parse() {
                Ok(next) => from = next,
                Err(_) => return Ok(steps),
            }
        }
    }

    /// Deletes whole hours.
    pub(super) async fn purge_series(&self, older_than: Duration, limit: usize) -> Result<Vec<Purged>, StoreError> {
        const DOING: &str = "purging the series";
        let minimum_age = duration_millis(older_than);
        let ids = self.common::<(i64, Vec<i64>, String)>(&given::Common::Ids, DOING).await?.1;
        let mut purged = 0;
        for id in ids {
            if purged == limit {
                break;
            }
            let purge = given::Change::PurgeSeries { minimum_age, most: limit - purged };
            purged += self.run::<usize>(&CHANGE, id, &purge, DOING).await?;
        }
        Ok(vec![Purged::default(); purged])
    }
}
