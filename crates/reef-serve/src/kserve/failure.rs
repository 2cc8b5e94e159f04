//! Errors in each protocol, and the outcomes that they count as.

use crate::error::Error;
use crate::net::identity::client_id::Protocol;
use axum::Extension;
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tonic::{Code, Status};

/// Converts an error to a gRPC status.
pub(crate) fn status(error: Error) -> Status {
    let text = error.client_text();
    match error {
        Error::NotFound(_) => Status::not_found(text),
        Error::Invalid(_) | Error::Unsupported(_) => Status::invalid_argument(text),
        Error::Exists(_) => Status::already_exists(text),
        Error::Exhausted(_) | Error::NoSpace(_) | Error::TooLarge(_) => {
            Status::resource_exhausted(text)
        }
        Error::Deadline(_) => Status::deadline_exceeded(text),
        Error::Unavailable(_) => Status::unavailable(text),
        Error::Unimplemented(_) => Status::unimplemented(text),
        Error::Unauthenticated(_) => Status::unauthenticated(text),
        Error::Denied(_) => Status::permission_denied(text),
        Error::Failed(_) | Error::Program(_) => Status::internal(text),
    }
}

/// Returns the outcome of a gRPC status: `ok`, or an error's kind.
pub(crate) fn outcome(code: Code) -> &'static str {
    match code {
        Code::Ok => "ok",
        Code::NotFound => "not_found",
        Code::InvalidArgument => "invalid",
        Code::AlreadyExists => "exists",
        Code::ResourceExhausted => "exhausted",
        Code::OutOfRange => "too_large",
        Code::DeadlineExceeded => "deadline",
        Code::Unavailable => "unavailable",
        Code::Unimplemented => "unimplemented",
        Code::PermissionDenied => "denied",
        Code::Unauthenticated => "unauthenticated",
        Code::Cancelled => "gone",
        _ => "failed",
    }
}

/// Returns the answer for an error before any call.
pub(crate) fn refuse(protocol: Protocol, error: Error) -> Response {
    match protocol {
        Protocol::Grpc => status(error).into_http(),
        Protocol::Http | Protocol::Local => Failure(error).into_response(),
    }
}

/// Converts an error in the middle of a body: gRPC's decoder passes a status on, and HTTP's reader
/// looks for an [`Error`].
pub(crate) fn body_error(
    protocol: Protocol,
) -> fn(Error) -> Box<dyn std::error::Error + Send + Sync> {
    match protocol {
        Protocol::Grpc => |error| status(error).into(),
        Protocol::Http | Protocol::Local => |error| error.into(),
    }
}

/// An error as an HTTP response.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) Error);

/// Kind of the error in an HTTP answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind(pub(crate) &'static str);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self.0 {
            Error::NotFound(_) => StatusCode::NOT_FOUND,
            Error::Invalid(_) | Error::Unsupported(_) => StatusCode::BAD_REQUEST,
            Error::Exists(_) => StatusCode::CONFLICT,
            Error::Exhausted(_) => StatusCode::TOO_MANY_REQUESTS,
            Error::NoSpace(_) => StatusCode::INSUFFICIENT_STORAGE,
            Error::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Error::Deadline(_) => StatusCode::GATEWAY_TIMEOUT,
            Error::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Error::Unimplemented(_) => StatusCode::NOT_IMPLEMENTED,
            Error::Unauthenticated(_) => StatusCode::UNAUTHORIZED,
            Error::Denied(_) => StatusCode::FORBIDDEN,
            Error::Failed(_) | Error::Program(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let body = axum::Json(json!({ "error": self.0.client_text() }));
        let mut response = (status, Extension(Kind(self.0.kind())), body).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
