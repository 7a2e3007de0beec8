//! [`RedisStreams`]: notices as entries of Redis streams. The reply with the id of the entry is the delivery.

mod config;
mod send;

use std::io;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use solid_notify_core::ErrorClass;
use solid_notify_core::definition::{ExposeSecret, SecretRef};
use solid_notify_core::secret::SecretError;
use solid_notify_redis_connection::{Error, Redis, Resolve};
use solid_notify_sweeper::{Failure, HandlerResult};

pub use self::config::RedisStreamsConfig;
use self::send::{Link, Nodes};
use crate::address::AllowedNetworks;
use crate::brokers::{Alone, Clients, Connecting, Current, Published, Suspects, Unconnected};
use crate::channel::{AnyNotice, Channel};
use crate::lookup;
use crate::relay::{self, Intake};
use crate::secrets::Secrets;

/// Appends notices to Redis streams. Definitions choose it by `handler = 'redis_stream'`; see [`RedisStreamsConfig`].
///
/// All definitions with the same URL share one connection, to one server or to a cluster, which reconnects by itself.
#[derive(Default)]
pub struct RedisStreams {
    networks: AllowedNetworks,
    servers: Clients<Server>,
    suspects: Suspects,
}

/// A Redis and the connection to it.
#[derive(Default)]
struct Server {
    connecting: Connecting<Link, Error>,
    alone: Alone,
}

/// A checked configuration, with the server that it uses.
pub struct Prepared {
    config: RedisStreamsConfig,
    server: Current<Server>,
}

impl RedisStreams {
    /// Creates the channel. It connects when there is something to send.
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows servers in networks that are not public.
    #[must_use]
    pub fn allow_networks(mut self, networks: &AllowedNetworks) -> Self {
        self.networks = networks.clone();
        self
    }

    /// Returns the server of a configuration, and its URL.
    fn server<'s>(&self, prepared: &Prepared, secrets: &'s Secrets<'_>) -> Result<(Arc<Server>, &'s str), Failure> {
        let url = secrets.get(&prepared.config.url)?.expose_secret();
        for host in hosts(url)? {
            secrets.admit_all(&host)?;
            self.networks.admit(&host)?;
        }
        Ok((prepared.server.client(&self.servers, url, || Ok(Server::default()))?, url))
    }

    /// Connects to addresses that a row may reach, and that may have its secrets: a cluster names its nodes by itself.
    fn connect(&self, url: &str, admit: impl Admission) -> BoxFuture<'static, Result<Link, Error>> {
        let intake = Intake::of_acknowledgements();
        // Here, because the lookups count for the definition of the attempt that began the connection.
        let (networks, attempt, taken) = (self.networks.clone(), lookup::attempt(), Arc::clone(&intake));
        let nodes = Arc::<Mutex<Nodes>>::default();
        let known = Arc::clone(&nodes);
        let resolve: Resolve = Arc::new(move |host, port| {
            if let Err(refused) = admit(host) {
                known.lock().refused.insert(host);
                return Box::pin(async move { Err(io::Error::other(refused.to_string())) });
            }
            known.lock().connected.insert(host);
            let begin = || lookup::sockets(host, port, Some(networks.clone()));
            let (found, taken) = (lookup::begun_by(attempt.clone(), begin), Arc::clone(&taken));
            Box::pin(async move { Ok(vec![relay::open(&found.await?, &taken).await?]) })
        });
        // Whether the server may delete old streams is the operator's choice.
        let connecting = Redis::builder(url).allow_eviction(true).resolver(resolve).connect();
        async move { Ok(Link { redis: connecting.await?, nodes, intake, refused: Arc::default() }) }.boxed()
    }
}

/// Says whether a host may have the secrets.
trait Admission: Fn(&str) -> Result<(), SecretError> + Send + Sync + 'static {}

impl<F: Fn(&str) -> Result<(), SecretError> + Send + Sync + 'static> Admission for F {}

/// Returns the failure of an attempt without a connection.
fn unconnected(error: Unconnected<Error>) -> Failure {
    let class = match &error {
        Unconnected::Refused(error) => send::class(error),
        Unconnected::Late(_) => ErrorClass::Timeout,
    };
    error.failure().class(class)
}

