//! The circuit breaker: what outcomes show about the target, and when they open and close the circuit.

use super::{Breaker, LimitRow, TargetSign};
use crate::alarm::Alarm;
use crate::class::ErrorClass;
use crate::notice::duration_millis;
use crate::transition::Event;

impl TargetSign {
    /// Returns the sign of `event`.
    pub fn of(event: &Event) -> Self {
        match event {
            Event::Succeeded | Event::AwaitAck(_) => Self::Well,
            Event::Failed(class) | Event::RetryIn(_, class) if is_of_target(*class) => Self::Unwell,
            _ => Self::None,
        }
    }
}

/// Returns true for failures caused by the target, or by the way to it, and not by the one notice. A deadlock only needs a
/// retry, and a receiver that did not ack may be healthy.
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

/// The part of an outcome that a circuit breaker evaluates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerInput {
    /// The definition.
    pub def_id: i64,
    /// Its breaker.
    pub breaker: Breaker,
    /// What the outcome shows about the target.
    pub sign: TargetSign,
    /// The alarm to raise if it opens the circuit.
    pub alarm: Option<Alarm>,
}

/// Returns the row after attempts of one definition have ended, in their order, and the alarm to raise if that opens the
/// circuit.
///
/// The breaker is that of the last outcome, because that was decided by the latest version of the definition. The alarm is that
/// of the outcome that opened the circuit for good, even if the batch contains another outcome of the same notice.
pub fn end<'a>(row: &LimitRow, outcomes: &[(i64, &'a BreakerInput)], now: i64) -> (LimitRow, Option<&'a Alarm>) {
    let Some(breaker) = outcomes.last().map(|(_, watched)| watched.breaker) else { return (row.clone(), None) };
    let (new, opener) = fold(row, breaker, outcomes.iter().map(|(id, watched)| (*id, watched.sign)), now);
    (new, opener.and_then(|nth| outcomes.get(nth)?.1.alarm.as_ref()))
}

/// Returns the row after an operator has closed the circuit; `None` if it is not open.
///
/// What is being sent, also the probe, is then counted as if the circuit had never been open.
pub fn close(row: &LimitRow) -> Option<LimitRow> {
    row.open_until?;
    Some(LimitRow { begun: row.begun.clone(), ..LimitRow::default() })
}

/// The name of that in the audit.
pub const CLOSE_CIRCUIT: &str = "close_circuit";

/// Returns the row after outcomes, in their order, and the index of the one that opened the circuit, if one did.
///
/// While the circuit is open only the probe's failure counts, because the other attempts began before it opened. Any success
/// closes it.
pub(super) fn fold(
    row: &LimitRow,
    breaker: Breaker,
    outcomes: impl Iterator<Item = (i64, TargetSign)>,
    now: i64,
) -> (LimitRow, Option<usize>) {
    let mut new = row.clone();
    let mut opened_by = None;
    let pause = now.saturating_add(duration_millis(breaker.pause));
    for (nth, (id, sign)) in outcomes.enumerate() {
        let is_probe = new.probe == Some(id);
        match (sign, new.open_until) {
            (TargetSign::Well, _) => (new.failures, new.open_until, new.probe) = (0, None, None),
            (TargetSign::Unwell, None) => {
                new.failures = new.failures.saturating_add(1);
                if new.failures >= i64::from(breaker.failures) {
                    (new.open_until, new.probe, opened_by) = (Some(pause), None, Some(nth));
                }
            }
            (TargetSign::Unwell, Some(_)) if is_probe => {
                new.failures = new.failures.saturating_add(1);
                (new.open_until, new.probe) = (Some(pause), None);
            }
            // The probe showed nothing: the next attempt may be the probe.
            (TargetSign::None, Some(_)) if is_probe => (new.open_until, new.probe) = (Some(now), None),
            (TargetSign::Unwell | TargetSign::None, _) => {}
        }
    }
    let opened = row.open_until.is_none() && new.open_until.is_some();
    (new, opened_by.filter(|_| opened))
}
