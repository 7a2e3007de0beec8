//! Ack tokens: a handler puts one into its message, so that the receiver can ack or nack without further data.
//!
//! A token contains the notice and the fence of the attempt that it is valid for, and its expiry, signed with HMAC-SHA-256. It contains no
//! secret. A receiver with a token can ack or nack this notice, and no other. The time of the notice's insert and the random number of its
//! store are signed, too, so that a store rejects the tokens of another one with the same secret.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::ack::{Reply, ReplyKind};
use crate::error::{Error, Result};
use crate::notice::{duration_millis, millis_from_time, time_from_millis};

/// The secrets that tokens are signed with: one that signs, and older ones that are still accepted.
///
/// To rotate: first let every process accept the new secret, then sign with it, then remove the old one when its last token has
/// expired.
///
/// ```
/// use solid_notify_core::TokenKeys;
/// let keys = TokenKeys::new(b"of this month: 32 bytes or more!")?.accept(b"of last month: 32 bytes or more!")?;
/// # Ok::<_, solid_notify_core::Error>(())
/// ```
#[derive(Clone)]
pub struct TokenKeys {
    /// The first one signs.
    keys: Vec<TokenKey>,
}

#[derive(Clone)]
struct TokenKey {
    /// Identifies the key that signed a token, and reveals nothing of the key.
    name: [u8; 4],
    secret: Vec<u8>,
}

impl std::fmt::Debug for TokenKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenKeys").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

/// The content of a verified token: an attempt of one notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AckToken {
    /// The id of the notice.
    pub id: i64,
    /// The fence of the attempt.
    pub fence: i64,
    /// When the notice was added, so that another notice with its id, of another database for instance, is not acked.
    pub created: DateTime<Utc>,
    /// The number of the store that has the notice; `None`: the node that signed it did not know the number yet.
    pub store: Option<i64>,
}

impl AckToken {
    /// Creates the content of a token.
    #[doc(hidden)]
    pub fn new(id: i64, fence: i64, created: DateTime<Utc>) -> Self {
        Self { id, fence, created, store: None }
    }

    /// Returns the ack of this attempt.
    pub fn ack(&self) -> Reply {
        Reply { fence: Some(self.fence), added_at: Some(self.created), store: self.store, ..Reply::ack(self.id) }
    }

    /// Returns the nack of this attempt, for this reason.
    pub fn nack(&self, reason: impl Into<String>) -> Reply {
        Reply { kind: ReplyKind::Nack(reason.into()), ..self.ack() }
    }
}

/// The minimum length of a secret in bytes.
const SECRET_BYTES: usize = 32;
/// The version of the token format.
const VERSION: u8 = 1;
/// Version, name of the key, id, fence, expiry, time of the insert, number of the store.
const SIGNED_BYTES: usize = 1 + 4 + 8 + 8 + 8 + 8 + 8;
/// Stands for a number of the store that the signer did not know.
const NO_STORE: i64 = 0;

impl TokenKeys {
    /// Creates keys that sign with `secret`: 32 random bytes or more, the same in every process.
    ///
    /// # Errors
    /// [`Error::TokenKeys`] for a secret that is too short.
    pub fn new(secret: &[u8]) -> Result<Self> {
        Ok(Self { keys: vec![TokenKey::new(secret)?] })
    }

    /// Also accepts tokens signed with `secret`.
    ///
    /// # Errors
    /// [`Error::TokenKeys`] for a secret that is too short.
    pub fn accept(mut self, secret: &[u8]) -> Result<Self> {
        self.keys.push(TokenKey::new(secret)?);
        Ok(self)
    }

