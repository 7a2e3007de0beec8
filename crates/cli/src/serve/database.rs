//! One database of `serve`: a runtime of its own, in which its sweeper starts, runs, and stops. What happens to one database, a blocked
//! handler included, reaches no other one.

use std::fmt::Display;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use backon::{BackoffBuilder, ExponentialBuilder};
use solid_notify::ack::TokenKeys;
use solid_notify::ack_http::AckRouter;
use solid_notify::error::FaultKind;
use solid_notify::sweeper::SweeperMonitor;
use solid_notify::{ConnectedOutbox, Error, Sweeper};
use tokio::sync::{oneshot, watch};

use super::metrics::DatabaseMetrics;
use super::{config, param_keys};
use crate::contexts::shown;
use crate::exit::{Exit, Failure, Outcome, TABLES_OR_RIGHTS};
use crate::log_queue::thread_logs_for;
use crate::sending::Replies;

/// How long a connection may take. Then it is tried again.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pauses between two attempts to start.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Threads that have given no sign of life for so long are stuck: two beats.
const SILENT: Duration = Duration::from_secs(10);

/// The most threads of one database. Attempts wait for receivers, so a few threads carry thousands of them.
const THREADS: usize = 4;

/// A database, from its first start until it is removed.
pub(super) struct Database {
    state: Arc<Mutex<State>>,
    pulse: Arc<Pulse>,
    /// `None` stops it. Another value restarts it.
    wanted: watch::Sender<Option<Arc<config::Database>>>,
    ended: oneshot::Receiver<()>,
}

/// The sign of life of a database's threads.
struct Pulse {
    at: Mutex<Instant>,
    /// That they gave none was reported.
    reported: AtomicBool,
}

