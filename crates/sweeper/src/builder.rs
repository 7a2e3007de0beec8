//! [`SweeperBuilder`]: the handlers and settings of a sweeper, and its start.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use solid_notify_core::store::NODE_LIVES;
use solid_notify_core::{AnyOutbox, DefinitionName, ErrorClass, StoreError};

use crate::handlers::batch::{Batch, BatchResult, Batching};
use crate::handlers::erased::{AnyHandler, Closure, Typed, check_by};
use crate::handlers::handler::{Handler, HandlerResult, Notice};
use crate::sweeper::{Sweeper, Tally};
use crate::worker::{Setup, Worker};

/// Handlers and settings of a [`Sweeper`].
#[must_use = "a sweeper does nothing before `start` or `run_until_idle`"]
pub struct SweeperBuilder {
    pub(crate) setup: Setup,
}

/// Adds [`sweeper`](Self::sweeper) to every outbox.
pub trait OutboxExt {
    /// Returns a builder for a sweeper of this outbox.
    fn sweeper(&self) -> SweeperBuilder;
}

impl OutboxExt for AnyOutbox {
    fn sweeper(&self) -> SweeperBuilder {
        SweeperBuilder::new(self)
    }
}

impl SweeperBuilder {
    pub(crate) fn new(outbox: &AnyOutbox) -> Self {
        Self { setup: Setup::new(outbox.clone()) }
    }