impl Channel for RedisStreams {
    const NAME: &'static str = "redis_stream";
    type Config = RedisStreamsConfig;
    type Prepared = Prepared;

    fn prepare(&self, config: RedisStreamsConfig) -> Result<Prepared, String> {
        config.check()?;
        Ok(Prepared { config, server: Default::default() })
    }

    fn secrets(prepared: &Prepared) -> Vec<SecretRef> {
        prepared.config.secrets.values().chain([&prepared.config.url]).cloned().collect()
    }

    async fn send(&self, prepared: &Prepared, notice: &AnyNotice) -> HandlerResult {
        let secrets = Secrets::read(notice, Self::secrets(prepared)).await?;
        let entry = send::entry(&prepared.config, notice, &secrets).await?;
        let (server, url) = self.server(prepared, &secrets)?;
        let key = notice.idempotency_key();
        if self.suspects.has(&key) {
            let append = async |link| send::append(link, entry, notice).await.alone();
            let sent =
                async { server.alone.with(self.connect(url, secrets.admission()), append).await.map_err(unconnected)? };
            return self.suspects.alone(&key, sent).await;
        }
        // Another definition may have connected, whose secrets may go to fewer nodes, or to more of them.
        let admits = |node: &String| secrets.admit_all(node).is_ok();
        let is_usable = |link: &Link| !link.intake.is_worn() && !link.nodes.lock().refused.iter().any(admits);
        let link =
            server.connecting.get(is_usable, || self.connect(url, secrets.admission())).await.map_err(unconnected)?;
        link.nodes.lock().connected.iter().try_for_each(|node| secrets.admit_all(node))?;
        match send::append(link, entry, notice).await {
            Published::Ended(result) => result,
            Published::Refused => self.suspects.hand_back(key),
        }
    }
}

/// Returns the hosts of the nodes of a URL; those of a cluster are separated by commas.
fn hosts(url: &str) -> Result<Vec<String>, Failure> {
    let nodes = url.split(',').map(|node| redis::IntoConnectionInfo::into_connection_info(node.trim()));
    let host = |node: redis::RedisResult<redis::ConnectionInfo>| match node.as_ref().map(redis::ConnectionInfo::addr) {
        Ok(redis::ConnectionAddr::Tcp(host, _) | redis::ConnectionAddr::TcpTls { host, .. }) => Ok(host.clone()),
        Ok(_) => {
            let error = "the secret of `url` names a socket of this machine: write redis://user:password@host:6379/0";
            Err(Failure::retry(error).class(ErrorClass::Invalid))
        }
        Err(_) => Ok(String::new()),
    };
    nodes.map(host).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use solid_notify_core::blocking::Blocking;

    use super::*;
    use crate::lookup::counted::{definition_of, of_definition};

    /// The connection goes on in another task when the attempt that began it has ended.
    #[tokio::test]
    async fn lookups_of_a_connection_count_for_the_attempt_that_began_it() {
        const HOST: &str = "redis-of-streams.invalid";
        let blocking = Arc::new(Blocking::waiting());
        // Calls of the definition have all of its places, so the lookup is still there when it is looked at.
        let (end, ends) = channel::<()>();
        let (ends, (begun, begins)) = (Arc::new(std::sync::Mutex::new(ends)), channel());
        for _ in 0..4 {
            let (blocking, ends, begun) = (Arc::clone(&blocking), Arc::clone(&ends), begun.clone());
            tokio::spawn(async move {
                let hang = move || {
                    let _ = begun.send(());
                    let _ = ends.lock().map(|ends| ends.recv());
                    Ok(())
                };
                blocking.run("orders", hang).await
            });
        }
        tokio::task::spawn_blocking(move || begins.iter().take(4).count()).await.unwrap();
        let connecting = of_definition(&blocking, "orders", || {
            RedisStreams::new().connect(&format!("redis://{HOST}:6379/0"), |_: &str| Ok(()))
        });
        let connecting = tokio::spawn(connecting);
        let looked_up = async {
            loop {
                match definition_of(HOST) {
                    Some(definition) => return definition,
                    None => tokio::task::yield_now().await,
                }
            }
        };
        let definition = tokio::time::timeout(std::time::Duration::from_secs(60), looked_up).await.unwrap();
        assert_eq!(definition, "orders");
        drop(end);
        assert!(connecting.await.unwrap().is_err());
    }
}
