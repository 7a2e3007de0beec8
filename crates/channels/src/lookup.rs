//! Names of hosts: what they resolve to, by the operating system.
//!
//! The system's function blocks a thread for as long as a name server does not answer, and cannot be cancelled. So a definition has a few lookups at a
//! time ([`Blocking`]), one of them for each host, and a name that was not found is not asked for again for some seconds.

use std::collections::HashMap;
use std::io;
#[cfg(any(feature = "amqp", feature = "mail", feature = "nats", feature = "redis-streams"))]
use std::net::SocketAddr;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, LazyLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use solid_notify_core::blocking::Blocking;
use solid_notify_sweeper::Notice;
use tokio::sync::Semaphore;

#[cfg(any(feature = "amqp", feature = "mail", feature = "nats", feature = "redis-streams"))]
use crate::address::AllowedNetworks;

/// How long a failed lookup is remembered.
const REMEMBERED: Duration = Duration::from_secs(5);
/// How many failed lookups are remembered.
const FAILURES: usize = 10_000;

tokio::task_local! {
    /// For which definition the present attempt is.
    static ATTEMPT: Attempt;
}

/// The definition of an attempt, for which its lookups count.
#[derive(Clone)]
pub(crate) struct Attempt {
    blocking: Arc<Blocking>,
    definition: String,
}

/// The names that were not found.
static FAILED: LazyLock<Mutex<HashMap<String, NotFound>>> = LazyLock::new(Mutex::default);

/// When a name was not found, and why.
type NotFound = (Instant, io::ErrorKind, String);

/// The lookups that run, by definition and host: one each. Notices to one host whose name server is silent leave the places of their definition
/// to its other hosts.
static RUNNING: LazyLock<Mutex<Running>> = LazyLock::new(Mutex::default);

type Running = HashMap<(String, String), Weak<Semaphore>>;

/// Runs an attempt, whose lookups then count for its definition.
pub(crate) async fn of_attempt<P, T>(notice: &Notice<P>, attempt: impl Future<Output = T>) -> T {
    let blocking = Arc::clone(notice.outbox().engine().blocking());
    ATTEMPT.scope(Attempt { blocking, definition: notice.definition().to_owned() }, attempt).await
}

/// Returns for which attempt the present task works, so that another task can look names up for it.
#[cfg(feature = "redis-streams")]
pub(crate) fn attempt() -> Option<Attempt> {
    ATTEMPT.try_with(Clone::clone).ok()
}

/// Begins lookups for an attempt.
#[cfg(feature = "redis-streams")]
pub(crate) fn begun_by<T>(attempt: Option<Attempt>, begin: impl FnOnce() -> T) -> T {
    match attempt {
        Some(attempt) => ATTEMPT.sync_scope(attempt, begin),
        None => begin(),
    }
}

/// Returns the addresses of a host.
///
/// # Errors
/// Those of the system; a failure of the last five seconds again.
pub(crate) fn addresses(host: &str) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send + use<> {
    // Here, because another task may wait for the result.
    let (attempt, host) = (ATTEMPT.try_with(Clone::clone).ok(), host.to_ascii_lowercase());
    let name = host.clone();
    look_up(attempt, host, move || Ok((name.as_str(), 0).to_socket_addrs()?.map(|found| found.ip()).collect()))
}

async fn look_up(
    attempt: Option<Attempt>,
    host: String,
    ask: impl FnOnce() -> io::Result<Vec<IpAddr>> + Send + 'static,
) -> io::Result<Vec<IpAddr>> {
    if let Some(failure) = remembered(&host) {
        return Err(failure);
    }
    let definition = attempt.as_ref().map(|attempt| attempt.definition.clone()).unwrap_or_default();
    let turn = turn(definition, host.clone()).acquire_owned().await.map_err(io::Error::other)?;
    // That of the lookup before this one.
    if let Some(failure) = remembered(&host) {
        return Err(failure);
    }
    // On its thread, because the attempt may stop waiting before the lookup ends.
    let ask = move || {
        let _turn = turn;
        ask().inspect_err(|error| remember(host, error))
    };
    match attempt {
        Some(Attempt { blocking, definition }) => blocking.run(&definition, ask).await,
        None => tokio::task::spawn_blocking(ask).await.unwrap_or_else(|error| Err(io::Error::other(error))),
    }
}

fn turn(definition: String, host: String) -> Arc<Semaphore> {
    let (mut running, key) = (RUNNING.lock(), (definition, host));
    if let Some(known) = running.get(&key).and_then(Weak::upgrade) {
        return known;
    }
    running.retain(|_, known| known.strong_count() > 0);
    let new = Arc::new(Semaphore::new(1));
    running.insert(key, Arc::downgrade(&new));
    new
}

fn remembered(host: &str) -> Option<io::Error> {
    let failed = FAILED.lock();
    let (_, kind, text) = failed.get(host).filter(|(at, ..)| at.elapsed() < REMEMBERED)?;
    Some(io::Error::new(*kind, text.clone()))
}

fn remember(host: String, error: &io::Error) {
    note(&mut FAILED.lock(), host, (Instant::now(), error.kind(), error.to_string()));
}

