//! [`SweeperMonitor`]: the state of a sweeper for the liveness and readiness routes of its process. It reads memory only, so a probe
//! costs nothing and never waits for the database.

use std::sync::Arc;
use std::time::Duration;

use crate::sweeper::Sweeper;
use crate::worker::Worker;

/// Returns the health of a sweeper at any time, also after its end. A clone is cheap. It does not keep the sweeper running.
#[derive(Clone)]
pub struct SweeperMonitor {
    worker: Arc<Worker>,
}

/// The state of a sweeper at one moment: see [`Sweeper::health`]. Times are those of the process's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweeperHealth {
    /// True if the database answers, as far as the last calls show. True at the start, before the first call.
    pub database_answers: bool,
    /// For how long [`Self::database_answers`] has had its value.
    pub database_for: Duration,
    /// How many attempts run: their handlers have not returned yet.
    pub running: usize,
    /// How long ago the last sweep succeeded; `None` before the first one. It is at most a few poll intervals while the database
    /// answers: a much older one means that the sweep hangs.
    pub last_sweep: Option<Duration>,
    /// How long ago the last heartbeat was stored; `None` before the first one. Usually at most a minute.
    pub last_heartbeat: Option<Duration>,
    /// True from the beginning of a shutdown, and after the end of the sweeper.
    pub shutting_down: bool,
}

impl SweeperHealth {
    /// Returns true if the sweeper has swept, is not shutting down, and its database answers.
    pub fn is_ready(&self) -> bool {
        self.database_answers && self.last_sweep.is_some() && !self.shutting_down
    }
}

impl std::fmt::Debug for SweeperMonitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SweeperMonitor").field("health", &self.health()).finish_non_exhaustive()
    }
}

impl SweeperMonitor {
    /// Returns the state at this moment. It calls no database.
    pub fn health(&self) -> SweeperHealth {
        let seen = self.worker.health.seen();
        SweeperHealth {
            database_answers: !self.worker.health.is_down(),
            database_for: seen.changed.elapsed(),
            running: self.worker.in_flight.running(),
            last_sweep: seen.last_sweep.map(|at| at.elapsed()),
            last_heartbeat: seen.last_heartbeat.map(|at| at.elapsed()),
            shutting_down: self.worker.signals.is_stopped(),
        }
    }
}

impl Sweeper {
    /// Returns the state at this moment, for a liveness or readiness route. It calls no database.
    pub fn health(&self) -> SweeperHealth {
        self.monitor().health()
    }

    /// Returns what shows the health of this sweeper elsewhere, for instance in a route.
    pub fn monitor(&self) -> SweeperMonitor {
        SweeperMonitor { worker: Arc::clone(&self.worker) }
    }
}
