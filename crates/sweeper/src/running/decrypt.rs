//! Decrypting a parameter before its handler is called, and the text about one that waits because it cannot be decrypted now.

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

/// Returns why a notice waits, beginning with the column that it is about.
pub(super) fn undecryptable(worker: &Worker, definition: &Definition, id: i64, error: &CipherError) -> String {
    let CipherError::OtherDefinition { definition: of } = error else {
        return format!("encrypt_param: the parameter of notice {id} cannot be decrypted: {error}");
    };
    let name = worker.definition(*of).map(|of| format!(" ({:?})", of.row.name)).unwrap_or_default();
    format!(
        "target_of: the parameter of notice {id} is encrypted for the definition {of}{name}, and {this:?} is neither that definition nor its \
         target; set target_of to {of} again, and give the other definition a target of its own",
        this = definition.row.name
    )
}