impl Pulse {
    async fn beat(&self) {
        loop {
            *locked(&self.at) = Instant::now();
            if self.reported.swap(false, Ordering::Relaxed) {
                tracing::info!("the threads of this database run again");
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

/// What a database does now.
#[derive(Debug, Clone)]
pub(super) enum State {
    /// It is not tried yet.
    Starting,
    /// The last attempt to start failed.
    Failing(String),
    /// It sends.
    Running { monitor: SweeperMonitor, acks: Router },
    /// It finishes its attempts, and takes acks until they have ended.
    Stopping(Option<Router>),
}

/// Why acks cannot be stored in a database, and why nothing is sent from it. `None`: all is well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problems {
    pub(super) not_ready: Option<String>,
    pub(super) not_sending: Option<String>,
}

impl Problems {
    fn both(problem: &str) -> Self {
        Self { not_ready: Some(problem.to_owned()), not_sending: Some(problem.to_owned()) }
    }
}

impl State {
    fn problems(&self) -> Problems {
        match self {
            Self::Starting => Problems::both("it starts"),
            Self::Failing(problem) => Problems::both(problem),
            Self::Running { monitor, .. } => {
                let health = monitor.health();
                Problems { not_ready: health.not_ready, not_sending: health.not_sending }
            }
            Self::Stopping(_) => Problems::both("it stops"),
        }
    }
}

impl Database {
    /// Starts the threads of a database.
    pub(super) fn start(name: &str, wanted: Arc<config::Database>, metrics: DatabaseMetrics) -> Outcome<Self> {
        // A thread may record metrics until it ends, and no one waits for the end of threads. Each database leaks some bytes.
        let metrics: &'static DatabaseMetrics = Box::leak(Box::new(metrics));
        let log_owner: Arc<str> = name.into();
        let of_threads = Arc::clone(&log_owner);
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(cores.min(THREADS))
            .thread_name(name)
            .on_thread_start(move || {
                metrics.record_this_thread();
                thread_logs_for(&of_threads);
            })
            .enable_all()
            .build();
        let failed =
            |error| Failure::new(Exit::Failed, format!("cannot start threads for the database {name}: {error}"));
        let runtime = runtime.map_err(failed)?;
        let (wanted, given) = watch::channel(Some(wanted));
        let (ends, ended) = oneshot::channel();
        let state = Arc::new(Mutex::new(State::Starting));
        let (own, owner) = (Arc::clone(&state), name.to_owned());
        let pulse = Arc::new(Pulse { at: Mutex::new(Instant::now()), reported: AtomicBool::new(false) });
        let beats = Arc::clone(&pulse);
        runtime.spawn(async move { beats.beat().await });
        let main = thread::Builder::new().name(name.to_owned()).spawn(move || {
            metrics.record_this_thread();
            thread_logs_for(&log_owner);
            runtime.block_on(run(&owner, given, &own));
            // Handlers that block their thread are left behind.
            runtime.shutdown_background();
            let _ = ends.send(());
        });
        main.map_err(failed)?;
        Ok(Self { state, pulse, wanted, ended })
    }

    /// Returns its problems. What its threads wrote before they ceased to run says nothing of now.
    pub(super) fn problems(&self) -> Problems {
        match self.silent_for() {
            Some(silent) => Problems::both(&stuck(silent)),
            None => locked(&self.state).problems(),
        }
    }

    /// Returns the routes of its acks, while it can store some.
    pub(super) fn acks(&self) -> Option<Router> {
        match &*locked(&self.state) {
            State::Running { acks, .. } | State::Stopping(Some(acks)) if self.silent_for().is_none() => {
                Some(acks.clone())
            }
            _ => None,
        }
    }

    /// Returns for how long its threads have given no sign of life, if that is too long.
    pub(super) fn silent_for(&self) -> Option<Duration> {
        Some(locked(&self.pulse.at).elapsed()).filter(|silent| *silent > SILENT)
    }

    /// Logs, once, that its threads have ceased to run.
    pub(super) fn report_stuck(&self, name: &str) {
        if let Some(silent) = self.silent_for()
            && !self.pulse.reported.swap(true, Ordering::Relaxed)
        {
            tracing::error!(database = name, "{}; other databases go on", stuck(silent));
        }
    }

    /// Restarts it, if its settings have changed. Returns whether they have.
    pub(super) fn change(&self, wanted: Arc<config::Database>) -> bool {
        self.wanted.send_if_modified(|now| {
            let changed = now.as_ref() != Some(&wanted);
            *now = Some(wanted);
            changed
        })
    }

    /// Asks it to stop.
    pub(super) fn stop(&self) {
        self.wanted.send_replace(None);
    }

    /// Returns what ends when it has stopped: with an error, too, because its thread has ended then. Only the first call does.
    pub(super) fn end(&mut self) -> oneshot::Receiver<()> {
        std::mem::replace(&mut self.ended, oneshot::channel().1)
    }
}

/// Runs a database until it is to stop.
async fn run(name: &str, mut wanted: watch::Receiver<Option<Arc<config::Database>>>, state: &Mutex<State>) {
    loop {
        let Some(database) = wanted.borrow_and_update().clone() else { return };
        *locked(state) = State::Starting;
        tokio::select! {
            (sweeper, replies, acks) = started(name, &database, state) => {
                *locked(state) = State::Running { monitor: sweeper.monitor(), acks: acks.clone() };
                tracing::info!(database = name, node = sweeper.node_id(), "sends notices");
                // An error means that the owner is gone: then it stops, too.
                let _ = wanted.changed().await;
                *locked(state) = State::Stopping(Some(acks));
                replies.stop();
                let tally = sweeper.shutdown().await;
                *locked(state) = State::Stopping(None);
                tracing::info!(database = name, succeeded = tally.succeeded, failed = tally.failed, "has stopped");
            }
            _ = wanted.changed() => {}
        }
    }
}

fn stuck(silent: Duration) -> String {
    format!("its threads have not run for {} s: something blocks them", silent.as_secs())
}

/// Starts a database, after as many failures as it takes. A problem is logged once, as long as it is the same.
async fn started(name: &str, database: &config::Database, state: &Mutex<State>) -> (Sweeper, Replies, Router) {
    let pauses = ExponentialBuilder::default().with_min_delay(FIRST_PAUSE).with_max_delay(LONGEST_PAUSE);
    let mut pauses = pauses.with_jitter().without_max_times().build();
    let mut known = String::new();
    loop {
        let problem = match tokio::time::timeout(PATIENCE, start(database)).await {
            Ok(Ok(started)) => return started,
            Ok(Err(problem)) => problem,
            Err(_) => Refused { text: format!("it did not answer within {} s", PATIENCE.as_secs()), is_outage: true },
        };
        let place = shown(database.url.value());
        let line = format!("cannot start with {place}, and tries again: {}", problem.text);
        match problem.is_outage {
            _ if known == problem.text => tracing::debug!(database = name, "{line}"),
            true => tracing::warn!(database = name, "{line}"),
            false => tracing::error!(database = name, "{line}"),
        }
        known.clone_from(&problem.text);
        *locked(state) = State::Failing(problem.text);
        tokio::time::sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await;
    }
}

/// Why a database does not start.
struct Refused {
    text: String,
    /// It passes by itself.
    is_outage: bool,
}

impl Refused {
    fn until_mended(error: impl Display) -> Self {
        Self { text: error.to_string(), is_outage: false }
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let kind = if let Error::Store(error) = &error { Some(error.kind) } else { None };
        let is_outage =
            matches!(kind, Some(FaultKind::Outage | FaultKind::Busy | FaultKind::Slow | FaultKind::Conflict));
        Self { text: error.to_string(), is_outage }
    }
}

/// Connects and starts the sweeper.
async fn start(database: &config::Database) -> Result<(Sweeper, Replies, Router), Refused> {
    let outbox = ConnectedOutbox::connect(database.url.value()).await?;
    if database.migrate {
        outbox.migrate().await?;
    }
    if let Some((first, others)) = database.token_keys.split_first() {
        let keys = TokenKeys::new(first.value().as_bytes())?;
        let keys = others.iter().try_fold(keys, |keys, key| keys.accept(key.value().as_bytes()));
        outbox.use_token_keys(keys?);
    }
    param_keys::use_keys(&outbox, &database.param_keys).map_err(Refused::until_mended)?;
    let (mut sweeper, replies) = database.sending.sweeper(&outbox).map_err(Refused::until_mended)?;
    let config::Sweeper { node, max_running, poll_interval, shutdown_grace, base_url, peer_header } = &database.sweeper;
    sweeper = sweeper.shutdown_grace(*shutdown_grace);
    if let Some(node) = node {
        sweeper = sweeper.node_name(node);
    }
    if let Some(most) = max_running {
        sweeper = sweeper.max_running(*most);
    }
    if let Some(interval) = poll_interval {
        sweeper = sweeper.poll_interval(*interval);
    }
    if let Some(url) = base_url {
        sweeper = sweeper.base_url(url);
    }
    let started = sweeper.start().await.map_err(|error| {
        let next = format!("; {TABLES_OR_RIGHTS}; migrate = true migrates at each start");
        Refused::until_mended(format!("{error}{}", if error.is_explained() { "" } else { &next }))
    })?;
    let mut acks = AckRouter::new(&outbox);
    if let Some(header) = peer_header.clone() {
        acks = acks.peer_by(move |parts| parts.headers.get(&header)?.to_str().ok()?.trim().parse().ok());
    }
    Ok((started, replies, acks.into_router()))
}

fn locked<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Databases whose threads a test plays.
#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// The threads of a database.
    pub(in super::super) struct Threads {
        pulse: Arc<Pulse>,
        ends: oneshot::Sender<()>,
    }

    impl Threads {
        /// They have given no sign of life for too long.
        pub(in super::super) fn block(&self) {
            *locked(&self.pulse.at) = Instant::now().checked_sub(SILENT + Duration::from_secs(1)).unwrap();
        }

        pub(in super::super) fn end(self) {
            self.ends.send(()).unwrap();
        }
    }

    /// A database in this state.
    pub(in super::super) fn by_hand(state: State) -> (Database, Threads) {
        let (ends, ended) = oneshot::channel();
        // They live until they are blocked, however slow the test is.
        let later = Instant::now() + Duration::from_secs(3600);
        let pulse = Arc::new(Pulse { at: Mutex::new(later), reported: AtomicBool::new(false) });
        let threads = Threads { pulse: Arc::clone(&pulse), ends };
        (Database { state: Arc::new(Mutex::new(state)), pulse, wanted: watch::Sender::new(None), ended }, threads)
    }

    /// Starts a sweeper in the threads of the test. It runs until the second value is dropped.
    pub(in super::super) async fn running(database: &config::Database) -> (State, impl Sized) {
        let (sweeper, replies, acks) = start(database).await.map_err(|refused| refused.text).unwrap();
        (State::Running { monitor: sweeper.monitor(), acks }, (sweeper, replies))
    }
}
