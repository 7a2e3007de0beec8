//! Re-timing: waiting retries get new times by the current intervals. [`retimed`] decides, purely; [`Operator::retime`] goes
//! through the queue slice in small steps.

use chrono::{DateTime, Utc};

use super::bulk::Bulk;
use super::decided::moved;
use super::definitions::DefRef;
use super::operator::Operator;
use super::part::Part;
use crate::definition::Policy;
use crate::error::{Error, Result};
use crate::limit::Rate;
use crate::notice::{Status, later};
use crate::store::{BulkVerb, Listed, RetryGroup};

impl Operator {
    /// Gives the waiting retries of a definition new times by the current row: the interval after their last failure, counted
    /// from the beginning of that attempt. It counts no try and sends nothing. Retries that become due at once are spread by
    /// `rate`, but none is delayed by that beyond its old time.
    ///
    /// Not changed are retries that are due already, that would move by less than a second, that an operator retried and that
    /// were not attempted since, and that have no try left or would be due at their expiry or later
    /// ([`NewNotice::max_tries`](crate::NewNotice::max_tries), [`NewNotice::expires_at`](crate::NewNotice::expires_at)). A time that a
    /// handler or an operator had set is replaced.
    ///
    /// Each step of 500 is its own transaction with one entry in the audit; another call continues.
    ///
    /// # Errors
    /// [`Error::InvalidDefinition`] for an invalid row, [`Error::Invalid`] if its interval is a named strategy, which only
    /// sweepers have; as [`Self::definition`]; those of the store.
    pub async fn retime(&self, definition: impl Into<DefRef>, rate: Rate) -> Result<Bulk> {
        let row = self.definition(definition).await?;
        let row = self.outbox.engine().followed(&row).await?;
        let policy = row.policy().map_err(|problems| Error::InvalidDefinition { name: row.name.clone(), problems })?;
        if let Some(strategy) = policy.interval.strategy() {
            let problem = format!("its interval is strategy:{strategy}, which only a sweeper can evaluate");
            return Err(Error::Invalid { what: "retiming", problem });
        }
        let started = self.outbox.engine().stores().send.now().await?;
        let detail = format!("failed of {}, by its intervals, at a rate of {rate}", row.name);
        let plan = |n: u64, notice: &Listed| retimed(&policy, notice, started, started + rate.offset(n));
        let mut done = Bulk::default();
        let part = [Part::whole(&row, Status::Failed)].into();
        self.in_steps(part, &BulkVerb::Reschedule, &detail, &mut done, plan).await?;
        Ok(done)
    }
}

/// Returns when a waiting retry is due by these intervals, if that is another time. `place` is the earliest time for a retry
/// that would be due at once.
fn retimed(policy: &Policy, notice: &Listed, now: DateTime<Utc>, place: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let called = notice.last_call_time?;
    let group = RetryGroup {
        failures: notice.failures,
        crashes: notice.crashes,
        class: notice.last_class.clone(),
        max_tries: notice.own.max_tries,
        expires_after: notice.own.expires_at.map(|at| (at - called).to_std().unwrap_or_default()),
        wait: (notice.time - called).to_std().ok(),
        due: notice.time <= now,
        count: 1,
    };
    let delay = moved(policy, &group, spread(notice.id, notice.fence))?;
    let wished = later(called, delay)?.max(now);
    // A place in the spread must not be the reason why it expires.
    let place = if notice.own.is_expired(place) { wished } else { place };
    let due = if wished < notice.time { wished.max(place).min(notice.time) } else { wished };
    // An unchanged time need not be written.
    (due != notice.time).then_some(due)
}

