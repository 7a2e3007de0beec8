//! [`SecretRef`]: the name of a secret.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use super::file::read_regular;
use super::{ExposeSecret, SecretString};

/// The longest secret in a file, in bytes.
pub(super) const FILE_LIMIT: usize = 64 * 1024;

/// A reference to a secret: `env:NAME`, a variable of the sweeper's environment, or `file:/path`, a file on its host. As JSON it is
/// that text.
///
/// The versions of a definition keep each `handler_config` for ever, so a secret itself must not be there. A type that reads its
/// secrets as `SecretRef` refuses a literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRef(pub(super) Source);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    Env(String),
    File(PathBuf),
}

impl SecretRef {
    /// Returns the reference to a file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self(Source::File(path.into()))
    }

    /// Reads the secret, whatever it is, without the line break at the end of a file; [`ExposeSecret`] shows it. For references in the
    /// program's own configuration: a handler reads those of a row with `notice.secret`, which asks the program's [`SecretRules`]. Blocks as
    /// long as the file system does.
    ///
    /// # Errors
    /// [`SecretError`] names the reference that could not be read: a variable that is not set, an empty secret, a file that cannot be read,
    /// is no regular one, or has more than 64 KiB.
    ///
    /// [`ExposeSecret`]: super::ExposeSecret
    /// [`SecretRules`]: super::SecretRules
    pub fn read_unrestricted(&self) -> Result<SecretString, SecretError> {
        match &self.0 {
            Source::Env(name) => self.of_text(std::env::var(name).map_err(|error| self.failed(error))?),
            Source::File(path) => self.of_content(read_regular(path, FILE_LIMIT).map_err(|error| self.failed(error))?),
        }
    }

    /// Returns the secret that a file contains.
    pub(super) fn of_content(&self, content: Vec<u8>) -> Result<SecretString, SecretError> {
        if content.len() > FILE_LIMIT {
            return Err(self.failed(format!("it has more than {FILE_LIMIT} bytes")));
        }
        self.of_text(String::from_utf8(content).map_err(|_| self.failed("it is no text in UTF-8"))?)
    }

    fn of_text(&self, text: String) -> Result<SecretString, SecretError> {
        let secret = SecretString::from(text);
        let text = secret.expose_secret();
        let trimmed = text.strip_suffix('\n').map_or(text, |line| line.strip_suffix('\r').unwrap_or(line));
        if trimmed.is_empty() {
            return Err(self.failed("it is empty"));
        }
        Ok(SecretString::from(trimmed))
    }

    /// Returns whether it is a variable, which is read without waiting.
    pub(crate) fn is_variable(&self) -> bool {
        matches!(self.0, Source::Env(_))
    }

    pub(crate) fn failed(&self, why: impl fmt::Display) -> SecretError {
        SecretError { reference: self.to_string(), why: why.to_string() }
    }

    /// Returns the reference that a text contains; `None` for a literal.
    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once(':')?;
        match scheme {
            "env" if is_variable(rest) => Some(Self(Source::Env(rest.to_owned()))),
            "file" if rest.starts_with('/') && !rest.contains('\0') => Some(Self(Source::File(rest.into()))),
            _ => None,
        }
    }
}

/// Returns true for what every platform can have as the name of a variable.
fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl FromStr for SecretRef {
    type Err = String;

    /// The error does not contain the text, which may be the secret itself.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text).ok_or_else(|| "expected a reference to a secret, \"env:NAME\" or \"file:/path\"".to_owned())
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Env(name) => write!(f, "env:{name}"),
            Source::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

impl Serialize for SecretRef {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SecretRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reference)
    }
}

/// Reads a [`SecretRef`]. serde's own errors quote the value, which may be the secret, so every other value has this one.
struct Reference;

/// What serde writes behind "expected ".
const EXPECTED: &str = "a reference to a secret, \"env:NAME\" or \"file:/path\", because the versions of a definition \
                        would keep the secret itself for ever";

fn refused<T, E: serde::de::Error>() -> Result<T, E> {
    Err(E::custom(format_args!("expected {EXPECTED}")))
}

impl<'de> Visitor<'de> for Reference {
    type Value = SecretRef;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<SecretRef, E> {
        SecretRef::parse(text).map_or_else(refused, Ok)
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<SecretRef, E> {
        refused()
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<SecretRef, E> {
        refused()
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<SecretRef, E> {
        refused()
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<SecretRef, E> {
        refused()
    }
}

/// A secret could not be read: its variable or file is missing, unreadable or empty, or the program does not allow rows to use it.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the secret {reference:?}: {why}")]
#[non_exhaustive]
pub struct SecretError {
    /// The reference.
    pub reference: String,
    why: String,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::definition::read_config;

    fn problem(json: &str) -> String {
        read_config::<BTreeMap<String, SecretRef>>(Some(json)).err().unwrap()
    }

    #[test]
    fn literal_in_place_of_a_secret_is_refused_and_not_shown() {
        for literal in ["\"hunter2\"", "\"env:\"", "\"env:4711x\"", "\"file:4711\"", "4711", "-4711", "47.11", "true"] {
            let problem = problem(&format!("{{\"key\": {literal}}}"));
            assert!(problem.starts_with("key: expected a reference to a secret"), "{problem}");
            assert!(!problem.contains("hunter2") && !problem.contains("47"), "{problem}");
        }
        for shape in ["null", "[4711]", "{\"a\":4711}"] {
            let problem = problem(&format!("{{\"key\": {shape}}}"));
            assert!(problem.contains(", expected a reference to a secret, \"env:NAME\""), "{problem}");
            assert!(problem.starts_with("key: ") && !problem.contains("4711"), "{problem}");
        }
    }

    #[test]
    fn secrets_are_read_from_the_environment_and_from_files() {
        let read = |text: &str| SecretRef::parse(text).unwrap().read_unrestricted();
        assert_eq!(read("env:PATH").unwrap().expose_secret(), std::env::var("PATH").unwrap());
        let file = std::env::temp_dir().join(format!("secret-{}", std::process::id()));
        let reference = format!("file:{}", file.display());
        assert!(read(&reference).unwrap_err().to_string().starts_with("cannot read the secret \"file:/"));
        std::fs::write(&file, "hunter2\r\n").unwrap();
        assert_eq!(read(&reference).unwrap().expose_secret(), "hunter2");
        assert!(!format!("{:?}", read(&reference)).contains("hunter2"));
        std::fs::write(&file, "\n").unwrap();
        assert!(read(&reference).unwrap_err().to_string().ends_with("it is empty"));
        std::fs::write(&file, b"hunter2\xff").unwrap();
        let error = read(&reference).unwrap_err().to_string();
        assert!(error.ends_with("UTF-8") && !error.contains("hunter2"), "{error}");
        std::fs::remove_file(&file).unwrap();
    }
}
