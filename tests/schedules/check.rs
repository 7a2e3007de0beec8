//! Checks the promises when a schedule has ended. The world itself reports promises that break during the schedule.

use std::collections::BTreeMap;

use solid_notify::Status;
use solid_notify::alert::{AlertKind, AlertReason};

use std::time::Duration;

use crate::ledger::{ClaimRecord, Fate, Ledger, Run};
use crate::plan::{
    ACKED, BUSY_TRIES, COOLDOWN, EDITED, GRACE, LEASE, RULED, SHORTEST, START, TICK, TIMEOUT, UNHANDLED,
};

/// Returns every broken promise of a schedule.
pub fn all(ledger: &Ledger) -> Vec<String> {
    let mut wrong = ledger.broken.clone();
    for check in
        [ends, only_what_was_committed, one_at_a_time, cadence, tries, crashes, last_words, ticks, alerts, cooldown]
    {
        check(ledger, &mut wrong);
    }
    wrong
}

/// G2: every committed notice has ended, unless no node has its handler (G7).
fn ends(ledger: &Ledger, wrong: &mut Vec<String>) {
    for (id, committed) in &ledger.committed {
        let record = ledger.ended.get(id);
        let delivered = ledger.runs_of(*id).any(|run| matches!(run.ended, Some((_, Fate::Delivered))));
        let status = record.map(|record| record.status);
        let well = match (committed.definition, status) {
            (_, Some(Status::Cancelled)) => {
                let skipped = ledger.runs_of(*id).any(|run| matches!(run.ended, Some((_, Fate::Skipped))));
                skipped || ledger.cancelled.contains(id)
            }
            (UNHANDLED, status) => status == Some(Status::NotSent) && record.is_some_and(|record| record.fence == 0),
            // Without history a success leaves nothing.
            ("forgotten", None) => delivered,
            (_, Some(Status::Succeeded)) => delivered,
            (_, status) => status == Some(Status::DeadLetter),
        };
        if !well {
            let at = committed.at;
            wrong.push(format!("G2: notice {id} of {} (added at {at:?}) ended as {status:?}", committed.definition));
        }
    }
}

/// G1: a handler gets only committed notices, with an attempt that the store gave to its node.
fn only_what_was_committed(ledger: &Ledger, wrong: &mut Vec<String>) {
    for run in &ledger.runs {
        let (id, fence) = (run.id, run.fence);
        if !ledger.committed.contains_key(&id) {
            wrong.push(format!("G1: notice {id} was sent and never committed"));
        }
        let given = |claim: &&crate::ledger::ClaimRecord| (claim.id, claim.fence, claim.node) == (id, fence, run.node);
        if ledger.claims.iter().filter(given).count() != 1 {
            wrong.push(format!(
                "G3: attempt {fence} of notice {id} was sent by node {}, which does not have it",
                run.node
            ));
        }
        let runs = ledger.runs_of(id).filter(|other| other.fence == fence).count();
        if runs != 1 {
            wrong.push(format!("G3: attempt {fence} of notice {id} was sent {runs} times"));
        }
    }
}

/// No notice is sent twice at the same time, unless a kill cut off its sender or an operator ended its attempt.
fn one_at_a_time(ledger: &Ledger, wrong: &mut Vec<String>) {
    for (n, run) in ledger.runs.iter().enumerate() {
        // A handler ends by itself, by its time-out, or is given up by a shutdown.
        let given_up = ledger.shut_down.get(&run.node).map_or(Duration::MAX, |began| *began + GRACE);
        let end = run.ended.map_or(given_up.min(run.began + TIMEOUT), |(at, _)| at);
        let beside = ledger.runs[n + 1..].iter().find(|other| other.id == run.id && other.began < end);
        if let Some(beside) = beside {
            wrong.push(format!("notice {} was sent by node {} and node {} at once", run.id, run.node, beside.node));
        }
        let same =
            |other: &&Run| other.node == run.node && ledger.definition(other.id) == "narrow" && other.began < end;
        if ledger.definition(run.id) == "narrow" && ledger.runs[n + 1..].iter().any(|other| same(&other)) {
            wrong.push(format!("node {} sent another one beside {}, which has no place beside it", run.node, run.id));
        }
    }
}