    /// Signs a token that is valid for `valid` from `now` on.
    pub(crate) fn sign(&self, token: AckToken, valid: Duration, now: DateTime<Utc>) -> Option<String> {
        let key = self.keys.first()?;
        let expires = millis_from_time(now).saturating_add(duration_millis(valid));
        let mut bytes = Vec::with_capacity(SIGNED_BYTES + 32);
        bytes.push(VERSION);
        bytes.extend(key.name);
        let store = token.store.unwrap_or(NO_STORE);
        for number in [token.id, token.fence, expires, millis_from_time(token.created), store] {
            bytes.extend(number.to_be_bytes());
        }
        let signature = key.mac(&bytes)?.finalize().into_bytes();
        bytes.extend(signature);
        Some(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Checks a token and returns its signed values.
    pub(crate) fn read(&self, token: &str, now: DateTime<Utc>) -> Result<AckToken> {
        let malformed = || Error::Token { problem: "it is not a token of this library, or it is incomplete" };
        let bytes = URL_SAFE_NO_PAD.decode(token.trim()).map_err(|_| malformed())?;
        let (signed, signature) = bytes.split_at_checked(SIGNED_BYTES).ok_or_else(malformed)?;
        if signed.first() != Some(&VERSION) {
            return Err(malformed());
        }
        let key = self.keys.iter().find(|key| signed.get(1..5) == Some(&key.name[..]));
        let key = key.ok_or(Error::Token { problem: "it was signed with a secret that is not accepted here" })?;
        let mac = key.mac(signed).ok_or_else(malformed)?;
        // Compares in constant time.
        mac.verify_slice(signature).map_err(|_| Error::Token { problem: "its signature is wrong" })?;
        let number = |at: usize| signed.get(at..at + 8)?.try_into().ok().map(i64::from_be_bytes);
        let numbers = [number(5), number(13), number(21), number(29), number(37)];
        let [Some(id), Some(fence), Some(expires), Some(created), Some(store)] = numbers else {
            return Err(malformed());
        };
        if millis_from_time(now) >= expires {
            return Err(Error::Token { problem: "it has expired" });
        }
        let store = (store != NO_STORE).then_some(store);
        Ok(AckToken { id, fence, created: time_from_millis(created), store })
    }
}

impl TokenKey {
    fn new(secret: &[u8]) -> Result<Self> {
        if secret.len() < SECRET_BYTES {
            return Err(Error::TokenKeys { problem: "a secret is too short: 32 random bytes or more are needed" });
        }
        let digest = Sha256::digest([b"solid-notify key name", secret].concat());
        let mut name = [0; 4];
        name.copy_from_slice(&digest[..4]);
        Ok(Self { name, secret: secret.to_vec() })
    }

    fn mac(&self, signed: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).ok()?;
        mac.update(signed);
        Some(mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: DateTime<Utc> = DateTime::UNIX_EPOCH;
    const ADDED: DateTime<Utc> = DateTime::UNIX_EPOCH;
    const HOUR: Duration = Duration::from_secs(3600);
    const TOKEN: AckToken = AckToken { id: 7, fence: 3, created: ADDED, store: Some(-9) };

    fn keys(seed: u8) -> TokenKeys {
        TokenKeys::new(&[seed; 32]).unwrap()
    }

    fn problem(read: Result<AckToken>) -> String {
        read.unwrap_err().to_string()
    }

    #[test]
    fn a_token_says_what_was_signed_until_it_expires() {
        let token = keys(1).sign(TOKEN, HOUR, NOW).unwrap();
        assert_eq!(keys(1).read(&token, NOW).unwrap(), TOKEN);
        let of_no_store = AckToken { store: None, ..TOKEN };
        assert_eq!(keys(1).read(&keys(1).sign(of_no_store, HOUR, NOW).unwrap(), NOW).unwrap(), of_no_store);
        assert_eq!(keys(1).read(&token, NOW + HOUR - Duration::from_millis(1)).unwrap(), TOKEN);
        assert!(problem(keys(1).read(&token, NOW + HOUR)).contains("expired"));
        assert!(token.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)), "fit for a URL: {token}");
    }

    #[test]
    fn keys_rotate() {
        let old = keys(1).sign(TOKEN, HOUR, NOW).unwrap();
        let both = keys(2).accept(&[1; 32]).unwrap();
        assert_eq!(both.read(&old, NOW).unwrap(), TOKEN);
        let new = both.sign(TOKEN, HOUR, NOW).unwrap();
        assert_eq!(keys(2).read(&new, NOW).unwrap(), TOKEN, "the first one signs");
        assert!(problem(keys(2).read(&old, NOW)).contains("not accepted"));
    }

    #[test]
    fn a_short_secret_is_refused() {
        assert!(TokenKeys::new(b"secret").unwrap_err().to_string().contains("32"));
    }

    #[test]
    fn no_changed_byte_is_accepted() {
        let token = keys(1).sign(TOKEN, HOUR, NOW).unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
        for at in 0..bytes.len() {
            let mut forged = bytes.clone();
            forged[at] ^= 1;
            assert!(keys(1).read(&URL_SAFE_NO_PAD.encode(&forged), NOW).is_err(), "byte {at}");
        }
        for length in 0..bytes.len() {
            assert!(keys(1).read(&URL_SAFE_NO_PAD.encode(&bytes[..length]), NOW).is_err(), "{length} bytes");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in ".*") {
            prop_assert!(keys(1).read(&text, NOW).is_err());
        }
    }
}
