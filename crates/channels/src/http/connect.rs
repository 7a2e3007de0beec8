//! [`Connector`]: connections to receivers, directly or through a proxy, with TLS where the URL says so. Each has a [`Metered`] stream at its base.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper::Uri;
use hyper::header::HeaderValue;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use solid_notify_core::error::BoxError;
use tokio::time::timeout;
use tower_service::Service;

use super::meter::Metered;
use super::resolve::Resolve;
use crate::address::AllowedNetworks;
use crate::tls;

/// The name of this sender, for receivers and proxies.
pub(super) const AGENT: HeaderValue = HeaderValue::from_static(concat!("solid-notify/", env!("CARGO_PKG_VERSION")));

/// How long a connection may take, with TLS and what a proxy says.
const TIME_TO_CONNECT: Duration = Duration::from_secs(10);

/// After this time without a byte the operating system asks whether the receiver is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Finds the addresses of names, of which a row may reach some.
#[derive(Clone)]
struct Names {
    resolver: Arc<dyn Resolve>,
    /// `None`: all, because the program itself names the host.
    networks: Option<AllowedNetworks>,
}

impl Service<Name> for Names {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    /// The client connects to what this returns and does not ask again.
    fn call(&mut self, name: Name) -> Self::Future {
        let (host, networks) = (name.as_str().to_owned(), self.networks.clone());
        let resolving = self.resolver.resolve(name.as_str());
        Box::pin(async move {
            // The connector sets the port.
            let found = resolving.await.map(|found| found.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(match networks {
                Some(networks) => networks.of_name(&host, found)?.into_iter(),
                None => found?.collect::<Vec<_>>().into_iter(),
            })
        })
    }
}

/// Connects without TLS.
#[derive(Clone)]
struct Plain(HttpConnector<Names>);

impl Service<Uri> for Plain {
    type Response = TokioIo<Metered>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connecting = self.0.call(to);
        Box::pin(async move { Ok(TokioIo::new(Metered::new(connecting.await?.into_inner()))) })
    }
}

/// Connects to receivers.
#[derive(Clone)]
pub(super) struct Connector {
    plain: Plain,
    proxies: Arc<Matcher>,
    #[cfg(feature = "tls")]
    tls: Arc<tls::Config>,
    /// HTTP/1 alone: requests through a proxy, and those for a tunnel, are written in it.
    #[cfg(feature = "tls")]
    tls_to_proxies: Arc<tls::Config>,
}

impl Connector {
    /// `networks`: those that a row may reach, where no proxy does so.
    #[cfg_attr(not(feature = "tls"), expect(unused_variables))]
    pub(super) fn new(
        resolver: Arc<dyn Resolve>,
        networks: Option<AllowedNetworks>,
        proxies: Arc<Matcher>,
        tls: tls::Config,
    ) -> Self {
        let mut plain = HttpConnector::new_with_resolver(Names { resolver, networks });
        plain.enforce_http(!tls::HAS_TLS);
        plain.set_nodelay(true);
        plain.set_keepalive(Some(KEEP_ALIVE));
        plain.set_connect_timeout(Some(TIME_TO_CONNECT));
        #[cfg(feature = "tls")]
        let mut tls_to_proxies = tls.clone();
        #[cfg(feature = "tls")]
        tls_to_proxies.alpn_protocols.clear();
        Self {
            plain: Plain(plain),
            proxies,
            #[cfg(feature = "tls")]
            tls: Arc::new(tls),
            #[cfg(feature = "tls")]
            tls_to_proxies: Arc::new(tls_to_proxies),
        }
    }

    async fn connect(self, to: Uri, proxy: Option<Intercept>) -> Result<Conn, BoxError> {
        match proxy {
            None => self.direct(to).await,
            Some(proxy) => self.through(&proxy, to).await,
        }
    }
}

#[cfg(feature = "tls")]
impl Connector {
    async fn direct(self, to: Uri) -> Result<Conn, BoxError> {
        let stream = hyper_rustls::HttpsConnector::from((self.plain, self.tls)).call(to).await?;
        Ok(Conn { stream: Box::new(stream), is_to_proxy: false })
    }

    async fn through(self, proxy: &Intercept, to: Uri) -> Result<Conn, BoxError> {
        use hyper::header::{HeaderMap, USER_AGENT};
        use hyper_util::client::legacy::connect::proxy::Tunnel;

        let mut to_proxy = hyper_rustls::HttpsConnector::from((self.plain, self.tls_to_proxies));
        if to.scheme_str() != Some("https") {
            let stream = to_proxy.call(proxy.uri().clone()).await?;
            return Ok(Conn { stream: Box::new(stream), is_to_proxy: true });
        }
        let mut tunnel = Tunnel::new(proxy.uri().clone(), to_proxy);
        if let Some(authorization) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(authorization.clone());
        }
        let tunnel = tunnel.with_headers(HeaderMap::from_iter([(USER_AGENT, AGENT)]));
        let stream = hyper_rustls::HttpsConnector::from((tunnel, self.tls)).call(to).await?;
        Ok(Conn { stream: Box::new(stream), is_to_proxy: false })
    }
}

#[cfg(not(feature = "tls"))]
impl Connector {
    async fn direct(mut self, to: Uri) -> Result<Conn, BoxError> {
        Ok(Conn { stream: Box::new(self.plain.call(to).await?), is_to_proxy: false })
    }

    async fn through(mut self, proxy: &Intercept, _: Uri) -> Result<Conn, BoxError> {
        Ok(Conn { stream: Box::new(self.plain.call(proxy.uri().clone()).await?), is_to_proxy: true })
    }
}

impl Service<Uri> for Connector {
    type Response = Conn;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Conn, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.plain.poll_ready(cx)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let proxy = self.proxies.intercept(&to);
        let name = proxy.as_ref().map(|proxy| name(proxy.uri()));
        let connecting = timeout(TIME_TO_CONNECT, self.clone().connect(to, proxy));
        Box::pin(async move {
            let connected = connecting.await.unwrap_or_else(|_| {
                let problem = format!("no connection within {TIME_TO_CONNECT:?}");
                Err(io::Error::new(io::ErrorKind::TimedOut, problem).into())
            });
            connected.map_err(|source| match name {
                None => source,
                Some(proxy) => NoWay { proxy, source }.into(),
            })
        })
    }
}

/// Returns host and port of a proxy, without its user and password.
pub(super) fn name(proxy: &Uri) -> String {
    let host = proxy.host().unwrap_or_default();
    proxy.port_u16().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The proxy cannot be reached, or refuses, or the receiver behind it breaks TLS.
#[derive(Debug, thiserror::Error)]
#[error("no connection through the proxy {proxy}")]
struct NoWay {
    proxy: String,
    source: BoxError,
}

/// What a connection consists of.
trait Stream: Read + Write + Connection + Send + Unpin {}

impl<S: Read + Write + Connection + Send + Unpin> Stream for S {}

/// A connection.
pub(super) struct Conn {
    stream: Box<dyn Stream>,
    /// To a proxy that gets whole URLs.
    is_to_proxy: bool,
}

impl Connection for Conn {
    fn connected(&self) -> Connected {
        self.stream.connected().proxy(self.is_to_proxy)
    }
}

impl Read for Conn {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl Write for Conn {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
