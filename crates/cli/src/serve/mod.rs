//! `serve`: sweepers of any number of databases, with all channels, acks over HTTP, probes and metrics, in one process.
//!
//! A file describes it ([`config`]). The process has a small runtime for HTTP and signals, and each database has one of its own.

mod channels;
pub(crate) mod config;
mod connections;
mod database;
mod databases;
mod descriptors;
mod http;
mod log;
#[cfg_attr(not(feature = "full"), path = "without_metrics.rs")]
mod metrics;
mod page;
#[cfg_attr(not(feature = "full"), path = "without_param_keys.rs")]
mod param_keys;
mod reading;
#[cfg_attr(not(all(unix, feature = "full")), path = "without_service_manager.rs")]
mod service_manager;
#[cfg(test)]
mod stuck_tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;

use self::config::{Config, Overrides};
use self::databases::Databases;
use self::metrics::Metrics;
use crate::exit::{Exit, Failure, Outcome};
use crate::{output, read, signals};

/// How often the histograms of metrics are emptied into their buckets.
const UPKEEP: Duration = Duration::from_secs(5);

/// How long databases may take to stop after the longest grace. Sweepers hand back within ten seconds.
const HAND_BACK: Duration = Duration::from_secs(11);

/// How long requests may take that are under way when the last database has stopped.
const LAST_REQUESTS: Duration = Duration::from_secs(2);

/// The file of `serve`, and what comes before it.
pub(crate) struct Source {
    /// `None`: there is no file.
    pub(crate) file: Option<PathBuf>,
    pub(crate) overrides: Overrides,
}

impl Source {
    /// Reads the file.
    ///
    /// # Errors
    /// Fails with all problems of the file.
    pub(crate) fn read(&self) -> Outcome<Config> {
        let Some(file) = &self.file else { return self.parse("", "without a file") };
        self.parse(&read::text(file)?, &file.display().to_string())
    }

    fn parse(&self, text: &str, place: &str) -> Outcome<Config> {
        Config::read(text, &self.overrides).map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(|problem| format!("\n  {problem}")).collect();
            Failure::invalid(format!("{place}: {} of these must be mended:{}", problems.len(), lines.concat()))
        })
    }
}

/// Runs until the platform asks the process to stop.
pub(crate) fn serve(source: &Source) -> Outcome {
    let config = source.read()?;
    let log = Arc::new(log::start(&config.log)?);
    // HTTP and signals need little. Databases have threads of their own.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("serve").enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::Failed, format!("cannot start the runtime: {error}")))?;
    let served = runtime.block_on(run(source, config, &log));
    runtime.shutdown_background();
    log.flush();
    served
}

async fn run(source: &Source, mut config: Config, log: &Arc<log::Log>) -> Outcome {
    let mut reloads = signals::Reloads::listen();
    let stop = signals::asked_to_stop();
    tokio::pin!(stop);
    let listener = TcpListener::bind(config.listen).await.map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot listen on {}: {error}", config.listen))
            .next("choose another address: --listen ADDRESS, or listen in [http]")
    })?;
    let most = descriptors::of_clients(descriptors::raised(), connections::MOST);
    tracing::info!("listens on {}", listener.local_addr().unwrap_or(config.listen));
    let metrics = Metrics::new()?;
    let databases = Arc::new(Databases::default());
    databases.apply(&config.databases, &metrics)?;

    let shown = http::Shown { databases: Arc::clone(&databases), metrics: metrics.clone(), page: Default::default() };
    let routes = http::routes(shown);
    let (end, ended) = oneshot::channel::<()>();
    let until_end = async {
        // An error means the same: the program ends.
        let _ = ended.await;
    };
    let http = tokio::spawn(connections::serve(listener, routes, most, until_end));
    service_manager::started(&databases);
    let (upkeep, of_log, of_databases) = (metrics.clone(), Arc::clone(log), Arc::clone(&databases));
    tokio::spawn(async move {
        loop {
            upkeep.of_log(&of_log);
            record_sending(&of_databases, &upkeep);
            of_databases.report_stuck();
            tokio::time::sleep(UPKEEP).await;
            upkeep.handle().run_upkeep();
        }
    });

    loop {
        tokio::select! {
            () = &mut stop => break,
            () = reloads.next() => reload(source, &mut config, &databases, &metrics, log),
        }
    }
    service_manager::stops();
    let grace = longest_grace(&config);
    tracing::info!("stops: attempts have {} s", grace.as_secs());
    let stopped = tokio::select! {
        stopped = stop_all(&databases, grace) => stopped,
        () = signals::asked_to_stop() => {
            return Err(Failure::new(Exit::Failed, "asked to stop twice: claimed notices are sent again after their leases"));
        }
    };
    drop(end);
    // Requests that are too slow are cut off.
    let _ = tokio::time::timeout(LAST_REQUESTS, http).await;
    stopped
}

/// Records which databases send.
fn record_sending(databases: &Databases, metrics: &Metrics) {
    for (name, problems) in databases.problems() {
        metrics.record_sending(&name, problems.not_sending.is_none());
    }
}

/// Stops all databases. It does not wait for one whose threads something blocks.
async fn stop_all(databases: &Databases, grace: Duration) -> Outcome {
    let late = databases.stop(grace.saturating_add(HAND_BACK)).await;
    if late.is_empty() {
        return Ok(Exit::Done);
    }
    let late = late.join(", ");
    tracing::error!("ends although these databases have not stopped: {late}");
    let problem =
        format!("these databases have not stopped: {late}; claimed notices are sent again after their leases");
    Err(Failure::new(Exit::Failed, problem))
}

/// Reads the file again. With a problem in it everything stays as it is.
fn reload(source: &Source, config: &mut Config, databases: &Databases, metrics: &Metrics, log: &log::Log) {
    let new = match source.read() {
        Ok(new) => new,
        Err(failure) => {
            tracing::error!("the file was not reloaded, and everything runs on as before: {}", failure.message);
            return;
        }
    };
    if (new.listen, new.log.json) != (config.listen, config.log.json) {
        tracing::warn!("the address and the format of the log change with the next start only");
    }
    if new.log.filter != config.log.filter {
        log.filter_by(&new.log.filter);
    }
    if let Err(failure) = databases.apply(&new.databases, metrics) {
        tracing::error!("the file was reloaded in part: {}", failure.message);
    }
    tracing::info!(databases = new.databases.len(), "the file is reloaded");
    *config = new;
}

fn longest_grace(config: &Config) -> Duration {
    config.databases.values().map(|database| database.sweeper.shutdown_grace).max().unwrap_or_default()
}

/// Checks the file and prints the result.
pub(crate) fn check(source: &Source, json: bool) -> Outcome {
    let config = source.read()?;
    let names: Vec<&String> = config.databases.keys().collect();
    output::Output { json }.show(&serde_json::json!({ "databases": names }), || {
        let names = names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
        format!("the file is valid; databases: {names}")
    })?;
    Ok(Exit::Done)
}
