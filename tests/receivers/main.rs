//! Receivers of notices: acks over HTTP, the example receivers, and the example services in other languages.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ack_http;
mod examples;
mod on_services;
