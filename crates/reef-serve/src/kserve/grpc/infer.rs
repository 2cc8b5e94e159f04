//! Inference calls.

use super::proto::infer_parameter::ParameterChoice;
use super::proto::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use super::proto::model_infer_response::InferOutputTensor;
use super::proto::*;
use super::raw_message::RawMessage;
use crate::class::{self, Class};
use crate::error::{Error, Result};
use crate::kserve::infer::request::{
    CLASS_HEADER, InferRequest, InputTensor, RequestedOutput, TensorData,
};
use crate::kserve::infer::response::{InferResponse, ResponseOutput};
use crate::kserve::parameter::{Parameter, classes, only_header, region_part};
use crate::net::identity::peer::Peer;
use crate::net::quota::admission::AnswerPermit;
use crate::net::quota::charge::Charge;
use crate::net::quota::connection_pool::{OpenRequest, Stage};
use crate::server::{RequestSlot, Server};
use crate::tensor::{TEXTS, TensorInfo, element, push_text, short};
use bytes::Bytes;
use reef::tensor::{Array, Element};
use std::collections::HashMap;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Status};

/// Caller of inferences: values that are common to all requests of a stream.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    peer: Peer,
    /// Default class of its requests, if the client sends one.
    class: Option<Class>,
    pub(super) charge: Option<Charge>,
    open: Option<Arc<OpenRequest>>,
    pub(super) permit: AnswerPermit,
}

impl Caller {
    /// Reads the caller of a request.
    ///
    /// # Errors
    ///
    /// `Invalid` if the client sends an unknown class, or two.
    pub(super) fn of<T>(request: &Request<T>) -> Result<Self> {
        let given = only_header(request.metadata().as_ref(), CLASS_HEADER)?;
        let class =
            given.map(|value| class::parse(value.to_str().unwrap_or_default())).transpose()?;
        let extensions = request.extensions();
        let peer = extensions.get().cloned().unwrap_or(Peer::UNKNOWN);
        let (charge, open) = (extensions.get().cloned(), extensions.get().cloned());
        let permit = extensions.get().cloned().unwrap_or_default();
        Ok(Self { peer, class, charge, open, permit })
    }

    /// Takes a slot for a request, whose answer the daemon's end waits for.
    fn take_slot(&self, server: &Server) -> Result<RequestSlot> {
        let slot = server.request(&self.peer)?;
        self.permit.begin(&server.unsent);
        Ok(slot)
    }
}

pub(super) async fn infer(
    server: &Server,
    caller: &Caller,
    request: RawMessage,
) -> Result<ModelInferResponse> {
    let _open = caller.take_slot(server)?;
    Ok(write(server.answer(&caller.peer, decode(server, caller, request).await?).await?))
}

/// Answers to one request of a stream.
pub(super) type Answers =
    Pin<Box<dyn Stream<Item = Result<ModelStreamInferResponse, Status>> + Send>>;

/// Runs an inference of a stream. An error becomes an answer, so that the stream continues. The
/// caller clears the charge once the answers have been passed on.
pub(super) async fn infer_in_stream(
    server: &Arc<Server>,
    caller: &Caller,
    request: RawMessage,
) -> Answers {
    caller.open.iter().for_each(|open| open.enter(Stage::Working));
    let begun = begin(server, caller, request).await;
    let answer = match begun {
        Ok((slot, request)) if server.streams(&request) => {
            return parts(server.clone(), caller.clone(), slot, request);
        }
        Ok((slot, request)) => {
            let answer = answer(server, caller, request).await;
            drop(slot);
            answer
        }
        Err(error) => failure(String::new(), &error),
    };
    Box::pin(tokio_stream::once(Ok(answer)))
}

/// Takes a slot for a request of a stream, and reads it.
async fn begin(
    server: &Server,
    caller: &Caller,
    request: RawMessage,
) -> Result<(RequestSlot, InferRequest)> {
    let slot = caller.take_slot(server)?;
    Ok((slot, decode(server, caller, request).await?))
}

