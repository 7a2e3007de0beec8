//! What all nodes together may do of one definition: a rate, a number that is being sent at the same time, and a circuit breaker.
//!
//! Pure: a store locks the row of the definition in `notify_limit`, asks [`allowance`] how many it may claim, writes what
//! [`begin`] makes of the row, and, when attempts have ended, what [`end`] makes of it; each in the transaction of the claim or
//! the settle. So what is decided here holds exactly, whoever claims at the same moment.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::class::ErrorClass;
use crate::definition::FOREVER;
use crate::notice::{duration_from_millis, duration_millis};
use crate::operate::Rate;
use crate::store::{Alarm, Settle};
use crate::transition::Event;

/// The limits of a definition over all nodes, from its columns `rate_limit`, `max_concurrency_total`, `breaker_failures` and
/// `breaker_pause`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// At most so many attempts begin within any such time.
    pub rate: Option<Rate>,
    /// At most so many are being sent at the same time.
    pub total: Option<usize>,
    /// Whether sending stops where the target is unwell.
    pub breaker: Option<Breaker>,
}

/// When a circuit opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    /// So many failures in a row open it.
    pub failures: u32,
    /// So long nothing is sent then; after it a probe is.
    pub pause: Duration,
}

/// The row of a definition in `notify_limit`. Times are milliseconds since 1970, by the store's clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitRow {
    /// Attempts that began lately, the earliest first: when, and how many.
    pub begun: Vec<(i64, u32)>,
    /// Failures in a row.
    pub failures: i64,
    /// The circuit is open; from this time on a probe may be sent.
    pub open_until: Option<i64>,
    /// The notice that is being sent as the probe.
    pub probe: Option<i64>,
}

/// Why a quota lets nothing through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hold {
    /// The circuit is open.
    Circuit {
        /// How long until a probe may be sent. One that is being sent ends it earlier.
        after: Duration,
    },
    /// As many attempts have begun as the rate allows.
    Rate {
        /// How long until the next one may begin.
        after: Duration,
    },
    /// As many are being sent as may be; the next may when one of them has ended.
    Total,
    /// Another node claims of this definition at this moment.
    Busy {
        /// How long to leave it alone.
        after: Duration,
    },
}

impl Hold {
    /// How long until it is worth while to ask again; [`FOREVER`] where nobody knows.
    pub fn again_after(self) -> Duration {
        match self {
            Self::Circuit { after } | Self::Rate { after } | Self::Busy { after } => after,
            Self::Total => FOREVER,
        }
    }

    /// True where the end of an attempt may be the end of it.
    pub fn ends_with_an_attempt(self) -> bool {
        matches!(self, Self::Circuit { .. } | Self::Total)
    }
}

/// Into how many parts of its time a rate's attempts are counted: those that begin within the same part count as begun with the
/// last of them. So a place comes back at most such a part later than it could, and never too early.
const PARTS: i64 = 64;

/// How many may be claimed now, at least one; or why none may. `sending`: how many are being sent; `lease`: that of the claim.
///
/// # Errors
/// What holds them back.
pub fn allowance(row: &LimitRow, quota: &Quota, now: i64, sending: usize, lease: Duration) -> Result<usize, Hold> {
    let mut most = usize::MAX;
    if let (Some(breaker), Some(until)) = (quota.breaker, row.open_until) {
        let left = until.saturating_sub(now);
        // What lies further ahead than it can was written by a clock that has been set back, or for a pause that was longer.
        let longest = duration_millis(breaker.pause.max(lease)).saturating_mul(2);
        if left > 0 && left <= longest {
            return Err(Hold::Circuit { after: duration_from_millis(left) });
        }
        most = 1;
    }
    if let Some(total) = quota.total {
        most = most.min(total.saturating_sub(sending));
        if most == 0 {
            return Err(Hold::Total);
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
            return Err(Hold::Rate { after: duration_from_millis(after) });
        }
        most = most.min(free);
    }
    Ok(most)
}

/// What attempts that began at `at` make of the row: they count against the rate, and, where the circuit is open, the first of
/// them is the probe. Its lease bounds it: if its process dies, another probe follows.
pub fn begin(row: &LimitRow, quota: &Quota, at: i64, ids: &[i64], lease: Duration) -> LimitRow {
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

/// The attempts that count at `now` against a rate. One that lies further ahead than it can was written by a clock that has been
/// set back since.
fn lately(row: &LimitRow, per: i64, now: i64) -> impl Iterator<Item = (i64, u32)> {
    let counts = move |at: i64| at.saturating_add(per) > now && at <= now.saturating_add(per);
    row.begun.iter().copied().filter(move |(at, _)| counts(*at))
}

/// What the end of an attempt says of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// It took the notice.
    Well,
    /// The next notice would fare no better.
    Unwell,
    /// Nothing: it lay with the notice, or there was no attempt.
    None,
}

