//! The program `solid-notify` on each store, its `serve` while a server restarts, refuses, or after it was killed, and the files that run it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod deploy_files;
mod health;
mod logins;
mod refusals;
mod refusing;
mod serve;
mod served;
mod verbs;
