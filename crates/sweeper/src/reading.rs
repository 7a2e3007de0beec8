//! Reads the definitions, the pause of everything and the circuit breakers, compares whole rows, and logs changes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use solid_notify_core::StoreError;
use solid_notify_core::built_in::built_in;
use solid_notify_core::definition::{InForce, in_force};
use solid_notify_core::error::FaultKind;
use solid_notify_core::store::{Edit, SendLimits};

use crate::alerts::recipients;
use crate::definitions::{Definition, Definitions, Own};
use crate::worker::Worker;

impl Worker {
    /// Returns whether this process edited a definition, or paused or resumed everything, after the last reading began. Such an
    /// edit is in force on this node when its call returns, so nothing is claimed or judged before the next reading.
    pub(crate) fn has_unread_edits(&self) -> bool {
        self.outbox.engine().edits() != self.known.edits.load(Ordering::SeqCst)
    }

    /// Reads the definitions if this process edited them after the last reading.
    pub(crate) async fn read_own_edits(&self) -> Result<(), StoreError> {
        if self.has_unread_edits() { self.reload_definitions().await } else { Ok(()) }
    }

    /// Reads the definitions, and logs changes.
    pub(crate) async fn reload_definitions(&self) -> Result<(), StoreError> {
        let _reading = self.known.reading.lock().await;
        self.read().await
    }

    /// Reads the definitions, unless another task began to read them after this call. So thousands of callers cause few readings.
    /// Returns whether every edit that was committed before the call is known; a failed reading is logged.
    pub(crate) async fn knows_all_edits(&self) -> bool {
        let before = self.known.readings.load(Ordering::SeqCst);
        let _reading = self.known.reading.lock().await;
        if self.known.readings.load(Ordering::SeqCst) == before
            && let Err(error) = self.read().await
        {
            self.health.note_some(&error);
        }
        self.known.last_read.load(Ordering::SeqCst) > before
    }

    /// Reads for a caller that holds the lock `reading`.
    async fn read(&self) -> Result<(), StoreError> {
        let number = self.known.readings.fetch_add(1, Ordering::SeqCst) + 1;
        let edits = self.outbox.engine().edits();
        let mut rows = self.stores().definitions.definitions().await?;
        let mut missing = built_in(self.settings.housekeeping);
        missing.retain(|built_in| !rows.iter().any(|row| row.name == built_in.name));
        if !missing.is_empty() {
            // The definition was deleted, or this is the first node. Existing rows keep the operators' edits.
            for definition in missing {
                match self.stores().definitions.edit(&Edit::Create(definition), &self.id).await {
                    Err(error) if error.kind == FaultKind::Outage => return Err(error),
                    // Another session may have locked this name: nothing else waits for it.
                    Err(error) => self.health.mention(&error),
                    Ok(_) => {}
                }
            }
            rows = self.stores().definitions.definitions().await?;
        }
        let rows = in_force(rows);
        let SendLimits { paused, limits } = self.stores().definitions.send_limits().await?;
        let before = self.definitions();
        let are_new = are_new(&before, &rows);
        let engine = self.outbox.engine();
        engine.know_store().await?;
        let own = Own { has_cipher: engine.param_cipher().is_some(), secrets: engine.secret_rules() };
        self.known.read(rows, paused, &limits, self.moment(), own);
        let definitions = self.definitions();
        check_changed(&before, &definitions, self.outbox.engine().has_token_keys());
        if !definitions.refused().eq(before.refused()) {
            self.signals.check_soon();
        }
        self.known.edits.store(edits, Ordering::SeqCst);
        if are_new {
            self.signals.keep_versions_soon();
        }
        self.known.last_read.store(number, Ordering::SeqCst);
        Ok(())
    }
}

/// Logs what is wrong with definitions that are new or have changed, beside their own rows.
fn check_changed(before: &Definitions, now: &Definitions, has_token_keys: bool) {
    let alerts = now.alerts().and_then(|id| now.get(id));
    for definition in now.all() {
        if before.get(definition.row.id).is_none_or(|known| !Arc::ptr_eq(known, definition)) {
            recipients::check(definition, alerts.map(|alerts| &**alerts));
            if !has_token_keys {
                check_token_keys(definition);
            }
        }
    }
}

/// Logs that a handler cannot sign tokens for a definition whose deliveries must be acked.
fn check_token_keys(definition: &Definition) {
    if definition.ready().is_some_and(|ready| ready.policy.need_confirm) {
        tracing::warn!(
            definition = %definition.row.name,
            "its deliveries must be acked, and no token keys are set: `notice.ack_token` fails each attempt that calls it; \
             call `outbox.use_token_keys` before the start (`token_keys` in the file of `solid-notify serve`), or ack by the id"
        );
    }
}

/// Returns whether the definitions differ from the last reading. The first reading always differs, because edits before
/// it were not seen.
fn are_new(known: &Definitions, rows: &[InForce]) -> bool {
    // Compares whole rows first: each reading compares them all, and a list of differences is rarely needed.
    let same = |InForce { row, .. }: &InForce| {
        known.get(row.id).map(|known| &*known.row).is_some_and(|known| {
            known == row
                || (known.differences(row).is_empty() && known.delete_time.is_some() == row.delete_time.is_some())
        })
    };
    // The count is the same and each row is known, so none is missing.
    known.all().count() != rows.len() || !rows.iter().all(same)
}
