//! [`Waiting`]: the notices that wait because this node cannot decrypt them, cannot judge their target's filter, or may not send to the host that
//! their row names.

use std::collections::BTreeMap;
use std::time::Duration;

use metrics::Gauge;
use parking_lot::Mutex;
use solid_notify_core::metrics::HELD_BACK;
use solid_notify_core::notice::{MESSAGE_LIMIT, clean_text};
use solid_notify_core::store::RefusedConfig;

/// How long such a notice waits. Another node may have the key, and an operator may correct the filter.
pub(super) const WAIT: Duration = Duration::from_secs(60);

/// How many notices of a definition are counted; more are as many.
const MOST: usize = 10_000;
/// How many of them are named.
pub(crate) const NAMED: usize = 10;

/// Such notices, by definition.
#[derive(Default)]
pub(crate) struct Waiting(Mutex<BTreeMap<i64, OfDefinition>>);

/// The notices of a definition that wait.
struct OfDefinition {
    tried: BTreeMap<i64, Tried>,
    /// When this node last tried one of them.
    latest: Duration,
    /// Why that one waits.
    problem: String,
    /// The same, of the latest one for each key that is missing, and for none.
    by_key: BTreeMap<Option<String>, String>,
    gauge: Gauge,
}

/// When this node first and last tried a notice, on the time scale of [`crate::worker::Worker::moment`].
struct Tried {
    first: Duration,
    last: Duration,
    /// The key that it lacks, if that is why it waits.
    key: Option<String>,
}

/// Notices of a definition that wait for the same reason.
pub(crate) struct SameReason {
    pub(crate) def_id: i64,
    /// The key that this node lacks: another one may have it.
    pub(crate) key: Option<String>,
    pub(crate) ids: Vec<i64>,
    pub(crate) problem: String,
}

impl OfDefinition {
    fn new(name: &str) -> Self {
        let gauge = metrics::gauge!(HELD_BACK, "definition" => name.to_owned());
        let (tried, by_key) = (BTreeMap::new(), BTreeMap::new());
        Self { tried, latest: Duration::ZERO, problem: String::new(), by_key, gauge }
    }

    fn text(&self) -> String {
        text(&self.problem, &self.tried.keys().copied().collect::<Vec<_>>())
    }

    /// The notices that wait, by the key that is missing. A notice without its key counts from its second try on, because nodes start
    /// one after the other.
    fn by_reason(&self, def_id: i64, now: Duration) -> Vec<SameReason> {
        let mut found: BTreeMap<&Option<String>, Vec<i64>> = BTreeMap::new();
        for (id, tried) in &self.tried {
            if tried.key.is_none() || now.saturating_sub(tried.first) >= WAIT {
                found.entry(&tried.key).or_default().push(*id);
            }
        }
        let reason = |(key, ids): (&Option<String>, Vec<i64>)| {
            let problem = self.by_key.get(key).unwrap_or(&self.problem);
            SameReason { def_id, key: key.clone(), ids, problem: problem.clone() }
        };
        found.into_iter().map(reason).collect()
    }
}

/// Says why notices wait, and which ones.
pub(crate) fn text(problem: &str, ids: &[i64]) -> String {
    let named = ids.iter().take(NAMED).map(i64::to_string).collect::<Vec<_>>().join(", ");
    let who = match ids.len() {
        1 => "it waits".to_owned(),
        MOST.. => format!("{MOST} notices or more wait (among them {named})"),
        count if count > NAMED => format!("{count} notices wait (among them {named})"),
        count => format!("{count} notices wait ({named})"),
    };
    clean_text(&format!("{problem}; {who}, and the others are sent"), MESSAGE_LIMIT)
}

impl Waiting {
    /// Records a notice, and the key that this node lacks. Returns what to report, for the first one of its definition for a while.
    pub(super) fn note(
        &self,
        (def_id, name): (i64, &str),
        id: i64,
        now: Duration,
        (problem, key): (&str, Option<&str>),
    ) -> Option<String> {
        let mut all = self.0.lock();
        let waiting = all.entry(def_id).or_insert_with(|| OfDefinition::new(name));
        let is_new = waiting.tried.is_empty() || is_over(waiting.latest, now);
        if is_new {
            waiting.tried.clear();
            waiting.by_key.clear();
        }
        let first = waiting.tried.get(&id).map(|tried| tried.first);
        if waiting.tried.len() < MOST || first.is_some() {
            let tried = Tried { first: first.unwrap_or(now), last: now, key: key.map(str::to_owned) };
            waiting.tried.insert(id, tried);
        }
        waiting.by_key.insert(key.map(str::to_owned), problem.to_owned());
        (waiting.problem, waiting.latest) = (problem.to_owned(), now);
        is_new.then(|| waiting.text())
    }