/// Returns the only answer to a request.
async fn answer(
    server: &Server,
    caller: &Caller,
    request: InferRequest,
) -> ModelStreamInferResponse {
    let (id, has_final_marker) = (request.id.clone(), request.has_final_marker);
    match server.answer(&caller.peer, request).await {
        Ok(answer) => success(write(answer), has_final_marker.then_some(true)),
        Err(error) => failure(id, &error),
    }
}

/// Returns the answers to a request in parts. The last one is empty, and is there only if the
/// client wants a mark of the end.
fn parts(server: Arc<Server>, caller: Caller, slot: RequestSlot, request: InferRequest) -> Answers {
    let (id, has_final_marker) = (request.id.clone(), request.has_final_marker);
    let (to, answers) = mpsc::channel(1);
    caller.open.iter().for_each(|open| open.set_has_more(true));
    tokio::spawn(async move {
        let end = server.answer_in_parts(&caller.peer, request, &to).await;
        drop(slot);
        caller.open.iter().for_each(|open| open.set_has_more(false));
        let _ = to.send(end.map(|()| None)).await; // the client may be gone
    });
    let response = move |answer: Result<Option<InferResponse>>| match answer {
        Ok(Some(part)) => Some(Ok(success(write(part), has_final_marker.then_some(false)))),
        Ok(None) if has_final_marker => {
            let empty = ModelInferResponse { id: id.clone(), ..ModelInferResponse::default() };
            Some(Ok(success(empty, Some(true))))
        }
        Ok(None) => None,
        Err(error) => Some(Ok(failure(id.clone(), &error))),
    };
    Box::pin(ReceiverStream::new(answers).filter_map(response))
}

fn success(mut response: ModelInferResponse, is_final: Option<bool>) -> ModelStreamInferResponse {
    if let Some(is_final) = is_final {
        response.parameters.insert("triton_final_response".into(), flag(is_final));
    }
    ModelStreamInferResponse { error_message: String::new(), infer_response: Some(response) }
}

/// Returns an error; it has the request's id if that was read.
fn failure(id: String, error: &Error) -> ModelStreamInferResponse {
    ModelStreamInferResponse {
        error_message: error.client_text(),
        infer_response: Some(ModelInferResponse { id, ..ModelInferResponse::default() }),
    }
}

fn flag(value: bool) -> InferParameter {
    InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(value)) }
}

/// Charges the decoded size, and decodes; long messages on a worker thread.
async fn decode(server: &Server, caller: &Caller, request: RawMessage) -> Result<InferRequest> {
    let (class, charge) = (caller.class, caller.charge.clone());
    let (bytes, max) = (request.0.len(), server.config.get().limits.tensors);
    let work = move || {
        let made = request.decoded_bytes()?;
        charge.as_ref().map_or(Ok(()), |charge| charge.add(made))?;
        Ok(InferRequest { class, charge, ..read(request.decode_as()?, max)? })
    };
    server.workers.run(&caller.peer.principal, caller.charge.clone(), bytes, work).await
}

fn read(request: ModelInferRequest, max: usize) -> Result<InferRequest> {
    let given =
        request.inputs.len().max(request.outputs.len()).max(request.raw_input_contents.len());
    if given > max {
        return Err(Error::Invalid(format!(
            "tensors of a request must be at most {max} (limits.tensors), got {given}"
        )));
    }
    let mut infer = InferRequest {
        model: request.model_name,
        version: request.model_version,
        id: request.id,
        ..InferRequest::default()
    };
    for (key, value) in parameters(&request.parameters) {
        infer.parameter(key, &value)?;
    }
    let mut raw = request.raw_input_contents.into_iter();
    let inputs = request.inputs.into_iter().map(|tensor| input(tensor, &mut raw));
    infer.inputs = inputs.collect::<Result<_>>()?;
    if raw.next().is_some() {
        return Err(Error::Invalid("raw contents must match the inputs without a region".into()));
    }
    let outputs =
        request.outputs.into_iter().map(|InferRequestedOutputTensor { name, parameters: p }| {
            let (to, classes) = (region_part(parameters(&p))?, classes(parameters(&p))?);
            Ok(RequestedOutput { name, to, is_binary: None, classes })
        });
    infer.outputs = outputs.collect::<Result<_>>()?;
    Ok(infer)
}

