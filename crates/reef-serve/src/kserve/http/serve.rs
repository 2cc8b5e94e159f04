//! HTTP server, and the routes of its handlers.

use super::openai::serve as openai;
use super::page::feed::Feed;
use super::page::serve as page;
use super::reply::{App, Reply};
use super::{describe, devices, generate, infer, memory, repository, suspended, trace};
use crate::error::Error;
use crate::kserve::discard_body;
use crate::kserve::failure::{Failure, OpenAiFailure, is_openai};
use crate::kserve::middleware::Middleware;
use crate::net::identity::auth::Tokens;
use crate::net::identity::client_id::Protocol;
use crate::net::identity::peer::Peer;
use crate::net::keep_alive::ServedConnection;
use crate::net::listener::Listener;
use crate::net::quota::admission::AnswerPermit;
use crate::net::quota::charge::Charge;
use crate::observe::exposition::Exposition;
use crate::requests::buffer_pool::BufferPool;
use crate::server::Server;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio_stream::StreamExt;

/// Maximum length of a request's head, which is not charged until it is complete. Bodies are read
/// in parts of this length.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Serves HTTP on `listener` until `end` completes; open requests are still answered.
///
/// The rule of [`ConnectionPool`](crate::net::quota::connection_pool::ConnectionPool) ends a
/// connection that sends no request. One that has asked may be idle: regions of shared memory that
/// it has registered end with it.
pub(crate) async fn serve(
    server: Arc<Server>,
    tokens: Arc<Tokens>,
    feed: Arc<Feed>,
    listener: Listener,
    end: impl Future<Output = ()> + Send + 'static,
) {
    let idle = server.config.get().times.idle();
    let mut http = hyper::server::conn::http1::Builder::new();
    http.header_read_timeout(None::<Duration>).max_buf_size(MAX_HEAD_BYTES);
    let unsent = server.unsent.clone();
    let router = router(server, tokens, feed);
    let graceful = GracefulShutdown::new();
    let mut connections = listener.connections(idle);
    let mut end = std::pin::pin!(end);
    loop {
        let connection = tokio::select! {
            Some(Ok(connection)) = connections.next() => connection,
            () = &mut end => break,
        };
        let connection = ServedConnection::new(connection, unsent.clone());
        let service = router.clone().layer(Extension(connection.info()));
        let service = TowerToHyperService::new(service);
        let connection = http.serve_connection(TokioIo::new(connection), service);
        tokio::spawn(graceful.watch(connection)); // its errors concern only the client
    }
    drop(connections);
    graceful.shutdown().await;
}

fn router(server: Arc<Server>, tokens: Arc<Tokens>, feed: Arc<Feed>) -> Router {
    let max = server.config.get().limits.message_mib << 20;
    let infer = Router::new()
        .route("/v2/models/{model}/infer", post(infer::infer))
        .route("/v2/models/{model}/versions/{version}/infer", post(infer::infer))
        .route("/v2/models/{model}/generate", post(generate::whole))
        .route("/v2/models/{model}/versions/{version}/generate", post(generate::whole))
        .route("/v2/models/{model}/generate_stream", post(generate::stream))
        .route("/v2/models/{model}/versions/{version}/generate_stream", post(generate::stream))
        .merge(openai::inferences())
        .route_layer(middleware::from_fn_with_state(server.clone(), take_slot))
        .route_layer(middleware::from_fn_with_state(server.clone(), read_whole))
        .route_layer(middleware::from_fn_with_state(server.clone(), check_slot));
    let others = Router::new()
        .route("/metrics", get(metrics))
        .route("/reef/trace", get(trace::trace))
        .merge(describe::routes())
        .merge(devices::routes())
        .merge(suspended::routes())
        .merge(repository::routes())
        .merge(memory::routes())
        .merge(openai::routes())
        .route_layer(middleware::from_fn_with_state(server.clone(), read_whole));
    let calls = Router::new()
        .merge(infer)
        .merge(others)
        .merge(page::routes(feed))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::map_response(in_json))
        .layer(DefaultBodyLimit::max(max))
        .with_state(server.clone());
    Middleware { server, tokens, protocol: Protocol::Http }.wrap(calls)
}

/// Refuses a path after its body, so that the client reads the reason.
async fn unknown_path(request: Request) -> Failure {
    let (head, body) = request.into_parts();
    discard_body::discard(&head.headers, body, MAX_HEAD_BYTES).await;
    Failure(Error::NotFound("unknown path".into()))
}

/// Refuses a method after its body, likewise. The methods that there are come with the answer.
async fn wrong_method(request: Request) -> Response {
    let (head, body) = request.into_parts();
    discard_body::discard(&head.headers, body, MAX_HEAD_BYTES).await;
    let why = format!("method {}: must be one that the header Allow names", head.method);
    let error = Error::Invalid(why);
    let said = if is_openai(head.uri.path()) {
        OpenAiFailure::from(error).into_response()
    } else {
        Failure(error).into_response()
    };
    (StatusCode::METHOD_NOT_ALLOWED, said).into_response()
}

