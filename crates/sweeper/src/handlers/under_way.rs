//! The calls of handlers that are under way, so that the sweeper sees those that cannot be cancelled.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::handler::Facts;

/// A call of a handler that is under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) def_id: i64,
    /// Its notice, or one of its notices.
    pub(crate) id: i64,
    pub(crate) began: Instant,
    /// Its time limit.
    pub(crate) timeout: Duration,
}

/// The calls that run in tasks of their own. The attempts that wait for such a call end by their time-outs even if it blocks its thread.
#[derive(Default)]
pub(super) struct UnderWay(Mutex<State>);

#[derive(Default)]
struct State {
    last: u64,
    /// By the number of the call: one entry for each definition in it.
    calls: HashMap<u64, Vec<Call>>,
}

/// Ends a call when dropped.
pub(super) struct Guard<'a> {
    under_way: &'a UnderWay,
    number: u64,
}

impl UnderWay {
    /// Records a call for these notices.
    pub(super) fn begin(&self, notices: &[Arc<Facts>]) -> Guard<'_> {
        let began = Instant::now();
        let mut calls = BTreeMap::<i64, Call>::new();
        for facts in notices {
            let (def_id, id, timeout) = (facts.claimed.def_id, facts.claimed.id, facts.timeout);
            let call = calls.entry(def_id).or_insert(Call { def_id, id, began, timeout });
            call.timeout = call.timeout.max(timeout);
        }
        let mut state = self.0.lock();
        state.last += 1;
        let number = state.last;
        state.calls.insert(number, calls.into_values().collect());
        drop(state);
        Guard { under_way: self, number }
    }

    /// Returns the calls, of each one for each of its definitions.
    pub(super) fn calls(&self) -> Vec<Call> {
        self.0.lock().calls.values().flatten().copied().collect()
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.under_way.0.lock().calls.remove(&self.number);
    }
}
