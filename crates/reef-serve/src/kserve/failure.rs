//! Errors in each protocol, and the outcomes that they count as.

use crate::error::Error;
use crate::net::identity::client_id::Protocol;
use crate::residency::residents::may_be_repeated;
use axum::Extension;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;
use tonic::{Code, Status};

/// Time after which a client may repeat a request for a model that has not returned, in seconds.
const RETRY_SECONDS: &str = "1";

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

/// Error of a [`Failure`], for [`in_form`].
#[derive(Debug, Clone)]
struct PlainError(Error);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body = json!({ "error": self.0.client_text() }).to_string();
        let mut response = answer(&self.0, body.into_bytes());
        response.extensions_mut().insert(PlainError(self.0));
        response
    }
}

/// An error in OpenAI's form.
#[derive(Debug)]
pub(crate) struct OpenAiFailure {
    pub(crate) error: Error,
    /// Parameter that it is about.
    pub(crate) param: Option<String>,
    pub(crate) code: &'static str,
}

#[derive(Debug, Serialize)]
struct OpenAiBody<'a> {
    error: OpenAiError<'a>,
}

#[derive(Debug, Serialize)]
struct OpenAiError<'a> {
    message: String,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<&'a str>,
    code: &'static str,
}

impl OpenAiFailure {
    /// Returns its body.
    pub(crate) fn json(&self) -> Vec<u8> {
        let (message, kind) = (self.error.client_text(), openai_type(http_status(&self.error)));
        let error = OpenAiError { message, kind, param: self.param.as_deref(), code: self.code };
        serde_json::to_vec(&OpenAiBody { error }).unwrap_or_default()
    }
}

impl From<Error> for OpenAiFailure {
    fn from(error: Error) -> Self {
        let code = error.kind();
        Self { error, param: None, code }
    }
}

impl IntoResponse for OpenAiFailure {
    fn into_response(self) -> Response {
        answer(&self.error, self.json())
    }
}

/// True if a path is one of OpenAI's protocol.
pub(crate) fn is_openai(path: &str) -> bool {
    path.starts_with("/v1/")
}

/// Returns an answer in the form of its protocol: only a [`Failure`] of OpenAI's is another one.
pub(crate) fn in_form(is_openai: bool, mut response: Response) -> Response {
    let plain = response.extensions_mut().remove::<PlainError>();
    match plain {
        Some(PlainError(error)) if is_openai => OpenAiFailure::from(error).into_response(),
        _ => response,
    }
}

/// Returns an answer with the status of an error.
fn answer(error: &Error, json: Vec<u8>) -> Response {
    let status = http_status(error);
    let content = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    let mut response = (status, Extension(Kind(error.kind())), content, json).into_response();
    if status == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    }
    if may_be_repeated(error) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_SECONDS));
    }
    response
}

fn http_status(error: &Error) -> StatusCode {
    match error {
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
    }
}

/// Returns the type of an error in OpenAI's form.
fn openai_type(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_client_error() => "invalid_request_error",
        _ => "server_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::residency::residents::no_room;

    #[test]
    fn client_of_a_model_off_its_device_is_told_when_to_repeat() {
        let retry = |response: &Response| response.headers().get(RETRY_AFTER).cloned();
        let of = |error: Error| {
            let plain = Failure(error.clone()).into_response();
            let again = in_form(true, Failure(error.clone()).into_response());
            let openai = OpenAiFailure::from(error).into_response();
            [plain, again, openai].map(|response| {
                assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
                retry(&response)
            })
        };
        let second = || Some(HeaderValue::from_static(RETRY_SECONDS));
        assert_eq!(of(no_room()), [second(), second(), second()]);
        assert_eq!(of(Error::Unavailable("the daemon drains".into())), [None, None, None]);
    }
}
