//! The recorded metrics, as Prometheus gets them.

use std::collections::BTreeMap;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use solid_notify::metrics::SECONDS_BUCKETS;

/// A recorder of this thread's own. Install it before anything that records is made.
pub fn recorder() -> PrometheusRecorder {
    PrometheusBuilder::new().set_buckets(SECONDS_BUCKETS).unwrap().build_recorder()
}

/// The values of a metric by its labels.
pub fn values(shown: &PrometheusHandle, metric: &str) -> BTreeMap<String, f64> {
    let text = shown.render();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let named = lines.filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        (name == metric).then(|| (labels.trim_end_matches('}').replace('"', ""), value.parse().unwrap()))
    });
    named.collect()
}

/// The value with these labels; zero where there is none.
pub fn value(shown: &PrometheusHandle, metric: &str, labels: &str) -> f64 {
    values(shown, metric).get(labels).copied().unwrap_or(0.0)
}
