//! The column `handler_config`: reading it into a type of the handler.

use serde::de::DeserializeOwned;

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
/// A text with the field, what is wrong, and the position. It never contains the value of a [`SecretRef`](super::SecretRef).
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

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

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
}
