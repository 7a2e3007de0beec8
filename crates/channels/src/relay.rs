//! A relay between the client of a broker and the broker: it limits how many bytes the client takes in.
//!
//! The clients of AMQP, NATS and Redis keep what a server sends until a message or a line is complete, without a limit of their own, and one of
//! them takes no stream of ours. Each can connect to an address, so it connects to this relay, and TLS passes through. See
//! `docs/decisions/0130-what-a-row-may-use-and-what-it-may-hold-up.md`.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, sink};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// How many bytes a broker may send over a connection that also carries messages to us, returned ones and replies: several of the largest that RabbitMQ
/// takes by default.
#[cfg(feature = "amqp")]
const MESSAGES: Limit = Limit { worn: 16 * 1024 * 1024, most: 64 * 1024 * 1024 };

/// The same where it only acknowledges, by some hundred bytes each. The client of NATS searches all that it has at each read.
#[cfg(any(feature = "nats", feature = "redis-streams"))]
const ACKNOWLEDGEMENTS: Limit = Limit { worn: 4 * 1024 * 1024, most: 8 * 1024 * 1024 };

/// Numbers of bytes.
#[derive(Debug, Clone, Copy)]
struct Limit {
    /// Then another connection is made for further messages. So no connection in use reaches the other limit, unless a server sends far more than it
    /// should.
    worn: u64,
    /// Then it is closed.
    most: u64,
}

/// How long one address may take to accept a connection.
const TIME_TO_ACCEPT: Duration = Duration::from_secs(5);

/// How long the client may take to connect to the relay.
const TIME_TO_CONNECT: Duration = Duration::from_secs(10);

/// How long the port stays taken after the end, while the client is used. A client that reconnects must not meet another program there, to which it
/// would sign in.
const LINGER: Duration = Duration::from_secs(60);

/// How long the client may take to read the last bytes of a server that has closed the connection.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long the client may take to end a connection that is no longer used. One that waits for a server does not end it.
const TIME_TO_END: Duration = Duration::from_secs(5);

/// How many servers a client may be connected to at the same time: those of a cluster. A hostile server names as many as it likes.
pub(crate) const SERVERS: usize = 64;

/// What a client takes in, from all servers that it is connected to. A cluster has several.
#[derive(Debug)]
pub(crate) struct Intake {
    counted: Arc<Counted>,
    /// Closed when the client is no longer used.
    used: watch::Sender<()>,
}

#[derive(Debug)]
struct Counted {
    taken: AtomicU64,
    limit: Limit,
    /// The number of relays.
    open: AtomicUsize,
    /// The client has closed a connection, or its task has ended.
    left: watch::Sender<bool>,
    /// The connections are given up.
    cut: watch::Sender<bool>,
}

impl Intake {
    /// Begins to count what a broker sends that also has messages for us.
    #[cfg(feature = "amqp")]
    pub(crate) fn of_messages() -> Arc<Self> {
        Self::with(MESSAGES)
    }

    /// Begins to count what a server sends that only acknowledges.
    #[cfg(any(feature = "nats", feature = "redis-streams"))]
    pub(crate) fn of_acknowledgements() -> Arc<Self> {
        Self::with(ACKNOWLEDGEMENTS)
    }

    fn with(limit: Limit) -> Arc<Self> {
        let counted = Counted {
            taken: AtomicU64::new(0),
            limit,
            open: AtomicUsize::new(0),
            left: watch::Sender::new(false),
            cut: watch::Sender::new(false),
        };
        Arc::new(Self { counted: Arc::new(counted), used: watch::Sender::new(()) })
    }

    /// Returns whether another connection is to be made for further messages.
    pub(crate) fn is_worn(&self) -> bool {
        self.counted.taken.load(Ordering::Relaxed) >= self.counted.limit.worn
    }

    /// Closes all connections, without the client.
    #[cfg(feature = "amqp")]
    pub(crate) fn cut(&self) {
        self.counted.cut.send_replace(true);
    }

