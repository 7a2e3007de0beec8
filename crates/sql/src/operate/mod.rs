//! Operator calls in the database: lists, counts, and the verbs, each in one transaction with its audit entry.

pub(crate) mod audit;
pub(crate) mod counts;
pub(crate) mod groups;
pub(crate) mod list;
mod pieces;
pub(crate) mod purge;
pub(crate) mod retries;
pub(crate) mod switch;
pub(crate) mod verbs;
