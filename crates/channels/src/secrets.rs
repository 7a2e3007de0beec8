//! [`Secrets`]: the secrets that a configuration names, as one attempt uses them.

use solid_notify_core::ErrorClass;
use solid_notify_core::definition::{SecretRef, SecretString};
use solid_notify_core::secret::Destination;
use solid_notify_sweeper::Failure;

use crate::channel::AnyNotice;

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
        let rules = self.notice.outbox().engine().secret_rules();
        for reference in references {
            rules
                .check(self.notice.definition(), reference, Destination::Host(host))
                .map_err(|refused| Failure::retry(refused).class(ErrorClass::Invalid))?;
        }
        Ok(())
    }
}
