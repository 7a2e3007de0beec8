//! Tracks which definitions are being swept. Only one slow definition is swept at a time, so that
//! slow ones do not take all connections.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A sweep of one definition that takes longer marks it as slow: its own statements are slow, not the node.
const SLOW: Duration = Duration::from_secs(3);

/// The sweeps under way, by definition.
#[derive(Default)]
pub(super) struct Sweeping(Mutex<State>);

#[derive(Default)]
struct State {
    now: HashSet<i64>,
    slow: HashSet<i64>,
}

impl Sweeping {
    /// Begins to sweep a definition; None if it is being swept, or if it is slow and another slow one is.
    pub(super) fn begin(self: &Arc<Self>, def_id: i64) -> Option<Sweep> {
        let mut state = self.0.lock();
        let waits = state.slow.contains(&def_id) && state.slow.iter().any(|slow| state.now.contains(slow));
        (!waits && state.now.insert(def_id)).then(|| Sweep { all: Arc::clone(self), def_id, began: Instant::now() })
    }
}

/// The sweep of one definition; dropping it ends it.
pub(super) struct Sweep {
    all: Arc<Sweeping>,
    def_id: i64,
    began: Instant,
}

impl Sweep {
    /// Ends the sweep and records whether its definition is slow.
    pub(super) fn end(self) {
        let mut state = self.all.0.lock();
        if self.began.elapsed() >= SLOW {
            state.slow.insert(self.def_id);
        } else if !state.slow.is_empty() {
            state.slow.remove(&self.def_id);
        }
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        self.all.0.lock().now.remove(&self.def_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn definition_is_swept_once_and_one_slow_one_at_a_time() {
        let sweeping = Arc::new(Sweeping::default());
        let (one, two) = (sweeping.begin(1).unwrap(), sweeping.begin(2).unwrap());
        assert!(sweeping.begin(1).is_none());
        tokio::time::advance(SLOW).await;
        one.end();
        two.end();
        let one = sweeping.begin(1).unwrap();
        assert!(sweeping.begin(2).is_none() && sweeping.begin(3).is_some());
        one.end();
        let _two = sweeping.begin(2).unwrap();
        assert!(sweeping.begin(1).is_some(), "its last sweep was not slow");
    }
}
