//! Private database servers for tests, as a library.
//!
//! The `xtask` program starts them for a whole test run; a test that restarts a server under load
//! starts its own one through [`servers`]. The tasks themselves (what `cargo xtask test` does) are
//! left to the program.

pub mod servers;
