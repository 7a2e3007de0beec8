//! Whether the database answers, and the rule for the time after it did not.
//!
//! During an outage nobody can extend a lease, so when it ends all of them have expired at once, though their holders
//! live and are about to settle. Each sweeper therefore first writes what it has, and takes no expired lease of others
//! for a while. Nor does one that has just been started: it cannot know whether an outage has ended a moment ago.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use solid_notify_core::StoreError;
use solid_notify_core::error::FaultKind;
use solid_notify_core::metrics::DATABASE_UP;

pub(crate) struct Health {
    grace: Duration,
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
enum State {
    Down,
    /// It answers, and was down until this moment, or may have been.
    UpSince(Duration),
}

impl Health {
    /// Times are moments of the worker's clock.
    pub(crate) fn new(grace: Duration, now: Duration) -> Self {
        metrics::gauge!(DATABASE_UP).set(1.0);
        Self { grace, state: Mutex::new(State::UpSince(now)) }
    }

    /// Notes an error of the store; logs it once per outage as an error, then quietly.
    pub(crate) fn note(&self, error: &StoreError) {
        let mut state = self.lock();
        if matches!(error.kind, FaultKind::Outage | FaultKind::Unusable) {
            if matches!(*state, State::Down) {
                tracing::debug!(%error, "the database still does not answer");
            } else {
                tracing::error!(%error, "the database does not answer; nothing is lost, sending goes on when it does");
                metrics::gauge!(DATABASE_UP).set(0.0);
            }
            *state = State::Down;
        } else {
            tracing::warn!(%error, "a database call failed; trying again");
        }
    }

    /// Logs the error of a call that says nothing about the others: a purge that was too slow, say.
    pub(crate) fn mention(&self, error: &StoreError) {
        tracing::warn!(%error, "a database call failed; trying again later");
    }

    pub(crate) fn is_down(&self) -> bool {
        matches!(*self.lock(), State::Down)
    }

    /// The database answers again, and what was pending is written.
    pub(crate) fn recovered(&self, now: Duration) {
        let mut state = self.lock();
        if matches!(*state, State::Down) {
            tracing::info!("the database answers again");
            metrics::gauge!(DATABASE_UP).set(1.0);
            *state = State::UpSince(now);
        }
    }

    /// How long to leave expired leases alone; `None`: no longer.
    pub(crate) fn grace_left(&self, now: Duration) -> Option<Duration> {
        match *self.lock() {
            State::Down => Some(self.grace),
            State::UpSince(at) => (at + self.grace).checked_sub(now).filter(|left| !left.is_zero()),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pause after so many failures before: from 50 ms to 3 s, with jitter.
pub(crate) fn pause_after(failures: u32) -> Duration {
    let pause = Duration::from_millis(50 << failures.min(6)).min(Duration::from_secs(3));
    pause.mul_f64(0.75 + 0.5 * fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    #[test]
    fn a_gauge_tells_whether_the_database_answers() {
        let recorder = DebuggingRecorder::new();
        let shown = recorder.snapshotter();
        let up = || {
            let metrics = shown.snapshot().into_vec();
            metrics.into_iter().find(|(key, ..)| key.key().name() == DATABASE_UP).map(|(.., value)| value)
        };
        metrics::with_local_recorder(&recorder, || {
            let health = Health::new(Duration::ZERO, Duration::ZERO);
            assert_eq!(up(), Some(DebugValue::Gauge(1.0.into())));
            health.note(&StoreError::new("looking", FaultKind::Outage, "refused"));
            assert_eq!(up(), Some(DebugValue::Gauge(0.0.into())));
            health.recovered(Duration::ZERO);
            assert_eq!(up(), Some(DebugValue::Gauge(1.0.into())));
        });
    }
}
