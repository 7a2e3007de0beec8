//! [`Forwarding`]: which calls of this node forward what to other slots, and which targets refused it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

/// The calls that forward, by definition: one of each at a time, because another one would send the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Forwarding(Arc<Mutex<HashMap<i64, Arc<OfOne>>>>);

#[derive(Debug, Default)]
pub(super) struct OfOne {
    /// The targets to which nothing could be forwarded, with the pause before the next try; an empty text: alarms.
    pub(super) refused: tokio::sync::Mutex<HashMap<String, Pause>>,
    /// Why one of them refused it; `None`: there is none.
    pub(super) problem: Mutex<Option<String>>,
    /// Whether the present call takes more than one step.
    pub(super) takes_long: watch::Sender<bool>,
    /// While it does, another call waits for its turn, and will forward what is stored by now.
    pub(super) waits: AtomicBool,
}

/// The present call. It ends with this value.
pub(super) struct Long<'a>(&'a watch::Sender<bool>);

impl OfOne {
    pub(super) fn begin(&self) -> Long<'_> {
        Long(&self.takes_long)
    }
}

impl Long<'_> {
    /// Records that it takes more than one step.
    pub(super) fn goes_on(&self) {
        self.0.send_replace(true);
    }
}

impl Drop for Long<'_> {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

/// Until when a pause lasts, and how long it is.
pub(super) type Pause = (Instant, Duration);

/// The first and the longest pause of a target. It holds up its own notices only.
pub(super) const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));

impl Forwarding {
    pub(super) fn of(&self, def_id: i64) -> Arc<OfOne> {
        Arc::clone(self.0.lock().entry(def_id).or_default())
    }
}
