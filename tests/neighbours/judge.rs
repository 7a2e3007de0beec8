//! The limits: a run with a neighbour, compared with the run without it. No input or output.
//!
//! What fails in any run is a complaint. Times, rates and memory also depend on what else the machine does, so those of several pairs of runs are
//! compared by their medians.

use std::time::Duration;

use crate::settings::GRACE;

/// How much later than in the run without the neighbour a notice may end, in seconds.
const LATER: f64 = 2.0;
/// The least part of the rate without the neighbour.
const RATE: f64 = 0.95;
/// How much more memory the process may take, in KiB.
const MORE_MEMORY: f64 = 50.0 * 1024.0;
/// The highest ratio of the 99th percentiles, in the median of the pairs.
pub const P99: f64 = 1.5;
/// How long the process may take after the grace: it waits so long for the last requests of its clients.
pub const AFTER_GRACE: Duration = Duration::from_secs(2);
/// The same where outcomes cannot be stored, or a handler cannot be cancelled. The sweeper waits for most of ten seconds more, as the chapter on
/// `serve` says.
pub const AFTER_GRACE_STUCK: Duration = Duration::from_secs(12);

/// A notice of a healthy definition.
#[derive(Debug, Clone)]
pub struct Sent {
    pub definition: String,
    /// Seconds from the begin of the window to its add.
    pub planned: f64,
    /// Seconds from the begin of the window to its end. `None`: it has not ended.
    pub ended: Option<f64>,
    /// It succeeded with its first attempt.
    pub clean: bool,
    /// Its state in words.
    pub state: String,
}

/// A run.
#[derive(Debug, Clone)]
pub struct Run {
    /// The notices, in the order of their adds.
    pub sent: Vec<Sent>,
    /// The peak, in KiB.
    pub memory: u64,
    /// How long the end took after SIGTERM.
    pub stop: Duration,
    pub exit_code: Option<i32>,
    /// How long the end may take after the grace.
    pub after_grace: Duration,
}

/// How a run differs from the one without the neighbour.
#[derive(Debug, Clone, Copy)]
pub struct Difference {
    /// The longest time by which a notice ended later than that of the same number, in seconds.
    pub latest: f64,
    /// The ratio of the rates.
    pub rate: f64,
    /// The ratio of the 99th percentiles of the times from add to end.
    pub p99: f64,
    /// How much more memory the process took, in KiB.
    pub memory: f64,
    /// By how much its end took longer than it may, in seconds.
    pub overtime: f64,
}

impl Difference {
    pub fn of(without: &Run, with: &Run) -> Self {
        let end = |sent: &Sent| sent.ended.unwrap_or(f64::INFINITY);
        let later = with.sent.iter().zip(&without.sent).map(|(with, without)| end(with) - end(without));
        let kib = |run: &Run| f64::from(u32::try_from(run.memory).unwrap());
        Self {
            latest: later.fold(f64::NEG_INFINITY, f64::max),
            rate: rate(&with.sent) / rate(&without.sent),
            p99: p99(&with.sent) / p99(&without.sent),
            memory: kib(with) - kib(without),
            overtime: with.stop.as_secs_f64() - (GRACE + with.after_grace).as_secs_f64(),
        }
    }

    /// The median of each value.
    pub fn median(all: &[Self]) -> Self {
        let of = |value: fn(&Self) -> f64| {
            let mut values: Vec<f64> = all.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        Self {
            latest: of(|one| one.latest),
            rate: of(|one| one.rate),
            p99: of(|one| one.p99),
            memory: of(|one| one.memory),
            overtime: of(|one| one.overtime),
        }
    }

    /// A complaint for each limit that it exceeds, except that of the 99th percentile.
    pub fn complaints(&self) -> Vec<String> {
        let all = [
            (self.latest > LATER, format!("a notice ended {:.1} s later, which may be {LATER} s", self.latest)),
            (self.rate < RATE, format!("it sent at {:.2} of the rate, which must be {RATE}", self.rate)),
            (self.memory > MORE_MEMORY, format!("it took {} KiB more, which may be {MORE_MEMORY}", self.memory)),
            (self.overtime > 0.0, format!("after SIGTERM it ended {:.1} s too late", self.overtime)),
        ];
        all.into_iter().filter_map(|(is_exceeded, text)| is_exceeded.then_some(text)).collect()
    }
}

/// Returns how many notices ended in a second: at most as many as were added. The first and the last twentieth of the ends do not count, because
/// one late notice, which has a limit of its own, is not a slow sender.
fn rate(sent: &[Sent]) -> f64 {
    let mut ends: Vec<f64> = sent.iter().filter_map(|sent| sent.ended).collect();
    ends.sort_by(f64::total_cmp);
    let first = sent.len() / 20;
    let last = sent.len() - 1 - first;
    if ends.len() <= last {
        return 0.0;
    }
    let seconds = f64::max(ends[last] - ends[first], sent[last].planned - sent[first].planned);
    f64::from(u32::try_from(last - first).unwrap()) / seconds
}

/// Returns the time from add to end that 99 % of the notices do not exceed, in seconds.
pub fn p99(sent: &[Sent]) -> f64 {
    let mut times: Vec<f64> =
        sent.iter().map(|sent| sent.ended.map_or(f64::INFINITY, |end| end - sent.planned)).collect();
    times.sort_by(f64::total_cmp);
    times[(times.len() * 99).div_ceil(100) - 1]
}

/// Returns what has failed in a run, with or without a neighbour.
pub fn failures(run: &Run) -> Vec<String> {
    let failed = run.sent.iter().filter(|sent| !sent.clean || sent.ended.is_none());
    let failed = failed.map(|sent| format!("a notice of {} failed or lost a try: {}", sent.definition, sent.state));
    let exit = (run.exit_code != Some(0)).then(|| format!("after SIGTERM it ended with {:?}", run.exit_code));
    failed.chain(exit).collect()
}

mod tests {
    use super::*;

