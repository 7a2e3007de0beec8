//! Claims of cases, and outcomes of claimed notices, as cases settle them.

use std::time::Duration;

use solid_notify_core::Status;
use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::store::{Claim, ClaimWhat, Settle};
use solid_notify_core::transition::{Next, Transition};

/// The lease of the cases' claims.
pub(crate) const LEASE: Duration = Duration::from_secs(60);

/// Returns an outcome of `claimed` with this next step and unchanged counters.
pub fn outcome(claimed: &ClaimedNotice, next: Next) -> Settle {
    Settle {
        id: claimed.id,
        def_id: claimed.def_id,
        ordering_key: claimed.ordering_key.clone(),
        fence: claimed.fence,
        from: Status::Sending,
        overdue: false,
        transition: Transition { next, failures: claimed.failures, crashes: claimed.crashes },
        errors: claimed.errors.clone(),
        last_class: None,
        description: claimed.description.clone(),
        response: None,
        error_group: None,
        alarm: None,
        for_breaker: None,
        pass_to: Vec::new(),
        decided_by: None,
    }
}

/// Returns the outcome of a delivery that is kept in history.
pub fn succeed(claimed: &ClaimedNotice) -> Settle {
    outcome(claimed, Next::Finish { status: Status::Succeeded, reason: None, keep: true })
}

pub(crate) fn fail(claimed: &ClaimedNotice, after: Duration) -> Settle {
    let mut settle = outcome(claimed, Next::Wait { status: Status::Failed, after });
    settle.transition.failures += 1;
    settle
}

/// Returns the outcome that a rescuer settles.
pub(crate) fn crash(expired: &ClaimedNotice) -> Settle {
    let mut settle = outcome(expired, Next::Wait { status: Status::Failed, after: Duration::ZERO });
    settle.transition.crashes += 1;
    settle.overdue = true;
    settle
}

/// Returns a claim of a queue slice.
pub(crate) fn slice_claim(def_id: i64, status: Status, limit: usize) -> Claim {
    Claim { def_id, what: ClaimWhat::Slice(status), limit, lease: LEASE, worker: "worker-1".to_owned(), quota: None }
}
