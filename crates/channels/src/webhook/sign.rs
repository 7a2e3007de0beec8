//! The signature of Standard Webhooks: HMAC-SHA256 over id, time and body, one for each key.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use solid_notify_core::definition::{ExposeSecret, SecretRef};
use solid_notify_sweeper::Failure;

use crate::secrets::Secrets;

/// The prefix of a key in text form.
const PREFIX: &str = "whsec_";

/// Returns the value of the header `webhook-signature`: a signature for each key, separated by a space. A receiver accepts a request when
/// one of them fits, so both keys are listed while a key is replaced.
///
/// # Errors
/// A secret that is no key.
pub(super) fn signatures(
    keys: &[SecretRef],
    secrets: &Secrets<'_>,
    (id, seconds): (&str, i64),
    body: &[u8],
) -> Result<String, Failure> {
    let mut signatures = Vec::with_capacity(keys.len());
    for reference in keys {
        let secret = secrets.get(reference)?;
        let text = secret.expose_secret();
        let key = STANDARD.decode(text.strip_prefix(PREFIX).unwrap_or(text)).ok().filter(|key| !key.is_empty());
        let Some(mut mac) = key.and_then(|key| Hmac::<Sha256>::new_from_slice(&key).ok()) else {
            let problem = format!(
                "handler_config: signing_keys: the secret \"{reference}\" is not `{PREFIX}` with Base64 behind it"
            );
            return Err(Failure::retry(problem));
        };
        mac.update(format!("{id}.{seconds}.").as_bytes());
        mac.update(body);
        signatures.push(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())));
    }
    Ok(signatures.join(" "))
}
