//! The settings that both programs have in common, `solid-notify serve` and the application `embedding.rs`.

use std::time::Duration;

/// The slots of a process. Some neighbours have work for more.
pub const SLOTS: usize = 200;
/// How long attempts may go on after SIGTERM.
pub const GRACE: Duration = Duration::from_secs(1);
/// Another process adds, so notices wait for a poll. One of each second would hide what a neighbour does.
pub const POLL: Duration = Duration::from_millis(100);
/// Where channels may connect.
pub const NETWORKS: [&str; 2] = ["127.0.0.0/8", "::1/128"];

/// The handlers of the application.
pub const BLOCKS: &str = "blocks";
pub const HANGS: &str = "hangs";
pub const PANICS: &str = "panics";
pub const BATCHES: &str = "batches";
/// The parameter with which a batch panics.
pub const POISON: &str = "poison";
/// The kinds of its timed tasks.
pub const HANGING_TASKS: &str = "hanging";
pub const STEADY_TASKS: &str = "steady";
