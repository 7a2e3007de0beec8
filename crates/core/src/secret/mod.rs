//! Secrets: references to them, which of them the rows of definitions may use, and how they are read.
//!
//! The program decides what rows may use ([`SecretRules`]), because a person who may edit rows must not read what else its process can.
//! [`crate::engine::Engine::secrets`] reads them, off the runtime.

mod file;
mod hidden;
mod patterns;
mod reference;
mod rules;
mod spelling;

#[doc(hidden)]
pub use file::{read_below, read_regular};
#[doc(hidden)]
pub use hidden::{Hidden, SEARCHED};
pub use reference::{SecretError, SecretRef};
pub use rules::{Destination, SecretRule, SecretRules, WrongSecretPattern};
pub use secrecy::{ExposeSecret, SecretString};
