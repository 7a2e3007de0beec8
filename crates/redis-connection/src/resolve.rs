//! [`Resolve`]: a function that finds the addresses of hosts, for a program that limits them.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use redis::io::AsyncDNSResolver;
use redis::{RedisError, RedisFuture};

/// Returns the addresses of a host with this port.
pub type Resolve = Arc<dyn Fn(&str, u16) -> Resolving + Send + Sync>;

type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// The same for the client.
pub(crate) struct Resolver(pub(crate) Resolve);

impl AsyncDNSResolver for Resolver {
    fn resolve<'a, 'b: 'a>(
        &'a self,
        host: &'b str,
        port: u16,
    ) -> RedisFuture<'a, Box<dyn Iterator<Item = SocketAddr> + Send + 'a>> {
        let resolving = (self.0)(host, port);
        Box::pin(async move {
            let found = resolving.await.map_err(RedisError::from)?;
            Ok(Box::new(found.into_iter()) as Box<dyn Iterator<Item = SocketAddr> + Send>)
        })
    }
}
