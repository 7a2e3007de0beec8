//! [`ParamKeys`]: the ready cipher, XChaCha20-Poly1305 of the crate `chacha20poly1305`.
//!
//! Its nonces have 192 random bits, so processes that share a key need no counter.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead, Generate, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use secrecy::{ExposeSecret, SecretSlice};

use crate::cipher::{CipherError, Ciphertext, ParamCipher};
use crate::definition::SecretRef;
use crate::error::{Error, Result};

/// The length of a key in bytes.
const KEY_BYTES: usize = 32;
/// The length of the check value of a key in bytes. It stands before and behind what a key encrypted, so that neither a changed nor a cut text
/// looks like that of another key.
const CHECK_BYTES: usize = 4;
/// The length of a nonce in bytes.
const NONCE_BYTES: usize = 24;
/// The longest id of a key in bytes.
const ID_LIMIT: usize = 100;

/// Keys of parameters: one that encrypts, and older ones that still decrypt. The cipher is XChaCha20-Poly1305.
///
/// To rotate: first let every process accept the new key, then encrypt with it, then remove the old one when no stored notice has its id.
///
/// ```
/// use solid_notify_core::param_keys::{ParamKey, ParamKeys};
///
/// # let file = std::env::temp_dir().join(format!("param-key-{}", std::process::id()));
/// # std::fs::write(&file, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n").unwrap();
/// # let reference = format!("file:{}", file.display());
/// # let bytes_of_last_year = [7; 32];
/// // `reference` is "env:NAME" or "file:/path" of 32 random bytes in Base64: `openssl rand -base64 32`.
/// let keys = ParamKeys::new("2026", ParamKey::read(&reference)?)?
///     .accept("2025", ParamKey::new(&bytes_of_last_year)?)?;
/// assert_eq!(format!("{keys:?}"), r#"ParamKeys { encrypts: "2026", accepts: ["2025"] }"#);
/// # std::fs::remove_file(&file).unwrap();
/// # Ok::<_, solid_notify_core::Error>(())
/// ```
pub struct ParamKeys {
    /// With their ids. The first one encrypts.
    keys: Vec<(String, ParamKey)>,
}

/// A key of parameters: 32 random bytes. Dropped, it is overwritten.
pub struct ParamKey {
    cipher: XChaCha20Poly1305,
    /// Differs between keys, and says nothing of the key.
    check: [u8; CHECK_BYTES],
}

impl fmt::Debug for ParamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ParamKey")
    }
}

impl ParamKey {
    /// Creates a key of 32 random bytes.
    ///
    /// # Errors
    /// [`Error::ParamKeys`] for another length.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        let wrong = |_| refused(format!("a key has {} bytes; it must have {KEY_BYTES} random ones", bytes.len()));
        let cipher = XChaCha20Poly1305::new_from_slice(bytes).map_err(wrong)?;
        // The tag of nothing, by a nonce that no parameter gets: nonces of parameters are random.
        let payload = Payload { msg: b"", aad: b"solid-notify: the check value of a key" };
        let tag = cipher.encrypt(&XNonce::default(), payload).unwrap_or_default();
        let check = tag.first_chunk().copied().unwrap_or_default();
        Ok(Self { cipher, check })
    }

    /// Reads a key in Base64 from `env:NAME`, a variable of the environment, or from `file:/path`. `openssl rand -base64 32` prints a new one.
    ///
    /// # Errors
    /// [`Error::ParamKeys`] names the reference and what is wrong, and contains nothing of the key.
    pub fn read(reference: &str) -> Result<Self> {
        let secret: SecretRef =
            reference.parse().map_err(|problem| refused(format!("a key cannot be read: {problem}")))?;
        let text = secret.read_unrestricted().map_err(|error| refused(error.to_string()))?;
        let expected = "expected 32 random bytes in Base64, as `openssl rand -base64 32` prints them";
        let wrong = |what: String| refused(format!("the key of {reference:?} {what}; {expected}"));
        let bytes = STANDARD.decode(text.expose_secret().trim()).map_err(|_| wrong("is not Base64".to_owned()))?;
        // Overwritten when it is dropped.
        let bytes = SecretSlice::from(bytes);
        let length = bytes.expose_secret().len();
        Self::new(bytes.expose_secret()).map_err(|_| wrong(format!("has {length} bytes")))
    }
}

