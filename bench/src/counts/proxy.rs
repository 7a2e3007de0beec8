//! [`Proxy`]: a TCP relay between the subject and a server that counts round trips: how often the client sends after the server did.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result};

/// A relay to one port of this machine. Its threads end with the process, and those of a connection with the connection.
pub struct Proxy {
    port: u16,
    turns: Arc<AtomicU64>,
}

impl Proxy {
    /// Starts a relay to a port on 127.0.0.1.
    ///
    /// # Errors
    /// Fails where no port is free.
    pub fn start(target: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on a port for the proxy")?;
        let port = listener.local_addr()?.port();
        let turns = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&turns);
        thread::spawn(move || {
            for client in listener.incoming() {
                // The client sees a refused connection as closed, and reports it.
                let _ = client.and_then(|client| relay(client, target, &counted));
            }
        });
        Ok(Self { port, turns })
    }

    /// Returns the port to connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the round trips so far.
    pub fn round_trips(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }
}

/// Starts both directions of a connection.
fn relay(client: TcpStream, target: u16, turns: &Arc<AtomicU64>) -> std::io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, target))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let upwards = Arc::new(AtomicBool::new(false));
    let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
    let (turned, counted) = (Arc::clone(&upwards), Arc::clone(turns));
    thread::spawn(move || {
        copy(from_client, to_server, || {
            if !turned.swap(true, Ordering::Relaxed) {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
    });
    thread::spawn(move || copy(server, client, || upwards.store(false, Ordering::Relaxed)));
    Ok(())
}

/// Copies until one side closes, and closes the other one.
fn copy(mut from: TcpStream, mut to: TcpStream, seen: impl Fn()) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length) = from.read(&mut buffer)
        && length > 0
    {
        seen();
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_and_answer_are_one_round_trip() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let proxy = Proxy::start(listener.local_addr().unwrap().port()).unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut letter = [0];
            for _ in 0..3 {
                stream.read_exact(&mut letter).unwrap();
                stream.write_all(&letter).unwrap();
            }
        });
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
        for _ in 0..3 {
            client.write_all(b"?").unwrap();
            client.read_exact(&mut [0]).unwrap();
        }
        server.join().unwrap();
        assert_eq!(proxy.round_trips(), 3);
    }
}
