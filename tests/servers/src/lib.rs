//! Servers, client programs, example receivers and services for tests and benches, and the checkers of the files for operations.
//!
//! [`provide`](provide::provide) gets a server for each selected database for a whole run: a given one, a private one, or a container. A test
//! that restarts a server under load starts its own one through [`servers`], and a test that types SQL as people do finds the program
//! in [`clients`]. The tasks (what `cargo xtask test` does) are left to `xtask`.

pub mod clients;
pub mod deploy;
mod install;
mod packages;
pub mod provide;
mod reach;
pub mod receivers;
pub mod run;
pub mod selection;
pub mod servers;
pub mod services;
pub mod unpack;
