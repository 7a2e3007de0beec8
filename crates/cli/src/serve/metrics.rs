//! Metrics of all databases in one page: the label `database` has the name of each.

use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Label, LocalRecorderGuard, Metadata, Recorder, SharedString, Unit,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use metrics_util::MetricKindMask;
use std::sync::Arc;
use std::time::Duration;

use solid_notify::metrics::{SECONDS_BUCKETS, SENDING};

use super::log::Log;
use crate::exit::{Exit, Failure, Outcome};

/// How long the gauges of a database stay that was removed. Sweepers write theirs at least twice a minute.
const STALE: Duration = Duration::from_mins(5);

/// The counter of lost lines of the log.
const LOST_LINES: &str = "solid_notify_log_lines_lost_total";

/// Keeps what sweepers record.
#[derive(Clone)]
pub(super) struct Metrics {
    recorder: Arc<PrometheusRecorder>,
}

impl Metrics {
    pub(super) fn new() -> Outcome<Self> {
        let builder = PrometheusBuilder::new().idle_timeout(MetricKindMask::GAUGE, Some(STALE));
        let seconds = Matcher::Suffix("_seconds".to_owned());
        let builder = builder.set_buckets_for_metric(seconds, SECONDS_BUCKETS).map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot set the buckets of the histograms: {error}"))
        })?;
        Ok(Self { recorder: Arc::new(builder.build_recorder()) })
    }

    pub(super) fn handle(&self) -> PrometheusHandle {
        self.recorder.handle()
    }

    /// Records how many lines of the log were lost.
    pub(super) fn of_log(&self, log: &Log) {
        metrics::with_local_recorder(&*self.recorder, || {
            metrics::describe_counter!(
                LOST_LINES,
                "Lines of the log that were lost, because the error stream took none."
            );
            // Also before any is lost.
            metrics::counter!(LOST_LINES).absolute(0);
            for (database, lines) in log.lost_lines() {
                let labels = database.iter().map(|name| Label::new("database", name.to_string())).collect::<Vec<_>>();
                metrics::counter!(LOST_LINES, labels).absolute(lines);
            }
        });
    }

    /// Records whether a database sends. Threads that have ceased to run, or have never begun to send, record nothing themselves.
    pub(super) fn record_sending(&self, database: &str, sends: bool) {
        let sends = if sends { 1.0 } else { 0.0 };
        metrics::with_local_recorder(&self.of(database), || metrics::gauge!(SENDING).set(sends));
    }

    /// Returns what gives the metrics of a thread the name of its database.
    pub(super) fn of(&self, database: &str) -> DatabaseMetrics {
        DatabaseMetrics { recorder: Arc::clone(&self.recorder), label: Label::new("database", database.to_owned()) }
    }
}

/// Records the metrics of one database.
pub(super) struct DatabaseMetrics {
    recorder: Arc<PrometheusRecorder>,
    label: Label,
}

impl DatabaseMetrics {
    /// Makes this the recorder of the present thread, until the process ends. The threads of a database serve no other one.
    pub(super) fn record_this_thread(&'static self) {
        let guard: LocalRecorderGuard<'static> = metrics::set_default_local_recorder(self);
        std::mem::forget(guard);
    }

    fn labelled(&self, key: &Key) -> Key {
        key.with_extra_labels(vec![self.label.clone()])
    }
}

impl Recorder for DatabaseMetrics {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.recorder.describe_counter(key, unit, description);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.recorder.describe_gauge(key, unit, description);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.recorder.describe_histogram(key, unit, description);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        self.recorder.register_counter(&self.labelled(key), metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        self.recorder.register_gauge(&self.labelled(key), metadata)
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        self.recorder.register_histogram(&self.labelled(key), metadata)
    }
}
