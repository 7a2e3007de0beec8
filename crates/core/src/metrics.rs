//! The name and help text of every metric, recorded through the facade `metrics`, so that an application chooses the recorder.
//! Also the counter of added notices.
//!
//! A handle is made once for a definition, and without a recorder it does nothing. Install the recorder before the first
//! `Outbox::new`: handles that were made before it record nothing. The sweeper decides when to record.

use std::collections::HashMap;

use parking_lot::RwLock;

use ::metrics::{Counter, Unit};

/// What kind of number a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only goes up, per process.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

/// A metric.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What kind of number it is.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// Its unit.
    pub unit: Unit,
    help: &'static str,
}

impl Metric {
    /// Returns its help text.
    pub fn help(&self) -> &'static str {
        self.help.trim()
    }
}

macro_rules! metrics {
    ($($(#[doc = $help:literal])+ $constant:ident = $name:literal: $kind:ident of $unit:ident by $labels:expr;)+) => {
        $($(#[doc = $help])+ pub const $constant: &str = $name;)+

        /// All metrics.
        pub const ALL: &[Metric] = &[
            $(Metric { name: $name, kind: Kind::$kind, labels: &$labels, unit: Unit::$unit, help: concat!($($help),+) }),+
        ];
    };
}

metrics! {
    /// Notices that this process added and committed through `outbox.begin()`. Those of other transactions and of plain SQL are
    /// not included, because their commits are not visible to this library: they appear in the first attempts.
    ADDED = "solid_notify_added_total": Counter of Count by ["definition"];
    /// Attempts whose outcome this node stored: `succeeded`, `skipped`, `awaiting_ack`, `failed` (to be retried) or
    /// `dead_letter`, with the class of the error (`-` for none). Claims that were handed back are not included.
    ATTEMPTS = "solid_notify_attempts_total": Counter of Count by ["definition", "outcome", "class"];
    /// Outcomes that could not be stored because the lease was lost: those notices are sent again.
    LEASE_LOSSES = "solid_notify_lease_losses_total": Counter of Count by ["definition"];
    /// Alerts that the handler of `notify.alert` has sent, digests and recoveries included.
    ALERTS_SENT = "solid_notify_alerts_sent_total": Counter of Count by [];
    /// Alarms that a cool-down suppressed, counted when a digest has reported them.
    ALERTS_SUPPRESSED = "solid_notify_alerts_suppressed_total": Counter of Count by [];
    /// From the insert to the end of the handler that delivered it, waiting times and retries included. If deliveries must be
    /// acked, each delivery counts.
    DELIVERY = "solid_notify_delivery_seconds": Histogram of Seconds by ["definition"];
    /// How long the handler of an attempt ran.
    ATTEMPT = "solid_notify_attempt_seconds": Histogram of Seconds by ["definition"];
    /// How late the sweep was: how long the first notice of a queue slice had been due when the sweep claimed it. One value per
    /// claim.
    LATENESS = "solid_notify_lateness_seconds": Histogram of Seconds by ["definition"];
    /// How many outcomes one transaction has stored.
    SETTLE_BATCH = "solid_notify_settle_batch_size": Histogram of Count by [];
    /// 1 while the database responds to this node, else 0.
    DATABASE_UP = "solid_notify_database_up": Gauge of Count by [];
    /// 1 while this node sends, else 0: the database does not answer or refuses, or the sweep hangs.
    SENDING = "solid_notify_sending": Gauge of Count by [];
    /// Live notices by status (`not_sent`, `failed`, `sending`, `awaiting_ack`), from the snapshot.
    LIVE = "solid_notify_live": Gauge of Count by ["definition", "status"];
    /// How long the oldest due notice had been due, from the snapshot.
    OLDEST_DUE = "solid_notify_oldest_due_seconds": Gauge of Seconds by ["definition"];
    /// Dead letters that are kept, from the snapshot.
    DEAD_LETTERS = "solid_notify_dead_letters": Gauge of Count by ["definition"];
    /// How old the oldest count of the snapshot was when this node last read it.
    COUNTS_AGE = "solid_notify_counts_age_seconds": Gauge of Seconds by [];
    /// Notices that wait because this node cannot decrypt their parameters, because the filter of their target cannot be judged for them,
    /// or because it may not send to the host that their row names, as it saw them within the last two minutes; at most 10,000.
    HELD_BACK = "solid_notify_held_back": Gauge of Count by ["definition"];
    /// 1 while the circuit breaker of a definition is open, else 0.
    BREAKER_OPEN = "solid_notify_breaker_open": Gauge of Count by ["definition"];
}

/// Buckets in seconds for the histograms of times: from a first send to a retry on the next day.
pub const SECONDS_BUCKETS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0,
    21_600.0, 86_400.0,
];

/// Passes the help text and unit of each metric to the recorder.
pub fn describe() {
    for metric in ALL {
        match metric.kind {
            Kind::Counter => ::metrics::describe_counter!(metric.name, metric.unit, metric.help()),
            Kind::Gauge => ::metrics::describe_gauge!(metric.name, metric.unit, metric.help()),
            Kind::Histogram => ::metrics::describe_histogram!(metric.name, metric.unit, metric.help()),
        }
    }
}

/// Counts added notices when they are committed. Connections call it.
#[derive(Default)]
pub struct Commits(RwLock<HashMap<i64, (String, Counter)>>);

impl Commits {
    /// Registers the name of a definition of which a notice is added.
    pub fn learn(&self, def_id: i64, name: &str) {
        let is_known = |(known, _): &(String, Counter)| known == name;
        if !self.0.read().get(&def_id).is_some_and(is_known) {
            let counter = ::metrics::counter!(ADDED, "definition" => name.to_owned());
            self.0.write().insert(def_id, (name.to_owned(), counter));
        }
    }

    /// Counts a commit, given the definition of each of its notices.
    pub fn count(&self, def_ids: impl Iterator<Item = i64>) {
        let counters = self.0.read();
        for def_id in def_ids {
            if let Some((_, counter)) = counters.get(&def_id) {
                counter.increment(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_a_name_of_ours_and_the_suffix_of_its_kind() {
        for metric in ALL {
            assert!(metric.name.starts_with("solid_notify_"), "{}", metric.name);
            assert_eq!(metric.kind == Kind::Counter, metric.name.ends_with("_total"), "{}", metric.name);
            assert_eq!(metric.unit == Unit::Seconds, metric.name.ends_with("_seconds"), "{}", metric.name);
        }
    }
}