/// G4: a failed attempt is followed by the next after its interval, however many nodes there are.
fn cadence(ledger: &Ledger, wrong: &mut Vec<String>) {
    for (id, committed) in &ledger.committed {
        let runs: Vec<_> = ledger.runs_of(*id).collect();
        for pair in runs.windows(2) {
            let Some((ended, fate)) = pair[0].ended else { continue };
            // A node that dies before its outcome is stored has crashed, which is sent again without an interval.
            let stored = !ledger.gone.contains(&pair[0].node);
            let stored = stored && !ledger.ended_by_either.contains(id);
            if stored && fate.fails() && pair[1].began + crate::link::SOONER < ended + SHORTEST {
                wrong.push(format!(
                    "G4: notice {id} was sent again at {:?}, after a failure at {ended:?}",
                    pair[1].began
                ));
            }
        }
        if ledger.plan.is_calm() && ledger.plan.pauses == 0 && committed.definition == "plain" && runs.len() >= 2 {
            let intervals = [5, 10, 30].map(std::time::Duration::from_secs);
            for (pair, interval) in runs.windows(2).zip(intervals) {
                let Some((ended, fate)) = pair[0].ended else { continue };
                let late = pair[1].began.saturating_sub(ended + interval);
                if matches!(fate, Fate::Failed | Fate::Panicked | Fate::Hangs) && late > crate::link::LATE {
                    wrong.push(format!("G4: retry of notice {id} was late by {late:?}"));
                }
            }
        }
    }
}

/// G5: the stored tries equal the real attempts, and are within the limit.
fn tries(ledger: &Ledger, wrong: &mut Vec<String>) {
    for (id, record) in &ledger.ended {
        let definition = ledger.definition(*id);
        let limit = match definition {
            "once" => 1,
            "stubborn" => i64::MAX,
            _ => 4,
        };
        let count = |n: usize| i64::try_from(n).unwrap();
        let failed = count(ledger.runs_of(*id).filter(|run| run.ended.is_some_and(|(_, fate)| fate.fails())).count());
        let lost =
            count(ledger.claims.iter().filter(|claim| claim.id == *id && ledger.gone.contains(&claim.node)).count());
        let (failures, crashes) = (record.failures, record.crashes);
        if failures + crashes > limit {
            wrong.push(format!("G5: notice {id} has used {failures} + {crashes} tries of {limit}"));
        }
        if crashes > lost {
            wrong.push(format!("G5: notice {id} has {crashes} crashes, and lost {lost} attempts with their processes"));
        }
        // Deliveries without an ack are failures, too, and an operator ends an attempt without its outcome.
        if definition == ACKED || ledger.cancelled.contains(id) || ledger.ended_by_either.contains(id) {
            continue;
        }
        if failures > failed {
            wrong.push(format!("G5: notice {id} has {failures} failures, of {failed} attempts that failed"));
        }
        if failures + crashes < failed {
            wrong.push(format!("G5: notice {id} has {failures} + {crashes} tries, and {failed} attempts failed"));
        }
    }
}

/// G5: a process that dies while sending counts, and after the first time the notice waits for its interval, beside the lease.
fn crashes(ledger: &Ledger, wrong: &mut Vec<String>) {
    for (id, record) in &ledger.ended {
        let died = |run: &&Run| run.ended.is_none() && ledger.killed.contains(&run.node);
        let lost = ledger.runs_of(*id).filter(died).count();
        let crashes = record.crashes;
        // An operator or a late ack ends an attempt without its outcome.
        let outdone = record.status == Status::Cancelled || ledger.answers.contains(id);
        if !outdone && usize::try_from(crashes).unwrap() < lost {
            wrong.push(format!("G5: notice {id} has {crashes} crashes, and {lost} processes died while sending it"));
        }
        let runs: Vec<_> = ledger.runs_of(*id).collect();
        for three in runs.windows(3).filter(|three| died(&three[0]) && died(&three[1])) {
            // The lease runs from the claim; the reply to the claim may have been late.
            let of_run = |claim: &&ClaimRecord| (claim.id, claim.fence) == (*id, three[1].fence);
            let claimed = ledger.claims.iter().find(of_run).map_or(three[1].began, |claim| claim.at);
            if three[2].began < claimed + LEASE + SHORTEST - crate::link::SOONER {
                wrong.push(format!(
                    "notice {id} was sent again at {:?}, at once after its second crash",
                    three[2].began
                ));
            }
        }
    }
}

