//! The one evaluator of expressions over a parameter: filters of JSONPath (RFC 9535), and the tree that masks and the templates of channels read, too.
//!
//! It reads the parameter's own text, so that numbers of any size and lone surrogates are judged as they are written, and it has a [`Budget`] of
//! steps, depth and size. Which columns have expressions is left to `definition/target.rs` and `definition/mask.rs`; the reasons are in
//! `docs/decisions/0134-one-evaluator-of-expressions.md`.

mod budget;
mod compare;
mod cursor;
mod evaluate;
mod number;
mod parse;
mod pattern;
mod query;
#[cfg(test)]
mod suite_tests;
mod text;
mod tree;

pub use budget::{Budget, Unjudged, quickly};
pub(crate) use budget::{QUICK, STEPS};
pub(crate) use evaluate::holds;
pub use number::Decimal;
pub(crate) use parse::{DEEPEST, filter};
pub(crate) use query::Logical;
pub use text::decoded;
pub use tree::{Kind, Tree};
