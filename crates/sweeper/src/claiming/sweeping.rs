//! Tracks which definitions are being swept. A slow one continues beside the sweep of the others. Only one slow definition
//! is swept at a time, so that slow ones do not take all connections.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use solid_notify_core::StoreError;
use solid_notify_core::store::DueSlice;
use tokio::time::Instant;

use super::sweep::Swept;
use crate::definitions::{Definition, Ready};
use crate::worker::Worker;

/// How long the other definitions wait for the sweep of one.
const PATIENCE: Duration = Duration::from_millis(500);
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
        let mut state = self.lock();
        let waits = state.slow.contains(&def_id) && state.slow.iter().any(|slow| state.now.contains(slow));
        (!waits && state.now.insert(def_id)).then(|| Sweep { all: Arc::clone(self), def_id, began: Instant::now() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut state = self.all.lock();
        if self.began.elapsed() >= SLOW {
            state.slow.insert(self.def_id);
        } else if !state.slow.is_empty() {
            state.slow.remove(&self.def_id);
        }
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        self.all.lock().now.remove(&self.def_id);
    }
}

impl Worker {
    /// Sweeps one definition. A sweep that takes long continues in a task of its own, and the other definitions have their
    /// turn.
    pub(super) async fn sweep_beside(
        self: &Arc<Self>,
        definition: &Arc<Definition>,
        ready: &Arc<Ready>,
        due: Vec<DueSlice>,
        turn: usize,
    ) -> Result<Swept, StoreError> {
        let later = Swept { again_in: self.settings.poll_interval, busy: true };
        let Some(begun) = self.admission.begin_sweep(definition.row.id) else { return Ok(later) };
        let (worker, definition, ready) = (Arc::clone(self), Arc::clone(definition), Arc::clone(ready));
        let mut sweep = Box::pin(async move {
            let swept = worker.sweep_one(&definition, &ready, &due.iter().collect::<Vec<_>>(), turn).await;
            begun.end();
            swept
        });
        if let Ok(swept) = tokio::time::timeout(PATIENCE, &mut sweep).await {
            return swept;
        }
        let worker = Arc::clone(self);
        // Tracked with the running handlers, so that a shutdown waits for its claims.
        self.tasks.spawn(async move {
            if let Err(error) = sweep.await {
                worker.health.note_some(&error);
            }
            worker.signals.sweep_soon();
        });
        Ok(later)
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
