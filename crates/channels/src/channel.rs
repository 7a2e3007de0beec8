//! [`Channel`]: a way to deliver notices that the row of a definition chooses and configures, by its columns `handler` and
//! `handler_config`. [`ChannelExt`] registers channels with a sweeper.
//!
//! [`ReadyChannel`] is the handler of every channel: it reads and checks the configuration, and keeps what the channel prepared
//! of it. A channel only delivers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use schemars::{JsonSchema, Schema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use solid_notify_core::definition::{SecretRef, SecretString, read_config};
use solid_notify_sweeper::{Failure, Handler, HandlerResult, Notice, SweeperBuilder};

use crate::{hiding, template};

/// A notice as channels get it: they do not know the type of its parameter.
pub type AnyNotice = Notice<Box<RawValue>>;

/// A way to deliver notices, configured by the column `handler_config`. [`ChannelExt::channel`] makes it the handler
/// [`Channel::NAME`] of a sweeper; a definition chooses it by `handler = 'webhook'`.
///
/// ```
/// use solid_notify_channels::{AnyNotice, Channel, ChannelExt};
/// use solid_notify_sweeper::{HandlerResult, SweeperBuilder};
///
/// /// Writes each parameter to a log.
/// struct Log;
///
/// /// The shape of `handler_config`.
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// #[serde(deny_unknown_fields)]
/// struct LogConfig {
///     /// Begins each line.
///     prefix: String,
/// }
///
/// impl Channel for Log {
///     const NAME: &'static str = "log";
///     type Config = LogConfig;
///     type Prepared = LogConfig;
///
///     fn prepare(&self, config: LogConfig) -> Result<LogConfig, String> {
///         Ok(config)
///     }
///
///     async fn send(&self, config: &LogConfig, notice: &AnyNotice) -> HandlerResult {
///         println!("{} {}", config.prefix, notice.raw_param());
///         Ok(())
///     }
/// }
///
/// # fn example(sweeper: SweeperBuilder) {
/// let sweeper = sweeper.channel(Log);
/// # }
/// ```
pub trait Channel: Send + Sync + 'static {
    /// The name that definitions have in the column `handler`.
    const NAME: &'static str;

    /// The shape of `handler_config`. Its documentation comments become the table of the book and the descriptions of
    /// [`schema`]. Fields check their own values when they are read, so that an error has the position of its field.
    type Config: DeserializeOwned + JsonSchema;

    /// A checked configuration with what is made of it once: a client, parsed addresses.
    type Prepared: Send + Sync + 'static;

    /// Checks what concerns several fields, and prepares the sending. It opens no connection, because it is also called to check a
    /// definition that is not stored yet.
    ///
    /// # Errors
    /// A text that names the fields, what is wrong, and what would be right.
    fn prepare(&self, config: Self::Config) -> Result<Self::Prepared, String>;

    /// Returns the secrets that a configuration names. A definition waits, where the program does not let its rows use one of them
    /// ([`AnyOutbox::use_secret_rules`](solid_notify_core::AnyOutbox::use_secret_rules)). The default has none.
    fn secrets(_prepared: &Self::Prepared) -> Vec<SecretRef> {
        Vec::new()
    }

    /// Delivers one notice, and reports the response of the receiver by [`Notice::set_response`].
    fn send(&self, prepared: &Self::Prepared, notice: &AnyNotice) -> impl Future<Output = HandlerResult> + Send;
}

/// Adds [`channel`](Self::channel) to the builder of a sweeper.
pub trait ChannelExt {
    /// Registers a channel as the handler [`Channel::NAME`].
    #[must_use]
    fn channel<C: Channel>(self, channel: C) -> Self;
}

impl ChannelExt for SweeperBuilder {
    fn channel<C: Channel>(self, channel: C) -> Self {
        self.handler_type(C::NAME, ReadyChannel::new(channel))
    }
}

/// Returns the JSON schema of a channel's `handler_config`, with a description of each field.
pub fn schema<C: Channel>() -> Schema {
    schema_for!(C::Config)
}

