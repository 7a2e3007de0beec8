//! Settling: an [`Outcome`] goes into the [`queue`]; the settle loop ([`settle`]) gathers outcomes ([`gathering`]), decides what follows
//! ([`decide`]), and writes them in a batch ([`pending`]). [`settled`] handles the reply of the store; [`refused`] handles
//! outcomes that the store can never accept.
//!
//! Outcomes come from attempts (`running`), and from overdue notices that need no claim ([`overdue`]).

mod decide;
mod gathering;
mod outcome;
mod overdue;
mod pending;
mod queue;
mod refused;
pub(crate) mod settle;
mod settled;

pub(crate) use outcome::Outcome;
pub(crate) use queue::OutcomeQueue;
