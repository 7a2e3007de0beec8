//! The parts that the tasks share with the tests: private servers, client programs, example receivers and services, the checkers of
//! the files for operations, and the list of mutants.
//!
//! The `xtask` program starts servers for a whole test run; a test that restarts a server under load
//! starts its own one through [`servers`], and a test that types SQL as people do finds the program
//! in [`clients`]. The tasks themselves (what `cargo xtask test` does) are
//! left to the program.

pub mod clients;
pub mod deploy;
pub mod mutants;
mod packages;
pub mod receivers;
pub mod servers;
pub mod services;
