//! The store of solid-notify on Redis, for work that needs no database transaction.
//!
//! [`RedisOutbox`] is the outbox of an application. Handlers, definitions and sweepers are in the other crates; they use this one
//! through their `Store` trait. Connections and the running of scripts are in `solid-notify-redis-connection`.

mod outbox;
mod store;

pub use outbox::{RedisBatch, RedisOutbox, RedisOutboxBuilder};
pub use solid_notify_redis_connection::{Error, Redis, RedisBuilder, RedisError, Result};