/// Returns the token by which the receiver acks this delivery; `None`: it need not ack.
///
/// # Errors
/// [`solid_notify_core::Error::TokenKeys`] if the program has no keys for tokens.
pub(crate) fn ack_token(notice: &AnyNotice) -> solid_notify_core::Result<Option<String>> {
    /// How long a token is valid after the time for its ack: a late ack still makes a success of a dead letter.
    const LATE: Duration = Duration::from_secs(30 * 86_400);
    /// For how long a token is valid where the wait has no limit.
    const WITHOUT_LIMIT: Duration = Duration::from_secs(10 * 365 * 86_400);

    let valid = |within: Duration| if within.is_zero() { WITHOUT_LIMIT } else { within.saturating_add(LATE) };
    let token = notice.ack_within().map(|within| notice.ack_token(valid(within))).transpose()?;
    hiding::note(&token.clone().map(SecretString::from));
    Ok(token)
}

/// The same, and `None` where the program has no keys: a receiver that is no consumer of a queue often acks in another way.
pub(crate) fn ack_token_if_keys(notice: &AnyNotice) -> Result<Option<String>, Failure> {
    match ack_token(notice) {
        Err(solid_notify_core::Error::TokenKeys { .. }) => Ok(None),
        token => Ok(token?),
    }
}

/// Returns a text for people as the notice has it: with a mark in front, if the notice is a test.
#[cfg(any(feature = "mail", feature = "plain-chat"))]
pub(crate) fn marked(text: String, notice: &AnyNotice) -> String {
    if notice.is_test() { format!("[test] {text}") } else { text }
}

/// How many secrets a row may name. They are read for each attempt, and each text of its receiver is searched for them.
const MOST_SECRETS: usize = 100;

/// A [`Channel`] as a [`Handler`].
struct ReadyChannel<C: Channel> {
    channel: C,
    prepared: Mutex<Preparations<C::Prepared>>,
    /// The configuration that was checked last. Its secrets are asked for next.
    checked: Mutex<Option<Kept<C::Prepared>>>,
}

/// What a channel prepared, and from which configuration.
struct Kept<P> {
    config: Option<String>,
    prepared: Arc<P>,
    /// When it was needed last.
    used: Instant,
}

impl<P> Kept<P> {
    fn new(config: Option<&str>, prepared: Arc<P>) -> Self {
        Self { config: config.map(str::to_owned), prepared, used: Instant::now() }
    }
}

/// What is prepared by definition, by its name, so that a changed configuration replaces the one before it.
struct Preparations<P>(HashMap<String, Kept<P>>);

/// How long it is kept without a notice. It may have connections, and its definition may not exist any more.
const UNUSED: Duration = Duration::from_secs(3600);

impl<P> Preparations<P> {
    /// Returns what was prepared of this configuration of a definition.
    fn get(&mut self, definition: &str, config: Option<&str>, now: Instant) -> Option<Arc<P>> {
        let kept = self.0.get_mut(definition).filter(|kept| kept.config.as_deref() == config)?;
        kept.used = now;
        Some(Arc::clone(&kept.prepared))
    }

    /// Keeps what was prepared, and forgets what is not used.
    fn keep(&mut self, definition: &str, kept: Kept<P>) {
        self.0.retain(|_, other| kept.used.saturating_duration_since(other.used) < UNUSED);
        self.0.insert(definition.to_owned(), kept);
    }
}

impl<C: Channel> ReadyChannel<C> {
    fn new(channel: C) -> Self {
        Self { channel, prepared: Mutex::new(Preparations(HashMap::new())), checked: Mutex::default() }
    }

    fn prepare(&self, handler_config: Option<&str>) -> Result<Arc<C::Prepared>, String> {
        let config = template::reading(|| read_config::<C::Config>(handler_config))?;
        let prepared = self.channel.prepare(config)?;
        let secrets = C::secrets(&prepared).len();
        if secrets > MOST_SECRETS {
            return Err(format!("it names {secrets} secrets; at most {MOST_SECRETS} are read for an attempt"));
        }
        Ok(Arc::new(prepared))
    }

