//! The limits of one definition over all nodes: a rate, a number of notices being sent at the same time, and a circuit breaker.
//!
//! Pure. A store locks the definition's row in `notify_limit`, asks [`allowance`] how many notices it may claim, and stores the
//! row that [`begin`] returns. When attempts have ended it stores the row that [`end`] returns. Each happens in the transaction
//! of the claim or the settle, so the limits are exact even if several nodes claim at the same time.

mod breaker;
mod rate;

use std::time::Duration;

use crate::notice::{ClaimedNotice, duration_from_millis, duration_millis};
use crate::retry::duration::FOREVER;

pub use breaker::{BreakerInput, CLOSE_CIRCUIT, close, end};
pub use rate::Rate;

/// The limits of a definition over all nodes, from its columns `rate_limit`, `max_concurrency_total`, `breaker_failures` and
/// `breaker_pause`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// The maximum number of attempts that begin within a period.
    pub rate: Option<Rate>,
    /// The maximum number of notices being sent at the same time.
    pub total: Option<usize>,
    /// When the circuit opens; `None`: never.
    pub breaker: Option<Breaker>,
}

/// When a circuit opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    /// The number of failures in a row that opens it.
    pub failures: u32,
    /// How long no notice is sent then. After it a probe is sent.
    pub pause: Duration,
}

/// The row of a definition in `notify_limit`. Times are milliseconds since 1970, by the store's clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitRow {
    /// Attempts that began recently, the earliest first: when, and how many.
    pub begun: Vec<(i64, u32)>,
    /// Failures in a row.
    pub failures: i64,
    /// If set, the circuit is open, and from this time on a probe may be sent.
    pub open_until: Option<i64>,
    /// The notice that is being sent as the probe.
    pub probe: Option<i64>,
}

/// Why a quota allows no claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuotaStop {
    /// The circuit is open.
    Circuit {
        /// How long until a probe may be sent. The end of a running probe may close the circuit earlier.
        after: Duration,
    },
    /// As many attempts have begun as the rate allows.
    Rate {
        /// How long until the next one may begin.
        after: Duration,
    },
    /// The maximum number of notices is being sent; the next may start when one of them has ended.
    Total,
    /// Another node is claiming notices of this definition.
    Busy {
        /// How long to wait.
        after: Duration,
    },
}

impl QuotaStop {
    /// Returns how long to wait before the next claim; [`FOREVER`] if that is unknown.
    pub fn again_after(self) -> Duration {
        match self {
            Self::Circuit { after } | Self::Rate { after } | Self::Busy { after } => after,
            Self::Total => FOREVER,
        }
    }

    /// Returns true if the end of an attempt may end it.
    pub fn ends_with_an_attempt(self) -> bool {
        matches!(self, Self::Circuit { .. } | Self::Total)
    }
}

/// The number of parts into which a rate's period is divided for counting. Attempts that begin within the same part count as
/// begun with the last of them. So a free place appears at most one part later than it could, and never too early.
const PARTS: i64 = 64;

/// Returns how many notices may be claimed now, at least one. `sending`: how many are being sent; `lease`: the lease of the
/// claim.
///
/// # Errors
/// Why none may be claimed.
pub fn allowance(row: &LimitRow, quota: &Quota, now: i64, sending: usize, lease: Duration) -> Result<usize, QuotaStop> {
    let mut most = usize::MAX;
    if let (Some(breaker), Some(until)) = (quota.breaker, row.open_until) {
        let left = until.saturating_sub(now);
        // An open time further ahead than possible was written by a clock that has been set back, or for a longer pause.
        let longest = duration_millis(breaker.pause.max(lease)).saturating_mul(2);
        if left > 0 && left <= longest {
            return Err(QuotaStop::Circuit { after: duration_from_millis(left) });
        }
        most = 1;
    }
    if let Some(total) = quota.total {
        most = most.min(total.saturating_sub(sending));
        if most == 0 {
            return Err(QuotaStop::Total);
        }
    }
    if let Some(rate) = quota.rate {
        let limit = u64::from(rate.count());
        let per = duration_millis(rate.per());
        let mut counted: u64 = lately(row, per, now).map(|(_, count)| u64::from(count)).sum();
        let free = usize::try_from(limit.saturating_sub(counted)).unwrap_or(usize::MAX);
        if free == 0 {
            let frees = |(at, count): (i64, u32)| {
                counted = counted.saturating_sub(u64::from(count));
                (counted < limit).then(|| at.saturating_add(per).saturating_sub(now))
            };
            let after = lately(row, per, now).find_map(frees).unwrap_or(per);
            return Err(QuotaStop::Rate { after: duration_from_millis(after) });
        }
        most = most.min(free);
    }
    Ok(most)
}

/// Returns the ids of the claimed notices that are attempted, for [`begin`]. An expired one ends without an attempt, so it uses up no
/// place of a rate, and is no probe.
pub fn attempted(claimed: &[ClaimedNotice]) -> Vec<i64> {
    claimed.iter().filter(|notice| !notice.is_expired()).map(|notice| notice.id).collect()
}

/// Returns the row after attempts of `ids` have begun at `at`. They count against the rate. If the circuit is open, the first of them is
/// the probe. Its lease limits the probe: if its process dies, another probe follows.
pub fn begin(row: &LimitRow, quota: &Quota, at: i64, ids: &[i64], lease: Duration) -> LimitRow {
    if ids.is_empty() {
        return row.clone();
    }
    let mut new = row.clone();
    new.begun.clear();
    if let Some(rate) = quota.rate {
        let per = duration_millis(rate.per());
        new.begun.extend(lately(row, per, at));
        let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        let part = |time: i64| time.div_euclid((per / PARTS).max(1));
        match new.begun.last_mut() {
            Some((last, counted)) if part(*last) >= part(at) => {
                *last = at.max(*last);
                *counted = counted.saturating_add(count);
            }
            _ => new.begun.push((at, count)),
        }
    }
    if quota.breaker.is_some() && row.open_until.is_some() {
        new.probe = ids.first().copied();
        new.open_until = Some(at.saturating_add(duration_millis(lease)));
    }
    new
}

/// Returns the attempts that count against a rate at `now`. A time further ahead than possible was written by a clock that has
/// been set back since.
fn lately(row: &LimitRow, per: i64, now: i64) -> impl Iterator<Item = (i64, u32)> {
    let counts = move |at: i64| at.saturating_add(per) > now && at <= now.saturating_add(per);
    row.begun.iter().copied().filter(move |(at, _)| counts(*at))
}

/// What the end of an attempt shows about the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetSign {
    /// The target accepted the notice.
    Well,
    /// The next notice would fail, too.
    Unwell,
    /// Nothing: the failure was caused by the notice, or there was no attempt.
    None,
}

#[cfg(test)]
mod tests;
