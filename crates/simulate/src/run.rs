//! Runs a simulation, one event after the other. Nothing waits and nothing is stored. The code of the real system decides
//! each outcome.

use std::collections::VecDeque;
use std::time::Duration;

use chrono::DateTime;
use solid_notify_core::alert::trigger::trigger;
use solid_notify_core::definition::{AlertTrigger, FOREVER};
use solid_notify_core::notice::{duration_from_millis, duration_millis};
use solid_notify_core::transition::{Chance, Event, Next, transition};
use solid_notify_core::{AlertReason, ClaimedNotice, ErrorClass, Policy, Status};

use super::agenda::Agenda;
use super::alerts::Desk;
use super::gate::Gate;
use super::report::{Ending, Report, Totals};
use super::scenario::Scenario;
use super::series::Recorder;

/// A live notice, with all that the next decision needs.
#[derive(Clone, Copy)]
struct Notice {
    id: i64,
    added: i64,
    failures: i64,
    crashes: i64,
}

/// The events of notices and alerts.
enum Happens {
    /// The next notice is added.
    Added,
    /// A retry is due.
    Due(Notice),
    /// A handler returns, or its process dies.
    Returned(Notice, SimulatedOutcome),
    /// The lease of a dead process expires.
    LeaseOver(Notice),
    /// The receiver acks a delivery.
    AckResult(Notice),
    /// The receiver did not ack it in time.
    Unacked(Notice),
    /// The row of an alert is due, unless it was due earlier.
    AlertIsDue(AlertReason),
    /// Notices that the gate refused may begin now.
    LookedAgain,
}

/// How an attempt ends.
#[derive(Clone, Copy)]
enum SimulatedOutcome {
    Delivered,
    Failed(ErrorClass),
    Died,
}

struct Run<'a> {
    policy: &'a Policy,
    scenario: &'a Scenario,
    chance: fastrand::Rng,
    agenda: Agenda<Happens>,
    now: i64,
    slices: Slices,
    gate: Gate,
    /// Notices that failed and are not being sent again yet.
    failed: u64,
    /// When the last outage ends.
    outage_end: Option<i64>,
    /// Live notices that were added before the end of the last outage.
    old: u64,
    drained: Option<i64>,
    last_success: Option<i64>,
    until: i64,
    totals: Totals,
    recorder: Recorder,
    desk: Desk,
    /// Reused for each notice that is judged, so that none needs texts of its own.
    claimed: ClaimedNotice,
}

/// The due notices, and the slots for which they wait. Other reasons to wait are in [`Gate`].
struct Slices {
    first_sends: VecDeque<Notice>,
    retries: VecDeque<Notice>,
    free: usize,
    /// Whether the retries have the next turn if both queue slices have notices.
    retry_next: bool,
}

impl Slices {
    /// Returns the next notice to send and takes a slot for it. If both queue slices have notices they take turns, so that
    /// neither starves the other. Within a slice the notice that has been due longest comes first.
    fn next(&mut self) -> Option<Notice> {
        self.free.checked_sub(1)?;
        if !self.first_sends.is_empty() && !self.retries.is_empty() {
            self.retry_next = !self.retry_next;
        } else {
            self.retry_next = self.first_sends.is_empty();
        }
        let slice = if self.retry_next { &mut self.retries } else { &mut self.first_sends };
        let next = slice.pop_front()?;
        self.free -= 1;
        Some(next)
    }

    /// Returns whether a notice waits and a slot is free.
    fn is_ready(&self) -> bool {
        self.free > 0 && self.waiting() > 0
    }

    fn waiting(&self) -> u64 {
        (self.first_sends.len() + self.retries.len()) as u64
    }
}

/// Simulates a valid scenario; ends after `most_attempts` attempts, even if notices are live.
pub(super) fn run(policy: &Policy, scenario: &Scenario, most_attempts: u64) -> Report {
    // A paused definition accepts notices and sends none.
    let free = if policy.enabled { scenario.nodes.saturating_mul(policy.max_concurrency) } else { 0 };
    let slices = Slices { first_sends: VecDeque::new(), retries: VecDeque::new(), free, retry_next: false };
    let mut run = Run {
        policy,
        scenario,
        chance: fastrand::Rng::with_seed(scenario.seed),
        agenda: Agenda::new(),
        now: 0,
        slices,
        gate: Gate::new(scenario.starting),
        failed: 0,
        outage_end: scenario.outages.iter().map(|outage| duration_millis(outage.end())).max(),
        old: 0,
        drained: None,
        last_success: None,
        until: 0,
        totals: Totals::default(),
        recorder: Recorder::new(scenario.bucket),
        desk: Desk::new(),
        claimed: no_notice(policy.def_id),
    };
    run.agenda.enter(0, Happens::Added);
    let ending = run.play(duration_millis(scenario.end()), most_attempts);
    run.report(ending)
}

