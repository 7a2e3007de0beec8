//! How long the loops sleep: after a failure, and until the sweep's next look.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

/// The shortest sleep of the sweep, because two looks within the same millisecond find the same.
pub(crate) const SHORTEST_SLEEP: Duration = Duration::from_millis(1);

/// The result of one part of the sweep: of a definition, of the timetables, or of the alerts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Swept {
    /// When to sweep again; zero if more is due already.
    pub(crate) again_in: Duration,
    /// There was work. (A notice that waits behind another one of its ordering key is due as well, but is no work.)
    pub(crate) busy: bool,
}

/// The longest pause after a failure, without its jitter.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The pauses after failures in a row. Jitter adds up to as much again.
const PAUSES: ExponentialBuilder =
    ExponentialBuilder::new().with_min_delay(Duration::from_millis(50)).with_max_delay(LONGEST_PAUSE).with_jitter();

/// Returns the pause after `failures` earlier failures: from 50 ms, each twice as long, to 2 s, with jitter.
pub(crate) fn pause_after(failures: u32) -> Duration {
    PAUSES.without_max_times().build().nth(failures.min(6) as usize).unwrap_or(LONGEST_PAUSE)
}
