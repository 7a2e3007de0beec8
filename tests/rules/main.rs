//! Rules of the code and of the documents, which need no database.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod demo;
mod documents;
mod imports;
mod json;
mod packages;
mod paths;
mod send;
mod tidy;
mod trust;
