//! The connections of HTTP: no client keeps the others out.
//!
//! A client that does not send the head of its next request is closed after [`HEAD`]; one that has sent nothing at all, and one whose request or
//! answer makes no progress, after [`LONGEST`]. There are at most [`MOST`] connections, and at most half as many as the process has descriptors
//! (`descriptors.rs`). Where there are more, the one that has waited longest is closed, so probes and acks always get in. If the descriptors run
//! out nevertheless, because of databases and receivers, each refused connection closes the client that has waited longest.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tower::ServiceExt;

/// How long a client may take for the head of a request, and how long a connection is kept for the next one.
const HEAD: Duration = Duration::from_secs(30);
/// How long a request and its answer may take.
const LONGEST: Duration = Duration::from_secs(60);
/// The most connections. A process has at least 1,024 descriptors as a rule, and databases and receivers need some, too.
pub(super) const MOST: usize = 512;
/// How many bytes of a connection are read ahead, and the longest head of a request. A longer one is answered with 431. The connections have
/// 16 MiB of these together.
const BUFFER: usize = 32 * 1024;
/// The most requests at the same time on a connection of HTTP/2, their longest heads, and how much of their bodies is read ahead, together. A
/// connection has less than 200 KiB of these.
#[cfg(feature = "full")]
const STREAMS: u32 = 16;
#[cfg(feature = "full")]
const STREAM_HEAD: u32 = 8 * 1024;
#[cfg(feature = "full")]
const WINDOW: u32 = 64 * 1024 - 1;
/// The pause after the system has refused a connection.
const REFUSED: Duration = Duration::from_millis(100);

/// Accepts connections until `end`, then lets requests under way finish. `most`: how many it keeps.
pub(super) async fn serve(listener: TcpListener, routes: Router, most: usize, end: impl Future<Output = ()>) {
    let places = Arc::new(Places::default());
    let (ends, ended) = watch::channel(());
    let mut cleaning = tokio::time::interval(LONGEST / 4);
    tokio::pin!(end);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut end => break,
            accepted = listener.accept() => accepted,
            _ = cleaning.tick() => {
                places.close_stalled();
                continue;
            }
        };
        match accepted {
            Ok((stream, peer)) => {
                let place = Places::enter(&places, most);
                tokio::spawn(connection(stream, peer, routes.clone(), place, ended.clone()));
                // The one that made room closes its stream before the next is accepted.
                tokio::task::yield_now().await;
            }
            Err(error) => {
                // No descriptor is left, for instance.
                tracing::warn!(%error, "cannot accept a connection");
                places.close_first();
                tokio::time::sleep(REFUSED).await;
            }
        }
    }
    drop(ended);
    drop(listener);
    ends.send_replace(());
    ends.closed().await;
}

/// Serves the requests of one connection.
async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    routes: Router,
    (place, closed): (Place, oneshot::Receiver<()>),
    mut ended: watch::Receiver<()>,
) {
    let place = Arc::new(place);
    let service = hyper::service::service_fn(|request: Request<Incoming>| {
        let (routes, place) = (routes.clone(), Arc::clone(&place));
        async move {
            let _busy = place.begin();
            // Requests that were sent at once have a turn each, as those of other connections.
            tokio::task::yield_now().await;
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(ConnectInfo(peer));
            routes.oneshot(request).await
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(BUFFER);
    #[cfg(feature = "full")]
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(HEAD)
        .keep_alive_timeout(HEAD)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(STREAM_HEAD)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        // Its error is that of a client that is gone.
        _ = connection.as_mut() => return,
        _ = closed => return,
        _ = ended.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// The connections that are open: first those that wait for a request, then those with one; each in the order since when.
#[derive(Default)]
struct Places(Mutex<State>);

#[derive(Default)]
struct State {
    open: BTreeMap<(Doing, u64), (Instant, oneshot::Sender<()>)>,
    last: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Doing {
    Waits,
    Works,
}

/// The place of a connection among the others. Dropped, it is free.
struct Place {
    places: Arc<Places>,
    key: Mutex<(Doing, u64)>,
}

/// A request under way. Dropped, its connection waits.
struct Busy<'a>(&'a Place);

impl Places {
    /// Takes a place; where there is none, closes another connection. The receiver says when this one must close.
    fn enter(this: &Arc<Self>, most: usize) -> (Place, oneshot::Receiver<()>) {
        let (close, closed) = oneshot::channel();
        let mut state = this.locked();
        while state.open.len() >= most && state.open.pop_first().is_some() {}
        state.last += 1;
        let key = (Doing::Waits, state.last);
        state.open.insert(key, (Instant::now(), close));
        drop(state);
        (Place { places: Arc::clone(this), key: Mutex::new(key) }, closed)
    }

    /// Closes the connection that has waited longest. The drop of its sender tells it so.
    fn close_first(&self) {
        self.locked().open.pop_first();
    }

    /// Closes those whose request takes too long, or whose answer is not read.
    fn close_stalled(&self) {
        self.locked().open.retain(|_, (since, _)| since.elapsed() < LONGEST);
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    fn begin(&self) -> Busy<'_> {
        self.change(Doing::Works);
        Busy(self)
    }

    fn change(&self, doing: Doing) {
        let mut state = self.places.locked();
        let mut key = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        // One that must close has lost its place.
        let Some((_, close)) = state.open.remove(&key) else { return };
        state.last += 1;
        *key = (doing, state.last);
        state.open.insert(*key, (Instant::now(), close));
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.change(Doing::Waits);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let key = *self.key.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.places.locked().open.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// On one thread, as the runtime of HTTP.
    #[tokio::test]
    async fn requests_that_are_sent_at_once_leave_others_their_turns() {
        const REQUESTS: usize = 500;
        let (turns, begun) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (at, noted) = (Arc::clone(&turns), Arc::clone(&begun));
        let note = move || {
            noted.lock().unwrap().push(*at.lock().unwrap());
            async { "live" }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(serve(listener, Router::new().route("/", get(note)), 10, std::future::pending()));
        let others = tokio::spawn(async move {
            loop {
                *turns.lock().unwrap() += 1;
                tokio::task::yield_now().await;
            }
        });
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all("GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(REQUESTS).as_bytes()).await.unwrap();
        let mut answers = Vec::new();
        while begun.lock().unwrap().len() < REQUESTS {
            client.read_buf(&mut answers).await.unwrap();
        }
        let begun = begun.lock().unwrap();
        // The connection may be polled twice in a turn.
        assert!(begun.windows(3).all(|three| three[0] < three[2]), "{begun:?}");
        others.abort();
        serving.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_waits_longest_makes_room_and_those_at_work_stay() {
        let places = Arc::new(Places::default());
        let mut closed = Vec::new();
        let mut kept = Vec::new();
        for _ in 0..3 {
            let (place, is_closed) = Places::enter(&places, 3);
            kept.push(place);
            closed.push(is_closed);
        }
        let busy = kept[0].begin();
        let (fourth, _open) = Places::enter(&places, 3);
        assert!(closed[1].try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed));
        assert!(closed[0].try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty));
        // A closed one that goes on working takes no place.
        drop(kept[1].begin());
        assert_eq!(places.locked().open.len(), 3);
        drop(fourth);
        assert_eq!(places.locked().open.len(), 2);
        tokio::time::advance(LONGEST).await;
        drop(busy);
        places.close_stalled();
        assert_eq!(places.locked().open.len(), 1, "the one that has just ended its request stays");
    }
}
