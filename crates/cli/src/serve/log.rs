//! The log of `serve`, on the error stream. A stream that takes nothing costs lines and nothing else.

use std::sync::Arc;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use super::config;
use crate::exit::{Exit, Failure, Outcome};
use crate::log_filter::without_texts_of_servers;
use crate::log_queue::LogQueue;

/// The log that was started.
pub(super) struct Log {
    filter: Handle<Targets, Registry>,
    queue: LogQueue,
}

/// Starts the log.
pub(super) fn start(log: &config::Log) -> Outcome<Log> {
    let queue = LogQueue::start(std::io::stderr()).map_err(|error| Failure::cannot("start the log", error))?;
    let (filter, handle) = reload::Layer::new(without_texts_of_servers(log.filter.clone()));
    // Threads have the name of their database. An internal error would be printed on the same stream, and a failure of that would panic.
    let lines = fmt::layer().with_writer(queue.clone()).with_thread_names(true).log_internal_errors(false);
    let lines = if log.json { lines.json().boxed() } else { lines.with_ansi(false).boxed() };
    let started = tracing_subscriber::registry().with(filter).with(lines).try_init();
    started.map_err(|error| Failure::new(Exit::Failed, format!("cannot start the log: {error}")))?;
    // The usual report of a panic waits for the stream.
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    Ok(Log { filter: handle, queue })
}

impl Log {
    /// How many lines were lost, because the stream took none: of each database, and without a name of the process itself.
    #[cfg_attr(not(feature = "full"), allow(dead_code, reason = "it is a metric"))]
    pub(super) fn lost_lines(&self) -> Vec<(Option<Arc<str>>, u64)> {
        self.queue.dropped()
    }

    /// Writes the last lines.
    pub(super) fn flush(&self) {
        self.queue.flush();
    }

    /// Changes what is logged.
    pub(super) fn filter_by(&self, filter: &Targets) {
        if let Err(error) = self.filter.reload(without_texts_of_servers(filter.clone())) {
            tracing::error!("cannot change what is logged: {error}");
        }
    }
}
