//! What the database refuses for good: a right, a table or a column is missing. No retry adds it, so the refusal is an error in the log
//! once, and the call is repeated less often.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use parking_lot::Mutex;
use solid_notify_core::StoreError;
use tokio::time::Instant;

/// The pause before a refused call is repeated.
pub(crate) const REFUSED_PAUSE: Duration = Duration::from_secs(10);
/// A refusal that was not repeated for so long says nothing any more: nothing needs that call now.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// The same text is an error in the log again after this time.
const LOGGED: Duration = Duration::from_secs(3600);

/// What a refusal stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// The rounds of the sweep, and so everything.
    Sweep,
    /// The claims of a definition.
    Claims(i64),
    /// The extension of leases.
    Leases,
    /// The outcomes of attempts.
    Settles,
    /// Acks.
    Acks,
}

#[derive(Default)]
pub(crate) struct Refusals(Mutex<State>);

#[derive(Default)]
struct State {
    now: BTreeMap<Part, (String, Instant)>,
    logged: BTreeMap<String, Instant>,
}

impl Refusals {
    /// Records a refusal.
    pub(crate) fn refused(&self, part: Part, error: &StoreError) {
        self.log(error);
        self.0.lock().now.insert(part, (error.to_string(), Instant::now()));
    }

    /// Logs a refusal: as an error once, then at debug level.
    pub(crate) fn log(&self, error: &StoreError) {
        let text = error.to_string();
        let logged = &mut self.0.lock().logged;
        logged.retain(|_, at| at.elapsed() < LOGGED);
        match logged.entry(text) {
            Entry::Occupied(_) => tracing::debug!(%error, "the database still refuses a call"),
            Entry::Vacant(first) => {
                first.insert(Instant::now());
                tracing::error!(
                    %error,
                    "the database refuses a call: a right, a table or a column may be missing; nothing is lost, it is tried again every {} s",
                    REFUSED_PAUSE.as_secs()
                );
            }
        }
    }

    /// Records that a call works. Returns true if it was refused before.
    pub(crate) fn works(&self, part: Part) -> bool {
        let mut state = self.0.lock();
        let Some((text, _)) = state.now.remove(&part) else { return false };
        state.logged.remove(&text);
        drop(state);
        tracing::info!("the database no longer refuses this: {text}");
        true
    }

    /// Returns how long to leave a refused call alone.
    pub(crate) fn rest(&self, part: Part) -> Option<Duration> {
        let state = self.0.lock();
        let (_, at) = state.now.get(&part)?;
        REFUSED_PAUSE.checked_sub(at.elapsed()).filter(|left| !left.is_zero())
    }

    /// Returns the first refusal of these parts that still counts.
    pub(crate) fn problem(&self, of: impl Fn(Part) -> bool) -> Option<String> {
        let state = self.0.lock();
        let lasting = |part: Part, at: &Instant| matches!(part, Part::Acks | Part::Sweep) || at.elapsed() < FORGOTTEN;
        let mut refused = state.now.iter().filter(|(part, (_, at))| of(**part) && lasting(**part, at));
        refused.next().map(|(_, (text, _))| format!("the database refuses a call: {text}"))
    }
}

#[cfg(test)]
mod tests {
    use solid_notify_core::error::FaultKind;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn refusal_rests_shows_and_is_forgotten_when_nothing_repeats_it() {
        let refusals = Refusals::default();
        let error = StoreError::new("claiming", FaultKind::Unusable, "permission denied");
        refusals.refused(Part::Claims(7), &error);
        assert_eq!(refusals.rest(Part::Claims(7)), Some(REFUSED_PAUSE));
        assert_eq!(refusals.rest(Part::Claims(8)), None);
        let problem = || refusals.problem(|part| part != Part::Acks);
        assert!(problem().is_some_and(|text| text.contains("permission denied")));
        tokio::time::advance(REFUSED_PAUSE).await;
        assert!(refusals.rest(Part::Claims(7)).is_none() && problem().is_some());
        tokio::time::advance(FORGOTTEN).await;
        assert_eq!(problem(), None);
        refusals.refused(Part::Acks, &error);
        tokio::time::advance(FORGOTTEN).await;
        assert!(problem().is_none() && refusals.problem(|part| part == Part::Acks).is_some());
        assert!(refusals.works(Part::Acks) && !refusals.works(Part::Acks));
        assert_eq!(refusals.problem(|_| true), None);
    }
}
