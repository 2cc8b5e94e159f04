//! HTTP connections, and which path leads to which handler.

use super::reply::App;
use super::{describe, devices, infer, memory, repository, trace};
use crate::error::Error;
use crate::kserve::discard_body;
use crate::kserve::failure::Failure;
use crate::kserve::middleware::Intake;
use crate::net::identity::auth::Tokens;
use crate::net::identity::client_id::Protocol;
use crate::net::identity::peer::Peer;
use crate::net::keep_alive::ServedConnection;
use crate::net::listener::Listener;
use crate::observe::exposition::Exposition;
use crate::requests::buffer_pool::Pieces;
use crate::server::Server;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use bytes::Buf;
use http_body_util::{BodyExt, Limited};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use tokio_stream::StreamExt;

/// Serves HTTP on `listener` until `end` comes; requests that are open then are still answered.
///
/// A connection on which no whole head of a request comes in time is closed: clients that send a
/// byte now and then would keep their place for ever.
pub(crate) async fn serve(
    server: Arc<Server>,
    tokens: Arc<Tokens>,
    listener: Listener,
    end: impl Future<Output = ()> + Send + 'static,
) {
    let times = server.config.get().times.clone();
    let idle = times.idle();
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(idle);
    let router = router(server, tokens);
    let graceful = GracefulShutdown::new();
    let mut connections = listener.connections(idle);
    let mut end = std::pin::pin!(end);
    loop {
        let connection = tokio::select! {
            Some(Ok(connection)) = connections.next() => connection,
            () = &mut end => break,
        };
        let connection = ServedConnection::new(connection, &times);
        let service = router.clone().layer(Extension(connection.info()));
        let service = TowerToHyperService::new(service);
        let connection = http.serve_connection(TokioIo::new(connection), service);
        tokio::spawn(graceful.watch(connection)); // what goes wrong there is the client's affair
    }
    drop(connections);
    graceful.shutdown().await;
}

fn router(server: Arc<Server>, tokens: Arc<Tokens>) -> Router {
    let max = server.config.get().limits.message_mib << 20;
    let infer = Router::new()
        .route("/v2/models/{model}/infer", post(infer::newest))
        .route("/v2/models/{model}/versions/{version}/infer", post(infer::version))
        .route_layer(middleware::from_fn_with_state(server.clone(), open))
        .route_layer(middleware::from_fn_with_state(server.clone(), whole))
        .route_layer(middleware::from_fn_with_state(server.clone(), room));
    let others = Router::new()
        .route("/metrics", get(metrics))
        .route("/reef/trace", get(trace::trace))
        .merge(describe::routes())
        .merge(devices::routes())
        .merge(repository::routes())
        .merge(memory::routes())
        .route_layer(middleware::from_fn_with_state(server.clone(), whole));
    let calls = Router::new()
        .merge(infer)
        .merge(others)
        .fallback(|| async { Failure(Error::NotFound("no such path".into())) })
        .layer(DefaultBodyLimit::max(max))
        .with_state(server.clone());
    Intake { server, tokens, protocol: Protocol::Http }.before(calls)
}

/// The numbers, in the format that is asked for.
async fn metrics(State(server): App, headers: HeaderMap) -> impl IntoResponse {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let format = Exposition::asked(accept.unwrap_or_default());
    ([(header::CONTENT_TYPE, format.content_type())], server.metrics(format).await)
}

/// Refuses a request for which there is no place, before its body is read. It takes none until all
/// of it is there.
async fn room(
    State(server): App,
    Extension(peer): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    match server.request(&peer).map(drop) {
        Ok(()) => next.run(request).await,
        Err(error) => Failure(error).into_response(),
    }
}

/// Takes a place for a request that has arrived.
async fn open(
    State(server): App,
    Extension(peer): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    match server.request(&peer) {
        Ok(_open) => next.run(request).await,
        Err(error) => Failure(error).into_response(),
    }
}

/// Reads all of the request before it is handled. What arrives is charged for, and has to come in
/// time.
async fn whole(State(server): App, request: Request, next: Next) -> Response {
    let max = server.config.get().limits.message_mib << 20;
    let (head, body) = request.into_parts();
    if body.size_hint().lower() > max as u64 {
        discard_body::discard(&head.headers, body, max).await;
        return Failure(too_large(max)).into_response();
    }
    match read(body, max, &server.pieces).await {
        Ok(body) => next.run(Request::from_parts(head, Body::from(body))).await,
        Err(error) => Failure(unread(&*error)).into_response(),
    }
}

/// All of a body, in one piece.
async fn read(
    body: Body,
    max: usize,
    pieces: &Arc<Pieces>,
) -> Result<Bytes, Box<dyn std::error::Error + Send + Sync>> {
    let mut parts = Limited::new(body, max).collect().await?.aggregate();
    let mut whole = pieces.take(parts.remaining());
    while parts.has_remaining() {
        let part = parts.chunk();
        whole.bytes.extend_from_slice(part);
        let bytes = part.len();
        parts.advance(bytes);
    }
    Ok(whole.freeze())
}

/// Why a body was not read: for our reasons, or because the client ended it.
fn unread(error: &(dyn std::error::Error + 'static)) -> Error {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(ours) = error.downcast_ref::<Error>() {
            return ours.clone();
        }
        cause = error.source();
    }
    Error::Invalid("body: the client ended it too early".into())
}

fn too_large(max: usize) -> Error {
    Error::TooLarge(format!("body of at most {max} bytes (limits.message_mib)"))
}
