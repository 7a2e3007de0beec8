//! Webhooks: what a receiver gets, and what its responses mean, from friendly and from hostile receivers.

mod addresses;
mod auth;
pub mod certificates;
mod circuits;
mod connections;
mod heads;
mod hostile;
mod proxies;
mod requests;
mod results;
mod sender;
pub mod server;
mod tls;
mod values;
