//! The types that users write and receive: handlers, and the notice that a handler gets. Its result is in [`super::failure`].
//!
//! [`super::erased`] keeps handlers of all types together. [`crate::running::attempt`] calls the handlers, applies the time-out and
//! catches panics.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use solid_notify_core::AnyOutbox;
use solid_notify_core::cipher::ENCRYPTED;
use solid_notify_core::definition::{SecretError, SecretRef, SecretString, read_config};
use solid_notify_core::message_id::same_message_since;
use solid_notify_core::notice::Response;
use solid_notify_core::secret::Destination;
use solid_notify_core::test_mark::TEST_TAG;
use solid_notify_core::token::AckToken;
use tokio::time::Instant;

pub(crate) use super::facts::Facts;
pub(crate) use super::failure::AfterFailure;
pub use super::failure::{Failure, HandlerResult};

/// Sends the notices of one definition. A closure is usually enough ([`crate::SweeperBuilder::handler`]). A type of its own
/// can hold shared state ([`crate::SweeperBuilder::handler_type`]).
///
/// ```
/// use solid_notify_sweeper::{Handler, HandlerResult, Notice};
///
/// struct Omp { url: String }
///
/// impl Handler for Omp {
///     type Param = serde_json::Value;
///
///     async fn handle(&self, notice: Notice<Self::Param>) -> HandlerResult {
///         println!("POST {} {}", self.url, notice.param());
///         Ok(())
///     }
/// }
/// ```
pub trait Handler: Send + Sync + 'static {
    /// The type into which the parameter is deserialised: your own, `serde_json::Value`, or `Box<RawValue>` for its bytes.
    type Param: DeserializeOwned + Send + 'static;

    /// Sends one notice. The sweeper may call it again for a notice that was already delivered, for instance after a crash.
    /// Receivers deduplicate by [`Notice::idempotency_key`].
    fn handle(&self, notice: Notice<Self::Param>) -> impl Future<Output = HandlerResult> + Send;

    /// Checks the column `handler_config` of a definition. The sweeper calls it for each definition of this handler that it reads. A
    /// refused configuration pauses the definition on this node, so that no notice fails by it: `outbox.definitions()` and
    /// `explain` show the error, which says what is wrong, where, and what would be right. In a process whose sweeper or builder has
    /// the handler, a definition that it refuses is not stored.
    ///
    /// ```
    /// # use solid_notify_core::definition::{SecretRef, read_config};
    /// # use solid_notify_sweeper::{Handler, HandlerResult, Notice};
    /// #[derive(serde::Deserialize)]
    /// #[serde(deny_unknown_fields)]
    /// struct Config {
    ///     url: String,
    ///     /// `"env:NAME"` or `"file:/path"`; a literal is refused.
    ///     api_key: SecretRef,
    /// }
    ///
    /// struct Partner;
    ///
    /// impl Handler for Partner {
    ///     type Param = serde_json::Value;
    ///
    ///     fn check(&self, handler_config: Option<&str>) -> Result<(), String> {
    ///         read_config::<Config>(handler_config).map(drop)
    ///     }
    ///
    ///     async fn handle(&self, notice: Notice<Self::Param>) -> HandlerResult {
    ///         let config: Config = notice.config()?;
    ///         let key = notice.secret(&config.api_key).await?;
    ///         println!("POST {} to {}", notice.raw_param(), config.url);
    ///         Ok(())
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// The default has none.
    fn check(&self, _handler_config: Option<&str>) -> Result<(), String> {
        Ok(())
    }

    /// Returns the secrets that a `handler_config` names. A definition with one that the program does not let its rows use
    /// ([`AnyOutbox::use_secret_rules`]) waits on this node, as one whose configuration is refused. Without it each attempt of such a
    /// definition fails, where it calls [`Notice::secret`].
    fn secrets(&self, _handler_config: Option<&str>) -> Vec<SecretRef> {
        Vec::new()
    }

    /// Checks the recipients of a definition's alerts: the addresses of its column `email` and the names of its column
    /// `alert_to`. The sweeper calls it on the handler of `notify.alert` for each definition that it reads, and logs the error,
    /// which says what is wrong and what would be right.
    ///
    /// # Errors
    /// The default has none.
    fn check_recipients(&self, _email: &[String], _alert_to: &[String]) -> Result<(), String> {
        Ok(())
    }
}