/// Puts a refusal of the framework's own, such as of a path that is not UTF-8, into the form of the
/// others: it is a text.
async fn in_json(response: Response) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_text = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/plain"));
    if !response.status().is_client_error() || !is_text {
        return response;
    }
    let is_long = response.status() == StatusCode::PAYLOAD_TOO_LARGE;
    let text = axum::body::to_bytes(response.into_body(), MAX_HEAD_BYTES).await;
    let text = String::from_utf8_lossy(&text.unwrap_or_default()).into_owned();
    Failure(if is_long { Error::TooLarge(text) } else { Error::Invalid(text) }).into_response()
}

/// Returns the metrics, in the requested format.
async fn metrics(State(server): App, headers: HeaderMap) -> Reply<impl IntoResponse> {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let format = Exposition::for_accept(accept.unwrap_or_default());
    let text = server.metrics(format).await?;
    Ok(([(header::CONTENT_TYPE, format.content_type())], text))
}

/// Refuses a request without a free slot before its body is held. It takes no slot until it has
/// arrived completely.
async fn check_slot(
    State(server): App,
    Extension(peer): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let Err(error) = server.request(&peer).map(drop) else { return next.run(request).await };
    let (head, body) = request.into_parts();
    let max = server.config.get().limits.message_mib << 20;
    discard_body::discard(&head.headers, body, max).await;
    Failure(error).into_response()
}

/// Takes a slot for a request that has arrived, until its answer begins. An answer in parts keeps
/// the slot until its last part is made.
async fn take_slot(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Extension(permit): Extension<AnswerPermit>,
    mut request: Request,
    next: Next,
) -> Response {
    match server.request(&peer) {
        Ok(slot) => {
            let slot = Arc::new(slot);
            permit.begin(&server.unsent);
            request.extensions_mut().insert(slot.clone());
            let answer = next.run(request).await;
            drop(slot);
            answer
        }
        Err(error) => Failure(error).into_response(),
    }
}

/// Reads the whole request before it is handled. Its bytes are charged, and must arrive in time.
/// The rest of a refused one is discarded, so that its client reads the reason.
async fn read_whole(State(server): App, request: Request, next: Next) -> Response {
    let max = server.config.get().limits.message_mib << 20;
    let (head, mut body) = request.into_parts();
    if body.size_hint().lower() > max as u64 {
        discard_body::discard(&head.headers, body, max).await;
        return Failure(too_large(max)).into_response();
    }
    match read(&mut body, &server.buffers).await {
        Ok(body) => next.run(Request::from_parts(head, Body::from(body))).await,
        Err(error) => {
            let error = read_error(&error);
            if let Some(charge) = head.extensions.get::<Charge>() {
                charge.clear(); // nothing of it is kept
            }
            if !matches!(error, Error::Deadline(_)) {
                discard_body::discard_rest(body, max).await;
            }
            Failure(error).into_response()
        }
    }
}

/// Reads a body into one buffer, which grows with it. Its length is bounded where it is charged.
///
/// No part is kept: a chunk of one byte would keep the buffer that it arrived in.
async fn read(body: &mut Body, buffers: &Arc<BufferPool>) -> Result<Bytes, axum::Error> {
    let mut whole = buffers.take(0);
    while let Some(frame) = body.frame().await {
        let Ok(part) = frame?.into_data() else { continue }; // trailers
        let (bytes, room) = (whole.bytes.len() + part.len(), whole.bytes.capacity());
        if bytes > room {
            let mut larger = buffers.take(bytes.max(2 * room));
            larger.bytes.extend_from_slice(&whole.bytes);
            whole = larger;
        }
        whole.bytes.extend_from_slice(&part);
    }
    Ok(whole.freeze())
}

/// Returns the reason for which a body was not read: an error of ours, or the client's end.
fn read_error(error: &(dyn std::error::Error + 'static)) -> Error {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(ours) = error.downcast_ref::<Error>() {
            return ours.clone();
        }
        cause = error.source();
    }
    Error::Invalid("body: must not be truncated by the client".into())
}

fn too_large(max: usize) -> Error {
    Error::TooLarge(format!("body must have at most {max} bytes (limits.message_mib)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A part of one byte, counted as long as it is kept.
    struct Part {
        _counter: Arc<()>,
    }

    impl AsRef<[u8]> for Part {
        fn as_ref(&self) -> &[u8] {
            b"x"
        }
    }

    #[test]
    fn parts_of_a_body_are_not_kept() {
        let (counter, most) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
        let seen = most.clone();
        let parts = (0..10_000).map(move |_| {
            seen.fetch_max(Arc::strong_count(&counter), Ordering::Relaxed);
            Ok::<_, Infallible>(Bytes::from_owner(Part { _counter: counter.clone() }))
        });
        let mut body = Body::from_stream(tokio_stream::iter(parts));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let whole = runtime.block_on(read(&mut body, &BufferPool::new(0))).unwrap();
        assert_eq!(whole.len(), 10_000);
        assert!(whole.iter().all(|&byte| byte == b'x'));
        let most = most.load(Ordering::Relaxed);
        assert!(most <= 2, "{most}: parts are kept until the end");
    }
}
