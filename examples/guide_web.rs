//! A web service, for the book: a route that books orders, a handler that delivers them by HTTP, and routes by which the
//! receiver acks and nacks with a token.
//!
//! ```text
//! cargo run --example guide_web
//! ```
//!
//! The chapter "A web service" shows the regions of this file. At the end this program plays the customers and the
//! warehouse, checks every answer, and stops the service.

// [imports]
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use solid_notify::{
    AckResult, Definition, Error, HandlerResult, Notice, NotifyDef, Outbox, OutboxExt, Tally, TokenKeys, add_notice,
};
use sqlx::Sqlite;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
// [end]

// [state]
/// The name of the definition, with the type of its parameter.
const SHIP_ORDER: Definition<Order> = Definition::new("ship_order");

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    id: i64,
    item: String,
}

/// The state of the service. A clone is cheap, because clones share the pool, the outbox and the HTTP client.
#[derive(Clone)]
struct App {
    outbox: Outbox<Sqlite>, // on PostgreSQL: Outbox<Postgres>
    http: reqwest::Client,
    /// Where orders are delivered.
    warehouse: String,
    /// Where the warehouse reaches this service.
    own_url: String,
}
// [end]

// [open]
/// Runs at every start of every process, before the sweeper and the server.
async fn open(pool: SqlitePool, secret: &[u8]) -> Result<Outbox<Sqlite>> {
    sqlx::query("CREATE TABLE IF NOT EXISTS orders (id integer PRIMARY KEY, item text)").execute(&pool).await?;
    let outbox = Outbox::new(pool);
    outbox.migrate().await?;
    outbox.use_token_keys(TokenKeys::new(secret)?); // 32 random bytes from the configuration, the same in every process
    let definition = NotifyDef::new(SHIP_ORDER)
        .retry_interval("[100ms,5m,1h,1d]") // 4 retries = 5 tries in all; the first is short, so that the example ends soon
        .need_confirm(true) // a delivery counts only when the warehouse acks it
        .max_confirm_delay("1h");
    outbox.define_if_missing(definition).await?;
    Ok(outbox)
}
// [end]

// [serve]
/// Sends and serves until `stop` is ready, then ends in the order that loses nothing.
async fn serve(app: App, listener: TcpListener, stop: impl Future<Output = ()> + Send + 'static) -> Result<Tally> {
    let sweeper = app.outbox.sweeper().handler_with(SHIP_ORDER, app.clone(), ship).start().await?;
    let served = axum::serve(listener, routes(app.clone())).with_graceful_shutdown(stop).await;
    // No request runs any more, so no notice is added here any more.
    let sent = sweeper.shutdown().await; // waits for running handlers; at most 25 s
    app.outbox.pool().close().await;
    served?;
    Ok(sent)
}

fn routes(app: App) -> Router {
    Router::new()
        .route("/orders", post(book))
        .route("/deliveries/{token}/ack", post(ack))
        .route("/deliveries/{token}/nack", post(nack))
        .with_state(app)
}
// [end]

// [book]
async fn book(State(app): State<App>, Json(order): Json<Order>) -> Result<(StatusCode, Json<Value>), InternalError> {
    let mut tx = app.outbox.begin().await?;
    sqlx::query("INSERT INTO orders VALUES ($1, $2)").bind(order.id).bind(&order.item).execute(&mut *tx).await?;
    let notice = add_notice(&mut tx, SHIP_ORDER, &order).await?.id();
    tx.commit().await?; // both rows or none. An error, or a client that hangs up, drops `tx`: it rolls back
    Ok((StatusCode::CREATED, Json(json!({ "order": order.id, "notice": notice }))))
}
// [end]

// [ship]
/// What the warehouse gets.
#[derive(Serialize, Deserialize)]
struct Delivery {
    order: Order,
    /// `/ack` or `/nack` behind it makes the address of the reply.
    reply_to: String,
}

