//! The log of `serve`, on the error stream. A stream that cannot be written to, as on a full disk, costs lines and nothing else.

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use super::config;
use crate::exit::{Exit, Failure, Outcome};

/// Changes what is logged.
pub(super) struct Filter(Handle<Targets, Registry>);

/// Starts the log.
pub(super) fn start(log: &config::Log) -> Outcome<Filter> {
    let (filter, handle) = reload::Layer::new(log.filter.clone());
    // Threads have the name of their database. An internal error would be printed on the same stream, and a failure of that would panic.
    let lines = fmt::layer().with_writer(std::io::stderr).with_thread_names(true).log_internal_errors(false);
    let lines = if log.json { lines.json().boxed() } else { lines.with_ansi(false).boxed() };
    let started = tracing_subscriber::registry().with(filter).with(lines).try_init();
    started.map_err(|error| Failure::new(Exit::Failed, format!("cannot start the log: {error}")))?;
    Ok(Filter(handle))
}

impl Filter {
    pub(super) fn change(&self, filter: &Targets) {
        if let Err(error) = self.0.reload(filter.clone()) {
            tracing::error!("cannot change what is logged: {error}");
        }
    }
}
