//! The customers, the warehouse and the operators of the service: they check every answer. The service itself is in `main.rs`.

use anyhow::ensure;
use reqwest::Method;
use solid_notify::Filter;
use tokio::sync::mpsc::UnboundedReceiver;

use super::tests::next;
use super::*;

/// Books orders as customers do, and replies as the warehouse does. Checks every answer of the service.
pub(super) async fn all(app: &App, mut deliveries: UnboundedReceiver<Delivery>) -> Result<()> {
    let mut order = Order { id: 1, item: "100 bolts".to_owned() };
    let bolts = delivered(app, &order, &mut deliveries).await?;
    readiness(app, reqwest::StatusCode::OK).await?; // after the first sweep
    reply(app, &bolts, "ack", 200, "applied").await?;
    reply(app, &bolts, "ack", 200, "already_succeeded").await?; // a repeated ack
    reply(app, &bolts, "nack", 409, "already_succeeded").await?;

    order = Order { id: 2, item: "7 wheels".to_owned() };
    let wheels = delivered(app, &order, &mut deliveries).await?;
    reply(app, &wheels, "nack", 200, "applied").await?;
    reply(app, &wheels, "nack", 200, "not_awaiting_ack").await?; // a repeated nack
    let again = next(&mut deliveries).await?;
    ensure!(again.order == order && again.ack_token != wheels.ack_token, "each attempt has a token of its own");
    reply(app, &again, "ack", 200, "applied").await?;

    order = Order { id: 3, item: "1 engine".to_owned() };
    let engine = delivered(app, &order, &mut deliveries).await?;
    let alice = app.outbox.operator("alice");
    let live = alice.list(&Filter::live().definition(SHIP_ORDER), None, 10).await?.notices;
    ensure!(live.len() == 1, "{live:?}");
    let cancelled = alice.cancel(live[0].id, "the customer changed her mind").await?;
    ensure!(cancelled.is_applied(), "{cancelled}");
    reply(app, &engine, "ack", 410, "cancelled").await?;

    reply(app, &Delivery { ack_token: "garbage".to_owned(), ..engine }, "ack", 403, "refused_token").await?;
    app.outbox.use_token_keys(TokenKeys::new(b"a secret of somewhere else: 32 b")?);
    reply(app, &bolts, "ack", 403, "refused_token").await?; // signed with a secret that is not accepted

    // The same order again breaks the primary key: the transaction is rolled back, and no second notice exists.
    let twice = booked(app, &order).await?;
    ensure!(twice.status() == reqwest::StatusCode::CONFLICT, "{}", twice.status());
    ensure!(deliveries.is_empty(), "nothing else was delivered");
    Ok(())
}

/// Asks the readiness route, as a platform does, until it answers with this status.
pub(super) async fn readiness(app: &App, status: reqwest::StatusCode) -> Result<()> {
    let url = format!("{}/readyz", app.warehouse.own_url);
    while app.warehouse.http.get(&url).send().await?.status() != status {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Asks the readiness route until it says that the service ends. A service that has ended refuses the connection.
pub(super) async fn ending(app: &App) -> Result<()> {
    match readiness(app, reqwest::StatusCode::SERVICE_UNAVAILABLE).await {
        Err(error) if error.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_request) => Ok(()),
        asked => asked,
    }
}

/// Looks at a dead letter, edits the definition and retries, as operators do. Checks every answer.
pub(super) async fn operators(app: &App) -> Result<()> {
    booked(app, &Order { id: 4, item: String::new() }).await?; // the warehouse refuses it
    let mut dead = json!({ "notices": [], "next": null });
    while dead["notices"][0]["id"].is_null() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        dead = serde_json::from_str(&operate(app, Method::GET, "dead-letters", "", 200).await?)?;
    }
    let notice = &dead["notices"][0];
    ensure!(notice["class"] == "invalid" && notice["time"].is_string() && dead["next"].is_null(), "{dead}");
    let path = format!("notices/{}", notice["id"]);
    let explained = operate(app, Method::GET, &path, "", 200).await?;
    ensure!(explained.starts_with("finally failed"), "{explained}");

    let row = app.outbox.operator("alice").definition(SHIP_ORDER).await?;
    let path_of_row = format!("definitions/{}/retry-interval", row.id);
    let edit = |seen: &str, new: &str| json!({ "seen": seen, "new": new }).to_string();
    operate(app, Method::PUT, &path_of_row, &edit(&row.retry_interval, "soon"), 422).await?;
    let edited = operate(app, Method::PUT, &path_of_row, &edit(&row.retry_interval, "[1s,1h]"), 200).await?;
    ensure!(edited == "[1s,1h]", "{edited}");
    operate(app, Method::PUT, &path_of_row, &edit(&row.retry_interval, "[1s,2h]"), 409).await?;
    operate(app, Method::PUT, "definitions/4711/retry-interval", &edit("[1s]", "[2s]"), 404).await?;
    operate(app, Method::GET, "notices/4711", "", 404).await?;
    ensure!(operate(app, Method::POST, &format!("{path}/retry"), "", 200).await? == "applied");
    operate(app, Method::POST, "notices/4711/retry", "", 404).await?;
    operate(app, Method::GET, "dead-letters?after=yesterday", "", 400).await?;
    let audit: Value = serde_json::from_str(&operate(app, Method::GET, &format!("{path}/audit"), "", 200).await?)?;
    ensure!(audit[0]["who"] == "alice" && audit[0]["act"] == "retry", "{audit}");
    Ok(())
}

/// Calls a route of operators as Alice, checks the status, and returns the body.
async fn operate(app: &App, method: Method, path: &str, body: &str, status: u16) -> Result<String> {
    let Warehouse { http, own_url, .. } = &app.warehouse;
    let request = http.request(method, format!("{own_url}/admin/{path}")).header("x-operator", "alice");
    let request = request.header("content-type", "application/json").body(body.to_owned());
    let response = request.send().await?;
    let answer = (response.status().as_u16(), response.text().await?);
    println!("operator: {path} {} {}", answer.0, answer.1);
    ensure!(answer.0 == status, "{status} was expected");
    Ok(answer.1)
}

async fn booked(app: &App, order: &Order) -> Result<reqwest::Response> {
    let Warehouse { http, own_url, .. } = &app.warehouse;
    Ok(http.post(format!("{own_url}/orders")).json(order).send().await?)
}

/// Books an order and returns what the warehouse gets.
async fn delivered(app: &App, order: &Order, deliveries: &mut UnboundedReceiver<Delivery>) -> Result<Delivery> {
    let booked = booked(app, order).await?;
    ensure!(booked.status() == reqwest::StatusCode::CREATED, "{}", booked.status());
    println!("order {}: {}", order.id, booked.text().await?);
    let delivery = next(deliveries).await?;
    ensure!(delivery.order == *order, "{:?} was delivered", delivery.order);
    Ok(delivery)
}

/// Replies to a delivery, and checks the answer.
async fn reply(app: &App, delivery: &Delivery, kind: &str, status: u16, result: &str) -> Result<()> {
    let request = app.warehouse.http.post(format!("{}/{kind}", delivery.reply_to));
    let request = request.header("ack-token", &delivery.ack_token).json(&json!({ "reason": "out of stock" }));
    let response = request.send().await?;
    let (answered, body) = (response.status().as_u16(), response.json::<Value>().await?);
    println!("order {}: {kind} {answered} {body}", delivery.order.id);
    ensure!(answered == status && body["result"] == result, "{status} {result} was expected");
    Ok(())
}