    /// Returns what the channel prepared for the definition of this notice.
    fn prepared(&self, notice: &AnyNotice) -> Result<Arc<C::Prepared>, Failure> {
        let config = notice.handler_config();
        if let Some(prepared) = self.prepared.lock().get(notice.definition(), config, Instant::now()) {
            return Ok(prepared);
        }
        let prepared = self.prepare(config).map_err(|problem| Failure::retry(format!("handler_config: {problem}")))?;
        self.prepared.lock().keep(notice.definition(), Kept::new(config, Arc::clone(&prepared)));
        Ok(prepared)
    }
}

impl<C: Channel> Handler for ReadyChannel<C> {
    type Param = Box<RawValue>;

    fn check(&self, handler_config: Option<&str>) -> Result<(), String> {
        // Not while the channel prepares, because other definitions are checked meanwhile.
        let prepared = self.prepare(handler_config)?;
        *self.checked.lock() = Some(Kept::new(handler_config, prepared));
        Ok(())
    }

    fn secrets(&self, handler_config: Option<&str>) -> Vec<SecretRef> {
        let checked = self.checked.lock().take().filter(|kept| kept.config.as_deref() == handler_config);
        let prepared = checked.map_or_else(|| self.prepare(handler_config), |kept| Ok(kept.prepared));
        prepared.map(|prepared| C::secrets(&prepared)).unwrap_or_default()
    }

    async fn handle(&self, notice: AnyNotice) -> HandlerResult {
        let prepared = self.prepared(&notice)?;
        let attempt = self.channel.send(&prepared, &notice);
        #[cfg(any(
            feature = "amqp",
            feature = "mail",
            feature = "nats",
            feature = "plain-chat",
            feature = "plain-webhook",
            feature = "redis-streams"
        ))]
        let attempt = crate::lookup::of_attempt(&notice, attempt);
        hiding::of_attempt(attempt).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(serde::Deserialize, JsonSchema)]
    struct Config {
        key: String,
    }

    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Channel for Counting {
        const NAME: &'static str = "counting";
        type Config = Config;
        type Prepared = Config;

        fn prepare(&self, config: Config) -> Result<Config, String> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Ok(config)
        }

        fn secrets(config: &Config) -> Vec<SecretRef> {
            config.key.split(',').map(|key| key.parse().unwrap()).collect()
        }

        async fn send(&self, _config: &Config, _notice: &AnyNotice) -> HandlerResult {
            Ok(())
        }
    }

    #[test]
    fn preparation_that_no_notice_needs_for_long_is_forgotten() {
        let (mut kept, began) = (Preparations(HashMap::new()), Instant::now());
        let at = |used: Instant| Kept { used, ..Kept::new(Some("{}"), Arc::new(7)) };
        for definition in ["gone", "used"] {
            kept.keep(definition, at(began));
        }
        assert_eq!(kept.get("used", Some("{}"), began + UNUSED / 2).as_deref(), Some(&7));
        assert!(kept.get("used", Some("{ }"), began + UNUSED / 2).is_none(), "another configuration");
        kept.keep("new", at(began + UNUSED));
        let mut left: Vec<_> = kept.0.keys().map(String::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["new", "used"]);
    }

    #[test]
    fn configuration_is_prepared_once_to_be_checked_and_to_name_its_secrets() {
        let ready = ReadyChannel::new(Counting::default());
        let (first, second) = (r#"{"key":"env:NOTIFY_SECRET_A"}"#, r#"{"key":"env:NOTIFY_SECRET_B"}"#);
        ready.check(Some(first)).unwrap();
        assert_eq!(ready.secrets(Some(first))[0].to_string(), "env:NOTIFY_SECRET_A");
        assert_eq!(ready.channel.0.load(Ordering::SeqCst), 1);
        ready.check(Some(first)).unwrap();
        assert_eq!(ready.secrets(Some(second))[0].to_string(), "env:NOTIFY_SECRET_B", "of another definition");
    }

    #[test]
    fn row_names_at_most_a_hundred_secrets() {
        let check = |secrets: usize| {
            let config = format!(r#"{{"key":"{}"}}"#, vec!["env:NOTIFY_SECRET_A"; secrets].join(","));
            ReadyChannel::new(Counting::default()).check(Some(&config))
        };
        assert_eq!(check(100), Ok(()));
        assert_eq!(check(101).unwrap_err(), "it names 101 secrets; at most 100 are read for an attempt");
    }
}
