//! What the channels to brokers share: one client for each URL, its connection, and the notices that must not use it next time.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::sync::{Arc, Weak};
use std::time::Duration;
use std::{fmt, io};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
#[cfg(any(feature = "nats", feature = "redis-streams"))]
use solid_notify_core::ErrorClass;
use solid_notify_sweeper::{Failure, HandlerResult};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// How long connecting may take, with TLS and signing in.
const TIME_TO_CONNECT: Duration = Duration::from_secs(30);

/// Minimum time from one failed try to connect to the next.
const PAUSE: Duration = Duration::from_secs(1);

/// How many notices [`Suspects`] remembers. Of more, some are handed back once more.
const SUSPECTS: usize = 10_000;

/// How many connections for one message each a client has at the same time.
const ALONE: usize = 4;

/// The notices, by idempotency key, whose messages were under way when a broker closed the connection because of one message. It
/// is not known which of them it was. Each is sent on a connection of its own until it has succeeded, so that it can only hurt itself.
#[derive(Default)]
pub(crate) struct Suspects(Mutex<HashSet<String>>);

impl Suspects {
    /// Returns whether this notice was noted.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.lock().contains(key)
    }

    /// Returns the result of a notice that was sent on a connection of its own, and forgets the notice after a success. Another attempt of a
    /// message that closes connections would otherwise close the shared one again.
    pub(crate) async fn alone(&self, key: &str, sent: impl Future<Output = HandlerResult>) -> HandlerResult {
        let result = sent.await;
        if result.is_ok() {
            self.0.lock().remove(key);
        }
        result
    }

    /// Notes a notice, and returns its result: it is handed back, and counts no try.
    pub(crate) fn hand_back(&self, key: String) -> HandlerResult {
        let mut keys = self.0.lock();
        if keys.len() >= SUSPECTS {
            keys.clear();
        }
        keys.insert(key);
        Err(Failure::hand_back(Duration::ZERO))
    }
}

/// What became of a message.
#[cfg(any(feature = "nats", feature = "redis-streams"))]
pub(crate) enum Published {
    Ended(HandlerResult),
    /// The server has closed the connection because of a message: of this one, or of another one on it.
    Refused,
}

#[cfg(any(feature = "nats", feature = "redis-streams"))]
impl Published {
    /// Returns the result of a message that was alone on its connection.
    pub(crate) fn alone(self) -> HandlerResult {
        match self {
            Self::Ended(result) => result,
            Self::Refused => {
                let error = "the server closed the connection because of this message";
                Err(Failure::retry(error).class(ErrorClass::Invalid))
            }
        }
    }
}

/// The places of connections for one message each.
pub(crate) struct Alone(Semaphore);

impl Default for Alone {
    fn default() -> Self {
        Self(Semaphore::new(ALONE))
    }
}

impl Alone {
    /// Uses a connection that `connect` makes: boxed, because each attempt would have a place for its large state.
    ///
    /// # Errors
    /// Why it could not be made.
    pub(crate) async fn with<T, E>(
        &self,
        connect: BoxFuture<'static, Result<T, E>>,
        send: impl AsyncFnOnce(T) -> HandlerResult,
    ) -> Result<HandlerResult, Unconnected<E>> {
        // The semaphore is never closed.
        let _place = self.0.acquire().await;
        match tokio::time::timeout(TIME_TO_CONNECT, connect).await {
            Ok(Ok(connection)) => Ok(send(connection).await),
            Ok(Err(error)) => Err(Unconnected::Refused(Arc::new(error))),
            Err(_) => Err(Unconnected::Late(Arc::new(io::ErrorKind::TimedOut.into()))),
        }
    }
}

/// The clients of a channel by URL and credentials. A client lives as long as a configuration uses it.
pub(crate) struct Clients<T>(Mutex<HashMap<String, Weak<T>>>);

impl<T> Default for Clients<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Clients<T> {
    /// Returns the client for a key, which `make` makes unless there is one.
    fn of_key(&self, key: &str, make: impl FnOnce() -> Result<T, String>) -> Result<Arc<T>, String> {
        let mut clients = self.0.lock();
        if let Some(client) = clients.get(key).and_then(Weak::upgrade) {
            return Ok(client);
        }
        let client = Arc::new(make()?);
        clients.retain(|_, client| client.strong_count() > 0);
        clients.insert(key.to_owned(), Arc::downgrade(&client));
        Ok(client)
    }
}

/// The client that a configuration uses, and the key that it was made for.
pub(crate) struct Current<T>(Mutex<Option<(String, Arc<T>)>>);

impl<T> Default for Current<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Current<T> {
    /// Returns the client for a key, which is all that it is made of: secrets, which are read again in each attempt, so that a changed
    /// secret needs no restart.
    ///
    /// # Errors
    /// What `make` returns.
    pub(crate) fn client(
        &self,
        clients: &Clients<T>,
        key: &str,
        make: impl FnOnce() -> Result<T, String>,
    ) -> Result<Arc<T>, String> {
        let mut current = self.0.lock();
        if let Some((_, client)) = current.as_ref().filter(|(known, _)| known == key) {
            return Ok(Arc::clone(client));
        }
        let client = clients.of_key(key, make)?;
        *current = Some((key.to_owned(), Arc::clone(&client)));
        Ok(client)
    }
}

/// A connection that is being made, or was, and when that began. All attempts wait for it together, and it goes on when one of them runs into
/// its time-out.
pub(crate) struct Connecting<T, E>(Mutex<Option<(Instant, Pending<T, E>)>>);

