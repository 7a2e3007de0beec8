//! [`SweeperMonitor`]: the state of a sweeper for the liveness and readiness routes of its process. It reads memory only, so a probe
//! costs nothing and never waits for the database.

use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::store::RefusedConfig;

use crate::sweeper::Sweeper;
use crate::worker::Worker;

/// Returns the health of a sweeper at any time, also after its end. A clone is cheap. It does not keep the sweeper running.
#[derive(Clone)]
pub struct SweeperMonitor {
    worker: Arc<Worker>,
}

/// The state of a sweeper at one moment: see [`Sweeper::health`]. Times are those of the process's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweeperHealth {
    /// True if the database answers, as far as the last calls show. True at the start, before the first call.
    pub database_answers: bool,
    /// For how long [`Self::database_answers`] has had its value.
    pub database_for: Duration,
    /// How many attempts run: their handlers have not returned yet.
    pub running: usize,
    /// How long ago the last sweep succeeded; `None` before the first one. It is at most a few poll intervals while the database
    /// answers.
    pub last_sweep: Option<Duration>,
    /// How long ago the last sign of life of this node was stored; `None` before the first one. Usually at most 5 s.
    pub last_heartbeat: Option<Duration>,
    /// True from the beginning of a shutdown, and after the end of the sweeper.
    pub shutting_down: bool,
    /// Why acks cannot be stored: the database does not answer, or it refuses; the sweeper starts or stops. `None`: they can.
    pub not_ready: Option<String>,
    /// Why this sweeper sends nothing, or not all: as [`Self::not_ready`], and also a refused call, a loop that hangs, outcomes that
    /// are not stored. Receivers that are slow or fail are no reason. `None`: it sends.
    pub not_sending: Option<String>,
}

impl SweeperHealth {
    /// Returns true if this process can store acks: for a readiness route. It stays true where sending fails.
    pub fn is_ready(&self) -> bool {
        self.not_ready.is_none()
    }

    /// Returns true if it sends.
    pub fn is_sending(&self) -> bool {
        self.not_sending.is_none()
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
        let (seen, shutting_down) = (self.worker.health.seen(), self.worker.signals.is_stopped());
        let stops = || shutting_down.then(|| "it stops".to_owned());
        SweeperHealth {
            not_ready: stops().or_else(|| self.worker.health.no_acks()),
            not_sending: stops()
                .or_else(|| self.worker.not_sending())
                .or_else(|| seen.last_sweep.is_none().then(|| "it starts".to_owned())),
            database_answers: !self.worker.health.is_down(),
            database_for: seen.changed.elapsed(),
            running: self.worker.in_flight.running(),
            last_sweep: seen.last_sweep.map(|at| at.elapsed()),
            last_heartbeat: seen.last_heartbeat.map(|at| at.elapsed()),
            shutting_down,
        }
    }

    /// Returns the definitions of which this sweeper sends nothing, or lets single notices wait, because it refuses `handler_config`, cannot
    /// decrypt the notices or judge the filter for them, or may not send to the host that their row names. It calls no database. After the end of the
    /// sweeper it names those of its last two minutes, which the store no longer does: a node that has ended is not in `definitions()`.
    pub fn refused(&self) -> Vec<RefusedConfig> {
        self.worker.refused()
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
