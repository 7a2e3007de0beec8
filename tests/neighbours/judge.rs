//! The limits: a run with a neighbour, compared with the run without it. No input or output.

use std::time::Duration;

use crate::settings::GRACE;

/// How much later than in the run without the neighbour a notice may end, in seconds.
const LATER: f64 = 2.0;
/// The least part of the rate without the neighbour.
pub const RATE: f64 = 0.95;
/// How much more memory the process may take, in KiB.
const MORE_MEMORY: u64 = 50 * 1024;
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
    /// The notices of each window, in the order of their adds.
    pub windows: Vec<Vec<Sent>>,
    /// The peak, in KiB.
    pub memory: u64,
    /// How long the end took after SIGTERM.
    pub stop: Duration,
    pub exit_code: Option<i32>,
    /// How long the end may take after the grace.
    pub after_grace: Duration,
}

/// Returns how many notices ended in a second, over all windows: at most as many as were added. The first and the last twentieth of the ends do
/// not count, because one late notice, which has a limit of its own, is not a slow sender.
pub fn rate(windows: &[Vec<Sent>]) -> f64 {
    let (mut count, mut seconds) = (0.0, 0.0);
    for window in windows {
        let mut ends: Vec<f64> = window.iter().filter_map(|sent| sent.ended).collect();
        ends.sort_by(f64::total_cmp);
        let first = window.len() / 20;
        let last = window.len() - 1 - first;
        if ends.len() <= last {
            return 0.0;
        }
        count += f64::from(u32::try_from(last - first).unwrap());
        seconds += f64::max(ends[last] - ends[first], window[last].planned - window[first].planned);
    }
    count / seconds
}

/// Returns the time from add to end that 99 % of the notices do not exceed, in seconds.
pub fn p99(run: &Run) -> f64 {
    let all = run.windows.iter().flatten();
    let mut times: Vec<f64> = all.map(|sent| sent.ended.map_or(f64::INFINITY, |end| end - sent.planned)).collect();
    times.sort_by(f64::total_cmp);
    times[(times.len() * 99).div_ceil(100) - 1]
}

/// Returns the longest time by which a notice ended later than that of the same number without the neighbour, in seconds.
pub fn latest(without: &Run, with: &Run) -> f64 {
    let later = with.windows.iter().flat_map(|window| window.iter().zip(&without.windows[0]));
    let later =
        later.map(|(with, without)| with.ended.unwrap_or(f64::INFINITY) - without.ended.unwrap_or(f64::INFINITY));
    later.fold(f64::NEG_INFINITY, f64::max)
}

/// Returns what the neighbour has disturbed.
pub fn complaints(without: &Run, with: &Run) -> Vec<String> {
    let mut complaints = Vec::new();
    for window in &with.windows {
        for (sent, same) in window.iter().zip(&without.windows[0]) {
            if !sent.clean {
                complaints.push(format!("a notice of {} failed or lost a try: {}", sent.definition, sent.state));
            }
            match (sent.ended, same.ended) {
                (Some(ended), Some(without)) if ended - without <= LATER => {}
                (ended, without) => {
                    let late = format!("ended after {ended:.1?} s, without the neighbour after {without:.1?} s");
                    complaints.push(format!("a notice of {} {late}", sent.definition));
                }
            }
        }
    }
    let rates = (rate(&with.windows), rate(&without.windows));
    if rates.0 < RATE * rates.1 {
        complaints.push(format!("{:.2} notices ended in a second, without the neighbour {:.2}", rates.0, rates.1));
    }
    if with.memory > without.memory + MORE_MEMORY {
        complaints.push(format!("it took {} KiB, without the neighbour {} KiB", with.memory, without.memory));
    }
    complaints.extend(end_complaint(with));
    complaints
}

/// Returns what was wrong with the end of a process.
fn end_complaint(run: &Run) -> Option<String> {
    let in_time = run.stop <= GRACE + run.after_grace && run.exit_code == Some(0);
    (!in_time)
        .then(|| format!("after SIGTERM it ended with {:?} in {:.1?}, its grace is {GRACE:?}", run.exit_code, run.stop))
}

/// Returns what is wrong with a run without a neighbour. Nothing can be compared with it.
pub fn baseline_complaints(run: &Run) -> Vec<String> {
    let failed = run.windows.iter().flatten().filter(|sent| !sent.clean || sent.ended.is_none());
    failed.map(|sent| format!("{}: {}", sent.definition, sent.state)).chain(end_complaint(run)).collect()
}

/// Returns the median.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
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
            windows: vec![(0..60).map(sent).collect()],
            memory: 100_000,
            stop: GRACE,
            exit_code: Some(0),
            after_grace: AFTER_GRACE,
        }
    }

    fn complaint(change: impl Fn(u32, &mut Sent)) -> String {
        complaints(&run(|_, _| ()), &run(change)).join("; ")
    }

    #[test]
    fn equal_runs_and_one_late_notice_are_no_complaint() {
        assert_eq!(complaint(|_, _| ()), "");
        assert_eq!(
            complaint(|number, sent| sent.ended = sent.ended.map(|end| if number == 30 { end + 1.9 } else { end })),
            ""
        );
    }

    #[test]
    fn each_limit_is_a_complaint_of_its_own() {
        let lost = complaint(|number, sent| sent.clean = number != 7);
        assert!(lost.contains("failed or lost a try") && !lost.contains(';'), "{lost}");
        let late =
            complaint(|number, sent| sent.ended = sent.ended.map(|end| if number == 8 { end + 2.1 } else { end }));
        assert!(late.contains("ended after Some(2.6) s, without the neighbour after Some(0.5) s"), "{late}");
        let never = complaint(|number, sent| sent.ended = sent.ended.filter(|_| number != 7));
        assert!(never.contains("ended after None"), "{never}");
        // Each takes 5.5 % longer than the one before, so the last is 0.16 s late.
        let slow = complaint(|number, sent| sent.ended = sent.ended.map(|end| end + f64::from(number) * 0.05 * 0.055));
        assert!(slow.contains("notices ended in a second") && !slow.contains(';'), "{slow}");
        let without = run(|_, _| ());
        let large = Run { memory: without.memory + MORE_MEMORY + 1, ..without.clone() };
        assert!(complaints(&without, &large)[0].contains("KiB"));
        let (slow, failed) =
            (Run { stop: GRACE * 4, ..without.clone() }, Run { exit_code: Some(1), ..without.clone() });
        assert!([slow, failed].iter().all(|run| complaints(&without, run)[0].contains("SIGTERM")));
    }

    #[test]
    fn percentile_is_that_of_all_windows() {
        let mut with = run(|number, sent| sent.ended = sent.ended.map(|end| if number == 7 { end + 1.0 } else { end }));
        assert!((p99(&with) - 1.1).abs() < 1e-9);
        with.windows.push(run(|_, _| ()).windows.remove(0));
        assert!((p99(&with) - 0.1).abs() < 1e-9);
        assert!((latest(&run(|_, _| ()), &with) - 1.0).abs() < 1e-9);
        assert!((median(vec![9.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
    }
}
