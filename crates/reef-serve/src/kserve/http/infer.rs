//! Inference calls.
//!
//! With the header below, the body is JSON of that length, followed by the raw bytes of the inputs
//! with `binary_data_size`, one after the other. Answers have the same form. Without JSON the body
//! is the only input.

use super::json::{
    Data, InferRequestJson, InferResponseJson, InputJson, OutputJson, OutputTensorJson, parameters,
};
use super::numbers::list::{NumberList, flat};
use super::numbers::non_finite::{quote, to_json};
use super::numbers::texts;
use super::reply::{App, ModelPath, Reply};
use crate::class::{self, Class};
use crate::error::{Error, Result};
use crate::kserve::compressed::{Encoding, inflate};
use crate::kserve::infer::request::{
    CLASS_HEADER, InferRequest, InputTensor, RequestedOutput, TensorData,
};
use crate::kserve::infer::response::{InferResponse, ResponseOutput};
use crate::kserve::parameter::{Parameter, classes, only_header, region_part};
use crate::models::loaded_model::LoadedModel;
use crate::net::identity::peer::Peer;
use crate::net::quota::charge::Charge;
use crate::requests::buffer_pool::BufferPool;
use crate::server::Server;
use crate::tensor::{TEXTS, TensorInfo, element, short};
use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::sync::Arc;

/// Length of the shortest number in JSON: `0,`.
const MIN_NUMBER_BYTES: u64 = 2;

/// Upper bound of the bytes for a byte of JSON: `"",` is a text of 4 bytes.
const TEXT_FACTOR: u64 = 2;

/// Returns the maximum bytes of JSON for a byte of numbers: `-1.1754944e-38,` is a float, `false,`
/// a boolean.
pub(super) fn text_per_byte(info: &TensorInfo) -> u64 {
    match info.wire_element() {
        None => 6, // `\u0001`
        Some(element) if element.bytes() < 4 => 7,
        Some(_) => 4,
    }
}

/// Header with the length of the JSON, if binary data follows it.
const JSON_LENGTH: &str = "inference-header-content-length";

pub(super) async fn infer(
    State(server): App,
    Extension(peer): Extension<Peer>,
    Extension(charge): Extension<Charge>,
    Path(ModelPath { model, version }): Path<ModelPath>,
    headers: HeaderMap,
    body: Bytes,
) -> Reply<Response> {
    let (max, principal) = (server.config.get().limits.tensors, &peer.principal);
    let body = decompress(&server, &peer, &charge, &headers, body).await?;
    let (json, binary) = split(&headers, body)?;
    let mut request = if json.is_empty() && headers.contains_key(JSON_LENGTH) {
        let model = server.registry.get(&model, &version)?;
        InferRequest { class: class(&headers)?, ..of_only_input(&model, binary)? }
    } else {
        let (bytes, work_charge, buffers) = (json.len(), charge.clone(), server.buffers.clone());
        let read = move || read(&headers, &json, binary, max, Some(&work_charge), &buffers);
        server.workers.run(principal, charge.clone(), bytes, read).await?
    };
    (request.model, request.version) = (model, version);
    request.charge = Some(charge.clone());
    let answer = server.answer(&peer, request).await?;
    let texts = answer.tensors().filter(|(_, output)| is_text(output));
    let (bytes, text) = texts.fold((0, 0), |(bytes, text), (info, output)| {
        let more = output.bytes.len();
        (bytes + more, text + text_per_byte(info) * more as u64)
    });
    charge.add(text)?;
    Ok(server.workers.run(principal, charge.clone(), bytes, move || Ok(write(&answer))).await?)
}

