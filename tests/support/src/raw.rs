//! A receiver whose connections a test writes by hand, byte by byte.

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A receiver whose connections a function serves. It ends when dropped.
pub struct Raw {
    /// Where it listens.
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Raw {
    /// Accepts connections and serves each by `serve`.
    pub async fn serving<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream));
            }
        });
        Self { address, task }
    }

    /// The URL there.
    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads a request with a short body to its end, so that closing the connection afterwards is no reset.
pub async fn read_request(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    let (mut read, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&read).to_ascii_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.trim().parse().unwrap()) {
                return;
            }
        }
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(count) => read.extend_from_slice(&chunk[..count]),
        }
    }
}

/// Writes this again and again, for as long as the other side reads.
pub async fn write_for_ever(stream: &mut TcpStream, bytes: &[u8]) {
    while stream.write_all(bytes).await.is_ok() {}
}
