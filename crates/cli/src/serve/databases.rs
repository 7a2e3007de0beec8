//! All databases of `serve`, by their names.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::config;
use super::database::{Database, State};
use super::metrics::Metrics;
use crate::exit::Outcome;

/// The databases that run.
#[derive(Default)]
pub(super) struct Databases {
    running: Mutex<BTreeMap<String, Database>>,
    /// Removed ones, which may still finish attempts.
    removed: Mutex<Vec<Database>>,
}

impl Databases {
    /// Starts what is new, stops what is gone, and restarts what has changed. Everything else goes on.
    pub(super) fn apply(&self, wanted: &BTreeMap<String, Arc<config::Database>>, metrics: &Metrics) -> Outcome<()> {
        let mut running = self.locked();
        for (name, database) in running.extract_if(.., |name, _| !wanted.contains_key(name)) {
            tracing::info!(database = name, "is removed");
            database.stop();
            self.removed.lock().unwrap_or_else(PoisonError::into_inner).push(database);
        }
        for (name, settings) in wanted {
            match running.get(name) {
                Some(database) if database.change(Arc::clone(settings)) => {
                    tracing::info!(database = name, "restarts with changed settings");
                }
                Some(_) => {}
                None => {
                    let database = Database::start(name, Arc::clone(settings), metrics.of(name))?;
                    running.insert(name.clone(), database);
                }
            }
        }
        Ok(())
    }

    /// Stops all of them, at the same time.
    pub(super) async fn stop(&self) {
        for database in self.locked().values() {
            database.stop();
        }
        let removed = std::mem::take(&mut *self.removed.lock().unwrap_or_else(PoisonError::into_inner));
        let running = std::mem::take(&mut *self.locked());
        for database in removed.into_iter().chain(running.into_values()) {
            database.stopped().await;
        }
    }

    /// Returns true if the threads of any database run, or if there is none.
    #[cfg(all(unix, feature = "full"))]
    pub(super) fn any_runs(&self) -> bool {
        let running = self.locked();
        running.is_empty() || running.values().any(|database| database.silent_for().is_none())
    }

    /// Logs each database whose threads have ceased to run, once.
    pub(super) fn report_stuck(&self) {
        self.locked().iter().for_each(|(name, database)| database.report_stuck(name));
    }

    pub(super) fn states(&self) -> BTreeMap<String, State> {
        self.locked().iter().map(|(name, database)| (name.clone(), database.state())).collect()
    }

    pub(super) fn state(&self, name: &str) -> Option<State> {
        self.locked().get(name).map(Database::state)
    }

    /// Returns the name of the database, if there is only one.
    pub(super) fn only(&self) -> Option<String> {
        let running = self.locked();
        let mut names = running.keys();
        let first = names.next()?;
        names.next().is_none().then(|| first.clone())
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<String, Database>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