/// Why a failure is the last one: a handler gave up, its class is not retried (so often), or the row allows no more retries.
fn last_words(ledger: &Ledger, wrong: &mut Vec<String>) {
    for (id, committed) in &ledger.committed {
        let runs: Vec<_> = ledger.runs_of(*id).collect();
        let mut failed = 0;
        for pair in runs.windows(2).filter(|pair| !ledger.gone.contains(&pair[0].node)) {
            let Some((ended, fate)) = pair[0].ended else { continue };
            failed += usize::from(fate.fails());
            let edited = committed.definition == EDITED && ledger.plan.faults == 0.0;
            let is_last = match fate {
                Fate::GaveUp | Fate::Refused => true,
                Fate::Busy => committed.definition == RULED && failed >= BUSY_TRIES,
                fate => fate.fails() && edited && ledger.edited.is_some_and(|edited| ended > edited),
            };
            if is_last {
                wrong.push(format!(
                    "notice {id} of {} was sent again after {fate:?} at {ended:?}",
                    committed.definition
                ));
            }
        }
    }
}

/// Each tick of the timetable that a sweeper has seen is one notice, and no tick is left out.
fn ticks(ledger: &Ledger, wrong: &mut Vec<String>) {
    for (tick, notices) in ledger.ticks.iter().filter(|(_, notices)| notices.len() != 1) {
        wrong.push(format!("the tick at {tick} is {notices:?}"));
    }
    let ticks: Vec<u64> = ledger.ticks.keys().copied().collect();
    if let Some(pair) = ticks.windows(2).find(|pair| pair[1] - pair[0] != TICK.as_secs()) {
        wrong.push(format!("G2: between the ticks {pair:?} there is none"));
    }
    let last = ticks.last().map_or(START, |tick| Duration::from_secs(*tick));
    if last + 2 * TICK < START + ledger.lasted {
        wrong.push(format!("G2: the last tick is {last:?}, and it went on until {:?}", START + ledger.lasted));
    }
}

/// G8: within the cool-down no node raises the same alert again.
fn cooldown(ledger: &Ledger, wrong: &mut Vec<String>) {
    let mut raised: BTreeMap<(&str, AlertReason), Vec<_>> = BTreeMap::new();
    for (id, alert) in ledger.told.iter().filter(|(_, alert)| alert.kind == AlertKind::Raised) {
        let written = ledger.alerts.get(id).map(|record| record.create_time);
        raised.entry((&alert.definition, alert.reason)).or_default().extend(written);
    }
    for (of, mut times) in raised {
        times.sort_unstable();
        if times.windows(2).any(|pair| (pair[1] - pair[0]).to_std().unwrap() + crate::link::SOONER < COOLDOWN) {
            wrong.push(format!("G8: an alert of {of:?} was raised again within the cool-down: {times:?}"));
        }
    }
}

/// G8: each dead letter is reported, by an alert of its own or in the count of suppressed ones.
fn alerts(ledger: &Ledger, wrong: &mut Vec<String>) {
    let mut dead: BTreeMap<&str, i64> = BTreeMap::new();
    for (id, _) in ledger.dead_letters() {
        *dead.entry(ledger.definition(*id)).or_default() += 1;
    }
    let mut told: BTreeMap<&str, i64> = BTreeMap::new();
    for alert in ledger.told.values().filter(|alert| alert.reason == AlertReason::FinalFailure) {
        let itself = i64::from(alert.kind == AlertKind::Raised);
        *told.entry(alert.definition.as_str()).or_default() += itself + alert.more;
    }
    // A dead letter with a late ack is a success, and was reported.
    for (definition, dead) in dead {
        let told = told.get(definition).copied().unwrap_or(0);
        if told < dead || (told > dead && definition != ACKED) {
            wrong.push(format!("G8: {definition} has {dead} dead letters, and {told} were reported"));
        }
    }
}
