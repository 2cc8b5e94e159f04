//! Inference by a model that is a process: its tensors have shapes of their own.

use crate::class::Class;
use crate::error::{Error, Result};
use crate::net::quota::stream_buffer::StreamSender;
use crate::tensor::TensorInfo;
use bytes::Bytes;
use std::fs::File;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Tensors of a model that generates text: the request as JSON.
pub(crate) const TEXT_REQUEST: &str = "request";
/// A piece of the text.
pub(crate) const TEXT: &str = "text";
/// Reason for the end; empty for all parts but the last one.
pub(crate) const FINISH_REASON: &str = "finish_reason";
/// Numbers of tokens up to this part: of the request and of the text.
pub(crate) const TOKENS: &str = "tokens";

/// Sampling parameters that a model that generates text may take.
pub(crate) const SAMPLING: [&str; 5] =
    ["frequency_penalty", "presence_penalty", "seed", "temperature", "top_p"];

/// Abilities of a model that generates text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextAbilities {
    /// Sampling parameters that it takes, each one of [`SAMPLING`].
    pub(crate) sampling: Vec<String>,
}

impl TextAbilities {
    /// True if it takes a sampling parameter.
    pub(crate) fn takes(&self, name: &str) -> bool {
        self.sampling.iter().any(|taken| taken == name)
    }
}

/// Facts about a request that its process is told, apart from its tensors' data.
#[derive(Debug)]
pub(crate) struct CallHead {
    /// Identifier that the client gave it; may be empty.
    pub(crate) id: String,
    /// Its inputs, with the shapes that the request chose.
    pub(crate) inputs: Vec<TensorInfo>,
    /// Sizes of the requested outputs, once they are there.
    pub(crate) sizes: Arc<OnceLock<Vec<OutputSize>>>,
    /// Receiver of its parts, if it is answered in parts.
    pub(crate) parts: Option<StreamSender<Vec<CallOutput>>>,
    /// Set if it belongs to a sequence.
    pub(crate) sequence: Option<CallSequence>,
}

impl CallHead {
    /// Refuses another class than that of the process that has the state of its sequence.
    ///
    /// # Errors
    ///
    /// `Invalid`.
    pub(crate) fn check_class(&self, class: Class) -> Result<()> {
        match self.sequence.as_ref().and_then(|sequence| sequence.process) {
            Some(process) if process.worker.class != class => Err(Error::Invalid(format!(
                "sequence: must stay in its class {}, got {class}",
                process.worker.class
            ))),
            _ => Ok(()),
        }
    }
}

/// Sequence of a request, whose state a process keeps.
#[derive(Debug)]
pub(crate) struct CallSequence {
    /// Number that its process knows the sequence by. Sequences of other principals have others.
    pub(crate) number: usize,
    pub(crate) starts: bool,
    pub(crate) ends: bool,
    /// Process that has its state; `None` for the first request, which any may take.
    pub(crate) process: Option<ProcessId>,
    /// Receiver of the process that runs it.
    pub(crate) cell: Arc<ProcessCell>,
}

/// Worker of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkerId {
    pub(crate) class: Class,
    /// Number among those of its class.
    pub(crate) number: usize,
}

/// Process of a worker. It ends with its state; the worker's next one has another number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessId {
    pub(crate) worker: WorkerId,
    /// Number of the process among those of the daemon.
    pub(crate) number: u64,
}

/// Worker and process that have run a request. Each is written once, by the worker before it
/// answers, and read after the answer.
#[derive(Debug, Default)]
pub(crate) struct ProcessCell {
    pub(crate) worker: OnceLock<WorkerId>,
    pub(crate) number: OnceLock<u64>,
}

impl ProcessCell {
    /// Returns the process that has run the request; `None` if none has.
    pub(crate) fn id(&self) -> Option<ProcessId> {
        Some(ProcessId { worker: *self.worker.get()?, number: *self.number.get()? })
    }
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
    /// True while its process cannot react, because it was suspended meanwhile.
    pub(crate) is_held: &'a dyn Fn() -> bool,
    /// Set if it belongs to a sequence.
    pub(crate) sequence: Option<&'a CallSequence>,
    pub(crate) inputs: &'a [CallInput<'a>],
    /// Indices of the requested outputs among the model's.
    pub(crate) outputs: &'a [usize],
    /// Takes a part of the answer. An error ends the request, such as that its client has gone.
    pub(crate) part: &'a dyn Fn(Vec<CallOutput>) -> Result<()>,
}

/// An input, with the shape that its request chose.
#[derive(Debug, Clone)]
pub(crate) struct CallInput<'a> {
    pub(crate) tensor: &'a TensorInfo,
    pub(crate) data: CallData,
}

/// Data of an input.
#[derive(Debug, Clone)]
pub(crate) enum CallData {
    Bytes(Bytes),
    File(FilePart),
    Device(DevicePart),
}

/// Part of a client's shared memory, which the process reads by itself. The client may change its
/// bytes and make it shorter at any time.
#[derive(Debug, Clone)]
pub(crate) struct FilePart {
    /// Open for reading alone.
    pub(crate) file: Arc<File>,
    pub(crate) offset: u64,
    pub(crate) length: usize,
}

/// Part of a client's device memory, which the process opens by the driver's handle.
#[derive(Debug, Clone)]
pub(crate) struct DevicePart {
    pub(crate) handle: [u8; 64],
    pub(crate) offset: usize,
    pub(crate) length: usize,
}

impl CallData {
    /// Returns the number of bytes.
    pub(crate) fn length(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::File(part) => part.length,
            Self::Device(part) => part.length,
        }
    }

    /// Returns the bytes that the process is sent.
    pub(crate) fn bytes(&self) -> Option<&Bytes> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::File(_) | Self::Device(_) => None,
        }
    }

    /// Returns the part of a file that the process reads.
    pub(crate) fn file(&self) -> Option<&FilePart> {
        match self {
            Self::File(part) => Some(part),
            Self::Bytes(_) | Self::Device(_) => None,
        }
    }

    /// Returns the part of device memory that the process opens.
    pub(crate) fn device(&self) -> Option<&DevicePart> {
        match self {
            Self::Device(part) => Some(part),
            Self::Bytes(_) | Self::File(_) => None,
        }
    }
}

/// Size that the process chose for an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutputSize {
    pub(crate) shape: Vec<i64>,
    pub(crate) bytes: u64,
}

/// An output, with the shape that the process chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallOutput {
    pub(crate) shape: Vec<i64>,
    pub(crate) bytes: Bytes,
}

impl CallOutput {
    pub(crate) fn size(&self) -> OutputSize {
        OutputSize { shape: self.shape.clone(), bytes: self.bytes.len() as u64 }
    }
}
