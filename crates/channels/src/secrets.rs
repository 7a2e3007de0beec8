//! [`Secrets`]: the secrets that a configuration names, as one attempt uses them.

use solid_notify_core::ErrorClass;
use solid_notify_core::definition::{SecretRef, SecretString};
use solid_notify_core::secret::{Destination, SecretError, SecretRules};
use solid_notify_sweeper::Failure;

use crate::channel::AnyNotice;
use crate::hiding;

/// The secrets of an attempt, which the program lets its definition use ([`AnyOutbox::use_secret_rules`]).
///
/// [`AnyOutbox::use_secret_rules`]: solid_notify_core::AnyOutbox::use_secret_rules
pub struct Secrets<'a> {
    notice: &'a AnyNotice,
    read: Vec<(SecretRef, SecretString)>,
}

impl<'a> Secrets<'a> {
    /// Reads secrets. Where they are sent is checked by [`Self::check_host`].
    ///
    /// # Errors
    /// One that the definition may not use, or that cannot be read.
    pub async fn read(notice: &'a AnyNotice, references: Vec<SecretRef>) -> Result<Self, Failure> {
        let engine = notice.outbox().engine();
        let read = engine.secrets(notice.definition(), references.clone(), Destination::Later).await?;
        // No response and no failure of the attempt shows them.
        hiding::note(&read);
        Ok(Self { notice, read: references.into_iter().zip(read).collect() })
    }

    /// Returns one of them.
    ///
    /// # Errors
    /// It is none of them: a channel forgot it in [`crate::Channel::secrets`].
    pub fn get(&self, reference: &SecretRef) -> Result<&SecretString, Failure> {
        let found = self.read.iter().find(|(known, _)| known == reference).map(|(_, secret)| secret);
        found.ok_or_else(|| Failure::retry(format!("the secret {reference} was not read")))
    }

    /// Checks that they may be sent to a host that the row names itself.
    ///
    /// # Errors
    /// The notice waits, because the next one would have the same host, and another node may allow it.
    pub(crate) fn admit<'r>(
        &self,
        host: &str,
        references: impl IntoIterator<Item = &'r SecretRef>,
    ) -> Result<(), Failure> {
        self.check(host, references).map_err(|refused| Failure::wait(format!("handler_config: {refused}")))
    }

    /// The same of all of them.
    ///
    /// # Errors
    /// As [`Self::admit`].
    pub(crate) fn admit_all(&self, host: &str) -> Result<(), Failure> {
        self.admit(host, self.read.iter().map(|(reference, _)| reference))
    }

    /// Returns whether all of them may be sent to a host, as a function for hosts that a server names later.
    #[cfg(feature = "redis-streams")]
    pub(crate) fn admission(&self) -> impl Fn(&str) -> Result<(), SecretError> + Send + Sync + 'static {
        let (rules, definition) = (self.notice.outbox().engine().secret_rules(), self.notice.definition().to_owned());
        let references: Vec<SecretRef> = self.read.iter().map(|(reference, _)| reference.clone()).collect();
        move |host| check(&rules, &definition, host, &references)
    }

    /// Checks that all of them may be sent to a host.
    ///
    /// # Errors
    /// As [`Self::check_host`].
    pub fn check_all(&self, host: &str) -> Result<(), Failure> {
        self.check_host(host, self.read.iter().map(|(reference, _)| reference))
    }

    /// Checks that these may be sent to a host.
    ///
    /// # Errors
    /// A failure of the class `invalid` names the secret and the host.
    pub fn check_host<'r>(
        &self,
        host: &str,
        references: impl IntoIterator<Item = &'r SecretRef>,
    ) -> Result<(), Failure> {
        self.check(host, references).map_err(|refused| Failure::retry(refused).class(ErrorClass::Invalid))
    }

    fn check<'r>(&self, host: &str, references: impl IntoIterator<Item = &'r SecretRef>) -> Result<(), SecretError> {
        check(&self.notice.outbox().engine().secret_rules(), self.notice.definition(), host, references)
    }
}

/// Checks that a definition may send these secrets to a host.
fn check<'r>(
    rules: &SecretRules,
    definition: &str,
    host: &str,
    references: impl IntoIterator<Item = &'r SecretRef>,
) -> Result<(), SecretError> {
    let mut references = references.into_iter();
    references.try_for_each(|reference| rules.check(definition, reference, Destination::Host(host)))
}