fn note(failed: &mut HashMap<String, NotFound>, host: String, not_found: NotFound) {
    if failed.len() >= FAILURES {
        // The older half, so that this is rare, and names of one definition do not keep those of others out.
        let mut times: Vec<Instant> = failed.values().map(|(at, ..)| *at).collect();
        let (_, middle, _) = times.select_nth_unstable(FAILURES / 2);
        let middle = *middle;
        failed.retain(|_, (at, ..)| *at > middle);
    }
    failed.insert(host, not_found);
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
impl crate::http::Resolve for System {
    fn resolve(&self, host: &str) -> crate::http::Resolving {
        let found = addresses(host);
        Box::pin(async move { Ok(found.await?) })
    }
}

/// What tests of channels need to see for which definition a lookup counts.
#[cfg(all(test, feature = "redis-streams"))]
pub(crate) mod counted {
    use super::*;

    /// Runs a function as an attempt of a definition does.
    pub(crate) fn of_definition<T>(blocking: &Arc<Blocking>, definition: &str, begin: impl FnOnce() -> T) -> T {
        let attempt = Attempt { blocking: Arc::clone(blocking), definition: definition.to_owned() };
        begun_by(Some(attempt), begin)
    }

    /// Returns the definition for which a lookup of this host runs, or has run.
    pub(crate) fn definition_of(host: &str) -> Option<String> {
        RUNNING.lock().keys().find(|(_, of)| of == host).map(|(definition, _)| definition.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use tokio::time::timeout;

    use super::*;

    /// Only ends a test that hangs.
    const DEADLINE: Duration = Duration::from_secs(60);

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

    #[test]
    fn number_of_remembered_failures_is_limited_and_the_latest_stay() {
        let (mut failed, began) = (HashMap::new(), Instant::now());
        let not_found = |number: usize| {
            let at = began + Duration::from_micros(u64::try_from(number).unwrap());
            (at, io::ErrorKind::NotFound, String::new())
        };
        for number in 0..3 * FAILURES {
            note(&mut failed, number.to_string(), not_found(number));
            assert!(failed.len() <= FAILURES && failed.contains_key(&number.to_string()));
        }
        assert!(!failed.contains_key("0"));
    }

    /// A lookup that a name server never answers, until `end` is dropped. `begun` gets its host.
    fn silent(
        begun: &Sender<String>,
        ends: &Arc<Mutex<Receiver<()>>>,
        host: &str,
    ) -> impl FnOnce() -> io::Result<Vec<IpAddr>> + use<> {
        let (begun, ends, host) = (begun.clone(), Arc::clone(ends), host.to_owned());
        move || {
            begun.send(host).map_err(io::Error::other)?;
            let _ = ends.lock().recv();
            Err(io::ErrorKind::TimedOut.into())
        }
    }

    fn of(blocking: &Arc<Blocking>, definition: &str) -> Option<Attempt> {
        Some(Attempt { blocking: Arc::clone(blocking), definition: definition.to_owned() })
    }

    #[tokio::test]
    async fn silent_name_server_is_remembered_though_its_attempt_has_ended() {
        let (begun, begins) = channel();
        let (end, ends) = channel();
        let (ends, blocking) = (Arc::new(Mutex::new(ends)), Arc::new(Blocking::waiting()));
        let host = "silent-and-remembered.invalid";
        let attempt = tokio::spawn(look_up(of(&blocking, "a"), host.to_owned(), silent(&begun, &ends, host)));
        tokio::task::spawn_blocking(move || begins.recv().unwrap()).await.unwrap();
        attempt.abort();
        drop(end);
        // Another definition knows it, too. The second lookup is never asked.
        let noted = async {
            while remembered(host).is_none() {
                tokio::task::yield_now().await;
            }
        };
        timeout(DEADLINE, noted).await.unwrap();
        let again = look_up(of(&blocking, "b"), host.to_owned(), || Ok(Vec::new())).await;
        assert_eq!(again.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn dead_host_leaves_the_places_of_its_definition_to_other_hosts() {
        let (begun, begins) = channel();
        let (end, ends) = channel();
        let (ends, blocking) = (Arc::new(Mutex::new(ends)), Arc::new(Blocking::waiting()));
        let host = "dead-customer.invalid";
        let dead: Vec<_> = (0..20)
            .map(|_| tokio::spawn(look_up(of(&blocking, "a"), host.to_owned(), silent(&begun, &ends, host))))
            .collect();
        let begins = tokio::task::spawn_blocking(move || begins.recv().map(|_| begins).unwrap()).await.unwrap();
        for _ in 0..20 {
            let living = look_up(of(&blocking, "a"), "living-customer.invalid".to_owned(), || Ok(Vec::new()));
            timeout(DEADLINE, living).await.unwrap().unwrap();
        }
        assert!(begins.try_recv().is_err(), "one lookup of the host runs");
        drop(end);
        for dead in dead {
            assert_eq!(dead.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        }
        assert!(begins.try_recv().is_err(), "the others got its failure");
    }

    #[cfg(feature = "redis-streams")]
    #[tokio::test]
    async fn lookups_of_another_task_count_for_the_attempt_that_began_them() {
        let blocking = Arc::new(Blocking::waiting());
        let within = ATTEMPT.scope(of(&blocking, "a").unwrap(), async { attempt() }).await;
        let counted = tokio::spawn(async move { begun_by(within, attempt).map(|attempt| attempt.definition) });
        assert_eq!(counted.await.unwrap().as_deref(), Some("a"));
    }
}
