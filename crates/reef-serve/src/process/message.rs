//! Headers of frames, as JSON.

use crate::engine::call::{
    Call, CallInput, CallOutput, CallSequence, DevicePart, SAMPLING, TextAbilities,
};
use crate::error::{Error, Result};
use crate::tensor::{TEXTS, TensorInfo, TensorInfos, element, short};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Version of the protocol.
pub(super) const PROTOCOL: u32 = 1;

/// Maximum number of sizes of a tensor.
const MAX_RANK: usize = 16;

/// Tensors of a model that generates text.
const TEXT_INPUTS: &str = "request BYTES [1]";
const TEXT_OUTPUTS: &str = "text BYTES [1], finish_reason BYTES [1], tokens INT64 [2]";

/// Message to a process.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ToProcess<'a> {
    Start {
        protocol: u32,
        model: &'a str,
        version: u32,
        class: &'a str,
        instance: usize,
        device: &'a str,
        folder: &'a str,
        max_bytes: u64,
        max_batch: usize,
        /// True: a program may say that it reads files.
        files: bool,
        /// True: a program may say that it opens device memory.
        device_memory: bool,
        /// Identity of its device, 32 hexadecimal digits.
        #[serde(skip_serializing_if = "Option::is_none")]
        gpu: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        config: Option<&'a RawValue>,
    },
    Infer {
        request: u64,
        id: &'a str,
        class: &'a str,
        timeout_us: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        sequence: Option<SequenceHeader>,
        inputs: Vec<InputHeader>,
        outputs: Vec<&'a str>,
    },
    /// The descriptor of a file with an input of the next request comes with this message.
    File,
    /// Requests with these numbers follow, and run together.
    Batch {
        requests: Vec<u64>,
    },
    Cancel {
        request: u64,
    },
}

/// Sequence of a request.
#[derive(Debug, Serialize)]
pub(super) struct SequenceHeader {
    id: usize,
    start: bool,
    end: bool,
}

/// An input of a request. Its bytes follow those of the input before it, or are in a file or in
/// device memory.
#[derive(Debug, Serialize)]
pub(super) struct InputHeader {
    name: String,
    datatype: String,
    shape: Vec<i64>,
    bytes: u64,
    /// Offset in its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<DeviceHeader>,
}

/// Place of an input in device memory.
#[derive(Debug, Serialize)]
struct DeviceHeader {
    /// The driver's, 128 hexadecimal digits.
    handle: String,
    /// Offset in the memory of the handle.
    offset: u64,
}

impl DeviceHeader {
    fn new(part: &DevicePart) -> Self {
        Self { handle: hex(&part.handle), offset: part.offset as u64 }
    }
}

/// Returns two digits for each byte.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Message from a process.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum FromProcess {
    Ready {
        protocol: u32,
        inputs: Vec<Declared>,
        outputs: Vec<Declared>,
        #[serde(default)]
        streams: bool,
        #[serde(default)]
        batches: bool,
        #[serde(default)]
        files: bool,
        #[serde(default)]
        device_memory: bool,
        #[serde(default)]
        text: Option<DeclaredText>,
    },
    /// One of several answers.
    Part {
        request: u64,
        outputs: Vec<TensorHeader>,
    },
    /// No answer follows.
    End {
        request: u64,
    },
    Answer {
        request: u64,
        outputs: Vec<TensorHeader>,
    },
    Error {
        request: Option<u64>,
        error: String,
        #[serde(default)]
        kind: Kind,
    },
}

impl FromProcess {
    /// Returns the number of the request that it answers.
    pub(super) fn request(&self) -> Option<u64> {
        match self {
            Self::Part { request, .. } | Self::End { request } | Self::Answer { request, .. } => {
                Some(*request)
            }
            Self::Error { request, .. } => *request,
            Self::Ready { .. } => None,
        }
    }
}

/// A tensor of a model: -1 is a size that each request chooses.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Declared {
    name: String,
    datatype: String,
    shape: Vec<i64>,
}

