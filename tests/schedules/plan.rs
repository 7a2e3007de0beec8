//! The plan that a seed stands for: the number of nodes, their faults, and the duration.

use std::time::Duration;

use fastrand::Rng;
use solid_notify::NotifyDef;

/// A schedule before it runs.
pub struct Plan {
    pub seed: u64,
    pub nodes: usize,
    /// How long faults occur.
    pub lasts: Duration,
    /// Transactions of producers.
    pub transactions: usize,
    /// The share of calls that are refused, whose replies are lost, or that are executed long after their error.
    pub faults: f64,
    /// The share of calls that take seconds.
    pub slow: f64,
    /// Nodes that are killed, and started again.
    pub kills: usize,
    /// Nodes that are shut down in order, and started again.
    pub deployments: usize,
    /// Times without a database.
    pub outages: usize,
    /// How often a definition is switched off and on.
    pub switches: usize,
    /// How often an operator cancels something.
    pub cancels: usize,
    /// How often everything is paused for a while.
    pub pauses: usize,
    /// Whether a definition loses its retries under way.
    pub edited: bool,
}

impl Plan {
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let faults = *rng.choice(&[0.0, 0.0, 0.02, 0.1]).unwrap();
        Self {
            seed,
            nodes: rng.usize(1..=4),
            lasts: Duration::from_secs(rng.u64(30..160)),
            transactions: rng.usize(5..40),
            faults,
            slow: if faults > 0.0 { rng.f64() * 0.05 } else { 0.0 },
            kills: [0, 0, 0, rng.usize(1..5), rng.usize(1..5), rng.usize(5..12)][rng.usize(0..6)],
            deployments: if rng.bool() { rng.usize(1..4) } else { 0 },
            outages: if faults > 0.0 && rng.bool() { rng.usize(1..3) } else { 0 },
            switches: if rng.bool() { rng.usize(1..4) } else { 0 },
            cancels: if rng.u8(..) < 80 { rng.usize(1..4) } else { 0 },
            pauses: usize::from(rng.u8(..) < 50),
            edited: rng.bool(),
        }
    }

    /// True where only its own handlers delay a node.
    pub fn is_calm(&self) -> bool {
        self.faults == 0.0 && self.kills == 0 && self.deployments == 0 && self.outages == 0
    }
}

/// How long an attempt may take.
pub const TIMEOUT: Duration = Duration::from_secs(20);
/// How long a shutdown leaves handlers: the default.
pub const GRACE: Duration = Duration::from_secs(15);
/// How long an attempt belongs to its node.
pub const LEASE: Duration = Duration::from_secs(50);
/// The least time between two alerts.
pub const COOLDOWN: Duration = Duration::from_secs(12);
/// The shortest interval between an attempt and its retry.
pub const SHORTEST: Duration = Duration::from_secs(5);
/// The definition that is switched off and on.
pub const SWITCHED: &str = "switched";
/// The definition whose row is invalid.
pub const BROKEN: &str = "broken";
/// The definition that no node has a handler for.
pub const UNHANDLED: &str = "unhandled";
/// The definition whose notices go one at a time per key.
pub const ORDERED: &str = "ordered";
/// The definition whose deliveries need an ack.
pub const ACKED: &str = "acked";

/// The definition whose attempts are limited over all nodes: at most [`RATE`] begin within [`PER`], and [`AT_ONCE`] run.
pub const PACED: &str = "paced";
pub const RATE: usize = 3;
pub const PER: Duration = Duration::from_secs(10);
pub const AT_ONCE: usize = 2;
/// The definition with a circuit breaker: [`FAILURES`] in a row open it, for [`PAUSE`].
pub const FRAGILE: &str = "fragile";
pub const FAILURES: u32 = 3;
pub const PAUSE: Duration = Duration::from_secs(15);
/// The definition with a timetable, which ticks each [`TICK`].
pub const TICKING: &str = "ticking";
pub const TICK: Duration = Duration::from_secs(15);
/// The definition with a window: see [`is_open`].
pub const WINDOWED: &str = "windowed";
/// The definition that allows fewer tries where its receiver is busy.
pub const RULED: &str = "ruled";
pub const BUSY_TRIES: usize = 2;
/// The definition that loses its retries under way.
pub const EDITED: &str = "edited";
/// When a schedule starts: 20:26:40, by which the windows below are made.
pub const START: Duration = Duration::from_secs(1_780_000_000);

/// Whether the window was open at a time of the schedule, or up to so long before.
pub fn is_open(now: Duration, before: Duration) -> bool {
    let minute = |time: Duration| (START + time).as_secs() / 60 % 60;
    let open = |minute: u64| !matches!(minute, 26 | 28 | 30);
    open(minute(now)) || open(minute(now.saturating_sub(before)))
}

/// The definitions of every schedule.
pub fn definitions() -> Vec<NotifyDef> {
    let def = |name: &str| NotifyDef::new(name).retry_interval("[5s,10s,30s]").timeout("20s").alert_cooldown("12s");
    vec![
        def("plain"),
        def("once").max_retry_times(0),
        def("stubborn").retry_interval("7s").max_retry_times(-1),
        def("narrow").max_concurrency(1),
        def("forgotten").keep_history("none"),
        def(ORDERED),
        def(ACKED).need_confirm(true).max_confirm_delay("30s"),
        def(SWITCHED),
        def(BROKEN),
        def(UNHANDLED),
        def(PACED).rate_limit("3/10s").max_concurrency_total(2),
        def(FRAGILE).breaker_failures(3).breaker_pause("15s"),
        def(TICKING).schedule("*/15 * * * * *").schedule_missed("all"),
        def(WINDOWED).send_window("20:27-20:28,20:29-20:30,20:31-24:00,00:00-20:26"),
        def(RULED).retry_rules(r#"{"busy": 2}"#),
        def(EDITED),
    ]
}
