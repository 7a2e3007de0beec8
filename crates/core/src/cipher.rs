//! [`ParamCipher`]: encryption of parameters, and the JSON text that is stored instead of one.
//!
//! A ready cipher is in `param_keys.rs` (feature `cipher`). Which notices are encrypted is decided by the column `encrypt_param`; see
//! `docs/decisions/0114-parameters-are-encrypted-for-their-definition.md`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// What people see instead of a parameter that this process cannot decrypt.
pub const ENCRYPTED: &str = "<encrypted>";
/// The reason for which a text about a notice is missing.
pub const NOT_KEPT: &str = "its text is not kept, because the parameter is encrypted";
/// The member that marks an encrypted parameter; its value is the id of the key.
const MARK: &str = "\"$encrypted\"";

/// Encrypts the parameters of definitions that have `encrypt_param`. Each process that adds or sends such notices has the same cipher:
/// [`crate::AnyOutbox::use_param_cipher`].
///
/// It must be authenticated: [`Self::decrypt`] refuses bytes that [`Self::encrypt`] did not return, or returned for another `owner`. With the
/// feature `cipher`, [`ParamKeys`](https://docs.rs/solid-notify/latest/solid_notify/cipher/struct.ParamKeys.html) is such a cipher.
///
/// ```
/// use solid_notify_core::cipher::{Ciphertext, CipherError, ParamCipher};
///
/// /// Asks the service of the company to encrypt.
/// struct Vault;
/// # impl Vault {
/// #     fn seal(&self, text: &[u8], _: &[u8]) -> Result<Vec<u8>, std::io::Error> { Ok(text.to_vec()) }
/// #     fn open(&self, _: &str, bytes: &[u8], _: &[u8]) -> Result<Option<Vec<u8>>, std::io::Error> { Ok(Some(bytes.to_vec())) }
/// # }
///
/// impl ParamCipher for Vault {
///     fn encrypt(&self, param: &[u8], owner: &[u8]) -> Result<Ciphertext, CipherError> {
///         let bytes = self.seal(param, owner).map_err(|error| CipherError::Unavailable(error.to_string()))?;
///         Ok(Ciphertext { key: "vault-1".to_owned(), bytes })
///     }
///
///     fn decrypt(&self, key: &str, bytes: &[u8], owner: &[u8]) -> Result<Vec<u8>, CipherError> {
///         let opened = self.open(key, bytes, owner).map_err(|error| CipherError::Unavailable(error.to_string()))?;
///         opened.ok_or(CipherError::Altered)
///     }
/// }
/// # assert!(Vault.encrypt(b"7", b"").is_ok());
/// ```
pub trait ParamCipher: Send + Sync {
    /// Encrypts a parameter (JSON) with the newest key. `owner` names the definition; it is authenticated and not stored.
    ///
    /// # Errors
    /// [`CipherError::Unavailable`]: the notice is not added.
    fn encrypt(&self, param: &[u8], owner: &[u8]) -> Result<Ciphertext, CipherError>;

    /// Decrypts what [`Self::encrypt`] returned with this key for this `owner`.
    ///
    /// # Errors
    /// [`CipherError::Altered`] makes the notice a dead letter. All others let it wait.
    fn decrypt(&self, key: &str, bytes: &[u8], owner: &[u8]) -> Result<Vec<u8>, CipherError>;

    /// Returns the ids of the keys by which it decrypts, and the names by which [`CipherError::WrongKey`] calls them. Each node reports them, so that no alert is raised about a parameter that another
    /// node can decrypt. None by default: then each node that lacks the key of a waiting notice raises one.
    fn keys(&self) -> Vec<String> {
        Vec::new()
    }
}

/// An encrypted parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ciphertext {
    /// The id of the key, which is stored and shown.
    pub key: String,
    /// All that the cipher needs besides the key: nonce, encrypted bytes, tag.
    pub bytes: Vec<u8>,
}

/// Why a parameter cannot be encrypted or decrypted. No variant contains anything of the parameter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CipherError {
    /// This process has no key of this id.
    #[error("it is encrypted with the key {key:?}, which this process does not have; it has {}", listed(known))]
    UnknownKey {
        /// The id of the key.
        key: String,
        /// The ids of the keys that this process has.
        known: Vec<String>,
    },
    /// This process has another key under the id of the key.
    #[error(
        "it is encrypted with another key than the one that this process has under the id {key:?}: the needed key is {needed:?}"
    )]
    WrongKey {
        /// The id.
        key: String,
        /// The needed key, as [`ParamCipher::keys`] of a process that has it names it.
        needed: String,
    },
    /// The stored text says that it was encrypted for another definition. That is so after a target has got another definition by `target_of`,
    /// and where a text was copied.
    #[error("it is encrypted for the definition with the id {definition}, not for this one")]
    OtherDefinition {
        /// The id of that definition.
        definition: i64,
    },
    /// The stored text was changed.
    #[error("it is not what was encrypted for this definition: the stored text was changed")]
    Altered,
    /// The cipher cannot work now, for this reason.
    #[error("the cipher does not work: {0}")]
    Unavailable(String),
}

fn listed(known: &[String]) -> String {
    let known: Vec<String> = known.iter().map(|key| format!("{key:?}")).collect();
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}

