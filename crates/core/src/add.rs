//! A notice to be added: the builder [`NewNotice`], and the checks before any SQL. [`crate::connection`] adds it.
//!
//! Everything that can be checked is checked before any SQL, so that a bad notice provokes no database error inside
//! the caller's transaction.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::built_in::problem_of_built_in;
use crate::cipher::{ParamCipher, is_encrypted};
use crate::error::{Error, Result};
use crate::notice::{LATEST_TIME, OwnLimits, duration_millis, millis_from_time, rfc3339};
use crate::param;
use crate::test_mark::problem_of_own_tag;
use crate::typed::DefinitionName;

/// A notice to be added, with all its optional properties.
///
/// ```
/// # use std::time::Duration;
/// # use solid_notify_core::{NewNotice, NoticeConnection, Result};
/// # async fn add(tx: &mut impl NoticeConnection) -> Result<()> {
/// let receipt = NewNotice::new("remind_customer", serde_json::json!({ "order": 7 }))?
///     .delay(Duration::from_secs(3600))
///     .description("first reminder")
///     .unique_until_ended("reminder-1 of order 7")
///     .add(tx)
///     .await?;
/// if receipt.is_duplicate() {
///     println!("the customer will be reminded already, by notice {}", receipt.id());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct NewNotice {
    pub(crate) name: String,
    pub(crate) param: String,
    pub(crate) send: SendTime,
    pub(crate) description: Option<String>,
    pub(crate) trace_context: Option<String>,
    pub(crate) ordering_key: Option<String>,
    pub(crate) dedupe_key: Option<String>,
    pub(crate) until_ended: bool,
    pub(crate) tag: Option<String>,
    own: OwnLimits,
    skipped: Option<String>,
    param_limit: usize,
    /// Encrypts the parameter, if its definition demands it: see [`crate::encrypting`].
    pub(crate) cipher: Option<Arc<dyn ParamCipher>>,
    /// The definition for which the parameter is encrypted.
    pub(crate) encrypted_for: Option<i64>,
}

/// When a notice is to be sent for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendTime {
    AtOnce,
    After(Duration),
    At(DateTime<Utc>),
}

/// The longest description in bytes: what the narrowest column holds.
pub const DESCRIPTION_LIMIT: usize = 65_535;
/// The longest name of a definition in characters.
const NAME_LIMIT: usize = 200;
/// The longest trace context in bytes: what the narrowest column holds.
const TRACE_CONTEXT_LIMIT: usize = 1000;
/// The longest reason for not sending a notice, in bytes.
const REASON_LIMIT: usize = 4096;
/// The greatest limit of tries: what the column holds.
const MOST_TRIES: i64 = i32::MAX as i64;
/// The longest ordering key, dedupe key or tag in characters.
pub const KEY_LIMIT: usize = 200;

impl NewNotice {
    /// Creates a notice of the definition `name`, due at once.
    ///
    /// # Errors
    /// [`Error::InvalidNotice`] where `param` cannot be written as JSON.
    pub fn new<P: Serialize>(name: impl DefinitionName<P>, param: P) -> Result<Self> {
        let name = name.into_name();
        let param = param::to_json(&name, &param)?;
        let (description, trace_context, ordering_key, dedupe_key) = (None, None, None, None);
        let (send, until_ended, own, skipped) = (SendTime::AtOnce, false, OwnLimits::default(), None);
        let param_limit = param::DEFAULT_PARAM_LIMIT;
        Ok(Self {
            name,
            param,
            send,
            description,
            trace_context,
            ordering_key,
            dedupe_key,
            until_ended,
            tag: None,
            own,
            skipped,
            param_limit,
            cipher: None,
            encrypted_for: None,
        })
    }

    /// Sets how many bytes of JSON its parameter may have, instead of 1 MiB, up to 16 MiB. The limit is for the parameter as it is given; encrypted, it
    /// has a third more and 100 bytes.
    #[must_use]
    pub fn param_limit(mut self, bytes: usize) -> Self {
        self.param_limit = bytes;
        self
    }

