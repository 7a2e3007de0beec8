//! [`ClaimHints`]: what this process remembers of queue slices, so that the next look or claim costs less.

use std::collections::HashSet;

use parking_lot::Mutex;
use solid_notify_core::notice::ClaimedNotice;

use crate::claim::marks::Marks;
use crate::shortcuts::MetLock;

/// What one store remembers between its calls. Any of it may be lost at any time.
#[derive(Default)]
pub(crate) struct ClaimHints {
    pub(crate) marks: Marks,
    pub(crate) unordered: Unordered,
    pub(crate) met_lock: MetLock,
}

/// Definitions whose queue slices had no ordering key at the last look. Their claims need not read the slice in parts.
#[derive(Default)]
pub(crate) struct Unordered(Mutex<HashSet<i64>>);

impl Unordered {
    /// Adds a definition whose queue slice was last read in parts and had no ordering key.
    pub(crate) fn add(&self, def_id: i64) {
        self.0.lock().insert(def_id);
    }

    pub(super) fn has(&self, def_id: i64) -> bool {
        self.0.lock().contains(&def_id)
    }

    /// Removes a definition of which a notice with an ordering key was claimed.
    pub(super) fn note(&self, claimed: &[ClaimedNotice]) {
        if let Some(ordered) = claimed.iter().find(|notice| notice.ordering_key.is_some()) {
            self.0.lock().remove(&ordered.def_id);
        }
    }

    /// Marks the start of a claim. If the claim does not end in time, the next claim of the definition reads the slice in parts.
    pub(super) fn begin_claim(&self, def_id: i64) -> Unfinished<'_> {
        Unfinished { of: self, def_id: Some(def_id) }
    }
}

/// A claim that has not ended yet.
pub(super) struct Unfinished<'a> {
    of: &'a Unordered,
    def_id: Option<i64>,
}

impl Unfinished<'_> {
    pub(super) fn ended(mut self) {
        self.def_id = None;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(def_id) = self.def_id {
            self.of.0.lock().remove(&def_id);
        }
    }
}