impl fmt::Debug for ParamKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = self.ids();
        let (encrypts, accepts) = (ids.first(), ids.get(1..).unwrap_or_default());
        f.debug_struct("ParamKeys")
            .field("encrypts", &encrypts.map_or("", String::as_str))
            .field("accepts", &accepts)
            .finish()
    }
}

impl ParamKeys {
    /// Creates keys that encrypt with `key`. Its `id` is stored with each parameter: 1 to 100 letters, digits, `-`, `_` and `.`, and no secret.
    ///
    /// # Errors
    /// [`Error::ParamKeys`] for another id.
    pub fn new(id: impl Into<String>, key: ParamKey) -> Result<Self> {
        Self { keys: Vec::new() }.accept(id, key)
    }

    /// Also decrypts what was encrypted with `key`.
    ///
    /// # Errors
    /// [`Error::ParamKeys`] for an id that another key has, or that is no id.
    pub fn accept(mut self, id: impl Into<String>, key: ParamKey) -> Result<Self> {
        let id = id.into();
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if id.is_empty() || id.len() > ID_LIMIT || !id.bytes().all(is_part) {
            return Err(refused(format!(
                "{id:?} is no id of a key: write 1 to {ID_LIMIT} letters, digits, `-`, `_` or `.`"
            )));
        }
        if self.keys.iter().any(|(other, _)| *other == id) {
            return Err(refused(format!("two keys have the id {id:?}; give each key an id of its own")));
        }
        self.keys.push((id, key));
        Ok(self)
    }

    /// Returns a key as nodes report it: two keys with one id differ.
    fn reported(id: &str, check: [u8; CHECK_BYTES]) -> String {
        format!("{id}/{:08x}", u32::from_be_bytes(check))
    }

    fn ids(&self) -> Vec<String> {
        self.keys.iter().map(|(id, _)| id.clone()).collect()
    }
}

impl ParamCipher for ParamKeys {
    fn encrypt(&self, param: &[u8], owner: &[u8]) -> Result<Ciphertext, CipherError> {
        let unavailable = |why: &str| CipherError::Unavailable(why.to_owned());
        let (id, ParamKey { cipher, check }) = self.keys.first().ok_or_else(|| unavailable("there is no key"))?;
        let nonce = XNonce::try_generate().map_err(|_| unavailable("the system returns no random numbers"))?;
        let payload = Payload { msg: param, aad: owner };
        let encrypted = cipher.encrypt(&nonce, payload).map_err(|_| unavailable("the parameter is too long"))?;
        Ok(Ciphertext { key: id.clone(), bytes: [check.as_slice(), &nonce, &encrypted, check].concat() })
    }

    fn decrypt(&self, key: &str, bytes: &[u8], owner: &[u8]) -> Result<Vec<u8>, CipherError> {
        let found = self.keys.iter().find(|(id, _)| id == key);
        let (id, ParamKey { cipher, check }) =
            found.ok_or_else(|| CipherError::UnknownKey { key: key.to_owned(), known: self.ids() })?;
        let (first, rest) = bytes.split_first_chunk::<CHECK_BYTES>().ok_or(CipherError::Altered)?;
        let (rest, last) = rest.split_last_chunk::<CHECK_BYTES>().ok_or(CipherError::Altered)?;
        if first != last {
            return Err(CipherError::Altered);
        }
        if first != check {
            return Err(CipherError::WrongKey { key: id.clone(), needed: Self::reported(id, *first) });
        }
        let (nonce, encrypted) = rest.split_at_checked(NONCE_BYTES).ok_or(CipherError::Altered)?;
        let nonce = XNonce::try_from(nonce).map_err(|_| CipherError::Altered)?;
        cipher.decrypt(&nonce, Payload { msg: encrypted, aad: owner }).map_err(|_| CipherError::Altered)
    }

    fn keys(&self) -> Vec<String> {
        self.keys.iter().flat_map(|(id, key)| [id.clone(), Self::reported(id, key.check)]).collect()
    }
}

