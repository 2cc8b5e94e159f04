//! Inferences.
//!
//! With the header below, the body is JSON of that length and then the raw bytes of those inputs
//! that say `binary_data_size`, one after the other. Answers likewise.

use super::json::{
    Data, InferRequestJson, InferResponseJson, InputJson, OutputJson, OutputTensorJson, parameters,
};
use super::numbers::{Listed, flat};
use super::reply::{App, Reply};
use crate::class::{self, Class};
use crate::error::{Error, Result};
use crate::kserve::compressed::{Encoding, inflate};
use crate::kserve::infer::request::{
    CLASS_HEADER, InferRequest, InputTensor, RequestedOutput, TensorData,
};
use crate::kserve::infer::response::{AnsweredOutput, InferResponse};
use crate::kserve::parameter::{classes, place};
use crate::net::identity::peer::Peer;
use crate::net::quota::charge::Charge;
use crate::requests::buffer_pool::Pieces;
#[cfg(feature = "fuzzing")]
use crate::server::Server;
use crate::tensor::{TensorInfo, element, short};
use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Bytes of the shortest number in JSON: `0,`.
const SHORTEST: u64 = 2;

/// Most bytes of JSON that a byte of numbers becomes: `-1.1754944e-38,` is a float, `false,` a
/// truth value.
fn text_per_byte(info: &TensorInfo) -> u64 {
    if info.element.bytes() < 4 { 7 } else { 4 }
}

/// The length of the JSON, if binary data follows it.
const JSON_LENGTH: &str = "inference-header-content-length";

type From = Extension<Peer>;
type For = Extension<Charge>;

