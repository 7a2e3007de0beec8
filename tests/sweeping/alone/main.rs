//! Tests that other tests would disturb: some measure real time closely, and some read which statements their process logs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod logs;
mod real_time;