    /// Returns whether the client has closed a connection.
    #[cfg(feature = "nats")]
    pub(crate) fn has_left(&self) -> bool {
        *self.counted.left.borrow()
    }

    /// Returns what becomes true when the client has closed a connection. A client whose task has ended by a panic does not report it.
    #[cfg(feature = "nats")]
    pub(crate) fn left(&self) -> watch::Receiver<bool> {
        self.counted.left.subscribe()
    }
}

impl Counted {
    /// Counts bytes. Returns false beyond the limit.
    fn takes(&self, bytes: usize) -> bool {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.taken.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= self.limit.most
    }
}

/// Connects to the first of these addresses that accepts. Returns the address to which the client connects instead, once.
///
/// # Errors
/// That of the last address; too many servers.
pub(crate) async fn open(addresses: &[SocketAddr], intake: &Arc<Intake>) -> io::Result<SocketAddr> {
    let place = Place::of(&intake.counted)?;
    let server = connect(addresses).await?;
    server.set_nodelay(true)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(serve(listener, server, place, intake.used.subscribe()));
    Ok(address)
}

/// A relay among those of its client.
struct Place(Arc<Counted>);

impl Place {
    fn of(counted: &Arc<Counted>) -> io::Result<Self> {
        let place = Self(Arc::clone(counted));
        if counted.open.fetch_add(1, Ordering::Relaxed) >= SERVERS {
            return Err(io::Error::other(format!("the servers name more than {SERVERS} others")));
        }
        Ok(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match timeout(TIME_TO_ACCEPT, TcpStream::connect(address)).await {
            Ok(Ok(server)) => return Ok(server),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

async fn serve(listener: TcpListener, server: TcpStream, place: Place, mut used: watch::Receiver<()>) {
    let Ok(Ok((client, _))) = timeout(TIME_TO_CONNECT, listener.accept()).await else { return };
    // It only costs time where this fails.
    let _ = client.set_nodelay(true);
    tokio::select! {
        () = pass(client, server, &place.0) => {}
        () = refuse(&listener) => {}
        () = given_up(&place.0, used.clone()) => {}
    }
    place.0.left.send_replace(true);
    tokio::select! {
        _ = timeout(LINGER, refuse(&listener)) => {}
        // Its sender is gone.
        _ = used.changed() => {}
    }
}

/// Waits until the connection is given up.
async fn given_up(counted: &Counted, mut used: watch::Receiver<()>) {
    let unused = async {
        // Its sender is gone.
        let _ = used.changed().await;
        sleep(TIME_TO_END).await;
    };
    let mut cut = counted.cut.subscribe();
    tokio::select! {
        _ = cut.wait_for(|cut| *cut) => {}
        () = unused => {}
    }
}

/// Closes each further connection.
async fn refuse(listener: &TcpListener) {
    loop {
        if listener.accept().await.is_err() {
            // Too many files are open.
            sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Passes bytes on until one side has closed the connection.
async fn pass(client: TcpStream, server: TcpStream, intake: &Counted) {
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let out = async {
        let mut chunk = vec![0; 16 * 1024];
        // Also an error: a client that closes a connection with unread bytes resets it.
        while let Ok(length @ 1..) = from_client.read(&mut chunk).await {
            if to_server.write_all(&chunk[..length]).await.is_err() {
                // The server has closed the connection. What it sent before is still read.
                std::future::pending::<()>().await;
            }
        }
    };
    tokio::select! {
        () = out => return,
        () = take_in(&mut from_server, &mut to_client, intake) => {}
    }
    // With unread bytes of the client, closing at once would be a reset, in which the last bytes of the server may be lost.
    let _ = to_client.shutdown().await;
    let _ = timeout(LAST_WORDS, copy(&mut from_client, &mut sink())).await;
}

async fn take_in(from_server: &mut OwnedReadHalf, to_client: &mut OwnedWriteHalf, intake: &Counted) {
    let mut chunk = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = from_server.read(&mut chunk).await {
        if !intake.takes(length) {
            tracing::warn!(
                limit = intake.limit.most,
                "a broker sent more bytes over a connection than the limit; it is closed"
            );
            return;
        }
        if to_client.write_all(&chunk[..length]).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit { worn: 1024 * 1024, most: 4 * 1024 * 1024 };

    /// A server, and a client of it through the relay.
    async fn pair(intake: &Arc<Intake>) -> (TcpStream, TcpStream, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let relay = open(&[listener.local_addr().unwrap()], intake).await.unwrap();
        let client = TcpStream::connect(relay).await.unwrap();
        (listener.accept().await.unwrap().0, client, relay)
    }

    #[tokio::test]
    async fn bytes_pass_and_last_words_of_a_server_arrive() {
        let (mut server, mut client, relay) = pair(&Intake::with(LIMIT)).await;
        let mut got = [0; 5];
        client.write_all(b"hello").await.unwrap();
        server.read_exact(&mut got).await.unwrap();
        server.write_all(b"-ERR no\r\n").await.unwrap();
        drop(server);
        // It writes to a server that has gone, and still reads why.
        let _ = client.write_all(&[b'x'; 1000]).await;
        let mut last = Vec::new();
        client.read_to_end(&mut last).await.unwrap();
        assert_eq!((&got, &last[..]), (b"hello", &b"-ERR no\r\n"[..]));
        // The port serves no other connection.
        let mut second = TcpStream::connect(relay).await.unwrap();
        assert!(matches!(second.read(&mut got).await, Ok(0) | Err(_)));
    }

    #[tokio::test]
    async fn client_that_resets_a_connection_has_left() {
        let intake = Intake::with(LIMIT);
        let (mut server, client, _) = pair(&intake).await;
        server.write_all(b"-ERR").await.unwrap();
        client.readable().await.unwrap();
        let mut left = intake.counted.left.subscribe();
        // What it has not read makes it a reset.
        drop(client);
        left.wait_for(|left| *left).await.unwrap();
    }

    /// Otherwise many short connections would take all files that the process may open.
    #[tokio::test]
    async fn port_is_free_when_the_client_is_no_longer_used() {
        let intake = Intake::with(LIMIT);
        let (_server, client, relay) = pair(&intake).await;
        let mut left = intake.counted.left.subscribe();
        assert!(!*left.borrow());
        drop(client);
        left.wait_for(|left| *left).await.unwrap();
        let mut next = TcpStream::connect(relay).await.unwrap();
        assert!(matches!(next.read(&mut [0]).await, Ok(0) | Err(_)), "it refuses, and stays taken");
        let counted = Arc::clone(&intake.counted);
        drop(intake);
        while counted.open.load(Ordering::Relaxed) > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(TcpStream::connect(relay).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[tokio::test]
    async fn client_is_connected_to_so_many_servers() {
        let intake = Intake::with(LIMIT);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let addresses = [listener.local_addr().unwrap()];
        for _ in 0..SERVERS {
            open(&addresses, &intake).await.unwrap();
        }
        let error = open(&addresses, &intake).await.unwrap_err().to_string();
        assert_eq!(error, "the servers name more than 64 others");
        assert_eq!(intake.counted.open.load(Ordering::Relaxed), SERVERS);
    }

    #[tokio::test]
    async fn server_that_sends_without_end_is_cut_off() {
        let intake = Intake::with(LIMIT);
        let (mut server, mut client, _) = pair(&intake).await;
        let reading = tokio::spawn(async move {
            let mut got = 0;
            let mut chunk = vec![0; 64 * 1024];
            while let Ok(length @ 1..) = client.read(&mut chunk).await {
                got += u64::try_from(length).unwrap();
            }
            got
        });
        while !intake.is_worn() {
            server.write_all(&[b'x'; 64 * 1024]).await.unwrap();
            tokio::task::yield_now().await;
        }
        assert!(!reading.is_finished(), "what is worn is still read");
        while server.write_all(&[b'x'; 64 * 1024]).await.is_ok() {}
        assert!(reading.await.unwrap() <= LIMIT.most);
    }

    #[tokio::test]
    async fn refused_connection_is_reported() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = open(&[free], &Intake::with(LIMIT)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
