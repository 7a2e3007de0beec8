//! [`SweeperBuilder`]: the handlers and settings of a sweeper, and its start.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use solid_notify_core::error::FaultKind;
use solid_notify_core::{ErrorClass, Outbox, StoreError};

use crate::classify::Classifier;
use crate::handler::{AnyHandler, Closure, Handler, HandlerResult, Notice, Typed};
use crate::sweeper::{Sweeper, Tally};
use crate::worker::Worker;

/// A named retry strategy: the delay before retry number `n`, from 1.
pub(crate) type StrategyFn = Arc<dyn Fn(u32) -> Duration + Send + Sync>;

/// Handlers and settings of a [`Sweeper`].
#[must_use = "a sweeper does nothing before `start` or `run_until_idle`"]
pub struct SweeperBuilder {
    pub(crate) outbox: Outbox,
    pub(crate) handlers: HashMap<String, Arc<dyn AnyHandler>>,
    pub(crate) strategies: HashMap<String, StrategyFn>,
    pub(crate) classifier: Classifier,
    pub(crate) settings: Settings,
}

/// The numbers that a sweeper goes by.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) node_name: Option<String>,
    pub(crate) poll_interval: Duration,
    pub(crate) max_running: usize,
    pub(crate) first_send: bool,
    pub(crate) outage_grace: Duration,
    pub(crate) shutdown_grace: Duration,
    pub(crate) maintenance_interval: Duration,
    pub(crate) housekeeping: bool,
    pub(crate) count_interval: Duration,
}

impl SweeperBuilder {
    pub(crate) fn new(outbox: &Outbox) -> Self {
        let settings = Settings {
            node_name: None,
            poll_interval: Duration::from_secs(1),
            max_running: 2000,
            first_send: true,
            outage_grace: Duration::from_secs(10),
            shutdown_grace: Duration::from_secs(30),
            maintenance_interval: Duration::from_secs(60),
            housekeeping: true,
            count_interval: Duration::from_secs(30),
        };
        Self {
            outbox: outbox.clone(),
            handlers: HashMap::new(),
            strategies: HashMap::new(),
            classifier: Classifier::default(),
            settings,
        }
    }