    /// Delays the first attempt by `delay`, counted by the database's clock from the insert.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.send = SendTime::After(delay);
        self
    }

    /// Sets the time of the first attempt; a past time means at once.
    #[must_use]
    pub fn at(mut self, time: DateTime<Utc>) -> Self {
        self.send = SendTime::At(time);
        self
    }

    /// Sets a description for people, at most 65,535 bytes. The handler may rewrite it.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    /// Sets the trace context (W3C `traceparent`), at most 1,000 bytes, which the handler receives. With the feature `otel` the
    /// default is the trace context of the current span.
    #[must_use]
    pub fn trace_context(mut self, context: impl Into<String>) -> Self {
        self.trace_context = Some(context.into());
        self
    }

    /// Sets an ordering key of one to 200 characters. Notices of one definition and ordering key are sent one at a time, in the
    /// order in which they were inserted. One that is delayed, retried or awaits its ack blocks those behind it until
    /// it has ended, in whatever way. Other keys are not affected.
    ///
    /// Transactions that overlap in time have no defined order. Their notices are sent one at a time, but a notice that is
    /// committed late can be sent after one that was inserted after it.
    #[must_use]
    pub fn ordering_key(mut self, key: impl Into<String>) -> Self {
        self.ordering_key = Some(key.into());
        self
    }

    /// Sets a dedupe key that lasts until the notice is claimed for its first attempt. While another notice of the definition has
    /// the key, adding this one inserts nothing and returns a [duplicate](crate::Receipt::is_duplicate). One to 200 characters.
    ///
    /// Choose it for "send the newest state", where the handler reads the state when it runs: no change is lost, because a
    /// notice that is being sent, or was sent, covers no later change. The notice that covers this one is not claimed before
    /// the caller's transaction has ended, so its handler reads what that transaction committed. Transactions that add the same
    /// key without a gap between them delay it.
    ///
    /// A dedupe key is a unique index: the insert waits while another transaction that inserted the same key is uncommitted.
    /// Under REPEATABLE READ or SERIALIZABLE the database may fail it with 40001 (retry the transaction). Use only one of the
    /// two kinds for a key, because the notice that has the key decides how long it keeps it.
    #[must_use]
    pub fn unique_until_claimed(mut self, key: impl Into<String>) -> Self {
        (self.dedupe_key, self.until_ended) = (Some(key.into()), false);
        self
    }

    /// Sets a dedupe key that lasts until the notice has ended (succeeded, cancelled or a dead letter). While another notice of
    /// the definition has the key, adding this one inserts nothing and returns a [duplicate](crate::Receipt::is_duplicate). One to 200 characters.
    ///
    /// Choose it for "do this once", a reminder for instance. It loses changes if the handler sends a state: a change made
    /// while the notice is being sent is not sent. See [`Self::unique_until_claimed`], also for the effects of the unique
    /// index.
    #[must_use]
    pub fn unique_until_ended(mut self, key: impl Into<String>) -> Self {
        (self.dedupe_key, self.until_ended) = (Some(key.into()), true);
        self
    }

    /// Sets its tag, of one to 200 characters: the object of the business that the notice is about, `"order:42"` for instance. Operators
    /// find and change notices by it, live and ended ([`Filter::tag`](crate::Filter::tag)). It has no effect on sending, and a mask does not
    /// hide it, so use no value that people must not see. Tags that begin with `notify:` belong to the library and are refused.
    ///
    /// ```
    /// # use solid_notify_core::{NewNotice, NoticeConnection, Result};
    /// # async fn add(tx: &mut impl NoticeConnection) -> Result<()> {
    /// NewNotice::new("remind_customer", serde_json::json!({ "order": 42 }))?.tag("order:42").add(tx).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// Sets how often this notice may be tried, 1 or more, instead of `1 + max_retry_times` of its definition. A rule of
    /// `retry_rules` for the class of the failure still applies.
    #[must_use]
    pub fn max_tries(mut self, tries: u32) -> Self {
        self.own.max_tries = Some(i64::from(tries));
        self
    }

    /// Sets the time from which on the notice is not sent, by the database's clock. A notice that was not delivered by then becomes a
    /// dead letter whose reason begins with "expired", and raises the alerts of a dead letter. A retry that would be due later ends
    /// it at once. An attempt that began before goes on, and its success counts.
    ///
    /// While its definition is paused, or an earlier notice blocks its ordering key, it waits; it expires when it is its turn.
    #[must_use]
    pub fn expires_at(mut self, time: DateTime<Utc>) -> Self {
        self.own.expires_at = Some(time);
        self
    }

    /// Adds the notice as one that must not be sent, for this reason, at most 4 KiB: it is in history from the commit on, cancelled. So a
    /// report shows what was left out and why, and an operator can send it with `retry`.
    ///
    /// Its dedupe key is stored for that `retry`, but it takes the key from no other notice, and is no duplicate of one.
    ///
    /// On a connection of sqlx it needs a transaction, as `outbox.begin()` and `pool.begin()` begin one.
    #[must_use]
    pub fn skipped(mut self, reason: impl Into<String>) -> Self {
        self.skipped = Some(reason.into());
        self
    }

    /// Sets the trace context to that of the current trace, unless one is set.
    pub(crate) fn within(mut self, trace: impl FnOnce() -> Option<String>) -> Self {
        self.trace_context = self.trace_context.or_else(trace);
        self
    }

    /// Checks everything that needs no database.
    #[doc(hidden)]
    pub fn check(&self) -> Result<()> {
        // No definition has such a name, and comparing it to every existing name could take long.
        if self.name.contains('\0') || self.name.chars().nth(NAME_LIMIT).is_some() {
            return Err(Error::UnknownDefinition { name: self.name.clone(), nearest: None });
        }
        for (part, text, limit) in [
            ("description", &self.description, DESCRIPTION_LIMIT),
            ("trace context", &self.trace_context, TRACE_CONTEXT_LIMIT),
            ("reason to skip it", &self.skipped, REASON_LIMIT),
        ] {
            let Some(text) = text else { continue };
            if text.len() > limit || text.contains('\0') {
                let problem = format!("its {part} has {} bytes; it may have {limit}, and no NUL character", text.len());
                return Err(Error::InvalidNotice { name: self.name.clone(), problem });
            }
        }
        let keys = [("ordering key", &self.ordering_key), ("dedupe key", &self.dedupe_key), ("tag", &self.tag)];
        let of_keys = keys.into_iter().find_map(|(part, key)| problem_of_key(part, key.as_deref()?));
        let of_keys = of_keys.or_else(|| problem_of_own_tag(self.tag.as_deref()?));
        let problem = of_keys.map(|problem| format!("its {problem}"));
        let problem = problem.or_else(|| problem_of_built_in(&self.name)).or_else(|| self.problem_of_limits());
        if let Some(problem) = problem {
            return Err(Error::InvalidNotice { name: self.name.clone(), problem });
        }
        if self.encrypted_for.is_some() {
            return Ok(());
        }
        if is_encrypted(&self.param) {
            let problem = "its parameter begins with the member \"$encrypted\", which marks encrypted ones; give the member another name";
            return Err(Error::InvalidNotice { name: self.name.clone(), problem: problem.to_owned() });
        }
        param::check(&self.name, &self.param, self.param_limit)
    }

    fn problem_of_limits(&self) -> Option<String> {
        if self.own.max_tries.is_some_and(|tries| !(1..=MOST_TRIES).contains(&tries)) {
            return Some(format!(
                "its max_tries must be 1 to {MOST_TRIES}; to add it without sending it, use `skipped`"
            ));
        }
        match self.send {
            SendTime::At(at) if self.own.is_expired(at) => {
                let expires_at = self.own.expires_at.map(rfc3339).unwrap_or_default();
                Some(format!("it expires at {expires_at}, before its first attempt at {}", rfc3339(at)))
            }
            _ => None,
        }
    }

    /// Returns the name of its definition.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the parameter as JSON text.
    pub fn param_json(&self) -> &str {
        &self.param
    }

    /// Returns the description.
    pub fn description_text(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Returns the trace context.
    pub fn trace_context_text(&self) -> Option<&str> {
        self.trace_context.as_deref()
    }

    /// Returns the ordering key.
    pub fn ordering_key_text(&self) -> Option<&str> {
        self.ordering_key.as_deref()
    }

    /// Returns the dedupe key.
    pub fn dedupe_key_text(&self) -> Option<&str> {
        self.dedupe_key.as_deref()
    }

    /// Returns the tag.
    pub fn tag_text(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the dedupe key that it takes: none if it is added as skipped, because such a notice is never live.
    pub fn taken_key_text(&self) -> Option<&str> {
        self.dedupe_key_text().filter(|_| self.skipped.is_none())
    }

    /// Returns true if its dedupe key lasts until it has ended, false if it lasts until its first claim or there is none.
    pub fn is_unique_until_ended(&self) -> bool {
        self.until_ended
    }

    /// Returns its own limits.
    pub fn own_limits(&self) -> OwnLimits {
        self.own
    }

    /// Returns its expiry in milliseconds since 1970.
    pub fn expires_millis(&self) -> Option<i64> {
        self.own.expires_at.map(|time| millis_from_time(time).clamp(0, LATEST_TIME))
    }

    /// Returns why it must not be sent, if it is added as skipped.
    pub fn skip_reason(&self) -> Option<&str> {
        self.skipped.as_deref()
    }

    /// Returns true if only its name and parameter are set.
    pub fn is_bare(&self) -> bool {
        let texts =
            [&self.description, &self.trace_context, &self.ordering_key, &self.dedupe_key, &self.tag, &self.skipped];
        self.is_due_at_once() && self.own == OwnLimits::default() && texts.into_iter().all(Option::is_none)
    }

    /// Returns true if it is due as soon as it is committed. A skipped one never is.
    pub fn is_due_at_once(&self) -> bool {
        self.send == SendTime::AtOnce && self.skipped.is_none()
    }

    /// Returns true if it becomes due before the next sweep. Uses this process's clock, because only a hint depends on it.
    pub fn is_due_soon(&self) -> bool {
        let soon = Duration::from_secs(2);
        match self.send {
            _ if self.skipped.is_some() => false,
            SendTime::AtOnce => true,
            SendTime::After(delay) => delay <= soon,
            SendTime::At(time) => time <= Utc::now() + soon,
        }
    }

    /// Returns when to send it, in milliseconds: an absolute time since 1970, or else a delay from the insert.
    pub fn send_millis(&self) -> (Option<i64>, i64) {
        match self.send {
            SendTime::AtOnce => (None, 0),
            SendTime::After(delay) => (None, duration_millis(delay.min(crate::retry::MAX_DELAY))),
            SendTime::At(time) => (Some(millis_from_time(time).clamp(0, LATEST_TIME)), 0),
        }
    }
}

/// Returns what is wrong with a key or a tag, as a text that begins with its name `part`.
pub(crate) fn problem_of_key(part: &str, key: &str) -> Option<String> {
    let length = key.chars().count();
    let is_bad = length == 0 || length > KEY_LIMIT || key.contains('\0');
    is_bad.then(|| format!("{part} has {length} characters; it may have 1 to {KEY_LIMIT}, and no NUL character"))
}

/// Returns the known name that is most similar to `name`, if one is similar enough.
pub fn nearest_name<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let scored = known.into_iter().map(|other| (strsim::damerau_levenshtein(name, other), other));
    let (distance, nearest) = scored.min()?;
    (distance <= name.chars().count().div_ceil(2).max(2)).then(|| nearest.to_owned())
}

#[cfg(test)]
#[path = "add_tests.rs"]
mod tests;
