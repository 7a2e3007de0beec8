//! The checker: the rules of every run, with every fault. It uses only the evidence, and nothing of the library's internals.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::faults::evidence::{Call, Evidence, Fate, Made, Row};

const SUCCEEDED: i64 = 1;
const DEAD_LETTER: i64 = 3;

/// A check of one rule. Returns a sentence for each violation.
type Rule = fn(&Evidence) -> Vec<String>;

/// Returns every rule with its violations.
pub fn check(evidence: &Evidence) -> BTreeMap<&'static str, Vec<String>> {
    let rules: [(&'static str, Rule); 9] = [
        ("every committed notice has ended", every_committed_notice_has_ended),
        ("nothing of rolled-back work was ever seen", nothing_of_rolled_back_work_was_seen),
        ("a transaction's notices share its fate", transactions_are_whole),
        ("no attempt is made twice", no_attempt_is_made_twice),
        ("a notice is sent by one at a time", sent_by_one_at_a_time),
        ("each call is settled once, as what it was", calls_are_settled),
        ("a crash is counted only for a process that was killed", crashes_have_a_cause),
        ("the tries are within the limits", tries_are_within_the_limits),
        ("the notices of a key are sent one after the other, in their order", keys_are_kept_in_order),
    ];
    rules.into_iter().map(|(name, rule)| (name, rule(evidence))).collect()
}

fn every_committed_notice_has_ended(evidence: &Evidence) -> Vec<String> {
    let mut ended: HashMap<&str, Vec<&Row>> = HashMap::new();
    for row in &evidence.history {
        ended.entry(&row.token).or_default().push(row);
    }
    let mut wrong: Vec<String> = evidence.live.iter().map(|id| format!("notice {id} is still in notify_msg")).collect();
    for made in &evidence.made {
        let rows = ended.get(&*made.token).map_or(&[][..], Vec::as_slice);
        match (made.fate, rows) {
            (Fate::Committed(id), [row]) if row.id == id => {}
            (Fate::Committed(_), rows) => wrong.push(format!("{made:?} was committed; in history: {rows:?}")),
            (_, [] | [_]) => {}
            (_, rows) => wrong.push(format!("{made:?} is there more than once: {rows:?}")),
        }
    }
    let is_unlike = |row: &&Row| {
        let last = |call: &&Call| call.fence == row.fence && result(call) == Some(true);
        let last_ok = evidence.calls_of(row.id).iter().any(|call| last(&call));
        // Where its process was killed before that was stored.
        let crashed = row.errors.iter().any(|error| error.is_crash() && error.fence == row.fence);
        match row.status {
            SUCCEEDED => !last_ok,
            DEAD_LETTER => last_ok && !crashed,
            _ => true,
        }
    };
    let unlike = evidence.history.iter().filter(is_unlike);
    wrong.extend(
        unlike.map(|row| format!("{row:?} has not ended as its last call did: {:?}", evidence.calls_of(row.id))),
    );
    wrong
}

fn nothing_of_rolled_back_work_was_seen(evidence: &Evidence) -> Vec<String> {
    let exists: HashSet<&str> =
        evidence.made.iter().filter(|made| made.fate != Fate::RolledBack).map(|made| &*made.token).collect();
    let rows = evidence.history.iter().map(|row| (row.id, &*row.token));
    let calls = evidence.calls.iter().flat_map(|(id, calls)| calls.iter().map(|call| (*id, &*call.token)));
    let seen = rows.chain(calls).filter(|(_, token)| !exists.contains(token));
    let mut wrong: Vec<String> = seen.map(|(id, token)| format!("{token} was seen as notice {id}")).collect();
    let in_history: HashSet<i64> = evidence.history.iter().map(|row| row.id).collect();
    let vanished = evidence.calls.keys().filter(|id| !in_history.contains(id) && !evidence.live.contains(id));
    wrong.extend(vanished.map(|id| format!("notice {id} was sent and is in no table")));
    wrong
}

fn transactions_are_whole(evidence: &Evidence) -> Vec<String> {
    let tokens = evidence.tokens();
    let mut transactions: HashMap<&str, Vec<&Made>> = HashMap::new();
    for made in evidence.made.iter().filter(|made| made.fate == Fate::Maybe) {
        transactions.entry(made.transaction()).or_default().push(made);
    }
    let torn = transactions.into_iter().filter(|(_, made)| {
        let there = made.iter().filter(|made| tokens.contains(&*made.token)).count();
        there != 0 && there != made.len()
    });
    torn.map(|(name, made)| format!("transaction {name} is torn: {made:?}")).collect()
}

