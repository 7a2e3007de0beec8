//! [`Secret`]: a secret that was read by its reference, `env:NAME` or `file:/path`.

use solid_notify::definition::{ExposeSecret, SecretRef, SecretString};

/// The value of a secret. Two are equal if their values are, so that a new value in a file is a change.
#[derive(Debug, Clone)]
pub(crate) struct Secret(SecretString);

impl Secret {
    pub(crate) fn new(value: impl Into<String>) -> Self {
        Self(SecretString::from(value.into()))
    }

    pub(crate) fn value(&self) -> &str {
        self.0.expose_secret()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.value() == other.value()
    }
}

/// Reads a secret by its reference.
pub(crate) fn read_secret(reference: &str) -> Result<Secret, String> {
    let reference: SecretRef = reference.parse()?;
    reference.read_unrestricted().map(Secret).map_err(|error| error.to_string())
}
