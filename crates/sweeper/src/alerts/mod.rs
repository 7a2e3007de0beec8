//! Alerts on the sweeper's side: [`Alarms`] makes them. [`advance`]: what becomes of rows that are due. [`sending`] and [`recipients`]:
//! the handler of the notices, and who gets them. [`locked`]: waits for rows that other sessions have locked.
//!
//! Which outcomes raise an alarm is in `settling`, and which conditions do in `background`. `running/pause.rs` makes the alarm of a
//! definition that its handler pauses.

pub(crate) mod advance;
pub(crate) mod locked;
pub(crate) mod recipients;
mod sending;

use std::sync::Arc;
use std::time::Duration;

use metrics::Counter;
pub(crate) use solid_notify_core::alert::advance::DEFAULT_COOLDOWN;
use solid_notify_core::limit::Breaker;
use solid_notify_core::metrics::ALERTS_SUPPRESSED;
use solid_notify_core::notice::{MESSAGE_LIMIT, clean_text};
use solid_notify_core::store::{Alarm, Cause};
use solid_notify_core::{ALERT_DEFINITION, AlertReason};

use self::locked::LockedRows;
pub(crate) use self::sending::complete_alerts;
use crate::definitions::KnownDefinitions;
use crate::supervise::report;

/// What makes the alarms of a node.
pub(crate) struct Alarms {
    known: Arc<KnownDefinitions>,
    node: String,
    /// Ticks, claims and outcomes that wait because of other sessions' row locks.
    pub(crate) locked_rows: LockedRows,
    suppressed: Counter,
}

impl Alarms {
    pub(crate) fn new(known: Arc<KnownDefinitions>, node: &str) -> Self {
        let suppressed = metrics::counter!(ALERTS_SUPPRESSED);
        Self { known, node: node.to_owned(), locked_rows: LockedRows::default(), suppressed }
    }

    /// Records that a digest reports so many suppressed alerts.
    pub(crate) fn suppressed(&self, count: i64) {
        self.suppressed.increment(u64::try_from(count).unwrap_or(0));
    }

    /// Returns an alert about a definition; None (and a log line) if there is no alert definition. Alerts about the alert
    /// definition itself are left out, except about the clock.
    pub(crate) fn alarm(
        &self,
        def_id: i64,
        definition: &str,
        reason: AlertReason,
        cooldown: Duration,
        message: String,
    ) -> Option<Alarm> {
        let Some(alert_def) = self.known.view().alerts() else {
            report(|| {
                tracing::error!(
                    definition,
                    reason = reason.as_str(),
                    message,
                    "there is no definition {ALERT_DEFINITION:?}, so this alert is not sent"
                );
            });
            return None;
        };
        let of_alerts = self.known.view().get(def_id).is_some_and(|definition| definition.is_alerts());
        let of_alerts = of_alerts && !matches!(reason, AlertReason::Clock | AlertReason::NotSending);
        (!of_alerts).then(|| Alarm {
            alert_def,
            def_id,
            definition: definition.to_owned(),
            reason,
            cooldown,
            notice_id: None,
            description: None,
            class: None,
            message: clean_text(&message, MESSAGE_LIMIT),
            cause: Cause::default(),
            node: self.node.clone(),
        })
    }
}

/// Returns the text about an open circuit.
pub(crate) fn circuit_open(breaker: Breaker, message: &str) -> String {
    let pause = humantime::format_duration(breaker.pause);
    format!(
        "{} failures in a row; nothing but a probe every {pause} is sent until one succeeds. {message}",
        breaker.failures
    )
}