fn no_attempt_is_made_twice(evidence: &Evidence) -> Vec<String> {
    let twice = evidence.calls.iter().filter(|(_, calls)| {
        let attempts: HashSet<i64> = calls.iter().map(|call| call.fence).collect();
        attempts.len() < calls.len()
    });
    twice.map(|(id, calls)| format!("notice {id}: {calls:?}")).collect()
}

fn sent_by_one_at_a_time(evidence: &Evidence) -> Vec<String> {
    let overlaps = |pair: &[Call]| {
        evidence.end_of(&pair[0]).is_none_or(|end| end > pair[1].began) || pair[0].fence >= pair[1].fence
    };
    let wrong = evidence.calls.iter().filter(|(_, calls)| calls.windows(2).any(overlaps));
    let wrong = wrong.map(|(id, calls)| format!("notice {id}: {calls:?}"));
    wrong.chain(evidence.nonsense.iter().cloned()).collect()
}

/// Each call is a failure of the row, a crash of it, or its success; and each failure was a call.
fn calls_are_settled(evidence: &Evidence) -> Vec<String> {
    let wrong = evidence.history.iter().filter(|row| {
        let calls = evidence.calls_of(row.id);
        let record = |fence| row.errors.iter().filter(move |error| error.fence == fence).collect::<Vec<_>>();
        let settled = |call: &Call| match record(call.fence).as_slice() {
            [] => row.status == SUCCEEDED && call.fence == row.fence && result(call) == Some(true),
            [error] if error.is_crash() => evidence.killed.contains_key(&call.node),
            [error] => error.process() == call.node && result(call) == Some(false),
            _ => false,
        };
        let was_called = |fence| calls.iter().any(|call| call.fence == fence);
        let crashes = row.errors.iter().filter(|error| error.is_crash()).count();
        let counted = i64::try_from(crashes).unwrap() == row.crashes
            && i64::try_from(row.errors.len() - crashes).unwrap() == row.failures;
        !counted
            || !calls.iter().all(|call| call.token == row.token && settled(call))
            || !row.errors.iter().all(|error| error.is_crash() || was_called(error.fence))
    });
    wrong.map(|row| format!("{row:?} with {:?}", evidence.calls_of(row.id))).collect()
}

fn crashes_have_a_cause(evidence: &Evidence) -> Vec<String> {
    let crashes = evidence.history.iter().flat_map(|row| row.errors.iter().map(move |error| (row.id, error)));
    let wrong = crashes.filter(|(_, error)| error.is_crash() && !evidence.killed.contains_key(error.process()));
    wrong.map(|(id, error)| format!("notice {id}: {error:?}")).collect()
}

/// A dead letter has used all its tries, and no notice uses more. A limit that was edited meanwhile may have been any of
/// those that it ever was.
fn tries_are_within_the_limits(evidence: &Evidence) -> Vec<String> {
    let made: HashMap<&str, &Made> = evidence.made.iter().map(|made| (&*made.token, made)).collect();
    let wrong = evidence.history.iter().filter(|row| {
        let Some(limits) = made.get(&*row.token).and_then(|made| evidence.limits.get(&made.def)) else { return true };
        // A success is a try that counts nothing.
        let tries = row.failures + row.crashes + i64::from(row.status == SUCCEEDED);
        let calls = i64::try_from(evidence.calls_of(row.id).len()).unwrap();
        tries > 1 + limits.end() || calls > tries || (row.status == DEAD_LETTER && tries < 1 + limits.start())
    });
    wrong.map(|row| format!("{row:?} with {:?}", evidence.calls_of(row.id))).collect()
}

/// Successive notices of a key: the last call of the first has ended before the first call of the second begins.
fn keys_are_kept_in_order(evidence: &Evidence) -> Vec<String> {
    let ids: HashMap<&str, i64> = evidence.history.iter().map(|row| (&*row.token, row.id)).collect();
    let mut keys: HashMap<(&str, &str), Vec<(&Made, i64)>> = HashMap::new();
    for made in &evidence.made {
        if let (Some(key), Some(id)) = (&made.key, ids.get(&*made.token)) {
            keys.entry((&made.def, key)).or_default().push((made, *id));
        }
    }
    let mut wrong = Vec::new();
    for ((_, key), notices) in keys {
        let (mut free, mut before) = (Some(0), Vec::new());
        for (made, id) in notices {
            let calls = evidence.calls_of(id);
            if let Some(first) = calls.first()
                && free.is_none_or(|free| free > first.began)
            {
                wrong.push(format!(
                    "key {key}: {made:?} was sent ({calls:?}) before the one before it had ended: {before:?}"
                ));
            }
            if let Some(last) = calls.last() {
                free = evidence.end_of(last);
                before = calls.to_vec();
            }
        }
    }
    wrong
}

fn result(call: &Call) -> Option<bool> {
    call.ended.map(|(_, ok)| ok)
}
