//! Names of hosts: what they resolve to, by the operating system.
//!
//! The system's function blocks a thread for as long as a name server does not answer, and cannot be cancelled. So a definition has a few lookups at a
//! time ([`Blocking`]), and a name that was not found is not asked for again for some seconds.
//!
//! [`Blocking`]: solid_notify_core::blocking::Blocking

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use solid_notify_core::AnyOutbox;
use solid_notify_sweeper::Notice;

#[cfg(any(feature = "amqp", feature = "mail", feature = "nats", feature = "redis-streams"))]
use crate::address::AllowedNetworks;

/// How long a failed lookup is remembered.
const REMEMBERED: Duration = Duration::from_secs(5);
/// How many failed lookups are remembered.
const FAILURES: usize = 10_000;

tokio::task_local! {
    /// For which definition the present attempt is.
    static ATTEMPT: (AnyOutbox, String);
}

/// The names that were not found.
static FAILED: LazyLock<Mutex<HashMap<String, NotFound>>> = LazyLock::new(Mutex::default);

/// When a name was not found, and why.
type NotFound = (Instant, io::ErrorKind, String);

/// Runs an attempt, whose lookups then count for its definition.
pub(crate) async fn of_attempt<P, T>(notice: &Notice<P>, attempt: impl Future<Output = T>) -> T {
    ATTEMPT.scope((notice.outbox().clone(), notice.definition().to_owned()), attempt).await
}

/// Returns the addresses of a host.
///
/// # Errors
/// Those of the system; a failure of the last five seconds again.
pub(crate) fn addresses(host: &str) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send + use<> {
    // Here, because another task may wait for the result.
    let (attempt, host) = (ATTEMPT.try_with(Clone::clone).ok(), host.to_ascii_lowercase());
    async move {
        if let Some((at, kind, text)) = FAILED.lock().get(&host)
            && at.elapsed() < REMEMBERED
        {
            return Err(io::Error::new(*kind, text.clone()));
        }
        let name = host.clone();
        let ask = move || Ok((name.as_str(), 0).to_socket_addrs()?.map(|found| found.ip()).collect());
        let found: io::Result<Vec<IpAddr>> = match attempt {
            Some((outbox, definition)) => outbox.engine().blocking().run(&definition, ask).await,
            None => tokio::task::spawn_blocking(ask).await.unwrap_or_else(|error| Err(io::Error::other(error))),
        };
        if let Err(error) = &found {
            let mut failed = FAILED.lock();
            if failed.len() >= FAILURES {
                failed.retain(|_, (at, ..)| at.elapsed() < REMEMBERED);
            }
            if failed.len() < FAILURES {
                failed.insert(host, (Instant::now(), error.kind(), error.to_string()));
            }
        }
        found
    }
}

/// Returns the addresses of a host that may be connected to. `networks`: which ones a row may reach; `None`: all, because the program itself
/// names the host.
///
/// # Errors
/// Those of the system. With `networks`, the same one for an unknown name and for refused addresses.
#[cfg(any(feature = "amqp", feature = "mail", feature = "nats", feature = "redis-streams"))]
pub(crate) fn sockets(
    host: &str,
    port: u16,
    networks: Option<AllowedNetworks>,
) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send + use<> {
    let (name, found) = (host.to_owned(), addresses(host));
    async move {
        let found = found.await.map(|found| found.into_iter().map(move |ip| SocketAddr::new(ip, port)));
        match networks {
            Some(networks) => Ok(networks.of_name(&name, found)?),
            None => found.map(Iterator::collect),
        }
    }
}

/// The resolver of HTTP clients.
#[cfg(any(feature = "plain-chat", feature = "plain-webhook"))]
pub(crate) struct System;

#[cfg(any(feature = "plain-chat", feature = "plain-webhook"))]
impl reqwest::dns::Resolve for System {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let found = addresses(name.as_str());
        Box::pin(async move {
            let found = found.await?.into_iter().map(|ip| SocketAddr::new(ip, 0));
            Ok(Box::new(found) as reqwest::dns::Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn failed_lookup_is_remembered_for_some_seconds() {
        let first = addresses("no-such-host.invalid").await.unwrap_err();
        let began = Instant::now();
        let second = addresses("NO-such-host.invalid").await.unwrap_err();
        assert_eq!((first.kind(), first.to_string()), (second.kind(), second.to_string()));
        let (at, ..) = FAILED.lock()["no-such-host.invalid"];
        assert!(at <= began, "it was not asked for again");
        assert!(addresses("localhost").await.unwrap().iter().all(IpAddr::is_loopback));
    }
}
