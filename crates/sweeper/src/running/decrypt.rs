//! Decrypting a parameter before its handler is called.

use std::panic::{AssertUnwindSafe, catch_unwind};

use solid_notify_core::cipher::CipherError;
use solid_notify_core::notice::{ClaimedNotice, MESSAGE_LIMIT, clean_text};

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

/// Records and reports that a notice waits because this node cannot decrypt it.
pub(super) fn cannot_decrypt(worker: &Worker, definition: &Definition, id: i64, error: &CipherError) {
    let problem = format!(
        "encrypt_param: the parameter of notice {id} cannot be decrypted: {error}; it waits, and the others are sent"
    );
    let problem = clean_text(&problem, MESSAGE_LIMIT);
    if worker.undecrypted.note(definition.row.id, worker.moment(), problem.clone()) {
        tracing::error!(definition = %definition.row.name, notice = id, "{problem}");
        worker.signals.beat_soon();
    }
}
