//! What the database refuses for good: a right, a table or a column is missing. No retry adds it, so the refusal is an error in the log
//! once, and the call is repeated less often.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parking_lot::Mutex;
use solid_notify_core::store::{Settle, Shape};
use solid_notify_core::{AlertReason, StoreError};
use tokio::time::Instant;

/// The pause before a refused call is repeated.
pub(crate) const REFUSED_PAUSE: Duration = Duration::from_secs(10);
/// A refusal that was not repeated for so long says nothing any more: nothing needs that call now.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// The same text is an error in the log again after this time.
const LOGGED: Duration = Duration::from_secs(3600);
/// It is one again, too, if it was not repeated for so long: the rarest of the regular calls is made once a minute, so it worked meanwhile.
const REPAIRED: Duration = Duration::from_secs(180);

/// What a refusal stops. It is over when the same part works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// The rounds of the sweep, and so everything.
    Sweep,
    /// The claims of a definition.
    Claims(i64),
    /// The looks for expired leases and overdue acks of a definition.
    Looks(i64),
    /// The ticks of its timetable.
    Ticks(i64),
    /// What its outcomes cause elsewhere: alarms, and notices for targets.
    Forwards(i64),
    /// What its attempts need beside the handler: an authority, passing on in parts.
    Attempts(i64),
    /// The outcomes of a definition that are written in the same way.
    Settles(i64, Shape),
    /// Digests and recoveries of the alerts of a definition.
    Alerts(i64, AlertReason),
    /// The extension of leases.
    Leases,
    /// Signs of life of this node.
    Beats,
    /// Acks.
    Acks,
}

#[derive(Default)]
pub(crate) struct Refusals(Mutex<State>);

#[derive(Default)]
struct State {
    now: BTreeMap<Part, (String, Instant)>,
    /// When each text was last an error, and when it was last repeated.
    logged: BTreeMap<String, (Instant, Instant)>,
}

impl Refusals {
    /// Records a refusal of one call.
    pub(crate) fn refused(&self, parts: impl IntoIterator<Item = Part>, error: &StoreError) {
        self.log(error);
        let refused = (error.to_string(), Instant::now());
        self.0.lock().now.extend(parts.into_iter().map(|part| (part, refused.clone())));
    }

    /// Logs a refusal: as an error once, then at debug level.
    pub(crate) fn log(&self, error: &StoreError) {
        let text = error.to_string();
        let logged = &mut self.0.lock().logged;
        let now = Instant::now();
        logged.retain(|_, (at, last)| at.elapsed() < LOGGED && last.elapsed() < REPAIRED);
        match logged.entry(text) {
            Entry::Occupied(mut known) => {
                known.get_mut().1 = now;
                tracing::debug!(%error, "the database still refuses a call");
            }
            Entry::Vacant(first) => {
                first.insert((now, now));
                let seconds = REFUSED_PAUSE.as_secs();
                if error.is_explained() {
                    tracing::error!(%error, "the database refuses a call; nothing is lost, it is tried again every {seconds} s");
                } else {
                    tracing::error!(
                        %error,
                        "the database refuses a call: a right, a table or a column may be missing; nothing is lost, it is tried again every {seconds} s"
                    );
                }
            }
        }
    }

    /// Records that a call works. Returns true if it was refused before.
    pub(crate) fn works(&self, part: Part) -> bool {
        let mut state = self.0.lock();
        let Some((text, _)) = state.now.remove(&part) else { return false };
        // The same call may be refused for other definitions.
        if !state.now.values().any(|(other, _)| *other == text) {
            state.logged.remove(&text);
            drop(state);
            tracing::info!("the database no longer refuses this: {text}");
        }
        true
    }

    /// Records that these outcomes are written.
    pub(crate) fn wrote(&self, settles: &[Settle]) {
        if self.0.lock().now.keys().any(|part| matches!(part, Part::Settles(..))) {
            for part in settled_parts(settles) {
                self.works(part);
            }
        }
    }

