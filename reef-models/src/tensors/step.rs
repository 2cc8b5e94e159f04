//! What a network of tensors does, one operation at a time.

use reef_core::tensor::TensorOp;
use std::sync::Arc;

/// One operation of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorStep {
    /// Of the node that it belongs to.
    pub name: String,
    /// What it computes.
    pub op: Arc<TensorOp>,
    /// Storages that it reads, in the operation's order.
    pub reads: Vec<usize>,
    /// The storage that it fills.
    pub writes: usize,
}