pub(super) async fn newest(
    state: App,
    (peer, charge): (From, For),
    Path(model): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Reply<Response> {
    version(state, (peer, charge), Path((model, String::new())), headers, body).await
}

pub(super) async fn version(
    State(server): App,
    (Extension(peer), Extension(charge)): (From, For),
    Path((model, version)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Reply<Response> {
    let (max, who) = (server.config.get().limits.tensors, &peer.principal);
    let body = match Encoding::of(&headers, header::CONTENT_ENCODING)? {
        None => body,
        Some(encoding) => {
            let (max, paying) = (server.config.get().limits.message_mib << 20, charge.clone());
            let work = move || inflate(&body, encoding, max, &paying);
            server.parsers.aside(who, charge.clone(), work).await?
        }
    };
    let (json, binary) = split(&headers, body)?;
    let (bytes, paying, pieces) = (json.len(), charge.clone(), server.pieces.clone());
    let read = move || read(&headers, &json, binary, (max, Some(&paying)), &pieces);
    let mut request = server.parsers.run(who, charge.clone(), bytes, read).await?;
    (request.model, request.version) = (model, version);
    request.charge = Some(charge.clone());
    let answer = server.answer(&peer, request).await?;
    let texts = answer.tensors().filter(|(_, output)| is_text(output));
    let (bytes, text) = texts.fold((0, 0), |(bytes, text), (info, output)| {
        let more = output.bytes.len();
        (bytes + more, text + text_per_byte(info) * more as u64)
    });
    charge.add(text)?;
    Ok(server.parsers.run(who, charge.clone(), bytes, move || Ok(write(&answer))).await?)
}

/// A request with this body and, perhaps, this length of its JSON; for fuzzers.
#[cfg(feature = "fuzzing")]
pub(crate) async fn fuzz(server: &Server, length: Option<u16>, body: &[u8]) {
    let mut headers = HeaderMap::new();
    headers.extend(length.map(|n| (header::HeaderName::from_static(JSON_LENGTH), n.into())));
    let Ok((json, binary)) = split(&headers, Bytes::copy_from_slice(body)) else { return };
    if let Ok(mut request) =
        read(&headers, &json, binary, (server.config.get().limits.tensors, None), &server.pieces)
    {
        request.model = "tiny".into();
        if let Ok(answer) = server.answer(&Peer::UNKNOWN, request).await {
            let _ = write(&answer);
        }
    }
}

/// The request. What its numbers take is charged for.
fn read(
    headers: &HeaderMap,
    json: &[u8],
    mut binary: Bytes,
    (max, charge): (usize, Option<&Charge>),
    pieces: &Arc<Pieces>,
) -> Result<InferRequest> {
    let request: InferRequestJson =
        serde_json::from_slice(json).map_err(|e| Error::Invalid(format!("JSON: {e}")))?;
    let given = request.inputs.len().max(request.outputs.len());
    if given > max {
        return Err(Error::Invalid(format!("{given} tensors in a request, {max} are allowed")));
    }
    let mut infer =
        InferRequest { id: request.id, class: class(headers)?, ..InferRequest::default() };
    for (key, value) in parameters(&request.parameters) {
        infer.parameter(key, &value)?;
    }
    let inputs =
        request.inputs.into_iter().map(|tensor| input(tensor, &mut binary, charge, pieces));
    infer.inputs = inputs.collect::<Result<_>>()?;
    if !binary.is_empty() {
        return Err(Error::Invalid(format!("{} bytes behind the last tensor", binary.len())));
    }
    let said = |map: &Map<String, Value>, key: &str| map.get(key).and_then(Value::as_bool);
    infer.binary = said(&request.parameters, "binary_data_output").unwrap_or(false);
    let outputs = request.outputs.into_iter().map(|OutputJson { name, parameters: p }| {
        let binary = said(&p, "binary_data");
        let (to, classes) = (place(parameters(&p))?, classes(parameters(&p))?);
        Ok(RequestedOutput { name, to, binary, classes })
    });
    infer.outputs = outputs.collect::<Result<_>>()?;
    Ok(infer)
}

/// The JSON, and what follows it.
fn split(headers: &HeaderMap, mut body: Bytes) -> Result<(Bytes, Bytes)> {
    let Some(length) = headers.get(JSON_LENGTH) else { return Ok((body, Bytes::new())) };
    let length = length.to_str().ok().and_then(|text| text.parse().ok());
    let length = length.filter(|&length: &usize| length <= body.len()).ok_or_else(|| {
        Error::Invalid(format!("{JSON_LENGTH}: no length of a part of {} bytes", body.len()))
    })?;
    let binary = body.split_off(length);
    Ok((body, binary))
}

fn class(headers: &HeaderMap) -> Result<Option<Class>> {
    let given = headers.get(CLASS_HEADER);
    given.map(|value| class::parse(value.to_str().unwrap_or_default())).transpose()
}

fn input(
    tensor: InputJson<'_>,
    binary: &mut Bytes,
    charge: Option<&Charge>,
    pieces: &Arc<Pieces>,
) -> Result<InputTensor> {
    let InputJson { name, datatype, shape, parameters: p, data } = tensor;
    let size = p.get("binary_data_size").and_then(Value::as_u64);
    let from = match (place(parameters(&p))?, size, data) {
        (Some(place), None, None) => TensorData::Region(place),
        (None, Some(size), None) if size <= binary.len() as u64 => {
            TensorData::Bytes(binary.split_to(size as usize))
        }
        (None, Some(size), None) => {
            let (name, left) = (short(&name), binary.len());
            let text = format!("tensor {name:?}: {size} bytes of binary data, {left} are there");
            return Err(Error::Invalid(text));
        }
        (None, None, Some(data)) => {
            TensorData::Bytes(numbers(&name, &datatype, data, charge, pieces)?)
        }
        _ => {
            let name = short(&name);
            let text = format!("tensor {name:?}: one of data, binary data and a region is wanted");
            return Err(Error::Invalid(text));
        }
    };
    Ok(InputTensor { name, datatype, shape, from })
}

/// The bytes of a tensor that stands in JSON.
fn numbers(
    name: &str,
    datatype: &str,
    data: &RawValue,
    charge: Option<&Charge>,
    pieces: &Arc<Pieces>,
) -> Result<Bytes> {
    let wrong = |why: &dyn std::fmt::Display| {
        Error::Invalid(format!("JSON: tensor {:?}: {why}", short(name)))
    };
    let unknown = || wrong(&format!("no datatype {:?}", short(datatype)));
    let element = element(datatype).ok_or_else(unknown)?;
    let most = data.get().len() as u64 * element.bytes() as u64 / SHORTEST;
    charge.map_or(Ok(()), |charge| charge.add(most))?;
    let mut piece = pieces.take(most as usize);
    flat(data, element, &mut piece.bytes).map_err(|why| wrong(&why))?;
    Ok(piece.freeze())
}

/// Whether an output stands in the JSON.
fn is_text(output: &AnsweredOutput) -> bool {
    !output.binary && output.to.is_none()
}

fn write(answer: &InferResponse) -> Response {
    let response = InferResponseJson {
        model_name: answer.model.spec.name.to_string(),
        model_version: answer.model.spec.version.to_string(),
        outputs: answer.tensors().map(|(info, output)| written(info, output)).collect(),
        id: answer.id.clone(),
    };
    let binary = answer.outputs.iter().filter(|output| output.binary && output.to.is_none());
    let binary: Vec<&[u8]> = binary.map(|output| &*output.bytes).collect();
    if binary.is_empty() {
        return axum::Json(response).into_response();
    }
    let mut body = serde_json::to_vec(&response).expect("strings and numbers");
    let length = HeaderValue::from(body.len());
    binary.iter().for_each(|bytes| body.extend_from_slice(bytes));
    let kind = HeaderValue::from_static("application/octet-stream");
    ([(JSON_LENGTH, length), (header::CONTENT_TYPE.as_str(), kind)], body).into_response()
}

fn written<'a>(info: &'a TensorInfo, output: &'a AnsweredOutput) -> OutputTensorJson<'a> {
    let (mut said, mut data) = (Map::new(), None);
    match &output.to {
        Some(place) => {
            said.insert("shared_memory_region".into(), place.region.as_str().into());
            said.insert("shared_memory_offset".into(), place.offset.into());
            said.insert("shared_memory_byte_size".into(), place.bytes.into());
        }
        None if output.binary => {
            said.insert("binary_data_size".into(), output.bytes.len().into());
        }
        None => {
            let numbers = || Data::Numbers(Listed { element: info.element, bytes: &output.bytes });
            data = Some(output.texts().map_or_else(numbers, Data::Texts));
        }
    }
    let (datatype, shape) = output.shown(info);
    OutputTensorJson { name: &info.name, datatype, shape, parameters: said, data }
}
