//! [`Worker`]: what the loops and attempts of one sweeper share, made from the [`Setup`] that the builder collects. Each of its parts
//! keeps its own invariant. The steps that use several parts are functions in `claiming`, `running`, `settling` and `background`.

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use solid_notify_core::error::FaultKind;
use solid_notify_core::store::{BEAT, RefusedConfig};
use solid_notify_core::transition::Event;
use solid_notify_core::{AnyOutbox, StoreError, Stores, metrics};

use crate::alerts::{Alarms, complete_alerts};
use crate::background::health::{Health, ROUND};
use crate::background::{bulk, housekeeping};
use crate::circuits::Circuits;
use crate::claiming::Admission;
use crate::definitions::{Definition, Definitions, KnownDefinitions};
use crate::handlers::Registered;
use crate::handlers::under_way::Call;
use crate::refusals::{Part, REFUSED_PAUSE};
use crate::room::Room;
use crate::running::AttemptsInFlight;
use crate::running::waiting::Waiting;
use crate::series::Series;
use crate::settling::{Outcome, OutcomeQueue};
use crate::signals::Signals;

/// The shared state of one sweeper.
pub(crate) struct Worker {
    pub(crate) outbox: AnyOutbox,
    /// Unique per start, because a reused name would make an old lease look like one of this process.
    pub(crate) id: String,
    pub(crate) settings: Settings,
    /// The definitions, and which of them this node can send.
    pub(crate) known: Arc<KnownDefinitions>,
    /// What may be claimed now.
    pub(crate) admission: Admission,
    /// The attempts from claim to settle, and their tasks.
    pub(crate) in_flight: AttemptsInFlight,
    /// The outcomes on their way to the store, and their totals.
    pub(crate) outcomes: OutcomeQueue,
    pub(crate) signals: Signals,
    pub(crate) health: Health,
    pub(crate) alarms: Alarms,
    /// Notices that wait because this node cannot decrypt them, or their target's filter cannot be judged.
    pub(crate) waiting: Waiting,
    /// The circuits of receivers that are one of many.
    pub(crate) circuits: Arc<Circuits>,
    /// Where large parameters are while they are sent.
    pub(crate) room: Arc<Room>,
}

impl Worker {
    pub(crate) fn new(setup: Setup) -> Arc<Self> {
        let Setup { outbox, mut registered, twice: _, settings } = setup;
        metrics::describe();
        bulk::register(&mut registered.handlers, &outbox);
        if settings.housekeeping {
            housekeeping::register(&mut registered.handlers, &outbox);
        }
        let id = node_id(settings.node_name.as_deref());
        outbox.engine().begin_node(id.clone());
        let signals = Signals::new(outbox.engine().hand_clock().cloned());
        let known = Arc::new_cyclic(|known| {
            complete_alerts(&mut registered.handlers, known, settings.base_url.as_ref());
            KnownDefinitions::new(registered)
        });
        Arc::new(Self {
            admission: Admission::new(outbox.clone(), settings.max_running, settings.poll_interval),
            in_flight: AttemptsInFlight::default(),
            // A clock that a test turns is the store's.
            outcomes: OutcomeQueue::new(Series::new(outbox.engine().hand_clock().map(|_| 0))),
            health: Health::new(settings.outage_grace, signals.moment()),
            alarms: Alarms::new(Arc::clone(&known), &id),
            waiting: Waiting::default(),
            circuits: Arc::default(),
            room: Room::new(),
            id,
            signals,
            known,
            outbox,
            settings,
        })
    }

    /// Returns the event of an attempt whose call the database did not carry out: it begins again at once, or after a while where such a call
    /// is refused.
    pub(crate) fn handed_back(&self, def_id: i64, error: &StoreError) -> Event {
        self.health.failed(Part::Attempts(def_id), error);
        Event::HandedBack(match error.kind {
            FaultKind::Unusable => REFUSED_PAUSE,
            FaultKind::Permanent => self.settings.poll_interval,
            _ => Duration::ZERO,
        })
    }

    /// Records that the database carried such a call out.
    pub(crate) fn not_handed_back(&self, def_id: i64) {
        self.health.works(Part::Attempts(def_id), self.moment());
    }