async fn ship(app: App, notice: Notice<Order>) -> HandlerResult {
    // Valid for longer than `max_confirm_delay`, because a late ack counts, too.
    let token = notice.ack_token(Duration::from_secs(7 * 86_400))?;
    let reply_to = format!("{}/deliveries/{token}", app.own_url);
    let delivery = Delivery { order: notice.param().clone(), reply_to };
    let request = app.http.post(&app.warehouse).header("Idempotency-Key", notice.idempotency_key());
    let response = request.json(&delivery).send().await?;
    response.error_for_status()?; // the status decides about retries: 503 is retried, 422 makes a dead letter
    Ok(())
}
// [end]

// [replies]
async fn ack(State(app): State<App>, Path(token): Path<String>) -> (StatusCode, &'static str) {
    answer(app.outbox.ack_token(&token).await, AckResult::AlreadySucceeded)
}

async fn nack(State(app): State<App>, Path(token): Path<String>, reason: String) -> (StatusCode, &'static str) {
    answer(app.outbox.nack_token(&token, reason).await, AckResult::NotAwaiting)
}

/// Returns 2xx if the reply counts, 4xx if it can never count, 5xx if the receiver must repeat it. `repeated` is the result of
/// a reply that comes a second time: a receiver whose connection broke repeats it.
fn answer(replied: solid_notify::Result<AckResult>, repeated: AckResult) -> (StatusCode, &'static str) {
    let status = match &replied {
        Ok(AckResult::Done | AckResult::DeadLetterAcked) => StatusCode::OK,
        Ok(result) if *result == repeated => StatusCode::OK,
        Ok(AckResult::Cancelled | AckResult::Purged) => StatusCode::GONE,
        Ok(AckResult::Unknown | AckResult::OtherNotice) => StatusCode::NOT_FOUND,
        Ok(_) => StatusCode::CONFLICT, // a nack of a notice that was acked before
        Err(Error::Token { .. }) => StatusCode::FORBIDDEN, // garbage, expired, or signed with another secret
        Err(Error::Store(error)) if error.is_transient() => StatusCode::SERVICE_UNAVAILABLE,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    if let Err(error) = &replied {
        eprintln!("{status}: {error}"); // the reason is for the log, not for the receiver
    }
    (status, replied.map_or("", AckResult::as_str))
}
// [end]

// [errors]
/// Any error of a route: the log gets its text, the client gets 500.
struct InternalError(anyhow::Error);

impl<E: Into<anyhow::Error>> From<E> for InternalError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for InternalError {
    fn into_response(self) -> Response {
        eprintln!("{}", self.0);
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
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

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (warehouse, deliveries) = warehouse().await?;
    // [main]
    let options = SqliteConnectOptions::new().filename(folder.path().join("shop.db")).create_if_missing(true);
    let outbox = open(SqlitePool::connect_with(options).await?, b"32 random bytes or more, secret!").await?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?; // port 0: any free one, for the example
    let own_url = format!("http://{}", listener.local_addr()?);
    let http = reqwest::Client::builder().no_proxy().build()?; // both ends are on this machine
    let app = App { outbox, http, warehouse, own_url };
    // [end]

    let (end, ended) = oneshot::channel::<()>();
    let stop = async {
        tokio::select! {
            () = asked_to_stop() => {}
            _ = ended => {}
        }
    };
    let service = tokio::spawn(serve(app.clone(), listener, stop));
    let visited = visit(&app, deliveries).await;
    drop(end);
    let sent = service.await??;
    println!("the service has stopped: {sent:?}");
    visited
}

/// Starts the warehouse on a port of its own. It accepts every delivery; its replies follow later, by [`visit`].
async fn warehouse() -> Result<(String, mpsc::UnboundedReceiver<Delivery>)> {
    let (received, deliveries) = mpsc::unbounded_channel();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("http://{}/deliveries", listener.local_addr()?);
    let routes = Router::new().route("/deliveries", post(receive)).with_state(received);
    tokio::spawn(axum::serve(listener, routes).into_future());
    Ok((url, deliveries))
}

async fn receive(
    State(received): State<mpsc::UnboundedSender<Delivery>>,
    Json(delivery): Json<Delivery>,
) -> StatusCode {
    received.send(delivery).map_or(StatusCode::SERVICE_UNAVAILABLE, |()| StatusCode::ACCEPTED)
}

/// Books orders as customers do, and replies as the warehouse does. Checks every answer of the service.
async fn visit(app: &App, mut deliveries: mpsc::UnboundedReceiver<Delivery>) -> Result<()> {
    let mut order = Order { id: 1, item: "100 bolts".to_owned() };
    let bolts = delivered(app, &order, &mut deliveries).await?;
    reply(app, &bolts, "ack", 200, "done").await?;
    reply(app, &bolts, "ack", 200, "already_succeeded").await?; // a repeated ack
    reply(app, &bolts, "nack", 409, "already_succeeded").await?;

    order = Order { id: 2, item: "7 wheels".to_owned() };
    let wheels = delivered(app, &order, &mut deliveries).await?;
    reply(app, &wheels, "nack", 200, "done").await?;
    reply(app, &wheels, "nack", 200, "not_awaiting").await?; // a repeated nack
    let again = deliveries.recv().await.context("the retry")?;
    ensure!(again.order == order && again.reply_to != wheels.reply_to, "each attempt has a token of its own");
    reply(app, &again, "ack", 200, "done").await?;

    order = Order { id: 3, item: "1 engine".to_owned() };
    let engine = delivered(app, &order, &mut deliveries).await?;
    let notice = sqlx::query_scalar("SELECT id FROM notify_msg WHERE json_extract(param, '$.id') = 3");
    let notice = notice.fetch_one(app.outbox.pool()).await?;
    let cancelled = app.outbox.operator("alice").cancel(notice, "the customer changed her mind").await?;
    ensure!(cancelled.is_done(), "{cancelled}");
    reply(app, &engine, "ack", 410, "cancelled").await?;

    let garbage = Delivery { order: order.clone(), reply_to: format!("{}/deliveries/garbage", app.own_url) };
    reply(app, &garbage, "ack", 403, "").await?;
    app.outbox.use_token_keys(TokenKeys::new(b"a secret of somewhere else: 32 b")?);
    reply(app, &bolts, "ack", 403, "").await?; // signed with a secret that is not accepted

    // The same order again breaks the primary key: the transaction is rolled back, and no second notice exists.
    let twice = app.http.post(format!("{}/orders", app.own_url)).json(&order).send().await?;
    ensure!(twice.status().as_u16() == 500, "{}", twice.status());
    ensure!(deliveries.is_empty(), "nothing else was delivered");
    Ok(())
}

/// Books an order and returns what the warehouse gets.
async fn delivered(app: &App, order: &Order, deliveries: &mut mpsc::UnboundedReceiver<Delivery>) -> Result<Delivery> {
    let booked = app.http.post(format!("{}/orders", app.own_url)).json(order).send().await?;
    ensure!(booked.status().as_u16() == 201, "{}", booked.status());
    println!("order {}: {}", order.id, booked.text().await?);
    let delivery = deliveries.recv().await.context("the delivery")?;
    ensure!(delivery.order == *order, "{:?} was delivered", delivery.order);
    Ok(delivery)
}

/// Replies to a delivery, and checks the answer.
async fn reply(app: &App, delivery: &Delivery, kind: &str, status: u16, text: &str) -> Result<()> {
    let response = app.http.post(format!("{}/{kind}", delivery.reply_to)).body("out of stock").send().await?;
    let answer = (response.status().as_u16(), response.text().await?);
    println!("order {}: {kind} {} {}", delivery.order.id, answer.0, answer.1);
    ensure!(answer == (status, text.to_owned()), "{status} {text} was expected");
    Ok(())
}