fn input(tensor: InferInputTensor, raw: &mut impl Iterator<Item = Bytes>) -> Result<InputTensor> {
    let InferInputTensor { name, datatype, shape, parameters: p, contents } = tensor;
    let from = match (region_part(parameters(&p))?, contents) {
        (Some(part), None) => TensorData::Region(part),
        (None, Some(contents)) => {
            let bytes = encode_list(&datatype, contents);
            let wrong = |why: String| Error::Invalid(format!("tensor {:?}: {why}", short(&name)));
            TensorData::Bytes(bytes.map_err(wrong)?.into())
        }
        (None, None) => TensorData::Bytes(raw.next().ok_or_else(|| {
            Error::Invalid(format!("tensor {:?}: must have contents", short(&name)))
        })?),
        (Some(_), Some(_)) => {
            let name = short(&name);
            return Err(Error::Invalid(format!(
                "tensor {name:?}: must have contents or a region, not both"
            )));
        }
    };
    Ok(InputTensor { name, datatype, shape, from })
}

fn parameters(map: &HashMap<String, InferParameter>) -> impl Iterator<Item = (&str, Parameter)> {
    map.iter().map(|(key, value)| (key.as_str(), parameter(value)))
}

fn parameter(value: &InferParameter) -> Parameter {
    match &value.parameter_choice {
        Some(ParameterChoice::Uint64Param(n)) => Parameter::Number(*n),
        Some(ParameterChoice::Int64Param(n)) => {
            u64::try_from(*n).map_or(Parameter::Other, Parameter::Number)
        }
        Some(ParameterChoice::StringParam(text)) => Parameter::Text(text.clone()),
        Some(ParameterChoice::BoolParam(flag)) => Parameter::Flag(*flag),
        _ => Parameter::Other,
    }
}

/// Encodes the numbers or the texts of the list for their type; empty if there is no list for it.
///
/// # Errors
///
/// The reason, if there are lists for other types, or a number does not fit its type.
fn encode_list(datatype: &str, contents: InferTensorContents) -> Result<Vec<u8>, String> {
    let filled = filled_lists(&contents);
    if filled > 1 {
        return Err(format!("must have one list of contents, got {filled}"));
    }
    if datatype != TEXTS && element(datatype).is_none() {
        return Ok(Vec::new()); // the check of the model's types refuses it
    }
    let bytes = match element(datatype) {
        None => {
            let mut bytes = Vec::new();
            contents.bytes_contents.iter().for_each(|text| push_text(&mut bytes, text));
            bytes
        }
        Some(element) => numbers_of(element, contents)?.to_le_bytes(),
    };
    if bytes.is_empty() && filled > 0 {
        return Err(format!("must have contents of {datatype}, or raw contents"));
    }
    Ok(bytes)
}

/// Numbers of the list for a type; none if there is no list for it.
fn numbers_of(element: Element, contents: InferTensorContents) -> Result<Array, String> {
    Ok(match element {
        Element::F32 => Array::F32(contents.fp32_contents),
        Element::F64 => Array::F64(contents.fp64_contents),
        Element::I64 => Array::I64(contents.int64_contents),
        Element::U64 => Array::U64(contents.uint64_contents),
        Element::I32 | Element::I16 | Element::I8 => {
            let half = 1i64 << (8 * element.bytes() - 1);
            fitting(element, -half..half, &contents.int_contents)?
        }
        Element::U32 | Element::U16 | Element::U8 => {
            fitting(element, 0..1i64 << (8 * element.bytes()), &contents.uint_contents)?
        }
        Element::Bool => {
            Array::from_i64(element, contents.bool_contents.into_iter().map(i64::from))
        }
        Element::F16 | Element::BF16 => Array::with_capacity(element, 0),
    })
}

/// Numbers as those of a type, which must be in its range. One by one: all of them as 64 bits would
/// take eight times the bytes of the message.
fn fitting<N: Copy + Into<i64>>(
    element: Element,
    range: Range<i64>,
    numbers: &[N],
) -> Result<Array, String> {
    let each = || numbers.iter().map(|&number| -> i64 { number.into() });
    match each().find(|number| !range.contains(number)) {
        Some(number) => Err(format!("{number} must fit {element}")),
        None => Ok(Array::from_i64(element, each())),
    }
}