    /// Registers an async closure or function under the name that definitions have in `handler` (usually the definition's own
    /// name). `T` is the type into which the JSON parameter is deserialised; a [`solid_notify_core::Definition`] as the name
    /// fixes it. A parameter that does not fit fails the attempt with
    /// the class `invalid`, which makes a dead letter by default.
    pub fn handler<T, F, Fut>(self, name: impl DefinitionName<T>, handler: F) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(Notice<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HandlerResult> + Send + 'static,
    {
        self.handler_type(name, Closure::new(handler))
    }

    /// As [`Self::handler`], for a closure or function that takes shared state; each attempt gets a clone of `state`.
    ///
    /// ```
    /// # use solid_notify_core::AnyOutbox;
    /// # use solid_notify_sweeper::{HandlerResult, Notice, OutboxExt};
    /// # fn example(outbox: &AnyOutbox) {
    /// #[derive(Clone)]
    /// struct App { url: String }
    ///
    /// async fn sync_to_omp(app: App, notice: Notice<i64>) -> HandlerResult {
    ///     println!("POST {} {}", app.url, notice.param());
    ///     Ok(())
    /// }
    ///
    /// let app = App { url: "https://omp.example.org".into() };
    /// let builder = outbox.sweeper().handler_with("sync_to_omp", app, sync_to_omp);
    /// # }
    /// ```
    pub fn handler_with<S, T, F, Fut>(self, name: impl DefinitionName<T>, state: S, handler: F) -> Self
    where
        S: Clone + Send + Sync + 'static,
        T: DeserializeOwned + Send + 'static,
        F: Fn(S, Notice<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HandlerResult> + Send + 'static,
    {
        self.handler(name, move |notice| handler(state.clone(), notice))
    }

    /// Registers a [`Handler`] type. Two handlers of one name are an error of the start.
    pub fn handler_type<H: Handler>(mut self, name: impl DefinitionName<H::Param>, handler: H) -> Self {
        self.register(name.into_name(), Arc::new(Typed(handler)));
        self
    }

    /// Registers an async closure or function that sends several notices of a definition in one call: a bulk API, a multi-row
    /// insert. It returns a result for each, in the same order.
    ///
    /// Each notice keeps its own claim, retries, order and alerts; a batch gathers attempts of this node that begin within
    /// [`Batch::wait`]. `max_concurrency` of the definition must be at least the size of a batch, or batches are smaller. Two notices
    /// of one ordering key are never in one batch.
    ///
    /// ```
    /// # use solid_notify_core::AnyOutbox;
    /// # use solid_notify_sweeper::{Batch, BatchResult, Failure, Notice, OutboxExt};
    /// # async fn post(orders: Vec<i64>) -> Result<Vec<bool>, std::io::Error> { Ok(vec![true; orders.len()]) }
    /// # fn example(outbox: &AnyOutbox) {
    /// async fn sync_orders(notices: Vec<Notice<i64>>) -> BatchResult {
    ///     let orders = notices.iter().map(|notice| *notice.param()).collect();
    ///     let accepted: Vec<bool> = post(orders).await?; // an error here fails all of them
    ///     let result = |accepted| if accepted { Ok(()) } else { Err(Failure::retry("refused")) };
    ///     Ok(accepted.into_iter().map(result).collect())
    /// }
    ///
    /// let builder = outbox.sweeper().batch_handler("sync_order", Batch::up_to(100), sync_orders);
    /// # }
    /// ```
    pub fn batch_handler<T, F, Fut>(mut self, name: impl DefinitionName<T>, batch: Batch, handler: F) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(Vec<Notice<T>>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = BatchResult> + Send + 'static,
    {
        self.register(name.into_name(), Arc::new(Batching::new(batch, handler)));
        self
    }

    fn register(&mut self, name: String, handler: Arc<dyn AnyHandler>) {
        check_by(&self.setup.outbox, &name, &handler);
        if self.setup.registered.handlers.insert(name.clone(), handler).is_some() {
            self.setup.twice.get_or_insert(name);
        }
    }

    /// Registers the retry strategy that definitions name as `strategy:name`. It returns the delay before retry number `n`,
    /// from 1.
    pub fn strategy(
        mut self,
        name: impl Into<String>,
        delay: impl Fn(u32) -> Duration + Send + Sync + 'static,
    ) -> Self {
        self.setup.registered.strategies.insert(name.into(), Arc::new(delay));
        self
    }

    /// Registers a classifier for the application's errors. The sweeper calls it, before the built-in ones, for the error
    /// of each failed attempt and then for each of its causes, until one returns a class. Several are called in the order
    /// of their registration. A class that the handler set ([`crate::Failure::class`]) comes before all of them.
    ///
    /// ```
    /// # use solid_notify_core::{ErrorClass, AnyOutbox};
    /// # use solid_notify_sweeper::OutboxExt;
    /// # fn example(outbox: &AnyOutbox) {
    /// let builder = outbox.sweeper().classify(|error| {
    ///     let error = error.downcast_ref::<std::num::ParseIntError>()?;
    ///     Some(ErrorClass::Invalid)
    /// });
    /// # }
    /// ```
    pub fn classify(
        mut self,
        classify: impl Fn(&(dyn std::error::Error + 'static)) -> Option<ErrorClass> + Send + Sync + 'static,
    ) -> Self {
        self.setup.registered.classifier.own.push(Arc::new(classify));
        self
    }

    /// Sets the name of this node in tables and logs; the host's name by default. The sweeper adds a number that is unique
    /// per start.
    pub fn node_name(mut self, name: impl Into<String>) -> Self {
        self.setup.settings.node_name = Some(name.into());
        self
    }

    /// Sets the longest sleep between two looks for due notices; 1 s by default, at most 2 s. It does not delay due times
    /// that the sweeper already knows.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.setup.settings.poll_interval =
            interval.clamp(Duration::from_millis(10), crate::definitions::RELOAD_INTERVAL);
        self
    }

    /// Sets how many notices of all definitions this node sends at the same time; 2,000 by default.
    pub fn max_running(mut self, count: usize) -> Self {
        self.setup.settings.max_running = count.max(1);
        self
    }

    /// Sets whether notices committed in this process are sent at once; true by default. If false, the next sweep sends
    /// them.
    pub fn first_send(mut self, on: bool) -> Self {
        self.setup.settings.first_send = on;
        self
    }

    /// Sets how long to leave expired leases of other nodes alone after an outage of the database; 10 s by default. Those
    /// nodes could not extend their leases during the outage either. A sweeper that has just started does the same, because
    /// an outage may have just ended.
    pub fn outage_grace(mut self, grace: Duration) -> Self {
        self.setup.settings.outage_grace = grace;
        self
    }

    /// Sets how long [`Sweeper::shutdown`] waits for running handlers; 15 s by default. Handing the rest back and storing
    /// all outcomes takes up to 10 s more. The 25 s in all are less than the 30 s after which platforms such as Kubernetes
    /// kill a process.
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.setup.settings.shutdown_grace = grace;
        self
    }

    /// Sets how often this node checks the conditions that raise alerts, and whether acks can be stored; 60 s by default and at most. It
    /// reports that it lives every 5 s, or at this interval if that is shorter.
    pub fn maintenance_interval(mut self, interval: Duration) -> Self {
        self.setup.settings.maintenance_interval = interval.clamp(Duration::from_millis(10), NODE_LIVES / 3);
        self
    }

    /// Sets whether this node runs the housekeeping, the built-in definitions `notify.purge` and `notify.dead_letters`;
    /// true by default. If false, this node neither creates the definitions nor registers their handlers, for installations
    /// that purge by other means (partitions, a job of their own).
    pub fn housekeeping(mut self, on: bool) -> Self {
        self.setup.settings.housekeeping = on;
        self
    }

    /// Sets how old the snapshot of counts may get before one of the nodes counts again; 30 s by default, at least 1 s, at
    /// most a day.
    pub fn count_interval(mut self, interval: Duration) -> Self {
        self.setup.settings.count_interval = interval.clamp(Duration::from_secs(1), Duration::from_secs(86_400));
        self
    }

    /// Sets where people look at notices: an alert about the notice 7 has the link `<base_url>/notices/7`. None by default: alerts
    /// have no link. It must be an `http` or `https` URL without user, query and fragment, or the start fails; slashes at
    /// its end are ignored. Set it in the sweepers that send alerts.
    pub fn base_url(mut self, url: impl AsRef<str>) -> Self {
        self.setup.settings.base_url = Some(url.as_ref().into());
        self
    }

    /// Starts the sweeper.
    ///
    /// # Errors
    /// [`StartError`] if the definitions cannot be read, or a setting is invalid. After the start no database error ends the
    /// sweeper.
    pub async fn start(mut self) -> Result<Sweeper, StartError> {
        if let Some(name) = self.setup.twice.take() {
            let wrong = format!("the handler {name:?} is registered twice; give each handler a name of its own");
            return Err(StartError(Reason::Setting(wrong)));
        }
        let settings = &mut self.setup.settings;
        settings.base_url = settings.base_url.take().map(|url| checked_url(&url)).transpose()?;
        let worker = Worker::new(self.setup);
        worker.reload_definitions().await.map_err(|error| StartError(Reason::Store(error)))?;
        Ok(Sweeper::spawn(worker))
    }

    /// Sends what is due until nothing is due, then stops, for job platforms that start a process by the clock. It leaves
    /// later retries for the next run. At its end it counts the notices of all definitions, which takes at most 30 s: the next process that
    /// counts may come much later.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn run_until_idle(self) -> Result<Tally, StartError> {
        Ok(self.start().await?.shutdown_when_idle().await)
    }
}

/// Returns the URL without slashes at its end.
fn checked_url(text: &str) -> Result<Arc<str>, StartError> {
    // A user name and a password are not shown.
    let shown = if text.contains('@') { "…" } else { text };
    let wrong = |why: &str| {
        let expected =
            "write an http or https URL without user, query and fragment, such as `https://ops.example.org/outbox`";
        StartError(Reason::Setting(format!("`base_url` is {shown:?}: {why}; {expected}")))
    };
    let url = url::Url::parse(text.trim()).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("links need http or https"));
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("the path of a notice cannot be added to it"));
    }
    Ok(url.as_str().trim_end_matches('/').into())
}

