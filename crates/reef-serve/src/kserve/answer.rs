//! Outcome of each answer in both protocols, and its count.
//!
//! It is a layer around all calls of a protocol, so every answer is counted: refusals by limits,
//! unknown paths, timeouts, clients that disconnect.

use crate::kserve::failure::{Kind, outcome};
use crate::net::identity::client_id::Protocol;
use crate::server::Server;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::BodyExt;
use std::sync::Arc;

/// Counts the answer of the inner service. Over gRPC the outcome may follow the body.
pub(crate) async fn count(
    State((server, protocol)): State<(Arc<Server>, Protocol)>,
    request: Request,
    next: Next,
) -> Response {
    let mut answer = server.observer.metrics.answers.begin(protocol);
    let response = next.run(request).await;
    if protocol != Protocol::Grpc {
        answer.set(http(&response));
        return response;
    }
    if let Some(outcome) = grpc(response.headers()) {
        answer.set(outcome);
        return response;
    }
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            if let Some(outcome) = frame.trailers_ref().and_then(grpc) {
                answer.set(outcome);
            }
            frame
        }))
    })
}

fn http(response: &Response) -> &'static str {
    let kind = response.extensions().get().map(|Kind(kind)| *kind);
    kind.unwrap_or_else(|| match response.status() {
        status if status.is_success() => "ok",
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable",
        status if status.is_client_error() => "invalid",
        _ => "failed",
    })
}

fn grpc(headers: &HeaderMap) -> Option<&'static str> {
    let code = headers.get("grpc-status")?;
    Some(outcome(tonic::Code::from_bytes(code.as_bytes())))
}
