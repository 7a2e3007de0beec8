//! The routes of `serve`: probes, metrics, and acks of every database.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::uri::{PathAndQuery, Uri};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use tower::ServiceExt;

use super::database::Problems;
use super::databases::Databases;
use super::metrics::Metrics;
use super::page::Page;
use crate::log_queue::lines_of;

/// Whether acks can be stored in a database and notices are sent from it, and why not.
#[derive(Serialize)]
struct Ready {
    ready: bool,
    sending: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// The body of `/readyz`.
#[derive(Serialize)]
struct AllReady {
    ready: bool,
    databases: BTreeMap<String, Ready>,
}

/// What the routes show.
#[derive(Clone)]
pub(super) struct Shown {
    pub(super) databases: Arc<Databases>,
    pub(super) metrics: Metrics,
    pub(super) page: Page,
}

pub(super) fn routes(shown: Shown) -> Router {
    Router::new()
        .route("/livez", get(async || "live"))
        .route("/readyz", get(all_ready))
        .route("/readyz/{name}", get(one_ready))
        .route("/metrics", get(metrics))
        .fallback(reply)
        .with_state(shown)
}

async fn all_ready(State(shown): State<Shown>) -> Response {
    let databases: BTreeMap<String, Ready> =
        shown.databases.problems().into_iter().map(|(name, problems)| (name, ready(problems))).collect();
    // A file may have none.
    let ready = !databases.is_empty() && databases.values().all(|database| database.ready);
    let all = AllReady { ready, databases };
    (status(all.ready), Json(all)).into_response()
}

async fn one_ready(State(shown): State<Shown>, Path(name): Path<String>) -> Response {
    match shown.databases.problems_of(&name) {
        Some(problems) => {
            let ready = ready(problems);
            (status(ready.ready), Json(ready)).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn ready(problems: Problems) -> Ready {
    let Problems { not_ready, not_sending } = problems;
    Ready { ready: not_ready.is_none(), sending: not_sending.is_none(), problem: not_ready.or(not_sending) }
}

fn status(ready: bool) -> StatusCode {
    if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

async fn metrics(State(shown): State<Shown>) -> Response {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let metrics = shown.metrics.handle();
    match shown.page.get(move || metrics.render().into()).await {
        Some(page) => ([(header::CONTENT_TYPE, kind)], page).into_response(),
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Passes an ack or a nack on to its database: `/ack` where there is one database, `/NAME/ack` else. Databases come and go while the
/// program runs, so this is not a matter of routes.
async fn reply(State(shown): State<Shown>, mut request: Request) -> Response {
    let path = request.uri().path();
    let rest = path.trim_start_matches('/');
    let (name, rest) = match rest.split('/').next() {
        Some("ack" | "nack") => (shown.databases.only(), Some(rest.to_owned())),
        Some(name) => {
            (Some(name.to_owned()), rest.strip_prefix(name).map(|rest| rest.trim_start_matches('/').to_owned()))
        }
        None => (None, None),
    };
    let acks = name.and_then(|name| shown.databases.acks(&name).map(|acks| (name, acks)));
    let (Some((name, acks)), Some(rest)) = (acks, rest) else { return StatusCode::NOT_FOUND.into_response() };
    let Some(acks) = acks else {
        return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "5")]).into_response();
    };
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let Ok(path) = PathAndQuery::try_from(format!("/{rest}{query}")) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    *request.uri_mut() = Uri::from(path);
    lines_of(&name, acks.oneshot(request)).await.into_response()
}
