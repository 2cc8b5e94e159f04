//! How an error becomes a gRPC status.

use crate::error::Error;
use tonic::Status;

/// An error as gRPC says it.
pub(super) fn status(error: Error) -> Status {
    let text = error.said();
    match error {
        Error::NotFound(_) => Status::not_found(text),
        Error::Invalid(_) => Status::invalid_argument(text),
        Error::Exists(_) => Status::already_exists(text),
        Error::Exhausted(_) => Status::resource_exhausted(text),
        Error::Deadline(_) => Status::deadline_exceeded(text),
        Error::Unavailable(_) => Status::unavailable(text),
        Error::Unimplemented(_) => Status::unimplemented(text),
        Error::Denied(_) => Status::permission_denied(text),
        Error::Failed(_) => Status::internal(text),
    }
}
