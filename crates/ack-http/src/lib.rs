//! Routes by which receivers ack and nack over HTTP, for axum: [`AckRouter`]. Users name the crate `solid-notify`, as
//! `solid_notify::ack_http`.
//!
//! ```no_run
//! # async fn serve(outbox: solid_notify_core::AnyOutbox, listener: tokio::net::TcpListener) -> std::io::Result<()> {
//! use std::net::SocketAddr;
//!
//! use axum::Router;
//! use solid_notify_ack_http::AckRouter;
//!
//! let routes = Router::new().nest("/notices", AckRouter::new(&outbox).into_router());
//! // With the address of each peer, so that the limit per peer is in force.
//! axum::serve(listener, routes.into_make_service_with_connect_info::<SocketAddr>()).await
//! # }
//! ```
//!
//! | request | the token is in | body |
//! |---|---|---|
//! | `POST /ack`, `POST /nack` | the header `ack-token`, the field `token` of the body, or the header `authorization: Bearer …` | none, or JSON: `{"token": "…", "reason": "…", "description": "…"}` |
//! | `POST /ack/{token}`, `POST /nack/{token}` | the path | the same without `token`, or a form |
//! | `GET /ack/{token}`, `GET /nack/{token}` | the path | none; the response is a page with a button that posts |
//!
//! A GET or HEAD changes nothing, because programs that scan mails follow every link.
//!
//! The token appears in no log, span or error of this crate. Proxies log paths, so a header is the better place for it.

mod answer;
mod headers;
mod limits;
mod page;
mod router;
mod sent;

pub use router::AckRouter;
