//! Settling: an [`Outcome`] goes into the [`queue`]. The settle loop ([`settle`]) gathers outcomes, decides what follows
//! ([`decide`]; [`alarm`]: which alarms), writes them in batches ([`pending`]), and handles the store's replies. [`refused`] handles outcomes that the
//! store can never accept.
//!
//! Outcomes come from attempts (`running`), and from overdue notices that need no claim ([`overdue`]).

mod alarm;
mod decide;
#[cfg(test)]
mod outcome_tests;
pub(crate) mod overdue;
mod pending;
mod queue;
mod refused;
pub(crate) mod settle;

pub(crate) use pending::Outcome;
pub(crate) use queue::{OutcomeQueue, Totals};
