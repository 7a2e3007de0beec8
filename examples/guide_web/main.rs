//! A web service, for the book: a route that books orders, a handler that delivers them by HTTP, routes by which the
//! receiver acks and nacks with a token, routes for operators (`admin.rs`), and a test in memory.
//!
//! ```text
//! cargo run --example guide_web
//! ```
//!
//! The chapter "A web service" shows the regions of this file. At the end this program runs the test, plays the customers,
//! the warehouse and the operators (`visit.rs`), checks every response, and stops the service.

mod visit;

// [imports]
mod admin;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use solid_notify::ack_http::AckRouter;
use solid_notify::sweeper::SweeperMonitor;
use solid_notify::{
    AnyOutbox, Definition, Error, Failure, HandlerResult, NewNotice, Notice, NoticeConnection, NotifyDef, Outbox,
    OutboxExt, Receipt, SweeperBuilder, TokenKeys,
};
use sqlx::Pool;
use tokio::net::TcpListener;
// [end]

// [state]
/// The database of the service.
type Db = sqlx::Sqlite; // or sqlx::Postgres, sqlx::MySql

/// The name of the definition, with the type of its parameter.
const SHIP_ORDER: Definition<Order> = Definition::new("ship_order");

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    id: i64,
    item: String,
}

/// What the handler sends with. It has no outbox, so a test can use the handler without a database.
#[derive(Clone)]
struct Warehouse {
    http: reqwest::Client,
    /// Where orders are delivered.
    url: String,
    /// Where the warehouse reaches this service.
    own_url: String,
}

/// The state of the service. A clone is cheap, because clones share the pool, the outbox and the HTTP client.
#[derive(Clone)]
struct App {
    outbox: Outbox<Db>,
    warehouse: Warehouse,
}
// [end]

// [open]
/// Runs at every start of every process, before the sweeper and the server.
async fn open(pool: Pool<Db>, secret: &[u8]) -> Result<Outbox<Db>> {
    // The migrations of the application stand here; see the note on PostgreSQL below.
    sqlx::query("CREATE TABLE IF NOT EXISTS orders (id bigint PRIMARY KEY, item text)").execute(&pool).await?;
    let outbox = Outbox::new(pool);
    outbox.migrate().await?; // the tables of the library
    set_up(&outbox, secret).await?;
    Ok(outbox)
}

/// What every outbox of the service needs, also one in memory.
async fn set_up(outbox: &AnyOutbox, secret: &[u8]) -> Result<()> {
    outbox.use_token_keys(TokenKeys::new(secret)?); // 32 random bytes from the configuration, the same in every process
    let definition = NotifyDef::new(SHIP_ORDER)
        .retry_interval("[100ms,5m,1h,1d]") // 4 retries = 5 tries in all; the first is short, so that the example ends soon
        .max_retry_interval("1d") // the cap of every wait, also of one that the warehouse asks for
        .need_confirm(true) // a delivery counts only when the warehouse acks it
        .max_confirm_delay("1h");
    outbox.define_if_missing(definition).await?;
    Ok(())
}

/// The handlers of the service.
fn handlers(outbox: &AnyOutbox, warehouse: Warehouse) -> SweeperBuilder {
    outbox.sweeper().handler_with(SHIP_ORDER, warehouse, ship)
}
// [end]

// [serve]
/// How long the server takes acks after the last delivery: longer than the warehouse usually takes for one.
const ACK_GRACE: Duration = Duration::from_secs(2);

/// Sends and serves until `stop` is ready. The sweeper ends before the server, so that the acks of its last deliveries arrive.
async fn serve(app: App, listener: TcpListener, stop: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    let sweeper = handlers(&app.outbox, app.warehouse.clone()).start().await?;
    let routes = routes(app.clone()).merge(probes(sweeper.monitor()));
    let swept = async move {
        stop.await;
        let tally = sweeper.shutdown().await; // waits for running handlers; at most 25 s
        tracing::info!(?tally, "the sweeper has ended");
        tokio::time::sleep(ACK_GRACE).await;
    };
    // With the addresses of the peers, because the routes for acks limit the requests of each.
    let routes = routes.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, routes).with_graceful_shutdown(swept).await?;
    app.outbox.pool().close().await;
    Ok(())
}

