//! Decrypting a parameter before its handler is called.

use std::panic::{AssertUnwindSafe, catch_unwind};

use solid_notify_core::cipher::CipherError;
use solid_notify_core::notice::ClaimedNotice;

use crate::definitions::Definition;
use crate::worker::Worker;

/// Replaces an encrypted parameter by the decrypted one. Returns whether it was encrypted.
pub(super) fn decrypt(
    worker: &Worker,
    definition: &Definition,
    claimed: &mut ClaimedNotice,
) -> Result<bool, CipherError> {
    // What was passed on to a target is encrypted for the definition that it is a target of.
    let owners = [claimed.def_id].into_iter().chain(definition.row.target_of);
    let decrypt = || worker.outbox.engine().decrypted(owners, &claimed.param);
    let decrypted = catch_unwind(AssertUnwindSafe(decrypt))
        .unwrap_or_else(|_| Err(CipherError::Unavailable("it panicked".to_owned())))?;
    let encrypted = decrypted.is_some();
    if let Some(param) = decrypted {
        claimed.param = param;
    }
    Ok(encrypted)
}