/// The text that is stored instead of a parameter. The mark is also the first member where a database sorts members, by their length or by
/// their letters.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    #[serde(rename = "$encrypted")]
    key: String,
    ciphertext: String,
    /// The id of the definition for which it is encrypted. The cipher authenticates it.
    definition: i64,
}

/// Returns whether a stored parameter is an encrypted one.
pub fn is_encrypted(param: &str) -> bool {
    param.trim_start().strip_prefix('{').is_some_and(|rest| rest.trim_start().starts_with(MARK))
}

/// Returns the text to store instead of a parameter of this definition.
pub(crate) fn encrypt(cipher: &dyn ParamCipher, def_id: i64, param: &str) -> Result<String, CipherError> {
    let Ciphertext { key, bytes } = cipher.encrypt(param.as_bytes(), owner(def_id).as_bytes())?;
    let envelope = Envelope { key, ciphertext: STANDARD.encode(bytes), definition: def_id };
    serde_json::to_string(&envelope).map_err(|error| CipherError::Unavailable(error.to_string()))
}

/// Returns the parameter of a stored text for which [`is_encrypted`] is true. `owners`: the definitions for which it may be encrypted.
pub(crate) fn decrypt(
    cipher: Option<&dyn ParamCipher>,
    owners: impl IntoIterator<Item = i64>,
    stored: &str,
) -> Result<String, CipherError> {
    let Envelope { key, ciphertext, definition } = serde_json::from_str(stored).map_err(|_| CipherError::Altered)?;
    if !owners.into_iter().any(|owner| owner == definition) {
        return Err(CipherError::OtherDefinition { definition });
    }
    let bytes = STANDARD.decode(ciphertext).map_err(|_| CipherError::Altered)?;
    let Some(cipher) = cipher else { return Err(CipherError::UnknownKey { key, known: Vec::new() }) };
    let param = cipher.decrypt(&key, &bytes, owner(definition).as_bytes())?;
    String::from_utf8(param).map_err(|_| CipherError::Altered)
}

/// What a ciphertext is bound to. An id, because a definition that is renamed or deleted keeps its notices and its id.
fn owner(def_id: i64) -> String {
    format!("solid-notify: the parameter of a notice of the definition {def_id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shifts each byte, and puts the owner in front.
    struct Toy;

    impl ParamCipher for Toy {
        fn encrypt(&self, param: &[u8], owner: &[u8]) -> Result<Ciphertext, CipherError> {
            let bytes = owner.iter().chain(param).map(|byte| byte.wrapping_add(1)).collect();
            Ok(Ciphertext { key: "toy \"1\"".to_owned(), bytes })
        }

        fn decrypt(&self, _: &str, bytes: &[u8], owner: &[u8]) -> Result<Vec<u8>, CipherError> {
            let bytes: Vec<u8> = bytes.iter().map(|byte| byte.wrapping_sub(1)).collect();
            bytes.strip_prefix(owner).map(<[u8]>::to_vec).ok_or(CipherError::Altered)
        }
    }

    #[test]
    fn stored_text_is_marked_json_and_decrypts_for_its_definition_only() {
        let stored = encrypt(&Toy, 7, r#"{"card":"4111"}"#).unwrap();
        assert!(stored.starts_with(r#"{"$encrypted":"toy \"1\"","ciphertext":""#) && is_encrypted(&stored), "{stored}");
        assert!(serde_json::from_str::<serde_json::Value>(&stored).is_ok() && !stored.contains("4111"));
        for owners in [vec![7], vec![8, 7]] {
            assert_eq!(decrypt(Some(&Toy), owners, &stored).unwrap(), r#"{"card":"4111"}"#);
        }
        assert_eq!(decrypt(Some(&Toy), [8, 9], &stored), Err(CipherError::OtherDefinition { definition: 7 }));
        let forged = stored.replace("\"definition\":7", "\"definition\":8");
        assert_eq!(decrypt(Some(&Toy), [8], &forged), Err(CipherError::Altered));
    }

    #[test]
    fn stored_text_is_recognised_as_each_database_may_write_it() {
        assert!(is_encrypted(" {\n \"$encrypted\" : \"1\", \"ciphertext\": \"\" }"));
        for plain in ["7", "{}", "[{\"$encrypted\":1}]", "{\"a\":{\"$encrypted\":1}}", "\"$encrypted\"", ""] {
            assert!(!is_encrypted(plain), "{plain}");
        }
    }

    #[test]
    fn text_that_is_no_envelope_is_altered() {
        for stored in [
            r#"{"$encrypted":"1"}"#,
            r#"{"$encrypted":"1","ciphertext":""}"#,
            r#"{"$encrypted":"1","ciphertext":"%","definition":7}"#,
            r#"{"$encrypted":"1","ciphertext":"","definition":7,"more":1}"#,
            r#"{"$encrypted":1,"ciphertext":"","definition":7}"#,
        ] {
            assert!(is_encrypted(stored));
            assert_eq!(decrypt(Some(&Toy), [7], stored), Err(CipherError::Altered), "{stored}");
        }
    }

    #[test]
    fn without_a_cipher_the_error_names_the_key() {
        let stored = encrypt(&Toy, 7, "1").unwrap();
        let error = decrypt(None, [7], &stored).unwrap_err().to_string();
        assert_eq!(error, r#"it is encrypted with the key "toy \"1\"", which this process does not have; it has none"#);
    }
}