fn refused(problem: String) -> Error {
    Error::ParamKeys { problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(seed: u8) -> ParamKey {
        ParamKey::new(&[seed; KEY_BYTES]).unwrap()
    }

    fn keys() -> ParamKeys {
        ParamKeys::new("one", key(1)).unwrap()
    }

    const OWNER: &[u8] = b"the definition 7";
    const PARAM: &[u8] = b"{\"card\":\"4111\"}";

    #[test]
    fn param_round_trips_and_no_two_ciphertexts_are_alike() {
        let (first, second) = (keys().encrypt(PARAM, OWNER).unwrap(), keys().encrypt(PARAM, OWNER).unwrap());
        assert_ne!(first.bytes, second.bytes);
        for Ciphertext { key, bytes } in [first, second] {
            assert_eq!(keys().decrypt(&key, &bytes, OWNER).unwrap(), PARAM);
        }
    }

    #[test]
    fn no_changed_byte_and_no_other_owner_is_accepted() {
        let Ciphertext { key, bytes } = keys().encrypt(PARAM, OWNER).unwrap();
        for at in 0..bytes.len() {
            let mut forged = bytes.clone();
            forged[at] ^= 1;
            assert_eq!(keys().decrypt(&key, &forged, OWNER), Err(CipherError::Altered), "byte {at}");
        }
        for length in 0..bytes.len() {
            assert_eq!(keys().decrypt(&key, &bytes[..length], OWNER), Err(CipherError::Altered), "{length} bytes");
        }
        assert_eq!(keys().decrypt(&key, &bytes, b"the definition 8"), Err(CipherError::Altered));
    }

    #[test]
    fn another_key_under_the_same_id_is_not_a_changed_text() {
        let Ciphertext { bytes, .. } = keys().encrypt(PARAM, OWNER).unwrap();
        let wrong = ParamKeys::new("one", key(2)).unwrap();
        let Err(CipherError::WrongKey { key: id, needed }) = wrong.decrypt("one", &bytes, OWNER) else {
            panic!("it is another key")
        };
        assert_eq!(id, "one");
        assert!(keys().keys().contains(&needed) && !wrong.keys().contains(&needed), "{needed}");
        assert_eq!(ParamKeys::new("two", key(1)).unwrap().keys()[1][3..], keys().keys()[1][3..], "one value for a key");
    }

    #[test]
    fn keys_rotate() {
        let old = keys().encrypt(PARAM, OWNER).unwrap();
        let both = ParamKeys::new("two", key(2)).unwrap().accept("one", key(1)).unwrap();
        assert_eq!(both.decrypt("one", &old.bytes, OWNER).unwrap(), PARAM);
        let new = both.encrypt(PARAM, OWNER).unwrap();
        assert_eq!(new.key, "two");
        let error = keys().decrypt(&new.key, &new.bytes, OWNER).unwrap_err();
        assert!(
            error.to_string().contains(r#"the key "two", which this process does not have; it has "one""#),
            "{error}"
        );
    }

    #[test]
    fn wrong_keys_and_ids_are_refused_and_the_error_says_what_is_right() {
        let text = |error: Option<Error>| error.unwrap().to_string();
        let length = text(ParamKey::new(b"secret").err());
        assert!(length.contains("6 bytes") && length.contains("32"), "{length}");
        for id in ["", "a b", "é", "\"", &"x".repeat(101)] {
            assert!(text(ParamKeys::new(id, key(1)).err()).contains("1 to 100 letters"), "{id}");
        }
        assert!(text(keys().accept("one", key(2)).err()).contains("two keys have the id \"one\""));
    }

    #[test]
    fn key_is_read_from_a_reference_and_never_shown() {
        let file = std::env::temp_dir().join(format!("param-key-of-a-test-{}", std::process::id()));
        let reference = format!("file:{}", file.display());
        let read = |content: &str| {
            std::fs::write(&file, content).unwrap();
            ParamKey::read(&reference)
        };
        let encoded = STANDARD.encode([1; KEY_BYTES]);
        let same = ParamKeys::new("one", read(&format!("{encoded}\n")).unwrap()).unwrap();
        let Ciphertext { key, bytes } = same.encrypt(PARAM, OWNER).unwrap();
        assert_eq!(keys().decrypt(&key, &bytes, OWNER).unwrap(), PARAM);
        assert_eq!(
            format!("{:?} {same:?}", read(&encoded).unwrap()),
            "ParamKey ParamKeys { encrypts: \"one\", accepts: [] }"
        );
        for (content, problem) in [("hunter2 hunter2", "is not Base64"), ("aHVudGVyMg==", "has 7 bytes")] {
            let error = read(content).err().unwrap().to_string();
            assert!(error.contains(problem) && error.contains(&reference) && !error.contains("unter2"), "{error}");
        }
        std::fs::remove_file(&file).unwrap();
        assert!(ParamKey::read(&reference).err().unwrap().to_string().contains("cannot read the secret"));
        let literal = ParamKey::read("hunter2").err().unwrap().to_string();
        assert!(literal.contains("env:NAME") && !literal.contains("hunter2"), "{literal}");
    }
}