/// All routes. Those of `replies` run no SQL, so they have a router of their own.
fn routes(app: App) -> Router {
    let (replies, operators) = (replies(&app.outbox), admin::routes(AnyOutbox::clone(&app.outbox)));
    Router::new().route("/orders", post(book)).with_state(app).merge(replies).nest("/admin", operators)
}
// [end]

// [probes]
/// A readiness probe for Kubernetes or a load balancer: 503 while this process cannot store acks.
fn probes(monitor: SweeperMonitor) -> Router {
    Router::new().route("/readyz", get(ready)).with_state(monitor)
}

async fn ready(State(monitor): State<SweeperMonitor>) -> (StatusCode, String) {
    let health = monitor.health(); // from memory: it calls no database
    let status = if health.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, format!("{health:?}"))
}
// [end]

// [book]
async fn book(State(app): State<App>, Json(order): Json<Order>) -> Result<(StatusCode, Json<Value>), RouteError> {
    let mut tx = app.outbox.begin().await?;
    sqlx::query("INSERT INTO orders VALUES ($1, $2)").bind(order.id).bind(&order.item).execute(&mut *tx).await?;
    let notice = announce(&mut tx, &order).await?.id();
    tx.commit().await?; // both rows or none. An error, or a client that hangs up, drops `tx`: it rolls back
    Ok((StatusCode::CREATED, Json(json!({ "order": order.id, "notice": notice }))))
}

/// Adds the notice of an order. It runs no SQL, so it takes a transaction of any outbox, also of one in memory.
async fn announce(tx: &mut impl NoticeConnection, order: &Order) -> solid_notify::Result<Receipt> {
    let description = format!("order {}: {}", order.id, order.item); // operators and alerts show it
    NewNotice::new(SHIP_ORDER, order)?.description(description).add(tx).await
}
// [end]

// [ship]
/// What the warehouse gets.
#[derive(Serialize, Deserialize)]
struct Delivery {
    order: Order,
    /// `/ack` or `/nack` behind it makes the address of the reply.
    reply_to: String,
    /// The header `ack-token` of the reply.
    ack_token: String,
}

async fn ship(warehouse: Warehouse, notice: Notice<Order>) -> HandlerResult {
    if notice.is_test() {
        return Err(Failure::skip("a test ships nothing")); // the notice ends as cancelled
    }
    // Valid for longer than `max_confirm_delay`, because a late ack counts, too.
    let ack_token = notice.ack_token(Duration::from_secs(7 * 86_400))?;
    let reply_to = format!("{}/deliveries", warehouse.own_url);
    let delivery = Delivery { order: notice.param().clone(), reply_to, ack_token };
    let request = warehouse.http.post(&warehouse.url).header("Idempotency-Key", notice.idempotency_key());
    let response = request.json(&delivery).send().await?;
    let wait = response.headers().get("retry-after").and_then(|wait| wait.to_str().ok()?.parse::<u64>().ok());
    let is_busy = matches!(response.status().as_u16(), 429 | 503);
    match (response.error_for_status(), wait) {
        (Ok(_), _) => Ok(()),
        (Err(error), Some(seconds)) if is_busy => Err(Failure::retry_in(Duration::from_secs(seconds), error)),
        (Err(error), _) => Err(error.into()), // the status decides about retries: 500 is retried, 422 makes a dead letter
    }
}
// [end]

// [replies]
/// `POST /deliveries/ack` and `POST /deliveries/nack`, with the token in the header `ack-token`.
fn replies(outbox: &AnyOutbox) -> Router {
    Router::new().nest("/deliveries", AckRouter::new(outbox).into_router())
}
// [end]

// [errors]
/// Any error of a route: the log gets its text, the client gets a status.
struct RouteError(anyhow::Error);