impl Run<'_> {
    fn after(&mut self, pause: Duration, what: Happens) {
        self.agenda.enter(self.now.saturating_add(duration_millis(pause)), what);
    }

    fn play(&mut self, horizon: i64, most_attempts: u64) -> Ending {
        while let Some((at, what)) = self.agenda.next() {
            if at > horizon {
                break;
            }
            if self.totals.attempts() >= most_attempts {
                return Ending::TooManyAttempts;
            }
            self.now = at;
            self.happens(what);
            while self.slices.is_ready() {
                if let Err(again) = self.gate.lets_through(self.policy, self.now) {
                    again.into_iter().for_each(|at| self.agenda.enter(at, Happens::LookedAgain));
                    break;
                }
                let Some(notice) = self.slices.next() else { break };
                self.send(notice);
            }
            self.recorder.level(self.now, self.totals.live, self.slices.waiting());
        }
        if self.totals.live == 0 {
            return Ending::AllEnded;
        }
        // The live notices stay live until the horizon, because no event comes before it.
        self.until = horizon;
        Ending::Horizon
    }

    fn happens(&mut self, what: Happens) {
        if !matches!(what, Happens::AlertIsDue(_) | Happens::LookedAgain) {
            self.until = self.now;
        }
        match what {
            Happens::Added => self.add(),
            Happens::Due(notice) => self.slices.retries.push_back(notice),
            Happens::Returned(notice, outcome) => {
                self.slices.free += 1;
                if !matches!(outcome, SimulatedOutcome::Died) {
                    self.gate.ended();
                }
                match outcome {
                    SimulatedOutcome::Delivered => self.judge(notice, &Event::Succeeded),
                    SimulatedOutcome::Failed(class) => self.judge(notice, &Event::Failed(class)),
                    // The death becomes known only when the lease expires, which began with the attempt.
                    SimulatedOutcome::Died => {
                        self.after(self.policy.lease() - self.occupied(), Happens::LeaseOver(notice))
                    }
                }
            }
            Happens::LeaseOver(notice) => {
                self.gate.ended();
                self.judge(notice, &Event::Crashed);
            }
            Happens::LookedAgain => {}
            Happens::AckResult(notice) => self.finish(notice, Status::Succeeded),
            Happens::Unacked(notice) => self.judge(notice, &Event::Failed(ErrorClass::Unacked)),
            Happens::AlertIsDue(reason) => {
                let next = self.desk.advance(self.policy, reason, self.failed > 0, self.now);
                if let Some(due) = next {
                    self.agenda.enter(due, Happens::AlertIsDue(reason));
                }
            }
        }
    }

    /// Adds a notice, and enters the next arrival.
    fn add(&mut self) {
        self.totals.added += 1;
        self.totals.live += 1;
        self.recorder.at(self.now).added += 1;
        self.old += u64::from(self.outage_end.is_some_and(|end| self.now < end));
        let id = i64::try_from(self.totals.added).unwrap_or(i64::MAX);
        self.slices.first_sends.push_back(Notice { id, added: self.now, failures: 0, crashes: 0 });
        if self.totals.added < self.scenario.notices() {
            let at = self.totals.added as f64 * 1000.0 / self.scenario.rate;
            self.agenda.enter(at as i64, Happens::Added);
        }
    }

    /// Begins an attempt.
    fn send(&mut self, notice: Notice) {
        if notice.failures + notice.crashes == 0 {
            self.totals.first_sends += 1;
            self.recorder.at(self.now).first_sends += 1;
        } else {
            self.totals.retries += 1;
            self.failed -= 1;
            self.recorder.retry(self.now);
        }
        self.gate.begin(self.policy, notice.id, self.now);
        let (outcome, takes) = self.fate();
        self.after(takes, Happens::Returned(notice, outcome));
    }

    /// Returns how an attempt that begins now will end, and after which time.
    fn fate(&mut self) -> (SimulatedOutcome, Duration) {
        let now = duration_from_millis(self.now);
        let outage = self.scenario.outages.iter().find(|outage| outage.from <= now && now < outage.end());
        let fails = self.chance.f64() < self.scenario.failing;
        let dies = self.chance.f64() < self.scenario.crashing;
        let class = outage.map(|outage| outage.class).or(fails.then_some(self.scenario.class));
        match class {
            _ if dies => (SimulatedOutcome::Died, self.occupied()),
            Some(ErrorClass::Timeout) => (SimulatedOutcome::Failed(ErrorClass::Timeout), self.policy.timeout),
            _ if self.scenario.attempt > self.policy.timeout => {
                (SimulatedOutcome::Failed(ErrorClass::Timeout), self.policy.timeout)
            }
            Some(class) => (SimulatedOutcome::Failed(class), self.scenario.attempt),
            None => (SimulatedOutcome::Delivered, self.scenario.attempt),
        }
    }

    /// Returns how long a process that dies while sending occupies its slot.
    fn occupied(&self) -> Duration {
        self.scenario.attempt.min(self.policy.timeout)
    }

    /// Applies `event` to a notice.
    fn judge(&mut self, mut notice: Notice, event: &Event) {
        (self.claimed.id, self.claimed.fence) = (notice.id, notice.failures + notice.crashes + 1);
        (self.claimed.failures, self.claimed.crashes) = (notice.failures, notice.crashes);
        let strategy: &(dyn Fn(u32) -> Duration + Send + Sync) = match &self.scenario.strategy {
            Some(delay) => &**delay,
            // A definition that names a strategy is refused if the scenario has none.
            None => &|_| Duration::ZERO,
        };
        let chance = Chance { unit: self.chance.f64(), elapsed: Duration::ZERO, strategy };
        let decided = transition(self.policy, &self.claimed, event, &chance);
        (notice.failures, notice.crashes) = (decided.failures, decided.crashes);
        let class = match event {
            Event::Failed(class) => Some(*class),
            _ => None,
        };
        if class.is_some() || *event == Event::Crashed {
            self.totals.failures += 1;
            self.totals.crashes += u64::from(*event == Event::Crashed);
            self.recorder.at(self.now).failures += 1;
        }
        let opens = self.gate.watch(self.policy, notice.id, event, self.now);
        let opened = (opens && self.policy.alert_trigger != AlertTrigger::Never).then_some(AlertReason::CircuitOpen);
        for reason in trigger(self.policy, event, &decided).into_iter().chain(opened) {
            if let Some(due) = self.desk.raise(self.policy, reason, notice.id, class, self.now) {
                self.agenda.enter(due, Happens::AlertIsDue(reason));
            }
        }
        match decided.next {
            Next::Wait { status: Status::AwaitingAck, after } => self.await_ack(notice, after),
            Next::Wait { after, .. } => {
                self.failed += 1;
                self.after(after, Happens::Due(notice));
            }
            Next::Finish { status, .. } => self.finish(notice, status),
        }
    }

    fn await_ack(&mut self, notice: Notice, within: Duration) {
        let acked = self.chance.f64() < self.scenario.acking && self.scenario.acked_after < within;
        if acked {
            self.after(self.scenario.acked_after, Happens::AckResult(notice));
        } else if within != FOREVER {
            self.after(within, Happens::Unacked(notice));
        }
    }

    fn finish(&mut self, notice: Notice, status: Status) {
        self.totals.live -= 1;
        if status == Status::Succeeded {
            self.totals.succeeded += 1;
            self.recorder.at(self.now).successes += 1;
            self.last_success = Some(self.now);
            self.desk.succeeded(self.policy, self.now);
        } else {
            self.totals.dead_letters += 1;
            self.recorder.at(self.now).dead_letters += 1;
        }
        if let Some(end) = self.outage_end.filter(|end| notice.added < *end) {
            self.old -= 1;
            if self.old == 0 {
                self.drained = Some(self.now.max(end));
            }
        }
    }

    fn report(self, ending: Ending) -> Report {
        let (series, bucket, peak_retries) = self.recorder.finish();
        let drained = self.drained.filter(|_| self.old == 0).zip(self.outage_end);
        Report {
            definition: self.policy.name.clone(),
            seed: self.scenario.seed,
            outages: self.scenario.outages.clone(),
            ending,
            until: duration_from_millis(self.until),
            totals: Totals { alerts: self.desk.alerts, suppressed: self.desk.suppressed, ..self.totals },
            series,
            bucket,
            peak_retries,
            last_success: self.last_success.map(duration_from_millis),
            drained_after: drained.map(|(at, end)| duration_from_millis(at - end)),
            alerts: self.desk.sent,
        }
    }
}

/// Returns an empty notice, to be filled in.
fn no_notice(def_id: i64) -> ClaimedNotice {
    let new = ClaimedNotice::new(0, def_id, Status::Sending, "null".to_owned(), DateTime::UNIX_EPOCH);
    ClaimedNotice { worker: "simulation".to_owned(), ..new }
}