    /// Returns the notices that wait now, by their reason.
    pub(crate) fn by_reason(&self, now: Duration) -> Vec<SameReason> {
        self.lasting(now);
        self.0.lock().iter().flat_map(|(def_id, waiting)| waiting.by_reason(*def_id, now)).collect()
    }

    /// Forgets a notice that no longer waits.
    pub(crate) fn forget(&self, def_id: i64, id: i64) {
        if let Some(waiting) = self.0.lock().get_mut(&def_id) {
            waiting.tried.remove(&id);
        }
    }

    /// Returns the definitions whose notices wait now, which ones, and why. Sets their gauges.
    pub(crate) fn lasting(&self, now: Duration) -> Vec<RefusedConfig> {
        let mut all = self.0.lock();
        for waiting in all.values_mut() {
            waiting.tried.retain(|_, tried| !is_over(tried.last, now));
            waiting.gauge.set(u32::try_from(waiting.tried.len()).map_or(f64::MAX, f64::from));
        }
        all.retain(|_, waiting| !waiting.tried.is_empty());
        all.iter().map(|(def_id, waiting)| RefusedConfig::new(*def_id, waiting.text())).collect()
    }
}

/// A notice that still has to wait is tried again within that time.
fn is_over(at: Duration, now: Duration) -> bool {
    now.saturating_sub(at) > 2 * WAIT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_notices_are_reported_once_counted_and_named() {
        let waiting = Waiting::default();
        let note = |id, seconds| waiting.note((7, "card"), id, Duration::from_secs(seconds), ("no key", None));
        let lasting = |seconds| waiting.lasting(Duration::from_secs(seconds));
        let text = |seconds| lasting(seconds).remove(0).problem;
        assert_eq!(note(1, 0).as_deref(), Some("no key; it waits, and the others are sent"));
        assert_eq!(note(1, 60), None, "each attempt finds it again");
        assert_eq!(note(2, 90), None);
        assert_eq!(text(90), "no key; 2 notices wait (1, 2), and the others are sent");
        assert_eq!(text(181), "no key; it waits, and the others are sent");
        assert_eq!(lasting(211), []);
        assert!(note(2, 220).is_some());
        (0..30).for_each(|id| drop(note(id, 221)));
        assert!(text(221).contains("30 notices wait (among them 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)"), "{}", text(221));
        (0..11_000).for_each(|id| drop(note(id, 222)));
        assert!(text(222).contains("10000 notices or more wait"), "{}", text(222));
    }
    #[test]
    fn notices_without_their_key_count_from_their_second_try_on() {
        let waiting = Waiting::default();
        let note = |id, seconds, key: Option<&str>| {
            let problem = format!("{id} {key:?}");
            waiting.note((7, "card"), id, Duration::from_secs(seconds), (&problem, key));
        };
        let found = |seconds| {
            let found = waiting.by_reason(Duration::from_secs(seconds)).into_iter();
            found.map(|same| (same.key, same.ids, same.problem)).collect::<Vec<_>>()
        };
        note(1, 0, Some("z"));
        note(2, 0, None);
        note(3, 30, Some("y"));
        let (z, y) = ("1 Some(\"z\")".to_owned(), "4 Some(\"y\")".to_owned());
        let any = (None, vec![2], "2 None".to_owned());
        assert_eq!(found(59), std::slice::from_ref(&any));
        assert_eq!(found(60), [any, (Some("z".to_owned()), vec![1], z)]);
        note(3, 90, Some("y"));
        note(4, 100, Some("y"));
        assert_eq!(found(130), [(Some("y".to_owned()), vec![3], y)]);
        waiting.forget(7, 3);
        assert_eq!(found(130), []);
    }
}
