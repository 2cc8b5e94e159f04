//! Inferences.
//!
//! With the header below, the body is JSON of that length and then the raw bytes of those inputs that
//! say `binary_data_size`, one after the other. Answers likewise.

use super::json::{
    InferRequestJson, InferResponseJson, InputJson, OutputJson, OutputTensorJson, parameters,
};
use super::reply::{App, Reply};
use crate::class::{self, Class};
use crate::error::{Error, Result};
use crate::kserve::parameter::place;
use crate::kserve::request::{
    CLASS_HEADER, InferRequest, InferResponse, InputTensor, RequestedOutput, TensorData,
};
use crate::net::identity::peer::Peer;
use crate::net::room::charge::Charge;
#[cfg(feature = "fuzzing")]
use crate::server::Server;
use crate::tensor::{FP32, short, to_floats};
use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};

/// Most bytes that the numbers in a byte of JSON take: `0,` is a float.
const NUMBERS_PER_TEXT: u64 = 2;

/// Most bytes of JSON that a byte of numbers becomes: `-1.1754944e-38,` is a float.
const TEXT_PER_NUMBERS: u64 = 4;

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
    let (json, binary) = split(&headers, body)?;
    let bytes = json.len();
    charge.add(NUMBERS_PER_TEXT * bytes as u64)?;
    let read = move || read(&headers, &json, binary, max);
    let (mut request, is_binary) = server.parsers.run(who, bytes, read).await?;
    (request.model, request.version) = (model, version);
    request.charge = Some(charge.clone());
    let answer = server.answer(&peer, request).await?;
    let (bytes, write) = (answer.bytes.len(), move || Ok(write(answer, is_binary)));
    if is_binary {
        return Ok(write()?);
    }
    charge.add(TEXT_PER_NUMBERS * bytes as u64)?;
    Ok(server.parsers.run(who, bytes, write).await?)
}

/// A request with this body and, perhaps, this length of its JSON; for fuzzers.
#[cfg(feature = "fuzzing")]
pub(crate) async fn fuzz(server: &Server, length: Option<u16>, body: &[u8]) {
    let mut headers = HeaderMap::new();
    headers.extend(length.map(|n| (header::HeaderName::from_static(JSON_LENGTH), n.into())));
    let Ok((json, binary)) = split(&headers, Bytes::copy_from_slice(body)) else { return };
    if let Ok((mut request, binary)) =
        read(&headers, &json, binary, server.config.get().limits.tensors)
    {
        request.model = "tiny".into();
        if let Ok(answer) = server.answer(&Peer::UNKNOWN, request).await {
            let _ = write(answer, binary);
        }
    }
}

/// The request, and whether the output is wanted as binary data.
fn read(
    headers: &HeaderMap,
    json: &[u8],
    mut binary: Bytes,
    max: usize,
) -> Result<(InferRequest, bool)> {
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err(Error::Unimplemented("a compressed body".into()));
    }
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
    let inputs = request.inputs.into_iter().map(|tensor| input(tensor, &mut binary));
    infer.inputs = inputs.collect::<Result<_>>()?;
    if !binary.is_empty() {
        return Err(Error::Invalid(format!("{} bytes behind the last tensor", binary.len())));
    }
    let said = |map: &Map<String, Value>, key: &str| map.get(key).and_then(Value::as_bool);
    let each = request.outputs.first().and_then(|o| said(&o.parameters, "binary_data"));
    let all = said(&request.parameters, "binary_data_output");
    let outputs = request.outputs.into_iter().map(|OutputJson { name, parameters: p }| {
        Ok(RequestedOutput { name, to: place(parameters(&p))? })
    });
    infer.outputs = outputs.collect::<Result<_>>()?;
    Ok((infer, each.or(all).unwrap_or(false)))
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

fn input(tensor: InputJson, binary: &mut Bytes) -> Result<InputTensor> {
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
        (None, None, Some(data)) => TensorData::Bytes(data.0.into()),
        _ => {
            let name = short(&name);
            let text = format!("tensor {name:?}: one of data, binary data and a region is wanted");
            return Err(Error::Invalid(text));
        }
    };
    Ok(InputTensor { name, datatype, shape, from })
}

fn write(answer: InferResponse, binary: bool) -> Response {
    let (mut said, mut data) = (Map::new(), None);
    match &answer.to {
        Some(place) => {
            said.insert("shared_memory_region".into(), place.region.as_str().into());
            said.insert("shared_memory_offset".into(), place.offset.into());
            said.insert("shared_memory_byte_size".into(), place.bytes.into());
        }
        None if binary => {
            said.insert("binary_data_size".into(), answer.bytes.len().into());
        }
        None => data = Some(to_floats(&answer.bytes).collect()),
    }
    let output = answer.output();
    let response = InferResponseJson {
        model_name: answer.model.spec.name.to_string(),
        model_version: answer.model.spec.version.to_string(),
        outputs: [OutputTensorJson {
            name: output.name,
            datatype: FP32,
            shape: output.shape.clone(),
            parameters: said,
            data,
        }],
        id: answer.id,
    };
    if !binary || answer.to.is_some() {
        return axum::Json(response).into_response();
    }
    let mut body = serde_json::to_vec(&response).expect("strings and numbers");
    let length = HeaderValue::from(body.len());
    body.extend_from_slice(&answer.bytes);
    let kind = HeaderValue::from_static("application/octet-stream");
    ([(JSON_LENGTH, length), (header::CONTENT_TYPE.as_str(), kind)], body).into_response()
}
