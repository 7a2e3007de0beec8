//! Redis, one server and a cluster: what is stored, damaged keys, outages, the network, failover, and timed tasks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod account;
mod acks;
mod damage;
mod encryption;
mod ended;
mod examine;
mod failover;
mod forwarding;
mod groups;
mod inbox;
mod keys;
mod network;
mod outages;
mod resolver;
mod series;
mod target_parts;
mod timed_import;
mod timed_limit;
mod timed_reading;
mod timed_runner;
mod timed_tasks;