    /// Registers an async closure under the name that definitions give as their `handler` (mostly the definition's own
    /// name). `T` is what the JSON parameter is read into; a parameter that does not fit is a failure of the class
    /// `invalid`, which by default makes a dead letter.
    pub fn handler<T, F, Fut>(self, name: impl Into<String>, handler: F) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(Notice<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HandlerResult> + Send + 'static,
    {
        self.register(name, Closure::new(handler))
    }

    /// Registers a [`Handler`] type. The last one of a name counts.
    pub fn register(mut self, name: impl Into<String>, handler: impl Handler) -> Self {
        self.handlers.insert(name.into(), Arc::new(Typed(handler)));
        self
    }

    /// Registers the retry strategy that definitions name as `strategy:name`: the delay before retry number `n`, from 1.
    pub fn strategy(
        mut self,
        name: impl Into<String>,
        delay: impl Fn(u32) -> Duration + Send + Sync + 'static,
    ) -> Self {
        self.strategies.insert(name.into(), Arc::new(delay));
        self
    }

    /// Registers a classifier for errors of the application: asked before any other, for the error of each failed attempt
    /// and then for each of its causes, until one is known. Several are asked in the order of their registration; a class
    /// that the handler gave ([`crate::Failure::class`]) comes before all of them.
    ///
    /// ```
    /// # use solid_notify_core::{ErrorClass, Outbox};
    /// # use solid_notify_sweeper::Sweeper;
    /// # fn example(outbox: &Outbox) {
    /// let builder = Sweeper::builder(outbox).classify(|error| {
    ///     let error = error.downcast_ref::<std::num::ParseIntError>()?;
    ///     Some(ErrorClass::Invalid)
    /// });
    /// # }
    /// ```
    pub fn classify(
        mut self,
        classify: impl Fn(&(dyn std::error::Error + 'static)) -> Option<ErrorClass> + Send + Sync + 'static,
    ) -> Self {
        self.classifier.own.push(Arc::new(classify));
        self
    }

    /// Whether the class of an error that nobody knows by its type is guessed from its text ("connection refused",
    /// "timed out"); true unless set. Only classes that are retried by default are guessed.
    pub fn guess_classes(mut self, on: bool) -> Self {
        self.classifier.guess = on;
        self
    }

    /// A name for this node in tables and logs; the host's unless set. A number that is unique per start is added.
    pub fn node_name(mut self, name: impl Into<String>) -> Self {
        self.settings.node_name = Some(name.into());
        self
    }

    /// How long to sleep at most between two looks for due notices; 1 s unless set, at most 2 s. Due times that are known
    /// are met precisely whatever this is.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.settings.poll_interval = interval.clamp(Duration::from_millis(10), crate::definitions::RELOAD_INTERVAL);
        self
    }

    /// How many notices of all definitions this node sends at the same time; 2,000 unless set.
    pub fn max_running(mut self, count: usize) -> Self {
        self.settings.max_running = count.max(1);
        self
    }

    /// Whether notices committed in this process are sent at once; true unless set. False leaves them to the next sweep.
    pub fn first_send(mut self, on: bool) -> Self {
        self.settings.first_send = on;
        self
    }

    /// After an outage of the database, how long to leave the expired leases of others alone; 10 s unless set. They could
    /// not extend them meanwhile either. A sweeper that has just been started does the same: perhaps an outage has just ended.
    pub fn outage_grace(mut self, grace: Duration) -> Self {
        self.settings.outage_grace = grace;
        self
    }

    /// How long [`Sweeper::shutdown`] waits for running handlers; 30 s unless set.
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.settings.shutdown_grace = grace;
        self
    }

    /// How often to purge history and to tell that this node lives; 60 s unless set.
    pub fn maintenance_interval(mut self, interval: Duration) -> Self {
        self.settings.maintenance_interval = interval.max(Duration::from_millis(10));
        self
    }

    /// Whether this node takes part in the housekeeping, the built-in definitions `notify.purge` and `notify.dead_letters`; true
    /// unless set. Without it they are not made and have no handler here: for those who purge by other means (partitions, a
    /// job of their own).
    pub fn housekeeping(mut self, on: bool) -> Self {
        self.settings.housekeeping = on;
        self
    }

    /// How old the snapshot of counts may get before one of the nodes counts anew; 30 s unless set, at least 1 s.
    pub fn count_interval(mut self, interval: Duration) -> Self {
        self.settings.count_interval = interval.max(Duration::from_secs(1));
        self
    }

    /// Starts sending.
    ///
    /// # Errors
    /// [`StartError`] when the definitions cannot be read: better seen at the start than in a log. From then on no error
    /// of the database ends the sweeper.
    pub async fn start(self) -> Result<Sweeper, StartError> {
        let worker = Worker::new(self);
        worker.reload_definitions().await.map_err(StartError)?;
        Ok(Sweeper::spawn(worker))
    }

    /// Sends what is due until nothing is, then stops: for job platforms that start a process by the clock. Retries that
    /// are due later are left for the next run.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn run_until_idle(self) -> Result<Tally, StartError> {
        let sweeper = self.start().await?;
        sweeper.idle().await;
        Ok(sweeper.shutdown().await)
    }
}

/// The sweeper could not start: its definitions could not be read.
#[derive(Debug)]
pub struct StartError(StoreError);

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hint = if self.0.kind == FaultKind::Unusable { " (was `notify.migrate()` run?)" } else { "" };
        write!(f, "the sweeper cannot start: {}{hint}", self.0)
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The message above tells all of the store's error; its cause comes next.
        std::error::Error::source(&self.0)
    }
}
