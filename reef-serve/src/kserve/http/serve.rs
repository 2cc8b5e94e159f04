//! HTTP connections, and which path leads to which handler.

use super::reply::App;
use super::{describe, infer, memory, repository, trace};
use crate::error::Error;
use crate::kserve::answer::count;
use crate::kserve::failure::Failure;
use crate::net::auth::{self, Token};
use crate::net::clients::Protocol;
use crate::net::listener::Listener;
use crate::net::peer::Peer;
use crate::observe::exposition::Exposition;
use crate::server::Server;
use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use http_body_util::{BodyExt, LengthLimitError};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio_stream::StreamExt;

/// How long a client that sends too much is listened to, so that it can hear why it is refused.
const LINGER: Duration = Duration::from_millis(500);

/// Serves HTTP on `listener` until `end` comes; requests that are open then are still answered.
///
/// A connection on which no whole head of a request comes in time is closed: clients that send a byte now and
/// then would keep their place for ever.
pub(crate) async fn serve(
    server: Arc<Server>,
    token: Option<Arc<Token>>,
    listener: Listener,
    end: impl Future<Output = ()> + Send + 'static,
) {
    let idle = server.config.times.idle();
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(idle);
    let router = router(server, token);
    let graceful = GracefulShutdown::new();
    let mut connections = listener.connections(idle);
    let mut end = std::pin::pin!(end);
    loop {
        let connection = tokio::select! {
            Some(Ok(connection)) = connections.next() => connection,
            () = &mut end => break,
        };
        let service = router.clone().layer(Extension(ConnectInfo(connection.peer.clone())));
        let service = TowerToHyperService::new(service);
        let connection = http.serve_connection(TokioIo::new(connection), service);
        tokio::spawn(graceful.watch(connection)); // what goes wrong there is the client's affair
    }
    drop(connections);
    graceful.shutdown().await;
}

fn router(server: Arc<Server>, token: Option<Arc<Token>>) -> Router {
    let max = server.config.limits.message_mib << 20;
    let infer = Router::new()
        .route("/v2/models/{model}/infer", post(infer::newest))
        .route("/v2/models/{model}/versions/{version}/infer", post(infer::version))
        .route_layer(middleware::from_fn_with_state(server.clone(), whole))
        .route_layer(middleware::from_fn_with_state(server.clone(), open));
    let others = Router::new()
        .route("/metrics", get(metrics))
        .route("/reef/trace", get(trace::trace))
        .merge(describe::routes())
        .merge(repository::routes())
        .merge(memory::routes())
        .route("/v2/trace/setting", get(missing).post(missing))
        .route("/v2/models/{model}/trace/setting", get(missing).post(missing))
        .route("/v2/logging", get(missing).post(missing))
        .route_layer(middleware::from_fn_with_state(server.clone(), whole));
    Router::new()
        .merge(infer)
        .merge(others)
        .fallback(|| async { Failure(Error::NotFound("no such path".into())) })
        .layer(DefaultBodyLimit::max(max))
        .layer(middleware::from_fn_with_state(token, check))
        .layer(middleware::from_fn_with_state((server.clone(), Protocol::Http), count))
        .with_state(server)
}

/// The numbers, in the format that is asked for.
async fn metrics(State(server): App, headers: HeaderMap) -> impl IntoResponse {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let format = Exposition::asked(accept.unwrap_or_default());
    ([(header::CONTENT_TYPE, format.content_type())], format.write(server.metrics()))
}

/// Finds out whom the request speaks for.
async fn check(
    State(token): State<Option<Arc<Token>>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    mut request: Request,
    next: Next,
) -> Response {
    let given = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
    match auth::identify(token.as_deref(), &peer, given) {
        Ok(principal) => {
            request.extensions_mut().insert(ConnectInfo(Peer { principal, ..peer }));
            next.run(request).await
        }
        Err(error) => Failure(error).into_response(),
    }
}

/// Takes a place for the request before its body is read.
async fn open(State(server): App, request: Request, next: Next) -> Response {
    match server.request() {
        Ok(_open) => next.run(request).await,
        Err(error) => Failure(error).into_response(),
    }
}

/// Reads all of the request before it is handled, and not for longer than clients may take.
async fn whole(State(server): App, request: Request, next: Next) -> Response {
    let (max, idle) = (server.config.limits.message_mib << 20, server.config.times.idle());
    let (head, body) = request.into_parts();
    let read = async {
        if body.size_hint().lower() > max as u64 {
            if !head.headers.contains_key(header::EXPECT) {
                let _ = tokio::time::timeout(LINGER, discard(body, max)).await; // it may say nothing
            }
            return Err(too_large(max));
        }
        to_bytes(body, max).await.map_err(|error| {
            match error.into_inner().is::<LengthLimitError>() {
                true => too_large(max),
                false => Error::Invalid("body: the client ended it too early".into()),
            }
        })
    };
    let failure = match tokio::time::timeout(idle, read).await {
        Ok(Ok(body)) => return next.run(Request::from_parts(head, Body::from(body))).await,
        Ok(Err(error)) => error,
        Err(_) => Error::Deadline(format!("the body took longer than {idle:?}")),
    };
    Failure(failure).into_response()
}

fn too_large(max: usize) -> Error {
    Error::TooLarge(format!("body of at most {max} bytes (limits.message_mib)"))
}

/// Takes up to `max` bytes from a client that would otherwise be cut off while it sends, without its answer.
async fn discard(mut body: Body, max: usize) {
    let mut left = max;
    while let Some(Ok(frame)) = body.frame().await {
        let bytes = frame.data_ref().map_or(0, |data| data.len());
        match left.checked_sub(bytes) {
            Some(less) => left = less,
            None => return,
        }
    }
}

async fn missing() -> Failure {
    Failure(Error::Unimplemented("this setting".into()))
}
