//! A receiver of webhooks.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::LIMIT;

/// Takes every request, after a pause.
pub struct Receiver {
    pub address: SocketAddr,
    seen: Arc<watch::Sender<Seen>>,
}

/// What has arrived.
#[derive(Debug, Default, Clone)]
pub struct Seen {
    /// The requests of each number.
    pub numbers: BTreeMap<u64, usize>,
    /// The header `ack-token` of the last request.
    pub token: String,
}

#[derive(Clone)]
struct Shared {
    seen: Arc<watch::Sender<Seen>>,
    pause: Duration,
}

impl Receiver {
    pub async fn start() -> Self {
        Self::slow(Duration::ZERO).await
    }

    pub async fn slow(pause: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(watch::Sender::new(Seen::default()));
        let shared = Shared { seen: Arc::clone(&seen), pause };
        tokio::spawn(axum::serve(listener, Router::new().fallback(receive).with_state(shared)).into_future());
        Self { address, seen }
    }

    /// Waits until this is true of what has arrived.
    pub async fn wait_for(&self, what: impl FnMut(&Seen) -> bool) -> Seen {
        let mut seen = self.seen.subscribe();
        let found = tokio::time::timeout(LIMIT, seen.wait_for(what)).await;
        match found {
            Ok(found) => found.unwrap().clone(),
            Err(_) => panic!("only this has arrived: {:?}", self.seen.borrow()),
        }
    }

    pub async fn wait_for_numbers(&self, count: usize) -> Seen {
        self.wait_for(|seen| seen.numbers.len() >= count).await
    }
}

async fn receive(State(shared): State<Shared>, headers: HeaderMap, body: String) -> &'static str {
    shared.seen.send_modify(|seen| {
        *seen.numbers.entry(body.parse().unwrap()).or_default() += 1;
        seen.token = headers.get("ack-token").map(|token| token.to_str().unwrap().to_owned()).unwrap_or_default();
    });
    tokio::time::sleep(shared.pause).await;
    "ok"
}
