//! The program `solid-notify` on each store, its `serve` while a server restarts, refuses, or after it was killed, its `doctor` on servers that are
//! set wrongly, and the files that run it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod commands;
mod deploy_files;
mod doctor;
mod each_store;
mod health;
mod logins;
mod refusals;
mod refusing;
mod serve;
mod served;
mod until_idle;
mod verbs;
