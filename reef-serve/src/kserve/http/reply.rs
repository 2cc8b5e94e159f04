//! What handlers are given, and how an error becomes an HTTP status.

use crate::error::Error;
use crate::server::Server;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::sync::Arc;

/// What handlers know.
pub(super) type App = State<Arc<Server>>;
/// What handlers give.
pub(super) type Reply<T> = Result<T, Failure>;

/// An error as HTTP says it.
#[derive(Debug)]
pub(super) struct Failure(pub(super) Error);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self.0 {
            Error::NotFound(_) => StatusCode::NOT_FOUND,
            Error::Invalid(_) => StatusCode::BAD_REQUEST,
            Error::Exists(_) => StatusCode::CONFLICT,
            Error::Exhausted(_) => StatusCode::TOO_MANY_REQUESTS,
            Error::Deadline(_) => StatusCode::GATEWAY_TIMEOUT,
            Error::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Error::Unimplemented(_) => StatusCode::NOT_IMPLEMENTED,
            Error::Denied(_) => StatusCode::FORBIDDEN,
            Error::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, axum::Json(json!({ "error": self.0.said() }))).into_response()
    }
}
