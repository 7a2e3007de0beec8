//! [`Looks`]: the looks of the sweep at what is due.

use std::time::Duration;

use solid_notify_core::StoreError;
use solid_notify_core::store::DueTimes;
use tokio::time::Instant;

use super::store_clock::{Reading, StoreClock};
use crate::worker::Worker;

/// Looks and readings that are requested again and again, for instance by each acknowledgement, take at most a tenth of the
/// time.
pub(super) const SHARE: u32 = 10;

/// When the last thorough look was, which also finds notices that were committed late. Between two thorough looks a look
/// begins where the last one found the first notice. Many databases still step over the index entries before it, although
/// their notices are gone.
pub(super) struct Looks {
    /// A thorough look is due.
    is_due: bool,
    at: Instant,
    took: Duration,
    clock: StoreClock,
}

impl Default for Looks {
    fn default() -> Self {
        Self { is_due: true, at: Instant::now(), took: Duration::ZERO, clock: StoreClock::default() }
    }
}

impl Looks {
    /// Makes the next look a thorough one.
    pub(super) fn be_thorough(&mut self) {
        self.is_due = true;
    }

    /// Returns how long the next thorough look has to wait.
    pub(super) fn rest(&self) -> Duration {
        (SHARE * self.took).saturating_sub(self.at.elapsed())
    }

    /// Looks at what is due.
    pub(super) async fn look(&mut self, worker: &Worker) -> Result<DueTimes, StoreError> {
        let (began, asked) = (Instant::now(), worker.moment());
        // A thorough look that takes long must not take all the time.
        let thorough = self.is_due || self.at.elapsed() >= worker.settings.poll_interval.max(20 * self.took);
        let due = worker.stores().send.due(thorough).await?;
        let reading = Reading::new(due.now, asked, worker.moment());
        if thorough {
            (self.is_due, self.at, self.took) = (false, began, began.elapsed());
        }
        if let Some(by) = self.clock.was_set(&reading) {
            worker.clock_was_set(by).await?;
        }
        self.clock.keep(reading);
        Ok(due)
    }
}
