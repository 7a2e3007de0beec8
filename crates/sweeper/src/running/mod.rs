//! Running: one attempt of a claimed notice ([`attempt`]) calls its handler and turns the result into an outcome. [`in_flight`] lists
//! the attempts of this node until they are settled.

pub(crate) mod attempt;
mod called;
mod decrypt;
mod holding;
mod in_flight;
mod large;
mod pause;
mod span;
mod targets;
pub(crate) mod waiting;

pub(crate) use in_flight::AttemptsInFlight;