impl<E: Into<anyhow::Error>> From<E> for RouteError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for RouteError {
    fn into_response(self) -> Response {
        tracing::warn!(error = %self.0, "a request failed");
        let refused = self.0.downcast_ref().and_then(sqlx::Error::as_database_error);
        let status = match self.0.downcast_ref() {
            Some(error) => status_of(error),
            None if refused.is_some_and(|error| error.is_unique_violation()) => StatusCode::CONFLICT, // the order exists already
            None => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let text = match self.0.downcast_ref() {
            Some(Error::Invalid { .. } | Error::InvalidDefinition { .. }) => self.0.to_string(), // of what an operator wrote
            _ => String::new(), // the client learns nothing of the inside
        };
        (status, text).into_response()
    }
}

/// The status of an error of the library.
fn status_of(error: &Error) -> StatusCode {
    match error {
        Error::Token { .. } => StatusCode::FORBIDDEN, // garbage, expired, or signed with another secret
        Error::UnknownDefinition { .. } => StatusCode::NOT_FOUND,
        Error::InvalidNotice { .. } | Error::InvalidDefinition { .. } | Error::InvalidFile { .. } => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        Error::Invalid { .. } => StatusCode::BAD_REQUEST,
        Error::Store(error) if error.is_transient() => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
// [end]

// [stop]
/// Ends when the platform asks the process to stop: Ctrl-C, or SIGTERM of systemd, Docker and Kubernetes.
async fn asked_to_stop() {
    #[cfg(unix)]
    let terminated = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminated = std::future::pending::<Option<()>>();
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated => {}
    }
}
// [end]

// [test]
/// In your service this module begins with `#[cfg(test)]`, and each test with `#[tokio::test]`.
mod tests {
    use anyhow::Context;
    use solid_notify::Status;
    use solid_notify::testkit::{HandClock, MemoryOutbox, TestSweeper, assert_added};
    use sqlx::pool::PoolOptions;
    use tokio::sync::mpsc;

    use super::*;

    pub(super) async fn unacked_delivery_is_repeated() -> Result<()> {
        let outbox = MemoryOutbox::builder().clock(HandClock::new("2026-11-21T12:00:00Z".parse()?)).build();
        set_up(&outbox, b"a secret for tests: 32 bytes long").await?;
        let own_url = start(replies(&outbox)).await?;
        let (url, mut deliveries) = receiver().await?;
        let http = reqwest::Client::builder().no_proxy().build()?;
        let warehouse = Warehouse { http: http.clone(), url, own_url };
        let sweeper = TestSweeper::start(handlers(&outbox, warehouse)).await?;

        let order = Order { id: 7, item: "7 wheels".to_owned() };
        let mut tx = outbox.begin().await?;
        let id = announce(&mut tx, &order).await?.id();
        tx.commit().await?;
        assert_eq!(sweeper.drain().await.awaiting_ack, 1); // delivered, and awaiting ack
        let first = next(&mut deliveries).await?;
        assert_eq!(first.order, order);

        // No ack comes within the hour of `max_confirm_delay`: the attempt fails, and is repeated after 100 ms.
        assert_eq!(sweeper.advance(Duration::from_secs(3600)).await.failed, 1);
        assert_eq!(sweeper.advance(Duration::from_millis(100)).await.awaiting_ack, 1);
        let second = next(&mut deliveries).await?;
        assert_ne!(second.ack_token, first.ack_token); // each attempt has a token of its own

        let acked = http.post(format!("{}/ack", second.reply_to)).header("ack-token", second.ack_token);
        let acked = acked.send().await?;
        assert_eq!(acked.status(), reqwest::StatusCode::OK);
        assert_eq!(outbox.find(id).await?.context("the notice")?.status, Status::Succeeded);
        Ok(())
    }

    /// A route that runs SQL is tested in a database of the test. No sweeper runs, so nothing is delivered.
    pub(super) async fn order_is_booked_once() -> Result<()> {
        let pool = PoolOptions::<Db>::new().max_connections(1).connect("sqlite::memory:").await?;
        let outbox = open(pool, b"a secret for tests: 32 bytes long").await?;
        let http = reqwest::Client::builder().no_proxy().build()?;
        let warehouse = Warehouse { http: http.clone(), url: String::new(), own_url: String::new() };
        let url = start(routes(App { outbox: outbox.clone(), warehouse })).await?;

        let order = Order { id: 7, item: "7 wheels".to_owned() };
        // The second request violates the primary key, so its transaction is rolled back.
        for status in [StatusCode::CREATED, StatusCode::CONFLICT] {
            let response = http.post(format!("{url}/orders")).json(&order).send().await?;
            assert_eq!(response.status(), status);
        }
        assert_added(&outbox, SHIP_ORDER).with(json!(order)).times(1).await;
        Ok(())
    }

    /// Starts a warehouse that accepts each delivery that names an item. Returns its URL and what it gets.
    pub(super) async fn receiver() -> Result<(String, mpsc::UnboundedReceiver<Delivery>)> {
        let (received, deliveries) = mpsc::unbounded_channel();
        let receive = async move |Json(delivery): Json<Delivery>| {
            if delivery.order.item.is_empty() {
                return StatusCode::UNPROCESSABLE_ENTITY; // its notice becomes a dead letter
            }
            match received.send(delivery) {
                Ok(()) => StatusCode::ACCEPTED,
                Err(_) => StatusCode::SERVICE_UNAVAILABLE,
            }
        };
        let url = start(Router::new().route("/deliveries", post(receive))).await?;
        Ok((format!("{url}/deliveries"), deliveries))
    }

    /// Returns the next delivery. Without the limit a lost one would block the test.
    pub(super) async fn next(deliveries: &mut mpsc::UnboundedReceiver<Delivery>) -> Result<Delivery> {
        tokio::time::timeout(Duration::from_secs(60), deliveries.recv()).await?.context("the receiver has ended")
    }

    /// Serves these routes on a free port. Returns the URL.
    async fn start(routes: Router) -> Result<String> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        tokio::spawn(axum::serve(listener, routes).into_future());
        Ok(url)
    }
}
// [end]

/// The `main` of the book. That of this example takes free ports and a folder of its own instead of settings.
#[allow(dead_code)]
mod production {
    use super::*;

