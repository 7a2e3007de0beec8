//! Whether the database answers, and the rule for the time after it did not.
//!
//! During an outage nobody can extend a lease, so when it ends all of them have expired at once, though their holders
//! live and are about to settle. Each sweeper therefore first writes what it has, and takes no expired lease of others
//! for a while.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use solid_notify_core::StoreError;
use solid_notify_core::error::FaultKind;
use tokio::time::Instant;

pub(crate) struct Health {
    grace: Duration,
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
enum State {
    Up,
    Down,
    /// It was down until this moment.
    Recovered(Instant),
}

impl Health {
    pub(crate) fn new(grace: Duration) -> Self {
        Self { grace, state: Mutex::new(State::Up) }
    }

    /// Notes an error of the store; logs it once per outage as an error, then quietly.
    pub(crate) fn note(&self, error: &StoreError) {
        let mut state = self.lock();
        if matches!(error.kind, FaultKind::Outage | FaultKind::Unusable) {
            if matches!(*state, State::Down) {
                tracing::debug!(%error, "the database still does not answer");
            } else {
                tracing::error!(%error, "the database does not answer; nothing is lost, sending goes on when it does");
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
    pub(crate) fn recovered(&self) {
        let mut state = self.lock();
        if matches!(*state, State::Down) {
            tracing::info!("the database answers again");
            *state = State::Recovered(Instant::now());
        }
    }

    /// How long to leave expired leases alone; `None`: not at all.
    pub(crate) fn grace_left(&self) -> Option<Duration> {
        match *self.lock() {
            State::Up => None,
            State::Down => Some(self.grace),
            State::Recovered(at) => self.grace.checked_sub(at.elapsed()).filter(|left| !left.is_zero()),
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
