//! A proxy between a database and its clients, with the faults of a network: stalls, half-open connections, lost answers.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Sees the traffic of one connection.
pub trait Wire: Send + Sync + 'static {
    /// Gets a chunk from the client to the server, and may change it in place.
    fn asks(&self, chunk: &mut [u8]) {
        let _ = chunk;
    }

    /// Gets a chunk from the server to the client, and may change it in place. False drops the chunk and the connection.
    fn answers(&self, chunk: &mut [u8]) -> bool {
        let _ = chunk;
        true
    }
}

impl Wire for () {}

/// The state of the network, for every connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Weather {
    /// Everything passes.
    Fair,
    /// No byte passes in either direction; what was sent arrives later.
    Stall,
    /// Closes the open connections towards the server; their clients see nothing of it until the weather changes. New
    /// connections are not affected.
    HalfOpen,
    /// This fraction of the answers is lost, each with its connection.
    Lossy(f64),
    /// Each open connection gets these bytes as the server's last answer, and is closed. No other byte passes.
    Refuse(&'static [u8]),
}

/// A proxy on a port of its own.
pub struct Proxy {
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    server: watch::Sender<SocketAddr>,
    weather: watch::Sender<Weather>,
    struck: Arc<AtomicUsize>,
    accepted: Arc<AtomicUsize>,
}

impl Proxy {
    /// Passes everything on to `server`; each connection gets a wire.
    pub async fn start<W: Wire>(server: SocketAddr, wire: impl Fn() -> W + Send + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (weather, struck) = (watch::channel(Weather::Fair).0, Arc::new(AtomicUsize::new(0)));
        let (forecast, counter) = (weather.subscribe(), Arc::clone(&struck));
        let (server, upstream) = watch::channel(server);
        let accepted = Arc::new(AtomicUsize::new(0));
        let connections = Arc::clone(&accepted);
        tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((client, _)) => {
                        connections.fetch_add(1, Ordering::Relaxed);
                        let server = *upstream.borrow();
                        tokio::spawn(connect(client, server, wire(), forecast.clone(), Arc::clone(&counter)));
                    }
                    // Of that one connection, or of too many open files: the next may be accepted.
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        });
        Self { port, server, weather, struck, accepted }
    }

    /// Leads every new connection to another server, as a name does that is switched. Those that are open stay where they are.
    pub fn lead_to(&self, server: SocketAddr) {
        self.server.send_replace(server);
    }

    /// How many connections were made to it.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Changes the weather.
    pub fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }

    /// Returns how many chunks were delayed or lost and how many connections half-closed since the last call.
    pub fn struck(&self) -> usize {
        self.struck.swap(0, Ordering::Relaxed)
    }
}

/// Serves one connection to its end.
async fn connect(
    client: TcpStream,
    server: SocketAddr,
    wire: impl Wire,
    mut weather: watch::Receiver<Weather>,
    struck: Arc<AtomicUsize>,
) {
    // A server that is down refuses connections, and so does the proxy.
    let Ok(server) = TcpStream::connect(server).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    // One that is made while others hang is not affected.
    weather.mark_unchanged();
    let (before_asks, before_answers) = (Gate::new(&weather, &struck), Gate::new(&weather, &struck));
    let (mut forecast, mut refusal) = (weather.clone(), weather.clone());
    let mut refused = None;
    let asks = |chunk: &mut [u8]| {
        wire.asks(chunk);
        true
    };
    let answers = |chunk: &mut [u8]| wire.answers(chunk) && !is_lost(&struck, *weather.borrow());
    let hangs = tokio::select! {
        () = pass(&mut from_client, &mut to_server, before_asks, asks) => false,
        () = pass(&mut from_server, &mut to_client, before_answers, answers) => false,
        () = turns_half_open(&mut forecast) => true,
        last = refuses(&mut refusal) => {
            refused = Some(last);
            false
        }
    };
    if let Some(last) = refused {
        struck.fetch_add(1, Ordering::Relaxed);
        // The client may have gone. It is left a moment to answer, as a server does.
        let _ = to_client.write_all(last).await;
        let discard = async { while let Ok(1..) = from_client.read(&mut [0; 4096]).await {} };
        let _ = tokio::time::timeout(Duration::from_millis(200), discard).await;
    }
    // Where one side has ended, both are closed.
    if hangs {
        struck.fetch_add(1, Ordering::Relaxed);
        drop((from_server, to_server));
        let discard = async { while let Ok(1..) = from_client.read(&mut [0; 4096]).await {} };
        tokio::select! {
            () = discard => {}
            _ = weather.wait_for(|weather| *weather != Weather::HalfOpen) => {}
        }
    }
}

async fn turns_half_open(weather: &mut watch::Receiver<Weather>) {
    loop {
        if weather.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        if *weather.borrow_and_update() == Weather::HalfOpen {
            return;
        }
    }
}

async fn refuses(forecast: &mut watch::Receiver<Weather>) -> &'static [u8] {
    loop {
        if forecast.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        if let Weather::Refuse(last) = *forecast.borrow_and_update() {
            return last;
        }
    }
}

fn is_lost(struck: &AtomicUsize, weather: Weather) -> bool {
    let lost = matches!(weather, Weather::Lossy(part) if fastrand::f64() < part);
    struck.fetch_add(usize::from(lost), Ordering::Relaxed);
    lost
}

/// Holds chunks back during a stall.
struct Gate(watch::Receiver<Weather>, Arc<AtomicUsize>);

impl Gate {
    fn new(weather: &watch::Receiver<Weather>, struck: &Arc<AtomicUsize>) -> Self {
        Self(weather.clone(), Arc::clone(struck))
    }

    async fn opens(&mut self) {
        let holds = |weather: &Weather| matches!(weather, Weather::Stall | Weather::Refuse(_));
        let stalls = holds(&self.0.borrow());
        if stalls {
            self.1.fetch_add(1, Ordering::Relaxed);
            // An error means that the proxy is gone, and with it the stall.
            let _ = self.0.wait_for(|weather| !holds(weather)).await;
        }
    }
}

/// Passes chunks on until one side closes, or `look` returns false.
async fn pass(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, mut gate: Gate, look: impl Fn(&mut [u8]) -> bool) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        gate.opens().await;
        if !look(&mut buffer[..length]) || to.write_all(&buffer[..length]).await.is_err() {
            break;
        }
    }
}
