//! The page of metrics in a program without the feature `full`: it says that there are none. `metrics.rs` has the same types with metrics.

use super::log::Log;
use crate::exit::Outcome;

/// Keeps nothing.
#[derive(Clone)]
pub(super) struct Metrics;

impl Metrics {
    #[allow(clippy::unnecessary_wraps, reason = "metrics.rs has the same function")]
    pub(super) fn new() -> Outcome<Self> {
        Ok(Self)
    }

    pub(super) fn handle(&self) -> Page {
        Page
    }

    pub(super) fn of_log(&self, _log: &Log) {}

    pub(super) fn record_sending(&self, _database: &str, _sends: bool) {}

    pub(super) fn of(&self, _database: &str) -> DatabaseMetrics {
        DatabaseMetrics
    }
}

/// The page.
pub(super) struct Page;

impl Page {
    pub(super) fn render(&self) -> &'static str {
        "# this program was built without metrics: build it with the cargo feature `full`\n"
    }

    pub(super) fn run_upkeep(&self) {}
}

/// Records nothing.
pub(super) struct DatabaseMetrics;

impl DatabaseMetrics {
    pub(super) fn record_this_thread(&self) {}
}