    fn run(change: impl Fn(u32, &mut Sent)) -> Run {
        let sent = |number: u32| {
            let planned = f64::from(number) * 0.05;
            let mut sent = Sent {
                definition: "healthy".to_owned(),
                planned,
                ended: Some(planned + 0.1),
                clean: true,
                state: String::new(),
            };
            change(number, &mut sent);
            sent
        };
        Run {
            sent: (0..60).map(sent).collect(),
            memory: 100_000,
            stop: GRACE,
            exit_code: Some(0),
            after_grace: AFTER_GRACE,
        }
    }

    fn difference(change: impl Fn(u32, &mut Sent)) -> Difference {
        Difference::of(&run(|_, _| ()), &run(change))
    }

    fn complaint(difference: Difference) -> String {
        difference.complaints().join("; ")
    }

    /// Ends a notice so many seconds later.
    fn end_later(sent: &mut Sent, seconds: f64) {
        sent.ended = sent.ended.map(|end| end + seconds);
    }

    #[test]
    fn equal_runs_and_one_late_notice_are_no_complaint() {
        assert_eq!(complaint(difference(|_, _| ())), "");
        assert_eq!(complaint(difference(|number, sent| end_later(sent, if number == 30 { 1.9 } else { 0.0 }))), "");
        assert_eq!(failures(&run(|_, _| ())), [""; 0]);
    }

    #[test]
    fn each_limit_is_a_complaint_of_its_own() {
        let late = complaint(difference(|number, sent| end_later(sent, if number == 8 { 2.1 } else { 0.0 })));
        assert_eq!(late, "a notice ended 2.1 s later, which may be 2 s");
        // Each takes 5.5 % longer than the one before, so the last is 0.16 s late.
        let slow = complaint(difference(|number, sent| end_later(sent, f64::from(number) * 0.05 * 0.055)));
        assert_eq!(slow, "it sent at 0.95 of the rate, which must be 0.95");
        let without = run(|_, _| ());
        let of = |with| complaint(Difference::of(&without, &with));
        assert!(of(Run { memory: without.memory + 51 * 1024, ..without.clone() }).contains("KiB more"));
        assert_eq!(of(Run { stop: GRACE * 4, ..without.clone() }), "after SIGTERM it ended 1.0 s too late");
        assert_eq!(of(Run { memory: 0, stop: Duration::ZERO, ..without.clone() }), "");
    }

    #[test]
    fn notice_that_fails_or_does_not_end_is_a_failure() {
        for change in [(|number, sent: &mut Sent| sent.clean = number != 7) as fn(u32, &mut Sent), |number, sent| {
            sent.ended = sent.ended.filter(|_| number != 7)
        }] {
            assert!(matches!(&*failures(&run(change)), [one] if one.contains("healthy failed or lost a try")));
        }
        let ended = failures(&Run { exit_code: Some(1), ..run(|_, _| ()) });
        assert_eq!(ended, ["after SIGTERM it ended with Some(1)"]);
    }

    #[test]
    fn median_of_pairs_is_that_of_each_value() {
        let late = |seconds| difference(move |number, sent| end_later(sent, if number == 7 { seconds } else { 0.0 }));
        let median = Difference::median(&[late(9.0), late(1.0), late(0.1)]);
        assert!((median.latest - 1.0).abs() < 1e-9 && (median.p99 - 11.0).abs() < 1e-9, "{median:?}");
        assert_eq!(complaint(median), "");
        assert!(complaint(Difference::median(&[late(9.0), late(3.0), late(0.1)])).contains("3.0 s later"));
    }
}
