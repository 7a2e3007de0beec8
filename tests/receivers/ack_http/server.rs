//! A server with the routes, and deliveries whose tokens a test has.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use reqwest::{Method, RequestBuilder};
use serde_json::Value;
use solid_notify::ack_http::AckRouter;
use solid_notify::{AnyOutbox, NewNotice, Notice, NotifyDef, OutboxExt, Status, TokenKeys};
use solid_notify_conformance::Backend;
use test_support::sending::{Calls, reaches};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// How long tokens are valid.
pub const VALID: Duration = Duration::from_secs(3600);

/// The server. It ends when dropped.
pub struct Server {
    pub address: SocketAddr,
    client: reqwest::Client,
    task: JoinHandle<()>,
}

/// The status, and `result` of the JSON body.
pub type Reply = (u16, String);

impl Server {
    /// Serves the routes of an outbox with the usual limits.
    pub async fn of(outbox: &AnyOutbox) -> Self {
        Self::with(AckRouter::new(outbox).into_router()).await
    }

    pub async fn with(routes: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = routes.into_make_service_with_connect_info::<SocketAddr>();
        let task = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { address, client: reqwest::Client::builder().no_proxy().build().unwrap(), task }
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("http://{}{path}", self.address))
    }

    /// Posts with the token in the header.
    pub async fn post(&self, verb: &str, token: &str) -> Reply {
        reply(self.request(Method::POST, &format!("/{verb}")).header("ack-token", token)).await
    }

    /// Sends these bytes, and returns all that comes until the server closes the connection.
    pub async fn raw(&self, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).await.unwrap();
        String::from_utf8(response).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Sends a request whose response is JSON.
pub async fn reply(request: RequestBuilder) -> Reply {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    assert_eq!(response.headers()["content-type"], "application/json");
    let body: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    assert_eq!(body.as_object().unwrap().keys().collect::<Vec<_>>(), ["result", "text"]);
    (status, body["result"].as_str().unwrap().to_owned())
}

/// Delivers notices that must be acked. Returns their ids and tokens; the sweeper has ended.
pub async fn delivered(b: &dyn Backend, count: usize) -> Vec<(i64, String)> {
    b.outbox().use_token_keys(TokenKeys::new(&[7; 32]).unwrap());
    let def = NotifyDef::new("sync").need_confirm(true).retry_interval("[1m]");
    b.outbox().define_if_missing(def).await.unwrap();
    let calls = Calls::default();
    let noted = calls.clone();
    let deliver = move |notice: Notice<usize>| {
        noted.note((notice.id(), notice.ack_token(VALID).unwrap()));
        async { Ok(()) }
    };
    let sweeper = b.outbox().sweeper().handler("sync", deliver).start().await.unwrap();
    for number in 0..count {
        let id = b.add_new(NewNotice::new("sync", number).unwrap()).await.id();
        reaches(b, id, Status::AwaitingAck).await;
    }
    sweeper.shutdown().await;
    calls.all()
}
