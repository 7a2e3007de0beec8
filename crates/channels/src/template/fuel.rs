//! [`Fuel`]: the steps that the templates of a configuration, or of an attempt, may take together.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The steps that the templates of a notice may take together, so that a loop over a large parameter ends; as many as those of a configuration when
/// it is read.
pub(super) const FUEL: u64 = 1_000_000;

/// The steps that are left.
pub(super) struct Fuel(AtomicU64);

impl Fuel {
    pub(super) fn of(steps: u64) -> Self {
        Self(AtomicU64::new(steps))
    }

    pub(super) fn left(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn take(&self, steps: u64) {
        self.0.store(self.left().saturating_sub(steps), Ordering::Relaxed);
    }
}

thread_local! {
    /// What is left for the templates of the configuration that this thread reads; `None`: it reads none, and each template is by itself.
    static CONFIGURATION: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Reads a configuration, whose templates then have one budget.
pub(crate) fn reading<T>(read: impl FnOnce() -> T) -> T {
    /// Ends the budget, also where the reading panics.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            CONFIGURATION.set(None);
        }
    }
    let _end = End;
    CONFIGURATION.set(Some(FUEL));
    read()
}

/// Returns the steps that a template may take when it is read.
pub(super) fn of_configuration() -> u64 {
    CONFIGURATION.get().unwrap_or(FUEL)
}

/// Takes steps of the configuration that is read.
pub(super) fn take_of_configuration(steps: u64) {
    CONFIGURATION.set(CONFIGURATION.get().map(|left| left.saturating_sub(steps)));
}
