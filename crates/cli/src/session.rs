//! [`Session`]: a connected store, the operator, and what the context allows. [`with_session`] runs a command with one.

use std::time::Duration;

use solid_notify::error::{FaultKind, StoreError};
use solid_notify::{ConnectedOutbox, Operator, SweeperBuilder};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::contexts::{Chosen, chosen, shown};
use crate::exit::{Exit, Failure, Outcome};
use crate::global::{Global, variable};
use crate::log_filter::{without_purged, without_texts_of_servers};
use crate::log_queue::LogQueue;
use crate::output::Output;
use crate::sending::Sending;
use crate::{ask, output};

/// How long a connection may take: shorter than people wait.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a command works with.
pub(crate) struct Session {
    pub(crate) outbox: ConnectedOutbox,
    pub(crate) operator: Operator,
    pub(crate) out: Output,
    /// True if no question is asked.
    pub(crate) yes: bool,
    pub(crate) chosen: Chosen,
    /// They check edits.
    _channels: SweeperBuilder,
}

impl Session {
    /// Connects to the store that the options name.
    pub(crate) async fn open(global: &Global) -> Outcome<Self> {
        let chosen = chosen(global)?;
        let place = shown(&chosen.url);
        let connected = tokio::time::timeout(PATIENCE, ConnectedOutbox::connect(&chosen.url)).await;
        let connected = connected.unwrap_or_else(|_| {
            let late = format!("no connection within {} s", PATIENCE.as_secs());
            Err(StoreError::new("connecting", FaultKind::Outage, late).into())
        });
        let outbox = connected.map_err(|error| {
            let failure = Failure::from(error);
            let next = failure.next.filter(|_| failure.exit == Exit::Unreachable);
            Failure { message: format!("cannot open {place}: {}", failure.message), next, exit: failure.exit }
        })?;
        let operator = outbox.operator(&global.operator());
        let channels = Sending::check_edits(&outbox).map_err(|error| Failure::cannot("prepare the channels", error))?;
        Ok(Self { operator, outbox, _channels: channels, out: Output { json: global.json }, yes: global.yes, chosen })
    }

    /// Fails if the context allows no change, or asks if it is a production context. `what` completes "This will …".
    pub(crate) fn change(&self, what: &str) -> Outcome<()> {
        self.chosen.change(what, self.yes)
    }

    /// As [`Self::change`], for what is asked in every context.
    pub(crate) fn great_change(&self, what: &str) -> Outcome<()> {
        self.chosen.writable()?;
        let place = match &self.chosen.name {
            Some(name) if self.chosen.production => format!(" in the production context {name:?}"),
            Some(name) => format!(" in the context {name:?}"),
            None => String::new(),
        };
        ask::confirm(&format!("this will {what}{place}. Continue?"), self.yes)
    }

    /// Prints the result of something that was to be changed. If it was not, the text is a note and the program ends with `exit`.
    pub(crate) fn changed<T: serde::Serialize>(&self, result: &T, exit: Exit, text: String) -> Outcome {
        match exit {
            Exit::Done => self.out.show(result, || text)?,
            _ => {
                if self.out.json {
                    self.out.show(result, String::new)?;
                } else {
                    output::note(text);
                }
            }
        }
        Ok(exit)
    }
}

/// Runs a command that needs the store.
pub(crate) fn with_session(global: &Global, command: impl AsyncFnOnce(&Session) -> Outcome) -> Outcome {
    in_session(global, log(without_purged)?, command)
}

/// As [`with_session`], for a process that sends: its log is that of a service.
pub(crate) fn with_sender(global: &Global, command: impl AsyncFnOnce(&Session) -> Outcome) -> Outcome {
    in_session(global, log(|filter| filter)?, command)
}

fn in_session(global: &Global, log: LogQueue, command: impl AsyncFnOnce(&Session) -> Outcome) -> Outcome {
    let outcome = runtime()?.block_on(async {
        let session = Session::open(global).await?;
        command(&session).await
    });
    log.flush();
    outcome
}

/// Starts the threads of a command.
pub(crate) fn runtime() -> Outcome<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| Failure::new(Exit::Failed, format!("cannot start the runtime: {error}")))
}

/// Prints the log of the library on the error stream: warnings, or what SOLID_NOTIFY_LOG asks for.
fn log(narrow: fn(Targets) -> Targets) -> Outcome<LogQueue> {
    let filter = variable("SOLID_NOTIFY_LOG").unwrap_or_else(|| "warn".to_owned());
    let filter = filter.parse::<Targets>().unwrap_or_else(|error| {
        output::warn(format!("SOLID_NOTIFY_LOG cannot be read, so only warnings are logged: {error}"));
        Targets::new().with_default(LevelFilter::WARN)
    });
    let queue = LogQueue::start(std::io::stderr()).map_err(|error| Failure::cannot("start the log", error))?;
    let lines = tracing_subscriber::fmt::layer().with_writer(queue.clone());
    tracing_subscriber::registry().with(narrow(without_texts_of_servers(filter))).with(lines).init();
    Ok(queue)
}

/// Returns the exit code of a change that is done or was not necessary.
pub(crate) fn done_if(changed: bool) -> Exit {
    if changed { Exit::Done } else { Exit::Unchanged }
}
