//! Types of handlers' arguments and results.

use crate::kserve::failure::Failure;
use crate::server::Server;
use axum::extract::State;
use std::sync::Arc;

/// State of handlers.
pub(super) type App = State<Arc<Server>>;
/// Result of handlers.
pub(super) type Reply<T> = Result<T, Failure>;

/// Model and, optionally, version of a path.
#[derive(Debug, serde::Deserialize)]
pub(super) struct ModelPath {
    pub(super) model: String,
    #[serde(default)]
    pub(super) version: String,
}