    /// Returns the calls of handlers that are under way.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let own = self.known.registered.handlers.values().flat_map(|handler| handler.own_calls());
        self.in_flight.calls().into_iter().chain(own).collect()
    }

    /// Returns why this node sends nothing, or not all; `None`: it sends.
    pub(crate) fn not_sending(&self) -> Option<String> {
        self.health.not_sending(self.settings.poll_interval).or_else(|| {
            let (def_id, silent) =
                self.admission.longest_sweep().filter(|(_, silent)| *silent > ROUND + ROUND + 2 * BEAT)?;
            let seconds = silent.as_secs();
            Some(format!("the sweep of {} hangs: it has shown no sign of life for {seconds} s", self.name_of(def_id)))
        })
    }

    /// Returns the definitions of which this node sends nothing, or lets single notices wait, and why. Sets the gauges of the latter.
    pub(crate) fn refused(&self) -> Vec<RefusedConfig> {
        self.definitions().refused().chain(self.waiting.lasting(self.moment())).collect()
    }

    /// Returns the name of a definition for people.
    pub(crate) fn name_of(&self, def_id: i64) -> String {
        self.definitions().get(def_id).map_or_else(|| def_id.to_string(), |known| known.row.name.clone())
    }

    pub(crate) fn stores(&self) -> &Stores {
        self.outbox.engine().stores()
    }

    /// Returns the current view of the definitions.
    pub(crate) fn definitions(&self) -> Arc<Definitions> {
        self.known.view()
    }

    pub(crate) fn definition(&self, def_id: i64) -> Option<Arc<Definition>> {
        self.definitions().get(def_id).cloned()
    }

    /// Returns the time for leases and outages: see [`Signals::moment`].
    pub(crate) fn moment(&self) -> Duration {
        self.signals.moment()
    }

    /// Returns the time of this process's clock, in milliseconds since 1970.
    pub(crate) fn clock_millis(&self) -> i64 {
        match self.outbox.engine().hand_clock() {
            Some(clock) => clock.now_millis(),
            None => Utc::now().timestamp_millis(),
        }
    }

    /// Passes an outcome on to the settle loop. It is urgent if a producer or an ordering key waits for it to be stored.
    pub(crate) fn queue_outcome(&self, outcome: Outcome) {
        let (id, fence) = (outcome.claimed.id, outcome.claimed.fence);
        let is_urgent = outcome.claimed.ordering_key.is_some() || self.in_flight.is_report_awaited(id);
        self.in_flight.ended(id, fence);
        self.outcomes.push(outcome, is_urgent);
    }
}

/// What a [`crate::SweeperBuilder`] collects for a sweeper.
pub(crate) struct Setup {
    pub(crate) outbox: AnyOutbox,
    pub(crate) registered: Registered,
    /// The first name that two handlers were registered by.
    pub(crate) twice: Option<String>,
    pub(crate) settings: Settings,
}

impl Setup {
    pub(crate) fn new(outbox: AnyOutbox) -> Self {
        Self { outbox, registered: Registered::default(), twice: None, settings: Settings::default() }
    }
}

/// The settings of a sweeper.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) node_name: Option<String>,
    pub(crate) poll_interval: Duration,
    pub(crate) max_running: usize,
    pub(crate) first_send: bool,
    pub(crate) outage_grace: Duration,
    pub(crate) shutdown_grace: Duration,
    pub(crate) maintenance_interval: Duration,
    pub(crate) housekeeping: bool,
    pub(crate) count_interval: Duration,
    /// Checked by the start.
    pub(crate) base_url: Option<Arc<str>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            node_name: None,
            poll_interval: Duration::from_secs(1),
            max_running: 2000,
            first_send: true,
            outage_grace: Duration::from_secs(10),
            shutdown_grace: Duration::from_secs(15),
            maintenance_interval: Duration::from_secs(60),
            housekeeping: true,
            count_interval: Duration::from_secs(30),
            base_url: None,
        }
    }
}

/// Returns `name-pid-random`, at most 200 bytes.
fn node_id(name: Option<&str>) -> String {
    let host = || gethostname::gethostname().to_string_lossy().into_owned();
    let name = name.map_or_else(host, str::to_owned).replace('\0', "");
    let name: String = name.chars().take(40).collect();
    format!("{name}-{}-{:08x}", std::process::id(), fastrand::u32(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_starts_have_two_ids() {
        let (one, two) = (node_id(Some("node")), node_id(Some("node")));
        assert!(one != two && one.starts_with("node-"), "{one} {two}");
    }
}