/// The sweeper could not start: its definitions could not be read, or a setting is invalid.
#[derive(Debug)]
pub struct StartError(Reason);

#[derive(Debug)]
enum Reason {
    Store(StoreError),
    Setting(String),
}

impl StartError {
    /// Returns whether the message says what is wrong. Otherwise a table or a right may be missing.
    pub fn is_explained(&self) -> bool {
        match &self.0 {
            Reason::Store(error) => error.is_explained(),
            Reason::Setting(_) => true,
        }
    }
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Reason::Store(error) => write!(f, "the sweeper cannot start: {error}"),
            Reason::Setting(wrong) => write!(f, "the sweeper cannot start: {wrong}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            // The message above contains the store error's whole text, so the source is the store error's cause.
            Reason::Store(error) => std::error::Error::source(error),
            Reason::Setting(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OutboxExt;
    use solid_notify_testkit::MemoryOutbox;

    #[test]
    fn node_beats_often_enough_with_every_setting() {
        let builder = MemoryOutbox::new().sweeper().maintenance_interval(Duration::from_secs(600));
        assert!(3 * builder.setup.settings.maintenance_interval <= NODE_LIVES);
    }

    #[tokio::test]
    async fn outbox_ends_although_a_handler_keeps_it() {
        let kept = Arc::new(());
        let ended = Arc::downgrade(&kept);
        let outbox = MemoryOutbox::new();
        let state = (outbox.clone(), kept);
        let builder = outbox.sweeper().handler_with("a", Arc::new(state), |_, _: Notice<i64>| async { Ok(()) });
        builder.start().await.unwrap().shutdown().await;
        // The last tasks of the sweeper end a moment after it.
        let end = async {
            while ended.strong_count() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), end).await.expect("nothing keeps the handler");
    }

    #[tokio::test]
    async fn start_refuses_two_handlers_of_one_name() {
        let handler = |_: Notice<i64>| async { Ok(()) };
        let error =
            MemoryOutbox::new().sweeper().handler("a", handler).handler("a", handler).start().await.err().unwrap();
        assert_eq!(
            error.to_string(),
            "the sweeper cannot start: the handler \"a\" is registered twice; give each handler a name of its own"
        );
    }

    #[tokio::test]
    async fn start_refuses_a_base_url_that_cannot_be_a_link() {
        let start = async |url: &str| MemoryOutbox::new().sweeper().base_url(url).start().await;
        for wrong in
            ["", "ops.example.org", "ftp://ops", "https://", "https://a:b@ops", "https://ops/?id=", "https://ops/#x"]
        {
            let error = start(wrong).await.err().unwrap().to_string();
            let shown = if wrong.contains('@') { "…" } else { wrong };
            assert!(error.contains(&format!("`base_url` is {shown:?}")) && error.contains("such as"), "{error}");
        }
        let sweeper = start(" https://ops.example.org/outbox// ").await.unwrap();
        sweeper.shutdown().await;
        assert_eq!(&*checked_url("https://ops.example.org").unwrap(), "https://ops.example.org");
        assert_eq!(&*checked_url("http://ops/outbox//").unwrap(), "http://ops/outbox");
    }

    #[tokio::test(start_paused = true)]
    async fn sweeper_sends_with_the_longest_and_the_shortest_settings() {
        for set in [Duration::MAX, Duration::ZERO] {
            let outbox = MemoryOutbox::new();
            outbox.define_if_missing(solid_notify_core::NotifyDef::new("sync")).await.unwrap();
            let mut tx = outbox.begin().await.unwrap();
            solid_notify_core::add_notice(&mut tx, "sync", 1).await.unwrap();
            tx.commit().await.unwrap();
            let builder = outbox
                .sweeper()
                .handler("sync", |_: Notice<i64>| async { Ok(()) })
                .poll_interval(set)
                .outage_grace(set)
                .shutdown_grace(set)
                .maintenance_interval(set)
                .count_interval(set);
            assert_eq!(builder.run_until_idle().await.unwrap().succeeded, 1, "{set:?}");
        }
    }
}
