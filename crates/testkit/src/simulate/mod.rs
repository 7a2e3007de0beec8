//! [`simulate`]: what a definition will do in an outage, before there is one: the load that its retries make, what it gives up,
//! whom it wakes. In virtual time, without a store; the same seed makes the same report, byte for byte.
//!
//! What becomes of an attempt is decided by the code that decides it in earnest: the definition's
//! [`Policy`](solid_notify_core::Policy), [`transition`](solid_notify_core::transition::transition), the
//! [trigger](solid_notify_core::alert::trigger::trigger) of alerts and their [cool-down](solid_notify_core::alert::cooldown). The world
//! around it is a model:
//!
//! | what | how |
//! |---|---|
//! | arrivals | evenly spaced, each in a transaction of its own that commits at once |
//! | slots | `nodes` times `max_concurrency`; what finds none waits, and first sends and retries take turns |
//! | an attempt | takes the same time each time, or the definition's `timeout` where nobody answers; what it will come to is settled when it begins |
//! | a process that dies | dies alone; its slot is free again at once, its notice when the lease is over |
//! | a confirmation | comes after the same time each time, or never |
//! | a window, a rate, `max_concurrency_total`, a circuit breaker | hold back as they do in earnest, at the very moment |
//! | retries, expired leases, missing confirmations | are found at the very moment they are due |
//! | the database, claiming, settling | take no time |
//! | alerts | are delivered at once |
//!
//! Not modelled: timetables (the scenario says what is added); ordering and dedupe keys; delayed notices; other definitions on the same nodes, and a node's own limit (2,000 at the same time);
//! suspects, which are sent alone; handlers that say themselves when to retry, give up or skip; alerts about what is no outcome
//! of an attempt (a backlog, dead letters that pile up); operators.
//!
//! Memory grows with the notices that are live at the same time (about 100 bytes for each) and not with those that have ended.
//!
//! ```
//! use std::time::Duration;
//! use solid_notify_core::{ErrorClass, NotifyDef};
//! use solid_notify_testkit::simulate::{Scenario, simulate};
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

/// After so many attempts a simulation ends, whatever is left: they come of retries without limit.
pub const MOST_ATTEMPTS: u64 = 20_000_000;

/// What becomes of a definition's notices in a scenario.
///
/// # Errors
/// [`Error::InvalidDefinition`] with every column that is wrong, [`Error::Invalid`] with the first thing of the scenario that makes
/// no sense.
pub fn simulate(def: &NotifyDef, scenario: &Scenario) -> Result<Report, Error> {
    let policy = def.policy().map_err(|problems| Error::InvalidDefinition { name: def.name.clone(), problems })?;
    scenario.check(&policy)?;
    Ok(run::run(&policy, scenario, MOST_ATTEMPTS))
}
