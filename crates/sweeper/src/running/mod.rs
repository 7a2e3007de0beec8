//! Running: one attempt of a claimed notice ([`attempt`]) calls its handler ([`handler`]) and finds the class of its error
//! ([`classify`]). [`in_flight`] lists the attempts of this node until they are settled.

mod attempt;
pub(crate) mod batch;
pub(crate) mod classify;
mod decrypt;
pub(crate) mod erased;
pub(crate) mod handler;
mod in_flight;
mod span;
pub(crate) mod undecrypted;

pub(crate) use in_flight::AttemptsInFlight;
