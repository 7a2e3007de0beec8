//! The series of a definition, or of all: counts and durations of its attempts, in steps of minutes.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::filter::Filter;
use super::listing::definitions_of;
use super::operator::Operator;
use crate::error::{Error, Result};
use crate::notice::{duration_millis, millis_from_time};
use crate::store::{MINUTE_MS, SeriesCounts, SeriesQuery, minute_of};

/// One step of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SeriesPoint {
    /// When it begins.
    pub time: DateTime<Utc>,
    /// What was counted in it, over all nodes.
    #[serde(flatten)]
    pub counts: SeriesCounts,
}

/// The most steps of one call.
const MOST: i64 = 10_000;

impl Operator {
    /// Returns counts and durations of the attempts of a definition, or of all definitions, from `from` (rounded down to a minute) up to
    /// `until`, in steps, summed over all nodes. A step in which nothing happened has zeros. Each node writes its minutes once a
    /// minute, so the last one grows. `notify.purge` deletes old minutes.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # async fn example(outbox: solid_notify_core::AnyOutbox) -> Result<(), Box<dyn std::error::Error>> {
    /// let (now, minute) = (chrono::Utc::now(), Duration::from_secs(60));
    /// for point in outbox.operator("alice").series(Some("sync_to_omp"), now - 60 * minute, now, 5 * minute).await? {
    ///     let mean = point.counts.duration_ms.checked_div(point.counts.timed);
    ///     println!("{}: {} sent, {} failed, {mean:?} ms", point.time, point.counts.succeeded, point.counts.failed);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownDefinition`]; [`Error::Invalid`] for a step that is not of whole minutes, and for more than 10,000 steps; those
    /// of the store.
    pub async fn series(
        &self,
        definition: Option<&str>,
        from: DateTime<Utc>,
        until: DateTime<Utc>,
        step: Duration,
    ) -> Result<Vec<SeriesPoint>> {
        let wrong = |problem: String| Err(Error::Invalid { what: "series", problem });
        let step_ms = duration_millis(step);
        if step_ms == 0 || step_ms % MINUTE_MS != 0 || step.subsec_nanos() != 0 {
            return wrong(format!("a step of {} is not of whole minutes", humantime::format_duration(step)));
        }
        let from = minute_of(from);
        let length = (millis_from_time(until) - millis_from_time(from)).max(0);
        let steps = length / step_ms + i64::from(length % step_ms != 0);
        if steps > MOST {
            return wrong(format!("it has {steps} steps; at most {MOST} are read at once: take longer steps"));
        }
        let def_id = match definition {
            Some(name) => {
                definitions_of(&self.outbox, &Filter::live().definition(name)).await?.first().map(|row| row.id)
            }
            None => None,
        };
        let query = SeriesQuery { def_id, from, until, step };
        let point = |step| SeriesPoint { time: query.begin_of(step), counts: SeriesCounts::default() };
        let mut points: Vec<SeriesPoint> = (0..steps).map(point).collect();
        for (step, counts) in self.stores().browse.series(&query).await? {
            if let Some(point) = usize::try_from(step).ok().and_then(|step| points.get_mut(step)) {
                point.counts.add(&counts);
            }
        }
        Ok(points)
    }
}
