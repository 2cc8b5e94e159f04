//! The standard protocol: KServe v2 with Triton's extensions.
//!
//! - **In**: requests over gRPC and HTTP, decoded by the libraries of each.
//! - **Out**: one inference for [`Server`](crate::server::Server), and its response in the same
//!   protocol.
//! - **Invariant**: a request is checked whole before it is queued, and both protocols go through
//!   the same check, so what one refuses the other refuses with the same words.

pub(crate) mod answer;
mod browser_guard;
mod charged_body;
mod compressed;
mod discard_body;
pub(crate) mod failure;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod infer;
mod middleware;
pub(crate) mod parameter;
mod server_metadata;
mod settings;
mod sharing;
