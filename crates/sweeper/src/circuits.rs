//! [`Circuits`]: a circuit breaker for each of the many receivers of a definition, in the memory of this node.
//!
//! The breaker of a definition is in the store, for all nodes together. Where the receiver depends on the notice, one that fails must not stop
//! the notices of the others, so it has a circuit of its own here. What opens and closes it is decided by the same functions
//! ([`solid_notify_core::limit`]). Times are those of the store's clock, as claims return them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chrono::TimeDelta;
use parking_lot::Mutex;
use solid_notify_core::limit::{Breaker, BreakerInput, LimitRow, Quota, TargetSign, allowance, begin, end};
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::{NotifyDef, Policy};

/// How many receivers with failures a node remembers. Of more, those are forgotten first whose circuit is not open, or whose pause is over; then half of
/// those of the definition that has most, whose pauses end soonest.
const RECEIVERS: usize = 10_000;

/// The circuits of a node, by definition and receiver. One that is closed and has no failure is not kept.
#[derive(Default)]
pub(crate) struct Circuits(Mutex<HashMap<(i64, String), LimitRow>>);

impl Circuits {
    /// Begins an attempt, which is a probe if the circuit is open.
    ///
    /// # Errors
    /// For how long no attempt may begin.
    fn begin(&self, key: &(i64, String), breaker: Breaker, at: i64, id: i64, lease: Duration) -> Result<(), Duration> {
        let mut rows = self.0.lock();
        let Some(row) = rows.get_mut(key) else { return Ok(()) };
        let quota = Quota { rate: None, total: None, breaker: Some(breaker) };
        match allowance(row, &quota, at, 0, lease) {
            Ok(_) => {
                *row = begin(row, &quota, at, &[id], lease);
                Ok(())
            }
            // A probe usually ends long before its lease.
            Err(stop) => Err(stop.again_after().min(breaker.pause)),
        }
    }

    /// Counts the outcome of an attempt. Returns whether it has opened or closed the circuit.
    fn end(&self, key: &(i64, String), breaker: Breaker, id: i64, sign: TargetSign, now: i64) -> Option<Change> {
        let mut rows = self.0.lock();
        if sign == TargetSign::Unwell && rows.len() >= RECEIVERS && !rows.contains_key(key) {
            make_room(&mut rows, now);
        }
        let input = BreakerInput { def_id: key.0, breaker, sign, alarm: None };
        match rows.entry(key.clone()) {
            Entry::Occupied(mut kept) => {
                let was_open = kept.get().open_until.is_some();
                let (row, _) = end(kept.get(), &[(id, &input)], now);
                let is_open = row.open_until.is_some();
                if row == LimitRow::default() {
                    kept.remove();
                } else {
                    kept.insert(row);
                }
                match (was_open, is_open) {
                    (false, true) => Some(Change::Opened),
                    (true, false) => Some(Change::Closed),
                    _ => None,
                }
            }
            Entry::Vacant(free) if sign == TargetSign::Unwell => {
                let (row, _) = end(&LimitRow::default(), &[(id, &input)], now);
                let is_open = row.open_until.is_some();
                free.insert(row);
                is_open.then_some(Change::Opened)
            }
            Entry::Vacant(_) => None,
        }
    }
}

/// Forgets receivers. A definition with a parameter that names ever new ones does not keep those of others out.
fn make_room(rows: &mut HashMap<(i64, String), LimitRow>, now: i64) {
    rows.retain(|_, row| row.open_until.is_some_and(|until| until > now));
    if rows.len() < RECEIVERS / 2 {
        return;
    }
    let mut counts = HashMap::<i64, usize>::new();
    for (definition, _) in rows.keys() {
        *counts.entry(*definition).or_default() += 1;
    }
    let Some((most, _)) = counts.into_iter().max_by_key(|(_, count)| *count) else { return };
    let of_most = rows.iter().filter(|((definition, _), _)| *definition == most);
    let mut ends: Vec<i64> = of_most.filter_map(|(_, row)| row.open_until).collect();
    ends.sort_unstable();
    let mut left = ends.len().div_ceil(2);
    let Some(last) = left.checked_sub(1).and_then(|last| ends.get(last)).copied() else { return };
    rows.retain(|(definition, _), row| {
        let goes = *definition == most && left > 0 && row.open_until.is_some_and(|until| until <= last);
        left -= usize::from(goes);
        !goes
    });
}

/// What an outcome did to a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Opened,
    Closed,
}

/// What an attempt needs of the circuit of its receiver.
pub(crate) struct AttemptCircuit {
    circuits: Arc<Circuits>,
    breaker: Option<Breaker>,
    lease: Duration,
    /// Set once the handler has named the receiver and may send to it.
    receiver: OnceLock<(i64, String)>,
}

impl AttemptCircuit {
    /// `policy`: that of the definition at the claim.
    pub(crate) fn new(circuits: &Arc<Circuits>, policy: &Policy) -> Self {
        let breaker = policy.quota.and_then(|quota| quota.breaker);
        Self { circuits: Arc::clone(circuits), breaker, lease: policy.lease(), receiver: OnceLock::new() }
    }

    /// Begins to send to a receiver.
    ///
    /// # Errors
    /// For how long its circuit is open.
    pub(crate) fn begin(&self, claimed: &ClaimedNotice, receiver: &str) -> Result<(), Duration> {
        let key = (claimed.def_id, receiver.to_owned());
        if let Some(breaker) = self.breaker {
            let at = claimed.last_call_time.timestamp_millis();
            self.circuits.begin(&key, breaker, at, claimed.id, self.lease)?;
        }
        // A second call changes nothing; there is none.
        let _ = self.receiver.set(key);
        Ok(())
    }

