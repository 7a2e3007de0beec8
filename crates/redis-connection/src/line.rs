//! [`Line`]: the connection that all clones of a `Redis` share: how it is made, and when a new one replaces it.
//!
//! After an I/O error the client reconnects by itself. It keeps three kinds of useless connections for ever:
//! one over which no response comes (a time-out is not a loss to the client), one to a server that has become a replica while its name leads
//! to another server, and one whose password was refused once. This module replaces them.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::{Client, Cmd, ErrorKind, RedisError, RedisResult, Value};
use tokio::sync::Semaphore;

use crate::error::does_not_serve_now;

/// Minimum time between two replacements, so that servers are not flooded with connections.
const PAUSE: Duration = Duration::from_secs(1);

/// The addresses of Redis.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) urls: Vec<String>,
    pub(crate) timeout: Duration,
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
    Cluster(ClusterConnection),
}

impl Line {
    pub(crate) async fn open(target: Target) -> RedisResult<Self> {
        let current = Current { link: target.link().await?, number: 0, begun: Instant::now() };
        Ok(Self { target, current: Mutex::new(current), renewal: Arc::new(Semaphore::new(1)) })
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
                Err(error) => tracing::warn!(%error, "cannot replace a connection to Redis that has become useless"),
            }
            drop(permit);
        });
    }
}

impl Link {
    /// True where the next call on it would probably fail for the same reason, because the client keeps the connection. A
    /// cluster's client moves to a promoted node by itself, unless it only waits for replies.
    fn is_of_no_use(&self, error: &RedisError) -> bool {
        match self {
            Self::Single(_) => {
                let refused = error.kind() == ErrorKind::AuthenticationFailed;
                refused || error.is_timeout() || does_not_serve_now(error)
            }
            Self::Cluster(_) => error.is_timeout(),
        }
    }
}

impl Target {
    /// Connects to the first server that responds, and asks it whether it belongs to a cluster.
    async fn link(&self) -> RedisResult<Link> {
        let mut single = self.single().await?;
        let info: String = redis::cmd("INFO").arg("cluster").query_async(&mut single).await?;
        match info.contains("cluster_enabled:1") {
            true => Ok(Link::Cluster(self.cluster().await?)),
            false => Ok(Link::Single(single)),
        }
    }

    /// Opens a new connection of the same kind.
    async fn another(&self, old: Link) -> RedisResult<Link> {
        match old {
            Link::Single(_) => Ok(Link::Single(self.single().await?)),
            Link::Cluster(_) => Ok(Link::Cluster(self.cluster().await?)),
        }
    }

    async fn single(&self) -> RedisResult<ConnectionManager> {
        let mut failed = None;
        for url in &self.urls {
            let config = ConnectionManagerConfig::new()
                .set_response_timeout(Some(self.timeout))
                .set_connection_timeout(Some(self.timeout))
                .set_max_delay(Duration::from_secs(1));
            let connected = match Client::open(url.as_str()) {
                Ok(client) => client.get_connection_manager_with_config(config).await,
                Err(error) => Err(error),
            };
            match connected {
                Ok(single) => return Ok(single),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| (ErrorKind::InvalidClientConfig, "no URL is given").into()))
    }

    async fn cluster(&self) -> RedisResult<ClusterConnection> {
        let urls = self.urls.iter().map(String::as_str);
        let builder = ClusterClientBuilder::new(urls)
            .connection_timeout(self.timeout)
            .response_timeout(self.timeout)
            // Limits how often a script is sent again after a lost reply; redirections count as well.
            .retries(5);
        builder.build()?.get_async_connection().await
    }
}