/// Returns a number from 0 up to 1 for the jitter of an attempt. It is always the same, so that re-timing again moves nothing.
fn spread(id: i64, fence: i64) -> f64 {
    // Multiples of the golden ratio, whose fractions are spread evenly (Knuth, The Art of Computer Programming, 6.4).
    let seed = id.wrapping_add(fence).cast_unsigned().wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (seed >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::NotifyDef;
    use crate::notice::OwnLimits;
    use crate::store::Position;

    const NOW: DateTime<Utc> = DateTime::UNIX_EPOCH;
    const SECOND: Duration = Duration::from_secs(1);

    /// A retry that failed `ago` seconds ago and is due in `after`.
    fn waiting(failures: i64, class: &str, ago: u32, after: u32) -> Listed {
        let now = NOW + 1000 * SECOND;
        let time = now + after * SECOND;
        let mut listed = Listed::new(1, 1, Status::Failed, NOW, time, Position::new("", 1));
        (listed.failures, listed.last_class) = (failures, Some(class.to_owned()));
        listed.last_call_time = Some(now - ago * SECOND);
        listed
    }

    /// Returns in how many seconds it is due when retimed now, with a place this many seconds from now.
    fn due(def: NotifyDef, notice: &Listed, place: u32) -> Option<u64> {
        let now = NOW + 1000 * SECOND;
        let due = retimed(&def.policy().unwrap(), notice, now, now + place * SECOND)?;
        Some((due - now).to_std().unwrap().as_secs())
    }

    #[test]
    fn a_waiting_retry_takes_the_interval_of_its_last_failure() {
        let def =
            || NotifyDef::new("a").retry_interval("[10s,100s]").retry_rules(r#"{"busy": "[7s,70s]", "auth": "never"}"#);
        for (failures, class, place, expected) in [
            (1, "timeout", 0, Some(8)),
            (2, "timeout", 0, Some(98)),
            (9, "timeout", 0, None),
            (1, "busy", 0, Some(5)),
            (2, "busy", 0, Some(68)),
            (1, "auth", 0, None),
            (1, "what a later release has", 0, Some(8)),
            // Never attempted since an operator retried it.
            (0, "timeout", 0, None),
            // Its place in the spread is later, and applies up to its old time.
            (1, "timeout", 20, Some(20)),
            (1, "timeout", 60, None),
        ] {
            assert_eq!(due(def(), &waiting(failures, class, 2, 50), place), expected, "{failures} {class} {place}");
        }
        assert_eq!(due(def(), &waiting(1, "timeout", 30, 50), 0), Some(0), "its time is over");
        assert_eq!(due(def(), &waiting(2, "timeout", 30, 50), 90), Some(70), "what becomes later is not spread");
        assert_eq!(due(def(), &waiting(2, "timeout", 30, 0), 0), None, "one that is due keeps its place");
        assert_eq!(due(def(), &waiting(1, "timeout", 2, 8), 0), None, "nothing changes");
    }

    #[test]
    fn limits_of_a_notice_apply_to_its_retry() {
        let def = || NotifyDef::new("a").retry_interval("[10s,100s]").max_retry_times(1);
        let limited = |failures, max_tries, expires_in: Option<u32>| {
            let mut listed = waiting(failures, "timeout", 2, 50);
            let expires_at = expires_in.map(|seconds| NOW + 1000 * SECOND + seconds * SECOND);
            listed.own = OwnLimits::new(max_tries, expires_at);
            listed
        };
        assert_eq!(due(def(), &limited(2, None, None), 0), None, "the row allows no more tries");
        assert_eq!(due(def(), &limited(2, Some(9), None), 0), Some(98), "the notice does");
        assert_eq!(due(def(), &limited(1, Some(1), None), 0), None, "the notice does not");
        assert_eq!(due(def(), &limited(1, None, Some(8)), 0), None, "it would be expired");
        assert_eq!(due(def(), &limited(1, None, Some(9)), 0), Some(8));
        assert_eq!(due(def(), &limited(1, None, Some(20)), 20), Some(8), "its place would be too late");
    }

    #[test]
    fn a_crash_is_retimed_as_it_was_timed() {
        let crashed = |crashes| {
            let mut listed = waiting(0, "crash", 2, 50);
            listed.crashes = crashes;
            listed
        };
        let def = NotifyDef::new("a").retry_interval("[10s,100s]");
        assert_eq!(due(def.clone(), &crashed(1), 0), Some(0), "the first one is sent again at once");
        assert_eq!(due(def, &crashed(2), 0), Some(8));
    }

    #[test]
    fn jitter_is_the_same_whenever_it_is_asked_for_and_spreads_evenly() {
        let units: Vec<f64> = (1..=1000).map(|id| spread(id, 1)).collect();
        assert_eq!(spread(7, 1).to_bits(), units[6].to_bits());
        for tenth in 0..10 {
            let within = units.iter().filter(|unit| (**unit * 10.0) as i32 == tenth).count();
            assert!((80..=120).contains(&within), "{within}");
        }
        let def = || NotifyDef::new("a").retry_interval("100s ~10%");
        let first = due(def(), &waiting(1, "busy", 0, 10), 0).unwrap();
        assert_eq!(
            due(def(), &waiting(1, "busy", 0, u32::try_from(first).unwrap()), 0),
            None,
            "again, it moves nothing"
        );
    }
}
