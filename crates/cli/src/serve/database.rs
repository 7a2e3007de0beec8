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
use solid_notify::sweeper::SweeperMonitor;
use solid_notify::{ConnectedOutbox, Sweeper};
use tokio::sync::{oneshot, watch};

use super::metrics::DatabaseMetrics;
use super::{config, param_keys};
use crate::contexts::shown;
use crate::exit::{Exit, Failure, Outcome, TABLES_OR_RIGHTS};
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
    /// It finishes its attempts.
    Stopping,
}

impl State {
    /// Returns why acks cannot be stored, and why it does not send. `None`: all is well.
    pub(super) fn problems(&self) -> (Option<String>, Option<String>) {
        let neither = |problem: &str| (Some(problem.to_owned()), Some(problem.to_owned()));
        match self {
            Self::Starting => neither("it starts"),
            Self::Failing(problem) => neither(problem),
            Self::Running { monitor, .. } => {
                let health = monitor.health();
                (health.not_ready, health.not_sending)
            }
            Self::Stopping => neither("it stops"),
        }
    }
}

impl Database {
    /// Starts the threads of a database.
    pub(super) fn start(name: &str, wanted: Arc<config::Database>, metrics: DatabaseMetrics) -> Outcome<Self> {
        // A thread may record metrics until it ends, and no one waits for the end of threads. Each database leaks some bytes.
        let metrics: &'static DatabaseMetrics = Box::leak(Box::new(metrics));
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(cores.min(THREADS))
            .thread_name(name)
            .on_thread_start(|| metrics.record_this_thread())
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
            runtime.block_on(run(&owner, given, &own));
            // Handlers that block their thread are left behind.
            runtime.shutdown_background();
            let _ = ends.send(());
        });
        main.map_err(failed)?;
        Ok(Self { state, pulse, wanted, ended })
    }

    pub(super) fn state(&self) -> State {
        locked(&self.state).clone()
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
            tracing::error!(
                database = name,
                "its threads have not run for {} s: something blocks them; other databases go on",
                silent.as_secs()
            );
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

    /// Ends when it has stopped.
    pub(super) async fn stopped(self) {
        // An error means that its thread has ended, too.
        let _ = self.ended.await;
    }
}

/// Runs a database until it is to stop.
async fn run(name: &str, mut wanted: watch::Receiver<Option<Arc<config::Database>>>, state: &Mutex<State>) {
    loop {
        let Some(database) = wanted.borrow_and_update().clone() else { return };
        *locked(state) = State::Starting;
        tokio::select! {
            (sweeper, replies, acks) = started(name, &database, state) => {
                *locked(state) = State::Running { monitor: sweeper.monitor(), acks };
                tracing::info!(database = name, node = sweeper.node_id(), "sends notices");
                // An error means that the owner is gone: then it stops, too.
                let _ = wanted.changed().await;
                *locked(state) = State::Stopping;
                replies.stop();
                let tally = sweeper.shutdown().await;
                tracing::info!(database = name, succeeded = tally.succeeded, failed = tally.failed, "has stopped");
            }
            _ = wanted.changed() => {}
        }
    }
}

/// Starts a database, after as many failures as it takes.
async fn started(name: &str, database: &config::Database, state: &Mutex<State>) -> (Sweeper, Replies, Router) {
    let pauses = ExponentialBuilder::default().with_min_delay(FIRST_PAUSE).with_max_delay(LONGEST_PAUSE);
    let mut pauses = pauses.with_jitter().without_max_times().build();
    loop {
        let problem = match tokio::time::timeout(PATIENCE, start(database)).await {
            Ok(Ok(started)) => return started,
            Ok(Err(problem)) => problem,
            Err(_) => format!("it did not answer within {} s", PATIENCE.as_secs()),
        };
        let place = shown(database.url.value());
        tracing::warn!(database = name, "cannot start with {place}, and tries again: {problem}");
        *locked(state) = State::Failing(problem);
        tokio::time::sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await;
    }
}

/// Connects and starts the sweeper.
async fn start(database: &config::Database) -> Result<(Sweeper, Replies, Router), String> {
    fn text(error: impl Display) -> String {
        error.to_string()
    }
    let outbox = ConnectedOutbox::connect(database.url.value()).await.map_err(text)?;
    if database.migrate {
        outbox.migrate().await.map_err(text)?;
    }
    if let Some((first, others)) = database.token_keys.split_first() {
        let keys = TokenKeys::new(first.value().as_bytes()).map_err(text)?;
        let keys = others.iter().try_fold(keys, |keys, key| keys.accept(key.value().as_bytes()));
        outbox.use_token_keys(keys.map_err(text)?);
    }
    param_keys::use_keys(&outbox, &database.param_keys)?;
    let (mut sweeper, replies) = database.sending.sweeper(&outbox).map_err(text)?;
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
    let started = sweeper
        .start()
        .await
        .map_err(|error| format!("{error}; {TABLES_OR_RIGHTS}; migrate = true migrates at each start"))?;
    let mut acks = AckRouter::new(&outbox);
    if let Some(header) = peer_header.clone() {
        acks = acks.peer_by(move |parts| parts.headers.get(&header)?.to_str().ok()?.trim().parse().ok());
    }
    Ok((started, replies, acks.into_router()))
}

fn locked<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
