//! All databases of `serve`, by their names.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use tokio::time::{Instant, timeout};

use super::config;
use super::database::{Database, Problems};
use super::metrics::Metrics;
use crate::exit::Outcome;

/// The databases that run.
#[derive(Default)]
pub(super) struct Databases {
    running: Mutex<BTreeMap<String, Database>>,
    /// Removed ones, which may still finish attempts.
    removed: Mutex<Vec<(String, Database)>>,
}

impl Databases {
    /// Starts what is new, stops what is gone, and restarts what has changed. Everything else goes on.
    pub(super) fn apply(&self, wanted: &BTreeMap<String, Arc<config::Database>>, metrics: &Metrics) -> Outcome<()> {
        let mut running = self.locked();
        for (name, database) in running.extract_if(.., |name, _| !wanted.contains_key(name)) {
            tracing::info!(database = name.as_str(), "is removed");
            database.stop();
            self.removed.lock().unwrap_or_else(PoisonError::into_inner).push((name, database));
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

    /// Stops all of them, at the same time. Returns the names of those that have not stopped within the limit, which is one for all: threads
    /// that something blocks never stop.
    pub(super) async fn stop(&self, limit: Duration) -> Vec<String> {
        let mut ends = Vec::new();
        for (name, database) in self.removed.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            ends.push((name.clone(), database.end()));
        }
        // They stay, so that their acks are taken.
        for (name, database) in self.locked().iter_mut() {
            database.stop();
            ends.push((name.clone(), database.end()));
        }
        let (began, mut late) = (Instant::now(), Vec::new());
        for (name, end) in ends {
            if timeout(limit.saturating_sub(began.elapsed()), end).await.is_err() {
                late.push(name);
            }
        }
        late
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

    /// Returns the problems of all databases.
    pub(super) fn problems(&self) -> BTreeMap<String, Problems> {
        self.locked().iter().map(|(name, database)| (name.clone(), database.problems())).collect()
    }

    /// Returns the problems of a database. `None`: there is no such one.
    pub(super) fn problems_of(&self, name: &str) -> Option<Problems> {
        self.locked().get(name).map(Database::problems)
    }

    /// Returns the routes of a database's acks, while it can store some. `None`: there is no such database.
    pub(super) fn acks(&self, name: &str) -> Option<Option<Router>> {
        self.locked().get(name).map(Database::acks)
    }

    /// Returns the name of the database, if there is only one.
    pub(super) fn only(&self) -> Option<String> {
        let running = self.locked();
        let mut names = running.keys();
        let first = names.next()?;
        names.next().is_none().then(|| first.clone())
    }

    #[cfg(test)]
    pub(super) fn insert(&self, name: &str, database: Database) {
        self.locked().insert(name.to_owned(), database);
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<String, Database>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