/// Declaration of a model that generates text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeclaredText {
    /// Sampling parameters that it takes.
    #[serde(default)]
    parameters: Vec<String>,
}

/// A tensor of a message. Its bytes follow those of the tensor before it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TensorHeader {
    name: String,
    datatype: String,
    shape: Vec<i64>,
    bytes: u64,
}

/// Kind of a program's error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// The program failed.
    #[default]
    Failed,
    /// The request is wrong.
    Invalid,
    /// A resource of the program is full.
    Exhausted,
    /// The program takes no requests now.
    Unavailable,
}

impl Kind {
    /// Returns the error of a request.
    pub(super) fn error(self, text: String) -> Error {
        match self {
            Self::Failed => Error::Program(text),
            Self::Invalid => Error::Invalid(text),
            Self::Exhausted => Error::Exhausted(text),
            Self::Unavailable => Error::Unavailable(text),
        }
    }
}

/// Returns a model's tensors, as its program declares them. Their number is bounded where a request
/// has them, by `limits.tensors`.
///
/// # Errors
///
/// `Invalid`, with the tensor.
pub(super) fn declared(which: &str, tensors: Vec<Declared>) -> Result<TensorInfos> {
    if tensors.is_empty() {
        return Err(Error::Invalid(format!("{which} must have at least 1 tensor, got none")));
    }
    let each = tensors.into_iter().map(|tensor| tensor.info(which)).collect::<Result<Vec<_>>>()?;
    let mut names: Vec<&str> = each.iter().map(|info| &*info.name).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => Err(Error::Invalid(format!(
            "{which} must have names of their own, got {:?} twice",
            short(twice[0])
        ))),
        None => Ok(TensorInfos { each, bytes: 0, has_checks: false }),
    }
}

impl Declared {
    fn info(self, which: &str) -> Result<TensorInfo> {
        let Self { name, datatype, shape } = self;
        let wrong =
            |why: String| Error::Invalid(format!("{which}: tensor {:?}: {why}", short(&name)));
        let element = element(&datatype);
        if element.is_none() && datatype != TEXTS {
            return Err(wrong(format!("unknown datatype {:?}", short(&datatype))));
        }
        if name.is_empty() {
            return Err(wrong("a name must not be empty".into()));
        }
        if shape.len() > MAX_RANK || shape.iter().any(|&size| size < -1) {
            let shown = &shape[..shape.len().min(MAX_RANK)];
            return Err(wrong(format!(
                "a shape must have at most {MAX_RANK} sizes from -1, got {shown:?}"
            )));
        }
        Ok(TensorInfo { name, element, shape, offset: 0, bound: None, texts: None })
    }
}

impl DeclaredText {
    /// Returns the abilities of a model with these tensors.
    ///
    /// # Errors
    ///
    /// `Invalid` if it does not answer in parts, has other tensors, or takes an unknown parameter.
    pub(super) fn abilities(
        self,
        streams: bool,
        inputs: &TensorInfos,
        outputs: &TensorInfos,
    ) -> Result<TextAbilities> {
        if !streams {
            let text = "text: must be of a program that answers in parts".into();
            return Err(Error::Invalid(text));
        }
        for (which, tensors, want) in
            [("inputs", inputs, TEXT_INPUTS), ("outputs", outputs, TEXT_OUTPUTS)]
        {
            let given = listed(tensors);
            if given != want {
                let given = short(&given);
                return Err(Error::Invalid(format!("text: {which} must be {want}, got {given}")));
            }
        }
        let is_unknown = |name: &&String| !SAMPLING.contains(&name.as_str());
        if let Some(name) = self.parameters.iter().find(is_unknown) {
            let (known, name) = (SAMPLING.join(", "), short(name));
            let text = format!("text: parameters must be of {known}, got {name:?}");
            return Err(Error::Invalid(text));
        }
        Ok(TextAbilities { sampling: self.parameters })
    }
}

