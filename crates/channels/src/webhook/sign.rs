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

/// The keys of a request.
pub(super) struct Signer(Vec<Hmac<Sha256>>);

/// Reads keys.
///
/// # Errors
/// A secret that is no key.
pub(super) fn signer(keys: &[SecretRef], secrets: &Secrets<'_>) -> Result<Signer, Failure> {
    let mut signer = Vec::with_capacity(keys.len());
    for reference in keys {
        let secret = secrets.get(reference)?;
        let text = secret.expose_secret();
        let key = STANDARD.decode(text.strip_prefix(PREFIX).unwrap_or(text)).ok().filter(|key| !key.is_empty());
        let Some(mac) = key.and_then(|key| Hmac::<Sha256>::new_from_slice(&key).ok()) else {
            let problem = format!(
                "handler_config: signing_keys: the secret \"{reference}\" is not `{PREFIX}` with Base64 behind it"
            );
            return Err(Failure::retry(problem));
        };
        signer.push(mac);
    }
    Ok(Signer(signer))
}

impl Signer {
    /// Returns the value of the header `webhook-signature`: a signature for each key, separated by a space. A receiver accepts a request when
    /// one of them fits, so both keys are listed while a key is replaced. It takes long for a large body.
    pub(super) fn sign(self, id: &str, seconds: i64, body: &[u8]) -> String {
        let sign = |mut mac: Hmac<Sha256>| {
            mac.update(format!("{id}.{seconds}.").as_bytes());
            mac.update(body);
            format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
        };
        self.0.into_iter().map(sign).collect::<Vec<_>>().join(" ")
    }
}
