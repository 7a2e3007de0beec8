//! The routes by which receivers ack and nack over HTTP, with a real server.

mod faults;
mod hostile;
mod logs;
mod pages;
mod replies;
pub mod server;
