//! What users write: handlers, the notice that they get, and the verdict that they return.
//!
//! How a handler is called (time-out, panics, slots) is left to [`crate::run`].

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use solid_notify_core::ErrorClass;
use solid_notify_core::error::BoxError;
use solid_notify_core::notice::Claimed;

use crate::classify::{Classed, boxed};
use crate::definitions::Definition;

/// Sends the notices of one definition. A closure does for most ([`crate::SweeperBuilder::handler`]); a type of its own
/// holds shared state ([`crate::SweeperBuilder::register`]).
///
/// ```
/// use solid_notify_sweeper::{Done, Handler, HandlerResult, Notice};
///
/// struct Omp { url: String }
///
/// impl Handler for Omp {
///     type Param = serde_json::Value;
///
///     async fn handle(&self, notice: Notice<Self::Param>) -> HandlerResult {
///         println!("POST {} {}", self.url, notice.param());
///         Ok(Done::Ok)
///     }
/// }
/// ```
pub trait Handler: Send + Sync + 'static {
    /// What the parameter is read into: a type of yours, `serde_json::Value`, or `Box<RawValue>` for its bytes.
    type Param: DeserializeOwned + Send + 'static;

    /// Sends one notice. It may be called again for a notice whose sending succeeded, after a crash for instance:
    /// receivers deduplicate by [`Notice::idempotency_id`].
    fn handle(&self, notice: Notice<Self::Param>) -> impl Future<Output = HandlerResult> + Send;
}

/// A handler's verdict.
pub type HandlerResult = Result<Done, Failure>;

/// The notice needs no more sending.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Done {
    /// Delivered.
    Ok,
    /// Delivered, and it counts only when it was confirmed, whatever the definition's `need_confirm` says: within this
    /// time, zero for no end. Without a confirmation it is a failed attempt.
    AwaitConfirm(Duration),
    /// Not to be processed, and why: it ends as cancelled.
    Skip(String),
}

/// The attempt failed. Any error becomes [`Failure::Retry`] through `?`.
///
/// Deliberately no `std::error::Error` itself: only so can every error be converted into it.
#[non_exhaustive]
pub enum Failure {
    /// Retry as the definition says, and its `retry_rules` for the class of the error.
    Retry(BoxError),
    /// Retry after this time (capped by `max_retry_interval`), also where the class of the error is not retried by default;
    /// counted like any failure.
    RetryIn(Duration, BoxError),
    /// No attempt can succeed: a dead letter at once.
    GiveUp(BoxError),
}

impl Failure {
    /// Retry as the definition says.
    pub fn retry(error: impl Into<BoxError> + 'static) -> Self {
        Self::Retry(boxed(error))
    }

    /// Retry after `delay`.
    pub fn retry_in(delay: Duration, error: impl Into<BoxError> + 'static) -> Self {
        Self::RetryIn(delay, boxed(error))
    }

    /// Give up at once.
    pub fn give_up(error: impl Into<BoxError> + 'static) -> Self {
        Self::GiveUp(boxed(error))
    }

    /// Says of which class the failure is, whatever the error itself would tell: `retry_rules` go by it.
    ///
    /// ```
    /// # use solid_notify_core::ErrorClass;
    /// # use solid_notify_sweeper::{Failure, HandlerResult};
    /// # fn example() -> HandlerResult {
    /// Err(Failure::retry("the account is over its quota").class(ErrorClass::Busy))
    /// # }
    /// ```
    #[must_use]
    pub fn class(self, class: ErrorClass) -> Self {
        let classed = |error| Box::new(Classed { class, error }) as BoxError;
        match self {
            Self::Retry(error) => Self::Retry(classed(error)),
            Self::RetryIn(delay, error) => Self::RetryIn(delay, classed(error)),
            Self::GiveUp(error) => Self::GiveUp(classed(error)),
        }
    }

    /// The error.
    pub fn error(&self) -> &BoxError {
        match self {
            Self::Retry(error) | Self::RetryIn(_, error) | Self::GiveUp(error) => error,
        }
    }
}

impl<E: Into<BoxError> + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Retry(boxed(error))
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retry(error) => f.debug_tuple("Retry").field(error).finish(),
            Self::RetryIn(delay, error) => f.debug_tuple("RetryIn").field(delay).field(error).finish(),
            Self::GiveUp(error) => f.debug_tuple("GiveUp").field(error).finish(),
        }
    }
}

/// A notice as its handler gets it.
pub struct Notice<T> {
    param: T,
    facts: Arc<Facts>,
}

/// What does not depend on the parameter's type.
pub(crate) struct Facts {
    pub(crate) claimed: Claimed,
    pub(crate) definition: Arc<Definition>,
    description: Mutex<Option<String>>,
}

impl Facts {
    pub(crate) fn new(claimed: Claimed, definition: Arc<Definition>) -> Arc<Self> {
        let description = Mutex::new(claimed.description.clone());
        Arc::new(Self { claimed, definition, description })
    }

    /// The notice as it is to be settled: without its parameter, with the description as the handler left it.
    pub(crate) fn without_param(&self) -> Claimed {
        let claimed = &self.claimed;
        Claimed {
            param: String::new(),
            description: self.description(),
            errors: claimed.errors.clone(),
            worker: claimed.worker.clone(),
            trace_context: None,
            ordering_key: claimed.ordering_key.clone(),
            ..*claimed
        }
    }