/// Returns a body without its compression, if it has one. It is charged as it grows.
pub(super) async fn decompress(
    server: &Server,
    peer: &Peer,
    charge: &Charge,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Bytes> {
    let name = header::CONTENT_ENCODING;
    let Some(encoding) = Encoding::of(headers, name.as_str())? else { return Ok(body) };
    let (max, work_charge) = (server.config.get().limits.message_mib << 20, charge.clone());
    let work = move || inflate(&body, encoding, max, &work_charge);
    server.workers.run_blocking(&peer.principal, charge.clone(), work).await
}

/// Runs a request with this body and, optionally, this length of its JSON; for fuzzers.
#[cfg(feature = "fuzzing")]
pub(crate) async fn fuzz(server: &Server, length: Option<u16>, body: &[u8]) {
    let mut headers = HeaderMap::new();
    headers.extend(length.map(|n| (header::HeaderName::from_static(JSON_LENGTH), n.into())));
    let Ok((json, binary)) = split(&headers, Bytes::copy_from_slice(body)) else { return };
    let max = server.config.get().limits.tensors;
    if let Ok(mut request) = read(&headers, &json, binary, max, None, &server.buffers) {
        request.model = "tiny".into();
        if let Ok(answer) = server.answer(&Peer::UNKNOWN, request).await {
            let _ = write(&answer);
        }
    }
}

/// Reads the request. The memory of its numbers is charged.
fn read(
    headers: &HeaderMap,
    json: &[u8],
    mut binary: Bytes,
    max: usize,
    charge: Option<&Charge>,
    buffers: &Arc<BufferPool>,
) -> Result<InferRequest> {
    let json = quote(json);
    let more = if matches!(json, Cow::Owned(_)) { json.len() as u64 } else { 0 };
    charge.map_or(Ok(()), |charge| charge.add(more))?;
    let request: InferRequestJson =
        serde_json::from_slice(&json).map_err(|e| Error::Invalid(format!("JSON: {e}")))?;
    let given = request.inputs.len().max(request.outputs.len());
    if given > max {
        return Err(Error::Invalid(format!(
            "tensors of a request must be at most {max} (limits.tensors), got {given}"
        )));
    }
    let mut infer =
        InferRequest { id: request.id, class: class(headers)?, ..InferRequest::default() };
    for (key, value) in parameters(&request.parameters) {
        infer.parameter(key, &value)?;
    }
    let inputs =
        request.inputs.into_iter().map(|tensor| input(tensor, &mut binary, charge, buffers));
    infer.inputs = inputs.collect::<Result<_>>()?;
    if !binary.is_empty() {
        return Err(Error::Invalid(format!(
            "binary data must end with the last tensor, got {} more bytes",
            binary.len()
        )));
    }
    let is_binary = parameter(&request.parameters, "binary_data_output", Parameter::flag)?;
    infer.is_binary = is_binary.unwrap_or(false);
    let outputs = request.outputs.into_iter().map(|OutputJson { name, parameters: p }| {
        let is_binary = parameter(&p, "binary_data", Parameter::flag)?;
        let (to, classes) = (region_part(parameters(&p))?, classes(parameters(&p))?);
        Ok(RequestedOutput { name, to, is_binary, classes })
    });
    infer.outputs = outputs.collect::<Result<_>>()?;
    Ok(infer)
}

/// Returns the request of a body that is the data of a model's only input.
fn of_only_input(model: &LoadedModel, body: Bytes) -> Result<InferRequest> {
    let mut inputs = model.request_inputs();
    let (Some(info), None) = (inputs.next(), inputs.next()) else {
        let title = model.title();
        let text = format!("model {title}: a request without JSON must be for one input");
        return Err(Error::Invalid(text));
    };
    let (name, datatype) = (info.name.clone(), info.datatype().to_owned());
    let (shape, data) = only_tensor(info, body)?;
    let input = InputTensor { name, datatype, shape, from: TensorData::Bytes(data) };
    Ok(InferRequest { inputs: vec![input], is_binary: true, ..InferRequest::default() })
}

/// Returns the shape of a tensor of these bytes, of which one size may be open, and its data: a
/// text follows its length.
fn only_tensor(info: &TensorInfo, body: Bytes) -> Result<(Vec<i64>, Bytes)> {
    let mut shape = info.shape.clone();
    let open: Vec<usize> = (0..shape.len()).filter(|&axis| shape[axis] < 0).collect();
    let Some(element) = info.wire_element() else {
        open.iter().for_each(|&axis| shape[axis] = 1);
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes();
        return Ok((shape, [&length[..], &body[..]].concat().into()));
    };
    let fixed = shape.iter().map(|&size| usize::try_from(size).unwrap_or(1));
    let bytes = fixed.fold(element.bytes(), usize::saturating_mul);
    match open[..] {
        [] => {}
        [axis] => shape[axis] = body.len().checked_div(bytes).unwrap_or_default() as i64,
        _ => {
            let name = &info.name;
            let text = format!(
                "tensor {name}: a request without JSON can have one open size, got {shape:?}"
            );
            return Err(Error::Invalid(text));
        }
    }
    Ok((shape, body))
}

/// Returns the value of a parameter, if it is given.
fn parameter<T>(
    map: &Map<String, Value>,
    name: &str,
    value: impl Fn(&Parameter, &str) -> Result<T>,
) -> Result<Option<T>> {
    let given = parameters(map).find(|(key, _)| *key == name);
    given.map(|(_, given)| value(&given, name)).transpose()
}

/// Splits the body into the JSON and the binary data.
fn split(headers: &HeaderMap, mut body: Bytes) -> Result<(Bytes, Bytes)> {
    let Some(length) = only_header(headers, JSON_LENGTH)? else { return Ok((body, Bytes::new())) };
    let digits = length.to_str().ok().filter(|text| !text.starts_with('+'));
    let length = digits.and_then(|text| text.parse().ok());
    let length = length.filter(|&length: &usize| length <= body.len()).ok_or_else(|| {
        Error::Invalid(format!("{JSON_LENGTH} must be at most the body's {} bytes", body.len()))
    })?;
    let binary = body.split_off(length);
    Ok((body, binary))
}

/// Returns the class that a client states for its requests.
pub(super) fn class(headers: &HeaderMap) -> Result<Option<Class>> {
    let given = only_header(headers, CLASS_HEADER)?;
    given.map(|value| class::parse(value.to_str().unwrap_or_default())).transpose()
}

fn input(
    tensor: InputJson<'_>,
    binary: &mut Bytes,
    charge: Option<&Charge>,
    buffers: &Arc<BufferPool>,
) -> Result<InputTensor> {
    let InputJson { name, datatype, shape, parameters: p, data } = tensor;
    let size = parameter(&p, "binary_data_size", Parameter::number)?;
    let from = match (region_part(parameters(&p))?, size, data) {
        (Some(part), None, None) => TensorData::Region(part),
        (None, Some(size), None) if size <= binary.len() as u64 => {
            TensorData::Bytes(binary.split_to(size as usize))
        }
        (None, Some(size), None) => {
            let (name, left) = (short(&name), binary.len());
            let text =
                format!("tensor {name:?}: must have {size} bytes of binary data, got {left}");
            return Err(Error::Invalid(text));
        }
        (None, None, Some(data)) => {
            TensorData::Bytes(from_json(&name, &datatype, data, charge, buffers)?)
        }
        _ => {
            let name = short(&name);
            let text = format!("tensor {name:?}: must have one of data, binary data and a region");
            return Err(Error::Invalid(text));
        }
    };
    Ok(InputTensor { name, datatype, shape, from })
}

/// Converts a tensor in JSON to bytes.
pub(super) fn from_json(
    name: &str,
    datatype: &str,
    data: &RawValue,
    charge: Option<&Charge>,
    buffers: &Arc<BufferPool>,
) -> Result<Bytes> {
    let wrong = |why: &dyn std::fmt::Display| {
        Error::Invalid(format!("JSON: tensor {:?}: {why}", short(name)))
    };
    if datatype == TEXTS {
        charge.map_or(Ok(()), |charge| charge.add(data.get().len() as u64 * TEXT_FACTOR))?;
        return texts::flat(data).map(Bytes::from).map_err(|why| wrong(&why));
    }
    let unknown = || wrong(&format!("unknown datatype {:?}", short(datatype)));
    let element = element(datatype).ok_or_else(unknown)?;
    let max = data.get().len() as u64 * element.bytes() as u64 / MIN_NUMBER_BYTES;
    charge.map_or(Ok(()), |charge| charge.add(max))?;
    let mut buffer = buffers.take(max as usize);
    flat(data, element, &mut buffer.bytes).map_err(|why| wrong(&why))?;
    Ok(buffer.freeze())
}

/// True if an output is part of the JSON.
fn is_text(output: &ResponseOutput) -> bool {
    !output.is_binary && output.to.is_none()
}

fn write(answer: &InferResponse) -> Response {
    let response = InferResponseJson {
        model_name: answer.model.spec.name.to_string(),
        model_version: answer.model.spec.version.to_string(),
        outputs: answer.tensors().map(|(info, output)| output_json(info, output)).collect(),
        id: answer.id.clone(),
    };
    let binary = answer.outputs.iter().filter(|output| output.is_binary && output.to.is_none());
    let binary: Vec<&[u8]> = binary.map(|output| &*output.bytes).collect();
    let mut body = to_json(&response);
    if binary.is_empty() {
        let kind = HeaderValue::from_static("application/json");
        return ([(header::CONTENT_TYPE, kind)], body).into_response();
    }
    let length = HeaderValue::from(body.len());
    binary.iter().for_each(|bytes| body.extend_from_slice(bytes));
    let kind = HeaderValue::from_static("application/octet-stream");
    ([(JSON_LENGTH, length), (header::CONTENT_TYPE.as_str(), kind)], body).into_response()
}

/// Returns the data of an output for JSON.
pub(super) fn data<'a>(info: &TensorInfo, output: &'a ResponseOutput) -> Option<Data<'a>> {
    let numbers = |element| Data::Numbers(NumberList { element, bytes: &output.bytes });
    output.texts(info).map(Data::Texts).or_else(|| info.element.map(numbers))
}

