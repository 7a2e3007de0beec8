//! A clock that tests can turn by hand.
//!
//! In production every stored time comes from the database's clock and no process clock decides anything. With a [`HandClock`]
//! each statement binds the clock's time instead, so a test can advance a day without waiting.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::notice::{duration_millis, millis_from_time, time_from_millis};

/// A clock that a test turns. Clones share one time.
///
/// ```
/// use std::time::Duration;
/// use chrono::{DateTime, Utc};
/// let clock = solid_notify_core::HandClock::new(DateTime::UNIX_EPOCH);
/// clock.advance(Duration::from_secs(5));
/// assert_eq!(clock.now(), DateTime::UNIX_EPOCH + Duration::from_secs(5));
/// ```
#[derive(Debug, Clone)]
pub struct HandClock {
    shown: Arc<watch::Sender<Shown>>,
    /// When it was started, if it runs.
    running: Option<Instant>,
}

/// Milliseconds since 1970, and by how many milliseconds [`HandClock::set`] has moved them.
#[derive(Debug, Clone, Copy)]
struct Shown {
    turned: i64,
    set: i64,
}

impl HandClock {
    /// Creates a clock that shows `start` (to the millisecond) and stands still until it is turned.
    pub fn new(start: DateTime<Utc>) -> Self {
        let shown = Shown { turned: millis_from_time(start), set: 0 };
        Self { shown: Arc::new(watch::channel(shown).0), running: None }
    }

    /// Creates a clock that shows `start` now and advances with tokio's time, which a test can pause ([`tokio::time::pause`]).
    /// Then days of sweeping pass at once, and no test has to turn the clock.
    pub fn running(start: DateTime<Utc>) -> Self {
        Self { running: Some(Instant::now()), ..Self::new(start) }
    }

    /// Returns the time it shows.
    pub fn now(&self) -> DateTime<Utc> {
        time_from_millis(self.now_millis())
    }

    /// Returns the time it shows, in milliseconds since 1970.
    pub fn now_millis(&self) -> i64 {
        self.moment_millis().saturating_add(self.shown.borrow().set)
    }

    /// Returns the time without the changes by [`Self::set`], in milliseconds: the clock of a process as opposed to that of the
    /// store.
    pub fn moment_millis(&self) -> i64 {
        let ran = self.running.map_or(0, |since| duration_millis(since.elapsed()));
        self.shown.borrow().turned.saturating_add(ran)
    }

    /// Turns it forward. Sweepers that use it sweep at once.
    pub fn advance(&self, by: Duration) {
        self.shown.send_modify(|shown| shown.turned = shown.turned.saturating_add(duration_millis(by)));
    }

    /// Sets the store's clock, as NTP or a failover does: no time passes, and the processes' own clocks do not change. Sweepers
    /// sweep at once.
    pub fn set(&self, time: DateTime<Utc>) {
        let by = millis_from_time(time).saturating_sub(self.now_millis());
        self.shown.send_modify(|shown| shown.set = shown.set.saturating_add(by));
    }

    /// Waits until it is turned or set.
    pub fn turned(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut receiver = self.shown.subscribe();
        async move {
            // The sender lives as long as any clone of the clock. Without a clone no turn can follow, so the wait never ends.
            if receiver.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
