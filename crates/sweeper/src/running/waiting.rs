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
const NAMED: usize = 10;

/// Such notices, by definition.
#[derive(Default)]
pub(crate) struct Waiting(Mutex<BTreeMap<i64, OfDefinition>>);

/// The notices of a definition that wait.
struct OfDefinition {
    /// When this node last tried each, on the time scale of [`crate::worker::Worker::moment`].
    tried: BTreeMap<i64, Duration>,
    /// When it last tried one of them.
    latest: Duration,
    /// Why that one waits.
    problem: String,
    gauge: Gauge,
}

impl OfDefinition {
    fn new(name: &str) -> Self {
        let gauge = metrics::gauge!(HELD_BACK, "definition" => name.to_owned());
        Self { tried: BTreeMap::new(), latest: Duration::ZERO, problem: String::new(), gauge }
    }

    /// Says why they wait, and which ones.
    fn text(&self) -> String {
        let ids = self.tried.keys().take(NAMED).map(i64::to_string).collect::<Vec<_>>().join(", ");
        let who = match self.tried.len() {
            1 => "it waits".to_owned(),
            MOST.. => format!("{MOST} notices or more wait (among them {ids})"),
            count if count > NAMED => format!("{count} notices wait (among them {ids})"),
            count => format!("{count} notices wait ({ids})"),
        };
        clean_text(&format!("{}; {who}, and the others are sent", self.problem), MESSAGE_LIMIT)
    }
}

impl Waiting {
    /// Records a notice. Returns what to report, for the first one of its definition for a while.
    pub(super) fn note(&self, (def_id, name): (i64, &str), id: i64, now: Duration, problem: &str) -> Option<String> {
        let mut all = self.0.lock();
        let waiting = all.entry(def_id).or_insert_with(|| OfDefinition::new(name));
        let is_new = waiting.tried.is_empty() || is_over(waiting.latest, now);
        if is_new {
            waiting.tried.clear();
        }
        if waiting.tried.len() < MOST || waiting.tried.contains_key(&id) {
            waiting.tried.insert(id, now);
        }
        (waiting.problem, waiting.latest) = (problem.to_owned(), now);
        is_new.then(|| waiting.text())
    }

    /// Returns the definitions whose notices wait now, which ones, and why. Sets their gauges.
    pub(crate) fn lasting(&self, now: Duration) -> Vec<RefusedConfig> {
        let mut all = self.0.lock();
        for waiting in all.values_mut() {
            waiting.tried.retain(|_, at| !is_over(*at, now));
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
        let note = |id, seconds| waiting.note((7, "card"), id, Duration::from_secs(seconds), "no key");
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
}
