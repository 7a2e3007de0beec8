//! [`Waiting`]: the notices that wait because this node cannot decrypt them, or their target's filter cannot be judged.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use solid_notify_core::store::RefusedConfig;

/// How long such a notice waits. Another node may have the key, and an operator may correct the filter.
pub(super) const WAIT: Duration = Duration::from_secs(60);

/// The definitions with such notices: when this node last tried, on the time scale of [`crate::worker::Worker::moment`], and why they wait.
#[derive(Default)]
pub(crate) struct Waiting(Mutex<BTreeMap<i64, (Duration, String)>>);

impl Waiting {
    /// Records a notice. Returns true for the first one of its definition for a while.
    pub(super) fn note(&self, def_id: i64, now: Duration, problem: String) -> bool {
        let mut all = self.0.lock();
        let is_new = all.get(&def_id).is_none_or(|(at, _)| is_over(*at, now));
        all.insert(def_id, (now, problem));
        is_new
    }

    /// Returns the definitions whose notices wait now, and why.
    pub(crate) fn lasting(&self, now: Duration) -> Vec<RefusedConfig> {
        let mut all = self.0.lock();
        all.retain(|_, (at, _)| !is_over(*at, now));
        all.iter().map(|(def_id, (_, problem))| RefusedConfig::new(*def_id, problem)).collect()
    }
}

/// A notice that still has to wait is tried again within that time.
fn is_over(at: Duration, now: Duration) -> bool {
    now.saturating_sub(at) > 2 * WAIT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_definition_is_reported_once_until_it_is_over() {
        let waiting = Waiting::default();
        let note = |seconds| waiting.note(7, Duration::from_secs(seconds), "no key".to_owned());
        let lasting = |seconds| waiting.lasting(Duration::from_secs(seconds)).len();
        assert!(note(0));
        assert!(!note(60), "each attempt finds it again");
        assert_eq!((lasting(180), lasting(181)), (1, 0));
        assert!(note(200));
    }
}