    /// The description as the handler left it.
    pub(crate) fn description(&self) -> Option<String> {
        self.description.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<T: fmt::Debug> fmt::Debug for Notice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Facts { claimed, definition, .. } = &*self.facts;
        f.debug_struct("Notice")
            .field("definition", &definition.row.name)
            .field("param", &self.param)
            .field("claimed", claimed)
            .finish_non_exhaustive()
    }
}

impl<T> Notice<T> {
    /// The parameter.
    pub fn param(&self) -> &T {
        &self.param
    }

    /// The parameter, taken out.
    pub fn into_param(self) -> T {
        self.param
    }

    /// The parameter as JSON, byte for byte as it was added.
    pub fn raw_param(&self) -> &str {
        &self.facts.claimed.param
    }

    /// The id, the same in every attempt and every table.
    pub fn id(&self) -> i64 {
        self.facts.claimed.id
    }

    /// What a receiver can deduplicate by: the same in every attempt of this notice, and, since it has the time of its
    /// insert beside the id, another one in another database.
    pub fn idempotency_id(&self) -> String {
        solid_notify_core::notice::idempotency_id(self.id(), self.created())
    }

    /// The name of its definition.
    pub fn definition(&self) -> &str {
        &self.facts.definition.row.name
    }

    /// The column `handler_config` of its definition.
    pub fn handler_config(&self) -> Option<&str> {
        self.facts.definition.row.handler_config.as_deref()
    }

    /// The number of this claim, from 1. It also counts claims that were handed back untried.
    pub fn attempt(&self) -> i64 {
        self.facts.claimed.attempt
    }

    /// How many tries were used before this one: failures and crashes.
    pub fn tries_before(&self) -> i64 {
        self.facts.claimed.tries()
    }

    /// When it was added, by the database's clock.
    pub fn created(&self) -> SystemTime {
        self.facts.claimed.create_time
    }

    /// How old it was when this attempt began, by the database's clock.
    pub fn age(&self) -> Duration {
        let claimed = &self.facts.claimed;
        claimed.last_call_time.duration_since(claimed.create_time).unwrap_or_default()
    }

    /// The key by which notices of its definition keep their order, if it has one.
    pub fn ordering_key(&self) -> Option<&str> {
        self.facts.claimed.ordering_key.as_deref()
    }

    /// The trace context that the producer stored.
    pub fn trace_context(&self) -> Option<&str> {
        self.facts.claimed.trace_context.as_deref()
    }

    /// A token by which the receiver can confirm this attempt, valid for so long: put it into the message, and have
    /// `notify.ack_token` called with it. It fits into a URL.
    ///
    /// # Errors
    /// [`solid_notify_core::Error::Token`] where no keys are set (`notify.use_token_keys`).
    pub fn confirm_token(&self, valid: Duration) -> solid_notify_core::Result<String> {
        self.facts.definition.outbox.token(self.id(), self.attempt(), valid)
    }

    /// The text for people.
    pub fn description(&self) -> Option<String> {
        self.facts.description()
    }

    /// Rewrites the text for people; it is stored with the outcome of this attempt.
    pub fn set_description(&self, text: impl Into<String>) {
        *self.facts.description.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.into());
    }
}

/// A handler without its parameter's type.
pub(crate) trait AnyHandler: Send + Sync {
    /// Reads the parameter and calls the handler; the outer error tells why the parameter could not be read.
    fn call(self: Arc<Self>, facts: Arc<Facts>) -> BoxFuture<'static, Result<HandlerResult, String>>;
}

/// A [`Handler`] as an [`AnyHandler`].
pub(crate) struct Typed<H>(pub(crate) H);

impl<H: Handler> AnyHandler for Typed<H> {
    fn call(self: Arc<Self>, facts: Arc<Facts>) -> BoxFuture<'static, Result<HandlerResult, String>> {
        Box::pin(async move {
            let param = read::<H::Param>(&facts)?;
            Ok(self.0.handle(Notice { param, facts }).await)
        })
    }
}

/// A closure as a [`Handler`].
pub(crate) struct Closure<T, F> {
    call: F,
    param: PhantomData<fn(T)>,
}

impl<T, F> Closure<T, F> {
    pub(crate) fn new(call: F) -> Self {
        Self { call, param: PhantomData }
    }
}

impl<T, F, Fut> Handler for Closure<T, F>
where
    T: DeserializeOwned + Send + 'static,
    F: Fn(Notice<T>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = HandlerResult> + Send,
{
    type Param = T;

    fn handle(&self, notice: Notice<T>) -> impl Future<Output = HandlerResult> + Send {
        (self.call)(notice)
    }
}

fn read<T: DeserializeOwned>(facts: &Facts) -> Result<T, String> {
    // Where and what kind, but not serde's own message: it quotes the value, and this text goes to logs and tables.
    serde_json::from_str(&facts.claimed.param).map_err(|error| {
        let what = match error.classify() {
            serde_json::error::Category::Data => "another type or shape is expected",
            _ => "it is not JSON",
        };
        let (target, line, column) = (std::any::type_name::<T>(), error.line(), error.column());
        format!("the parameter cannot be read into {target}: {what} (line {line}, column {column})")
    })
}
