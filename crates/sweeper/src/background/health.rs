//! Whether the database answers, and the rule for the time after an outage.
//!
//! During an outage no node can extend a lease. When it ends, all leases have expired at once, although their workers live
//! and are about to settle. So each sweeper first writes its own outcomes, and for a while takes no expired lease of other
//! nodes. The same applies to a sweeper that has just started, because an outage may have just ended, and after the store's
//! clock was set.

use std::time::Duration;

use parking_lot::Mutex;
use solid_notify_core::StoreError;
use solid_notify_core::error::FaultKind;
use solid_notify_core::metrics::DATABASE_UP;
use tokio::time::Instant;

pub(crate) struct Health {
    grace: Duration,
    state: Mutex<State>,
    seen: Mutex<Seen>,
}

/// What a probe shows, on the process's clock.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    /// When the database last began or ceased to answer.
    pub(crate) changed: Instant,
    /// The last sweep that succeeded.
    pub(crate) last_sweep: Option<Instant>,
    /// The last heartbeat that was stored.
    pub(crate) last_heartbeat: Option<Instant>,
}

#[derive(Clone, Copy)]
enum State {
    Down,
    /// The database answers. It was down until this moment, or may have been.
    UpSince(Duration),
}

impl Health {
    /// `grace` is how long to leave expired leases alone; `now` is a moment of the worker's clock.
    pub(crate) fn new(grace: Duration, now: Duration) -> Self {
        metrics::gauge!(DATABASE_UP).set(1.0);
        let seen = Seen { changed: Instant::now(), last_sweep: None, last_heartbeat: None };
        Self { grace, state: Mutex::new(State::UpSince(now)), seen: Mutex::new(seen) }
    }

    pub(crate) fn seen(&self) -> Seen {
        *self.seen.lock()
    }

    pub(crate) fn swept(&self) {
        self.seen.lock().last_sweep = Some(Instant::now());
    }

    pub(crate) fn beaten(&self) {
        self.seen.lock().last_heartbeat = Some(Instant::now());
    }

    /// Records an error of a call for some notices or one definition. Only a lost connection concerns all notices.
    pub(crate) fn note_some(&self, error: &StoreError) {
        match error.kind {
            FaultKind::Outage => self.note(error),
            _ => self.mention(error),
        }
    }

    /// Records an error of a call that concerns all notices. An outage is logged as an error once, then at debug level.
    pub(crate) fn note(&self, error: &StoreError) {
        let mut state = self.state.lock();
        if matches!(error.kind, FaultKind::Outage | FaultKind::Unusable) {
            if matches!(*state, State::Down) {
                tracing::debug!(%error, "the database still does not answer");
            } else {
                tracing::error!(%error, "the database does not answer; nothing is lost, sending goes on when it does");
                metrics::gauge!(DATABASE_UP).set(0.0);
                self.seen.lock().changed = Instant::now();
            }
            *state = State::Down;
        } else {
            tracing::warn!(%error, "a database call failed; trying again");
        }
    }

    /// Logs the error of a call that says nothing about other calls, for instance a slow purge.
    pub(crate) fn mention(&self, error: &StoreError) {
        tracing::warn!(%error, "a database call failed; trying again later");
    }

    pub(crate) fn is_down(&self) -> bool {
        matches!(*self.state.lock(), State::Down)
    }

    /// Records that the database answers again and the leases of this node are extended.
    pub(crate) fn recovered(&self, now: Duration) {
        let mut state = self.state.lock();
        if matches!(*state, State::Down) {
            tracing::info!("the database answers again");
            metrics::gauge!(DATABASE_UP).set(1.0);
            *state = State::UpSince(now);
            self.seen.lock().changed = Instant::now();
        }
    }

    /// Records that the store's clock was set, so leases may have expired although their workers live, as after an outage.
    pub(crate) fn begin_grace(&self, now: Duration) {
        let mut state = self.state.lock();
        if !matches!(*state, State::Down) {
            *state = State::UpSince(now);
        }
    }

    /// Returns how long to leave expired leases alone; `None` when the grace period is over.
    pub(crate) fn grace_left(&self, now: Duration) -> Option<Duration> {
        match *self.state.lock() {
            State::Down => Some(self.grace),
            State::UpSince(at) => at.saturating_add(self.grace).checked_sub(now).filter(|left| !left.is_zero()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OutboxExt;
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    #[test]
    fn gauge_shows_whether_the_database_answers() {
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

    #[tokio::test]
    async fn worker_just_started_has_the_grace_of_an_outage() {
        let clock = solid_notify_testkit::HandClock::new(chrono::DateTime::UNIX_EPOCH + Duration::from_secs(3600));
        let worker = crate::worker::Worker::new(
            solid_notify_testkit::MemoryOutbox::builder().clock(clock.clone()).build().sweeper().setup,
        );
        assert_eq!(worker.health.grace_left(worker.moment()), Some(Duration::from_secs(10)));
        clock.advance(Duration::from_secs(10));
        assert_eq!(worker.health.grace_left(worker.moment()), None);
    }
}