    // [main]
    #[tokio::main]
    async fn main() -> Result<()> {
        tracing_subscriber::fmt().init(); // the log of the library and of the service
        let setting = |name: &str| std::env::var(name);
        let pool = Pool::<Db>::connect(&setting("DATABASE_URL")?).await?; // sqlite://shop.db?mode=rwc
        let outbox = open(pool, setting("TOKEN_SECRET")?.as_bytes()).await?; // 32 bytes or more
        let listener = TcpListener::bind(setting("LISTEN")?).await?; // 0.0.0.0:8080
        let http = reqwest::Client::builder().build()?;
        let (url, own_url) = (setting("WAREHOUSE_URL")?, setting("OWN_URL")?); // where each reaches the other
        let app = App { outbox, warehouse: Warehouse { http, url, own_url } };
        serve(app, listener, asked_to_stop()).await
    }
    // [end]
}

#[tokio::main]
async fn main() -> Result<()> {
    tests::unacked_delivery_is_repeated().await?;
    tests::order_is_booked_once().await?;
    let folder = tempfile::tempdir()?;
    let database_url = format!("sqlite://{}?mode=rwc", folder.path().join("shop.db").display());
    let (warehouse_url, deliveries) = tests::receiver().await?;
    tracing_subscriber::fmt().init();
    // A busy disk must not make a request of this visit fail.
    let options = database_url.parse::<sqlx::sqlite::SqliteConnectOptions>()?.busy_timeout(Duration::from_secs(60));
    let pool = Pool::<Db>::connect_with(options).await?;
    let outbox = open(pool, b"32 random bytes or more, secret!").await?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?; // any free port
    let own_url = format!("http://{}", listener.local_addr()?);
    let http = reqwest::Client::builder().no_proxy().build()?; // both ends are on this machine
    let app = App { outbox, warehouse: Warehouse { http, url: warehouse_url, own_url } };

    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let stop = async {
        tokio::select! {
            () = asked_to_stop() => {}
            _ = ended => {}
        }
    };
    let service = tokio::spawn(serve(app.clone(), listener, stop));
    let visited = visit::all(&app, deliveries).await;
    let operated = visit::operators(&app).await;
    drop(end);
    // The server still answers while the sweeper ends.
    let ending = visit::ending(&app).await;
    service.await??;
    println!("the service has stopped");
    visited.and(operated).and(ending)
}
