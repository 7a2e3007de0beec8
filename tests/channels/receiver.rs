//! A real HTTP server that chat messages are posted to. It records them, and answers as the test sets it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use test_support::sending::Calls;
use tokio::task::JoinHandle;

/// A message as it came.
#[derive(Clone, Debug)]
pub struct Posted {
    pub path: String,
    pub query: HashMap<String, String>,
    pub body: Value,
    pub content_type: String,
}

/// Headers of an answer.
pub type Headers = Vec<(&'static str, &'static str)>;

/// An answer: status, headers, body.
type Prepared = (u16, Headers, String);

/// The server. It ends when dropped.
pub struct Receiver {
    pub posted: Calls<Posted>,
    answers: Arc<Mutex<VecDeque<Prepared>>>,
    address: String,
    task: JoinHandle<()>,
}

impl Receiver {
    /// Answers all with this body and 200.
    pub async fn accepting(body: &str) -> Self {
        let receiver = Self::silent().await;
        receiver.then(200, body);
        receiver
    }

    async fn silent() -> Self {
        let (posted, answers) = (Calls::default(), Arc::new(Mutex::new(VecDeque::new())));
        let state = (posted.clone(), Arc::clone(&answers));
        let router = Router::new().fallback(receive).with_state(state);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { posted, answers, address, task }
    }

    /// Adds a response, which it repeats after the ones set before.
    pub fn then(&self, status: u16, body: &str) {
        self.then_with(status, Vec::new(), body);
    }

    /// The same with headers.
    pub fn then_with(&self, status: u16, headers: Headers, body: &str) {
        self.answers.lock().unwrap().push_back((status, headers, body.to_owned()));
    }

    /// Replaces all responses by this one.
    pub fn now(&self, status: u16, body: &str) {
        self.answers.lock().unwrap().clear();
        self.then(status, body);
    }

    /// The URL of a path there.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Shared = (Calls<Posted>, Arc<Mutex<VecDeque<Prepared>>>);

async fn receive(
    State((posted, answers)): State<Shared>,
    uri: Uri,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let content_type = headers.get("content-type").map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    posted.note(Posted { path: uri.path().to_owned(), query, body, content_type });
    let (status, headers, body) = {
        let mut answers = answers.lock().unwrap();
        if answers.len() > 1 { answers.pop_front().unwrap() } else { answers.front().unwrap().clone() }
    };
    let mut response = (StatusCode::from_u16(status).unwrap(), body).into_response();
    for (name, value) in headers {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}
