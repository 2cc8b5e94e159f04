//! The standard protocol: KServe v2 with Triton's extensions.
//!
//! - **In**: requests over gRPC and HTTP, decoded by the libraries of each.
//! - **Out**: one inference for [`Server`](crate::server::Server), and its response in the same
//!   protocol.
//! - **Invariant**: a request is checked completely before it is queued, and both protocols use the
//!   same check, so they refuse the same requests with the same text.

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