    /// Counts the outcome for the receiver, if the handler has named it. Returns whether it has. `shows_receiver`: the log may have its name.
    pub(crate) fn end(
        &self,
        claimed: &ClaimedNotice,
        row: &NotifyDef,
        shows_receiver: bool,
        sign: TargetSign,
        lasted: Duration,
    ) -> bool {
        let Some(key) = self.receiver.get() else { return false };
        let Some(breaker) = self.breaker else { return true };
        let lasted = TimeDelta::from_std(lasted).unwrap_or(TimeDelta::MAX);
        let now = claimed.last_call_time.checked_add_signed(lasted).unwrap_or(claimed.last_call_time);
        let receiver = if shows_receiver { key.1.as_str() } else { "one of many" };
        match self.circuits.end(key, breaker, claimed.id, sign, now.timestamp_millis()) {
            Some(Change::Opened) => tracing::warn!(
                definition = row.name,
                receiver,
                failures = breaker.failures,
                pause = ?breaker.pause,
                "the circuit of a receiver is open after failures in a row: its notices wait on this node, and those of others do not"
            ),
            Some(Change::Closed) => {
                tracing::info!(definition = row.name, receiver, "the circuit of a receiver is closed")
            }
            None => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BREAKER: Breaker = Breaker { failures: 2, pause: Duration::from_millis(100) };
    const LEASE: Duration = Duration::from_millis(1000);

    fn key(receiver: &str) -> (i64, String) {
        (7, receiver.to_owned())
    }

    #[test]
    fn circuit_opens_for_one_receiver_and_closes_by_a_probe() {
        let circuits = Circuits::default();
        let begins = |receiver: &str, at, id| circuits.begin(&key(receiver), BREAKER, at, id, LEASE);
        let ends = |receiver: &str, id, sign, now| circuits.end(&key(receiver), BREAKER, id, sign, now);
        assert_eq!(ends("a", 1, TargetSign::Unwell, 10), None);
        assert_eq!(ends("a", 2, TargetSign::Unwell, 20), Some(Change::Opened));
        assert_eq!((begins("a", 30, 3), begins("b", 30, 4)), (Err(Duration::from_millis(90)), Ok(())));
        assert_eq!(begins("a", 120, 3), Ok(()), "the probe");
        assert_eq!(begins("a", 121, 5), Err(BREAKER.pause), "one at a time");
        assert_eq!(ends("a", 3, TargetSign::Unwell, 130), None, "it stays open");
        assert_eq!(begins("a", 229, 5), Err(Duration::from_millis(1)));
        assert_eq!(begins("a", 230, 5), Ok(()));
        assert_eq!(ends("a", 5, TargetSign::Well, 240), Some(Change::Closed));
        assert_eq!(begins("a", 241, 6), Ok(()));
        assert!(circuits.0.lock().is_empty(), "a closed circuit is forgotten");
    }

    #[test]
    fn probe_that_shows_nothing_is_followed_by_another_one() {
        let circuits = Circuits::default();
        for id in [1, 2] {
            circuits.end(&key("a"), BREAKER, id, TargetSign::Unwell, 0);
        }
        assert_eq!(circuits.begin(&key("a"), BREAKER, 100, 3, LEASE), Ok(()));
        assert_eq!(circuits.end(&key("a"), BREAKER, 3, TargetSign::None, 110), None);
        assert_eq!(circuits.begin(&key("a"), BREAKER, 110, 4, LEASE), Ok(()));
    }

    #[test]
    fn number_of_remembered_receivers_is_limited() {
        let circuits = Circuits::default();
        let fails = |receiver: usize| {
            circuits.end(&key(&receiver.to_string()), BREAKER, 1, TargetSign::Unwell, 0);
        };
        fails(0);
        fails(0);
        (1..RECEIVERS).for_each(fails);
        assert_eq!(circuits.0.lock().len(), RECEIVERS);
        fails(RECEIVERS);
        let rows = circuits.0.lock();
        assert!(rows.len() == 2 && rows.contains_key(&key("0")), "open circuits are kept");
    }

    #[test]
    fn definition_with_ever_new_receivers_keeps_those_of_others_not_out() {
        let circuits = Circuits::default();
        let fails_twice = |definition: i64, receiver: usize, now: i64| {
            let key = (definition, receiver.to_string());
            (0..2).filter_map(|_| circuits.end(&key, BREAKER, 1, TargetSign::Unwell, now)).last()
        };
        for receiver in 0..10 {
            assert_eq!(fails_twice(1, receiver, 0), Some(Change::Opened));
        }
        for receiver in 0..2 * RECEIVERS {
            assert_eq!(fails_twice(2, receiver, 1 + i64::try_from(receiver % 50).unwrap()), Some(Change::Opened));
            assert!(circuits.0.lock().len() <= RECEIVERS);
        }
        assert_eq!(fails_twice(3, 0, 60), Some(Change::Opened));
        let rows = circuits.0.lock();
        assert_eq!(rows.keys().filter(|(definition, _)| *definition == 1).count(), 10);
        drop(rows);
        // All pauses are over, and each circuit waits for a probe that perhaps never comes.
        let late = 2 + i64::try_from(BREAKER.pause.as_millis()).unwrap() * 10;
        for receiver in 0..RECEIVERS {
            fails_twice(4, receiver, late);
        }
        assert!(circuits.0.lock().keys().all(|(definition, _)| *definition == 4));
    }
}
