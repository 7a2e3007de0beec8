//! The series: a hash for each definition and day, with a field for each minute and node.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::try_join_all;
use solid_notify_core::StoreError;
use solid_notify_core::notice::{duration_millis, millis_from_time, time_from_millis};
use solid_notify_core::store::{Purged, SeriesCounts, SeriesQuery, SeriesRow};

use super::{AT_ONCE, CHANGE, LOOK, RedisStore, given};

const DAY_MS: i64 = 86_400_000;
const READING: &str = "reading the series";

/// Returns when the day of a time begins, in milliseconds since 1970.
fn day_of(time: DateTime<Utc>) -> i64 {
    let ms = millis_from_time(time);
    ms - ms.rem_euclid(DAY_MS)
}

/// Returns the name of a day: `2026-11-24`.
fn name_of(begin: i64) -> String {
    time_from_millis(begin).format("%Y-%m-%d").to_string()
}

impl RedisStore {
    pub(super) async fn store_series(&self, node: &str, rows: &[SeriesRow]) -> Result<(), StoreError> {
        let mut of_definitions: BTreeMap<i64, Vec<given::SeriesRow>> = BTreeMap::new();
        for row in rows {
            let begin = day_of(row.minute);
            let counts = SeriesCounts::COLUMNS.iter().zip(row.counts.values()).filter(|(_, count)| *count > 0);
            of_definitions.entry(row.def_id).or_default().push(given::SeriesRow {
                day: name_of(begin),
                begin,
                field: format!("{} {node}", millis_from_time(row.minute)),
                counts: counts.map(|((name, _), count)| (*name, count)).collect(),
            });
        }
        for (def_id, rows) in of_definitions {
            for rows in rows.chunks(AT_ONCE) {
                let _: i64 = self.run(&CHANGE, def_id, &given::Change::Series { rows }, "storing the series").await?;
            }
        }
        Ok(())
    }

    pub(super) async fn read_series(&self, query: &SeriesQuery) -> Result<Vec<(i64, SeriesCounts)>, StoreError> {
        let ids: Vec<i64> = match query.def_id {
            Some(id) => vec![id],
            None => self.common::<(i64, Vec<i64>, String)>(&given::Common::Ids, READING).await?.1,
        };
        let mut steps: BTreeMap<i64, SeriesCounts> = BTreeMap::new();
        let mut begin = day_of(query.from);
        while time_from_millis(begin) < query.until {
            let days = [name_of(begin)];
            let look = given::Look::Series { days: &days };
            let looks = ids.iter().map(|id| self.run::<Vec<String>>(&LOOK, *id, &look, READING));
            for words in try_join_all(looks).await? {
                for (field, text) in words.iter().zip(words.iter().skip(1)).step_by(2) {
                    let minute = field.split(' ').next().and_then(|ms| ms.parse().ok()).map(time_from_millis);
                    let counts = serde_json::from_str::<SeriesCounts>(text).ok();
                    if let (Some(minute), Some(counts)) = (minute.filter(|minute| query.has(*minute)), counts) {
                        steps.entry(query.step_of(minute)).or_default().add(&counts);
                    }
                }
            }
            begin += DAY_MS;
        }
        Ok(steps.into_iter().collect())
    }

    /// Deletes whole days.
    pub(super) async fn purge_series(&self, older_than: Duration, limit: usize) -> Result<Vec<Purged>, StoreError> {
        const DOING: &str = "purging the series";
        let ids = self.common::<(i64, Vec<i64>, String)>(&given::Common::Ids, DOING).await?.1;
        let purge = given::Change::PurgeSeries { minimum_age: duration_millis(older_than), most: limit };
        let mut purged = 0;
        for id in ids {
            purged += self.run::<usize>(&CHANGE, id, &purge, DOING).await?;
        }
        Ok(vec![Purged::default(); purged.min(limit)])
    }
}
