//! Lets a notice wait that this node cannot send, and reports it.
//!
//! Which ones wait is kept by `waiting.rs`.

use solid_notify_core::definition::NotifyDef;
use solid_notify_core::transition::Event;

use super::waiting::WAIT;
use crate::worker::Worker;

/// Records and reports that a notice waits: why, beginning with the column that it is about, and which key is missing.
pub(super) fn wait(worker: &Worker, row: &NotifyDef, id: i64, why: (&str, Option<&str>)) -> Event {
    let (def_id, name) = (row.id, row.name.as_str());
    if let Some(text) = worker.waiting.note((def_id, name), id, worker.moment(), why) {
        tracing::error!(definition = %name, notice = id, "{text}");
        worker.signals.check_soon();
    }
    Event::HandedBack(WAIT)
}
