//! Limits over all nodes, and the switch, in memory.

use chrono::{DateTime, Utc};
use solid_notify_core::limit::{CLOSE_CIRCUIT, QuotaStop, allowance, attempted, begin, close, end};
use solid_notify_core::notice::{ClaimedNotice, Status, millis_from_time};
use solid_notify_core::store::{Alarm, AuditEntry, Claim, Paused, SendLimits, Settle, Switch, breaker_inputs};

use super::State;

impl State {
    /// Returns how many notices a claim may take.
    pub(super) fn allowance(&self, claim: &Claim, now: DateTime<Utc>) -> Result<usize, QuotaStop> {
        let Some(quota) = &claim.quota else { return Ok(usize::MAX) };
        let row = self.limits.get(&claim.def_id).cloned().unwrap_or_default();
        allowance(&row, quota, millis_from_time(now), self.sending(claim.def_id), claim.lease)
    }

    /// Records the claimed notices. Returns the reason if no more may be claimed.
    pub(super) fn begun(&mut self, claim: &Claim, claimed: &[ClaimedNotice], now: DateTime<Utc>) -> Option<QuotaStop> {
        let quota = claim.quota.as_ref().filter(|_| !claimed.is_empty())?;
        let ids = attempted(claimed);
        let row = self.limits.entry(claim.def_id).or_default();
        *row = begin(row, quota, millis_from_time(now), &ids, claim.lease);
        self.allowance(claim, now).err()
    }

    /// Shows outcomes to the circuit breakers of their definitions. Returns the alerts for the circuits that this opens.
    pub(super) fn watch<'a>(&mut self, settled: &[&'a Settle], now: DateTime<Utc>) -> Vec<&'a Alarm> {
        let mut alarms = Vec::new();
        for (def_id, outcomes) in breaker_inputs(settled.iter().copied()) {
            let row = self.limits.entry(def_id).or_default();
            let (new, alarm) = end(row, &outcomes, millis_from_time(now));
            *row = new;
            alarms.extend(alarm);
        }
        alarms
    }

    pub(super) fn send_limits(&self) -> SendLimits {
        SendLimits { paused: self.paused.clone(), limits: self.limits.clone() }
    }

    pub(super) fn switch(&mut self, switch: &Switch, who: &str, now: DateTime<Utc>) -> bool {
        if switch.scope() == self.paused.as_ref().map(|paused| paused.scope) {
            return false;
        }
        let reason = switch.reason().map(str::to_owned);
        let mut entry = AuditEntry::new(now, who, switch.act());
        entry.detail.clone_from(&reason);
        self.audit.push(entry);
        let paused = |scope| Paused { scope, who: Some(who.to_owned()), since: Some(now), reason };
        self.paused = switch.scope().map(paused);
        true
    }

    pub(super) fn close_circuit(&mut self, def_id: i64, who: &str, now: DateTime<Utc>) -> bool {
        let Some(closed) = self.limits.get(&def_id).and_then(close) else { return false };
        self.limits.insert(def_id, closed);
        let mut entry = AuditEntry::new(now, who, CLOSE_CIRCUIT);
        entry.def_id = Some(def_id);
        self.audit.push(entry);
        true
    }

    fn sending(&self, def_id: i64) -> usize {
        let of_def = self.live.values().map(|live| &live.notice).filter(|notice| notice.def_id == def_id);
        of_def.filter(|notice| notice.status == Status::Sending).count()
    }
}
