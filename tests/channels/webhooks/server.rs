//! A receiver that records requests and answers as the test says. `Raw` of the support package has connections that the test writes by hand.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use test_support::sending::Calls;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Got {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Got {
    /// The value of a header, which it must have.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no header {name}")).to_str().unwrap()
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// An answer: status, headers, body.
type Answer = (u16, Vec<(&'static str, String)>, String);

/// A receiver that records. It ends when dropped.
pub struct Receiver {
    pub got: Calls<Got>,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Receiver {
    /// Answers all with this status.
    pub async fn answering(status: u16) -> Self {
        let (got, answers) =
            (Calls::default(), Arc::new(Mutex::new(VecDeque::from([(status, Vec::new(), String::new())]))));
        let router = Router::new().fallback(receive).with_state((got.clone(), Arc::clone(&answers)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { got, answers, address, task }
    }

    /// Replaces all answers by these; the last one is repeated.
    pub fn now(&self, answers: impl IntoIterator<Item = Answer>) {
        *self.answers.lock().unwrap() = answers.into_iter().collect();
    }

    /// The URL of a path there.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The only request.
    pub fn only(&self) -> Got {
        let [got] = &self.got.all()[..] else { panic!("one request expected, not {}", self.got.count()) };
        got.clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Shared = (Calls<Got>, Arc<Mutex<VecDeque<Answer>>>);

async fn receive(
    State((got, answers)): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    got.note(Got { method, uri, headers, body });
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
