//! Both protocols' way of saying how a request ended, and counting it.
//!
//! It is a layer around all of a protocol's calls, so that no answer leaves the daemon uncounted:
//! what a limit refuses, a path that there is not, a request whose time is over, a client that goes
//! away.

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

/// Counts the answer of whatever is inside. Over gRPC the outcome may come behind the answer's
/// body.
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
    let said = response.extensions().get().map(|Kind(kind)| *kind);
    said.unwrap_or_else(|| match response.status() {
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