/// A notice, with its parameter, as a handler receives it.
pub struct Notice<T> {
    pub(super) param: T,
    pub(crate) facts: Arc<Facts>,
}

impl<T: fmt::Debug> fmt::Debug for Notice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Facts { claimed, row, .. } = &*self.facts;
        let mut shown = f.debug_struct("Notice");
        shown.field("definition", &row.name);
        match &row.mask {
            _ if self.facts.encrypted => shown.field("param", &ENCRYPTED),
            Some(_) => shown.field("param", &row.masked(self.facts.param())),
            None => shown.field("param", &self.param),
        };
        shown.field("claimed", claimed).finish_non_exhaustive()
    }
}

impl<T> Notice<T> {
    /// Returns the parameter.
    pub fn param(&self) -> &T {
        &self.param
    }

    /// Returns the parameter by value.
    pub fn into_param(self) -> T {
        self.param
    }

    /// Returns the parameter as JSON, byte for byte as it was inserted.
    pub fn raw_param(&self) -> &str {
        self.facts.param()
    }

    /// Returns the id, which is the same in every attempt and every table.
    pub fn id(&self) -> i64 {
        self.facts.claimed.id
    }

    /// Returns an id by which a receiver can deduplicate. It is the same in every attempt of this notice. It contains the
    /// insert time as well as the id, so notices of different databases differ.
    pub fn idempotency_key(&self) -> String {
        solid_notify_core::notice::idempotency_key(self.id(), self.created())
    }

    /// Returns the fence of the first attempt whose message may be the one of this attempt. For channels to brokers that drop messages
    /// whose id they have seen; see [`same_message_since`].
    #[doc(hidden)]
    pub fn same_message_since(&self) -> i64 {
        same_message_since(&self.facts.claimed)
    }

    /// Returns when the definition's time-out ends this attempt. For the ready channels.
    #[doc(hidden)]
    pub fn ends(&self) -> Instant {
        self.facts.ends()
    }

    /// Returns the name of its definition.
    pub fn definition(&self) -> &str {
        &self.facts.row.name
    }

    /// Returns the name of its target, `erp` of `order/erp`; `None`: its definition is no target.
    pub fn target(&self) -> Option<&str> {
        self.facts.row.target_name()
    }

    /// Returns the column `handler_config` of its definition; of a target without one that of the definition whose target it is.
    pub fn handler_config(&self) -> Option<&str> {
        self.facts.row.handler_config.as_deref()
    }

    /// Returns the column `handler_config`, read as JSON into `C`; no configuration reads as `{}`.
    ///
    /// # Errors
    /// A failure that is retried as the definition says, with the field and the position.
    pub fn config<C: DeserializeOwned>(&self) -> Result<C, Failure> {
        read_config(self.handler_config()).map_err(|problem| Failure::retry(format!("handler_config: {problem}")))
    }

    /// Reads a secret that `handler_config` names. Handlers read it in each attempt, so that a changed file needs no restart.
    ///
    /// # Errors
    /// [`SecretError`] for one that the program does not let the rows of this definition use ([`AnyOutbox::use_secret_rules`]), or only for
    /// some hosts ([`Self::secret_for`]), and for one that cannot be read.
    pub async fn secret(&self, reference: &SecretRef) -> Result<SecretString, SecretError> {
        self.secret_to(reference, Destination::Unknown).await
    }

    /// The same for what is sent to this host.
    ///
    /// # Errors
    /// As [`Self::secret`], and [`SecretError`] for a host that the program does not let it be sent to.
    pub async fn secret_for(&self, reference: &SecretRef, host: &str) -> Result<SecretString, SecretError> {
        self.secret_to(reference, Destination::Host(host)).await
    }

    async fn secret_to(&self, reference: &SecretRef, to: Destination<'_>) -> Result<SecretString, SecretError> {
        let mut read = self.facts.outbox.engine().secrets(self.definition(), vec![reference.clone()], to).await?;
        Ok(read.remove(0))
    }

    /// Returns the outbox of the sweeper. For the ready channels.
    #[doc(hidden)]
    pub fn outbox(&self) -> &AnyOutbox {
        &self.facts.outbox
    }

