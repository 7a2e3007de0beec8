//! [`Facts`]: what an attempt and its handler share about a notice.
//!
//! [`super::handler::Notice`] is how a handler sees it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use solid_notify_core::definition::FOREVER;
use solid_notify_core::notice::{ClaimedNotice, Response, later};
use solid_notify_core::store::Authority;
use solid_notify_core::{AnyOutbox, NotifyDef, Policy};
use tokio::time::Instant;

use crate::circuits::AttemptCircuit;

/// The part of a [`Notice`](super::handler::Notice) that does not depend on the parameter's type.
pub(crate) struct Facts {
    pub(crate) claimed: ClaimedNotice,
    /// The row of its definition when the attempt began.
    pub(crate) row: Arc<NotifyDef>,
    pub(super) outbox: AnyOutbox,
    /// Whether the parameter is stored encrypted, or should be.
    pub(crate) encrypted: bool,
    /// When the lease of the attempt ends by the store's clock, if nothing extends it.
    pub(crate) lease_end: DateTime<Utc>,
    pub(super) timeout: Duration,
    /// When the attempt began.
    began: Instant,
    /// What lets it act, if its definition is built in.
    pub(crate) authority: Option<Authority>,
    /// The parameter that the handler gets, where it differs from the stored one.
    completed: OnceLock<String>,
    pub(super) description: Mutex<Option<String>>,
    /// Within which time the definition requires an ack, zero for no limit; `None`: it requires none.
    pub(super) ack_within: Option<Duration>,
    /// Within which time the handler requires an ack.
    pub(super) require_ack: Mutex<Option<Duration>>,
    pub(super) response: Mutex<Option<Response>>,
    pub(super) circuit: AttemptCircuit,
}

impl Facts {
    /// `policy`, `circuit`: those of `row`. `encrypted`: the parameter was stored encrypted.
    pub(crate) fn new(
        claimed: ClaimedNotice,
        row: Arc<NotifyDef>,
        (policy, circuit): (&Policy, AttemptCircuit),
        outbox: AnyOutbox,
        encrypted: bool,
        authority: Option<Authority>,
    ) -> Arc<Self> {
        let encrypted = encrypted || row.encrypt_param;
        let within = if policy.max_confirm_delay == FOREVER { Duration::ZERO } else { policy.max_confirm_delay };
        Arc::new(Self {
            description: Mutex::new(claimed.description.clone()),
            lease_end: later(claimed.last_call_time, policy.lease()).unwrap_or(DateTime::<Utc>::MAX_UTC),
            claimed,
            row,
            outbox,
            encrypted,
            timeout: policy.timeout,
            began: Instant::now(),
            authority,
            completed: OnceLock::new(),
            ack_within: policy.need_confirm.then_some(within),
            require_ack: Mutex::default(),
            response: Mutex::default(),
            circuit,
        })
    }

    /// Returns when the time-out ends the attempt.
    pub(super) fn ends(&self) -> Instant {
        self.began.checked_add(self.timeout).unwrap_or(self.began)
    }

    /// Returns the parameter as JSON.
    pub(crate) fn param(&self) -> &str {
        self.completed.get().unwrap_or(&self.claimed.param)
    }

    /// Sets the parameter that the handler gets instead of the stored one.
    pub(crate) fn complete(&self, param: String) {
        // A second call changes nothing; there is none.
        let _ = self.completed.set(param);
    }

    /// Returns the notice for the settle: without its parameter, and with the description that the handler set.
    pub(crate) fn without_param(&self) -> ClaimedNotice {
        let claimed = &self.claimed;
        ClaimedNotice {
            param: String::new(),
            description: self.description(),
            errors: claimed.errors.clone(),
            worker: claimed.worker.clone(),
            trace_context: claimed.trace_context.clone(),
            ordering_key: claimed.ordering_key.clone(),
            tag: claimed.tag.clone(),
            ..*claimed
        }
    }

    /// Returns the time within which the handler requires an ack; `None`: the definition decides.
    pub(crate) fn required_ack(&self) -> Option<Duration> {
        *self.require_ack.lock()
    }

    /// Returns what the receiver answered, as far as the handler reported it.
    pub(crate) fn response(&self) -> Option<Response> {
        self.response.lock().clone()
    }

    /// Reports what an error shows of the response, where the handler reported nothing.
    pub(crate) fn respond_if_unset(&self, response: impl FnOnce() -> Option<Response>) {
        let mut reported = self.response.lock();
        *reported = reported.take().or_else(response);
    }

    /// Returns the description that the handler set, or the stored one.
    pub(crate) fn description(&self) -> Option<String> {
        self.description.lock().clone()
    }
}
