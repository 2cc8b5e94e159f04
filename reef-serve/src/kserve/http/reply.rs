//! What handlers are given and what they give.

use crate::kserve::failure::Failure;
use crate::server::Server;
use axum::extract::State;
use std::sync::Arc;

/// What handlers know.
pub(super) type App = State<Arc<Server>>;
/// What handlers give.
pub(super) type Reply<T> = Result<T, Failure>;