impl Sign {
    /// What `event` says.
    pub fn of(event: &Event) -> Self {
        match event {
            Event::Succeeded | Event::AwaitConfirm(_) => Self::Well,
            Event::Failed(class) | Event::RetryIn(_, class) if is_of_target(*class) => Self::Unwell,
            _ => Self::None,
        }
    }
}

/// True for failures that lie with the target, or with the way to it, and not with the one notice. A deadlock asks for just
/// another try, and whoever did not confirm may be well.
fn is_of_target(class: ErrorClass) -> bool {
    matches!(
        class,
        ErrorClass::Network
            | ErrorClass::Timeout
            | ErrorClass::Unavailable
            | ErrorClass::Busy
            | ErrorClass::Auth
            | ErrorClass::Unknown
    )
}

/// What a circuit breaker is to see of an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// The definition.
    pub def_id: i64,
    /// Its breaker.
    pub breaker: Breaker,
    /// What the outcome says.
    pub sign: Sign,
    /// What a person is to be told if it opens the circuit.
    pub alarm: Option<Alarm>,
}

/// Outcomes of one batch by the definition whose breaker is to see them, each with its notice, in their order.
pub fn watched<'a>(settled: impl Iterator<Item = &'a Settle>) -> BTreeMap<i64, Vec<(i64, &'a Watched)>> {
    let mut by_definition: BTreeMap<i64, Vec<(i64, &Watched)>> = BTreeMap::new();
    for settle in settled {
        if let Some(watched) = settle.watched.as_deref() {
            by_definition.entry(watched.def_id).or_default().push((settle.id, watched));
        }
    }
    by_definition
}

/// What the ends of attempts of one definition, in their order, make of its row, and what is to be told if that opens the circuit.
///
/// The breaker is that of the last outcome: it was judged by the latest reading of the definition. What is told is of the outcome
/// that opened the circuit for good, which no other of the same notice in the batch may stand for.
pub fn end<'a>(row: &LimitRow, outcomes: &[(i64, &'a Watched)], now: i64) -> (LimitRow, Option<&'a Alarm>) {
    let Some(breaker) = outcomes.last().map(|(_, watched)| watched.breaker) else { return (row.clone(), None) };
    let (new, opener) = fold(row, breaker, outcomes.iter().map(|(id, watched)| (*id, watched.sign)), now);
    (new, opener.and_then(|nth| outcomes.get(nth)?.1.alarm.as_ref()))
}

/// What outcomes, in their order, make of the row, and which of them has opened the circuit, if one has.
///
/// While it is open only the probe's failure counts, since the others began before it was opened. A success closes it,
/// whoever brings it.
fn fold(
    row: &LimitRow,
    breaker: Breaker,
    outcomes: impl Iterator<Item = (i64, Sign)>,
    now: i64,
) -> (LimitRow, Option<usize>) {
    let mut new = row.clone();
    let mut opened_by = None;
    let pause = now.saturating_add(duration_millis(breaker.pause));
    for (nth, (id, sign)) in outcomes.enumerate() {
        let is_probe = new.probe == Some(id);
        match (sign, new.open_until) {
            (Sign::Well, _) => (new.failures, new.open_until, new.probe) = (0, None, None),
            (Sign::Unwell, None) => {
                new.failures = new.failures.saturating_add(1);
                if new.failures >= i64::from(breaker.failures) {
                    (new.open_until, new.probe, opened_by) = (Some(pause), None, Some(nth));
                }
            }
            (Sign::Unwell, Some(_)) if is_probe => {
                new.failures = new.failures.saturating_add(1);
                (new.open_until, new.probe) = (Some(pause), None);
            }
            // It told nothing: the next one may.
            (Sign::None, Some(_)) if is_probe => (new.open_until, new.probe) = (Some(now), None),
            (Sign::Unwell | Sign::None, _) => {}
        }
    }
    let opened = row.open_until.is_none() && new.open_until.is_some();
    (new, opened_by.filter(|_| opened))
}

#[cfg(test)]
mod tests;