    /// Returns the number of this attempt: 1 for the first, 2 for the first retry. Only attempts that failed or crashed count; one
    /// that a shutdown interrupted is repeated under its number.
    pub fn attempt(&self) -> i64 {
        self.facts.claimed.attempt()
    }

    /// Returns the fence: the number of this claim. It grows with every claim of the notice, and no two claims share one. A
    /// receiver can reject a message whose fence is smaller than one that it has seen.
    pub fn fence(&self) -> i64 {
        self.facts.claimed.fence
    }

    /// Returns when the notice was inserted, by the database's clock.
    pub fn created(&self) -> DateTime<Utc> {
        self.facts.claimed.create_time
    }

    /// Returns how old the notice was when this attempt began, by the database's clock.
    pub fn age(&self) -> Duration {
        let claimed = &self.facts.claimed;
        (claimed.last_call_time - claimed.create_time).to_std().unwrap_or_default()
    }

    /// Returns the ordering key, if the notice has one. Notices of one definition with the same key are sent in order.
    pub fn ordering_key(&self) -> Option<&str> {
        self.facts.claimed.ordering_key.as_deref()
    }

    /// Returns the tag, if the notice has one.
    pub fn tag(&self) -> Option<&str> {
        self.facts.claimed.tag.as_deref()
    }

    /// Returns true for a notice that an operator sent as a test (`Operator::test_send`), and for what was passed on of it to a target. The
    /// receiver should see that it is one, and nothing real should follow from it.
    pub fn is_test(&self) -> bool {
        self.tag() == Some(TEST_TAG)
    }

    /// Returns the trace context that the producer stored.
    pub fn trace_context(&self) -> Option<&str> {
        self.facts.claimed.trace_context.as_deref()
    }

    /// Returns a token by which the receiver can ack this attempt; it is valid for the time `valid`. Put it into the
    /// message; the receiver's reply goes to `outbox.ack_token`. The token is safe in a URL.
    ///
    /// # Errors
    /// [`solid_notify_core::Error::TokenKeys`] if no keys are set (`outbox.use_token_keys`).
    pub fn ack_token(&self, valid: Duration) -> solid_notify_core::Result<String> {
        self.facts.outbox.engine().sign_token(AckToken::new(self.id(), self.fence(), self.created()), valid)
    }

    /// Returns within which time the receiver must ack this delivery, zero for no limit; `None`: it need not. That is what
    /// [`Self::require_ack`] was called with, or else the definition's `need_confirm` and `max_confirm_delay`. A message that need not be
    /// acked needs no token.
    pub fn ack_within(&self) -> Option<Duration> {
        self.facts.required_ack().or(self.facts.ack_within)
    }

    /// Requires an ack of the receiver within this time (zero: without a limit), whatever the definition's `need_confirm` says.
    /// It takes effect when the handler returns `Ok`; without an ack in time the attempt fails.
    pub fn require_ack(&self, within: Duration) {
        *self.facts.require_ack.lock() = Some(within);
    }

    /// Reports what the receiver answered. It is stored with the outcome of this attempt, also if the handler then fails, panics or
    /// runs into its time-out; a second call replaces the first. Where the handler reports nothing, the status of an [`crate::HttpStatus`]
    /// or of a `reqwest::Error` that it returns is stored.
    ///
    /// ```
    /// # use solid_notify_sweeper::{HandlerResult, HttpStatus, Notice, Response};
    /// # async fn post(_: &Notice<serde_json::Value>) -> Result<(u16, String), std::io::Error> { Ok((200, String::new())) }
    /// async fn send(notice: Notice<serde_json::Value>) -> HandlerResult {
    ///     let (status, text) = post(&notice).await?;
    ///     notice.set_response(Response::new(status).body(text));
    ///     if status < 300 { Ok(()) } else { Err(HttpStatus(status).into()) }
    /// }
    /// ```
    pub fn set_response(&self, response: Response) {
        *self.facts.response.lock() = Some(response);
    }

    /// Returns the description: a text for people.
    pub fn description(&self) -> Option<String> {
        self.facts.description()
    }

    /// Replaces the description. It is stored with the outcome of this attempt.
    pub fn set_description(&self, text: impl Into<String>) {
        *self.facts.description.lock() = Some(text.into());
    }
}
