//! The stream to a mail server, with a limit of what the server may send: the client keeps a line until it ends.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lettre::transport::smtp::client::{AsyncTokioStream, TlsParameters};
use solid_notify_core::error::BoxError;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::compat::FuturesAsyncReadCompatExt;

use crate::address::AllowedNetworks;
use crate::lookup;

/// How many bytes a server may send after one of our writes: many times the longest reply, and the longest chain of certificates.
const ANSWER_LIMIT: usize = 64 * 1024;

/// Connects, and encrypts from the first byte where `tls` is given. `networks`: as of [`lookup::sockets`].
///
/// # Errors
/// The server cannot be reached, or the encryption fails.
pub(super) async fn connect(
    place: (&str, u16),
    networks: Option<AllowedNetworks>,
    tls: Option<TlsParameters>,
) -> Result<Box<dyn AsyncTokioStream>, BoxError> {
    let addresses = lookup::sockets(place.0, place.1, networks).await?;
    let stream = TcpStream::connect(&*addresses).await?;
    let peer = stream.peer_addr()?;
    let stream = Limited { stream: Box::pin(stream), left: ANSWER_LIMIT, peer };
    let Some(tls) = tls else { return Ok(Box::new(stream)) };
    // The type is deprecated because few programs need it. Without it the client connects by itself, and without a limit.
    #[allow(deprecated)]
    let mut encrypted = lettre::transport::smtp::client::AsyncNetworkStream::use_existing_tokio1(Box::new(stream));
    #[allow(deprecated)]
    encrypted.upgrade_tls(tls).await?;
    Ok(Box::new(Limited { stream: Box::pin(encrypted.compat()), left: ANSWER_LIMIT, peer }))
}

/// A stream whose peer may send [`ANSWER_LIMIT`] bytes after each write.
struct Limited<S> {
    left: usize,
    peer: SocketAddr,
    stream: Pin<Box<S>>,
}

impl<S> std::fmt::Debug for Limited<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Limited").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Sync> AsyncTokioStream for Limited<S> {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }
}

impl<S: AsyncRead> AsyncRead for Limited<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left == 0 {
            let problem = format!("the mail server sent more than {ANSWER_LIMIT} bytes at once");
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, problem)));
        }
        let most = self.left.min(buffer.remaining());
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
        ready!(self.stream.as_mut().poll_read(context, &mut part))?;
        let read = part.filled().len();
        self.left -= read;
        buffer.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite> AsyncWrite for Limited<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(self.stream.as_mut().poll_write(context, bytes))?;
        self.left = ANSWER_LIMIT;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(context)
    }
}
