//! [`Fuel`]: the steps that the templates of a configuration, or of an attempt, may take together.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The steps that the templates of a notice may take together, so that a loop over a large parameter ends.
///
/// A release build takes 50 ms to 300 ms for them as a rule. The engine does not count what it reads of a text, so a loop that slices a text of one
/// megabyte takes 134 s, and one that compares two of them 10 s.
pub(super) const FUEL: u64 = 1_000_000;

/// The steps of them that the runtime's own thread takes: less than 10 ms, because neither a parameter of at most 32 KiB nor these steps make a text of
/// more than 64 KiB. Beyond them, a rendering goes on from its beginning on a thread that may block.
pub(super) const QUICK: u64 = 1000;

/// The steps that the templates of a configuration may take together when it is read, without any value: less than a second in the worst case. A
/// configuration of 64 KiB without loops takes fewer.
pub(super) const READING: u64 = 50_000;

/// Returns the steps that parsing a template is worth.
pub(super) fn of_parsing(source: &str) -> u64 {
    u64::try_from(source.len() / 32).unwrap_or(u64::MAX)
}

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
    CONFIGURATION.set(Some(READING));
    read()
}

/// Returns the steps that a template may take when it is read.
pub(super) fn of_configuration() -> u64 {
    CONFIGURATION.get().unwrap_or(READING)
}

/// Takes steps of the configuration that is read.
pub(super) fn take_of_configuration(steps: u64) {
    CONFIGURATION.set(CONFIGURATION.get().map(|left| left.saturating_sub(steps)));
}
