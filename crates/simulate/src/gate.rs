//! [`Gate`]: what an attempt needs besides a slot: an open window, and limits over all nodes that admit it. The code of the
//! real system decides both; this file simulates only the store around it.

use std::time::Duration;

use chrono::{DateTime, Utc};
use solid_notify_core::Policy;
use solid_notify_core::definition::FOREVER;
use solid_notify_core::limit::{LimitRow, TargetSign, allowance, begin, end};
use solid_notify_core::notice::{duration_from_millis, duration_millis, millis_from_time, time_from_millis};
use solid_notify_core::store::BreakerInput;
use solid_notify_core::transition::Event;

/// Stands between the due notices of one definition and the slots.
pub(super) struct Gate {
    /// When virtual time began, in milliseconds since 1970.
    start: i64,
    /// The row of `notify_limit`.
    row: LimitRow,
    /// How many notices are being sent, by a living process or a dead one.
    sending: usize,
    /// When the simulation looks again, as it was last told.
    again: Option<i64>,
}

impl Gate {
    pub(super) fn new(start: DateTime<Utc>) -> Self {
        Self { start: millis_from_time(start), row: LimitRow::default(), sending: 0, again: None }
    }

    /// Returns whether an attempt may begin now. If not, returns when to look again, once per time.
    pub(super) fn lets_through(&mut self, policy: &Policy, now: i64) -> Result<(), Option<i64>> {
        let Some(after) = self.closed_for(policy, now) else { return Ok(()) };
        let again = now.saturating_add(duration_millis(after).max(1));
        // A limit that ends with an attempt needs no look at a certain time.
        if after >= FOREVER || self.again.is_some_and(|earlier| now < earlier && earlier <= again) {
            return Err(None);
        }
        self.again = Some(again);
        Err(self.again)
    }

    /// Returns for how long nothing may begin, as far as that is known.
    fn closed_for(&self, policy: &Policy, now: i64) -> Option<Duration> {
        let time = self.start.saturating_add(now);
        if let Some(window) = policy.window.as_ref().filter(|window| !window.is_open(time_from_millis(time))) {
            let opens = window.opens(time_from_millis(time)).map(millis_from_time);
            return Some(opens.map_or(FOREVER, |at| duration_from_millis(at.saturating_sub(time))));
        }
        let quota = policy.quota.as_ref()?;
        allowance(&self.row, quota, time, self.sending, policy.lease()).err().map(|hold| hold.again_after())
    }

    pub(super) fn begin(&mut self, policy: &Policy, id: i64, now: i64) {
        self.sending += 1;
        if let Some(quota) = &policy.quota {
            self.row = begin(&self.row, quota, self.start.saturating_add(now), &[id], policy.lease());
        }
    }

    /// Records that an attempt has ended for the store.
    pub(super) fn ended(&mut self) {
        self.sending -= 1;
    }

    /// Shows an outcome to the circuit breaker. Returns true if it opens the circuit.
    pub(super) fn watch(&mut self, policy: &Policy, id: i64, event: &Event, now: i64) -> bool {
        let Some(breaker) = policy.quota.and_then(|quota| quota.breaker) else { return false };
        let input = BreakerInput { def_id: policy.def_id, breaker, sign: TargetSign::of(event), alarm: None };
        let (row, _) = end(&self.row, &[(id, &input)], self.start.saturating_add(now));
        let opens = self.row.open_until.is_none() && row.open_until.is_some();
        self.row = row;
        opens
    }
}
