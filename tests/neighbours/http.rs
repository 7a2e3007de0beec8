//! The receiver over HTTP. The first segment of the path says how it answers.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// It ends when dropped.
pub struct Http {
    port: u16,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    /// The requests of each path.
    requests: Mutex<HashMap<String, usize>>,
    /// The tokens of acks that were kept.
    tokens: Mutex<Vec<String>>,
    /// Where acks go.
    serve: Mutex<Option<SocketAddr>>,
}

impl Http {
    pub async fn start() -> Self {
        let shared = Arc::<Shared>::default();
        let router = Router::new().fallback(receive).with_state(Arc::clone(&shared));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { port, shared, task }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Sends acks to this process from now on, and forgets what has arrived.
    pub fn ack_to(&self, serve: SocketAddr) {
        *self.shared.serve.lock().unwrap() = Some(serve);
        self.shared.requests.lock().unwrap().clear();
        self.shared.tokens.lock().unwrap().clear();
    }

    /// How many requests there were of this path.
    pub fn requests(&self, path: &str) -> usize {
        self.shared.requests.lock().unwrap().get(path).copied().unwrap_or_default()
    }

    /// The tokens of the requests to `/keep`.
    pub fn tokens(&self) -> Vec<String> {
        self.shared.tokens.lock().unwrap().clone()
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn receive(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap) -> (StatusCode, &'static str) {
    *shared.requests.lock().unwrap().entry(uri.path().to_owned()).or_default() += 1;
    let token = headers.get("ack-token").map(|token| token.to_str().unwrap().to_owned());
    match uri.path() {
        "/gone" | "/customers/gone" => return (StatusCode::GONE, "gone"),
        "/busy" => return (StatusCode::SERVICE_UNAVAILABLE, "busy"),
        "/hang" => std::future::pending().await,
        "/keep" => shared.tokens.lock().unwrap().extend(token),
        "/acked" => {
            let serve = shared.serve.lock().unwrap().expect("it runs");
            tokio::spawn(async move {
                // A receiver repeats its ack until it is stored.
                while ack(serve, token.as_deref().expect("a token")).await != Some(200) {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            });
        }
        _ => {}
    }
    (StatusCode::OK, "ok")
}

/// Acks over HTTP. Returns the status; `None`: there was no answer.
pub async fn ack(serve: SocketAddr, token: &str) -> Option<u16> {
    let post = client().post(format!("http://{serve}/shop/ack")).header("ack-token", token);
    Some(post.timeout(Duration::from_secs(10)).send().await.ok()?.status().as_u16())
}

/// A client that uses no proxy of the environment.
pub fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}
