//! [`Bar`]: how far a bulk act is, on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use solid_notify::operate::Counted;

/// A bar, or a spinner where the number of notices is unknown.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    pub(crate) fn new(total: Option<Counted>, hidden: bool) -> Self {
        let bar = match total {
            Some(total) => ProgressBar::new(total.count).with_style(
                ProgressStyle::with_template("{bar:30} {pos} of {len}{msg}, {elapsed}")
                    .unwrap_or_else(|_| ProgressStyle::default_bar()),
            ),
            None => ProgressBar::new_spinner(),
        };
        if hidden {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        if total.is_some_and(|total| total.more) {
            bar.set_message(" or more");
        }
        Self(bar)
    }

    /// Shows how many notices are done.
    pub(crate) fn show(&self, done: u64) {
        self.0.set_position(done);
    }

    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}
