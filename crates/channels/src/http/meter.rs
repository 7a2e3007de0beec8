//! [`Metered`]: a connection that takes a limited number of bytes for each response, and in turns with the other tasks of its thread.
//!
//! hyper reads interim responses, frames and trailers for as long as a receiver sends them, and for a whole poll without a pause. The limit is below
//! TLS, so it also holds for what TLS and proxies say by themselves.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper_util::client::legacy::connect::{Connected, Connection};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// How many bytes a receiver may send for one response, and as many in advance: twice what the longest body (`max_response_bytes`, 1 MiB) has with its
/// head and what carries it.
const RESPONSE: usize = 2 * 1024 * 1024;

/// How many bytes are read before the other tasks of the thread have their turn.
const TURN: usize = 64 * 1024;

/// What a connection may still take.
#[derive(Debug, Clone)]
pub(super) struct Meter(Arc<Mutex<Left>>);

#[derive(Debug)]
struct Left {
    bytes: usize,
    /// The responses that have begun and are still read.
    responses: usize,
}

impl Meter {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Left { bytes: RESPONSE, responses: 0 })))
    }

    /// Counts bytes. Returns false beyond the limit.
    fn takes(&self, bytes: usize) -> bool {
        let mut left = self.0.lock();
        let rest = left.bytes.checked_sub(bytes);
        left.bytes = rest.unwrap_or_default();
        rest.is_some()
    }

    /// Allows the bytes of a response whose head has come.
    pub(super) fn begin_response(&self) -> ResponseInWork {
        let mut left = self.0.lock();
        left.responses += 1;
        left.bytes = left.bytes.saturating_add(RESPONSE);
        ResponseInWork(self.clone())
    }
}

/// A response that is read. What it has not taken ends with it.
pub(super) struct ResponseInWork(Meter);

impl Drop for ResponseInWork {
    fn drop(&mut self) {
        let mut left = self.0.0.lock();
        left.responses -= 1;
        left.bytes = left.bytes.min(RESPONSE.saturating_mul(1 + left.responses));
    }
}

/// The receiver has sent too much.
#[derive(Debug, thiserror::Error)]
#[error("the receiver sent more than {RESPONSE} bytes without a response, or for one; the connection is closed")]
struct TooMuch;

/// A connection with its meter.
#[derive(Debug)]
pub(super) struct Metered<S = TcpStream> {
    stream: S,
    meter: Meter,
    /// Bytes since the last pause.
    turn: usize,
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, meter: Meter::new(), turn: 0 }
    }
}

impl Connection for Metered {
    fn connected(&self) -> Connected {
        // The responses of the connection have it, too.
        self.stream.connected().extra(self.meter.clone())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.turn >= TURN {
            this.turn = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if read.is_pending() {
            this.turn = 0;
        }
        ready!(read)?;
        let bytes = buffer.filled().len() - before;
        this.turn += bytes;
        if !this.meter.takes(bytes) {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, TooMuch)));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
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

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// A receiver that always has more to say.
    struct Endless;

    impl AsyncRead for Endless {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            let length = buffer.remaining();
            buffer.initialize_unfilled();
            buffer.advance(length);
            Poll::Ready(Ok(()))
        }
    }

    /// Reads once. Returns how many bytes came.
    fn read(metered: &mut Metered<Endless>, length: usize) -> Poll<io::Result<usize>> {
        let mut bytes = vec![0; length];
        let mut buffer = ReadBuf::new(&mut bytes);
        let read = Pin::new(metered).poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer);
        read.map_ok(|()| buffer.filled().len())
    }

    /// Reads to the limit. Returns how many bytes came.
    fn read_all(metered: &mut Metered<Endless>) -> usize {
        let mut taken = 0;
        loop {
            match read(metered, 1024) {
                Poll::Ready(Ok(bytes)) => taken += bytes,
                Poll::Ready(Err(_)) => return taken,
                Poll::Pending => {}
            }
        }
    }

    #[test]
    fn reader_pauses_after_its_turn() {
        let mut metered = Metered::new(Endless);
        for _ in 0..3 {
            let reads = (0..).take_while(|_| read(&mut metered, 1024).is_ready()).count();
            assert_eq!(reads, TURN / 1024);
        }
    }

    #[test]
    fn receiver_sends_so_much_for_each_response_and_no_more() {
        let mut metered = Metered::new(Endless);
        assert_eq!(read_all(&mut metered), RESPONSE);
        let mut metered = Metered::new(Endless);
        // Responses that have taken nothing allow nothing later.
        for _ in 0..100 {
            drop(metered.meter.begin_response());
        }
        let responses = [metered.meter.begin_response(), metered.meter.begin_response()];
        assert_eq!(read_all(&mut metered), 3 * RESPONSE);
        drop(responses);
        assert_eq!(read_all(&mut metered), 0);
        let _next = metered.meter.begin_response();
        assert_eq!(read_all(&mut metered), RESPONSE);
    }
}