/// Returns names, types and shapes of tensors, for a comparison.
fn listed(tensors: &TensorInfos) -> String {
    let one = |info: &TensorInfo| format!("{} {} {:?}", info.name, info.datatype(), info.shape);
    tensors.each.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Returns the header of a request.
pub(super) fn infer<'a>(request: u64, call: &Call<'a>, outputs: &'a TensorInfos) -> ToProcess<'a> {
    let input = |input: &CallInput<'_>| InputHeader {
        name: input.tensor.name.clone(),
        datatype: input.tensor.datatype().into(),
        shape: input.tensor.shape.clone(),
        bytes: input.data.length() as u64,
        offset: input.data.file().map(|part| part.offset),
        device: input.data.device().map(DeviceHeader::new),
    };
    let sequence = |sequence: &CallSequence| SequenceHeader {
        id: sequence.number,
        start: sequence.starts,
        end: sequence.ends,
    };
    ToProcess::Infer {
        request,
        id: call.id,
        class: call.class.name(),
        timeout_us: u64::try_from(call.time.as_micros()).unwrap_or(u64::MAX),
        sequence: call.sequence.map(sequence),
        inputs: call.inputs.iter().map(input).collect(),
        outputs: call.outputs.iter().map(|&index| &*outputs.each[index].name).collect(),
    }
}

/// Returns the requested outputs of an answer, in the order of the request.
///
/// # Errors
///
/// `Program` if an output is missing, or does not match its declaration.
pub(super) fn outputs(
    answered: Vec<TensorHeader>,
    mut tensors: Bytes,
    requested: &[usize],
    declared: &TensorInfos,
) -> Result<Vec<CallOutput>> {
    let wrong = |error: Error| Error::Program(format!("answer: {}", error.text()));
    let mut found: Vec<Option<CallOutput>> = vec![None; declared.each.len()];
    for header in answered {
        let index = declared.find(&header.name).map_err(wrong)?;
        let output = header.take(&declared.each[index], &mut tensors).map_err(wrong)?;
        if found[index].replace(output).is_some() {
            let text = format!("output {} must be there once", declared.each[index].name);
            return Err(wrong(Error::Invalid(text)));
        }
    }
    if !tensors.is_empty() {
        let text =
            format!("tensors must end with the last output, got {} more bytes", tensors.len());
        return Err(wrong(Error::Invalid(text)));
    }
    let one = |&index: &usize| {
        let missing =
            || wrong(Error::Invalid(format!("must have output {}", declared.each[index].name)));
        found[index].clone().ok_or_else(missing)
    };
    requested.iter().map(one).collect()
}

impl TensorHeader {
    /// Takes its bytes from the front of `tensors`.
    fn take(self, info: &TensorInfo, tensors: &mut Bytes) -> Result<CallOutput> {
        let info = info.with_shape(&self.datatype, &self.shape)?;
        let length = usize::try_from(self.bytes).ok().filter(|length| *length <= tensors.len());
        let length = length.ok_or_else(|| {
            let (name, want, got) = (&info.name, self.bytes, tensors.len());
            Error::Invalid(format!("tensor {name}: must have {want} bytes, got {got}"))
        })?;
        let bytes = tensors.split_to(length);
        info.check_data(&bytes)?;
        Ok(CallOutput { shape: self.shape, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::limits::Limits;

    #[test]
    fn program_declares_as_many_tensors_as_a_request_may_have() {
        let one = |number: usize| Declared {
            name: format!("x{number}"),
            datatype: "FP32".into(),
            shape: vec![1],
        };
        let max = Limits::default().tensors;
        assert_eq!(declared("inputs", (0..max).map(one).collect()).unwrap().each.len(), max);
        let said = declared("inputs", Vec::new()).unwrap_err().to_string();
        assert_eq!(said, "inputs must have at least 1 tensor, got none");
        let said = declared("inputs", vec![one(7), one(7)]).unwrap_err().to_string();
        assert_eq!(said, "inputs must have names of their own, got \"x7\" twice");
    }
}