    /// Records that what other definitions than these cause is forwarded.
    pub(crate) fn forwarded_others(&self, refused: &BTreeMap<i64, String>) {
        let of_others = |part: &Part| matches!(part, Part::Forwards(def_id) if !refused.contains_key(def_id));
        let parts: Vec<Part> = self.0.lock().now.keys().copied().filter(of_others).collect();
        for part in parts {
            self.works(part);
        }
    }

    /// Returns how long to leave a refused call alone.
    pub(crate) fn rest(&self, part: Part) -> Option<Duration> {
        let state = self.0.lock();
        let (_, at) = state.now.get(&part)?;
        REFUSED_PAUSE.checked_sub(at.elapsed()).filter(|left| !left.is_zero())
    }

    /// Returns the first refusal that came after a moment: then the database answers.
    pub(crate) fn after(&self, moment: Instant) -> Option<String> {
        let state = self.0.lock();
        let mut refused = state.now.values().filter(|(_, at)| *at > moment);
        refused.next().map(|(text, _)| told(text))
    }

    /// Returns the first refusal of these parts that still counts.
    pub(crate) fn problem(&self, of: impl Fn(Part) -> bool) -> Option<String> {
        let state = self.0.lock();
        let lasting = |part: Part, at: &Instant| matches!(part, Part::Acks | Part::Sweep) || at.elapsed() < FORGOTTEN;
        let mut refused = state.now.iter().filter(|(part, (_, at))| of(**part) && lasting(**part, at));
        refused.next().map(|(_, (text, _))| told(text))
    }
}

fn told(refusal: &str) -> String {
    format!("the database refuses a call: {refusal}")
}

/// Returns the parts that these outcomes are.
pub(crate) fn settled_parts(settles: &[Settle]) -> BTreeSet<Part> {
    settles.iter().map(|settle| Part::Settles(settle.def_id, settle.shape())).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use solid_notify_core::error::FaultKind;

    use super::*;
    use crate::subscribed::{OnEvent, subscribed};

    #[tokio::test(start_paused = true)]
    async fn refusal_is_an_error_again_when_it_comes_back_after_a_repair() {
        let errors = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&errors);
        let _log = subscribed(OnEvent(move |event: &tracing::Event<'_>| {
            if *event.metadata().level() == tracing::Level::ERROR {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        }));
        let refusals = Refusals::default();
        let error = StoreError::new("counting", FaultKind::Unusable, "permission denied");
        let mut logged = Vec::new();
        for minutes in [0, 1, 1, 1, 1, 3, 1, 56, 1] {
            tokio::time::advance(Duration::from_secs(60 * minutes)).await;
            refusals.log(&error);
            logged.push(errors.load(Ordering::SeqCst));
        }
        assert_eq!(logged, [1, 1, 1, 1, 1, 2, 2, 3, 3]);
        // Another call is refused with the same text.
        refusals.refused([Part::Ticks(1)], &error);
        assert!(refusals.works(Part::Ticks(1)));
        refusals.log(&error);
        assert_eq!(errors.load(Ordering::SeqCst), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn refusal_rests_shows_and_is_forgotten_when_nothing_repeats_it() {
        let refusals = Refusals::default();
        let error = StoreError::new("claiming", FaultKind::Unusable, "permission denied");
        refusals.refused([Part::Claims(7)], &error);
        assert_eq!(refusals.rest(Part::Claims(7)), Some(REFUSED_PAUSE));
        assert_eq!(refusals.rest(Part::Claims(8)), None);
        let problem = || refusals.problem(|part| part != Part::Acks);
        assert!(problem().is_some_and(|text| text.contains("permission denied")));
        tokio::time::advance(REFUSED_PAUSE).await;
        assert!(refusals.rest(Part::Claims(7)).is_none() && problem().is_some());
        tokio::time::advance(FORGOTTEN).await;
        assert_eq!(problem(), None);
        refusals.refused([Part::Acks], &error);
        tokio::time::advance(FORGOTTEN).await;
        assert!(problem().is_none() && refusals.problem(|part| part == Part::Acks).is_some());
        assert!(refusals.works(Part::Acks) && !refusals.works(Part::Acks));
        assert_eq!(refusals.problem(|_| true), None);
    }
}
