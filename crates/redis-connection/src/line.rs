//! [`Line`]: the connection that all clones of a `Redis` share: how it is made, and when a new one replaces it.
//!
//! After an I/O error the client reconnects by itself. It keeps three kinds of useless connections for ever:
//! one over which no response comes (a time-out is not a loss to the client), one to a server that has become a replica while its name leads
//! to another server, and one whose password was refused once. This module replaces them.
//!
//! With a function that resolves names, a connection to a single server does not reconnect by itself, because the client's manager of connections
//! takes no such function. It is replaced in the same way.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use redis::aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisError, RedisResult, Value};
use tokio::sync::Semaphore;

use crate::error::does_not_serve_now;
use crate::resolve::{Resolve, Resolver};

/// Minimum time between two replacements, so that servers are not flooded with connections.
const PAUSE: Duration = Duration::from_secs(1);

/// The addresses of Redis.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) urls: Vec<String>,
    pub(crate) timeout: Duration,
    pub(crate) resolve: Option<Resolve>,
}

/// A connection that is replaced when it has become useless.
pub(crate) struct Line {
    target: Target,
    current: Mutex<Current>,
    /// One permit: only one task connects at a time.
    renewal: Arc<Semaphore>,
}

/// The connection in use.
struct Current {
    link: Link,
    /// The number of connections before it. A call that fails late on an older connection does not replace its successor.
    number: u64,
    /// When it was made, or when the last attempt to replace it began.
    begun: Instant,
}

#[derive(Clone)]
enum Link {
    Single(ConnectionManager),
    /// A single server, whose address a function has found.
    Resolved(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Line {
    pub(crate) async fn open(target: Target) -> RedisResult<Self> {
        let current = Current { link: target.link().await?, number: 0, begun: Instant::now() };
        Ok(Self { target, current: Mutex::new(current), renewal: Arc::new(Semaphore::new(1)) })
    }

    /// Returns whether it leads to a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.current.lock().link, Link::Cluster(_))
    }

    /// Sends a command and waits for its reply, at most for the time-out, which includes connecting and the client's own
    /// repetitions.
    pub(crate) async fn send(self: &Arc<Self>, command: &Cmd) -> RedisResult<Value> {
        let (mut link, number) = {
            let current = self.current.lock();
            (current.link.clone(), current.number)
        };
        let sent = async {
            match &mut link {
                Link::Resolved(link) => command.query_async(link).await,
                Link::Single(link) => command.query_async(link).await,
                Link::Cluster(link) => command.query_async(link).await,
            }
        };
        let late = |_| Err(RedisError::from(io::Error::from(io::ErrorKind::TimedOut)));
        let answered = tokio::time::timeout(self.target.timeout, sent).await.unwrap_or_else(late);
        if answered.as_ref().is_err_and(|error| link.is_of_no_use(error)) {
            self.renew(number);
        }
        answered
    }

    /// Connects in the background and then uses the new connection. Calls use the old one meanwhile.
    fn renew(self: &Arc<Self>, number: u64) {
        let Ok(permit) = Arc::clone(&self.renewal).try_acquire_owned() else { return };
        let old = {
            let mut current = self.current.lock();
            if current.number != number || current.begun.elapsed() < PAUSE {
                return;
            }
            current.begun = Instant::now();
            current.link.clone()
        };
        let line = Arc::clone(self);
        tokio::spawn(async move {
            match line.target.another(old).await {
                Ok(link) => {
                    let mut current = line.current.lock();
                    (current.link, current.number) = (link, number + 1);
                    tracing::info!("replaced a connection to Redis that had become useless");
                }
                Err(error) => {
                    // Without the server's text, which may repeat a password.
                    let kind = error.kind();
                    tracing::warn!(?kind, "cannot replace a connection to Redis that has become useless");
                }
            }
            drop(permit);
        });
    }
}

impl Link {
    /// True where the next call on it would probably fail for the same reason, because the client keeps the connection. A
    /// cluster's client moves to a promoted node by itself, unless it only waits for replies.
    fn is_of_no_use(&self, error: &RedisError) -> bool {
        let is_refused = error.kind() == ErrorKind::AuthenticationFailed;
        match self {
            Self::Single(_) => is_refused || error.is_timeout() || does_not_serve_now(error),
            Self::Resolved(_) => is_refused || error.is_io_error() || does_not_serve_now(error),
            Self::Cluster(_) => error.is_timeout(),
        }
    }
}

impl Target {
    /// Connects to the first server that responds, and asks it whether it belongs to a cluster.
    async fn link(&self) -> RedisResult<Link> {
        let mut single = self.single().await?;
        let mut command = redis::cmd("INFO");
        command.arg("cluster");
        let info: String = match &mut single {
            Link::Single(link) => command.query_async(link).await?,
            Link::Resolved(link) => command.query_async(link).await?,
            Link::Cluster(link) => command.query_async(link).await?,
        };
        match info.contains("cluster_enabled:1") {
            true => Ok(Link::Cluster(self.cluster().await?)),
            false => Ok(single),
        }
    }

    /// Opens a new connection of the same kind.
    async fn another(&self, old: Link) -> RedisResult<Link> {
        match old {
            Link::Single(_) | Link::Resolved(_) => self.single().await,
            Link::Cluster(_) => Ok(Link::Cluster(self.cluster().await?)),
        }
    }

    async fn single(&self) -> RedisResult<Link> {
        let mut failed = None;
        for url in &self.urls {
            match self.server(url).await {
                Ok(single) => return Ok(single),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| (ErrorKind::InvalidClientConfig, "no URL is given").into()))
    }

    async fn server(&self, url: &str) -> RedisResult<Link> {
        let (client, timeout) = (Client::open(url)?, Some(self.timeout));
        if let Some(resolve) = &self.resolve {
            let config = AsyncConnectionConfig::new().set_response_timeout(timeout).set_connection_timeout(timeout);
            let config = config.set_dns_resolver(Resolver(Arc::clone(resolve)));
            return client.get_multiplexed_async_connection_with_config(&config).await.map(Link::Resolved);
        }
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(timeout)
            .set_connection_timeout(timeout)
            .set_max_delay(Duration::from_secs(1));
        client.get_connection_manager_with_config(config).await.map(Link::Single)
    }

    async fn cluster(&self) -> RedisResult<ClusterConnection> {
        let urls = self.urls.iter().map(String::as_str);
        let mut builder = ClusterClientBuilder::new(urls)
            .connection_timeout(self.timeout)
            .response_timeout(self.timeout)
            // Limits how often a script is sent again after a lost reply; redirections count as well.
            .retries(5);
        if let Some(resolve) = &self.resolve {
            builder = builder.async_dns_resolver(Resolver(Arc::clone(resolve)));
        }
        builder.build()?.get_async_connection().await
    }
}
