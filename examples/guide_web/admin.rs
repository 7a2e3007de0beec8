//! The routes of operators, for the book: lists, explains and retries notices, shows the audit, edits a retry interval.
//!
//! The service that has these routes is in `main.rs`; `visit.rs` calls them.

// [admin]
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use solid_notify::definition::Updated;
use solid_notify::operate::{AuditFilter, Listed, Why};
use solid_notify::{AnyOutbox, Filter, Operator, VerbResult};

use super::RouteError;

/// Only for operators: put a login in front of it, which sets the header `x-operator`.
pub fn routes(outbox: AnyOutbox) -> Router {
    Router::new()
        .route("/dead-letters", get(dead_letters))
        .route("/notices/{id}", get(explain))
        .route("/notices/{id}/retry", post(retry))
        .route("/notices/{id}/audit", get(audit))
        .route("/definitions/{id}/retry-interval", put(set_retry_interval))
        .with_state(outbox)
}

/// The operator of a change: the audit records the name.
fn operator(outbox: &AnyOutbox, headers: &HeaderMap) -> Operator {
    let name = headers.get("x-operator").and_then(|name| name.to_str().ok());
    outbox.operator(name.unwrap_or("unknown"))
}

#[derive(Deserialize)]
struct After {
    after: Option<String>,
}

/// `GET /dead-letters`, then `GET /dead-letters?after=` with the `next` of the page before, until that is null.
async fn dead_letters(State(outbox): State<AnyOutbox>, Query(query): Query<After>) -> Result<Json<Value>, RouteError> {
    let after = query.after.map(|after| after.parse()).transpose()?; // a `Position`
    let page = outbox.operator("web").list(&Filter::dead_letters(), after, 50).await?;
    let notice = |it: &Listed| json!({ "id": it.id, "class": it.last_class, "time": it.time });
    let notices: Vec<Value> = page.notices.iter().map(notice).collect();
    Ok(Json(json!({ "notices": notices, "next": page.next.map(|next| next.to_string()) })))
}

async fn explain(State(outbox): State<AnyOutbox>, Path(id): Path<i64>) -> Result<(StatusCode, String), RouteError> {
    let explanation = outbox.operator("web").explain(id).await?;
    let status = if explanation.why == Why::NotFound { StatusCode::NOT_FOUND } else { StatusCode::OK };
    Ok((status, explanation.to_string()))
}

async fn retry(
    State(outbox): State<AnyOutbox>,
    headers: HeaderMap,
    Path(id): Path<i64>,
) -> Result<(StatusCode, String), RouteError> {
    let result = operator(&outbox, &headers).retry(id).await?;
    let status = match result {
        VerbResult::NotFound => StatusCode::NOT_FOUND,
        done if done.is_applied() => StatusCode::OK,
        _ => StatusCode::CONFLICT, // nothing was changed: the text says why
    };
    Ok((status, result.to_string()))
}

async fn audit(State(outbox): State<AnyOutbox>, Path(id): Path<i64>) -> Result<Json<Value>, RouteError> {
    let page = outbox.operator("web").audit(&AuditFilter::all().notice(id), None, 100).await?;
    Ok(Json(page.entries.iter().map(|it| json!({ "time": it.time, "who": it.who, "act": it.act })).collect()))
}

/// The interval that an operator saw, and the new one.
#[derive(Deserialize)]
struct IntervalEdit {
    seen: String,
    new: String,
}

/// The body is an [`IntervalEdit`] with intervals such as `[5s,5m,1h]`.
async fn set_retry_interval(
    State(outbox): State<AnyOutbox>,
    headers: HeaderMap,
    Path(id): Path<i64>,
    Json(edit): Json<IntervalEdit>,
) -> Result<(StatusCode, String), RouteError> {
    let operator = operator(&outbox, &headers);
    let row = operator.definition(id).await?;
    let seen = row.clone().retry_interval(edit.seen);
    Ok(match operator.edit_definition(&seen, row.retry_interval(edit.new)).await? {
        Updated::Stored(row) => (StatusCode::OK, row.retry_interval),
        Updated::Conflict(row) => (StatusCode::CONFLICT, row.retry_interval), // it is no longer as the operator saw it
        _ => (StatusCode::NOT_FOUND, String::new()),
    })
}
// [end]
