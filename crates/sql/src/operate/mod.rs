//! Operator calls in the database: lists, counts, and the verbs, each in one transaction with its audit entry.

pub(crate) mod acts;
pub(crate) mod counts;
pub(crate) mod groups;
pub(crate) mod list;
pub(crate) mod narrow;
mod pieces;
pub(crate) mod purge;
pub(crate) mod retries;
mod slice;
pub(crate) mod switch;
pub(crate) mod verbs;
