//! Reading a large parameter, which the claim has left in the store.

use std::time::Duration;

use solid_notify_core::notice::ClaimedNotice;
use solid_notify_core::param::MOST_STORED;
use solid_notify_core::transition::Event;
use solid_notify_core::{ErrorClass, StoreError};

use crate::room::Taken;
use crate::worker::Worker;

/// Reads the parameter that the claim has left in the store, once there is room for it.
///
/// # Errors
/// The event of a notice that is not attempted now, or, with a class and a message, never.
pub(super) async fn read_param(
    worker: &Worker,
    claimed: &mut ClaimedNotice,
) -> Result<Taken, (Event, Option<(ErrorClass, String)>)> {
    let refused = |error: StoreError| (worker.handed_back(claimed.def_id, &error), None);
    // Another claim has it, it has ended, or this node stops.
    let not_now = || (Event::HandedBack(Duration::ZERO), None);
    let send = &worker.stores().send;
    // The semaphore is never closed.
    let reading = worker.room.reading.acquire().await;
    let bytes = send.param_bytes(claimed).await.map_err(refused)?.ok_or_else(not_now)?;
    drop(reading);
    if bytes > MOST_STORED {
        let message = format!("its parameter has {bytes} bytes; one of at most {MOST_STORED} is sent");
        return Err((Event::GaveUp(message.clone()), Some((ErrorClass::Invalid, message))));
    }
    let taken = tokio::select! {
        biased;
        taken = worker.room.take(claimed.def_id, bytes) => taken,
        () = worker.signals.stopped() => return Err(not_now()),
    };
    let _reading = worker.room.reading.acquire().await;
    claimed.param = send.param(claimed).await.map_err(refused)?.ok_or_else(not_now)?;
    claimed.param_is_left = false;
    worker.not_handed_back(claimed.def_id);
    Ok(taken)
}
