//! Handles of the server's graphs.

use super::objects::Handle;
use super::transfers::Transfers;
use std::sync::Arc;

/// Commands that the server keeps, submitted as one.
#[derive(Debug, Clone)]
pub struct Graph(pub(super) Arc<KeptGraph>);

/// A graph and what it works on.
#[derive(Debug)]
pub(super) struct KeptGraph {
    pub(super) handle: Handle,
    pub(super) transfers: Transfers,
}
