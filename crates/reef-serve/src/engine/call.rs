//! Inference by a model that is a process: its tensors have shapes of their own.

use crate::class::Class;
use crate::tensor::TensorInfo;
use bytes::Bytes;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::mpsc::Sender;

/// Facts about a request that its process is told, apart from its tensors' data.
#[derive(Debug)]
pub(crate) struct CallHead {
    /// Identifier that the client gave it; may be empty.
    pub(crate) id: String,
    /// Its inputs, with the shapes that the request chose.
    pub(crate) inputs: Vec<TensorInfo>,
    /// Shapes of the requested outputs, once they are there.
    pub(crate) shapes: Arc<OnceLock<Vec<Vec<i64>>>>,
    /// Receiver of its parts, if it is answered in parts.
    pub(crate) parts: Option<Sender<Vec<CallOutput>>>,
}

/// One inference by a process.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    /// Identifier that the client gave it; may be empty.
    pub(crate) id: &'a str,
    pub(crate) class: Class,
    /// Remaining time.
    pub(crate) time: Duration,
    /// True if no client waits for it any more.
    pub(crate) gone: &'a dyn Fn() -> bool,
    pub(crate) inputs: &'a [CallInput<'a>],
    /// Indices of the requested outputs among the model's.
    pub(crate) outputs: &'a [usize],
    /// Takes a part of the answer; false if no client waits for more.
    pub(crate) part: &'a dyn Fn(Vec<CallOutput>) -> bool,
}

/// An input, with the shape that its request chose.
#[derive(Debug, Clone)]
pub(crate) struct CallInput<'a> {
    pub(crate) tensor: &'a TensorInfo,
    pub(crate) bytes: Bytes,
}

/// An output, with the shape that the process chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallOutput {
    pub(crate) shape: Vec<i64>,
    pub(crate) bytes: Bytes,
}