type Pending<T, E> = Shared<BoxFuture<'static, Result<T, Unconnected<E>>>>;

impl<T, E> Default for Connecting<T, E> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T, E> Connecting<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Error + Send + Sync + 'static,
{
    /// Returns the connection, once it is made. `connect` makes one where there is none that is usable.
    ///
    /// # Errors
    /// Why it could not be made. A call after [`PAUSE`] tries again; those before it get the same error, because many notices that wait for a
    /// broker would keep it from starting.
    pub(crate) async fn get(
        &self,
        is_usable: impl FnOnce(&T) -> bool,
        connect: impl FnOnce() -> BoxFuture<'static, Result<T, E>>,
    ) -> Result<T, Unconnected<E>> {
        let pending = {
            let mut current = self.0.lock();
            match current.as_ref().map(|(begun, pending)| (begun, pending, pending.peek())) {
                Some((_, pending, None)) => pending.clone(),
                Some((_, _, Some(Ok(connection)))) if is_usable(connection) => return Ok(connection.clone()),
                Some((begun, _, Some(Err(error)))) if begun.elapsed() < PAUSE => return Err(error.clone()),
                _ => current.insert((Instant::now(), pending(connect()))).1.clone(),
            }
        };
        pending.await
    }
}

fn pending<T, E>(connecting: BoxFuture<'static, Result<T, E>>) -> Pending<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Error + Send + Sync + 'static,
{
    let connecting = tokio::spawn(tokio::time::timeout(TIME_TO_CONNECT, connecting));
    let connected = async move {
        match connecting.await {
            Ok(Ok(Ok(connection))) => Ok(connection),
            Ok(Ok(Err(error))) => Err(Unconnected::Refused(Arc::new(error))),
            Ok(Err(_)) => Err(Unconnected::Late(Arc::new(io::ErrorKind::TimedOut.into()))),
            // The client panicked, or the runtime shuts down.
            Err(error) => Err(Unconnected::Late(Arc::new(io::Error::other(error)))),
        }
    };
    connected.boxed().shared()
}

/// Why there is no connection. The client's error is its source, by whose type the failure is classified.
#[derive(Debug)]
pub(crate) enum Unconnected<E> {
    Refused(Arc<E>),
    Late(Arc<io::Error>),
}

impl<E> Clone for Unconnected<E> {
    fn clone(&self) -> Self {
        match self {
            Self::Refused(error) => Self::Refused(Arc::clone(error)),
            Self::Late(error) => Self::Late(Arc::clone(error)),
        }
    }
}

impl<E> fmt::Display for Unconnected<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(_) => f.write_str("cannot connect to the broker"),
            Self::Late(_) => write!(f, "cannot connect to the broker within {} s", TIME_TO_CONNECT.as_secs()),
        }
    }
}

impl<E: Error + Send + Sync + 'static> Unconnected<E> {
    /// Returns the failure of an attempt. Nothing of the notice has been sent, so no text has a value of it.
    pub(crate) fn failure(self) -> Failure {
        Failure::retry(self).free_of_values()
    }
}

impl<E: Error + 'static> Error for Unconnected<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Refused(error) => Some(&**error),
            Self::Late(error) => Some(&**error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_share_a_client_which_ends_with_the_last_of_them() {
        let clients = Clients::default();
        let first = clients.of_key("amqp://a", || Ok(1)).unwrap();
        let second = clients.of_key("amqp://a", || Err("one is enough".to_owned())).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        drop((first, second));
        assert!(clients.of_key("amqp://a", || Err("made anew".to_owned())).is_err());
        clients.of_key("amqp://b", || Ok(2)).unwrap();
        assert_eq!(clients.0.lock().len(), 1, "ended clients are forgotten");
    }

    #[tokio::test]
    async fn suspect_stays_alone_until_it_has_succeeded() {
        let (suspects, key) = (Suspects::default(), "7");
        let alone = async |result: HandlerResult| suspects.alone(key, async { result }).await;
        assert!(!suspects.has(key) && suspects.hand_back(key.to_owned()).is_err());
        assert!(alone(Err(Failure::retry("refused"))).await.is_err());
        assert!(suspects.has(key), "it would close the shared connection again");
        assert!(alone(Ok(())).await.is_ok());
        assert!(!suspects.has(key));
    }

    #[tokio::test(start_paused = true)]
    async fn connection_is_made_once_and_anew_after_a_failure_or_a_loss() {
        let (connecting, tries) = (Connecting::<i32, io::Error>::default(), Mutex::new(0));
        let get = async |usable: bool, result: Result<i32, io::ErrorKind>| {
            let connect = || {
                *tries.lock() += 1;
                async move { result.map_err(io::Error::from) }.boxed()
            };
            connecting.get(|_| usable, connect).await
        };
        let refused = get(true, Err(io::ErrorKind::ConnectionRefused)).await.unwrap_err();
        assert!(refused.source().unwrap().downcast_ref::<io::Error>().is_some());
        assert!(get(true, Ok(0)).await.is_err(), "not again at once");
        tokio::time::advance(PAUSE).await;
        let (one, two) = tokio::join!(get(true, Ok(1)), get(true, Ok(2)));
        assert_eq!((one.unwrap(), two.unwrap(), *tries.lock()), (1, 1, 2));
        assert_eq!((get(true, Ok(3)).await.unwrap(), get(false, Ok(4)).await.unwrap(), *tries.lock()), (1, 4, 3));
    }
}
