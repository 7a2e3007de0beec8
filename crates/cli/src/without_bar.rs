//! A program without the feature `full` shows no bar. `bar.rs` has the same type with one.

use solid_notify::operate::Counted;

/// Shows nothing.
pub(crate) struct Bar;

impl Bar {
    pub(crate) fn new(_total: Option<Counted>, _hidden: bool) -> Self {
        Self
    }

    pub(crate) fn show(&self, _done: u64) {}

    pub(crate) fn clear(&self) {}
}
