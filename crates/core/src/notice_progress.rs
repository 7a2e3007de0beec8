//! What people read of the progress of a notice beside its counters: how many retries it had, and when it changed last. Both follow
//! from stored columns, so they cost no column and no write of their own.

use chrono::{DateTime, Utc};

use crate::notice::{NoticeRecord, Status};

/// Returns how many retries a notice had, with the one that runs or that it waits for: each used try led to one, except the last try of
/// a dead letter.
pub(crate) fn retry_times(status: Status, failures: i64, crashes: i64) -> i64 {
    let tries = failures.saturating_add(crashes);
    if status == Status::DeadLetter { tries.saturating_sub(1).max(0) } else { tries }
}

/// Returns when a notice changed last by its sending: when it ended, else when its last attempt began, else when it was added.
/// What people did to it is in the audit.
pub(crate) fn update_time(
    finish_time: Option<DateTime<Utc>>,
    last_call_time: Option<DateTime<Utc>>,
    create_time: DateTime<Utc>,
) -> DateTime<Utc> {
    finish_time.or(last_call_time).unwrap_or(create_time)
}

impl NoticeRecord {
    /// Returns the record with what follows from its other parts. A store calls it when it has filled in the rest.
    #[must_use]
    pub fn with_progress(mut self) -> Self {
        self.retry_times = retry_times(self.status, self.failures, self.crashes);
        self.update_time = update_time(self.finish_time, self.last_call_time, self.create_time);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notice::time_from_millis;

    #[test]
    fn each_try_leads_to_a_retry_except_the_last_of_a_dead_letter() {
        let retries = |status| [0, 1, 3].map(|failures| retry_times(status, failures, 0));
        assert_eq!(retries(Status::Failed), [0, 1, 3]);
        assert_eq!(retries(Status::Succeeded), [0, 1, 3]);
        assert_eq!(retries(Status::DeadLetter), [0, 0, 2]);
        assert_eq!(retry_times(Status::DeadLetter, 1, 2), 2, "a crash uses a try as well");
    }

    #[test]
    fn the_last_of_the_known_times_is_the_update() {
        let [added, called, ended] = [1, 2, 3].map(time_from_millis);
        assert_eq!(update_time(None, None, added), added);
        assert_eq!(update_time(None, Some(called), added), called);
        assert_eq!(update_time(Some(ended), Some(called), added), ended);
    }
}
