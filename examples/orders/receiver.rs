//! The warehouse: an HTTP service on localhost. It fails in the ways that `main.rs` lists, deduplicates by the header
//! `Idempotency-Key`, and remembers every request.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde::Deserialize;
use tokio::net::TcpListener;

/// How long the harbour takes for its first answer: longer than the definition's timeout.
const SLOW: Duration = Duration::from_secs(3);

/// A warehouse. Clones share everything.
#[derive(Clone, Default)]
pub struct Receiver {
    received: Arc<Mutex<HashMap<String, Received>>>,
}

/// The requests with one idempotency key.
#[derive(Default)]
struct Received {
    body: Bytes,
    requests: u32,
    accepted: bool,
    repeats: usize,
}

/// The fields of an order that the warehouse reads.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Fields {
    ship_to: ShipTo,
    warehouse: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ShipTo {
    country: String,
}

impl Receiver {
    /// Starts it on a free port. Returns it and the address for orders.
    pub async fn start() -> Result<(Self, String)> {
        let receiver = Self::default();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}/orders", listener.local_addr()?);
        let routes = Router::new().route("/orders", post(receive)).with_state(receiver.clone());
        tokio::spawn(axum::serve(listener, routes).into_future());
        Ok((receiver, url))
    }

    /// Returns the bodies of all orders that it received, and of those that it accepted.
    pub fn bodies(&self) -> (BTreeSet<Bytes>, BTreeSet<Bytes>) {
        let received = self.lock();
        let accepted = received.values().filter(|order| order.accepted).map(|order| order.body.clone()).collect();
        (received.values().map(|order| order.body.clone()).collect(), accepted)
    }

    /// Returns how many idempotency keys it accepted; it accepts each at most once.
    pub fn accepted(&self) -> usize {
        self.lock().values().filter(|order| order.accepted).count()
    }

    /// Returns how many orders came again after it had accepted them.
    pub fn repeats(&self) -> usize {
        self.lock().values().map(|order| order.repeats).sum()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Received>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Response = (StatusCode, &'static str);
const ACCEPTED: Response = (StatusCode::ACCEPTED, "accepted");

async fn receive(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> Response {
    let Some(key) = headers.get("Idempotency-Key").and_then(|key| key.to_str().ok()) else {
        return (StatusCode::BAD_REQUEST, "an Idempotency-Key is missing");
    };
    // An order without these fields, or with other types in them, is accepted like any other.
    let fields: Fields = serde_json::from_slice(&body).unwrap_or_default();
    let (answer, slow) = {
        let mut received = receiver.lock();
        let order = received.entry(key.to_owned()).or_default();
        if order.requests > 0 && order.body != body {
            return (StatusCode::CONFLICT, "the same Idempotency-Key came with another body");
        }
        if order.accepted {
            order.repeats += 1;
            return (StatusCode::OK, "accepted before");
        }
        order.body = body;
        order.requests += 1;
        let answer = answer(&fields, order.requests);
        let slow = fields.warehouse == "harbour" && order.requests == 1;
        order.accepted = answer == ACCEPTED && !slow;
        (answer, slow)
    };
    if slow {
        // The sender hangs up before that.
        tokio::time::sleep(SLOW).await;
        return (StatusCode::SERVICE_UNAVAILABLE, "the harbour was slow");
    }
    answer
}

fn answer(fields: &Fields, requests: u32) -> Response {
    if fields.ship_to.country == "AQ" {
        return (StatusCode::UNPROCESSABLE_ENTITY, "we do not ship to Antarctica");
    }
    match fields.warehouse.as_str() {
        "north" if requests <= 2 => (StatusCode::SERVICE_UNAVAILABLE, "stocktaking in the north, come back soon"),
        "island" => (StatusCode::SERVICE_UNAVAILABLE, "no ferry to the island"),
        _ => ACCEPTED,
    }
}