/// Number of lists that have numbers or texts.
fn filled_lists(contents: &InferTensorContents) -> usize {
    let lens = [
        contents.bool_contents.len(),
        contents.int_contents.len(),
        contents.int64_contents.len(),
        contents.uint_contents.len(),
        contents.uint64_contents.len(),
        contents.fp32_contents.len(),
        contents.fp64_contents.len(),
        contents.bytes_contents.len(),
    ];
    lens.into_iter().filter(|&len| len > 0).count()
}

fn write(answer: InferResponse) -> ModelInferResponse {
    let outputs = answer.tensors().map(|(info, output)| output_tensor(info, output)).collect();
    ModelInferResponse {
        model_name: answer.model.spec.name.to_string(),
        model_version: answer.model.spec.version.to_string(),
        id: answer.id,
        parameters: HashMap::new(),
        outputs,
        // One for each output, empty if it went to a region.
        raw_output_contents: answer.outputs.into_iter().map(|output| output.bytes).collect(),
    }
}

/// Returns an output without its bytes.
fn output_tensor(info: &TensorInfo, output: &ResponseOutput) -> InferOutputTensor {
    let text = |text: &str| ParameterChoice::StringParam(text.into());
    let number = |n: u64| ParameterChoice::Int64Param(n as i64);
    let region = output.to.iter().flat_map(|part| {
        [
            ("shared_memory_region", text(&part.region)),
            ("shared_memory_byte_size", number(part.bytes)),
            ("shared_memory_offset", number(part.offset)),
        ]
    });
    let parameters = region
        .map(|(key, value)| (key.to_owned(), InferParameter { parameter_choice: Some(value) }));
    let (datatype, shape) = output.datatype_and_shape(info);
    InferOutputTensor {
        name: info.name.clone(),
        datatype: datatype.into(),
        shape: shape.to_vec(),
        parameters: parameters.collect(),
        contents: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_with_too_many_tensors_is_refused() {
        let many = |inputs, outputs, contents| ModelInferRequest {
            inputs: vec![InferInputTensor::default(); inputs],
            outputs: vec![InferRequestedOutputTensor::default(); outputs],
            raw_input_contents: vec![Bytes::new(); contents],
            ..ModelInferRequest::default()
        };
        for request in [many(3, 0, 0), many(0, 3, 0), many(0, 0, 3)] {
            let said = read(request, 2).unwrap_err().to_string();
            assert_eq!(said, "tensors of a request must be at most 2 (limits.tensors), got 3");
        }
        assert!(read(many(2, 2, 2), 2).is_ok());
    }

    #[test]
    fn lists_of_other_types_and_numbers_out_of_range_are_refused() {
        let floats = || InferTensorContents { fp32_contents: vec![0.5], ..Default::default() };
        let ints = |int_contents| InferTensorContents { int_contents, ..Default::default() };
        let uints = |uint_contents| InferTensorContents { uint_contents, ..Default::default() };
        let both = InferTensorContents { int_contents: vec![1], ..floats() };
        for (datatype, contents, why) in [
            ("FP32", both, "must have one list of contents, got 2"),
            ("INT32", floats(), "must have contents of INT32, or raw contents"),
            ("FP16", floats(), "must have contents of FP16, or raw contents"),
            ("BYTES", floats(), "must have contents of BYTES, or raw contents"),
            ("INT8", ints(vec![0, 128]), "128 must fit int8"),
            ("INT16", ints(vec![-32_769]), "-32769 must fit int16"),
            ("UINT8", uints(vec![256]), "256 must fit uint8"),
        ] {
            assert_eq!(encode_list(datatype, contents), Err(why.into()), "{datatype}");
        }
        assert_eq!(encode_list("FP32", floats()), Ok(0.5f32.to_le_bytes().into()));
        assert_eq!(encode_list("INT8", ints(vec![-128, 127])), Ok(vec![0x80, 0x7f]));
        let all = encode_list("UINT32", uints(vec![u32::MAX]));
        assert_eq!(all, Ok(u32::MAX.to_le_bytes().into()));
        assert_eq!(encode_list("FP16", InferTensorContents::default()), Ok(Vec::new()));
    }
}
