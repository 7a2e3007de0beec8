//! The one clock that can be turned by hand, for tests.
//!
//! In production every stored time comes from the database's clock and no process clock decides anything.
//! With a [`HandClock`] each statement binds the clock's time instead, so a test turns a day in no time.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::Instant;

use crate::notice::{duration_millis, millis_from_time, time_from_millis};

/// A clock that a test turns. Clones share one time.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// let clock = solid_notify_core::HandClock::new(SystemTime::UNIX_EPOCH);
/// clock.advance(Duration::from_secs(5));
/// assert_eq!(clock.now(), SystemTime::UNIX_EPOCH + Duration::from_secs(5));
/// ```
#[derive(Debug, Clone)]
pub struct HandClock {
    millis: Arc<watch::Sender<i64>>,
    /// Since when it runs, where it does not stand still.
    running: Option<Instant>,
}

impl HandClock {
    /// A clock that shows `start` (to the millisecond) and stands still until it is turned.
    pub fn new(start: SystemTime) -> Self {
        Self { millis: Arc::new(watch::channel(millis_from_time(start)).0), running: None }
    }

    /// A clock that shows `start` now and goes on with tokio's time, which a test can pause
    /// ([`tokio::time::pause`]): then days of sweeping pass in no time, without anybody turning it.
    pub fn running(start: SystemTime) -> Self {
        Self { running: Some(Instant::now()), ..Self::new(start) }
    }

    /// The time it shows.
    pub fn now(&self) -> SystemTime {
        time_from_millis(self.now_millis())
    }

    /// The time it shows, in milliseconds since 1970.
    pub fn now_millis(&self) -> i64 {
        let ran = self.running.map_or(0, |since| duration_millis(since.elapsed()));
        self.millis.borrow().saturating_add(ran)
    }

    /// Turns it forward; sweepers that use it look at once for what became due.
    pub fn advance(&self, by: Duration) {
        self.millis.send_modify(|now| *now = now.saturating_add(duration_millis(by)));
    }

    /// Waits until somebody turns it.
    pub fn turned(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut receiver = self.millis.subscribe();
        async move {
            // The sender lives as long as any clone of the clock; without one nobody can turn it any more.
            if receiver.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
