//! Steps of a network of tensors.

use reef_core::tensor::TensorOp;
use std::sync::Arc;

/// One operation of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorStep {
    /// Of the node that it belongs to.
    pub name: String,
    /// Its operation.
    pub op: Arc<TensorOp>,
    /// Storages that it reads, in the operation's order.
    pub reads: Vec<usize>,
    /// The storage that it fills.
    pub writes: usize,
}