fn output_json<'a>(info: &'a TensorInfo, output: &'a ResponseOutput) -> OutputTensorJson<'a> {
    let (mut parameters, mut data) = (Map::new(), None);
    match &output.to {
        Some(part) => {
            parameters.insert("shared_memory_region".into(), part.region.as_str().into());
            parameters.insert("shared_memory_offset".into(), part.offset.into());
            parameters.insert("shared_memory_byte_size".into(), part.bytes.into());
        }
        None if output.is_binary => {
            parameters.insert("binary_data_size".into(), output.bytes.len().into());
        }
        None => {
            data = self::data(info, output);
        }
    }
    let (datatype, shape) = output.datatype_and_shape(info);
    OutputTensorJson { name: &info.name, datatype, shape, parameters, data }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::limits::MAX_TENSORS;

    #[test]
    fn length_of_json_is_one_number() {
        let split = |lengths: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for &length in lengths {
                headers.append(JSON_LENGTH, HeaderValue::from_static(length));
            }
            split(&headers, Bytes::from_static(b"{}1234"))
        };
        let (json, binary) = split(&["2"]).unwrap();
        assert_eq!((&*json, &*binary), (&b"{}"[..], &b"1234"[..]));
        let refused: [&[&str]; 4] = [&["2", "6"], &["2", "2"], &["+2"], &["7"]];
        for lengths in refused {
            assert!(matches!(split(lengths), Err(Error::Invalid(_))), "{lengths:?}");
        }
    }

    #[test]
    fn form_of_another_type_is_refused() {
        let read = |request: &str| {
            let (body, buffers) = (request.as_bytes(), BufferPool::new(0));
            read(&HeaderMap::new(), body, Bytes::new(), 1, None, &buffers)
        };
        let tensor = |size: &str| {
            let head = r#"{"inputs": [{"name": "a", "shape": [1], "datatype": "FP32", "data": [1]"#;
            format!("{head}, \"parameters\": {{\"binary_data_size\": {size}}}}}]}}")
        };
        for (request, why) in [
            (
                r#"{"inputs": [], "parameters": {"binary_data_output": "true"}}"#.to_owned(),
                "parameter binary_data_output: must be true or false, got \"true\"",
            ),
            (
                r#"{"inputs": [], "outputs": [{"name": "b", "parameters": {"binary_data": 1}}]}"#
                    .to_owned(),
                "parameter binary_data: must be true or false, got 1",
            ),
            (
                tensor("\"4\""),
                "parameter binary_data_size: must be a non-negative integer, got \"4\"",
            ),
            (tensor("-4"), "parameter binary_data_size: must be a non-negative integer, got a"),
        ] {
            let said = read(&request).unwrap_err().to_string();
            assert!(said.starts_with(why), "{said}");
        }
    }

    #[test]
    fn numbers_that_are_not_finite_are_read_from_a_body() {
        let body = br#"{"id": "NaN", "inputs": [{"name": "a", "shape": [2], "datatype": "FP32", "data": [NaN, -Infinity]}]}"#;
        let buffers = BufferPool::new(0);
        let request = read(&HeaderMap::new(), body, Bytes::new(), 1, None, &buffers).unwrap();
        assert_eq!(request.id, "NaN");
        let TensorData::Bytes(bytes) = &request.inputs[0].from else { panic!("no bytes") };
        let (words, _) = bytes.as_chunks();
        let values: Vec<f32> = words.iter().map(|&word| f32::from_le_bytes(word)).collect();
        assert!(values[0].is_nan() && values[1] == f32::NEG_INFINITY, "{values:?}");
    }

    #[test]
    fn request_with_too_many_tensors_names_the_key() {
        let read = |count: usize, max: usize| {
            let inputs = r#"{"name":"a","shape":[],"datatype":"FP32"},"#.repeat(count);
            let body = format!("{{\"inputs\":[{}]}}", inputs.trim_end_matches(','));
            let buffers = BufferPool::new(0);
            read(&HeaderMap::new(), body.as_bytes(), Bytes::new(), max, None, &buffers)
        };
        let said = read(1025, 1024).unwrap_err().to_string();
        assert_eq!(said, "tensors of a request must be at most 1024 (limits.tensors), got 1025");
        let said = read(MAX_TENSORS + 1, MAX_TENSORS).unwrap_err().to_string();
        assert!(said.contains("a list of at most 4096 (limits.tensors)"), "{said}");
    }
}
