//! Encrypting the parameter of a new notice. The stores ask for it when they know the definition.

use std::sync::Arc;

use crate::add::NewNotice;
use crate::cipher::{self, ParamCipher};
use crate::error::{Error, Result};

/// What to do where an encrypting definition meets no cipher.
const NO_CIPHER: &str = "this process has no cipher; call `outbox.use_param_cipher` at the start and add notices by \
     `outbox.begin()`, or, in a transaction of sqlx, set the cipher of the notice by `NewNotice::param_cipher`";

impl NewNotice {
    /// Sets the cipher that encrypts the parameter if its definition has `encrypt_param`, instead of that of the outbox. A transaction of
    /// sqlx, which knows no outbox, has no other one.
    #[must_use]
    pub fn param_cipher(mut self, cipher: Arc<dyn ParamCipher>) -> Self {
        self.cipher = Some(cipher);
        self
    }

    /// Returns the notice with its parameter encrypted for its definition, which has this id and `encrypt_param`. By its own cipher,
    /// or by that of the outbox.
    ///
    /// # Errors
    /// [`Error::Encryption`] without a cipher, or if the cipher fails; the text says what to do.
    #[doc(hidden)]
    pub fn encrypted(&self, def_id: i64, of_outbox: Option<Arc<dyn ParamCipher>>) -> Result<Self> {
        let refuse = |problem: String| Error::Encryption { name: self.name.clone(), problem };
        let cipher = self.cipher.clone().or(of_outbox).ok_or_else(|| refuse(NO_CIPHER.to_owned()))?;
        let encrypted = cipher::encrypt(&*cipher, def_id, &self.param).map_err(|error| refuse(error.to_string()))?;
        let mut notice = self.clone();
        (notice.param, notice.encrypted_for) = (encrypted, Some(def_id));
        Ok(notice)
    }

    /// Returns the definition for which the parameter is encrypted.
    #[doc(hidden)]
    pub fn encrypted_for(&self) -> Option<i64> {
        self.encrypted_for
    }
}
