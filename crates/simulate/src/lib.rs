//! [`simulate`]: predicts the behaviour of a definition in an outage: the load of its retries, its dead letters, its
//! alerts. It runs in virtual time, without a store; the same seed makes the same report, byte for byte.
//!
//! The code of the real system decides each outcome: the definition's [`Policy`](solid_notify_core::Policy),
//! [`transition`](solid_notify_core::transition::transition), the [trigger](solid_notify_core::alert::trigger::trigger) of
//! alerts and their [cool-down](solid_notify_core::alert::cooldown). The environment is a model:
//!
//! | what | how |
//! |---|---|
//! | arrivals | evenly spaced, each in a transaction of its own that commits at once |
//! | slots | `nodes` times `max_concurrency`; what finds none waits, and first sends and retries take turns |
//! | an attempt | takes the same time each time, or the definition's `timeout` if the receiver does not answer; its outcome is drawn when it begins |
//! | a process that dies | dies alone; its slot is free again at once, its notice when the lease has expired |
//! | an ack | comes after the same time each time, or never |
//! | a window, a rate, `max_concurrency_total`, a circuit breaker | limit as in the real system, without delay |
//! | retries, expired leases, missing acks | are found exactly when they are due |
//! | the database, claiming, settling | take no time |
//! | alerts | are delivered at once |
//!
//! Not modelled: timetables (the scenario says what is added); ordering and dedupe keys; delayed notices; other definitions
//! on the same nodes, and a node's own limit (2,000 at the same time); crash-looping notices, which are sent alone; handlers that choose
//! the retry time, give up or skip; alerts about conditions (a backlog, too many dead letters); operators.
//!
//! Memory grows with the notices that are live at the same time (about 100 bytes each) and not with those that have ended.
//!
//! ```
//! use std::time::Duration;
//! use solid_notify_core::{ErrorClass, NotifyDef};
//! use solid_notify_simulate::{Scenario, simulate};
//!
//! let minutes = |count: u64| Duration::from_secs(60 * count);
//! let def = NotifyDef::new("sync_to_omp").retry_interval("[5s,5m,1h,1d] ~10%");
//! let outage = Scenario::new()
//!     .rate(5.0)
//!     .lasting(minutes(60))
//!     .outage(minutes(10), minutes(20), ErrorClass::Unavailable)
//!     .seed(7);
//! let report = simulate(&def, &outage)?;
//!
//! assert_eq!(report.totals.dead_letters, 0);
//! assert!(report.drained_after.is_some_and(|time| time < minutes(60 + 15)), "{report}");
//! assert!(report.peak_retries.is_some_and(|peak| peak.count <= 25), "{report}");
//! # Ok::<(), solid_notify_core::Error>(())
//! ```

mod agenda;
mod alerts;
mod gate;
mod plot;
mod report;
mod run;
mod scenario;
mod series;
#[cfg(test)]
mod tests;
mod text;

pub use report::{Bucket, Ending, Peak, Report, SimulatedAlert, Totals};
pub use scenario::{MOST_NOTICES, Outage, Scenario};

use solid_notify_core::{Error, NotifyDef};

/// The simulation ends after this many attempts, which only retries without limit reach.
pub const MOST_ATTEMPTS: u64 = 20_000_000;

/// Simulates a definition in a scenario.
///
/// # Errors
/// [`Error::InvalidDefinition`] with every invalid column, or [`Error::Invalid`] with the first invalid value of the
/// scenario.
pub fn simulate(def: &NotifyDef, scenario: &Scenario) -> Result<Report, Error> {
    let policy = def.policy().map_err(|problems| Error::InvalidDefinition { name: def.name.clone(), problems })?;
    scenario.check(&policy)?;
    Ok(run::run(&policy, scenario, MOST_ATTEMPTS))
}
