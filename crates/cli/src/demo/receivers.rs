//! The receivers: a warehouse that fails at times, a carrier that acks later, and a chat for alerts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::screen::Party;

/// The item that the warehouse does not know at first.
pub(super) const UNKNOWN_ITEM: &str = "unicorn";

/// How long the carrier takes to confirm a parcel.
const CARRIER_NEEDS: Duration = Duration::from_millis(800);

/// What the receivers have seen.
#[derive(Debug, Default, Clone)]
pub(super) struct Seen {
    /// Orders that the warehouse took.
    pub(super) taken: BTreeSet<i64>,
    /// Orders whose parcel the carrier confirmed.
    pub(super) confirmed: BTreeSet<i64>,
    /// Requests by their idempotency keys.
    requests: BTreeMap<String, u32>,
    /// Messages in the chat.
    pub(super) alerts: Vec<String>,
    /// Whether the warehouse knows all items.
    mended: bool,
}

/// The parameter of a notice.
#[derive(Debug, Deserialize)]
struct Order {
    order: i64,
    item: String,
}

/// The three receivers on one port.
#[derive(Clone)]
pub(super) struct Receivers {
    seen: Arc<watch::Sender<Seen>>,
    /// Where the carrier acks.
    ack_url: Arc<str>,
    client: reqwest::Client,
    /// Lines of requests that arrive at the same moment are printed one after the other.
    printing: Arc<Mutex<()>>,
}

impl Receivers {
    /// Starts them. Returns their address, too.
    pub(super) async fn start(ack_url: &str) -> std::io::Result<(Self, SocketAddr)> {
        let receivers = Self {
            seen: Arc::new(watch::Sender::new(Seen::default())),
            ack_url: ack_url.into(),
            client: reqwest::Client::new(),
            printing: Arc::default(),
        };
        let routes = Router::new().route("/warehouse", post(warehouse)).route("/carrier", post(carrier));
        let routes = routes.route("/chat", post(chat)).with_state(receivers.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Ok((receivers, address))
    }

    /// Waits until the receivers have seen this.
    pub(super) async fn wait_for(&self, limit: Duration, what: impl FnMut(&Seen) -> bool) -> bool {
        let mut seen = self.seen.subscribe();
        matches!(tokio::time::timeout(limit, seen.wait_for(what)).await, Ok(Ok(_)))
    }

    /// Teaches the warehouse the item that it refused.
    pub(super) fn mend(&self) {
        self.seen.send_modify(|seen| seen.mended = true);
    }

    pub(super) fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    fn print(&self, party: Party, what: &str) {
        let _one = self.printing.lock().unwrap_or_else(PoisonError::into_inner);
        // The story notices an output that cannot be written.
        let _ = party.does(what);
    }
}

/// Takes most orders at once. It has no time for the first request of each third order, and does not know each item.
async fn warehouse(
    State(receivers): State<Receivers>,
    headers: HeaderMap,
    Json(order): Json<Order>,
) -> (StatusCode, &'static str) {
    let key = header(&headers, "webhook-id");
    let mut answer = (StatusCode::OK, "taken");
    let mut request = 0;
    receivers.seen.send_modify(|seen| {
        request = *seen.requests.entry(key).and_modify(|count| *count += 1).or_insert(1);
        answer = if order.item == UNKNOWN_ITEM && !seen.mended {
            (StatusCode::UNPROCESSABLE_ENTITY, "this item is unknown")
        } else if order.order % 3 == 0 && request == 1 {
            (StatusCode::SERVICE_UNAVAILABLE, "no time at the moment")
        } else if seen.taken.insert(order.order) {
            (StatusCode::OK, "taken")
        } else {
            (StatusCode::OK, "known already, from an earlier request")
        };
    });
    receivers.print(
        Party::Warehouse,
        &format!("order {}, request {request}: {} {}", order.order, answer.0.as_u16(), answer.1),
    );
    answer
}

/// Takes a parcel, and confirms it later by the token of the request.
async fn carrier(State(receivers): State<Receivers>, headers: HeaderMap, Json(order): Json<Order>) -> StatusCode {
    let token = header(&headers, "ack-token");
    receivers
        .print(Party::Carrier, &format!("order {}: 200, and confirms it when the parcel is on its way", order.order));
    tokio::spawn(async move {
        tokio::time::sleep(CARRIER_NEEDS).await;
        let sent = receivers.client.post(&*receivers.ack_url).header("ack-token", token).send().await;
        let result = match sent {
            Ok(response) => response.text().await.unwrap_or_else(|error| error.to_string()),
            Err(error) => error.to_string(),
        };
        receivers.print(Party::Carrier, &format!("order {} is on its way: POST /ack: {result}", order.order));
        if result.contains("applied") {
            receivers.seen.send_modify(|seen| _ = seen.confirmed.insert(order.order));
        }
    });
    StatusCode::OK
}

/// Shows a message to people.
async fn chat(State(receivers): State<Receivers>, Json(message): Json<Value>) -> &'static str {
    let text = message["text"].as_str().unwrap_or_default().to_owned();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        receivers.print(Party::Chat, line);
    }
    receivers.seen.send_modify(|seen| seen.alerts.push(text));
    "ok"
}

fn header(headers: &HeaderMap, name: &str) -> String {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}
