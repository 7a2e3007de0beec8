//! Keys of encrypted parameters, by their references in the file.

use std::sync::Arc;

use solid_notify::AnyOutbox;
use solid_notify::cipher::{ParamKey, ParamKeys};

use super::reading::whole;
use crate::secret::{Secret, read_secret};

/// A key of parameters.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ParamKeyRef {
    id: String,
    reference: String,
    /// What the reference had when the file was read: a new value is a change.
    value: Secret,
}

impl ParamKeyRef {
    /// Reads an id with its reference, and checks the key.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let expected = "expected an id and a reference, such as \"2026=env:PARAM_KEY\"";
        let (id, reference) = text.split_once('=').ok_or(expected)?;
        let (id, reference) = (id.trim().to_owned(), reference.trim().to_owned());
        ParamKey::read(&reference).map_err(whole)?;
        let value = read_secret(&reference)?;
        Ok(Self { id, reference, value })
    }
}

/// Encrypts parameters with the first key, and decrypts with all.
pub(super) fn use_keys(outbox: &AnyOutbox, keys: &[ParamKeyRef]) -> Result<(), String> {
    let Some((first, others)) = keys.split_first() else { return Ok(()) };
    let read = |key: &ParamKeyRef| ParamKey::read(&key.reference).map_err(|error| error.to_string());
    let mut keys = ParamKeys::new(&first.id, read(first)?).map_err(|error| error.to_string())?;
    for key in others {
        keys = keys.accept(&key.id, read(key)?).map_err(|error| error.to_string())?;
    }
    outbox.use_param_cipher(Arc::new(keys));
    Ok(())
}
