//! The column `handler_config`: reading it into a type of the handler, and secrets, which it contains only by reference.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

pub use secrecy::{ExposeSecret, SecretString};
use serde::de::{DeserializeOwned, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

/// Reads a `handler_config` as JSON into `C`; no configuration reads as `{}`. For [`Handler::check`] and for handlers.
///
/// [`Handler::check`]: https://docs.rs/solid-notify/latest/solid_notify/trait.Handler.html#method.check
///
/// ```
/// use serde::Deserialize;
/// use solid_notify_core::definition::{SecretRef, read_config};
///
/// #[derive(Deserialize)]
/// #[serde(deny_unknown_fields)]
/// struct Config {
///     url: String,
///     api_key: SecretRef,
/// }
///
/// let config: Config = read_config(Some(r#"{"url":"https://omp.example.org","api_key":"env:OMP_KEY"}"#))?;
/// assert_eq!(config.api_key.to_string(), "env:OMP_KEY");
///
/// let problem = read_config::<Config>(Some(r#"{"url":"https://omp.example.org","api_key":"hunter2"}"#)).err().unwrap();
/// assert!(problem.starts_with("api_key: expected a reference to a secret"), "{problem}");
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
/// A text with the field, what is wrong, and the position. It never contains the value of a [`SecretRef`].
pub fn read_config<C: DeserializeOwned>(config: Option<&str>) -> Result<C, String> {
    let mut json = serde_json::Deserializer::from_str(config.unwrap_or("{}"));
    let read =
        serde_path_to_error::deserialize(&mut json).map_err(|error| match error.path().to_string().as_str() {
            "." => error.inner().to_string(),
            path => format!("{path}: {}", error.inner()),
        })?;
    json.end().map_err(|error| error.to_string())?;
    Ok(read)
}

/// A reference to a secret: `env:NAME`, a variable of the sweeper's environment, or `file:/path`, a file on its host. As JSON it is
/// that text.
///
/// The versions of a definition keep each `handler_config` for ever, so a secret itself must not be there. A type that reads its
/// secrets as `SecretRef` refuses a literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRef(Source);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Env(String),
    File(PathBuf),
}

impl SecretRef {
    /// Reads the secret, without the line break at the end of a file; [`ExposeSecret`] shows it. Handlers read it in each attempt, so that a changed file
    /// needs no restart.
    ///
    /// # Errors
    /// [`SecretError`] names the reference that could not be read.
    pub fn read(&self) -> Result<SecretString, SecretError> {
        let failed = |why: String| SecretError { reference: self.to_string(), why };
        let secret = match &self.0 {
            Source::Env(name) => std::env::var(name).map_err(|error| failed(error.to_string()))?,
            Source::File(path) => std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?,
        };
        let secret = SecretString::from(secret);
        let text = secret.expose_secret();
        let trimmed = text.strip_suffix('\n').map_or(text, |line| line.strip_suffix('\r').unwrap_or(line));
        if trimmed.is_empty() {
            return Err(failed("it is empty".to_owned()));
        }
        Ok(SecretString::from(trimmed))
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

const EXPECTED: &str = "expected a reference to a secret, \"env:NAME\" or \"file:/path\", because the versions of a definition \
                        would keep the secret itself for ever";

impl<'de> Visitor<'de> for Reference {
    type Value = SecretRef;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<SecretRef, E> {
        SecretRef::parse(text).ok_or_else(|| E::custom(EXPECTED))
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<SecretRef, E> {
        Err(E::custom(EXPECTED))
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<SecretRef, E> {
        Err(E::custom(EXPECTED))
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<SecretRef, E> {
        Err(E::custom(EXPECTED))
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<SecretRef, E> {
        Err(E::custom(EXPECTED))
    }
}

/// A secret could not be read: its variable or file is missing, unreadable or empty.
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
    use super::*;
    use std::collections::BTreeMap;

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
            assert!(problem.contains("\"env:NAME\"") && !problem.contains("4711"), "{problem}");
        }
    }

    #[test]
    fn config_error_names_the_field_and_the_position() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Config {
            #[allow(dead_code)]
            url: Option<String>,
        }
        let error = |json| read_config::<Config>(Some(json)).err().unwrap();
        assert_eq!(error("{\"url\": 1}"), "url: invalid type: integer `1`, expected a string at line 1 column 9");
        assert!(error("{\"ulr\": \"x\"}").contains("unknown field `ulr`, expected `url`"));
        assert!(error("{} x").contains("trailing characters at line 1 column 4"));
        assert!(read_config::<Config>(None).is_ok());
    }

    #[test]
    fn secrets_are_read_from_the_environment_and_from_files() {
        let read = |text: &str| SecretRef::parse(text).unwrap().read();
        assert_eq!(read("env:PATH").unwrap().expose_secret(), std::env::var("PATH").unwrap());
        let file = std::env::temp_dir().join(format!("secret-{}", std::process::id()));
        let reference = format!("file:{}", file.display());
        assert!(read(&reference).unwrap_err().to_string().starts_with("cannot read the secret \"file:/"));
        std::fs::write(&file, "hunter2\r\n").unwrap();
        assert_eq!(read(&reference).unwrap().expose_secret(), "hunter2");
        assert!(!format!("{:?}", read(&reference)).contains("hunter2"));
        std::fs::write(&file, "\n").unwrap();
        assert!(read(&reference).unwrap_err().to_string().ends_with("it is empty"));
        std::fs::remove_file(&file).unwrap();
    }
}
