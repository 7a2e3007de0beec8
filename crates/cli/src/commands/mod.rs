//! The commands, a file for each group. A command parses nothing but its options, calls a verb of the library, and shows the result.

pub(crate) mod add;
pub(crate) mod alerts;
pub(crate) mod bulk;
pub(crate) mod circuit;
pub(crate) mod context;
pub(crate) mod dead;
pub(crate) mod definition_edits;
pub(crate) mod definition_files;
pub(crate) mod definition_test;
pub(crate) mod definitions;
pub(crate) mod doctor;
#[cfg(feature = "full")]
pub(crate) mod full;
pub(crate) mod notices;
pub(crate) mod observe;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod store;
pub(crate) mod switch;
